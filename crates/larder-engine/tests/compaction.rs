//! Memory of removed records is given back, and nothing is lost on the way. In a process of its own, whose memory no other test
//! uses.

use larder_engine::Ttl;
use larder_engine::raw::{Cache, Compaction, Key, Record, RecordMemory};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

const RECORDS: u32 = 200_000;

fn cache() -> Cache<Vec<u8>> {
    Cache::builder()
        .weight(1 << 30, |record, ()| record.bytes_allocated() as u64)
        .build()
        .expect("valid options")
}

fn value(n: u32, round: u8) -> Vec<u8> {
    let mut value = vec![round; 20 + n as usize % 300];
    value[..4].copy_from_slice(&n.to_le_bytes());
    value
}

/// Stores a record of any kind: bytes in the block, shared bytes, an object, or with a name that lies outside.
fn store(cache: &Cache<Vec<u8>>, n: u32, round: u8) {
    let name = name(n);
    let (key, value) = (Key { space: 0, name: &name }, value(n, round));
    let record = match n % 1_000 {
        1 => Record::with_object(key, Box::new(value)),
        2 => Record::new(key, &[&value, &[0; 5_000]]),
        _ => Record::new(key, &[&value]),
    };
    cache.insert_with_ttl(record, (), Ttl::Never);
}

fn name(n: u32) -> Vec<u8> {
    let mut name = format!("key:{n}").into_bytes();
    name.resize(if n % 1_000 == 3 { 6_000 } else { 16 }, b' ');
    name
}

fn assert_value(cache: &Cache<Vec<u8>>, n: u32, rounds: std::ops::RangeInclusive<u8>) {
    let name = name(n);
    let is_right = cache.read(Key { space: 0, name: &name }, |record| {
        let bytes = record.bytes().or(record.object().map(Vec::as_slice)).expect("a value");
        let round = bytes[4];
        rounds.contains(&round) && bytes.starts_with(&value(n, round))
    });
    assert_eq!(is_right, Some(true), "record {n}");
}

/// Compacts until there is nothing to do, and returns how many walks it took.
fn compact(cache: &Cache<Vec<u8>>) -> usize {
    let mut walks = 0;
    while let Some(mut compaction) = Compaction::begin() {
        assert!(compaction.pages() > 0);
        while cache.compact(&mut compaction, 1_000) {}
        assert!(compaction.emptied() <= compaction.pages());
        walks += 1;
        assert!(walks < 20, "{:?}", RecordMemory::now());
    }
    walks
}

#[test]
fn pages_that_removed_records_leave_half_empty_come_back() {
    let cache = cache();
    (0..RECORDS).for_each(|n| store(&cache, n, 1));
    let full = RecordMemory::now();
    assert!(full.free_bytes < full.used_bytes / 8, "{full:?}");
    assert_eq!(compact(&cache), 0, "there is nothing to do");

    let stays = |n: u32| n % 4 == 1;
    (0..RECORDS)
        .filter(|n| !stays(*n))
        .for_each(|n| assert!(cache.remove(&Key { space: 0, name: &name(n) }).is_some()));
    assert!(RecordMemory::now().used_bytes > full.used_bytes / 2, "most pages have a record");
    assert!(compact(&cache) > 0);
    let compacted = RecordMemory::now();
    assert!(compacted.used_bytes < full.used_bytes * 3 / 8, "{compacted:?} of {full:?}");
    (0..RECORDS).filter(|n| stays(*n)).for_each(|n| assert_value(&cache, n, 1..=1));
    cache.validate();

    // While others read, replace and remove.
    (0..RECORDS).filter(|n| !stays(*n)).for_each(|n| store(&cache, n, 2));
    (0..RECORDS).filter(|n| n % 4 >= 2).for_each(|n| _ = cache.remove(&Key { space: 0, name: &name(n) }));
    let done = AtomicBool::new(false);
    thread::scope(|scope| {
        let (cache, done) = (&cache, &done);
        for offset in 0..2 {
            scope.spawn(move || {
                for round in (3..=250).cycle() {
                    for n in (0..RECORDS).filter(|n| n % 4 == 1).skip(offset).step_by(97) {
                        store(cache, n, round);
                        assert_value(cache, n, 0..=u8::MAX);
                    }
                    if done.load(Ordering::Relaxed) {
                        return;
                    }
                }
            });
        }
        compact(cache);
        done.store(true, Ordering::Relaxed);
    });
    (0..RECORDS).filter(|n| n % 4 < 2).for_each(|n| assert_value(&cache, n, 0..=u8::MAX));
    cache.validate();

    (0..RECORDS).filter(|n| n % 4 == 0).for_each(|n| _ = cache.remove(&Key { space: 0, name: &name(n) }));
    // A walk by another thread, while this one holds all shards, moves nothing and does not wait.
    thread::scope(|scope| {
        let (done, result) = mpsc::channel();
        let (cache, _held) = (&cache, cache.lock_everything());
        scope.spawn(move || {
            let mut compaction = Compaction::begin().expect("half of the records are gone");
            let has_more = cache.compact(&mut compaction, 1_000);
            done.send((has_more, compaction.emptied()))
        });
        assert_eq!(result.recv_timeout(Duration::from_secs(60)), Ok((false, 0)));
    });
    // The pages of one cache do not become empty by a walk over another.
    let mut in_vain = Compaction::begin().expect("half of the records are gone");
    assert!(!self::cache().compact(&mut in_vain, 1 << 32), "there are no more slots than that");
    assert_eq!(in_vain.emptied(), 0);
    while cache.compact(&mut in_vain, 1_000) {}
    drop(in_vain);

    cache.clear();
    // What this thread has free goes back with the attempt.
    assert_eq!(compact(&cache), 0, "nothing is left to move");
    let left = RecordMemory::now();
    assert!(left.used_bytes < full.used_bytes / 50, "{left:?}");
}

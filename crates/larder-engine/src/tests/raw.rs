//! Records: updated in place, several in one atomic step, and weighed by their bytes.

use crate::mutex::Mutex;
use crate::raw::{Cache, Entry, Key, Lengthened, Measurement, Record, UpdateOp};
use crate::{Clock, Evictable, Op, Refusal, Ttl};
use proptest::prelude::*;
use std::collections::HashMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc;
use std::time::Duration;

fn cache(capacity: u64, shards: usize) -> Cache {
    let weigh = |record: &Record, (): &()| record.bytes_allocated() as u64 + 48;
    Cache::builder().weight(capacity, weigh).shards(shards).build().expect("valid options")
}

fn key(name: &[u8]) -> Key<'_> {
    Key { space: 0, name }
}

fn put(cache: &Cache, name: &[u8], value: &[u8]) -> bool {
    !cache.insert_with_ttl(Record::new(key(name), &[value]), (), Ttl::Never).is_refused()
}

#[derive(Clone, Debug)]
enum Step {
    Put(u8, Vec<u8>),
    Append(u8, Vec<u8>),
    Flip(u8),
    Expire(u8, u16),
    Remove(u8),
    Advance(u16),
    PutBoth(u8, u8, Vec<u8>),
    RemoveBoth(u8, u8),
}

fn step() -> impl Strategy<Value = Step> {
    let bytes = || proptest::collection::vec(any::<u8>(), 0..200);
    prop_oneof![
        3 => (0u8..32, bytes()).prop_map(|(name, value)| Step::Put(name, value)),
        2 => (0u8..32, bytes()).prop_map(|(name, tail)| Step::Append(name, tail)),
        2 => (0u8..32).prop_map(Step::Flip),
        1 => (0u8..32, 1u16..500).prop_map(|(name, ms)| Step::Expire(name, ms)),
        1 => (0u8..32).prop_map(Step::Remove),
        1 => (1u16..300).prop_map(Step::Advance),
        1 => (0u8..32, 0u8..32, bytes()).prop_map(|(one, other, value)| Step::PutBoth(one, other, value)),
        1 => (0u8..32, 0u8..32).prop_map(|(one, other)| Step::RemoveBoth(one, other)),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn records_match_a_map_of_bytes(steps in proptest::collection::vec(step(), 1..150), shards in 1usize..5) {
        let (clock, hand) = Clock::manual();
        let weigh = |record: &Record, (): &()| record.bytes_allocated() as u64;
        // The validation after each step counts the entries of each partition.
        let parity = |record: &Record| usize::from(record.key().name[0] % 2);
        let builder = Cache::builder().weight(1 << 20, weigh).clock(clock).shards(shards).partitions(2, parity);
        let cache: Cache = builder.build().expect("valid options");
        let mut model: HashMap<u8, (Vec<u8>, u64)> = HashMap::new();
        let mut now = 0;
        for step in steps {
            match step {
                Step::Put(name, value) => {
                    put(&cache, &[name], &value);
                    model.insert(name, (value, u64::MAX));
                }
                Step::Append(name, tail) => {
                    let name_bytes = [name];
                    let updated = cache.update(key(&name_bytes), |entry| {
                        let head = entry.as_ref().and_then(|entry| entry.record().bytes()).unwrap_or_default();
                        (UpdateOp::Put(Record::new(key(&name_bytes), &[head, &tail]), Ttl::Keep), head.len())
                    });
                    let updated = updated.expect("there is room");
                    let kept = model.entry(name).or_insert((Vec::new(), u64::MAX));
                    prop_assert_eq!((updated.result, updated.is_new), (kept.0.len(), updated.is_new));
                    kept.0.extend(tail);
                }
                Step::Flip(name) => {
                    let flipped = cache.update(key(&[name]), |mut entry| {
                        if let Some(value) = entry.as_mut().and_then(Entry::bytes_mut) {
                            value.iter_mut().for_each(|byte| *byte = !*byte);
                        }
                        (UpdateOp::Keep, ())
                    });
                    prop_assert!(!flipped.expect("nothing is stored").is_new);
                    model.entry(name).and_modify(|(value, _)| value.iter_mut().for_each(|byte| *byte = !*byte));
                }
                Step::Expire(name, ms) => {
                    let ttl = Ttl::After(Duration::from_millis(ms.into()));
                    cache.update(key(&[name]), |_| (UpdateOp::SetTtl(ttl), ())).expect("nothing is stored");
                    model.entry(name).and_modify(|(_, at)| *at = now + u64::from(ms));
                }
                Step::Remove(name) => {
                    prop_assert_eq!(cache.remove(&key(&[name])).is_some(), model.remove(&name).is_some());
                }
                Step::Advance(ms) => {
                    hand.advance(Duration::from_millis(ms.into()));
                    now += u64::from(ms);
                    model.retain(|_, (_, at)| *at > now);
                }
                Step::PutBoth(one, other, value) => {
                    let names = [[one], [other]];
                    let mut locked = cache.lock_all(names.iter().map(|name| key(name)));
                    for name in &names {
                        prop_assert_eq!(locked.contains(key(name)), model.contains_key(&name[0]));
                        let is_new = locked.insert(Record::new(key(name), &[&value]), Ttl::Never);
                        prop_assert_eq!(is_new, Ok(model.insert(name[0], (value.clone(), u64::MAX)).is_none()));
                    }
                }
                Step::RemoveBoth(one, other) => {
                    let names = [[one], [other]];
                    let mut locked = cache.lock_all(names.iter().map(|name| key(name)));
                    for name in &names {
                        let known = model.remove(&name[0]);
                        let deadline = known.as_ref().map(|(_, at)| Some(*at).filter(|at| *at != u64::MAX));
                        prop_assert_eq!(locked.deadline_ms(key(name)), deadline);
                        let value = locked.read(key(name), |record| record.bytes().expect("bytes").to_vec());
                        prop_assert_eq!(value.as_ref(), known.as_ref().map(|(value, _)| value));
                        prop_assert_eq!(locked.remove(key(name)), known.is_some());
                    }
                }
            }
            cache.validate();
            let counts = [0, 1].map(|parity| cache.partition_stats(parity));
            prop_assert_eq!(counts.map(|count| count.entries).iter().sum::<u64>(), cache.len() as u64);
            for name in 0..32 {
                let found = cache.read(key(&[name]), |record| record.bytes().expect("bytes").to_vec());
                prop_assert_eq!(found, model.get(&name).map(|(value, _)| value.clone()), "name {}", name);
            }
        }
    }
}

#[test]
fn locked_keys_change_atomically() {
    let cache = cache(1 << 20, 8);
    let names: Vec<[u8; 1]> = (0..16).map(|name| [name]).collect();
    let write = |value: &[u8]| {
        let mut locked = cache.lock_all(names.iter().map(|name| key(name)));
        names.iter().for_each(|name| _ = locked.insert(Record::new(key(name), &[value]), Ttl::Never));
    };
    write(b"0");
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        // Writers of overlapping sets, and of single keys between them.
        for thread in [b"a", b"b"] {
            let write = &write;
            scope.spawn(move || (0..300).for_each(|_| write(thread)));
        }
        scope.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                put(&cache, b"beside", b"1");
            }
        });
        for _ in 0..300 {
            let locked = cache.lock_all(names.iter().map(|name| key(name)));
            let values: Vec<Vec<u8>> = names
                .iter()
                .map(|name| {
                    locked.peek(key(name), |record| record.bytes().expect("bytes").to_vec()).expect("written")
                })
                .collect();
            assert!(values.iter().all(|value| *value == values[0]), "{values:?}");
        }
        done.store(true, Ordering::Relaxed);
    });
    cache.validate();
}

/// A caller that has locked all shards can only evict from those.
#[test]
fn lock_all_shards_insert_evicts_from_locked_shards() {
    let cache = cache(64 * 100, 8);
    let names: Vec<[u8; 1]> = (0..=255).map(|name| [name]).collect();
    for round in 0..20u8 {
        let mut locked = cache.lock_all(names.iter().map(|name| key(name)));
        for name in &names {
            assert!(locked.insert(Record::new(key(name), &[&[round; 40]]), Ttl::Never).is_ok());
        }
        drop(locked);
        cache.validate();
    }
    let heavy =
        cache.lock_all([key(b"heavy")]).insert(Record::new(key(b"heavy"), &[&[0; 10_000]]), Ttl::Never);
    assert!(matches!(heavy, Err(Refusal::TooHeavy { .. })), "{heavy:?}");
}

/// The cursor is a rank of hashes, so it stays valid after the table has grown.
#[test]
fn scan_during_growth_returns_each_entry_once() {
    let cache = cache(1 << 30, 4);
    let stays: Vec<[u8; 4]> = (0..2_000u32).map(u32::to_le_bytes).collect();
    stays.iter().for_each(|name| assert!(put(&cache, name, b"")));
    let mut seen: HashMap<Vec<u8>, u32> = HashMap::new();
    let (mut cursor, mut added) = (0, 1_000_000u32);
    loop {
        cursor =
            cache.scan(cursor, 50, |entry| *seen.entry(entry.key().key().name.to_vec()).or_default() += 1);
        if cursor == 0 {
            break;
        }
        // Much at first, and then nothing: a cache that grows faster than it is walked is never walked to its end.
        for _ in 0..500 * u32::from(added < 1_010_000) {
            added += 1;
            put(&cache, &added.to_le_bytes(), b"");
        }
    }
    assert!(cache.len() > 10_000, "it grew: {}", cache.len());
    assert!(stays.iter().all(|name| seen.get(&name[..]) == Some(&1)), "each once");
}

/// A replacing record also replaces the key, because both lie in one block.
#[test]
fn put_over_a_record_replaces_its_bytes() {
    let cache = cache(1 << 20, 1);
    put(&cache, b"name", b"before");
    let computed = cache.compute(Record::new(key(b"name"), &[b"after"]), |_| (Op::Put((), Ttl::Never), ()));
    assert_eq!(computed.refused, None);
    assert_eq!(
        cache.read(key(b"name"), |record| record.bytes().expect("bytes").to_vec()),
        Some(b"after".to_vec())
    );
}

#[test]
fn retain_from_visits_each_entry_once_in_slices() {
    let cache = cache(1 << 20, 4);
    (0..1_000u16).for_each(|name| assert!(put(&cache, &name.to_be_bytes(), b"value")));
    let (mut cursor, mut slices, mut visited) = (0, 0, 0);
    loop {
        let mut in_slice = 0;
        cursor = cache.retain_from(cursor, 50, |record, ()| {
            in_slice += 1;
            record.key().name[1] % 2 == 0
        });
        assert!(in_slice < 50 + 128, "a slice of {in_slice} entries");
        (slices, visited) = (slices + 1, visited + in_slice);
        if cursor == 0 {
            break;
        }
    }
    assert_eq!((visited, cache.len()), (1_000, 500));
    assert!(slices >= 5, "{slices} slices");
    cache.validate();
}

/// An object that changes its weight.
fn cache_of_objects(capacity: u64, shards: usize) -> Cache<Vec<u8>> {
    let weigh =
        |record: &Record<Vec<u8>>, (): &()| 100 + record.object().map_or(0, |object| object.len() as u64);
    Cache::builder().weight(capacity, weigh).shards(shards).build().expect("valid options")
}

fn put_object(cache: &Cache<Vec<u8>>, name: &[u8], bytes: usize) -> bool {
    let record = Record::with_object(key(name), Box::new(vec![0; bytes]));
    !cache.insert_with_ttl(record, (), Ttl::Never).is_refused()
}

fn resize(entry: Option<Entry<'_, Vec<u8>>>, bytes: usize) -> (UpdateOp<Vec<u8>>, bool) {
    match entry.and_then(Entry::into_object_mut) {
        Some(object) => {
            object.resize(bytes, 0);
            (UpdateOp::Edited(Ttl::Keep), true)
        }
        _ => (UpdateOp::Keep, false),
    }
}

#[test]
fn edited_object_is_weighed_again() {
    let cache = cache_of_objects(10_000, 4);
    (0..20).for_each(|name: u8| assert!(put_object(&cache, &[name], 0)));
    assert_eq!((cache.weight(), cache.len()), (2_000, 20));
    for (bytes, weight, entries) in
        [(3_000, 5_000, 20), (1_000, 3_000, 20), (9_000, 10_000, 10), (0, 1_000, 10)]
    {
        let edited = cache.update(key(&[0]), |entry| resize(entry, bytes)).expect("it fits");
        assert!(edited.result, "the edited entry is not evicted");
        cache.validate();
        assert_eq!((cache.weight(), cache.len()), (weight, entries), "{bytes} bytes");
    }
    let refused = cache.update(key(&[0]), |entry| resize(entry, 10_000)).map(|_| ());
    assert_eq!(refused, Err(Refusal::TooHeavy { weight: 10_100, limit: 10_000 }));
    cache.validate();
    assert_eq!((cache.weight(), cache.len()), (900, 9), "it is removed");
}

#[test]
fn lengthened_value_is_weighed_again() {
    let cache = cache(50_000, 1);
    assert!(put(&cache, b"other", &[1; 20_000]) && put(&cache, b"long", &[2; 20_000]));
    let before = cache.weight();
    let lengthen = |length| {
        let lengthened = |entry: Option<Entry<'_>>| {
            let lengthened = entry.map(|mut entry| entry.lengthen(length, length + length / 4));
            let is_longer = lengthened.is_some_and(|outcome| !matches!(outcome, Lengthened::Unchanged));
            (UpdateOp::Edited(Ttl::Keep), is_longer)
        };
        cache.update(key(b"long"), lengthened).map(|updated| updated.result)
    };
    assert_eq!(lengthen(21_000), Ok(true));
    cache.validate();
    // With the room that it has got.
    assert_eq!((cache.weight() - before, cache.len()), (21_000 + 21_000 / 4 - 20_000, 2));
    assert_eq!(lengthen(22_000), Ok(true));
    assert_eq!(cache.weight() - before, 21_000 + 21_000 / 4 - 20_000, "it grows into its room");
    assert_eq!(lengthen(37_000), Ok(true));
    cache.validate();
    assert!(cache.weight() < 50_000 && cache.len() == 1, "another one is evicted for it");
    assert!(matches!(lengthen(60_000), Err(Refusal::TooHeavy { .. })), "{:?}", cache.len());
    assert_eq!((cache.weight(), cache.len()), (0, 0), "it is removed");
}

/// The entries that could make room are in shards that the caller has locked, and then in its own only.
#[test]
fn edit_of_a_locked_object_evicts_from_locked_shards() {
    let cache = cache_of_objects(10_000, 8);
    let names: Vec<[u8; 1]> = (0..90).map(|name| [name]).collect();
    names.iter().for_each(|name| assert!(put_object(&cache, name, 0)));
    let mut locked = cache.lock_all(names.iter().map(|name| key(name)));
    for bytes in [1_000, 5_000, 9_900] {
        assert_eq!(locked.update(key(&[7]), |entry| resize(entry, bytes)), Ok(true), "{bytes} bytes");
    }
    let record = Record::with_object(key(&[1]), Box::new(Vec::new()));
    let put = locked.update(key(&[1]), |_| (UpdateOp::Put(record, Ttl::Never), ()));
    assert_eq!(put, Ok(()), "the heavy one makes room");
    let taken = locked.take(key(&[1])).expect("stored");
    assert_eq!(locked.insert(taken.with_key(key(&[2])), Ttl::Never), Ok(true));
    drop(locked);
    cache.validate();
    assert_eq!((cache.len(), cache.weight()), (1, 100));
}

/// Writes on two threads that edit objects in different shards make room in each other's.
#[test]
fn edits_of_objects_on_two_threads_stay_within_the_capacity() {
    let cache = cache_of_objects(3_000, 2);
    let names: Vec<[u8; 1]> = (0..8).map(|name| [name]).collect();
    std::thread::scope(|scope| {
        for thread in 0..2 {
            let (cache, names) = (&cache, &names);
            scope.spawn(move || {
                for round in 0..3_000 {
                    let name = &names[(round * 3 + thread) % names.len()];
                    put_object(cache, name, round % 7 * 100);
                    let edited = cache.update(key(name), |entry| resize(entry, round % 29 * 100));
                    assert!(edited.is_ok(), "{edited:?}");
                    assert!(cache.weight() <= 3_000);
                }
            });
        }
    });
    cache.validate();
}

#[test]
fn partitions_count_entries_and_deadlines() {
    let (clock, hand) = Clock::manual();
    let of = |record: &Record| usize::from(record.key().space);
    let builder = Cache::builder().weight(1 << 20, |_, ()| 100).clock(clock).shards(2).partitions(2, of);
    let cache: Cache = builder.build().expect("valid options");
    let put = |space, name: &[u8], ttl| {
        _ = cache.insert_with_ttl(Record::new(Key { space, name }, &[]), (), ttl);
    };
    let counts = || {
        [0, 1].map(|space| {
            let counts = cache.partition_stats(space);
            (counts.entries, counts.with_deadline)
        })
    };
    let (soon, later) = (Ttl::After(Duration::from_millis(10)), Ttl::After(Duration::from_secs(10)));
    put(0, b"a", Ttl::Never);
    put(1, b"a", soon);
    put(1, b"b", later);
    assert_eq!(counts(), [(1, 0), (2, 2)]);
    put(0, b"a", later);
    put(1, b"b", Ttl::Never);
    assert_eq!(counts(), [(1, 1), (2, 1)]);
    hand.advance(Duration::from_secs(1));
    cache.run_due(100);
    assert_eq!(counts(), [(1, 1), (1, 0)]);
    // The slots are used again.
    (100..200).for_each(|name| put(1, &[name], if name % 2 == 0 { later } else { Ttl::Never }));
    assert_eq!(counts(), [(1, 1), (101, 50)]);
    cache.clear();
    assert_eq!(counts(), [(0, 0); 2]);
}

#[test]
fn expiry_is_told_before_the_update_that_finds_it() {
    let told = Arc::new(Mutex::new(Vec::new()));
    let (log, (clock, hand)) = (told.clone(), Clock::manual());
    let builder = Cache::builder().weight(1 << 20, |_: &Record, (): &()| 1).clock(clock);
    let builder = builder.loss_listener(move |_, cause| log.lock().push(format!("{cause:?}")));
    let cache: Cache = builder.build().expect("valid options");
    for round in 0..2 {
        let store = |entry: Option<crate::raw::Entry<'_>>| {
            told.lock().push(format!("stored over {}", entry.is_some()));
            (UpdateOp::Put(Record::new(key(b"k"), &[b"v"]), Ttl::After(Duration::from_millis(5))), ())
        };
        let stored = match round {
            0 => cache.update(key(b"k"), store).map(drop),
            _ => cache.lock_all([key(b"k")]).update(key(b"k"), store),
        };
        assert!(stored.is_ok());
        hand.advance(Duration::from_millis(300));
    }
    cache.lock_all([key(b"k")]).discard_expired(key(b"k"));
    assert_eq!(*told.lock(), ["stored over false", "Expired", "stored over false", "Expired"]);
}

#[test]
fn locked_update_does_what_update_does() {
    let (clock, _) = Clock::manual();
    let weigh = |record: &Record, (): &()| record.bytes_allocated() as u64 + 48;
    let [plain, other] = [(); 2].map(|()| {
        let builder = Cache::builder().weight(1 << 20, weigh).clock(clock.clone()).shards(4);
        builder.build().expect("valid options")
    });
    type Operation = fn(Option<crate::raw::Entry<'_>>) -> UpdateOp;
    let steps: [Operation; 8] = [
        |_| UpdateOp::Keep,
        |_| UpdateOp::Remove,
        |_| UpdateOp::Put(Record::new(key(b"k"), &[b"one"]), Ttl::At(500)),
        |_| UpdateOp::Put(Record::new(key(b"k"), &[b"two", b" parts"]), Ttl::Keep),
        |mut entry| {
            if let Some(value) = entry.as_mut().and_then(crate::raw::Entry::bytes_mut) {
                value[0] = b'T';
            }
            UpdateOp::Edited(Ttl::Keep)
        },
        |_| UpdateOp::SetTtl(Ttl::At(700)),
        |_| UpdateOp::Edited(Ttl::Never),
        |_| UpdateOp::Remove,
    ];
    for step in steps {
        let seen = |entry: &Option<crate::raw::Entry<'_>>| {
            entry.as_ref().map(|entry| entry.record().bytes().map(<[u8]>::to_vec))
        };
        let expected = plain.update(key(b"k"), |entry| {
            let value = seen(&entry);
            (step(entry), value)
        });
        let mut locked = other.lock_all([key(b"k")]);
        let actual = locked.update(key(b"k"), |entry| {
            let value = seen(&entry);
            (step(entry), value)
        });
        assert_eq!(actual, expected.map(|updated| updated.result));
        let state = locked.peek_with(key(b"k"), |entry| {
            (entry.key().bytes().map(<[u8]>::to_vec), entry.deadline_ms(), entry.weight())
        });
        drop(locked);
        let state_of_plain = plain.peek_with(&key(b"k"), |entry| {
            (entry.key().bytes().map(<[u8]>::to_vec), entry.deadline_ms(), entry.weight())
        });
        assert_eq!(state, state_of_plain);
        assert_eq!(plain.weight(), other.weight());
        other.validate();
    }
}

#[test]
fn locked_scan_and_retain_visit_every_entry() {
    let cache = cache(1 << 20, 4);
    (0..100u8).for_each(|name| assert!(put(&cache, &[name], b"v")));
    let mut locked = cache.lock_everything();
    assert_eq!(locked.stats().entries, 100);
    let (mut names, mut cursor) = (Vec::new(), 0);
    loop {
        cursor = locked.scan(cursor, 7, |entry| names.push(entry.key().key().name[0]));
        if cursor == 0 {
            break;
        }
    }
    names.sort_unstable();
    assert_eq!(names, (0..100).collect::<Vec<u8>>());
    locked.retain(|record| record.key().name[0] % 2 == 0);
    drop(locked);
    assert_eq!(cache.len(), 50);
    cache.validate();
}

type Log = Arc<Mutex<Vec<String>>>;

/// An object that logs when it is dropped.
#[derive(Debug)]
struct Logged(&'static str, Log);

impl Drop for Logged {
    fn drop(&mut self) {
        self.1.lock().push(format!("{} dropped", self.0));
    }
}

/// A cache that evicts nothing and logs what is removed. Its entries weigh one, and one with the name "heavy" is too heavy.
fn logged_cache(log: &Log) -> Cache<Logged> {
    let weigh = |record: &Record<Logged>, (): &()| if record.key().name == b"heavy" { 11 } else { 1 };
    let told = log.clone();
    let builder = Cache::builder().weight(10, weigh).shards(1).evictable(Evictable::Nothing);
    let builder = builder.listener(move |record: &Record<Logged>, (), cause| {
        told.lock().push(format!("{} {cause:?}", record.object().expect("an object").0));
    });
    builder.build().expect("valid options")
}

#[test]
fn locked_records_that_leave_are_told_and_dropped_after_the_locks() {
    let log = Log::default();
    let cache = logged_cache(&log);
    let record = |name, object| Record::with_object(key(name), Box::new(Logged(object, log.clone())));
    let mut locked = cache.lock_all([key(b"a"), key(b"heavy")]);
    assert_eq!(locked.insert(record(b"a", "first"), Ttl::Never), Ok(true));
    assert_eq!(locked.restore(record(b"a", "second"), Ttl::Never), Ok(false));
    assert!(locked.insert(record(b"heavy", "refused"), Ttl::Never).is_err());
    let put = locked.update(key(b"heavy"), |_| (UpdateOp::Put(record(b"heavy", "put"), Ttl::Never), ()));
    assert!(put.is_err());
    log.lock().push("unlock".to_owned());
    drop(locked);
    assert_eq!(*log.lock(), ["unlock", "first Replaced", "first dropped", "refused dropped", "put dropped"]);
}

#[test]
fn locked_update_that_panics_keeps_earlier_removals_for_the_listener() {
    let log = Log::default();
    let cache = logged_cache(&log);
    for (name, object) in [(b"a", "one"), (b"b", "other")] {
        let record = Record::with_object(key(name), Box::new(Logged(object, log.clone())));
        cache.insert_with_ttl(record, (), Ttl::Never);
    }
    let updated = catch_unwind(AssertUnwindSafe(|| {
        let mut locked = cache.lock_all([key(b"a"), key(b"b")]);
        assert!(locked.remove(key(b"a")));
        locked.update(key(b"b"), |_| -> (UpdateOp<Logged>, ()) {
            log.lock().push("panic".to_owned());
            panic!("the closure fails")
        })
    }));
    assert!(updated.is_err());
    assert_eq!(*log.lock(), ["panic", "one Invalidated", "one dropped"]);
    assert_eq!((cache.len(), cache.weight()), (1, 1));
    cache.validate();
}

/// One victim after the other made the write start again, from its weight to the search of all shards.
#[test]
fn locked_write_makes_its_whole_room_at_once() {
    static PARTITIONED: AtomicUsize = AtomicUsize::new(0);
    let weighed = Arc::new(AtomicUsize::new(0));
    let weigh = {
        let weighed = weighed.clone();
        move |record: &Record<Vec<u8>>, (): &()| {
            weighed.fetch_add(1, Ordering::Relaxed);
            1 + record.object().map_or(0, |object| object.len() as u64)
        }
    };
    let partition = |_: &Record<Vec<u8>>| {
        PARTITIONED.fetch_add(1, Ordering::Relaxed);
        0
    };
    let builder = Cache::builder().weight(1_000, weigh).shards(8).partitions(1, partition);
    let cache: Cache<Vec<u8>> = builder.build().expect("valid options");
    let fill = || (0..1_000u16).for_each(|name| assert!(put_object(&cache, &name.to_le_bytes(), 0)));
    let counts = || [&PARTITIONED, &*weighed].map(|count| count.load(Ordering::Relaxed));

    fill();
    let mut locked = cache.lock_everything();
    let [partitioned_before, weighed_before] = counts();
    let record = Record::with_object(key(b"heavy"), Box::new(vec![0; 499]));
    assert_eq!(locked.insert(record, Ttl::Never), Ok(true));
    let [partitioned, weighed] = counts();
    assert_eq!(weighed - weighed_before, 1);
    // One call for each of the 500 victims, one for the check of the key and one for its entry.
    assert_eq!(partitioned - partitioned_before, 502);
    drop(locked);
    cache.validate();
    let drained = cache.shards().each().filter(|shard| shard.len() == 0).count();
    assert_eq!(drained, 0, "all shards give some of their entries");

    cache.clear();
    fill();
    let mut locked = cache.lock_everything();
    let [_, weighed_before] = counts();
    assert_eq!(locked.update(key(&[0, 0]), |entry| resize(entry, 500)), Ok(true));
    let [_, weighed] = counts();
    assert_eq!(weighed - weighed_before, 1);
    drop(locked);
    cache.validate();
}

/// The result of some upkeep by another thread, while this one holds the shard of a key.
fn beside_held_shard<R: Send + 'static>(
    cache: &Cache,
    held: Key<'_>,
    upkeep: impl FnOnce(&Cache) -> R + Send + 'static,
) -> R {
    let _held = cache.lock_all([held]);
    let (cache, (done, result)) = (cache.clone(), mpsc::channel());
    std::thread::spawn(move || done.send(upkeep(&cache)));
    result.recv_timeout(Duration::from_secs(60)).expect("it does not wait for the shard")
}

/// A transaction may hold a shard for seconds, and the thread that does the upkeep has others to serve.
#[test]
fn run_due_and_measure_skip_shards_that_another_thread_holds() {
    let (clock, hand) = Clock::manual();
    let builder = Cache::builder().weight(1_000, |_: &Record, ()| 1).shards(4).clock(clock);
    let cache: Cache = builder.build().expect("valid options");
    let names: Vec<_> = (0..100u32).map(u32::to_le_bytes).collect();
    for name in &names {
        cache.insert_with_ttl(Record::new(key(name), &[]), (), Ttl::After(Duration::from_secs(1)));
    }
    let mut measurement = beside_held_shard(&cache, key(&names[0]), |cache| {
        let mut measurement = Measurement::default();
        cache.measure(&mut measurement, usize::MAX);
        measurement
    });
    let others = measurement.entries();
    assert!(others > 0 && others < 100, "{others} entries in the other shards");
    cache.measure(&mut measurement, usize::MAX);
    assert_eq!((measurement.entries(), measurement.bytes()), (100, cache.bytes_allocated()));

    hand.advance(Duration::from_secs(10));
    beside_held_shard(&cache, key(&names[0]), |cache| while cache.run_due(1_000) > 0 {});
    assert_eq!(cache.len(), 100 - others);
    while cache.run_due(1_000) > 0 {}
    assert!(cache.is_empty());
}

/// What is in the shard may be evicted later, so the search was not in vain.
#[test]
fn evict_excess_skips_a_shard_that_another_thread_holds_and_evicts_from_it_later() {
    let builder = Cache::builder().weight(100, |_: &Record, ()| 1).shards(4);
    let cache: Cache = builder.evictable(Evictable::Timed).build().expect("valid options");
    for n in 0..100u32 {
        let ttl = if n == 0 { Ttl::After(Duration::from_secs(1_000)) } else { Ttl::Never };
        cache.insert_with_ttl(Record::new(key(&n.to_le_bytes()), &[]), (), ttl);
    }
    cache.resize(99);
    let name = 0u32.to_le_bytes();
    assert!(beside_held_shard(&cache, key(&name), |cache| cache.evict_excess(1)), "there may be more");
    assert_eq!(cache.len(), 100);
    assert!(!cache.evict_excess(2));
    assert_eq!(cache.len(), 99);
}

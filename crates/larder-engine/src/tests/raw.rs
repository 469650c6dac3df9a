//! Records: updated in place, several in one atomic step, and weighed by their bytes.

use crate::raw::{Cache, Key, Record, UpdateOp};
use crate::{Clock, Op, Refusal, Ttl};
use proptest::prelude::*;
use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
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
        let cache: Cache =
            Cache::builder().weight(1 << 20, weigh).clock(clock).shards(shards).build().expect("valid options");
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
                        let head = entry.as_ref().map_or(&[][..], |entry| entry.value());
                        (UpdateOp::Put(Record::new(key(&name_bytes), &[head, &tail]), Ttl::Keep), head.len())
                    });
                    let updated = updated.expect("there is room");
                    let kept = model.entry(name).or_insert((Vec::new(), u64::MAX));
                    prop_assert_eq!((updated.result, updated.is_new), (kept.0.len(), updated.is_new));
                    kept.0.extend(tail);
                }
                Step::Flip(name) => {
                    let flipped = cache.update(key(&[name]), |entry| {
                        entry.into_iter().for_each(|mut entry| entry.value_mut().iter_mut().for_each(|byte| *byte = !*byte));
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
                        let value = locked.read(key(name), <[u8]>::to_vec);
                        prop_assert_eq!(value.as_ref(), known.as_ref().map(|(value, _)| value));
                        prop_assert_eq!(locked.remove(key(name)), known.is_some());
                    }
                }
            }
            cache.validate();
            for name in 0..32 {
                let found = cache.read(key(&[name]), |value| value.to_vec());
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
            let values: Vec<Vec<u8>> =
                names.iter().map(|name| locked.value(key(name)).expect("written")).collect();
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
    assert_eq!(cache.read(key(b"name"), |value| value.to_vec()), Some(b"after".to_vec()));
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
        |entry| {
            entry.into_iter().for_each(|mut entry| entry.value_mut()[0] = b'T');
            UpdateOp::Edited(Ttl::Keep)
        },
        |_| UpdateOp::SetTtl(Ttl::At(700)),
        |_| UpdateOp::Edited(Ttl::Never),
        |_| UpdateOp::Remove,
    ];
    for step in steps {
        let seen = |entry: &Option<crate::raw::Entry<'_>>| entry.as_ref().map(|entry| entry.value().to_vec());
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
            (entry.key().value().to_vec(), entry.deadline_ms(), entry.weight())
        });
        drop(locked);
        let state_of_plain = plain.peek_with(&key(b"k"), |entry| {
            (entry.key().value().to_vec(), entry.deadline_ms(), entry.weight())
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

//! Rounds of many operations that are timed as a whole.

use crate::measure::clock::Timing;
use crate::measure::rounds::Sample;
use crate::subject::{Key, Loading, Readable, Value, Writable};
use std::hint::black_box;
use std::sync::{Arc, Barrier};

/// In a mixed workload every fourth operation is a write.
const WRITE_EVERY: usize = 4;

/// Gets each key on this thread.
pub(in crate::suite) fn gets<K: Key, V: Value, S: Readable<K, V>>(subject: &S, keys: &[K]) -> Sample {
    let (hits, timing) = Timing::measure(|| count_hits(subject, keys));
    Sample::time_per_operation(timing, keys.len(), hits)
}

/// Gets the keys on this thread, as many at a time as `get_many` is called with.
pub(super) fn gets_together<K>(keys: &[K], at_a_time: usize, get_many: impl Fn(&[K]) -> u64) -> Sample {
    let (hits, timing) = Timing::measure(|| keys.chunks(at_a_time).map(get_many).sum());
    Sample::time_per_operation(timing, keys.len(), hits)
}

/// Gets the keys of each list on a separate thread.
pub(super) fn gets_in_threads<K: Key, V: Value, S: Readable<K, V>>(subject: &S, keys: &[Arc<[K]>]) -> Sample {
    in_threads(keys, |keys| count_hits(subject, keys))
}

/// Gets most keys and overwrites the others on this thread.
pub(super) fn mixed<K: Key, V: Value, S: Writable<K, V>>(
    subject: &S,
    keys: &[K],
    value: impl Fn() -> V,
) -> Sample {
    let (succeeded, timing) = Timing::measure(|| mix(subject, keys, value));
    Sample::time_per_operation(timing, keys.len(), succeeded)
}

/// Gets most keys of each list and overwrites the others, each list on a separate thread.
pub(super) fn mixed_in_threads<K: Key, V: Value, S: Writable<K, V>>(
    subject: &S,
    keys: &[Arc<[K]>],
    value: impl Fn() -> V + Sync,
) -> Sample {
    in_threads(keys, |keys| mix(subject, keys, &value))
}

/// Inserts keys that are not in the cache.
pub(in crate::suite) fn inserts<V: Value, S: Writable<u64, V>>(
    subject: &S,
    keys: impl ExactSizeIterator<Item = u64>,
    value: V,
) -> Sample {
    let operations = keys.len();
    let ((), timing) = Timing::measure(|| keys.for_each(|key| subject.insert(key, value.clone())));
    Sample::time_per_operation(timing, operations, operations as u64)
}

/// Gets keys that are not in the cache.
pub(in crate::suite) fn misses<V: Value, S: Readable<u64, V>>(
    subject: &S,
    keys: impl ExactSizeIterator<Item = u64>,
) -> Sample {
    let operations = keys.len();
    let is_miss = |key: u64| u64::from(black_box(subject.get(&key)).is_none());
    let (misses, timing) = Timing::measure(|| keys.map(is_miss).sum());
    Sample::time_per_operation(timing, operations, misses)
}

/// Fetches keys that are not in the cache, each with a loader that has the value.
pub(in crate::suite) fn fetches<V: Value, S: Loading<u64, V>>(
    subject: &S,
    keys: impl ExactSizeIterator<Item = u64>,
    value: V,
) -> Sample {
    let (operations, mut loads) = (keys.len(), 0);
    let ((), timing) = Timing::measure(|| {
        keys.for_each(|key| {
            let load = || {
                loads += 1;
                value.clone()
            };
            _ = black_box(subject.get_or_load(&key, load));
        });
    });
    Sample::time_per_operation(timing, operations, loads)
}

/// Gets each key, and inserts it if that misses.
pub(super) fn gets_and_inserts<S: Writable<u64, u64>>(subject: &S, keys: &[u64]) -> Sample {
    let request = |key: &u64| {
        if black_box(subject.get(key)).is_none() {
            subject.insert(*key, 1);
        }
    };
    let ((), timing) = Timing::measure(|| keys.iter().for_each(request));
    Sample::time_per_operation(timing, keys.len(), keys.len() as u64)
}

fn count_hits<K: Key, V: Value, S: Readable<K, V>>(subject: &S, keys: &[K]) -> u64 {
    keys.iter().map(|key| u64::from(black_box(subject.get(key)).is_some())).sum()
}

fn mix<K: Key, V: Value, S: Writable<K, V>>(subject: &S, keys: &[K], value: impl Fn() -> V) -> u64 {
    let mut succeeded = 0;
    for (n, key) in keys.iter().enumerate() {
        if n % WRITE_EVERY == 0 {
            subject.insert(key.clone(), value());
            succeeded += 1;
        } else {
            succeeded += u64::from(black_box(subject.get(key)).is_some());
        }
    }
    succeeded
}

fn in_threads<K: Key>(keys: &[Arc<[K]>], work: impl Fn(&[K]) -> u64 + Sync) -> Sample {
    let start = Barrier::new(keys.len());
    let parts: Vec<(u64, Timing)> = std::thread::scope(|scope| {
        let threads: Vec<_> = keys
            .iter()
            .map(|keys| {
                let (start, work) = (&start, &work);
                scope.spawn(move || {
                    start.wait();
                    Timing::measure(|| work(keys))
                })
            })
            .collect();
        threads.into_iter().map(|thread| thread.join().expect("the work does not panic")).collect()
    });
    let timing = Timing::merge(&parts.iter().map(|(_, timing)| *timing).collect::<Vec<_>>());
    let operations = keys.iter().map(|keys| keys.len()).sum();
    Sample::throughput(timing, operations, parts.iter().map(|(succeeded, _)| succeeded).sum())
}

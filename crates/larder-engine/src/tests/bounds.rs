//! The capacity is never exceeded, and stored entries can be read.

use crate::mutex::Mutex;
use crate::{BuildError, Builder, Cache, Inserted, Policy, Refusal};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

#[test]
fn builder_option_out_of_range_names_value_and_range() {
    let builder = || Cache::<u32, u32>::builder();
    let message = |builder: Builder<u32, u32>| builder.build().expect_err("out of range").to_string();
    assert_eq!(builder().build().expect_err("no capacity"), BuildError::NoCapacity);
    assert_eq!(message(builder().entries(0)), "entries is 0; it must be from 1 to 4611686018427387904");
    assert_eq!(
        message(builder().weight(0, |_, _| 1)),
        "weight is 0; it must be from 1 to 4611686018427387904"
    );
    assert_eq!(
        message(builder().entries(1).ttl(Duration::ZERO)),
        "ttl is 0 ms; it must be from 1 to 281474976710654 ms"
    );
    assert_eq!(message(builder().entries(1).shards(0)), "shards is 0; it must be from 1 to 65536");
    assert_eq!(message(builder().entries(1).jitter(1.5)), "jitter is 1.5; it must be from 0 to 1");
    assert_eq!(
        message(builder().entries(1).max_share(0.0)),
        "max_share is 0; it must be above 0 and at most 1"
    );
}

#[test]
fn bound_of_the_last_call_decides() {
    let weigh = |_: &u32, value: &u32| u64::from(*value);
    let by_entries = Cache::builder().weight(1_000, weigh).entries(10).build().expect("valid options");
    assert_eq!(by_entries.insert(1, 100), Inserted::New, "an entry counts as one");
    assert_eq!((by_entries.capacity(), by_entries.weight()), (10, 1));
    let by_weight = Cache::builder().entries(10).weight(1_000, weigh).build().expect("valid options");
    assert_eq!(by_weight.insert(1, 100), Inserted::New);
    assert_eq!((by_weight.capacity(), by_weight.weight()), (1_000, 100));
}

#[test]
fn share_of_one_entry_is_exact() {
    let limit = |capacity, share| {
        let builder = Cache::<u32, u32>::builder().weight(capacity, |_, _| 1).max_share(share);
        builder.build().expect("valid options").limit()
    };
    for percent in 1..=100 {
        assert_eq!(limit(100, percent as f64 / 100.0), percent);
        assert_eq!(limit(1_000_000, percent as f64 / 100.0), percent * 10_000);
    }
    assert_eq!((limit(3, 0.5), limit(10, 0.001)), (1, 1), "rounded down, but for an entry of weight one");
    let largest = 1 << 62;
    assert!((largest - 10_000..=largest).contains(&limit(largest, 1.0_f64.next_down())));
}

#[test]
fn capacity_of_one_holds_the_last_entry() {
    for policy in Policy::ALL {
        let cache: Cache<u32, u32> =
            Cache::builder().entries(1).policy(policy).build().expect("valid options");
        for n in 0..10 {
            cache.insert(n, n);
            assert_eq!((cache.get(&n), cache.len()), (Some(n), 1));
        }
        cache.validate();
    }
}

#[test]
fn insert_too_heavy_is_refused_and_removes_the_former_entry() {
    let cache: Cache<u32, u64> =
        Cache::builder().weight(100, |_, value| *value).max_share(0.5).build().expect("valid options");
    cache.insert(1, 50);
    let reason = Refusal::TooHeavy { weight: 51, limit: 50 };
    assert_eq!(cache.insert(1, 51), Inserted::Refused { value: 51, reason });
    assert_eq!(reason.to_string(), "weight 51 is above the limit of 50 for one entry");
    assert_eq!(cache.get(&1), None, "the old value was to be replaced: it must not be served");
    assert_eq!((cache.weight(), cache.stats().refused), (0, 1));
}

/// A key that counts how often it is hashed.
#[derive(Debug, PartialEq, Eq)]
struct Counted(u32);

static HASHED: AtomicUsize = AtomicUsize::new(0);

impl std::hash::Hash for Counted {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        HASHED.fetch_add(1, Ordering::Relaxed);
        self.0.hash(state);
    }
}

/// The contests, the second chances and the removal of the victim hashed four to six keys for each insertion, and to hash a
/// key is to read it.
#[test]
fn insert_that_evicts_hashes_its_own_key_only() {
    let cache: Cache<Counted, ()> = Cache::builder().entries(1_000).shards(1).build().expect("valid options");
    (0..2_000).for_each(|n| _ = cache.insert(Counted(n), ()));
    let before = HASHED.load(Ordering::Relaxed);
    (2_000..3_000).for_each(|n| _ = cache.insert(Counted(n), ()));
    let hashed = HASHED.load(Ordering::Relaxed) - before;
    // One contest in sixteen is observed, and reads the key of the entry that stayed.
    assert!(hashed <= 1_000 + 2 * 1_000 / 16, "{hashed} keys were hashed for 1,000 insertions");
}

/// Their eviction frees nothing: `Policy::Random` chose them all the same.
#[test]
fn entries_of_zero_weight_are_never_evicted() {
    for policy in Policy::ALL {
        let builder = Cache::builder().weight(10, |_, value| *value).policy(policy);
        let cache: Cache<u32, u64> = builder.build().expect("valid options");
        for n in 0..100 {
            cache.insert(n, 0);
        }
        for n in 100..200 {
            cache.insert(n, 1);
        }
        assert!((0..100).all(|n| cache.contains(&n)), "{policy:?}");
        assert_eq!((cache.len(), cache.weight()), (110, 10), "{policy:?}");
        cache.validate();
    }
}

#[test]
fn zero_weight_is_valid_and_replacement_is_weighed_again() {
    let cache: Cache<u32, u64> =
        Cache::builder().weight(10, |_, value| *value).build().expect("valid options");
    for n in 0..100 {
        cache.insert(n, 0);
    }
    assert_eq!((cache.len(), cache.weight()), (100, 0));
    cache.insert(1, 4);
    cache.insert(1, 7);
    assert_eq!(cache.weight(), 7);
    cache.insert(1, 2);
    assert_eq!(cache.weight(), 2);
    cache.validate();
}

#[test]
fn insert_heavy_entry_evicts_from_all_shards() {
    let cache: Cache<u32, u64> =
        Cache::builder().weight(1_000, |_, value| *value).shards(8).build().expect("valid options");
    for n in 0..500 {
        cache.insert(n, 2);
    }
    assert_eq!(cache.weight(), 1_000);
    assert_eq!(cache.insert(1_000, 990), Inserted::New);
    assert_eq!(cache.get(&1_000), Some(990));
    assert!(cache.weight() <= 1_000);
    cache.validate();
}

#[test]
fn set_capacity_takes_effect_immediately() {
    let cache: Cache<u32, u32> = Cache::builder().entries(4_096).build().expect("valid options");
    for n in 0..4_096 {
        cache.insert(n, n);
    }
    cache.set_capacity(100);
    assert!(cache.len() <= 100 && cache.capacity() == 100);
    cache.set_capacity(1_000);
    for n in 0..4_096 {
        cache.insert(n, n);
    }
    assert_eq!(cache.len(), 1_000);
    cache.validate();
}

#[test]
fn weight_observed_concurrently_never_exceeds_capacity() {
    let cache: Cache<u32, u64> =
        Cache::builder().weight(1_000, |_, value| *value).shards(4).build().expect("valid options");
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for seed in 1..3u32 {
            let (cache, done) = (&cache, &done);
            scope.spawn(move || {
                let mut state = seed;
                for _ in 0..50_000 {
                    state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                    let weight = u64::from(state >> 24);
                    cache.insert(state >> 20, weight);
                }
                done.store(true, Ordering::Relaxed);
            });
        }
        while !done.load(Ordering::Relaxed) {
            assert!(cache.weight() <= 1_000);
        }
    });
    cache.validate();
}

#[test]
fn weights_near_the_largest_capacity_do_not_overflow() {
    for policy in Policy::ALL {
        let builder = Cache::builder().weight(1 << 62, |_, value| *value).shards(1);
        let cache: Cache<u32, u64> = builder.policy(policy).build().expect("valid options");
        for n in 0..40 {
            assert_eq!(cache.insert(n, 1 << 61), Inserted::New);
            assert!(cache.contains(&n));
        }
        assert_eq!((cache.len(), cache.weight()), (2, 1 << 62), "{policy:?}");
        cache.validate();
    }
}

/// Both waited for the same lock.
#[test]
fn listener_may_change_the_capacity_while_it_is_lowered() {
    let slot: Arc<Mutex<Option<Cache<u32, u32>>>> = Arc::default();
    let inside = slot.clone();
    let (done, is_done) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        let cache: Cache<u32, u32> = Cache::builder()
            .entries(100)
            .shards(2)
            .listener(move |_, _, _| {
                let cache = inside.lock().clone().expect("the cache is there");
                if cache.len() == 50 {
                    cache.set_capacity(60);
                }
            })
            .build()
            .expect("valid options");
        *slot.lock() = Some(cache.clone());
        (0..100).for_each(|n| _ = cache.insert(n, n));
        cache.set_capacity(10);
        slot.lock().take();
        _ = done.send((cache.capacity(), cache.len()));
    });
    let held = is_done.recv_timeout(Duration::from_secs(20)).expect("it returns");
    assert_eq!(held, (60, 50), "the later call decides");
}

fn shards_of(builder: Builder<u32, u32>) -> usize {
    builder.build().expect("valid options").shards().len()
}

#[test]
fn shards_follow_the_expected_entries_whatever_the_unit_of_weight() {
    let unit = || Cache::<u32, u32>::builder().weight(1_000_000, |_, _| 1);
    let by_entries = shards_of(Cache::builder().entries(1_000_000));
    assert_eq!(shards_of(unit().expected_entries(1_000_000)), by_entries);
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    assert!(shards_of(unit()) >= (8 * threads).min(32), "without a number: enough for the threads");
    assert_eq!(shards_of(Cache::builder().weight(1_000_000, |_, _| 1).expected_entries(300)), 1);
    assert_eq!(
        Cache::<u32, u32>::builder().entries(9).expected_entries(0).build().expect_err("none").to_string(),
        "expected_entries is 0; it must be from 1 to 4611686018427387904"
    );
}

/// They free nothing. The random policy looks at slots, not at entries.
#[test]
fn entries_of_weight_zero_are_not_evicted() {
    for policy in Policy::ALL.into_iter().filter(|policy| *policy != Policy::Random) {
        let cache: Cache<u32, u64> =
            Cache::builder().weight(10, |_, value| *value).policy(policy).build().expect("valid options");
        for n in 0..100 {
            cache.insert(n, 0);
        }
        for n in 100..200 {
            cache.insert(n, 1);
        }
        assert_eq!((cache.len(), cache.weight()), (110, 10), "{policy:?}");
        assert!((0..100).all(|n| cache.contains(&n)), "{policy:?}");
        // Between zero and more, in both directions, and out.
        (0..5).for_each(|n| _ = cache.insert(n, 1));
        (195..200).for_each(|n| _ = cache.insert(n, 0));
        cache.validate();
        (0..200).for_each(|n| _ = cache.remove(&n));
        assert_eq!((cache.len(), cache.weight()), (0, 0), "{policy:?}");
        cache.validate();
    }
}

#[test]
fn key_without_a_partition_reserves_nothing() {
    let build = |count| {
        let cache: Result<Cache<u32, u32>, _> =
            Cache::builder().entries(10).shards(1).partitions(count, |key| *key as usize).build();
        cache
    };
    let error = build(0).map(drop).expect_err("out of range").to_string();
    assert_eq!(error, "partitions is 0; it must be from 1 to 4294967295");
    let cache = build(2).expect("valid options");
    for _ in 0..100 {
        assert!(catch_unwind(AssertUnwindSafe(|| cache.insert(2, 2))).is_err());
    }
    assert_eq!((cache.len(), cache.weight()), (0, 0));
    assert!(!cache.insert(1, 1).is_refused());
}

/// The entry was gone, and its weight was reserved for ever.
#[test]
fn partition_that_panics_at_a_removal_leaves_the_entry() {
    static PANICS: AtomicBool = AtomicBool::new(false);
    let partition = |_: &u32| {
        assert!(!PANICS.load(Ordering::Relaxed), "no partition");
        0
    };
    let cache: Cache<u32, u32> =
        Cache::builder().entries(10).shards(1).partitions(1, partition).build().expect("valid options");
    cache.insert(1, 1);
    PANICS.store(true, Ordering::Relaxed);
    assert!(catch_unwind(AssertUnwindSafe(|| cache.remove(&1))).is_err());
    PANICS.store(false, Ordering::Relaxed);
    assert_eq!((cache.get(&1), cache.weight(), cache.partition_stats(0).entries), (Some(1), 1, 1));
    cache.validate();
    assert_eq!(cache.remove(&1), Some(1));
    assert_eq!((cache.len(), cache.weight(), cache.partition_stats(0).entries), (0, 0, 0));
}

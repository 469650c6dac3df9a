//! Regressions that other caches had, one test per symptom.

use larder_engine::{Cache, Cause, Clock, Inserted, Op, Policy, Refusal, Ttl};
use std::borrow::Borrow;
use std::hash::{Hash, Hasher};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

const fn ms(n: u64) -> Duration {
    Duration::from_millis(n)
}

fn entries(capacity: u64, shards: usize, policy: Policy) -> Cache<u32, u32> {
    Cache::builder().entries(capacity).shards(shards).policy(policy).build().expect("valid options")
}

/// A key whose hash is always the same.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Colliding(u32);

impl Hash for Colliding {
    fn hash<H: Hasher>(&self, state: &mut H) {
        0u32.hash(state);
    }
}

#[test]
fn keys_with_equal_hash_stay_separate() {
    for policy in Policy::ALL {
        let cache: Cache<Colliding, u32> =
            Cache::builder().entries(1_000).policy(policy).build().expect("valid options");
        for n in 0..600 {
            cache.insert(Colliding(n), n);
        }
        assert!((0..600).all(|n| cache.get(&Colliding(n)) == Some(n)));
        assert!((0..600).step_by(2).all(|n| cache.remove(&Colliding(n)) == Some(n)));
        assert!((0..600).all(|n| cache.get(&Colliding(n)) == (n % 2 == 1).then_some(n)));
        cache.validate();
    }
}

#[test]
fn hit_count_saturates() {
    for policy in Policy::ALL {
        let cache = entries(4, 1, policy);
        (0..4).for_each(|n| _ = cache.insert(n, n));
        for _ in 0..100_000 {
            assert_eq!(cache.get(&1), Some(1));
        }
        (10..20).for_each(|n| _ = cache.insert(n, n));
        cache.validate();
    }
}

#[test]
fn entry_that_grows_evicts_others_not_itself() {
    for policy in Policy::ALL {
        let cache: Cache<u32, u64> = Cache::builder()
            .weight(10, |_, weight| *weight)
            .shards(2)
            .policy(policy)
            .build()
            .expect("valid options");
        for weight in 1..=10 {
            (10..15).for_each(|n| _ = cache.insert(n, 1));
            assert!(!cache.insert(1, weight).is_refused(), "{policy:?}, weight {weight}");
            assert_eq!(cache.get(&1), Some(weight));
        }
        assert_eq!((cache.len(), cache.weight()), (1, 10));
        cache.validate();
    }
}

#[test]
fn capacity_is_not_lost_by_rounding_to_shards() {
    for capacity in [1, 7, 100, 1_000, 1_023] {
        for shards in [1, 4, 64] {
            let cache = entries(capacity, shards, Policy::default());
            for n in 0..capacity as u32 * 4 {
                cache.insert(n, n);
                assert!(cache.len() as u64 <= capacity);
            }
            assert_eq!(cache.len() as u64, capacity, "{shards} shards");
            cache.validate();
        }
    }
}

#[test]
fn inconsistent_weigher_keeps_the_sums_valid() {
    let calls = AtomicU64::new(0);
    let cache: Cache<u32, u32> = Cache::builder()
        .weight(100, move |_, _| calls.fetch_add(7, Ordering::Relaxed) % 13)
        .shards(2)
        .build()
        .expect("valid options");
    for n in 0..1_000 {
        match n % 5 {
            0 => _ = cache.remove(&(n % 40)),
            1 => _ = cache.compute(n % 40, |_| (Op::Put(n, Ttl::Default), ())),
            _ => _ = cache.insert(n % 40, n),
        }
        assert!(cache.weight() <= 100);
    }
    cache.validate();
    cache.clear();
    assert_eq!(cache.weight(), 0);
}

#[test]
fn weight_near_u64_max_does_not_wrap() {
    let cache: Cache<u32, u64> =
        Cache::builder().weight(1 << 62, |_, weight| *weight).shards(2).build().expect("valid options");
    for weight in [u64::MAX, u64::MAX - 1, (1 << 62) + 1] {
        let reason = Refusal::TooHeavy { weight, limit: 1 << 62 };
        assert_eq!(cache.insert(1, weight), Inserted::Refused { value: weight, reason });
    }
    for n in 0..20 {
        assert!(!cache.insert(n, (1 << 61) + u64::from(n)).is_refused());
        assert!(cache.weight() <= 1 << 62);
    }
    assert!(!cache.insert(100, 1 << 62).is_refused());
    assert_eq!((cache.len(), cache.weight()), (1, 1 << 62));
    cache.validate();
}

#[test]
fn builder_option_at_range_ends_is_accepted() {
    let builder = || Cache::<u32, u32>::builder().entries(1);
    let accepted = [
        builder().entries(1 << 62).shards(1),
        builder().ttl(ms(1)).tti(ms(1)),
        builder().ttl(larder_engine::MAX_TTL).tti(larder_engine::MAX_TTL),
        builder().jitter(0.0),
        builder().jitter(1.0),
        builder().max_share(1.0),
        builder().max_share(f64::MIN_POSITIVE),
        builder().shards(1),
        builder().shards(65_536),
    ];
    for builder in accepted {
        let cache = builder.build().expect("in range");
        assert!(!cache.insert(1, 1).is_refused());
    }
}

#[test]
fn slot_reused_does_not_inherit_the_deadline() {
    for policy in Policy::ALL {
        let (clock, hand) = Clock::manual();
        let cache: Cache<u32, u32> = Cache::builder()
            .entries(1_000)
            .shards(1)
            .policy(policy)
            .clock(clock)
            .build()
            .expect("valid options");
        for round in 0..50 {
            for n in 0..8 {
                cache.insert_with_ttl(round * 100 + n, n, Ttl::After(ms(500 + u64::from(n) * 300)));
            }
            match round % 3 {
                0 => cache.clear(),
                1 => (0..8).for_each(|n| _ = cache.remove(&(round * 100 + n))),
                _ => {}
            }
            for n in 8..16 {
                cache.insert(round * 100 + n, n);
            }
            hand.advance(ms(3_000));
            cache.run_due(1_000);
            assert!((8..16).all(|n| cache.get(&(round * 100 + n)) == Some(n)), "{policy:?}, round {round}");
            cache.validate();
        }
    }
}

#[test]
fn deadline_changed_expires_at_the_new_time() {
    let (clock, hand) = Clock::manual();
    let cache: Cache<u32, u32> = Cache::builder().entries(100).clock(clock).build().expect("valid options");
    for n in 0..50 {
        cache.insert_with_ttl(n, n, Ttl::After(ms(1_000)));
        // Later, earlier, and back again.
        for ttl in [100_000, 500, 10_000, 1_000, 50_000] {
            cache.compute(n, |_| (Op::SetTtl(Ttl::After(ms(ttl))), ()));
        }
    }
    hand.advance(ms(49_999));
    cache.run_due(1_000);
    assert!((0..50).all(|n| cache.contains(&n)));
    hand.advance(ms(1));
    assert!((0..50).all(|n| !cache.contains(&n)));
    hand.advance(ms(1_000));
    while cache.run_due(1_000) > 0 {}
    assert!(cache.is_empty(), "and its memory is reclaimed");
    cache.validate();
}

#[test]
fn deadline_beyond_the_wheel_expires_on_time() {
    let day = 24 * 3_600_000;
    let (clock, hand) = Clock::manual();
    let cache: Cache<u64, u64> = Cache::builder().entries(1_000).clock(clock).build().expect("valid options");
    // Around each rotation of each level of the wheel, and beyond the last level.
    let deadlines: Vec<u64> = [8_192, 524_288, 33_554_432, 2_147_483_648, 30 * day, 45 * day]
        .into_iter()
        .flat_map(|turn| [turn - 129, turn - 1, turn, turn + 1, turn + 129])
        .collect();
    for at in &deadlines {
        cache.insert_with_ttl(*at, *at, Ttl::At(*at));
    }
    let mut now = 0;
    for at in &deadlines {
        hand.advance(ms(at - 1 - now));
        while cache.run_due(1_000) > 0 {}
        assert!(cache.contains(at), "1 ms before {at}");
        hand.advance(ms(1));
        assert!(!cache.contains(at), "at {at}");
        now = *at;
    }
    hand.advance(ms(300));
    while cache.run_due(1_000) > 0 {}
    assert!(cache.is_empty());
    cache.validate();
}

#[test]
fn long_lived_entry_does_not_delay_others() {
    let (clock, hand) = Clock::manual();
    let cache: Cache<u32, u32> = Cache::builder().entries(1_000).clock(clock).build().expect("valid options");
    for n in 0..500 {
        cache.insert_with_ttl(n, n, Ttl::After(ms(if n % 2 == 0 { 1_000_000 } else { 10 })));
    }
    hand.advance(ms(1_000));
    while cache.run_due(1_000) > 0 {}
    assert_eq!((cache.len(), cache.stats().expired), (250, 250));
}

#[test]
fn write_reclaims_a_bounded_number() {
    let (clock, hand) = Clock::manual();
    let heard = std::sync::Arc::new(AtomicU64::new(0));
    let count = heard.clone();
    let cache: Cache<u32, u32> = Cache::builder()
        .entries(100_000)
        .shards(1)
        .ttl(ms(10))
        .clock(clock)
        .listener(move |_, _, _| _ = count.fetch_add(1, Ordering::Relaxed))
        .build()
        .expect("valid options");
    (0..50_000).for_each(|n| _ = cache.insert(n, n));
    hand.advance(ms(1_000));
    let mut most = 0;
    for n in 100_000..130_000 {
        let before = heard.load(Ordering::Relaxed);
        cache.insert(n, n);
        most = most.max(heard.load(Ordering::Relaxed) - before);
    }
    assert!((1..=16).contains(&most), "{most} by one write");
    assert_eq!(heard.load(Ordering::Relaxed), 50_000, "yet all of them by a few for each write");
}

#[test]
fn listener_runs_before_the_operation_returns() {
    let heard = std::sync::Arc::new(Mutex::new(Vec::new()));
    let log = heard.clone();
    let cache: Cache<u32, u32> = Cache::builder()
        .entries(2)
        .policy(Policy::Lru)
        .listener(move |key, _, cause| log.lock().expect("no panic").push((*key, cause)))
        .build()
        .expect("valid options");
    for n in 0..10 {
        cache.insert(n, n);
        let left = heard.lock().expect("no panic").pop();
        assert_eq!(left, (n >= 2).then(|| (n - 2, Cause::Evicted)));
    }
}

/// Runs some threads until the first of them is done.
fn beside(first: impl Fn() + Sync, others: &[&(dyn Fn() + Sync)]) {
    let done = AtomicBool::new(false);
    thread::scope(|scope| {
        for other in others {
            scope.spawn(|| {
                while !done.load(Ordering::Relaxed) {
                    other();
                }
            });
        }
        first();
        done.store(true, Ordering::Relaxed);
    });
}

#[test]
fn rewrites_of_evicted_entries_do_not_grow_memory() {
    for policy in Policy::ALL {
        let cache = entries(16, 4, policy);
        let write = || (0..40).for_each(|n| _ = cache.insert(n, n));
        let rewrite = || {
            for n in 0..40 {
                cache.compute(n, |_| (Op::Put(n, Ttl::After(ms(1))), ()));
            }
        };
        beside(|| (0..300).for_each(|_| write()), &[&rewrite, &|| assert!(cache.weight() <= 16)]);
        cache.validate();
        assert!(cache.len() <= 16, "{policy:?}");
        assert_eq!(cache.len() as u64, cache.weight(), "{policy:?}");
    }
}

#[test]
fn removals_during_loads_keep_the_queues_valid() {
    for policy in Policy::ALL {
        let cache = entries(16, 2, policy);
        let load = || (0..30).for_each(|n| assert_eq!(cache.get_or_load(&n, || Ok::<_, ()>(n)), Ok(n)));
        let remove = || (0..30).for_each(|n| _ = cache.remove(&n));
        beside(|| (0..300).for_each(|_| load()), &[&remove, &load]);
        cache.validate();
    }
}

#[test]
fn clear_during_reads_is_safe() {
    let cache = entries(1_000, 4, Policy::default());
    let fill = || (0..200).for_each(|n| _ = cache.insert(n, n));
    let read = || {
        for n in 0..200 {
            assert!(cache.get(&n).is_none_or(|value| value == n));
            assert_eq!(cache.get_or_load(&n, || Ok::<_, ()>(n)), Ok(n));
        }
        assert!(cache.iter().all(|(key, value)| key == value));
    };
    beside(
        || {
            for _ in 0..200 {
                fill();
                cache.clear();
                drop(cache.drain());
            }
        },
        &[&read, &fill],
    );
    cache.validate();
}

#[test]
fn slot_reused_does_not_answer_for_its_former_key() {
    for policy in Policy::ALL {
        let cache: Cache<String, String> =
            Cache::builder().entries(8).shards(2).policy(policy).build().expect("valid options");
        let name = |n: u32| format!("a key that lies on the heap, number {n}");
        let churn = || {
            for n in 0..64 {
                cache.insert(name(n), name(n));
            }
        };
        let read = || {
            for n in 0..64 {
                assert!(cache.get(name(n).as_str()).is_none_or(|value| value == name(n)));
            }
            assert!(cache.iter().all(|(key, value)| key == value));
        };
        let scan = || {
            let mut cursor = 0;
            loop {
                cursor = cache.scan(cursor, 4, |entry| assert_eq!(entry.key(), entry.value()));
                if cursor == 0 {
                    break;
                }
            }
        };
        beside(|| (0..100).for_each(|_| churn()), &[&read, &scan]);
        cache.validate();
    }
}

#[test]
fn listener_gets_the_right_entry_when_slots_are_reused() {
    for policy in Policy::ALL {
        let heard = std::sync::Arc::new(Mutex::new(Vec::new()));
        let log = heard.clone();
        let cache: Cache<u32, u64> = Cache::builder()
            .entries(8)
            .shards(2)
            .policy(policy)
            .listener(move |key, value, _| log.lock().expect("no panic").push((*key, *value)))
            .build()
            .expect("valid options");
        let numbers = AtomicU64::new(0);
        let write = || {
            for key in 0..30 {
                let number = numbers.fetch_add(1, Ordering::Relaxed);
                cache.insert(key, number << 32 | u64::from(key));
            }
        };
        beside(|| (0..100).for_each(|_| write()), &[&write]);
        cache.clear();
        let mut heard = std::mem::take(&mut *heard.lock().expect("no panic"));
        assert!(heard.iter().all(|(key, value)| *value as u32 == *key), "{policy:?}: keys with their values");
        heard.sort_unstable_by_key(|(_, value)| *value);
        heard.dedup();
        assert_eq!(heard.len() as u64, numbers.load(Ordering::Relaxed), "{policy:?}: each once");
    }
}

#[test]
fn key_inserted_concurrently_is_one_entry() {
    for round in 0..300 {
        let cache = entries(1_000, 4, Policy::default());
        let new = AtomicU64::new(0);
        thread::scope(|scope| {
            for n in 0..3 {
                let (cache, new) = (&cache, &new);
                scope.spawn(move || {
                    if cache.insert(round, n) == Inserted::New {
                        new.fetch_add(1, Ordering::Relaxed);
                    }
                });
            }
        });
        assert_eq!((cache.len(), cache.iter().count(), new.load(Ordering::Relaxed)), (1, 1, 1));
    }
}

/// A borrowed key of another type finds the entry of the owned key, also when that is about to be evicted.
#[test]
fn borrowed_key_finds_the_owned_one() {
    #[derive(PartialEq, Eq, Hash)]
    struct Wrapped(String);
    impl Borrow<str> for Wrapped {
        fn borrow(&self) -> &str {
            &self.0
        }
    }
    let cache: Cache<Wrapped, u32> = Cache::builder().entries(4).build().expect("valid options");
    for n in 0..20 {
        let name = n.to_string();
        cache.insert(Wrapped(name.clone()), n);
        assert_eq!(cache.get(name.as_str()), Some(n));
        assert_eq!(cache.remove(name.as_str()), Some(n));
    }
}

/// A scan visits every entry that stays, whatever is inserted and removed, and however the shards grow.
#[test]
fn scan_cursor_survives_growth_and_removal() {
    let cache = entries(1 << 20, 4, Policy::default());
    (0..1_000).for_each(|n| _ = cache.insert(n, n));
    let (mut cursor, mut seen, mut next) = (0, Vec::new(), 1_000);
    loop {
        cursor = cache.scan(cursor, 50, |entry| seen.push(*entry.key()));
        for _ in 0..500 {
            cache.insert(next, next);
            cache.remove(&(next - 500).max(1_000));
            next += 1;
        }
        if cursor == 0 {
            break;
        }
    }
    seen.retain(|key| *key < 1_000);
    seen.sort_unstable();
    seen.dedup();
    assert_eq!(seen.len(), 1_000, "at least once each");
}

/// The number of calls of `Hash` until one panics.
static HASHES_LEFT: AtomicI64 = AtomicI64::new(i64::MAX);

#[derive(Clone, PartialEq, Eq)]
struct PanicsOnHash(u32);

impl Hash for PanicsOnHash {
    fn hash<H: Hasher>(&self, state: &mut H) {
        assert!(HASHES_LEFT.fetch_sub(1, Ordering::Relaxed) != 0, "asked to panic");
        self.0.hash(state);
    }
}

/// What an eviction had freed before the panic belonged to nobody, for ever.
#[test]
fn hash_panicked_while_room_is_made_loses_no_weight() {
    for (policy, hashes) in Policy::ALL.into_iter().flat_map(|policy| (0..80).map(move |n| (policy, n))) {
        let cache: Cache<PanicsOnHash, u64> = Cache::builder()
            .weight(20, |_, value| *value)
            .shards(2)
            .policy(policy)
            .build()
            .expect("valid options");
        (0..20).for_each(|n| _ = cache.insert(PanicsOnHash(n), 1));
        HASHES_LEFT.store(hashes, Ordering::Relaxed);
        let insert = || _ = cache.insert(PanicsOnHash(100), 15);
        _ = std::panic::catch_unwind(std::panic::AssertUnwindSafe(insert));
        HASHES_LEFT.store(i64::MAX, Ordering::Relaxed);
        cache.validate();
        let held: u64 = cache.iter().map(|(_, weight)| weight).sum();
        assert_eq!(cache.weight(), held, "{policy:?}, panicked after {hashes} calls");
    }
}

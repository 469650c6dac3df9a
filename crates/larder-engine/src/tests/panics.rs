//! Keys whose `Hash` or `Eq` panics: the operation ends, and nothing else is lost.

use crate::policy::{Evictable, Policy};
use crate::{Cache, Op, Ttl};
use std::cell::Cell;
use std::hash::{Hash, Hasher};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::time::Duration;

thread_local! {
    /// How many more calls of `Hash` and `Eq` return; `None` if all do.
    static CALLS: Cell<Option<u32>> = const { Cell::new(None) };
}

fn call() {
    if let Some(left) = CALLS.get() {
        CALLS.set(left.checked_sub(1));
        if left == 0 {
            // Without a message.
            resume_unwind(Box::new("the key panics"));
        }
    }
}

#[derive(Clone, Debug)]
struct Key(u32);

impl Hash for Key {
    fn hash<H: Hasher>(&self, state: &mut H) {
        call();
        self.0.hash(state);
    }
}

impl PartialEq for Key {
    fn eq(&self, other: &Self) -> bool {
        call();
        self.0 == other.0
    }
}

impl Eq for Key {}

struct Random(u64);

impl Random {
    fn below(&mut self, end: u32) -> u32 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        ((self.0 >> 33) % u64::from(end)) as u32
    }
}

/// One operation. The value is the weight, and some entries weigh nothing.
fn operate(cache: &Cache<Key, u32>, random: &mut Random, keys: u32) {
    let ttl = if random.below(2) == 0 { Ttl::Never } else { Ttl::After(Duration::from_secs(60)) };
    operate_with(cache, random, keys, ttl);
}

fn operate_with(cache: &Cache<Key, u32>, random: &mut Random, keys: u32, ttl: Ttl) {
    let (key, value) = (Key(random.below(keys)), random.below(4));
    match random.below(12) {
        0..6 => _ = cache.insert_with_ttl(key, value, ttl),
        6 => _ = cache.get(&key),
        7 => _ = cache.remove(&key),
        8 => _ = cache.compute(key, |_| (Op::Put(value, ttl), ())),
        9 => _ = cache.compute(key, |_| (Op::SetTtl(ttl), ())),
        10 => _ = cache.get_or_load(&key, || Ok::<u32, ()>(value)),
        _ if random.below(20) == 0 => cache.retain(|key, _| key.0 % 3 > 0),
        _ => {}
    }
}

#[test]
fn key_that_panics_leaves_structure_and_budget_exact() {
    let evictables = [Evictable::All, Evictable::Timed, Evictable::NearestDeadline, Evictable::Nothing];
    for (seed, policy) in Policy::ALL.into_iter().enumerate() {
        for evictable in evictables {
            let (mut random, mut panics) = (Random(seed as u64), 0);
            // With room for some of the keys, so that entries are evicted, or for all, so that tables grow.
            for (capacity, keys) in [(200, 400), (10_000, 3_000)] {
                let builder = Cache::builder().weight(capacity, |_: &Key, value: &u32| u64::from(*value));
                let builder = builder.policy(policy).evictable(evictable).expected_entries(3_000).shards(2);
                let cache = builder.build().expect("valid options");
                for _ in 0..3_000 {
                    CALLS.set((random.below(2) == 0).then(|| random.below(6)));
                    let operation = || operate(&cache, &mut random, keys);
                    panics += u32::from(catch_unwind(AssertUnwindSafe(operation)).is_err());
                    CALLS.set(None);
                    if random.below(20) == 0 {
                        cache.validate_exactly();
                    }
                }
                cache.validate_exactly();
                cache.clear();
                cache.validate_exactly();
                assert_eq!(cache.weight(), 0, "{policy:?}, {evictable:?}");
            }
            assert!(panics > 300, "{panics} panics prove nothing");
        }
    }
}

/// Without weights and deadlines, an insertion into a full cache takes a short path.
#[test]
fn key_that_panics_on_the_short_path_leaves_structure_and_budget_exact() {
    for (seed, policy) in Policy::ALL.into_iter().enumerate() {
        for shards in [1, 4] {
            let (mut random, mut panics) = (Random(seed as u64), 0);
            let cache = Cache::builder().entries(200).policy(policy).shards(shards).build();
            let cache = cache.expect("valid options");
            (0..400).for_each(|key| _ = cache.insert(Key(key), 0));
            for _ in 0..5_000 {
                CALLS.set((random.below(2) == 0).then(|| random.below(4)));
                let operation = || operate_with(&cache, &mut random, 400, Ttl::Never);
                panics += u32::from(catch_unwind(AssertUnwindSafe(operation)).is_err());
                CALLS.set(None);
                if random.below(20) == 0 {
                    cache.validate_exactly();
                }
            }
            cache.validate_exactly();
            assert!(panics > 500, "{panics} panics prove nothing");
            cache.clear();
            assert_eq!((cache.len(), cache.weight()), (0, 0), "{policy:?}, {shards} shards");
        }
    }
}

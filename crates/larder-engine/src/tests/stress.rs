//! Many threads run all operations with so little room that shards evict from each other; afterwards the structure is
//! valid, and every value was dropped exactly once.

use crate::{Cache, Op, Policy, Ttl};
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

const THREADS: u64 = 4;
const STEPS: u64 = 100_000;
const KEYS: u64 = 2_000;

/// A value that counts its live instances.
struct Counted {
    weight: u64,
    living: Arc<AtomicI64>,
}

impl Counted {
    fn new(weight: u64, living: &Arc<AtomicI64>) -> Self {
        living.fetch_add(1, Ordering::Relaxed);
        Counted { weight, living: living.clone() }
    }
}

impl Clone for Counted {
    fn clone(&self) -> Self {
        Counted::new(self.weight, &self.living)
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.living.fetch_sub(1, Ordering::Relaxed);
    }
}

/// The operations of one thread: a fixed sequence for each seed.
fn work(cache: &Cache<u64, Counted>, seed: u64, living: &Arc<AtomicI64>) {
    let mut state = seed;
    for _ in 0..STEPS {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let (key, weight, choice) = (state >> 33, state >> 20 & 15, state >> 50 & 63);
        let key = key % KEYS;
        match choice {
            0 => cache.set_capacity(20 + weight * 10),
            1 => cache.retain(|key, _| key % 7 != weight % 7),
            2 if weight == 0 => cache.clear(),
            3 => drop(cache.iter().take(20).count()),
            4..=7 => drop(cache.remove(&key)),
            8..=15 => {
                cache.compute(key, |entry| match entry {
                    Some(entry) if entry.value().weight % 3 == 0 => (Op::Remove, ()),
                    Some(_) => (Op::SetTtl(Ttl::After(Duration::from_millis(weight))), ()),
                    None => (Op::Put(Counted::new(weight, living), Ttl::Keep), ()),
                });
            }
            16..=23 => {
                let loaded = cache.get_or_load(&key, || Ok::<_, ()>(Counted::new(weight, living)));
                assert!(loaded.is_ok());
            }
            24..=39 => {
                let ttl = if weight > 8 { Ttl::After(Duration::from_millis(weight)) } else { Ttl::Never };
                cache.insert_with_ttl(key, Counted::new(weight, living), ttl);
            }
            _ => drop(cache.get(&key)),
        }
    }
}

#[test]
fn concurrent_operations_leave_a_valid_structure_and_leak_nothing() {
    for policy in Policy::ALL {
        let living = Arc::new(AtomicI64::new(0));
        let cache: Cache<u64, Counted> = Cache::builder()
            .weight(40, |_, value: &Counted| value.weight)
            .shards(4)
            .policy(policy)
            .build()
            .expect("valid options");
        std::thread::scope(|scope| {
            for seed in 1..=THREADS {
                let (cache, living) = (&cache, &living);
                scope.spawn(move || work(cache, seed, living));
            }
        });
        cache.validate();
        assert_eq!(
            living.load(Ordering::Relaxed),
            cache.len() as i64,
            "{policy:?}: as many live as are held"
        );
        drop(cache);
        assert_eq!(living.load(Ordering::Relaxed), 0, "{policy:?}: all are dropped, none twice");
    }
}

//! A soak test with little room: several threads run all operations while the capacity changes, the shards grow and
//! entries expire. Every sample stays within the capacity, and memory returns to its first level.
//!
//! Takes a second by default; `LARDER_SOAK=SECONDS` sets the time, and `cargo xtask test --soak` runs ten minutes.

use larder_engine::{Cache, Op, Policy, Ttl};
use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// The system's allocator with a count of the bytes in use.
struct Counting;

static IN_USE: AtomicI64 = AtomicI64::new(0);

// SAFETY: every call is forwarded unchanged to the system's allocator; counting does not touch its memory.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        IN_USE.fetch_add(layout.size() as i64, Ordering::Relaxed);
        // SAFETY: the caller's promise is passed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        IN_USE.fetch_sub(layout.size() as i64, Ordering::Relaxed);
        // SAFETY: the caller's promise is passed on.
        unsafe { System.dealloc(at, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

const WRITERS: u64 = 3;
const LEAST: u64 = 1 << 16;
const MOST: u64 = 1 << 20;
const KEYS: u64 = 60_000;
/// The capacity, and for each entry of mean weight its key, the value's header and block, slot, index, sketch, deadline,
/// wheel, and half as much again for vectors that are being moved.
const MOST_IN_USE: i64 = MOST as i64 + MOST as i64 / 30 * 100;

type Blob = Box<[u8]>;
type Blobs = Cache<u64, Blob>;

fn blob(key: u64, length: u64) -> Blob {
    vec![key as u8; length as usize].into()
}

struct Dice(u64);

impl Dice {
    fn roll(&mut self, below: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % below
    }
}

fn act(cache: &Blobs, dice: &mut Dice) {
    let key = dice.roll(KEYS);
    let length = 1 + dice.roll(60);
    match dice.roll(100) {
        0 => match dice.roll(20_000) {
            0 => cache.clear(),
            1..=20 => cache.retain(|_, value| value.len() as u64 != length),
            _ => _ = cache.iter().take(10).count(),
        },
        1..=4 => _ = cache.remove(&key),
        5..=9 => {
            cache.compute(key, |entry| match entry {
                Some(entry) if entry.value().len() < 30 => (Op::Put(blob(key, length), Ttl::Keep), ()),
                Some(_) => (Op::SetTtl(Ttl::After(Duration::from_millis(length))), ()),
                None => (Op::Put(blob(key, length), Ttl::Never), ()),
            });
        }
        10..=19 => {
            let loaded = cache.get_or_load(&key, || Ok::<_, ()>(blob(key, length)));
            assert!(loaded.is_ok_and(|value| value[0] == key as u8));
        }
        20..=49 => {
            let ttl = if length.is_multiple_of(2) {
                Ttl::Never
            } else {
                Ttl::After(Duration::from_millis(length * 20))
            };
            cache.insert_with_ttl(key, blob(key, length), ttl);
        }
        _ => assert!(cache.get_with(&key, |value| value[0] == key as u8).unwrap_or(true)),
    }
}

/// Runs one policy for a while; returns the number of operations and the highest number of bytes in use.
fn soak(policy: Policy, time: Duration) -> (u64, i64) {
    let before = IN_USE.load(Ordering::Relaxed);
    let cache: Blobs = Cache::builder()
        .weight(MOST, |_, value: &Blob| value.len() as u64)
        .policy(policy)
        .shards(8)
        .build()
        .expect("valid options");
    // More than there is room for, so that eviction begins immediately.
    (0..KEYS).for_each(|key| _ = cache.insert(key, blob(key, 30)));
    let began = Instant::now();
    let done = AtomicBool::new(false);
    let operations = AtomicU64::new(0);
    let mut most_in_use = 0;
    std::thread::scope(|scope| {
        for seed in 1..=WRITERS {
            let (cache, done, operations) = (&cache, &done, &operations);
            scope.spawn(move || {
                let mut dice = Dice(seed);
                while !done.load(Ordering::Relaxed) {
                    (0..1_000).for_each(|_| act(cache, &mut dice));
                    operations.fetch_add(1_000, Ordering::Relaxed);
                }
            });
        }
        let mut dice = Dice(99);
        let mut turns = 0;
        while began.elapsed() < time {
            // Capacity and weight are two reads: the greater of the capacities around them bounds the weight.
            let capacity = cache.capacity();
            let weight = cache.weight();
            assert!(weight <= capacity.max(cache.capacity()), "{weight} is held, {capacity} is allowed");
            most_in_use = most_in_use.max(IN_USE.load(Ordering::Relaxed) - before);
            assert!(most_in_use < MOST_IN_USE, "{most_in_use} bytes are in use");
            turns += 1;
            if turns % 200 == 0 {
                cache.set_capacity(LEAST + dice.roll(MOST - LEAST));
                cache.run_due(100);
            }
            std::thread::yield_now();
        }
        done.store(true, Ordering::Relaxed);
    });
    cache.validate();
    let stats = cache.stats();
    assert!(stats.evicted > 0 && stats.expired > 0 && stats.hits > 0, "{policy:?}: {stats:?}");
    let held: u64 = cache.iter().map(|(_, value)| value.len() as u64).sum();
    assert!(held <= cache.weight(), "{held} can be read, {} is held", cache.weight());
    cache.clear();
    assert_eq!((cache.len(), cache.weight()), (0, 0));
    drop(cache);
    let left = IN_USE.load(Ordering::Relaxed) - before;
    assert!(left < 64 << 10, "{policy:?}: {left} bytes are left behind");
    (operations.into_inner(), most_in_use)
}

#[test]
fn capacity_and_memory_hold_over_time() {
    let seconds = std::env::var("LARDER_SOAK").map_or(1.0, |text| {
        text.parse::<f64>()
            .unwrap_or_else(|_| panic!("LARDER_SOAK is {text:?}; it must be a number of seconds"))
    });
    let each = Duration::from_secs_f64(seconds / Policy::ALL.len() as f64);
    for policy in Policy::ALL {
        let (operations, most) = soak(policy, each);
        println!(
            "{}: {operations} operations in {:.1} s, at most {most} bytes",
            policy.name(),
            each.as_secs_f64()
        );
        assert!(operations > 0);
    }
}

//! Every key and value is dropped exactly once, however its entry is removed, and never while a lock is held.

use larder_engine::{Cache, Clock, FollowOutcome, Load, ManualClock, Op, Policy, Ttl};
use std::borrow::Borrow;
use std::future::Future;
use std::hash::{Hash, Hasher};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Waker};
use std::time::Duration;

/// Counts the live keys and values, and configures what they do.
#[derive(Default)]
struct Census {
    keys: AtomicI64,
    values: AtomicI64,
    /// Called on each drop: it calls the cache, which panics if a lock of it is held.
    on_drop: Mutex<Option<Cache<Key, Value>>>,
    dropped_under_lock: AtomicBool,
    clones_panic: AtomicBool,
    hashes_panic: AtomicBool,
}

impl Census {
    fn note_drop(&self) {
        let cache = self.on_drop.lock().expect("no panic").clone();
        if let Some(cache) = cache
            && !std::thread::panicking()
            && catch_unwind(AssertUnwindSafe(|| cache.contains(&u32::MAX))).is_err()
        {
            self.dropped_under_lock.store(true, Ordering::Relaxed);
        }
    }
}

struct Key {
    number: u32,
    census: Arc<Census>,
}

struct Value {
    weight: u64,
    census: Arc<Census>,
}

impl Clone for Key {
    fn clone(&self) -> Self {
        key(&self.census, self.number)
    }
}

impl Clone for Value {
    fn clone(&self) -> Self {
        assert!(!self.census.clones_panic.load(Ordering::Relaxed), "asked to panic");
        value(&self.census, self.weight)
    }
}

impl Drop for Key {
    fn drop(&mut self) {
        self.census.keys.fetch_sub(1, Ordering::Relaxed);
        self.census.note_drop();
    }
}

impl Drop for Value {
    fn drop(&mut self) {
        self.census.values.fetch_sub(1, Ordering::Relaxed);
        self.census.note_drop();
    }
}

impl PartialEq for Key {
    fn eq(&self, other: &Self) -> bool {
        self.number == other.number
    }
}

impl Eq for Key {}

impl Hash for Key {
    fn hash<H: Hasher>(&self, state: &mut H) {
        assert!(!self.census.hashes_panic.load(Ordering::Relaxed), "asked to panic");
        self.number.hash(state);
    }
}

impl Borrow<u32> for Key {
    fn borrow(&self) -> &u32 {
        &self.number
    }
}

fn key(census: &Arc<Census>, number: u32) -> Key {
    census.keys.fetch_add(1, Ordering::Relaxed);
    Key { number, census: census.clone() }
}

fn value(census: &Arc<Census>, weight: u64) -> Value {
    census.values.fetch_add(1, Ordering::Relaxed);
    Value { weight, census: census.clone() }
}

/// The fixture of each case: eight entries of weight one, numbered from 0, in a cache with a capacity of ten.
struct Stage {
    cache: Cache<Key, Value>,
    census: Arc<Census>,
    hand: ManualClock,
    listener_panics: Arc<AtomicBool>,
}

impl Stage {
    fn new(policy: Policy, shards: usize) -> Self {
        let census = Arc::new(Census::default());
        let listener_panics = Arc::new(AtomicBool::new(false));
        let panics = listener_panics.clone();
        let (clock, hand) = Clock::manual();
        let cache = Cache::builder()
            .weight(10, |_, value: &Value| {
                assert!(value.weight != WEIGHER_PANICS, "asked to panic");
                value.weight
            })
            .policy(policy)
            .shards(shards)
            .clock(clock)
            .listener(move |_, _, _| assert!(!panics.load(Ordering::Relaxed), "asked to panic"))
            .build()
            .expect("valid options");
        *census.on_drop.lock().expect("no panic") = Some(cache.clone());
        let stage = Stage { cache, census, hand, listener_panics };
        for number in 0..8 {
            stage.insert(number, 1);
        }
        stage
    }

    fn key(&self, number: u32) -> Key {
        key(&self.census, number)
    }

    fn value(&self, weight: u64) -> Value {
        value(&self.census, weight)
    }

    fn insert(&self, number: u32, weight: u64) {
        drop(self.cache.insert(self.key(number), self.value(weight)));
    }

    fn let_all_expire(&self) {
        for number in 0..8 {
            self.cache.compute(self.key(number), |_| (Op::SetTtl(Ttl::After(Duration::from_millis(10))), ()));
        }
        self.hand.advance(Duration::from_millis(1_000));
    }

    fn compute(&self, number: u32, op: impl FnOnce() -> Op<Value>) {
        self.cache.compute(self.key(number), |_| (op(), ()));
    }

    fn lead(&self, number: u32) -> larder_engine::Ticket<Key, Value> {
        match self.cache.load(&self.key(number)) {
            Load::Lead(ticket) => ticket,
            _ => panic!("expected to lead"),
        }
    }

    /// Runs an operation that panics.
    fn panic_in(&self, action: impl FnOnce()) {
        assert!(catch_unwind(AssertUnwindSafe(action)).is_err(), "it was asked to panic");
        self.listener_panics.store(false, Ordering::Relaxed);
        self.census.clones_panic.store(false, Ordering::Relaxed);
        self.census.hashes_panic.store(false, Ordering::Relaxed);
    }

    /// Checks that there are as many keys and values as entries, that the structure is valid, and that dropping the cache
    /// drops all.
    fn check(self, name: &str) {
        assert!(!self.census.dropped_under_lock.load(Ordering::Relaxed), "{name}: dropped under a lock");
        self.census.on_drop.lock().expect("no panic").take();
        self.cache.validate();
        let held = self.cache.len() as i64;
        let readable: Vec<u64> = self.cache.iter().map(|(_, value)| value.weight).collect();
        let Stage { cache, census, .. } = self;
        let living = || (census.keys.load(Ordering::Relaxed), census.values.load(Ordering::Relaxed));
        assert_eq!(living(), (held, held), "{name}: keys and values that live are those held");
        if readable.len() as i64 == held {
            let weight: u64 = readable.iter().sum();
            assert_eq!(cache.weight(), weight, "{name}: the budget knows what is held");
        }
        drop(cache);
        assert_eq!(living(), (0, 0), "{name}: nothing outlives the cache");
    }
}

const WEIGHER_PANICS: u64 = u64::MAX;

type Way = (&'static str, fn(&Stage));

fn for_each_policy(ways: &[Way]) {
    for policy in Policy::ALL {
        for (shards, (name, way)) in
            [1, 2].into_iter().flat_map(|shards| ways.iter().map(move |way| (shards, way)))
        {
            let stage = Stage::new(policy, shards);
            way(&stage);
            stage.check(&format!("{name}, {policy:?}, {shards} shards"));
        }
    }
}

#[test]
fn entry_removed_in_any_way_is_dropped_once() {
    for_each_policy(&[
        ("replaced", |stage| stage.insert(1, 2)),
        ("removed", |stage| assert!(stage.cache.remove(&1).is_some())),
        ("replaced by compute", |stage| stage.compute(1, || Op::Put(stage.value(1), Ttl::Keep))),
        ("removed by compute", |stage| stage.compute(1, || Op::Remove)),
        ("kept by compute", |stage| stage.compute(1, || Op::Keep)),
        ("refused", |stage| stage.insert(1, 11)),
        ("refused by compute", |stage| stage.compute(1, || Op::Put(stage.value(11), Ttl::Default))),
        ("evicted", |stage| (10..50).for_each(|number| stage.insert(number, 1))),
        ("evicted by a heavy one", |stage| stage.insert(10, 10)),
        ("evicted by one that grows", |stage| stage.insert(1, 9)),
        ("evicted by a lower capacity", |stage| stage.cache.set_capacity(3)),
        ("retained or not", |stage| stage.cache.retain(|key, _| key.number % 2 == 0)),
        ("cleared", |stage| stage.cache.clear()),
        ("drained", |stage| assert_eq!(stage.cache.drain().len(), 8)),
        ("read by an iterator that stops", |stage| drop(stage.cache.iter().take(3).collect::<Vec<_>>())),
    ]);
}

#[test]
fn entry_expired_is_dropped_once_by_each_operation() {
    for_each_policy(&[
        ("nobody", |stage| stage.let_all_expire()),
        ("run_due", |stage| {
            stage.let_all_expire();
            assert_eq!(stage.cache.run_due(100), 8);
        }),
        ("a write elsewhere", |stage| {
            stage.let_all_expire();
            (20..40).for_each(|number| stage.insert(number, 1));
        }),
        ("an insertion", |stage| {
            stage.let_all_expire();
            stage.insert(1, 1);
        }),
        ("a removal", |stage| {
            stage.let_all_expire();
            assert!(stage.cache.remove(&1).is_none());
        }),
        ("a load", |stage| {
            stage.let_all_expire();
            stage.lead(1).commit(stage.value(1));
        }),
        ("drain", |stage| {
            stage.let_all_expire();
            assert!(stage.cache.drain().is_empty());
        }),
    ]);
}

#[test]
fn load_ended_in_any_way_drops_its_value_once() {
    for_each_policy(&[
        ("committed", |stage| _ = stage.lead(20).commit(stage.value(1))),
        ("committed and refused", |stage| {
            let ticket = stage.lead(20);
            stage.insert(20, 1);
            ticket.commit(stage.value(1));
        }),
        ("committed and too heavy", |stage| _ = stage.lead(20).commit(stage.value(11))),
        ("given", |stage| stage.lead(20).deliver(stage.value(1))),
        ("failed", |stage| stage.lead(20).fail(Arc::new("no"))),
        ("dropped", |stage| drop(stage.lead(20))),
        ("followed", |stage| {
            let ticket = stage.lead(20);
            let Load::Follow(mut follower) = stage.cache.load(&stage.key(20)) else { panic!("a follower") };
            let mut context = Context::from_waker(Waker::noop());
            assert!(Pin::new(&mut follower).poll(&mut context).is_pending());
            ticket.commit(stage.value(1));
            assert!(matches!(follower.wait(), FollowOutcome::Value(_)));
        }),
        ("voided and never settled", |stage| {
            let ticket = stage.lead(20);
            stage.cache.clear();
            drop(ticket);
        }),
    ]);
}

#[test]
fn user_code_panicked_drops_everything_once() {
    for_each_policy(&[
        ("the closure of get_with", |stage| {
            stage.panic_in(|| _ = stage.cache.get_with(&1, |_| panic!("no")));
        }),
        ("the closure of compute", |stage| stage.panic_in(|| stage.compute(1, || panic!("no")))),
        ("the clone of a read", |stage| {
            stage.census.clones_panic.store(true, Ordering::Relaxed);
            stage.panic_in(|| drop(stage.cache.get(&1)));
        }),
        ("the weigher of an insertion", |stage| stage.panic_in(|| stage.insert(1, WEIGHER_PANICS))),
        ("the weigher of a compute", |stage| {
            stage.panic_in(|| stage.compute(1, || Op::Put(stage.value(WEIGHER_PANICS), Ttl::Default)));
        }),
        ("the weigher of a commit", |stage| {
            let ticket = stage.lead(20);
            stage.panic_in(|| _ = ticket.commit(stage.value(WEIGHER_PANICS)));
            stage.lead(20).deliver(stage.value(1));
        }),
        ("the clone of a commit that others wait for", |stage| {
            let ticket = stage.lead(20);
            let Load::Follow(follower) = stage.cache.load(&stage.key(20)) else { panic!("a follower") };
            stage.census.clones_panic.store(true, Ordering::Relaxed);
            stage.panic_in(|| _ = ticket.commit(stage.value(1)));
            let FollowOutcome::Lead(next) = follower.wait() else { panic!("nobody waits for ever") };
            next.deliver(stage.value(1));
        }),
        ("the listener of an eviction", |stage| {
            stage.listener_panics.store(true, Ordering::Relaxed);
            stage.panic_in(|| stage.insert(10, 8));
        }),
        ("the listener of a commit that others wait for", |stage| {
            let ticket = stage.lead(20);
            let Load::Follow(follower) = stage.cache.load(&stage.key(20)) else { panic!("a follower") };
            stage.listener_panics.store(true, Ordering::Relaxed);
            stage.panic_in(|| _ = ticket.commit(stage.value(10)));
            assert!(matches!(follower.wait(), FollowOutcome::Value(_)), "nobody waits for ever");
        }),
        ("the listener of a removal", |stage| {
            stage.listener_panics.store(true, Ordering::Relaxed);
            stage.panic_in(|| drop(stage.cache.remove(&1)));
        }),
        ("the listener of clear", |stage| {
            stage.listener_panics.store(true, Ordering::Relaxed);
            stage.panic_in(|| stage.cache.clear());
        }),
        ("the listener of a lower capacity", |stage| {
            stage.listener_panics.store(true, Ordering::Relaxed);
            stage.panic_in(|| stage.cache.set_capacity(3));
        }),
        ("the closure of retain, after some were removed", |stage| {
            let mut seen = 0;
            stage.panic_in(|| {
                stage.cache.retain(|_, _| {
                    seen += 1;
                    assert!(seen < 4, "asked to panic");
                    false
                });
            });
        }),
        ("the clone of an iteration", |stage| {
            stage.census.clones_panic.store(true, Ordering::Relaxed);
            stage.panic_in(|| drop(stage.cache.iter().collect::<Vec<_>>()));
        }),
    ]);
}

/// A key whose hash panics cannot be found any more; but nothing is dropped twice, and nothing leaks.
#[test]
fn keys_that_panic_on_hash_are_dropped_with_the_cache() {
    for policy in Policy::ALL {
        let stage = Stage::new(policy, 2);
        stage.census.hashes_panic.store(true, Ordering::Relaxed);
        for number in 10..40 {
            _ = catch_unwind(AssertUnwindSafe(|| stage.insert(number, 1)));
            _ = catch_unwind(AssertUnwindSafe(|| stage.cache.remove(&number)));
            _ = catch_unwind(AssertUnwindSafe(|| stage.cache.remove(&(number % 8))));
        }
        let Stage { cache, census, .. } = stage;
        census.on_drop.lock().expect("no panic").take();
        drop(cache);
        assert_eq!(census.keys.load(Ordering::Relaxed), 0, "{policy:?}");
        assert_eq!(census.values.load(Ordering::Relaxed), 0, "{policy:?}");
    }
}

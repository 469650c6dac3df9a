//! Every outcome of a load, and every change of its key during the load.

use crate::{Cache, CommitOutcome, FollowOutcome, Follower, Leader, Load, Refusal, Ticket, Ttl};
use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

fn cache() -> Cache<u32, u32> {
    Cache::builder().entries(100).build().expect("valid options")
}

fn lead(cache: &Cache<u32, u32>, key: u32) -> Ticket<u32, u32> {
    match cache.load(&key) {
        Load::Lead(ticket) => ticket,
        other => panic!("expected to lead: {other:?}"),
    }
}

fn follow(cache: &Cache<u32, u32>, key: u32) -> Follower<u32, u32> {
    match cache.load(&key) {
        Load::Follow(follower) => follower,
        other => panic!("expected to follow: {other:?}"),
    }
}

struct CountWakes(AtomicUsize);

impl Wake for CountWakes {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

fn poll(follower: &mut Follower<u32, u32>) -> Poll<FollowOutcome<u32, u32>> {
    Pin::new(follower).poll(&mut Context::from_waker(Waker::noop()))
}

fn value(follower: &mut Follower<u32, u32>) -> u32 {
    match poll(follower) {
        Poll::Ready(FollowOutcome::Value(value)) => value,
        other => panic!("expected a value: {other:?}"),
    }
}

#[test]
fn follower_gets_the_committed_value() {
    let cache = cache();
    let ticket = lead(&cache, 1);
    let mut follower = follow(&cache, 1);
    assert!(poll(&mut follower).is_pending());
    assert_eq!(ticket.commit(7), CommitOutcome::Stored);
    assert_eq!(value(&mut follower), 7);
    assert!(matches!(cache.load(&1), Load::Hit(7)));
    assert_eq!(cache.stats().loads, 1);
}

#[test]
fn follower_is_woken_once_by_each_outcome() {
    let endings: [fn(Ticket<u32, u32>); 4] =
        [|t| _ = t.commit(1), |t| t.deliver(1), |t| t.fail(Arc::new("no")), drop];
    for ending in endings {
        let cache = cache();
        let ticket = lead(&cache, 1);
        let mut follower = follow(&cache, 1);
        let wakes = Arc::new(CountWakes(AtomicUsize::new(0)));
        let waker = Waker::from(wakes.clone());
        for _ in 0..3 {
            assert!(Pin::new(&mut follower).poll(&mut Context::from_waker(&waker)).is_pending());
        }
        ending(ticket);
        assert_eq!(wakes.0.load(Ordering::SeqCst), 1);
        assert!(poll(&mut follower).is_ready());
    }
}

#[test]
fn key_changed_during_load_voids_the_ticket() {
    let changes: [fn(&Cache<u32, u32>); 5] = [
        |cache| _ = cache.remove(&1),
        |cache| _ = cache.insert(1, 2),
        |cache| _ = cache.compute(1, |_| (crate::Op::Remove, ())),
        |cache| cache.clear(),
        |cache| _ = cache.drain(),
    ];
    for (number, change) in changes.into_iter().enumerate() {
        let cache = cache();
        let ticket = lead(&cache, 1);
        let mut follower = follow(&cache, 1);
        assert!(ticket.is_valid());
        change(&cache);
        assert!(!ticket.is_valid());
        let after = cache.get(&1);
        assert_eq!(ticket.commit(99), CommitOutcome::Voided, "change {number}");
        assert_eq!(cache.get(&1), after, "change {number}: the late value is stored nowhere");
        assert_eq!(value(&mut follower), 99, "those who waited from before the change get it");
    }
}

#[test]
fn value_too_heavy_is_refused_and_delivered() {
    let cache: Cache<u32, u32> =
        Cache::builder().weight(100, |_, value| u64::from(*value)).build().expect("valid");
    let ticket = lead(&cache, 1);
    let mut follower = follow(&cache, 1);
    let outcome = ticket.commit(101);
    assert!(matches!(outcome, CommitOutcome::Refused(Refusal::TooHeavy { weight: 101, .. })), "{outcome:?}");
    assert_eq!((cache.get(&1), value(&mut follower)), (None, 101));
}

#[test]
fn load_after_invalidation_does_not_join_the_old_one() {
    let cache = cache();
    let old = lead(&cache, 1);
    cache.remove(&1);
    let new = lead(&cache, 1);
    let mut follower = follow(&cache, 1);
    assert_eq!(old.commit(1), CommitOutcome::Voided);
    assert!(poll(&mut follower).is_pending());
    assert_eq!(new.commit(2), CommitOutcome::Stored);
    assert_eq!(value(&mut follower), 2);
}

/// A load that may stop for as long as it likes.
fn lead_giving_way(cache: &Cache<u32, u32>) -> Load<u32, u32> {
    cache.load_at(&1, cache.clock().now(), Leader::GivesWay, u32::clone)
}

#[test]
fn leader_that_gives_way_is_replaced_by_the_next_one() {
    let take_over: [fn(&Cache<u32, u32>); 4] = [
        |cache| _ = lead(cache, 1).commit(2),
        |cache| match cache.reload_with(&1, Leader::Async, u32::clone) {
            Load::Lead(ticket) => _ = ticket.commit(2),
            other => panic!("expected to lead: {other:?}"),
        },
        |cache| _ = cache.get_or_insert_with(&1, || 2),
        |cache| match cache.load_after_miss(&1) {
            Load::Lead(ticket) => _ = ticket.commit(2),
            other => panic!("expected to lead: {other:?}"),
        },
    ];
    for take_over in take_over {
        let cache = cache();
        let Load::Lead(gives_way) = lead_giving_way(&cache) else { panic!("the cache is empty") };
        let Load::Follow(mut second) = lead_giving_way(&cache) else { panic!("both would give way") };
        assert!(gives_way.is_valid() && poll(&mut second).is_pending());
        take_over(&cache);
        assert!(!gives_way.is_valid());
        assert_eq!(gives_way.commit(1), CommitOutcome::Voided);
        assert_eq!((cache.get(&1), value(&mut second)), (Some(2), 2));
    }
}

#[test]
fn leader_that_gives_way_commits_if_nobody_else_leads() {
    let cache = cache();
    let Load::Lead(ticket) = lead_giving_way(&cache) else { panic!("the cache is empty") };
    assert_eq!(ticket.commit(1), CommitOutcome::Stored);
    assert!(matches!(lead_giving_way(&cache), Load::Hit(1)));
    let load = lead(&cache, 2);
    let follows = cache.load_at(&2, cache.clock().now(), Leader::GivesWay, u32::clone);
    assert!(matches!(follows, Load::Follow(_)) && load.is_valid(), "it takes nobody's place");
}

/// Leads a load beside the one under way.
fn overtake(cache: &Cache<u32, u32>) -> Ticket<u32, u32> {
    match follow(cache, 1).overtake(Leader::Async) {
        Load::Lead(ticket) => ticket,
        other => panic!("expected to lead: {other:?}"),
    }
}

#[test]
fn overtaken_load_commits_until_a_later_one_has() {
    let cache = cache();
    let older = lead(&cache, 1);
    let mut first = follow(&cache, 1);
    let newer = overtake(&cache);
    let mut second = follow(&cache, 1);
    assert!(older.is_valid() && newer.is_valid());
    assert_eq!(older.commit(1), CommitOutcome::Stored);
    assert_eq!((cache.get(&1), value(&mut first)), (Some(1), 1));
    assert!(poll(&mut second).is_pending(), "it follows the later one");
    assert_eq!(newer.commit(2), CommitOutcome::Stored);
    assert_eq!((cache.get(&1), value(&mut second)), (Some(2), 2));
}

#[test]
fn overtaken_load_is_void_after_a_later_one() {
    let cache = cache();
    let [oldest, older] = [lead(&cache, 1), overtake(&cache)];
    let newer = overtake(&cache);
    assert_eq!(older.commit(2), CommitOutcome::Stored);
    assert!(!oldest.is_valid() && newer.is_valid());
    assert_eq!(oldest.commit(1), CommitOutcome::Voided);
    assert_eq!(newer.commit(3), CommitOutcome::Stored);
    assert_eq!(cache.get(&1), Some(3));
}

#[test]
fn load_that_stores_nothing_leaves_the_one_that_it_has_overtaken() {
    let endings: [fn(Ticket<u32, u32>); 3] =
        [drop, |newer| newer.fail(Arc::new("down")), |newer| newer.deliver(2)];
    for end in endings {
        let cache = cache();
        let (older, newer) = (lead(&cache, 1), overtake(&cache));
        end(newer);
        let mut follower = follow(&cache, 1);
        assert_eq!(older.commit(1), CommitOutcome::Stored);
        assert_eq!((cache.get(&1), value(&mut follower)), (Some(1), 1));
    }
}

#[test]
fn changed_key_voids_overtaken_loads_too() {
    let changes: [fn(&Cache<u32, u32>); 3] =
        [|cache| _ = cache.remove(&1), |cache| _ = cache.insert(1, 9), |cache| cache.clear()];
    for change in changes {
        let cache = cache();
        let (older, newer) = (lead(&cache, 1), overtake(&cache));
        change(&cache);
        assert!(!older.is_valid() && !newer.is_valid());
        assert_eq!((older.commit(1), newer.commit(2)), (CommitOutcome::Voided, CommitOutcome::Voided));
        assert_ne!(cache.get(&1), Some(1));
    }
}

#[test]
fn caller_that_comes_after_the_one_who_overtook_follows() {
    let cache = cache();
    let older = lead(&cache, 1);
    let [first, second] = [follow(&cache, 1), follow(&cache, 1)];
    let Load::Lead(newer) = first.overtake(Leader::Async) else { panic!("nobody has overtaken it") };
    let Load::Follow(mut second) = second.overtake(Leader::Async) else { panic!("they share one load") };
    newer.commit(2);
    assert_eq!(value(&mut second), 2);
    assert_eq!(older.commit(1), CommitOutcome::Voided);
}

#[test]
fn leader_dropped_promotes_one_follower() {
    let cache = cache();
    let ticket = lead(&cache, 1);
    let mut followers = [follow(&cache, 1), follow(&cache, 1), follow(&cache, 1)];
    assert!(followers.iter_mut().all(|follower| poll(follower).is_pending()));
    drop(ticket);
    let Poll::Ready(FollowOutcome::Lead(ticket)) = poll(&mut followers[0]) else { panic!("promoted") };
    assert!(poll(&mut followers[1]).is_pending());
    assert!(poll(&mut followers[2]).is_pending());
    ticket.commit(5);
    assert_eq!((value(&mut followers[1]), value(&mut followers[2])), (5, 5));
}

#[test]
fn failed_load_is_shared_and_not_stored() {
    let cache = cache();
    let ticket = lead(&cache, 1);
    let mut follower = follow(&cache, 1);
    ticket.fail(Arc::new("database is down"));
    let Poll::Ready(FollowOutcome::Failed(why)) = poll(&mut follower) else { panic!("failed") };
    assert_eq!(why.downcast_ref(), Some(&"database is down"));
    assert!(matches!(cache.load(&1), Load::Lead(_)));
    assert_eq!(cache.stats().load_failures, 2, "the failed one, and the one dropped just now");
}

#[test]
fn delivered_value_reaches_followers_only() {
    let cache = cache();
    let ticket = lead(&cache, 1);
    let mut follower = follow(&cache, 1);
    ticket.deliver(3);
    assert_eq!(value(&mut follower), 3);
    assert!(!cache.contains(&1));
}

#[test]
fn follower_dropped_leaves_the_waiters() {
    let cache = cache();
    let ticket = lead(&cache, 1);
    let mut follower = follow(&cache, 1);
    assert!(poll(&mut follower).is_pending());
    drop(follower);
    assert_eq!(ticket.commit_with_ttl(1, Ttl::Never), CommitOutcome::Stored);
}

#[test]
fn get_or_load_concurrent_loads_once() {
    let cache = cache();
    let loads = AtomicUsize::new(0);
    let (started, has_started) = mpsc::channel();
    let (release, released) = mpsc::channel::<()>();
    std::thread::scope(|scope| {
        let (cache, loads) = (&cache, &loads);
        let leader = scope.spawn(move || {
            cache.get_or_load(&1, || {
                loads.fetch_add(1, Ordering::SeqCst);
                started.send(()).expect("the test listens");
                released.recv().expect("the test releases");
                Ok::<_, ()>(42)
            })
        });
        has_started.recv().expect("the leader started");
        let followers: Vec<_> = (0..4)
            .map(|_| scope.spawn(|| cache.get_or_load(&1, || -> Result<u32, ()> { panic!("a second load") })))
            .collect();
        // Each follower has counted its miss before the leader goes on.
        while cache.stats().misses < 5 {
            std::thread::yield_now();
        }
        release.send(()).expect("the leader waits");
        assert_eq!(leader.join().expect("no panic"), Ok(42));
        assert!(followers.into_iter().all(|follower| follower.join().expect("no panic") == Ok(42)));
    });
    assert_eq!(loads.load(Ordering::SeqCst), 1);
}

#[test]
fn get_or_load_does_not_wait_for_an_async_leader() {
    let cache = cache();
    let ticket = lead(&cache, 1);
    let mut follower = follow(&cache, 1);
    assert_eq!(cache.get_or_load(&1, || Ok::<_, ()>(1)), Ok(1));
    assert_eq!(value(&mut follower), 1, "the first valid value ends the load for all");
    assert_eq!(ticket.commit(2), CommitOutcome::Voided, "the second comes too late");
    assert_eq!(cache.get(&1), Some(1));
}

#[test]
fn get_or_load_failed_beside_leader_keeps_the_leader() {
    let cache = cache();
    let ticket = lead(&cache, 1);
    assert_eq!(cache.get_or_load(&1, || Err("no")), Err("no"));
    assert_eq!(ticket.commit(2), CommitOutcome::Stored);
}

#[test]
fn loader_may_load_its_own_key() {
    let cache = cache();
    let result = cache.get_or_load(&1, || Ok::<_, ()>(cache.get_or_load(&1, || Ok::<_, ()>(1))? + 1));
    assert_eq!(result, Ok(2));
    assert_eq!(cache.get(&1), Some(1), "the inner value was the first that was valid");
}

#[test]
fn loader_panicked_affects_only_its_caller() {
    let cache = cache();
    let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        cache.get_or_load(&1, || -> Result<u32, ()> { panic!("loader") })
    }));
    assert!(panicked.is_err());
    assert_eq!(cache.get_or_load(&1, || Ok::<_, ()>(3)), Ok(3));
}

/// A load under way has no value to pass to the predicate, so it must not store one afterwards.
#[test]
fn retain_during_load_voids_the_ticket() {
    let cache = cache();
    let ticket = lead(&cache, 1);
    let mut follower = follow(&cache, 1);
    cache.retain(|_, _| true);
    assert_eq!(ticket.commit(7), CommitOutcome::Voided);
    assert_eq!(value(&mut follower), 7);
    assert!(!cache.contains(&1));
}

#[test]
fn to_key_that_makes_another_key_panics_and_leaves_no_load() {
    let cache: Cache<String, u32> =
        Cache::builder().entries(4_096).shards(16).build().expect("valid options");
    let now = cache.clock().now();
    for n in 0..64 {
        let name = n.to_string();
        let other = |name: &str| format!("{name}?");
        for attempt in [
            &(|| drop(cache.load_at(name.as_str(), now, Leader::Async, other))) as &dyn Fn(),
            &(|| drop(cache.reload_with(name.as_str(), Leader::Async, other))),
        ] {
            let panicked = catch_unwind(AssertUnwindSafe(attempt));
            let message = *panicked.expect_err("refused").downcast::<&str>().expect("a message");
            assert!(message.contains("another key"), "{message}");
        }
        let Load::Lead(ticket) = cache.load(&name) else { panic!("no load is left behind") };
        assert_eq!(ticket.commit(n), CommitOutcome::Stored);
        // A follower's key is checked as well: it looks up this key later.
        let _load = cache.reload_with(name.as_str(), Leader::Async, str::to_owned);
        let follows =
            catch_unwind(AssertUnwindSafe(|| drop(cache.reload_with(name.as_str(), Leader::Async, other))));
        assert!(follows.is_err());
    }
    cache.validate();
    assert_eq!(cache.len(), 64);
    cache.clear();
    assert_eq!((cache.len(), cache.weight()), (0, 0));
}

/// Calls a function when it is woken, and another when it is dropped.
struct Hooks {
    woken: Box<dyn Fn() + Send + Sync>,
    dropped: Box<dyn Fn() + Send + Sync>,
}

impl Wake for Hooks {
    fn wake(self: Arc<Self>) {
        (self.woken)();
    }
}

impl Drop for Hooks {
    fn drop(&mut self) {
        (self.dropped)();
    }
}

#[test]
fn waker_that_panics_strands_no_other_follower() {
    let cache = cache();
    let ticket = lead(&cache, 1);
    let mut followers = [follow(&cache, 1), follow(&cache, 1), follow(&cache, 1), follow(&cache, 1)];
    let wakes = Arc::new(CountWakes(AtomicUsize::new(0)));
    for (n, follower) in followers.iter_mut().enumerate() {
        let panics = Hooks { woken: Box::new(|| panic!("waker")), dropped: Box::new(|| ()) };
        let waker = if n % 2 == 0 { Waker::from(Arc::new(panics)) } else { Waker::from(wakes.clone()) };
        wait_with(follower, &waker);
    }
    assert!(catch_unwind(AssertUnwindSafe(|| ticket.commit(7))).is_err(), "the panic reaches the leader");
    assert_eq!(wakes.0.load(Ordering::SeqCst), 2);
    assert_eq!(followers.each_mut().map(value), [7; 4]);
}

fn wait_with(follower: &mut Follower<u32, u32>, waker: &Waker) {
    assert!(Pin::new(follower).poll(&mut Context::from_waker(waker)).is_pending());
}

/// A waker may hold the last reference to a task that holds a follower of the same load.
#[test]
fn waker_dropped_or_replaced_may_use_the_load() {
    let cache = cache();
    let ticket = lead(&cache, 1);
    let drops = Arc::new(AtomicUsize::new(0));
    let waker = || {
        let (other, drops) = (crate::mutex::Mutex::new(follow(&cache, 1)), drops.clone());
        let polls = move || {
            drops.fetch_add(1, Ordering::SeqCst);
            assert!(poll(&mut other.lock()).is_pending());
        };
        Waker::from(Arc::new(Hooks { woken: Box::new(|| ()), dropped: Box::new(polls) }))
    };
    let mut follower = follow(&cache, 1);
    wait_with(&mut follower, &waker());
    wait_with(&mut follower, &waker());
    drop(follower);
    assert_eq!(drops.load(Ordering::SeqCst), 2);
    ticket.commit(7);
}

/// A ticket that is forgotten is neither settled nor dropped.
#[test]
fn follower_of_a_forgotten_ticket_waits_for_a_limit() {
    let cache = cache();
    std::mem::forget(lead(&cache, 1));
    let Err(follower) = follow(&cache, 1).wait_timeout(Duration::from_millis(1)) else {
        panic!("it never ends")
    };
    cache.insert(1, 7);
    let Err(_) = follower.wait_timeout(Duration::ZERO) else {
        panic!("the insert voids, and does not end, the load")
    };
    let ticket = lead(&cache, 2);
    let follower = follow(&cache, 2);
    ticket.commit(8);
    assert!(matches!(follower.wait_timeout(Duration::MAX), Ok(FollowOutcome::Value(8))));
}

#[test]
fn get_or_load_timeout_loads_beside_a_leader_that_hangs() {
    let cache = cache();
    let (started, has_started) = mpsc::channel();
    let (release, released) = mpsc::channel::<()>();
    std::thread::scope(|scope| {
        let cache = &cache;
        let leader = scope.spawn(move || {
            let load = || {
                started.send(()).expect("the test listens");
                released.recv().expect("the test releases");
                Ok::<_, ()>(1)
            };
            cache.get_or_load(&1, load)
        });
        has_started.recv().expect("the leader started");
        assert_eq!(cache.get_or_load_timeout(&1, Duration::from_millis(1), || Ok::<_, ()>(2)), Ok(2));
        release.send(()).expect("the leader waits");
        assert_eq!(leader.join().expect("no panic"), Ok(1));
    });
    assert_eq!(cache.get(&1), Some(2), "the first valid value is stored");
}

/// Polls a future that must not have to wait.
fn now_or_never<T>(future: impl Future<Output = T>) -> T {
    match std::pin::pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(output) => output,
        Poll::Pending => panic!("it waits"),
    }
}

#[test]
fn get_or_load_async_loads_once_and_shares_values_and_errors() {
    let cache = cache();
    let context = &mut Context::from_waker(Waker::noop());
    for outcome in [Err("no"), Ok(7)] {
        let (answer, answered) = mpsc::channel();
        let ask = std::future::poll_fn(move |_| answered.try_recv().map_or(Poll::Pending, Poll::Ready));
        let mut leader = Box::pin(cache.get_or_load_async(&1, || ask));
        assert!(leader.as_mut().poll(context).is_pending());
        let second = || -> std::future::Ready<Result<u32, &str>> { panic!("a second load") };
        let mut follower = Box::pin(cache.get_or_load_async(&1, second));
        assert!(follower.as_mut().poll(context).is_pending());
        answer.send(outcome).expect("the leader listens");
        assert_eq!(leader.as_mut().poll(context), Poll::Ready(outcome));
        assert_eq!(follower.as_mut().poll(context), Poll::Ready(outcome));
    }
    assert_eq!(now_or_never(cache.get_or_load_async(&1, || async { Err("never asked") })), Ok(7));
    assert_eq!((cache.stats().loads, cache.stats().load_failures), (1, 1));
}

#[test]
fn get_or_load_async_leader_dropped_promotes_a_follower() {
    let cache = cache();
    let context = &mut Context::from_waker(Waker::noop());
    let mut leader = Box::pin(cache.get_or_load_async(&1, std::future::pending::<Result<u32, ()>>));
    assert!(leader.as_mut().poll(context).is_pending());
    let mut follower = Box::pin(cache.get_or_load_async(&1, || async { Ok::<_, ()>(2) }));
    assert!(follower.as_mut().poll(context).is_pending());
    drop(leader);
    assert_eq!(follower.as_mut().poll(context), Poll::Ready(Ok(2)));
    assert_eq!(cache.get(&1), Some(2));
}

#[test]
fn get_or_insert_with_loads_on_a_miss_only() {
    let cache = cache();
    assert_eq!(cache.get_or_insert_with(&1, || 7), 7);
    assert_eq!(cache.get_or_insert_with(&1, || panic!("a second load")), 7);
}

#[test]
fn get_or_load_with_ttl_stores_for_the_time_of_the_loader() {
    let (clock, hand) = crate::Clock::manual();
    let cache: Cache<u32, u32> = Cache::builder().entries(10).clock(clock).build().expect("valid options");
    let ttl = Ttl::After(Duration::from_millis(5));
    assert_eq!(cache.get_or_load_with_ttl(&1, || Ok::<_, ()>((7, ttl))), Ok(7));
    assert_eq!(cache.get(&1), Some(7));
    hand.advance(Duration::from_millis(5));
    assert_eq!(cache.get(&1), None);
}

#[test]
fn get_or_load_async_with_ttl_stores_for_the_time_of_the_loader() {
    let (clock, hand) = crate::Clock::manual();
    let cache: Cache<u32, u32> = Cache::builder().entries(10).clock(clock).build().expect("valid options");
    let ttl = Ttl::After(Duration::from_millis(5));
    let loaded = now_or_never(cache.get_or_load_async_with_ttl(&1, || async { Ok::<_, ()>((7, ttl)) }));
    assert_eq!(loaded, Ok(7));
    assert_eq!(cache.get(&1), Some(7));
    hand.advance(Duration::from_millis(5));
    assert_eq!(cache.get(&1), None);
}

#[test]
fn load_after_a_miss_counts_no_read() {
    let cache = Cache::builder().entries(10).build().unwrap();
    assert!(cache.get(&1).is_none());
    let Load::Lead(ticket) = cache.load_after_miss(&1) else { panic!("nobody loads") };
    assert!(matches!(cache.load_after_miss(&1), Load::Follow(_)));
    ticket.commit("one");
    assert!(matches!(cache.load_after_miss(&1), Load::Hit("one")));
    let stats = cache.stats();
    assert_eq!((stats.hits, stats.misses), (0, 1));
}

#[test]
fn read_that_waits_for_a_load_and_leads_counts_one_miss() {
    let cache = cache();
    let mut ticket = lead(&cache, 1);
    let mut followers: Vec<_> = (0..10).map(|_| follow(&cache, 1)).collect();
    while let Some(mut next) = followers.pop() {
        drop(ticket);
        ticket = match poll(&mut next) {
            Poll::Ready(FollowOutcome::Lead(ticket)) => ticket,
            other => panic!("expected to lead: {other:?}"),
        };
        assert!(followers.iter_mut().all(|follower| poll(follower).is_pending()));
    }
    assert_eq!(cache.stats().misses, 11);
}

#[test]
fn get_or_load_that_waits_and_leads_counts_one_miss() {
    let cache = cache();
    let ticket = lead(&cache, 1);
    let mut waits = Box::pin(cache.get_or_load_async(&1, || async { Ok::<_, ()>(2) }));
    assert!(waits.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
    ticket.fail(Arc::new("a failure that it does not know"));
    assert_eq!(now_or_never(waits), Ok(2));
    assert_eq!(cache.stats().misses, 2);

    let (started, has_started) = mpsc::channel();
    let (release, released) = mpsc::channel::<()>();
    std::thread::scope(|scope| {
        let cache = &cache;
        let leader = scope.spawn(move || {
            cache.get_or_load(&3, || {
                started.send(()).expect("the test listens");
                released.recv().expect("the test releases");
                Err("a failure that the other does not know")
            })
        });
        has_started.recv().expect("the leader started");
        let waits = scope.spawn(|| cache.get_or_load(&3, || Ok::<_, ()>(4)));
        while cache.stats().misses < 4 {
            std::thread::yield_now();
        }
        release.send(()).expect("the leader waits");
        assert!(leader.join().expect("no panic").is_err());
        assert_eq!(waits.join().expect("no panic"), Ok(4));
    });
    assert_eq!(cache.stats().misses, 4);
}

/// A value that runs something when it is cloned.
struct Copied(Arc<dyn Fn() + Send + Sync>);

impl Clone for Copied {
    fn clone(&self) -> Self {
        (self.0)();
        Copied(self.0.clone())
    }
}

#[test]
fn commit_copies_the_value_once_and_only_for_followers() {
    let cache: Cache<u32, Copied> = Cache::builder().entries(100).build().expect("valid options");
    let copies = Arc::new(AtomicUsize::new(0));
    // Another caller follows while the value is copied for the first.
    let later = Arc::new(std::sync::Mutex::new(None));
    let on_copy = {
        let (cache, copies, later) = (cache.clone(), copies.clone(), later.clone());
        move || {
            if copies.fetch_add(1, Ordering::SeqCst) == 0 {
                let Load::Follow(follower) = cache.load(&2) else { panic!("expected to follow") };
                *later.lock().expect("no panic") = Some(follower);
            }
        }
    };
    let value = Copied(Arc::new(on_copy));
    let Load::Lead(ticket) = cache.load(&1) else { panic!("expected to lead") };
    assert_eq!(ticket.commit(Copied(value.0.clone())), CommitOutcome::Stored);
    assert_eq!(copies.load(Ordering::SeqCst), 0, "nobody follows");

    let Load::Lead(ticket) = cache.load(&2) else { panic!("expected to lead") };
    let Load::Follow(first) = cache.load(&2) else { panic!("expected to follow") };
    assert_eq!(ticket.commit(value), CommitOutcome::Stored);
    assert_eq!(copies.load(Ordering::SeqCst), 1);
    let second = later.lock().expect("no panic").take().expect("it followed during the copy");
    for follower in [first, second] {
        let outcome = follower.wait_timeout(Duration::from_secs(10)).ok().expect("nobody waits for ever");
        assert!(matches!(outcome, FollowOutcome::Value(_)));
    }
}

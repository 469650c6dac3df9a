//! Single-flight loading: one caller, the leader, computes a missing value; the others, its followers, wait for the
//! outcome.
//!
//! A *flight* is one load under way. It is listed in its shard as long as it may commit. Any change of the key removes it
//! from the list; from then on its value is delivered to its followers and not stored. A flight ends in one of three
//! states:
//!
//! ```text
//!            ┌─ commit, deliver ─► Loaded(value)   followers get the value
//! Pending ───┼─ fail ────────────► Failed(why)     followers get the failure
//!            └─ drop ────────────► Abandoned       followers look up the key again: one of them leads
//! ```

use crate::cache::steps::Write;
use crate::cache::{Cache, KeyLocation};
use crate::entry::{Cause, Ttl};
use crate::lock::Guard;
use crate::records::Record;
use crate::shard::{RemovedEntries, Shard};
use crate::sync::{Mutex, thread, thread_local};
use hashbrown::Equivalent;
use std::any::Any;
use std::cell::Cell;
use std::future::Future;
use std::hash::Hash;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

/// Why a load failed, shared by all followers. The leader chooses the type; followers downcast.
pub type Failure = Arc<dyn Any + Send + Sync>;

/// The outcome of [`Cache::load`].
#[derive(Debug)]
pub enum Load<K: Hash + Eq, V> {
    /// The key has a live entry.
    Hit(V),
    /// It has none, and no load is under way: the caller loads and settles the ticket.
    Lead(Ticket<K, V>),
    /// It has none, and another caller is loading it.
    Follow(Follower<K, V>),
}

/// What a [`Follower`] resolves to.
#[derive(Debug)]
pub enum FollowOutcome<K: Hash + Eq, V> {
    /// The leader's value, or one that was stored meanwhile.
    Value(V),
    /// The leader's failure.
    Failed(Failure),
    /// The leader dropped its ticket: the caller leads now.
    Lead(Ticket<K, V>),
}

/// The outcome of committing a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CommitOutcome {
    /// The value is in the cache.
    Stored,
    /// It is not: its key was removed, purged or overwritten since the ticket was issued, or it is too heavy. The
    /// followers got the value nevertheless.
    Refused,
}

/// One load under way, shared by its leader, its followers and its shard.
#[derive(Debug)]
pub(crate) struct Flight<V> {
    state: Mutex<State<V>>,
    /// When it began, on the cache's clock.
    began: Duration,
    /// Whether the leader loads synchronously; synchronous callers may block on it.
    sync_leader: bool,
}

#[derive(Debug)]
enum State<V> {
    Pending(Vec<Option<Waker>>),
    Loaded(V),
    Failed(Failure),
    Abandoned,
}

impl<V> Flight<V> {
    /// Ends the flight, if it has not ended yet, and returns the followers to wake after the shard is unlocked.
    fn end(&self, outcome: State<V>) -> Waiters {
        let mut state = self.state.lock();
        match &mut *state {
            State::Pending(wakers) => {
                let waiting = Waiters(std::mem::take(wakers));
                *state = outcome;
                waiting
            }
            _ => Waiters(Vec::new()),
        }
    }
}

/// The followers of a flight that has just ended.
#[must_use = "followers wait until they are woken"]
struct Waiters(Vec<Option<Waker>>);

impl Waiters {
    fn wake(self) {
        self.0.into_iter().flatten().for_each(Waker::wake);
    }
}

impl<K: Hash + Eq + Clone, V: Clone> Cache<K, V> {
    /// Looks up `key`; on a miss the caller gets the key's ticket or follows the load under way.
    ///
    /// This counts as one read. Cost: one shard lock; on a miss one allocation and a clone of the key.
    pub fn load(&self, key: &K) -> Load<K, V> {
        self.load_from(key, self.now(), K::clone, false)
    }

    /// As [`Cache::load`], with a borrowed form of the key and the time `now`, which the caller has just read from
    /// [`Cache::clock`]: reading a clock costs about as much as finding an entry. `to_key` makes the owned key, on a miss
    /// only. It runs while the shard is locked: it must be short.
    pub fn load_at<Q>(&self, key: &Q, now: Duration, to_key: impl FnOnce(&Q) -> K) -> Load<K, V>
    where
        Q: Hash + Equivalent<K> + ?Sized,
    {
        self.load_from(key, now.as_millis() as u64, to_key, false)
    }

    fn load_from<Q>(&self, key: &Q, now: u64, to_key: impl FnOnce(&Q) -> K, sync_leader: bool) -> Load<K, V>
    where
        Q: Hash + Equivalent<K> + ?Sized,
    {
        let location = self.locate(key);
        let mut shard = self.lock(location);
        if let Some(Record { value, .. }) = shard.read(location.hash, key, now) {
            return Load::Hit(value.clone());
        }
        self.join_or_lead(shard, location, key, to_key, sync_leader)
    }

    /// The key's ticket, or the load under way to follow, whether the key has a live entry or not: for replacing an entry
    /// that may be read meanwhile. Not counted as a read.
    ///
    /// Cost: as a miss of [`Cache::load`].
    pub fn reload_with<Q>(&self, key: &Q, to_key: impl FnOnce(&Q) -> K) -> Load<K, V>
    where
        Q: Hash + Equivalent<K> + ?Sized,
    {
        let location = self.locate(key);
        self.join_or_lead(self.lock(location), location, key, to_key, false)
    }

    fn join_or_lead<Q>(
        &self,
        mut shard: Guard<'_, Shard<K, V>>,
        location: KeyLocation,
        key: &Q,
        to_key: impl FnOnce(&Q) -> K,
        sync_leader: bool,
    ) -> Load<K, V>
    where
        Q: Hash + Equivalent<K> + ?Sized,
    {
        if let Some(flight) = shard.flight(location.hash, key) {
            let flight = flight.clone();
            return Load::Follow(Follower {
                cache: self.clone(),
                key: to_key(key),
                flight,
                waiting_as: None,
            });
        }
        let key = to_key(key);
        let began = self.clock().now();
        let flight = Arc::new(Flight { state: Mutex::new(State::Pending(Vec::new())), began, sync_leader });
        shard.begin_flight(location.hash, key.clone(), flight.clone());
        drop(shard);
        Load::Lead(self.ticket(key, location, flight, true))
    }

    fn ticket(&self, key: K, location: KeyLocation, flight: Arc<Flight<V>>, leads: bool) -> Ticket<K, V> {
        Ticket { cache: self.clone(), key: Some(key), location, flight, leads, settled: false }
    }

    /// The value of `key`, loaded by `loader` on a miss, at most once at a time.
    ///
    /// Callers of this function wait for each other. They do not wait for a load that was begun with [`Cache::load`],
    /// which may belong to a task that needs this very thread: they load for themselves, and the first value that is
    /// valid when it comes is stored. `loader` runs without any lock. What it asks for in turn, its own key or another of
    /// any cache, it does not wait for either: two loaders that need each other's key would wait for ever.
    ///
    /// # Errors
    /// The error of `loader`, of this call or of the call that it waited for.
    ///
    /// # Panics
    /// If `loader` panics; the callers that waited then load for themselves.
    pub fn get_or_load<E>(&self, key: &K, loader: impl FnOnce() -> Result<V, E>) -> Result<V, E>
    where
        E: Clone + Send + Sync + 'static,
    {
        loop {
            let ticket = match self.load_from(key, self.now(), K::clone, true) {
                Load::Hit(value) => return Ok(value),
                Load::Lead(ticket) => ticket,
                Load::Follow(mut follower) if follower.flight.sync_leader && !InsideLoader::is_active() => {
                    match block_on(|context| follower.poll_flight(context)) {
                        FlightOutcome::Value(value) => return Ok(value),
                        FlightOutcome::Failed(failure) => match failure.downcast_ref::<E>() {
                            Some(error) => return Err(error.clone()),
                            None => continue,
                        },
                        // The next leader may be a task, which must not be waited for: look up the load again.
                        FlightOutcome::Abandoned => continue,
                    }
                }
                Load::Follow(follower) => {
                    self.ticket(key.clone(), self.locate(key), follower.flight.clone(), false)
                }
            };
            let loading = InsideLoader::begin();
            let outcome = loader();
            drop(loading);
            return match outcome {
                Ok(value) => {
                    ticket.commit(value.clone());
                    Ok(value)
                }
                Err(error) => {
                    ticket.fail(Arc::new(error.clone()));
                    Err(error)
                }
            };
        }
    }
}

thread_local! {
    /// The number of loaders that this thread is executing, nested.
    static LOADERS: Cell<u32> = const { Cell::new(0) };
}

/// Marks the thread as executing a loader, until it is dropped.
struct InsideLoader;

impl InsideLoader {
    fn begin() -> Self {
        LOADERS.with(|loaders| loaders.set(loaders.get() + 1));
        InsideLoader
    }

    fn is_active() -> bool {
        LOADERS.with(|loaders| loaders.get() > 0)
    }
}

impl Drop for InsideLoader {
    fn drop(&mut self) {
        LOADERS.with(|loaders| loaders.set(loaders.get() - 1));
    }
}

/// The right to load one key, once. If it is dropped without an outcome, a follower becomes the leader.
#[derive(Debug)]
#[must_use = "followers wait until the ticket is settled or dropped"]
pub struct Ticket<K: Hash + Eq, V> {
    cache: Cache<K, V>,
    /// `None` once it was moved into the cache.
    key: Option<K>,
    location: KeyLocation,
    flight: Arc<Flight<V>>,
    /// False for a synchronous caller that loads beside an asynchronous leader: if it gives up, the leader goes on.
    leads: bool,
    /// Whether the flight has ended by this ticket.
    settled: bool,
}

impl<K: Hash + Eq, V> Ticket<K, V> {
    /// Stores the value with the time to live of the cache and delivers it to the followers.
    pub fn commit(self, value: V) -> CommitOutcome
    where
        V: Clone,
    {
        self.commit_with_ttl(value, Ttl::Default)
    }

    /// Stores the value and delivers it to the followers. Refused if the key has changed since the ticket was issued.
    ///
    /// # Panics
    /// If weigher, `Clone`, `Hash` or `Eq` panic: the load is abandoned then. If the listener panics, after the value was
    /// delivered.
    pub fn commit_with_ttl(mut self, value: V, ttl: Ttl) -> CommitOutcome
    where
        V: Clone,
    {
        let Some(key) = self.key.take() else { return CommitOutcome::Refused };
        let cache = &self.cache;
        let for_followers = value.clone();
        let took = cache.clock().now().saturating_sub(self.flight.began);
        let write = Write::of(cache, self.location, key, value, ttl, cache.now_for(ttl));
        let mut removed = RemovedEntries::new();
        let mut shard = cache.lock(self.location);
        shard.stats.loads += 1;
        shard.stats.load_time += took;
        let ended = shard.end_flight(&self.flight);
        let stored = if ended.is_some() {
            cache.store(&mut shard, write, &mut removed).map_err(|(record, _)| record)
        } else {
            Err(write.record)
        };
        // While the shard is locked: the followers get the value that was stored, not one that was loaded beside it.
        let waiting = self.flight.end(State::Loaded(for_followers));
        self.settled = true;
        drop(shard);
        // Before user code runs: if the listener panics, the followers must not wait for ever.
        waiting.wake();
        drop(ended);
        self.cache.notify_removed(removed);
        match stored {
            Ok(replaced) => {
                if let Some(Record { key, value }) = replaced {
                    self.cache.notify(&key, &value, Cause::Replaced);
                }
                CommitOutcome::Stored
            }
            Err(_refused) => CommitOutcome::Refused,
        }
    }

    /// Delivers the value to the followers without storing it.
    pub fn deliver(mut self, value: V) {
        self.settle(State::Loaded(value));
    }

    /// Delivers the failure to the followers. Nothing is stored: the next caller loads again.
    pub fn fail(mut self, why: Failure) {
        if self.leads {
            self.settle(State::Failed(why));
        }
    }

    /// Whether a commit would be accepted now. A change of the key may still come before the commit.
    pub fn is_valid(&self) -> bool {
        let Some(key) = &self.key else { return false };
        let shard = self.cache.lock(self.location);
        shard.flight(self.location.hash, key).is_some_and(|flight| Arc::ptr_eq(flight, &self.flight))
    }

    fn settle(&mut self, outcome: State<V>) {
        if std::mem::replace(&mut self.settled, true) {
            return;
        }
        let mut shard = self.cache.lock(self.location);
        let ended = shard.end_flight(&self.flight);
        match outcome {
            State::Loaded(_) => shard.stats.loads += 1,
            _ => shard.stats.load_failures += 1,
        }
        let waiting = self.flight.end(outcome);
        drop(shard);
        waiting.wake();
        drop(ended);
    }
}

impl<K: Hash + Eq, V> Drop for Ticket<K, V> {
    fn drop(&mut self) {
        if self.leads {
            self.settle(State::Abandoned);
        }
    }
}

/// A caller that waits for the load of another. A future; cancel safe: dropping it leaves the list of waiters.
#[derive(Debug)]
#[must_use = "a follower waits only when it is polled"]
pub struct Follower<K: Hash + Eq, V> {
    cache: Cache<K, V>,
    key: K,
    flight: Arc<Flight<V>>,
    waiting_as: Option<usize>,
}

/// The outcome of a flight for a follower.
enum FlightOutcome<V> {
    Value(V),
    Failed(Failure),
    Abandoned,
}

impl<K: Hash + Eq, V> Follower<K, V> {
    /// When the load began, on the cache's clock.
    pub fn began(&self) -> Duration {
        self.flight.began
    }
}

impl<K: Hash + Eq + Clone, V: Clone> Follower<K, V> {
    /// Blocks the thread until the load has ended. Only for loads that do not need this thread to make progress.
    pub fn wait(mut self) -> FollowOutcome<K, V> {
        block_on(|context| Pin::new(&mut self).poll(context))
    }

    fn poll_flight(&mut self, context: &mut Context<'_>) -> Poll<FlightOutcome<V>> {
        let mut state = self.flight.state.lock();
        let wakers = match &mut *state {
            State::Loaded(value) => return Poll::Ready(FlightOutcome::Value(value.clone())),
            State::Failed(why) => return Poll::Ready(FlightOutcome::Failed(why.clone())),
            State::Abandoned => return Poll::Ready(FlightOutcome::Abandoned),
            State::Pending(wakers) => wakers,
        };
        let index = *self.waiting_as.get_or_insert_with(|| {
            wakers.push(None);
            wakers.len() - 1
        });
        match &mut wakers[index] {
            Some(waker) => waker.clone_from(context.waker()),
            empty => *empty = Some(context.waker().clone()),
        }
        Poll::Pending
    }
}

/// Polls on this thread until the result is ready.
fn block_on<T>(mut poll: impl FnMut(&mut Context<'_>) -> Poll<T>) -> T {
    let waker = Waker::from(Arc::new(Unpark(thread::current())));
    let mut context = Context::from_waker(&waker);
    loop {
        match poll(&mut context) {
            Poll::Ready(answer) => return answer,
            Poll::Pending => thread::park(),
        }
    }
}

struct Unpark(thread::Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

impl<K: Hash + Eq + Clone, V: Clone> Future for Follower<K, V> {
    type Output = FollowOutcome<K, V>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<FollowOutcome<K, V>> {
        let this = self.get_mut();
        loop {
            match this.poll_flight(context) {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(FlightOutcome::Value(value)) => return Poll::Ready(FollowOutcome::Value(value)),
                Poll::Ready(FlightOutcome::Failed(why)) => return Poll::Ready(FollowOutcome::Failed(why)),
                Poll::Ready(FlightOutcome::Abandoned) => {}
            }
            // The leader gave up: the first follower that looks leads, the others follow it.
            match this.cache.load(&this.key) {
                Load::Hit(value) => return Poll::Ready(FollowOutcome::Value(value)),
                Load::Lead(ticket) => return Poll::Ready(FollowOutcome::Lead(ticket)),
                Load::Follow(mut next) => {
                    this.flight = std::mem::replace(&mut next.flight, this.flight.clone());
                    this.waiting_as = None;
                }
            }
        }
    }
}

impl<K, V> Unpin for Follower<K, V> where K: Hash + Eq {}

impl<K: Hash + Eq, V> Drop for Follower<K, V> {
    fn drop(&mut self) {
        let Some(index) = self.waiting_as else { return };
        if let State::Pending(wakers) = &mut *self.flight.state.lock() {
            wakers[index] = None;
            // Followers that come and go during a long load must not accumulate.
            while wakers.last().is_some_and(Option::is_none) {
                wakers.pop();
            }
        }
    }
}

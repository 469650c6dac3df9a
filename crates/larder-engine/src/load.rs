//! Single-flight loading: one caller computes a missing value, the others wait for what becomes of it.
//!
//! A *flight* is one load under way. It is in its shard's table as long as it may commit; whatever changes the key
//! takes it out, and from then on its value is handed to those who waited for it and stored nowhere. A flight ends in
//! one of three named ways:
//!
//! ```text
//!            ┌─ commit, give ──► Landed(value)   followers get the value
//! Pending ───┼─ fail ──────────► Failed(why)     followers get the failure
//!            └─ drop ──────────► Abandoned       followers look again: one of them leads
//! ```

use crate::cache::steps::Write;
use crate::cache::{Cache, Place};
use crate::entry::{Cause, Ttl};
use crate::lock::Guard;
use crate::records::Record;
use crate::shard::{Departed, Shard};
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

/// Why a load failed, shared by all who waited for it. The leader decides on the type; followers downcast.
pub type Failure = Arc<dyn Any + Send + Sync>;

/// What [`Cache::load`] found.
#[derive(Debug)]
pub enum Load<K: Hash + Eq, V> {
    /// The key has a live entry.
    Hit(V),
    /// It has none, and nobody else loads it: the caller does, and settles the ticket.
    Lead(Ticket<K, V>),
    /// It has none, and somebody else loads it.
    Follow(Follower<K, V>),
}

/// What a [`Follower`] resolves to.
#[derive(Debug)]
pub enum FollowOutcome<K: Hash + Eq, V> {
    /// The leader's value, or one that was stored meanwhile.
    Value(V),
    /// The leader's failure.
    Failed(Failure),
    /// The leader gave up without an outcome: the caller leads now.
    Lead(Ticket<K, V>),
}

/// What became of a value that was committed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CommitOutcome {
    /// It is in the cache.
    Stored,
    /// It is not: its key was removed, cleared or overwritten since the ticket was issued, or it is too heavy. The
    /// followers got it all the same.
    Refused,
}

/// One load under way, shared by its leader, its followers and the shard's table.
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
    Landed(V),
    Failed(Failure),
    Abandoned,
}

impl<V> Flight<V> {
    /// Ends the flight, if it has not ended yet, and returns those who are to be woken once no shard is locked.
    fn end(&self, outcome: State<V>) -> Waiting {
        let mut state = self.state.lock();
        match &mut *state {
            State::Pending(wakers) => {
                let waiting = Waiting(std::mem::take(wakers));
                *state = outcome;
                waiting
            }
            _ => Waiting(Vec::new()),
        }
    }
}

/// Those who wait for a flight that has just ended.
#[must_use = "they wait until they are woken"]
struct Waiting(Vec<Option<Waker>>);

impl Waiting {
    fn wake(self) {
        self.0.into_iter().flatten().for_each(Waker::wake);
    }
}

impl<K: Hash + Eq + Clone, V: Clone> Cache<K, V> {
    /// Looks for `key`; on a miss the caller gets the key's ticket, or a place among those who wait for it.
    ///
    /// This counts as one read. Cost: one shard lock; on a miss one allocation and a clone of the key.
    pub fn load(&self, key: &K) -> Load<K, V> {
        self.load_from(key, self.now(), K::clone, false)
    }

    /// As [`Cache::load`], by a borrowed form of the key and at the time `now`, which the caller has just read off
    /// [`Cache::clock`]: to read a clock costs about as much as to find an entry. `to_key` makes the key itself, on a miss
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
        let place = self.place(key);
        let mut shard = self.lock(place);
        if let Some(Record { value, .. }) = shard.read(place.hash, key, now) {
            return Load::Hit(value.clone());
        }
        self.join_or_lead(shard, place, key, to_key, sync_leader)
    }

    /// The key's ticket, or a place among those who wait for it, whether the key has a live entry or not: for replacing
    /// an entry that may be read meanwhile. Not counted as a read.
    ///
    /// Cost: as a miss of [`Cache::load`].
    pub fn reload_with<Q>(&self, key: &Q, to_key: impl FnOnce(&Q) -> K) -> Load<K, V>
    where
        Q: Hash + Equivalent<K> + ?Sized,
    {
        let place = self.place(key);
        self.join_or_lead(self.lock(place), place, key, to_key, false)
    }

    fn join_or_lead<Q>(
        &self,
        mut shard: Guard<'_, Shard<K, V>>,
        place: Place,
        key: &Q,
        to_key: impl FnOnce(&Q) -> K,
        sync_leader: bool,
    ) -> Load<K, V>
    where
        Q: Hash + Equivalent<K> + ?Sized,
    {
        if let Some(flight) = shard.flight(place.hash, key) {
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
        shard.begin_flight(place.hash, key.clone(), flight.clone());
        drop(shard);
        Load::Lead(self.ticket(key, place, flight, true))
    }

    fn ticket(&self, key: K, place: Place, flight: Arc<Flight<V>>, leads: bool) -> Ticket<K, V> {
        Ticket { cache: self.clone(), key: Some(key), place, flight, leads, settled: false }
    }

    /// The value of `key`, or what `loader` makes of it, computed at most once at a time.
    ///
    /// Callers of this function wait for each other. They do not wait for a load that was begun with [`Cache::load`],
    /// which may belong to a task that needs this very thread: they load for themselves, and the first value that is
    /// valid when it comes is stored. `loader` runs without any lock. What it asks for in turn, its own key or another of
    /// any cache, it does not wait for either: two loaders that need each other's key would wait for ever.
    ///
    /// # Errors
    /// What `loader` returned, here or in the call that this one waited for.
    ///
    /// # Panics
    /// If `loader` panics; those who waited then load for themselves.
    pub fn get_or_load<E>(&self, key: &K, loader: impl FnOnce() -> Result<V, E>) -> Result<V, E>
    where
        E: Clone + Send + Sync + 'static,
    {
        loop {
            let ticket = match self.load_from(key, self.now(), K::clone, true) {
                Load::Hit(value) => return Ok(value),
                Load::Lead(ticket) => ticket,
                Load::Follow(mut follower) if follower.flight.sync_leader && !Loading::is_under_way() => {
                    match block_on(|context| follower.poll_flight(context)) {
                        Ended::Value(value) => return Ok(value),
                        Ended::Failed(failure) => match failure.downcast_ref::<E>() {
                            Some(error) => return Err(error.clone()),
                            None => continue,
                        },
                        // Whoever leads next may be a task: what holds for a load is looked at anew.
                        Ended::Abandoned => continue,
                    }
                }
                Load::Follow(follower) => {
                    self.ticket(key.clone(), self.place(key), follower.flight.clone(), false)
                }
            };
            let loading = Loading::begin();
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
    /// How many loaders this thread is inside of.
    static LOADERS: Cell<u32> = const { Cell::new(0) };
}

/// Marks the thread as being inside a loader, for as long as it lives.
struct Loading;

impl Loading {
    fn begin() -> Self {
        LOADERS.with(|loaders| loaders.set(loaders.get() + 1));
        Loading
    }

    fn is_under_way() -> bool {
        LOADERS.with(|loaders| loaders.get() > 0)
    }
}

impl Drop for Loading {
    fn drop(&mut self) {
        LOADERS.with(|loaders| loaders.set(loaders.get() - 1));
    }
}

/// The right to fill one key, once. Dropping it without an outcome lets a follower lead.
#[derive(Debug)]
#[must_use = "those who wait for this key wait until the ticket is settled or dropped"]
pub struct Ticket<K: Hash + Eq, V> {
    cache: Cache<K, V>,
    /// Gone once it is in the cache.
    key: Option<K>,
    place: Place,
    flight: Arc<Flight<V>>,
    /// False for one who loads beside the leader, and whose giving up is nobody's concern.
    leads: bool,
    /// Whether the flight has been told how it ended.
    settled: bool,
}

impl<K: Hash + Eq, V> Ticket<K, V> {
    /// Stores the value with the cache's own time to live and hands it to the followers.
    pub fn commit(self, value: V) -> CommitOutcome
    where
        V: Clone,
    {
        self.commit_with_ttl(value, Ttl::Default)
    }

    /// Stores the value and hands it to the followers. Refused if the key has changed since the ticket was issued.
    ///
    /// # Panics
    /// If weigher, `Clone`, `Hash` or `Eq` panic: the load is abandoned then. If the listener panics, after everybody got
    /// the value.
    pub fn commit_with_ttl(mut self, value: V, ttl: Ttl) -> CommitOutcome
    where
        V: Clone,
    {
        let Some(key) = self.key.take() else { return CommitOutcome::Refused };
        let cache = &self.cache;
        let for_followers = value.clone();
        let took = cache.clock().now().saturating_sub(self.flight.began);
        let write = Write::of(cache, self.place, key, value, ttl, cache.now_for(ttl));
        let mut departed = Departed::new();
        let mut shard = cache.lock(self.place);
        shard.stats.loads += 1;
        shard.stats.load_time += took;
        let ended = shard.end_flight(&self.flight);
        let stored = if ended.is_some() {
            cache.store(&mut shard, write, &mut departed).map_err(|(record, _)| record)
        } else {
            Err(write.record)
        };
        // While the shard is locked: the followers get the value that was stored, and not that of another who loads beside.
        let waiting = self.flight.end(State::Landed(for_followers));
        self.settled = true;
        drop(shard);
        // Before user code runs: a listener that panics must not leave the followers waiting.
        waiting.wake();
        drop(ended);
        self.cache.depart(departed);
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

    /// Hands the value to the followers and stores it nowhere.
    pub fn deliver(mut self, value: V) {
        self.settle(State::Landed(value));
    }

    /// Hands the failure to the followers. Nothing is stored: the next caller loads again.
    pub fn fail(mut self, why: Failure) {
        if self.leads {
            self.settle(State::Failed(why));
        }
    }

    /// Whether a commit would still be accepted, as far as one can know without doing it.
    pub fn is_valid(&self) -> bool {
        let Some(key) = &self.key else { return false };
        let shard = self.cache.lock(self.place);
        shard.flight(self.place.hash, key).is_some_and(|flight| Arc::ptr_eq(flight, &self.flight))
    }

    fn settle(&mut self, outcome: State<V>) {
        if std::mem::replace(&mut self.settled, true) {
            return;
        }
        let mut shard = self.cache.lock(self.place);
        let ended = shard.end_flight(&self.flight);
        match outcome {
            State::Landed(_) => shard.stats.loads += 1,
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

/// A place among those who wait for a load. A future; dropping it leaves the queue.
#[derive(Debug)]
#[must_use = "a follower waits only when it is polled"]
pub struct Follower<K: Hash + Eq, V> {
    cache: Cache<K, V>,
    key: K,
    flight: Arc<Flight<V>>,
    waiting_as: Option<usize>,
}

/// How a flight ended, as one who waited for it sees it.
enum Ended<V> {
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
    /// Blocks the thread until the load has ended. Only for loads that do not need this thread to go on.
    pub fn wait(mut self) -> FollowOutcome<K, V> {
        block_on(|context| Pin::new(&mut self).poll(context))
    }

    fn poll_flight(&mut self, context: &mut Context<'_>) -> Poll<Ended<V>> {
        let mut state = self.flight.state.lock();
        let wakers = match &mut *state {
            State::Landed(value) => return Poll::Ready(Ended::Value(value.clone())),
            State::Failed(why) => return Poll::Ready(Ended::Failed(why.clone())),
            State::Abandoned => return Poll::Ready(Ended::Abandoned),
            State::Pending(wakers) => wakers,
        };
        let place = *self.waiting_as.get_or_insert_with(|| {
            wakers.push(None);
            wakers.len() - 1
        });
        match &mut wakers[place] {
            Some(waker) => waker.clone_from(context.waker()),
            empty => *empty = Some(context.waker().clone()),
        }
        Poll::Pending
    }
}

/// Polls on this thread until there is an answer.
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
                Poll::Ready(Ended::Value(value)) => return Poll::Ready(FollowOutcome::Value(value)),
                Poll::Ready(Ended::Failed(why)) => return Poll::Ready(FollowOutcome::Failed(why)),
                Poll::Ready(Ended::Abandoned) => {}
            }
            // The leader gave up: whoever looks first leads, the others follow that one.
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
        let Some(place) = self.waiting_as else { return };
        if let State::Pending(wakers) = &mut *self.flight.state.lock() {
            wakers[place] = None;
            // Those who come and go while one long load lasts must not add up.
            while wakers.last().is_some_and(Option::is_none) {
                wakers.pop();
            }
        }
    }
}

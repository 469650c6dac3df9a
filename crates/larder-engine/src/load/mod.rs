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
//!            └─ drop, give way ──► Abandoned       followers look up the key again: one of them leads
//! ```
//!
//! A caller that has waited for long may *overtake* a load: callers follow its own from then on, and the older one may still
//! commit until a later one has. So loads that are overtaken again and again are stored all the same.

pub(crate) mod flight;
pub(crate) mod flights;
mod follower;
mod get_or_load;
mod ticket;

pub use follower::Follower;
pub use ticket::Ticket;

use crate::cache::{Cache, KeyLocation};
use crate::entry::Refusal;
use crate::layout::records::Record;
use crate::lock::Guard;
use crate::shard::Shard;
use flight::{Flight, State};
use hashbrown::Equivalent;
use std::any::Any;
use std::hash::{BuildHasher, Hash};
use std::sync::Arc;
use std::time::Duration;

/// The reason why a load failed, shared by all followers. The leader chooses the type; followers downcast.
pub type Failure = Arc<dyn Any + Send + Sync>;

/// The outcome of [`Cache::load`].
#[derive(Debug)]
pub enum Load<K: Hash + Eq, V> {
    /// The key has a live entry.
    Hit(V),
    /// The key has no entry, and no load is under way: the caller loads and settles the ticket.
    Lead(Ticket<K, V>),
    /// The key has no entry, and another caller is loading it.
    Follow(Follower<K, V>),
}

/// The way in which the leader of a load works, which determines how other callers wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Leader {
    /// It is asynchronous. Callers follow it, except callers that block their thread: they load for themselves.
    Async,
    /// It blocks its thread. Callers follow it; callers that block their threads may wait for it.
    Sync,
    /// It may stop for any time, like a future that is not polled, so other callers should not wait for it. The next caller
    /// with another kind of `Leader` takes its place and voids its ticket.
    GivesWay,
}

/// The outcome of a [`Follower`].
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
    /// It is not: its key was removed, purged or overwritten since the ticket was issued. The followers got the value
    /// nevertheless.
    Voided,
    /// It is not, for this reason. The followers got the value nevertheless.
    Refused(Refusal),
}

impl<K: Hash + Eq + Clone, V: Clone> Cache<K, V> {
    /// Looks up `key`; on a miss the caller gets the key's ticket or follows the load under way.
    ///
    /// This counts as one read. Cost: one shard lock; on a miss one allocation and a clone of the key.
    pub fn load(&self, key: &K) -> Load<K, V> {
        self.load_from(key, self.now(), None, K::clone, Leader::Async)
    }

    /// As [`Cache::load`], with a borrowed form of the key, with the time `now`, which the caller has just read from
    /// [`Cache::clock`] (reading a clock costs about as much as finding an entry), and with the way in which it leads.
    /// `to_key` makes the owned key, on a miss only. It runs while the shard is locked: it must be short.
    ///
    /// # Panics
    /// If `to_key` makes a key that does not equal the borrowed one, or has another hash. No load is begun then.
    pub fn load_at<Q>(
        &self,
        key: &Q,
        now: Duration,
        leader: Leader,
        to_key: impl FnOnce(&Q) -> K,
    ) -> Load<K, V>
    where
        Q: Hash + Equivalent<K> + ?Sized,
    {
        self.load_from(key, now.as_millis() as u64, Some(now), to_key, leader)
    }

    /// A load that begins has begun at `began`, or now.
    fn load_from<Q>(
        &self,
        key: &Q,
        now: u64,
        began: Option<Duration>,
        to_key: impl FnOnce(&Q) -> K,
        leader: Leader,
    ) -> Load<K, V>
    where
        Q: Hash + Equivalent<K> + ?Sized,
    {
        let location = self.locate(key);
        let mut shard = self.lock(location);
        if let Some(Record { value, .. }) = shard.read(location.hash, key, now) {
            return Load::Hit(value.clone());
        }
        self.join_or_lead(shard, location, key, began, to_key, leader)
    }

    /// As [`Cache::load`], not counted as a read: for a caller whose read of the key has just missed.
    ///
    /// Cost: as [`Cache::load`].
    pub fn load_after_miss(&self, key: &K) -> Load<K, V> {
        self.load_again(key, Leader::Async)
    }

    /// As [`Cache::load_after_miss`], for a leader of this kind.
    fn load_again(&self, key: &K, leader: Leader) -> Load<K, V> {
        let (location, now) = (self.locate(key), self.now());
        let shard = self.lock(location);
        if let Some(id) = shard.find_live(location.hash, key, now) {
            return Load::Hit(shard.record(id).value.clone());
        }
        self.join_or_lead(shard, location, key, None, K::clone, leader)
    }

    /// The key's ticket, or the load under way to follow, whether the key has a live entry or not: for replacing an entry
    /// that may be read meanwhile. Not counted as a read. `to_key` runs while the shard is locked: it must be short.
    ///
    /// Cost: as a miss of [`Cache::load`].
    ///
    /// # Panics
    /// As [`Cache::load_at`].
    pub fn reload_with<Q>(&self, key: &Q, leader: Leader, to_key: impl FnOnce(&Q) -> K) -> Load<K, V>
    where
        Q: Hash + Equivalent<K> + ?Sized,
    {
        let location = self.locate(key);
        self.join_or_lead(self.lock(location), location, key, None, to_key, leader)
    }

    /// See [`Follower::overtake`].
    fn overtake(&self, key: &K, older: &Arc<Flight<V>>, leader: Leader) -> Load<K, V> {
        let location = self.locate(key);
        let flight = Arc::new(Flight::new(self.clock().now(), leader));
        let mut shard = self.lock(location);
        if !older.is_pending() || !shard.flights.overtake(location.hash, older, &flight) {
            return self.join_or_lead(shard, location, key, None, K::clone, leader);
        }
        drop(shard);
        Load::Lead(Ticket::new(self, key.clone(), location, flight, true))
    }

    fn join_or_lead<Q>(
        &self,
        mut shard: Guard<'_, Shard<K, V>>,
        location: KeyLocation,
        key: &Q,
        began: Option<Duration>,
        to_key: impl FnOnce(&Q) -> K,
        leader: Leader,
    ) -> Load<K, V>
    where
        Q: Hash + Equivalent<K> + ?Sized,
    {
        let made = to_key(key);
        if !key.equivalent(&made) || self.hasher().hash_one(&made) != location.hash {
            drop(shard);
            panic!("`to_key` made another key than the one that was looked up");
        }
        let (mut ended, mut waiting) = (None, None);
        if let Some(flight) = shard.flights.get(location.hash, key).cloned() {
            let is_pending = !flight.is_inherited() && flight.is_pending();
            if is_pending && !flight.gives_way_to(leader) {
                flight.set_followed();
                return Load::Follow(Follower { cache: self.clone(), key: made, flight, waiting_as: None });
            }
            ended = shard.flights.remove(location.hash, key);
            match is_pending {
                true => waiting = Some(flight.end(State::Abandoned)),
                // Its ticket was dropped where the shard could not be locked, or is in the process that this one is a fork of.
                false => shard.stats.load_failures += 1,
            }
        }
        let began = began.unwrap_or_else(|| self.clock().now());
        let flight = Arc::new(Flight::new(began, leader));
        shard.flights.insert(location.hash, made.clone(), flight.clone());
        drop(shard);
        drop(ended);
        let ticket = Ticket::new(self, made, location, flight, true);
        if let Some(waiting) = waiting {
            waiting.wake();
        }
        Load::Lead(ticket)
    }
}

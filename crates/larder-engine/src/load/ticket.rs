//! The leader's side of a load.

use super::flight::{Flight, State};
use super::{CommitOutcome, Failure};
use crate::cache::removals::Removals;
use crate::cache::write::Write;
use crate::cache::{Cache, KeyLocation};
use crate::entry::{Cause, Ttl};
use crate::layout::records::Record;
use crate::lock::Guard;
use crate::shard::Shard;
use std::hash::Hash;
use std::sync::Arc;
use std::time::Duration;

/// The right to load one key, once. If it is dropped without an outcome, a follower becomes the leader.
///
/// It may be dropped anywhere, also under a lock of its cache. To settle it there is an error, as is every call of the same
/// cache: it panics once, and the load is abandoned.
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
    pub(super) fn new(
        cache: &Cache<K, V>,
        key: K,
        location: KeyLocation,
        flight: Arc<Flight<V>>,
        leads: bool,
    ) -> Self {
        Ticket { cache: cache.clone(), key: Some(key), location, flight, leads, settled: false }
    }

    /// Stores the value with the time to live of the cache and delivers it to the followers.
    ///
    /// # Panics
    /// As [`Ticket::commit_with_ttl`].
    pub fn commit(self, value: V) -> CommitOutcome
    where
        V: Clone,
    {
        self.commit_with_ttl(value, Ttl::Default)
    }

    /// Stores the value and delivers it to the followers. Voided if the key has changed since the ticket was issued.
    ///
    /// Cost: one shard lock; if another caller has followed, a clone of the value and a second lock.
    ///
    /// # Panics
    /// If weigher, `Clone`, `Hash` or `Eq` panic, or if it is called under a lock of the same cache: the load is abandoned
    /// then. If the listener or a follower's waker panics, after the value was delivered.
    pub fn commit_with_ttl(self, value: V, ttl: Ttl) -> CommitOutcome
    where
        V: Clone,
    {
        let now = self.cache.clock().now();
        self.commit_at(value, ttl, now)
    }

    /// As [`Ticket::commit_with_ttl`], with the time `now`, which the caller has just read from [`Cache::clock`].
    ///
    /// # Panics
    /// As [`Ticket::commit_with_ttl`].
    pub fn commit_at(mut self, value: V, ttl: Ttl, now: Duration) -> CommitOutcome
    where
        V: Clone,
    {
        let Some(key) = self.key.take() else { return CommitOutcome::Voided };
        let cache = &self.cache;
        let took = now.saturating_sub(self.flight.began);
        cache.mark_timed(ttl);
        let write = Write::of(cache, self.location, key, value, ttl, now.as_millis() as u64);
        let mut removed = Removals::new(&self.cache);
        let mut for_followers = None;
        let mut shard = loop {
            let shard = cache.lock(self.location);
            if for_followers.is_some() || !self.flight.is_followed() {
                break shard;
            }
            drop(shard);
            // Without a lock, since it is user code. Whoever follows meanwhile gets the copy too.
            for_followers = Some(write.record.value.clone());
        };
        shard.stats.loads += 1;
        shard.stats.load_time += took;
        let ended = shard.flights.end_committed(self.location.hash, &self.flight);
        let stored = match ended.is_some() {
            true => cache
                .store(&mut shard, write, &mut removed)
                .map_err(|(record, refusal)| (record, CommitOutcome::Refused(refusal))),
            false => Err((write.record, CommitOutcome::Voided)),
        };
        // While the shard is locked: the followers get the value that was stored, not one that was loaded beside it.
        let waiting = for_followers.map(|value| self.flight.end(State::Loaded(value)));
        self.settled = true;
        drop(shard);
        // Before user code runs: if the listener panics, the followers must not wait for ever.
        if let Some(waiting) = waiting {
            waiting.wake();
        }
        drop(ended);
        // Before `removed` is dropped: if the listener panics for one of those, it has been told of the replaced value.
        match stored {
            Ok(replaced) => {
                if let Some(Record { key, value }) = replaced {
                    self.cache.notify(&key, &value, Cause::Replaced);
                }
                CommitOutcome::Stored
            }
            Err((_record, outcome)) => outcome,
        }
    }

    /// Delivers the value to the followers without storing it.
    ///
    /// # Panics
    /// If it is called under a lock of the same cache: the load is abandoned then. If a follower's waker panics, after the
    /// value was delivered.
    pub fn deliver(mut self, value: V) {
        let shard = self.cache.lock(self.location);
        self.settled = true;
        self.settle(shard, State::Loaded(value));
    }

    /// Delivers the failure to the followers. Nothing is stored: the next caller loads again.
    ///
    /// # Panics
    /// As [`Ticket::deliver`].
    pub fn fail(mut self, why: Failure) {
        if self.leads {
            let shard = self.cache.lock(self.location);
            self.settled = true;
            self.settle(shard, State::Failed(why));
        }
    }

    /// Whether a commit would be accepted now. A change of the key may still come before the commit.
    pub fn is_valid(&self) -> bool {
        let Some(key) = &self.key else { return false };
        let shard = self.cache.lock(self.location);
        shard.flights.contains(self.location.hash, key, &self.flight)
    }

    fn settle(&self, mut shard: Guard<'_, Shard<K, V>>, outcome: State<V>) {
        let ended = shard.flights.end_unstored(self.location.hash, &self.flight);
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
        if !self.leads || self.settled {
            return;
        }
        match self.cache.shards().lock_unless_reentry(self.location.shard) {
            Some(shard) => self.settle(shard, State::Abandoned),
            // The next load of the key finds the ended flight and replaces it.
            None => self.flight.end(State::Abandoned).wake(),
        }
    }
}

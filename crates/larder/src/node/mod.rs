//! The core of a cache on one node: names, both tiers, and what decides whether an entry may be served. It looks up
//! memory, opens and seals envelopes, and commits to memory. It knows nothing of other nodes but the state that they
//! move: the trust in memory, the ledger, the reported writes.
//!
//! - [`entry`]: an entry in memory and its state; [`fetched`]: an entry as the caller gets it.
//! - [`ahead`]: when a value is loaded again before it expires.
//! - [`trust`], [`ledger`], [`key_counts`]: the counters by which an entry is judged; [`soft_time`]: when it became stale.
//! - [`validity`]: the one function that judges it.
//! - [`lookup`]: memory lookups; [`sealing`]: between a value, its envelope and its entry.
//! - [`keyspace`]: the names; [`view_config`]: one view; [`observers`]: events, counters and errors;
//!   [`listeners`]: functions that hear what other nodes invalidate; [`load_spans`]: for traces.
//! - [`guarded_tier`]: Redis; [`server_clock`]: its clock, by which values expire there.

pub(crate) mod ahead;
pub(crate) mod entry;
pub(crate) mod fetched;
mod freshness;
pub(crate) mod guarded_tier;
pub(crate) mod key_counts;
pub(crate) mod keyspace;
pub(crate) mod ledger;
pub(crate) mod listeners;
pub(crate) mod load_spans;
pub(crate) mod lookup;
pub(crate) mod observers;
pub(crate) mod sealing;
pub(crate) mod server_clock;
mod soft_time;
mod stats;
pub(crate) mod trust;
pub(crate) mod validity;
pub(crate) mod view_config;

use crate::key::glob::Glob;
use crate::key::{MemoryKey, MemoryKeyRef};
use crate::policy::{Policy, Prefer};
use crate::report::error::{CacheError, FetchError};
use crate::task::Tasks;
use crate::tier::{LedgerQuery, Requirement};
use crate::value::codec::Format;
use crate::value::compression::Packing;
use crate::value::format::Id;
use crate::value::random::Random;
use entry::{EntryState, Memory, MemoryEntry};
use guarded_tier::{GuardedTier, Support};
use key_counts::KeyCounts;
use keyspace::Keyspace;
use larder_engine::fork::Process;
use larder_engine::{Op, Ttl};
use ledger::{FLOOR, Invalidation, Ledger, member};
use listeners::Listeners;
use load_spans::LoadSpans;
use observers::Observers;
use server_clock::ServerClock;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::Duration;
use trust::Trust;

pub(crate) struct Node {
    pub(crate) keyspace: Keyspace,
    pub(crate) memory: Memory,
    /// The tier behind memory.
    pub(crate) redis: Option<GuardedTier>,
    /// The clock of Redis.
    pub(crate) server_clock: ServerClock,
    pub(crate) trust: Trust,
    pub(crate) ledger: Ledger,
    pub(crate) tracked_writes: KeyCounts,
    /// The invalidations of keys, made with the first [`SharedView`](crate::SharedView). Its copies are not in memory, so
    /// each compares the count of its key.
    pub(crate) key_invalidations: OnceLock<KeyCounts>,
    pub(crate) listeners: Listeners,
    pub(crate) settings: Settings,
    pub(crate) observers: Observers,
    /// The source of ids and jitter.
    pub(crate) random: Random,
    /// The source of chances, which each of many hits may draw from. Two processes may draw the same.
    pub(crate) chances: Random,
    /// The spans of loads, for traces.
    pub(crate) load_spans: LoadSpans,
    /// Why no tier answers, as bits; 0 if they do. In one atomic, since each hit reads it.
    pub(crate) off: AtomicU8,
    /// The process that built the cache.
    pub(crate) process: Process,
    /// Where its tasks run.
    pub(crate) tasks: Tasks,
}

/// The options of a cache that its views start from.
#[derive(Debug)]
pub(crate) struct Settings {
    pub(crate) policy: Policy,
    pub(crate) prefer: Prefer,
    /// The encoding of views without a codec of their own.
    pub(crate) format: Format,
    pub(crate) packing: Packing,
    /// Whether memory is bounded by bytes, and not by entries.
    pub(crate) weighs_bytes: bool,
    /// Whether memory answers although nodes cannot coordinate.
    pub(crate) allow_uncoordinated: bool,
}

/// Reasons in [`Node::off`]: [`Cache::set_enabled`](crate::Cache::set_enabled), a server that is not supported, and
/// [`Cache::shutdown`](crate::Cache::shutdown).
const TURNED_OFF: u8 = 1;
const UNCOORDINATED: u8 = 2;
const SHUT_DOWN: u8 = 4;

/// The counters of a node when a load, a lookup in Redis or a write started. They decide where its value may be stored.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct StartState {
    /// The ledger's clock; 0 if the ledger was not read.
    pub(crate) clock: u64,
    /// This node's ledger epoch.
    pub(crate) epoch: u64,
    pub(crate) generation: u64,
    /// The count of tracked writes of the key.
    pub(crate) tracked_writes: u64,
}

impl Node {
    /// The time on the engine's clock.
    pub(crate) fn now(&self) -> Duration {
        self.memory.clock().now()
    }

    /// An id for a value that takes the place of this one, if there is one.
    pub(crate) fn id_in_place_of(&self, replaced: Option<Id>) -> Id {
        let id = self.random.id();
        replaced.map_or(id, |replaced| id.in_place_of(replaced))
    }

    /// Whether this process inherited the cache through a fork. Then nothing of it may be used: threads that held its locks
    /// and tasks that it waits for exist in the parent only. Every call asks before its first lock.
    #[inline]
    pub(crate) fn is_inherited(&self) -> bool {
        let is_inherited = self.process.has_forked();
        if is_inherited {
            self.observers.report_fork();
        }
        is_inherited
    }

    /// Whether no tier answers: the cache is turned off, or nodes cannot coordinate.
    #[inline]
    pub(crate) fn is_off(&self) -> bool {
        self.off.load(Ordering::Acquire) != 0
    }

    /// Whether the tiers may answer in this process.
    pub(crate) fn is_usable(&self) -> bool {
        !self.is_off() && !self.is_inherited()
    }

    /// The error of a call of a cache that this process inherited, or that was shut down.
    pub(crate) fn check_open(&self) -> Result<(), CacheError> {
        match self.is_inherited() {
            true => Err(CacheError::Forked),
            false if self.is_shut_down() => Err(CacheError::ShutDown),
            false => Ok(()),
        }
    }

    /// The same for a fetch.
    pub(crate) fn check_open_for_fetch<E>(&self) -> Result<(), FetchError<E>> {
        self.check_open().map_err(|error| match error {
            CacheError::Forked => FetchError::Forked,
            _ => FetchError::ShutDown,
        })
    }

    /// Whether the cache was ended.
    pub(crate) fn is_shut_down(&self) -> bool {
        self.off.load(Ordering::Acquire) & SHUT_DOWN != 0
    }

    /// From now on no tier answers, for ever.
    pub(crate) fn shut_down(&self) {
        self.set_off(SHUT_DOWN, true);
    }

    /// Whether the cache is turned on.
    pub(crate) fn is_enabled(&self) -> bool {
        self.off.load(Ordering::Acquire) & TURNED_OFF == 0
    }

    pub(crate) fn set_enabled(&self, enabled: bool) {
        self.set_off(TURNED_OFF, !enabled);
    }

    fn set_off(&self, reason: u8, is_off: bool) {
        match is_off {
            true => self.off.fetch_or(reason, Ordering::AcqRel),
            false => self.off.fetch_and(!reason, Ordering::AcqRel),
        };
    }

    /// The Redis tier, unless its server is known to lack something.
    pub(crate) fn supported_redis(&self) -> Option<&GuardedTier> {
        self.redis.as_ref().filter(|redis| redis.check_support().is_ok())
    }

    /// The server lacks something. Until a better one is reached no tier answers, or memory alone if the user allows it.
    /// Returns what was known before.
    pub(crate) fn stop_coordinating(&self, redis: &GuardedTier, lacks: Requirement) -> Support {
        let before = redis.set_support(Support::Lacks(lacks));
        match self.settings.allow_uncoordinated {
            true => self.trust.set_unconditional(true),
            false => self.set_off(UNCOORDINATED, true),
        }
        before
    }

    /// The server has all that is required, and announcements are received: what memory has is compared with Redis.
    pub(crate) fn start_coordinating(&self, redis: &GuardedTier) {
        if matches!(redis.support(), Support::Lacks(_)) {
            self.trust.set_unconditional(false);
        }
        self.ledger.record_gap();
        self.trust.end_gap();
        redis.set_support(Support::Full);
        self.set_off(UNCOORDINATED, false);
    }

    /// Whether Redis gets no requests now: it has failed twice in a row, or cannot be used.
    pub(crate) fn redis_is_lost(&self) -> bool {
        self.redis.as_ref().is_some_and(|redis| redis.breaker.is_open())
    }

    /// The counters now. The clock is known once the ledger has been read.
    pub(crate) fn start_state(&self, redis_key: &[u8]) -> StartState {
        StartState {
            clock: 0,
            epoch: self.ledger.epoch(),
            generation: self.trust.generation(),
            tracked_writes: self.tracked_writes.count(redis_key),
        }
    }

    /// Removes an entry from memory and voids the tickets of its key.
    pub(crate) fn invalidate_memory(&self, key: &MemoryKey) {
        self.memory.remove(key);
    }

    /// The same by the key in Redis. Copies of the key must be compared with Redis.
    pub(crate) fn invalidate_memory_of(&self, redis_key: &[u8]) {
        self.record_key_invalidation(redis_key);
        if let Some(key) = self.keyspace.memory_key_of(redis_key) {
            self.invalidate_memory(&key);
        }
    }

    pub(crate) fn record_key_invalidation(&self, redis_key: &[u8]) {
        if let Some(invalidations) = self.key_invalidations.get() {
            invalidations.record(redis_key);
        }
    }

    /// Removes the entries whose Redis keys match a glob from memory and voids the tickets of all loads. Returns the
    /// number of entries.
    ///
    /// Cost: all entries are compared.
    pub(crate) fn invalidate_matching(&self, glob: &Glob) -> u64 {
        if let Some(invalidations) = self.key_invalidations.get() {
            invalidations.record_all();
        }
        let mut removed = 0;
        self.memory.retain(|key, _| {
            let matches = glob.matches(&self.keyspace.redis_key_of(key));
            removed += u64::from(matches);
            !matches
        });
        removed
    }

    /// Redis had an entry of memory when it was asked, which began with these counters.
    pub(crate) fn confirm(&self, redis_key: &[u8], state: &EntryState, start: &StartState, now: Duration) {
        state.mark_validated(start.generation, now);
        if self.tracked_writes.count(redis_key) != start.tracked_writes {
            // The reply may be older than the reported write.
            state.mark_suspect();
        }
    }

    /// Marks an entry and the copies of its key suspect.
    pub(crate) fn mark_suspect(&self, redis_key: &[u8]) {
        self.record_key_invalidation(redis_key);
        if let Some(key) = self.keyspace.memory_key_of(redis_key) {
            self.memory.peek_with(&key, |entry| entry.value().state().mark_suspect());
        }
    }

    /// Removes all entries but counters from memory, and voids all tickets, if one of the members invalidates
    /// everything. The ledger alone would do for the entries; this frees their memory.
    pub(crate) fn purge_memory(&self, members: &[Vec<u8>]) {
        let clear = member(None, Invalidation::Hard);
        if members.iter().any(|member| *member == clear || member == FLOOR) {
            self.memory.retain(|_, entry| entry.is_counter());
        }
    }

    /// Marks an entry stale in memory and leaves it for its grace period, or removes it if it has none. Voids the tickets
    /// of its key, whose loads may return the same value. Returns whether there was an entry.
    pub(crate) fn expire_memory(&self, key: MemoryKey) -> bool {
        let now = self.now();
        // In one step: a write or a removal that comes between would be undone.
        let expired = self.memory.compute(key, |entry| {
            let Some(entry) = entry else { return (Op::Remove, false) };
            let state = entry.value().state();
            let op = if state.has_grace() {
                state.expire(now);
                Op::SetTtl(Ttl::After(state.remaining(now)))
            } else {
                Op::Remove
            };
            (op, true)
        });
        expired.result
    }

    /// Restarts the time to live of an entry in memory. One that has taken its place keeps its own.
    pub(crate) fn renew_memory(&self, key: MemoryKeyRef<'_>, renewed: &MemoryEntry, kept_for: Duration) {
        self.memory.compute(key.into_owned(), |entry| match entry {
            Some(entry) if entry.value().is(renewed) => (Op::SetTtl(Ttl::After(kept_for)), ()),
            _ => (Op::Keep, ()),
        });
    }

    /// The query for stamps of the ledger.
    pub(crate) fn ledger_query<'a>(&'a self, members: &'a [Vec<u8>]) -> LedgerQuery<'a> {
        LedgerQuery { key: &self.keyspace.ledger, at_least: self.ledger.clock(), members }
    }

    /// The ledger's clock, unless this node may have missed an invalidation, or has never read it.
    pub(crate) fn known_clock(&self) -> Option<u64> {
        // In this order: what makes the clock obsolete ends the trust first.
        let clock = self.ledger.known_clock()?;
        self.trust.is_trusted().then_some(clock)
    }

    /// Reads stamps of the ledger from Redis. Returns the ledger's clock.
    pub(crate) async fn read_stamps(&self, members: &[Vec<u8>]) -> Result<u64, CacheError> {
        let Some(redis) = &self.redis else { return Ok(0) };
        let query = self.ledger_query(members);
        let gaps = self.ledger.gaps();
        let stamps = redis.call(redis.tier.read_stamps(&query)).await?;
        self.ledger.learn(members, &stamps, gaps);
        Ok(stamps.clock)
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use larder_engine::Clock;
    use std::sync::Arc;

    /// A node without Redis.
    pub(crate) fn node_with_clock(clock: Clock) -> Node {
        let memory =
            larder_engine::Cache::builder().weight(1 << 20, entry::weigh).clock(clock.clone()).build();
        Node {
            keyspace: Keyspace::new("test", ""),
            memory: memory.expect("valid options"),
            redis: None,
            server_clock: ServerClock::default(),
            trust: Trust::new(clock.clone(), false, Duration::from_secs(1), Duration::ZERO),
            ledger: Ledger::new(false, clock),
            tracked_writes: KeyCounts::new(key_counts::FEW),
            key_invalidations: OnceLock::new(),
            listeners: Listeners::default(),
            settings: Settings {
                policy: Policy::new(),
                prefer: Prefer::Coherence,
                format: Format::default(),
                packing: Packing::default(),
                weighs_bytes: true,
                allow_uncoordinated: false,
            },
            observers: Observers::new(None),
            random: Random::new(Some(1)),
            chances: Random::cheap(Some(1)),
            load_spans: LoadSpans::default(),
            off: AtomicU8::new(0),
            process: Process::current(),
            tasks: Tasks::default(),
        }
    }

    #[test]
    fn renewal_leaves_entry_that_has_taken_the_place_of_the_renewed_one() {
        const SECOND: Duration = Duration::from_secs(1);
        let (clock, hand) = Clock::manual();
        let node = node_with_clock(clock);
        let key = MemoryKeyRef { view: 0, bytes: b"k" };
        let entry_for = |time| {
            let entry = MemoryEntry::new(Arc::new(1_u32), EntryState::new(node.now(), time, time, 1, 1));
            node.insert(key.into_owned(), entry.clone());
            entry
        };
        let (former, _) = (entry_for(60 * SECOND), entry_for(SECOND));
        node.renew_memory(key, &former, 60 * SECOND);
        hand.advance(2 * SECOND);
        assert!(node.memory.peek(&key).is_none());
    }
}

//! Entries of the memory tier: a value behind an `Arc`, as the engine stores it, and the state by which it is judged.

use super::ahead::Ahead;
use crate::key::MemoryKey;
use crate::policy::{Lifetime, RefreshAhead};
use crate::value::envelope::millis;
use crate::value::format::Id;
use larder_engine::Ttl;
use std::any::Any;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::time::Duration;

pub(crate) type Memory = larder_engine::Cache<MemoryKey, MemoryEntry>;
pub(crate) type MemoryTicket = larder_engine::Ticket<MemoryKey, MemoryEntry>;
pub(crate) type MemoryFollower = larder_engine::Follower<MemoryKey, MemoryEntry>;

/// The cost of an entry beside its key and its encoded value: the entry, its slot, index and deadline, and the `Arc`s.
const ENTRY_OVERHEAD_BYTES: u64 = 240;

/// An entry of the memory tier. Cheap to clone.
#[derive(Clone)]
pub(crate) struct MemoryEntry(Arc<StoredEntry<dyn Any + Send + Sync>>);

/// A value, always an `Arc<V>`, and its state.
struct StoredEntry<T: ?Sized> {
    state: EntryState,
    value: T,
}

/// A counter of a cache without Redis. A clear keeps counters.
#[derive(Debug)]
pub(crate) struct MemoryCounter(pub(crate) AtomicI64);

/// Whether an entry may be served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Validity {
    /// Fresh and not invalidated.
    Valid,
    /// Past its TTL or softly invalidated, and within its grace period.
    Stale,
    /// Invalidated, or past its grace period. Never served.
    Dead,
    /// This node does not know: the entry must be compared with Redis first.
    Unknown,
}

/// The generation of a dead entry. No generation of a node has this number.
const DEAD: u64 = u64::MAX;
/// The generation of a suspect entry. A node starts in a later one.
const SUSPECT: u64 = 0;
/// A time that never comes.
const NEVER: u64 = u64::MAX;

/// The metadata of an entry in memory. All times are on the engine's clock.
#[derive(Debug)]
pub(crate) struct EntryState {
    /// The id in Redis; `None` for a value that Redis never confirmed.
    pub(crate) id: Option<Id>,
    /// The ledger's clock when the load started; 0 if the ledger was not read.
    pub(crate) clock: u64,
    /// This node's ledger epoch when the load or the lookup started.
    pub(crate) epoch: u64,
    /// Whether the entry was found in Redis: only the ledger's clock tells when it was loaded.
    pub(crate) promoted: bool,
    pub(crate) tags: Box<[Box<str>]>,
    /// The length of the encoded value, by which the entry is weighed.
    pub(crate) encoded_bytes: u32,
    /// How long the load of the value took, in milliseconds; 0 for a value that was written.
    pub(crate) cost_ms: u32,
    /// When the value was stored in memory.
    pub(crate) stored_at: Duration,
    /// The age of the value at that time, if Redis knew it.
    pub(crate) initial_age: Duration,
    /// Whether this is a stale value that is served until the next attempt to load.
    pub(crate) is_stale_value: bool,
    /// The time to live with which the value was stored, in milliseconds.
    ttl_ms: u64,
    /// The grace period with which the value was stored, in milliseconds.
    grace_ms: u64,
    /// The end of the grace period, in nanoseconds.
    keep_until: AtomicU64,
    /// The end of the time to live, in nanoseconds; [`NEVER`] without a grace period: the engine expires the entry.
    fresh_until: AtomicU64,
    /// The generation in which the entry was last known to equal Redis, [`SUSPECT`] or [`DEAD`].
    validated_in: AtomicU64,
    /// The time of that validation, in nanoseconds.
    validated_at: AtomicU64,
    /// When the entry was last delivered to followers without being stored again, in nanoseconds; 0 for never.
    delivered_at: AtomicU64,
    /// The ledger epoch in which the entry was last compared with all stamps; 0 for never.
    checked_in: AtomicU64,
    /// When the value is loaded again while it is fresh.
    ahead: Ahead,
}

impl EntryState {
    /// The state of a value that is stored in memory at `now`.
    pub(crate) fn new(
        now: Duration,
        fresh_for: Duration,
        kept_for: Duration,
        generation: u64,
        epoch: u64,
    ) -> Self {
        let grace = kept_for.saturating_sub(fresh_for);
        let mut state = EntryState::without_times(Lifetime { fresh: fresh_for, grace });
        state.set_stored(now, fresh_for, kept_for, generation, epoch);
        state
    }

    /// The state of a value that is not stored in memory yet: nothing serves it.
    pub(crate) fn without_times(lifetime: Lifetime) -> Self {
        EntryState {
            id: None,
            clock: 0,
            epoch: 0,
            promoted: false,
            tags: Box::default(),
            encoded_bytes: 0,
            cost_ms: 0,
            stored_at: Duration::ZERO,
            initial_age: Duration::ZERO,
            is_stale_value: false,
            ttl_ms: millis(lifetime.fresh),
            grace_ms: millis(lifetime.grace),
            keep_until: AtomicU64::new(0),
            fresh_until: AtomicU64::new(0),
            validated_in: AtomicU64::new(0),
            validated_at: AtomicU64::new(0),
            delivered_at: AtomicU64::new(0),
            checked_in: AtomicU64::new(0),
            ahead: Ahead::never(),
        }
    }

    /// The value is stored in memory at `now`.
    pub(crate) fn set_stored(
        &mut self,
        now: Duration,
        fresh_for: Duration,
        kept_for: Duration,
        generation: u64,
        epoch: u64,
    ) {
        let fresh_until = if fresh_for < kept_for { nanos(now.saturating_add(fresh_for)) } else { NEVER };
        (self.epoch, self.stored_at) = (epoch, now);
        *self.keep_until.get_mut() = nanos(now.saturating_add(kept_for));
        *self.fresh_until.get_mut() = fresh_until;
        *self.validated_in.get_mut() = generation;
        *self.validated_at.get_mut() = nanos(now);
        *self.checked_in.get_mut() = epoch;
        self.ahead.set_end(nanos(now.saturating_add(fresh_for)));
    }

    /// The value, whose load took so long, is loaded again while it is fresh. Its times are set before or after.
    pub(crate) fn set_ahead(&mut self, policy: Option<RefreshAhead>, cost: Duration) {
        self.cost_ms = u32::try_from(millis(cost)).unwrap_or(u32::MAX);
        self.ahead = Ahead::new(policy, self.lifetime().fresh, cost);
        match (self.fresh_until.load(Ordering::Relaxed), self.keep_until.load(Ordering::Relaxed)) {
            (_, 0) => {}
            (fresh, kept) => self.ahead.set_end(fresh.min(kept)),
        }
    }

    /// Whether the value may be loaded again while it is fresh. Cost: a load of memory.
    #[inline]
    pub(crate) fn is_loaded_ahead(&self) -> bool {
        self.ahead.is_ever()
    }

    /// Whether a caller at `now` loads the value again, which is fresh: see [`Ahead::begins`]. The next one does so no sooner than
    /// after a pause.
    pub(crate) fn begins_ahead(
        &self,
        now: Duration,
        pause: Duration,
        fraction: impl FnOnce() -> f32,
    ) -> bool {
        let (left, next) = (nanos(self.remaining_ttl(now)), nanos(now.saturating_add(pause)));
        self.ahead.begins(nanos(now), left, next, fraction)
    }

    /// The state of the same value, which is stale and served for `retry_after`.
    pub(crate) fn for_retry(&self, now: Duration, retry_after: Duration) -> Self {
        let generation = self.validated_in.load(Ordering::Acquire);
        let remaining = self.remaining(now);
        let mut state = EntryState::new(now, retry_after, remaining, generation, self.epoch);
        // Also if the pause is longer than the rest of the grace period, which an expiry leaves.
        *state.fresh_until.get_mut() = nanos(now.saturating_add(retry_after.min(remaining)));
        state.id = self.id;
        state.clock = self.clock;
        state.promoted = self.promoted;
        state.tags = self.tags.clone();
        state.is_stale_value = true;
        state.grace_ms = self.grace_ms;
        state.encoded_bytes = self.encoded_bytes;
        state.initial_age = self.initial_age.saturating_add(now.saturating_sub(self.stored_at));
        state.validated_at = AtomicU64::new(self.validated_at.load(Ordering::Acquire));
        state
    }

    /// The same state, for a copy of the value outside of memory.
    pub(crate) fn copy(&self) -> Self {
        let copy = |moment: &AtomicU64| AtomicU64::new(moment.load(Ordering::Acquire));
        EntryState {
            tags: self.tags.clone(),
            keep_until: copy(&self.keep_until),
            fresh_until: copy(&self.fresh_until),
            validated_in: copy(&self.validated_in),
            validated_at: copy(&self.validated_at),
            delivered_at: copy(&self.delivered_at),
            checked_in: copy(&self.checked_in),
            ahead: self.ahead.copy(),
            ..*self
        }
    }

    /// Whether an entry that is judged so is fresh, and no stale value that fetches get until the next attempt to load.
    pub(crate) fn is_fresh_if(&self, validity: Validity) -> bool {
        validity == Validity::Valid && !self.is_stale_value
    }

    /// Whether it is the stale value with this id, and served until a later attempt to load.
    pub(crate) fn is_paused(&self, id: Option<Id>, now: Duration) -> bool {
        self.is_stale_value && self.id.is_some() && self.id == id && self.is_fresh(now)
    }

    #[inline]
    pub(crate) fn is_fresh(&self, now: Duration) -> bool {
        nanos(now) < self.fresh_until.load(Ordering::Relaxed)
    }

    /// Whether the entry is fresh, or stale and within its grace period.
    pub(crate) fn is_kept(&self, now: Duration) -> bool {
        nanos(now) < self.keep_until.load(Ordering::Relaxed)
    }

    /// The time to the end of the grace period, at least 1 ms.
    pub(crate) fn remaining(&self, now: Duration) -> Duration {
        match self.keep_until.load(Ordering::Relaxed) {
            NEVER => larder_engine::MAX_TTL,
            at => Duration::from_nanos(at).saturating_sub(now).max(Duration::from_millis(1)),
        }
    }

    /// The time to live of the entry in the engine: to the end of the grace period, at least 1 ms. It is a moment and not
    /// a duration, since the commit may come later than the moment at which the entry was judged.
    pub(crate) fn memory_ttl(&self) -> Ttl {
        Ttl::At(millis(self.stored_at.saturating_add(self.remaining(self.stored_at))))
    }

    /// The time to the end of the time to live; zero if that is over.
    pub(crate) fn remaining_ttl(&self, now: Duration) -> Duration {
        let (fresh, kept) =
            (self.fresh_until.load(Ordering::Relaxed), self.keep_until.load(Ordering::Relaxed));
        Duration::from_nanos(fresh.min(kept)).saturating_sub(now)
    }

    /// Ends the time to live now.
    pub(crate) fn expire(&self, now: Duration) {
        self.set_stale_since(Duration::ZERO, now);
    }

    /// The time to live ended so long ago. The entry is kept for its grace period after that, and for no longer than it would
    /// have been.
    pub(crate) fn set_stale_since(&self, elapsed: Duration, now: Duration) {
        self.fresh_until.fetch_min(nanos(now.saturating_sub(elapsed)), Ordering::Relaxed);
        let end = (now + self.lifetime().grace).saturating_sub(elapsed);
        self.keep_until.fetch_min(nanos(end), Ordering::Relaxed);
    }

    /// Whether the entry is kept for longer than it is fresh.
    pub(crate) fn has_grace(&self) -> bool {
        self.fresh_until.load(Ordering::Relaxed) != NEVER
    }

    /// The time to live and the grace period with which the value was stored.
    pub(crate) fn lifetime(&self) -> Lifetime {
        Lifetime { fresh: Duration::from_millis(self.ttl_ms), grace: Duration::from_millis(self.grace_ms) }
    }

    /// Restarts the time to live and the grace period of a fresh value. Returns whether it did: a value that is stale,
    /// also one that is served until the next attempt to load, stays so.
    pub(crate) fn renew(&self, now: Duration, lifetime: Lifetime) -> bool {
        if self.is_stale_value {
            return false;
        }
        let fresh_until = nanos(now.saturating_add(lifetime.fresh));
        // One step: the value may be invalidated softly at the same time.
        let renewed =
            self.fresh_until.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |until| match until {
                NEVER => Some(NEVER),
                until => (nanos(now) < until).then_some(fresh_until),
            });
        if renewed.is_ok() {
            self.keep_until.store(nanos(now.saturating_add(lifetime.kept_for())), Ordering::Relaxed);
            self.ahead.set_end(nanos(now.saturating_add(lifetime.fresh)));
        }
        renewed.is_ok()
    }

    #[inline]
    pub(crate) fn is_checked_in(&self, epoch: u64) -> bool {
        self.checked_in.load(Ordering::Acquire) == epoch
    }

    /// The entry was compared with all stamps of this epoch.
    pub(crate) fn set_checked_in(&self, epoch: u64) {
        self.checked_in.store(epoch, Ordering::Release);
    }

    /// The entry was compared with no stamp yet.
    pub(crate) fn set_unchecked(&self) {
        self.set_checked_in(0);
    }

    #[inline]
    pub(crate) fn is_validated_in(&self, generation: u64) -> bool {
        self.validated_in.load(Ordering::Acquire) == generation
    }

    /// Redis was asked in `generation` and has the entry.
    pub(crate) fn mark_validated(&self, generation: u64, now: Duration) {
        self.validated_at.fetch_max(nanos(now), Ordering::AcqRel);
        self.set_validated_in(generation);
    }

    /// The entry must be compared with Redis before its next use.
    pub(crate) fn mark_suspect(&self) {
        self.set_validated_in(SUSPECT);
    }

    fn set_validated_in(&self, generation: u64) {
        _ = self.validated_in.fetch_update(Ordering::AcqRel, Ordering::Acquire, |validated| {
            (validated != DEAD).then_some(generation)
        });
    }

    /// The entry is delivered to followers. That validates nothing: the time for which it may be served without Redis
    /// does not restart.
    pub(crate) fn mark_delivered(&self, now: Duration) {
        self.delivered_at.fetch_max(nanos(now), Ordering::AcqRel);
    }

    /// The entry may have been invalidated after this moment.
    pub(crate) fn set_validated_at(&self, moment: Duration) {
        self.validated_at.store(nanos(moment), Ordering::Release);
    }

    /// The last moment at which the entry is known to have been valid.
    pub(crate) fn validated_at(&self) -> Duration {
        Duration::from_nanos(self.validated_at.load(Ordering::Acquire))
    }

    /// Whether the entry was stored, validated or delivered at or after this moment.
    pub(crate) fn is_valid_since(&self, moment: Duration) -> bool {
        let is_since = |at: &AtomicU64| at.load(Ordering::Acquire) >= nanos(moment);
        is_since(&self.validated_at) || is_since(&self.delivered_at)
    }

    /// The entry was invalidated. It may still be in memory for a moment.
    pub(crate) fn mark_dead(&self) {
        self.validated_in.store(DEAD, Ordering::Release);
    }

    pub(crate) fn is_dead(&self) -> bool {
        self.is_validated_in(DEAD)
    }
}

impl MemoryEntry {
    pub(crate) fn new<V: Send + Sync + 'static>(value: Arc<V>, state: EntryState) -> Self {
        MemoryEntry(Arc::new(StoredEntry { state, value }))
    }

    pub(crate) fn state(&self) -> &EntryState {
        &self.0.state
    }

    /// The state of an entry that has no clone yet.
    pub(crate) fn state_mut(&mut self) -> Option<&mut EntryState> {
        Arc::get_mut(&mut self.0).map(|stored| &mut stored.state)
    }

    /// Whether both are the same allocation.
    pub(crate) fn is(&self, other: &MemoryEntry) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    /// The value, if it is of this type.
    pub(crate) fn value<V: Send + Sync + 'static>(&self) -> Option<&Arc<V>> {
        self.0.value.downcast_ref::<Arc<V>>()
    }

    pub(crate) fn is_counter(&self) -> bool {
        self.value::<MemoryCounter>().is_some()
    }
}

pub(crate) fn weigh(key: &MemoryKey, entry: &MemoryEntry) -> u64 {
    key.borrow().bytes.len() as u64 + u64::from(entry.state().encoded_bytes) + ENTRY_OVERHEAD_BYTES
}

impl std::fmt::Debug for MemoryEntry {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("MemoryEntry").field("state", &self.0.state).finish_non_exhaustive()
    }
}

pub(crate) fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn renewed_entry_has_new_ttl_and_new_grace_period() {
        let state = EntryState::new(Duration::ZERO, SECOND, 2 * SECOND, 1, 1);
        assert!(!state.is_fresh(SECOND) && state.is_kept(SECOND) && !state.is_kept(2 * SECOND));
        assert!(!state.renew(SECOND, state.lifetime()), "it is stale");
        let now = SECOND / 2;
        assert!(state.renew(now, state.lifetime()));
        assert!(state.is_fresh(SECOND) && !state.is_fresh(now + SECOND));
        assert!(state.is_kept(2 * SECOND) && !state.is_kept(now + 2 * SECOND));
        assert_eq!(state.remaining(now + SECOND), SECOND);
    }

    #[test]
    fn softly_invalidated_or_retried_entry_is_not_renewed() {
        let state = EntryState::new(Duration::ZERO, SECOND, 10 * SECOND, 1, 1);
        assert!(!state.for_retry(2 * SECOND, SECOND).renew(2 * SECOND, state.lifetime()));
        state.set_stale_since(SECOND / 2, SECOND / 2);
        assert!(!state.renew(SECOND / 2, state.lifetime()) && !state.is_fresh(SECOND / 2));
    }

    #[test]
    fn expired_entry_is_kept_for_its_grace_period() {
        let state = EntryState::new(Duration::ZERO, 10 * SECOND, 15 * SECOND, 1, 1);
        state.expire(SECOND);
        assert!(!state.is_fresh(SECOND) && state.is_kept(5 * SECOND) && !state.is_kept(6 * SECOND));
        state.expire(3 * SECOND);
        assert!(!state.is_kept(6 * SECOND), "a second time extends nothing");
        // The engine's clock began after the invalidation.
        state.set_stale_since(4 * SECOND, 2 * SECOND);
        assert!(!state.is_fresh(Duration::ZERO) && state.is_kept(2 * SECOND) && !state.is_kept(3 * SECOND));
    }

    #[test]
    fn retry_state_keeps_end_of_grace_period() {
        let state = EntryState::new(Duration::ZERO, SECOND, 10 * SECOND, 1, 1);
        let retry = state.for_retry(4 * SECOND, 2 * SECOND);
        assert!(retry.is_fresh(5 * SECOND) && !retry.is_fresh(6 * SECOND));
        assert!(retry.is_kept(9 * SECOND) && !retry.is_kept(10 * SECOND));
        assert_eq!(retry.initial_age, 4 * SECOND);
    }

    #[test]
    fn expired_retry_state_keeps_rest_of_grace_period() {
        let state = EntryState::new(Duration::ZERO, SECOND, 10 * SECOND, 1, 1);
        let retry = state.for_retry(8 * SECOND, 5 * SECOND);
        assert!(retry.is_fresh(9 * SECOND) && retry.has_grace(), "the pause is longer than the rest");
        retry.expire(9 * SECOND);
        assert!(!retry.is_fresh(9 * SECOND) && retry.is_kept(9 * SECOND) && !retry.is_kept(10 * SECOND));
    }
}

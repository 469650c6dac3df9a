//! How long memory may be trusted without asking Redis.
//!
//! A *liveness proof* is an answered heartbeat: every invalidation before it was sent has been received. Memory is
//! trusted for `max_lag` after the last proof was sent. A *gap* is a time in which announcements may have been missed.
//! It ends with a new generation, in which every entry is compared with Redis before its next use.
//!
//! Without Redis, and where nodes do not coordinate and the user allows that, memory is trusted without a proof.
//!
//! Entries that were stored before anything could be missed need no proof. Memory is empty when the cache is built, so
//! that moment counts as the first proof.

use super::entry::{EntryState, nanos};
use larder_engine::Clock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

#[derive(Debug)]
pub(crate) struct Trust {
    clock: Clock,
    max_lag: Duration,
    disconnected: Duration,
    /// Until when memory is trusted, in nanoseconds; [`FOREVER`] if this node needs no proof.
    trusted_until: AtomicU64,
    /// When the last proof was sent, in nanoseconds.
    proof_at: AtomicU64,
    /// When the last proof before the last gap was sent.
    proof_before_gap_at: AtomicU64,
    generation: AtomicU64,
}

/// The trust in memory at the start of a lookup.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TrustSnapshot {
    trusted_until: u64,
    pub(crate) generation: u64,
}

const FOREVER: u64 = u64::MAX;
const FIRST_GENERATION: u64 = 1;

impl Trust {
    pub(crate) fn new(clock: Clock, has_redis: bool, max_lag: Duration, disconnected: Duration) -> Self {
        let built_at = clock.now();
        let trusted_until = if has_redis { nanos(built_at.saturating_add(max_lag)) } else { FOREVER };
        Trust {
            max_lag,
            disconnected,
            trusted_until: AtomicU64::new(trusted_until),
            proof_at: AtomicU64::new(nanos(built_at)),
            proof_before_gap_at: AtomicU64::new(nanos(built_at)),
            generation: AtomicU64::new(FIRST_GENERATION),
            clock,
        }
    }

    /// Taken before memory is looked up: it covers what is found there.
    #[inline]
    pub(crate) fn snapshot(&self) -> TrustSnapshot {
        // In this order: a reader of a proof also reads the generation of that proof.
        let trusted_until = self.trusted_until.load(Ordering::Acquire);
        TrustSnapshot { trusted_until, generation: self.generation.load(Ordering::Acquire) }
    }

    pub(crate) fn is_trusted(&self) -> bool {
        self.snapshot().covers(self.clock.now())
    }

    pub(crate) fn generation(&self) -> u64 {
        self.generation.load(Ordering::Acquire)
    }

    /// Whether an entry may be served while Redis does not reply: for `disconnected` after the last moment at which no
    /// invalidation of it can have been missed. A later proof does not count: this entry was not compared then.
    pub(crate) fn may_serve_disconnected(&self, state: &EntryState) -> bool {
        let generation = self.generation();
        let time = |nanos: &AtomicU64| Duration::from_nanos(nanos.load(Ordering::Acquire));
        let proof_at = if state.is_validated_in(generation) {
            time(&self.proof_at)
        } else if state.is_validated_in(generation - 1) {
            time(&self.proof_before_gap_at)
        } else {
            state.validated_at()
        };
        self.clock.now() <= proof_at.saturating_add(self.disconnected) && generation == self.generation()
    }

    /// Whether any entry may be served while Redis does not reply.
    pub(crate) fn is_within_disconnected(&self) -> bool {
        self.proof_age() <= self.disconnected
    }

    /// Whether a load that started at `started` may be followed now.
    pub(crate) fn is_within_max_lag(&self, started: Duration, now: Duration) -> bool {
        started.saturating_add(self.max_lag) >= now
    }

    /// A heartbeat that was sent at `sent` proved that no announcement is missing.
    pub(crate) fn record_proof(&self, sent: Duration) {
        self.proof_at.fetch_max(nanos(sent), Ordering::AcqRel);
        self.trusted_until.fetch_max(nanos(sent.saturating_add(self.max_lag)), Ordering::AcqRel);
    }

    /// Announcements may have been missed. Called once they are received again.
    pub(crate) fn end_gap(&self) {
        self.proof_before_gap_at.store(self.proof_at.load(Ordering::Acquire), Ordering::Release);
        self.generation.fetch_add(1, Ordering::AcqRel);
    }

    /// Memory is trusted without a proof from now on, or only with a later one.
    pub(crate) fn set_unconditional(&self, is_unconditional: bool) {
        self.trusted_until.store(if is_unconditional { FOREVER } else { 0 }, Ordering::Release);
    }

    pub(crate) fn proof_age(&self) -> Duration {
        let proof_at = Duration::from_nanos(self.proof_at.load(Ordering::Acquire));
        self.clock.now().saturating_sub(proof_at)
    }

    pub(crate) fn disconnected(&self) -> Duration {
        self.disconnected
    }

    pub(crate) fn max_lag(&self) -> Duration {
        self.max_lag
    }
}

impl TrustSnapshot {
    #[inline]
    pub(crate) fn covers(self, now: Duration) -> bool {
        nanos(now) <= self.trusted_until
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn memory_is_trusted_for_max_lag_after_proof_was_sent() {
        let (clock, hand) = Clock::manual();
        let trust = Trust::new(clock, true, SECOND, 30 * SECOND);
        assert!(trust.is_trusted(), "nothing can be missing yet");
        hand.advance(2 * SECOND);
        assert!(!trust.is_trusted());
        trust.record_proof(SECOND);
        assert!(trust.is_trusted());
        hand.advance(Duration::from_millis(1));
        assert!(!trust.is_trusted(), "the time of the answer does not count");
    }

    #[test]
    fn disconnected_node_serves_for_bounded_time() {
        let (clock, hand) = Clock::manual();
        let trust = Trust::new(clock, true, SECOND, 30 * SECOND);
        trust.record_proof(Duration::ZERO);
        hand.advance(30 * SECOND);
        let state = |generation| EntryState::new(Duration::ZERO, SECOND, SECOND, generation, 1);
        assert!(trust.may_serve_disconnected(&state(trust.generation())));
        hand.advance(Duration::from_nanos(1));
        assert!(!trust.may_serve_disconnected(&state(trust.generation())));
        trust.end_gap();
        trust.record_proof(31 * SECOND);
        assert!(trust.may_serve_disconnected(&state(trust.generation())));
        assert!(!trust.may_serve_disconnected(&state(trust.generation() - 1)), "it was not compared");
    }

    #[test]
    fn gap_starts_new_generation() {
        let trust = Trust::new(Clock::monotonic(), true, SECOND, SECOND);
        let before = trust.snapshot().generation;
        trust.end_gap();
        assert_ne!(trust.snapshot().generation, before);
    }
}

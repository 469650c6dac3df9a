//! How long memory may be believed without asking Redis.
//!
//! A *proof* is a beat that was answered: everything invalidated before it was sent has been heard. Memory answers for
//! `max_lag` after the last proof was sent. A *gap* is a time in which announcements may have been missed; it ends with a
//! new generation, in which every entry is compared with Redis before it is served again.
//!
//! Entries that came into memory before anything could have been missed need no proof, and nothing was there before the
//! cache was built: its birth counts as the first proof.

use crate::tier::memory::Facts;
use larder_engine::Clock;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

#[derive(Debug)]
pub(crate) struct Trust {
    clock: Clock,
    max_lag: Duration,
    disconnected: Duration,
    /// Nanoseconds on the clock until which memory is believed; `u64::MAX` if there is nobody else to ask.
    until: AtomicU64,
    /// When the last proof was sent, in nanoseconds.
    proved_at: AtomicU64,
    /// When the last proof before the last gap was sent.
    proved_before_gap: AtomicU64,
    generation: AtomicU64,
    /// Whether the tier was reached and has no way to tell this node what others do.
    alone: AtomicBool,
}

/// The state of trust at the start of a read.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Believed {
    until: u64,
    pub(crate) generation: u64,
}

const FOR_EVER: u64 = u64::MAX;
/// The generation in which a cache begins.
const FIRST: u64 = 1;

impl Trust {
    /// `shared` is whether there is a tier behind memory.
    pub(crate) fn new(clock: Clock, shared: bool, max_lag: Duration, disconnected: Duration) -> Self {
        let born = clock.now();
        let until = if shared { nanos(born.saturating_add(max_lag)) } else { FOR_EVER };
        Trust {
            max_lag,
            disconnected,
            until: AtomicU64::new(until),
            proved_at: AtomicU64::new(nanos(born)),
            proved_before_gap: AtomicU64::new(nanos(born)),
            generation: AtomicU64::new(FIRST),
            alone: AtomicBool::new(false),
            clock,
        }
    }

    /// Taken before memory is looked into: what is found there may be believed by it.
    pub(crate) fn now_believed(&self) -> Believed {
        // In this order: whoever sees a proof also sees the generation that it was given in.
        let until = self.until.load(Ordering::Acquire);
        Believed { until, generation: self.generation.load(Ordering::Acquire) }
    }

    pub(crate) fn generation(&self) -> u64 {
        self.generation.load(Ordering::Acquire)
    }

    /// Whether an entry may be served although the tier does not answer: for a while after the last moment at which nothing
    /// about it can have been missed. That it could be reached in between, and was not asked about this entry, proves
    /// nothing.
    pub(crate) fn may_serve_alone(&self, facts: &Facts) -> bool {
        let generation = self.generation();
        let beat = |beat: &AtomicU64| Duration::from_nanos(beat.load(Ordering::Acquire));
        let proved = if facts.is_proved_in(generation) {
            beat(&self.proved_at)
        } else if facts.is_proved_in(generation - 1) {
            beat(&self.proved_before_gap)
        } else {
            facts.proved_at()
        };
        self.is_alone()
            || (self.clock.now() <= proved.saturating_add(self.disconnected)
                && generation == self.generation())
    }

    /// Whether memory may stand in for the tier at all.
    pub(crate) fn may_be_alone(&self) -> bool {
        let proved = Duration::from_nanos(self.proved_at.load(Ordering::Acquire));
        self.is_alone() || self.clock.now() <= proved.saturating_add(self.disconnected)
    }

    /// Whether a load that began then may be joined now.
    pub(crate) fn is_recent(&self, began: Duration, now: Duration) -> bool {
        began.saturating_add(self.max_lag) >= now
    }

    /// A beat that was sent then has proved that nothing is missing.
    pub(crate) fn prove(&self, sent: Duration) {
        self.proved_at.fetch_max(nanos(sent), Ordering::AcqRel);
        self.until.fetch_max(nanos(sent.saturating_add(self.max_lag)), Ordering::AcqRel);
    }

    /// Announcements may have been missed, and from now on are not. Called once they are heard again.
    pub(crate) fn end_gap(&self) {
        self.proved_before_gap.store(self.proved_at.load(Ordering::Acquire), Ordering::Release);
        self.generation.fetch_add(1, Ordering::AcqRel);
    }

    /// The tier has no way to tell what others do: this node believes itself.
    pub(crate) fn go_alone(&self) {
        self.alone.store(true, Ordering::Release);
        self.until.store(FOR_EVER, Ordering::Release);
    }

    pub(crate) fn is_alone(&self) -> bool {
        self.alone.load(Ordering::Acquire) || self.until.load(Ordering::Acquire) == FOR_EVER
    }

    pub(crate) fn proof_age(&self) -> Duration {
        let proved = Duration::from_nanos(self.proved_at.load(Ordering::Acquire));
        self.clock.now().saturating_sub(proved)
    }

    pub(crate) fn max_lag(&self) -> Duration {
        self.max_lag
    }
}

impl Believed {
    pub(crate) fn at(self, now: Duration) -> bool {
        nanos(now) <= self.until
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
    fn memory_is_believed_for_max_lag_after_a_proof_was_sent() {
        let (clock, hand) = Clock::manual();
        let trust = Trust::new(clock.clone(), true, SECOND, 30 * SECOND);
        assert!(trust.now_believed().at(clock.now()), "nothing can have been missed yet");
        hand.advance(2 * SECOND);
        assert!(!trust.now_believed().at(clock.now()));
        trust.prove(SECOND);
        assert!(trust.now_believed().at(clock.now()));
        hand.advance(Duration::from_millis(1));
        assert!(!trust.now_believed().at(clock.now()), "an answer that comes late proves little");
    }

    #[test]
    fn a_node_alone_serves_for_a_bounded_time() {
        let (clock, hand) = Clock::manual();
        let trust = Trust::new(clock, true, SECOND, 30 * SECOND);
        trust.prove(Duration::ZERO);
        hand.advance(30 * SECOND);
        let facts = |generation| Facts::new(Duration::ZERO, SECOND, SECOND, generation, 1);
        assert!(trust.may_serve_alone(&facts(trust.generation())));
        hand.advance(Duration::from_nanos(1));
        assert!(!trust.may_serve_alone(&facts(trust.generation())));
        trust.end_gap();
        trust.prove(31 * SECOND);
        assert!(trust.may_serve_alone(&facts(trust.generation())));
        assert!(!trust.may_serve_alone(&facts(trust.generation() - 1)), "it was not asked about");
    }

    #[test]
    fn after_a_gap_what_was_believed_is_not() {
        let trust = Trust::new(Clock::monotonic(), true, SECOND, SECOND);
        let before = trust.now_believed().generation;
        trust.end_gap();
        assert_ne!(trust.now_believed().generation, before);
    }
}

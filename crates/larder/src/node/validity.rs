//! The one function that judges an entry as valid, stale or dead, and its first step. Every call that serves a value uses it:
//! `read` serves valid entries, `fetch` also stale ones if the load fails or is slow. A hit that must not wait for the ledger
//! has the first step alone.

use super::Node;
use super::entry::{EntryState, Validity};
use super::ledger::{Invalidation, LedgerJudgement, members_of};
use super::trust::TrustSnapshot;
use crate::policy::Prefer;
use std::time::Duration;

/// How the caller knows that no invalidation of the entry is missing.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Proof {
    /// Memory is trusted. Taken before memory was looked up.
    Trust(TrustSnapshot),
    /// Redis has the entry.
    Redis,
    /// None: Redis did not reply.
    NoReply,
}

/// Whether an entry is valid by what it and the trust tell, for a call that started at `now`, in this ledger epoch. The ledger
/// is not asked, so this takes no lock.
#[inline]
pub(crate) fn is_valid_at_once(state: &EntryState, trust: TrustSnapshot, epoch: u64, now: Duration) -> bool {
    is_proved_by(trust, state, now) && state.is_checked_in(epoch) && state.is_fresh(now)
}

/// A dead entry is validated in no generation.
#[inline]
fn is_proved_by(trust: TrustSnapshot, state: &EntryState, now: Duration) -> bool {
    state.is_validated_in(trust.generation) && trust.covers(now)
}

impl Node {
    /// Judges an entry for a call that started at `now`, in this ledger epoch. Stores in the entry what it finds: a
    /// softly invalidated entry is stale from now on, a dead one stays dead.
    #[inline]
    pub(crate) fn judge(&self, state: &EntryState, proof: Proof, epoch: u64, now: Duration) -> Validity {
        let is_proved = match proof {
            // A hit ends here.
            Proof::Trust(trust) if is_valid_at_once(state, trust, epoch, now) => return Validity::Valid,
            Proof::Trust(trust) => is_proved_by(trust, state, now),
            Proof::Redis => true,
            Proof::NoReply => false,
        };
        self.judge_by_ledger(state, proof, is_proved, now)
    }

    fn judge_by_ledger(&self, state: &EntryState, proof: Proof, is_proved: bool, now: Duration) -> Validity {
        if state.is_dead() {
            return Validity::Dead;
        }
        self.apply(self.ledger.judge(state), state, proof, is_proved, now)
    }

    /// Judges an entry that was not dead when the ledger was asked.
    fn apply(
        &self,
        LedgerJudgement { invalidated, soft_time, is_certain }: LedgerJudgement,
        state: &EntryState,
        proof: Proof,
        is_proved: bool,
        now: Duration,
    ) -> Validity {
        match invalidated {
            None => {}
            Some(Invalidation::Soft) if state.has_grace() => {
                state.set_stale_since(soft_time.elapsed(now, &self.server_clock), now);
            }
            Some(_) => {
                state.mark_dead();
                return Validity::Dead;
            }
        }
        let has_no_reply = match proof {
            Proof::Trust(_) => self.redis_is_lost(),
            Proof::Redis => false,
            Proof::NoReply => true,
        };
        let may_serve =
            (is_proved && is_certain) || (has_no_reply && self.trust.may_serve_disconnected(state));
        if !may_serve {
            let is_proof_lost =
                matches!(proof, Proof::NoReply) && self.settings.prefer == Prefer::Availability;
            return if is_proof_lost { judge_unproved(state, now) } else { Validity::Unknown };
        }
        match state.is_fresh(now) {
            true if state.is_kept(now) => Validity::Valid,
            false if state.is_kept(now) => Validity::Stale,
            _ => Validity::Dead,
        }
    }

    /// Judges an entry of memory while Redis does not reply.
    pub(crate) fn judge_without_redis(&self, state: &EntryState) -> Validity {
        self.judge(state, Proof::NoReply, self.ledger.epoch(), self.now())
    }

    /// Judges an entry that was found in Redis by the stamps that this node knows. `None` if stamps must be read.
    pub(super) fn judge_promoted_by_known_stamps(&self, state: &EntryState) -> Option<Validity> {
        if self.redis.is_none() {
            return Some(self.judge(state, Proof::Redis, self.ledger.epoch(), state.stored_at));
        }
        if state.clock == 0 {
            return Some(Validity::Dead);
        }
        if state.clock > self.ledger.clock() {
            return None;
        }
        let has_certain_stamps = state.tags.is_empty() || self.trust.is_trusted();
        let judgement = self.ledger.judge(state);
        let is_dead = has_certain_stamps && judgement.invalidated == Some(Invalidation::Hard);
        let is_known = is_dead || (has_certain_stamps && judgement.is_certain);
        is_known.then(|| self.apply(judgement, state, Proof::Redis, true, state.stored_at))
    }

    /// Judges an entry that was found in Redis. Reads the stamps of its tags if this node does not know them.
    pub(super) async fn judge_promoted(&self, state: &EntryState) -> Validity {
        let members = members_of(state.tags.iter().map(|tag| &**tag));
        if state.clock > self.ledger.clock() {
            // A load gets no clock that its ledger has not reached. If this one has not, the entry is from a ledger
            // that was lost, and newer than invalidations to come.
            match self.read_stamps(&members).await {
                Ok(clock) if clock < state.clock => return Validity::Dead,
                Ok(_) => {}
                Err(_) => return Validity::Unknown,
            }
        }
        if let Some(validity) = self.judge_promoted_by_known_stamps(state) {
            return validity;
        }
        if self.read_stamps(&members).await.is_err() {
            return Validity::Unknown;
        }
        self.judge(state, Proof::Redis, self.ledger.epoch(), state.stored_at)
    }
}

/// Judges an entry that may have been invalidated since Redis was lost, where availability comes first: it is stale,
/// and served without another load for a while after one has failed.
fn judge_unproved(state: &EntryState, now: Duration) -> Validity {
    match state.is_kept(now) {
        true if state.is_stale_value && state.is_fresh(now) => Validity::Valid,
        true => Validity::Stale,
        false => Validity::Dead,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::node::tests::node_with_clock;
    use larder_engine::Clock;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn entry_is_valid_then_stale_then_dead() {
        let (clock, hand) = Clock::manual();
        let node = node_with_clock(clock);
        let state = EntryState::new(node.now(), SECOND, 2 * SECOND, node.trust.generation(), 1);
        let judge =
            || node.judge(&state, Proof::Trust(node.trust.snapshot()), node.ledger.epoch(), node.now());
        assert_eq!(judge(), Validity::Valid);
        hand.advance(SECOND);
        assert_eq!(judge(), Validity::Stale);
        hand.advance(SECOND);
        assert_eq!(judge(), Validity::Dead, "the grace period is over");
    }

    #[test]
    fn dead_entry_stays_dead() {
        let node = node_with_clock(Clock::monotonic());
        let state = EntryState::new(node.now(), SECOND, SECOND, node.trust.generation(), 1);
        state.mark_dead();
        for proof in [Proof::Trust(node.trust.snapshot()), Proof::Redis, Proof::NoReply] {
            assert_eq!(
                node.judge(&state, proof, node.ledger.epoch(), node.now()),
                Validity::Dead,
                "{proof:?}"
            );
        }
    }
}

//! What of the protocol is active, for people and dashboards.

use crate::cache::Inner;
use std::time::Duration;

/// How coherent a cache is with other nodes at this moment.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Coherence {
    /// What is promised.
    pub mode: CoherenceMode,
    /// Whether memory may answer by itself now.
    pub believed: bool,
    /// How long ago the last beat was sent that proved that nothing was missed; since the cache was built if none was.
    pub proof_age: Duration,
    /// Invalidations of this node that Redis has not confirmed yet.
    pub owed: usize,
    /// Whether writes by other programs are heard.
    pub foreign_writers: bool,
    /// Whether compare-and-set is one round trip.
    pub scripts: bool,
}

/// What a cache can promise with what is behind it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum CoherenceMode {
    /// There is no Redis: this node is all there is.
    Memory,
    /// Redis was not reached yet.
    Unknown,
    /// The server has no transactions, announcements or sorted sets: nothing stale on this node, nothing promised for
    /// others.
    OneNode,
    /// The whole promise.
    Full,
}

impl Inner {
    pub(crate) fn coherence(&self) -> Coherence {
        let can = self.shared.as_ref().and_then(|shared| shared.tier.capabilities());
        let mode = match (&self.shared, can) {
            (None, _) => CoherenceMode::Memory,
            (Some(_), None) => CoherenceMode::Unknown,
            (Some(_), Some(can)) if can.coherent() => CoherenceMode::Full,
            (Some(_), Some(_)) => CoherenceMode::OneNode,
        };
        Coherence {
            mode,
            believed: self.trust.now_believed().at(self.memory.clock().now()),
            proof_age: self.trust.proof_age(),
            owed: self.journal.debts(),
            foreign_writers: self.foreign_writers && mode == CoherenceMode::Full,
            scripts: can.is_some_and(|can| can.scripts),
        }
    }
}

//! The state of the protocol, for people and dashboards.

use super::Coordinator;
use super::problem::CoherenceProblem;
use crate::node::guarded_tier::Support;
use crate::report::error::CacheError;
use crate::tier::{Primary, Requirement};
use std::time::Duration;

/// The present coherence of a cache with other nodes.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Coherence {
    /// The present promise of the cache.
    pub mode: CoherenceMode,
    /// Whether memory may answer without asking Redis.
    pub memory_trusted: bool,
    /// The age of the last liveness proof: a heartbeat whose reply showed that no announcement is missing. It counts from
    /// the sending. Without any proof it is the time since the cache was built.
    pub proof_age: Duration,
    /// The time after the last proof for which memory is served while Redis does not reply:
    /// [`Builder::disconnected`](crate::Builder::disconnected).
    pub disconnected: Duration,
    /// Invalidations of this node that Redis has not confirmed. They are replayed when Redis replies again.
    pub pending_invalidations: usize,
    /// Why the last attempt to get a proof has failed. `None` if it has not, if there was none yet, or if the mode says why.
    pub problem: Option<CoherenceProblem>,
    /// Whether writes by other programs are received.
    pub foreign_writers: bool,
    /// The primaries of a cluster behind `redis+cluster://`. Memory is trusted while all of them are proved. None if there is
    /// one server.
    pub primaries: Vec<Primary>,
}

/// The promise that a cache can make with the tier behind it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum CoherenceMode {
    /// There is no Redis: this node is the only one.
    Memory,
    /// Redis has not been reached yet.
    Unknown,
    /// The server lacks what coherent nodes require, or this user may not use it. Redis is neither read nor written, and
    /// every fetch loads; with [`Builder::allow_uncoordinated`](crate::Builder::allow_uncoordinated) memory answers, and
    /// nothing is promised for invalidations by other nodes. Mutations return
    /// [`CacheError::Unsupported`](crate::CacheError::Unsupported). The server is asked again every second.
    Unsupported(Requirement),
    /// The whole promise.
    Full,
    /// This process inherited the cache through a fork: every call is an error that says so, or a miss.
    Forked,
    /// The cache was ended by [`Cache::shutdown`](crate::Cache::shutdown): every call is an error that says so, or a miss.
    ShutDown,
    /// Redis does not reply, or its heartbeats do not, or those of one primary of a cluster, or its ledger cannot be used:
    /// since [`Coherence::proof_age`]. Memory
    /// is served for [`Builder::disconnected`](crate::Builder::disconnected) after that; then every fetch loads.
    /// Invalidations by this node are queued.
    Lost,
}

impl Coordinator {
    pub(crate) fn coherence(&self) -> Coherence {
        let ended = match self.node.check_open() {
            Ok(()) => None,
            Err(CacheError::Forked) => Some(CoherenceMode::Forked),
            Err(_) => Some(CoherenceMode::ShutDown),
        };
        if let Some(mode) = ended {
            return Coherence {
                mode,
                memory_trusted: false,
                proof_age: self.node.trust.proof_age(),
                disconnected: self.node.trust.disconnected(),
                pending_invalidations: 0,
                problem: None,
                foreign_writers: false,
                primaries: Vec::new(),
            };
        }
        let support = self.node.redis.as_ref().map(|redis| redis.support());
        let is_trusted = self.node.trust.is_trusted();
        let (mode, memory_trusted) = match support {
            None => (CoherenceMode::Memory, is_trusted),
            Some(Support::Unknown) => (CoherenceMode::Unknown, is_trusted),
            Some(Support::Lacks(requirement)) => {
                (CoherenceMode::Unsupported(requirement), self.node.settings.allow_uncoordinated)
            }
            Some(Support::Full) if is_trusted => (CoherenceMode::Full, true),
            Some(Support::Full) => (CoherenceMode::Lost, false),
        };
        Coherence {
            mode,
            memory_trusted,
            proof_age: self.node.trust.proof_age(),
            disconnected: self.node.trust.disconnected(),
            pending_invalidations: self.replay_log.pending_count(),
            problem: self.connection.problem.get(),
            foreign_writers: self.options.foreign_writers && support == Some(Support::Full),
            primaries: self.node.redis.as_ref().map(|redis| redis.tier.primaries()).unwrap_or_default(),
        }
    }
}

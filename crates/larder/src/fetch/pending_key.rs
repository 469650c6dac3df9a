//! A key of a batch, from its lookup to the end of its load.

use super::BulkOutcome;
use super::other_reload::OtherReload;
use crate::coherence::lease::StoreCondition;
use crate::coherence::reload::Reload;
use crate::node::StartState;
use crate::node::entry::{MemoryEntry, MemoryTicket};
use crate::node::lookup::Candidate;
use crate::tier::CompareAndSet;
use std::time::Duration;
use tokio::sync::oneshot;

/// A key that a load task looks up and loads.
///
/// A lookup sets `condition` and `reload` together. With [`Reload::Leased`] and [`Reload::Elsewhere`] the value in Redis is
/// still there, and the condition compares it: the lease only decides who loads. So the condition of a value that is loaded
/// elsewhere is right for this node too, if the other one takes too long.
pub(crate) struct PendingKey<V, E> {
    pub(crate) redis_key: Vec<u8>,
    stage: Stage<V, E>,
    /// What memory has: stale, or to be compared with Redis first.
    pub(crate) candidate: Option<Candidate>,
    /// The counters before the lookup. The ledger clock is that of its reply, from before the loader begins: an invalidation
    /// that advances the clock beyond it may come after the loader has read the origin, and so makes the value invalid.
    pub(super) start: StartState,
    /// The condition under which Redis stores the loaded value.
    pub(super) condition: StoreCondition,
    /// Who loads the value again that Redis has.
    pub(super) reload: Reload,
    /// What a refresh knows of the reloads by other nodes that it waited for.
    pub(super) other_reload: OtherReload,
    /// Whether a load that began earlier, here or on another node, may store its value too: a refresh has overtaken it.
    pub(super) overtakes: bool,
    /// When the lookup started, on the engine's clock.
    pub(super) started_at: Duration,
    /// The stale value to serve if the load fails.
    pub(super) stale: Option<MemoryEntry>,
}

/// How far a key has come. The ticket is the right to load it in this process.
enum Stage<V, E> {
    /// It is looked up or loaded, and its caller waits.
    Awaited(MemoryTicket, oneshot::Sender<BulkOutcome<V, E>>),
    /// It is loaded for the tiers: its caller has got a stale value after the soft timeout.
    Answered(MemoryTicket),
    /// Its load has ended.
    Ended,
}

/// The answer to the caller of a key whose load has ended.
pub(super) struct Answer<V, E>(Option<oneshot::Sender<BulkOutcome<V, E>>>);

impl<V, E> Answer<V, E> {
    /// Returns whether the caller still waited.
    pub(super) fn send(self, outcome: BulkOutcome<V, E>) -> bool {
        self.0.is_some_and(|answer| answer.send(outcome).is_ok())
    }
}

impl<V, E> PendingKey<V, E> {
    pub(crate) fn new(
        redis_key: Vec<u8>,
        ticket: MemoryTicket,
        candidate: Option<Candidate>,
    ) -> (Self, oneshot::Receiver<BulkOutcome<V, E>>) {
        let (answer, answered) = oneshot::channel();
        let pending = PendingKey {
            redis_key,
            stage: Stage::Awaited(ticket, answer),
            candidate,
            start: StartState::default(),
            condition: StoreCondition::None,
            reload: Reload::Unleased,
            other_reload: OtherReload::default(),
            overtakes: false,
            started_at: Duration::ZERO,
            stale: None,
        };
        (pending, answered)
    }

    /// Whether the key must still be loaded.
    pub(crate) fn is_open(&self) -> bool {
        !matches!(self.stage, Stage::Ended)
    }

    /// Ends the load of the key. `None` if it had ended before.
    pub(super) fn end(&mut self) -> Option<(MemoryTicket, Answer<V, E>)> {
        match std::mem::replace(&mut self.stage, Stage::Ended) {
            Stage::Awaited(ticket, answer) => Some((ticket, Answer(Some(answer)))),
            Stage::Answered(ticket) => Some((ticket, Answer(None))),
            Stage::Ended => None,
        }
    }

    /// Answers the caller before the load has ended. Returns whether it still waited: the load continues for the tiers.
    pub(super) fn answer_early(&mut self, outcome: BulkOutcome<V, E>) -> bool {
        let Some((ticket, answer)) = self.end() else { return false };
        self.stage = Stage::Answered(ticket);
        answer.send(outcome)
    }

    /// Whether another node loads the key.
    pub(super) fn is_loaded_elsewhere(&self) -> bool {
        self.has_foreign_lease() || (self.is_open() && matches!(self.reload, Reload::Elsewhere(_)))
    }

    /// Whether another node has the lease of the key.
    pub(super) fn has_foreign_lease(&self) -> bool {
        self.is_open() && matches!(self.condition, StoreCondition::ForeignLease(_))
    }

    /// Whether the value in memory must be compared with Redis first.
    pub(super) fn needs_revalidation(&self) -> bool {
        self.candidate.as_ref().is_some_and(|candidate| candidate.needs_revalidation)
    }

    /// The requests that renew the leases of this load.
    pub(super) fn renewals(&self) -> impl Iterator<Item = CompareAndSet> {
        self.condition.renewals(&self.redis_key).chain(self.reload.renewal())
    }

    /// The requests that release the leases of this load.
    pub(super) fn releases(&self) -> Vec<CompareAndSet> {
        match &self.reload {
            Reload::Leased { key, lease } => lease.releases(key),
            Reload::Unleased | Reload::Elsewhere(_) => self.condition.releases(&self.redis_key),
        }
    }
}

//! Whether the caller of a fetch loads its key, or gets an answer from a tier or from the load of another caller.

use super::Fetch;
use super::waiting::{Call, follow, is_loaded_by};
use crate::node::entry::MemoryTicket;
use crate::node::fetched::Fetched;
use crate::node::lookup::{Candidate, MemoryLookup};
use crate::report::error::FetchError;
use larder_engine::{FollowOutcome, Leader, Load};
use std::time::Duration;
use tokio::time::{Instant, timeout};

/// What is next for the caller of a fetch.
pub(super) enum Turn<V> {
    /// There is a value.
    Answer(Fetched<V>),
    /// It loads.
    Lead(Lead),
}

/// The right to load a key, and the entry in memory that is stale or must be compared with Redis.
pub(super) struct Lead {
    pub(super) ticket: MemoryTicket,
    pub(super) candidate: Option<Candidate>,
    /// Whether an earlier load has the right too.
    pub(super) overtakes: bool,
}

impl<V, E> Fetch<'static, V, E>
where
    V: Send + Sync + 'static,
    E: Send + Sync + 'static,
{
    /// Follows the loads of others until there is an answer, or this caller leads. Without a lookup it begins with one.
    pub(super) async fn turn(
        &self,
        call: &Call,
        lookup: Option<MemoryLookup<V>>,
    ) -> Result<Turn<V>, FetchError<E>> {
        let called_at = self.view.node().now();
        let mut lookup = match lookup {
            Some(lookup) => lookup,
            None => self.lookup(call, called_at).await,
        };
        loop {
            let waiter = match lookup {
                MemoryLookup::Hit(fetched) => return Ok(Turn::Answer(fetched)),
                MemoryLookup::Lead { ticket, candidate, overtakes } => {
                    return Ok(Turn::Lead(Lead { ticket, candidate, overtakes }));
                }
                MemoryLookup::Follow(waiter) => waiter,
            };
            let load_began = waiter.follower.began();
            lookup = match follow(&self.view, call, &self.key, waiter, Instant::now()).await {
                Ok(Ok(Some(fetched))) if !self.refresh || is_loaded_by(&fetched, load_began) => {
                    return Ok(Turn::Answer(fetched));
                }
                Ok(Err(error)) => return Err(error),
                Err(Some(next)) => next,
                // Also what a bulk loader has left out: the load of this caller returns a value.
                Ok(Ok(_)) | Err(None) => self.lookup(call, called_at).await,
            };
        }
    }

    /// Looks up memory. A refresh waits for the end of a load that began before it was called; many refreshes that do
    /// so share the next load. It does not wait for ever: it overtakes a load that takes too long, which may still store its
    /// value until a later one has. So a value that is refreshed all the time changes, however slow its loader is.
    async fn lookup(&self, call: &Call, called_at: Duration) -> MemoryLookup<V> {
        let (node, config) = (self.view.node(), &self.view.config);
        if !self.refresh {
            return node.lookup(config, &self.key);
        }
        let lease_wait = self.view.coordinator.options.lease_wait;
        loop {
            let mut older = match node.lookup_for_refresh(config, &self.key, called_at) {
                Ok(lookup) => return lookup,
                Err(older) => older,
            };
            let wait = lease_wait.saturating_sub(call.started.elapsed());
            let (ticket, overtakes) = match timeout(wait, &mut older).await {
                Ok(FollowOutcome::Lead(ticket)) => (ticket, false),
                Ok(FollowOutcome::Value(_) | FollowOutcome::Failed(_)) => continue,
                Err(_) => match older.overtake(Leader::Async) {
                    Load::Lead(ticket) => (ticket, true),
                    // Another refresh was faster.
                    Load::Hit(_) | Load::Follow(_) => continue,
                },
            };
            let candidate = node.refresh_candidate::<V>(self.view.memory_key(&self.key));
            return MemoryLookup::Lead { ticket, candidate, overtakes };
        }
    }
}

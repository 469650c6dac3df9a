//! How a fill may store its response, and the counts of running fills.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use larder_engine::{CommitOutcome, Failure, Op, Ticket, Ttl};

use crate::key::Key;
use crate::status::Reason;
use crate::store::core::CacheCore;
use crate::store::limits::Running;
use crate::stored::entry::StoreValue;

/// How a fill may store its response.
pub(crate) enum FillRole {
    /// It has the ticket of its key, and other requests follow it. `None` once the ticket is settled.
    Leader(Option<Ticket<Key, StoreValue>>),
    /// It has no ticket and no followers.
    Unticketed { _counted: UnticketedFill },
    /// It may replace this stale value, and no other.
    Refresh(StoreValue),
}

/// Counts a fill for as long as its handler runs and its body is read.
pub(crate) struct RunningFill(Arc<Running>);

impl RunningFill {
    /// `None` if as many fills run as may.
    pub(crate) fn new(cache: &CacheCore) -> Option<RunningFill> {
        let running = RunningFill(cache.store.running.clone());
        (running.0.fills.fetch_add(1, Ordering::Relaxed) < cache.limits.max_fills).then_some(running)
    }
}

impl Drop for RunningFill {
    fn drop(&mut self) {
        self.0.fills.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Counts a fill without a ticket for as long as it may store its response.
pub(crate) struct UnticketedFill(Arc<Running>);

impl UnticketedFill {
    pub(crate) fn new(cache: &CacheCore) -> UnticketedFill {
        let running = cache.store.running.clone();
        running.unticketed_fills.fetch_add(1, Ordering::SeqCst);
        UnticketedFill(running)
    }
}

impl Drop for UnticketedFill {
    fn drop(&mut self) {
        self.0.unticketed_fills.fetch_sub(1, Ordering::SeqCst);
    }
}

/// The failure of a fill whose response is not stored. Its followers call the handler.
#[derive(Debug)]
struct Released;

/// The failure of a fill whose response was purged before it was stored. One of its followers leads the next fill.
#[derive(Debug)]
pub(crate) struct PurgedFill;

impl FillRole {
    /// Ends the wait of all followers; each calls the handler.
    pub(crate) fn release_followers(&mut self) {
        self.fail(Arc::new(Released));
    }

    /// Ends the wait of all followers, because the response was purged before it was stored.
    pub(crate) fn release_followers_of_purged_fill(&mut self) {
        self.fail(Arc::new(PurgedFill));
    }

    fn fail(&mut self, why: Failure) {
        if let FillRole::Leader(ticket) = self
            && let Some(ticket) = ticket.take()
        {
            ticket.fail(why);
        }
    }

    /// Makes one follower the leader, because this fill calls no handler.
    #[cfg(any(feature = "disk", feature = "shared"))]
    pub(crate) fn promote_follower(&mut self) {
        if let FillRole::Leader(ticket) = self {
            drop(ticket.take());
        }
    }

    pub(crate) fn store(
        &mut self,
        cache: &CacheCore,
        key: &Key,
        value: StoreValue,
        ttl: Ttl,
    ) -> Result<(), Reason> {
        let is_stored = match self {
            FillRole::Leader(ticket) => {
                match ticket.take().map(|ticket| ticket.commit_with_ttl(value, ttl)) {
                    Some(CommitOutcome::Stored) => true,
                    Some(CommitOutcome::Refused(_)) | None => false,
                    // An unsafe method has removed the key, without a purge.
                    Some(CommitOutcome::Voided) => return Err(Reason::Purged),
                }
            }
            FillRole::Unticketed { .. } => return put(cache, key, value, ttl),
            FillRole::Refresh(old) => {
                let replaced = cache.store.entries.compute(key.clone(), |present| match present {
                    Some(entry) if entry.value().is_same(old) => (Op::Put(value, ttl), true),
                    _ => (Op::Keep, false),
                });
                if !replaced.result {
                    return Err(Reason::Replaced);
                }
                replaced.refused.is_none()
            }
        };
        if is_stored { Ok(()) } else { Err(Reason::Refused) }
    }
}

/// Stores an entry, whatever is there.
pub(super) fn put(cache: &CacheCore, key: &Key, value: StoreValue, ttl: Ttl) -> Result<(), Reason> {
    match cache.store.entries.insert_with_ttl(key.clone(), value, ttl).is_refused() {
        true => Err(Reason::Refused),
        false => Ok(()),
    }
}

/// Releases the followers if the handler panics or the runtime shuts down.
impl Drop for FillRole {
    fn drop(&mut self) {
        self.release_followers();
    }
}

//! The reach of a mutation.

use crate::report::error::CacheError;

/// How far a mutation reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[must_use = "`HereAndQueued` means that other nodes do not know of the mutation yet"]
pub enum Reach {
    /// It is in effect on this node, and in Redis, and was announced to the other nodes: the whole promise holds.
    Everywhere,
    /// It is in effect on this node only. Redis did not confirm it, so it is queued and replayed until Redis does; a
    /// write is replayed as a deletion. Callers need not repeat it.
    HereAndQueued,
}

impl Reach {
    /// Whether other nodes know of the mutation too.
    pub fn is_everywhere(self) -> bool {
        self == Reach::Everywhere
    }

    /// The reach of a mutation that is in effect on this node and queued if Redis did not confirm it. `Err` if nothing
    /// was sent or queued.
    pub(crate) fn of(
        confirmed: Result<(), CacheError>,
        report: impl FnOnce(&CacheError),
    ) -> Result<Reach, CacheError> {
        match confirmed {
            Ok(()) => Ok(Reach::Everywhere),
            Err(error @ (CacheError::Redis(_) | CacheError::Refused(_) | CacheError::NotAsked)) => {
                report(&error);
                Ok(Reach::HereAndQueued)
            }
            Err(
                error @ (CacheError::Unsupported(_)
                | CacheError::Encode(_)
                | CacheError::Contended { .. }
                | CacheError::Pattern { .. }
                | CacheError::NoRedis
                | CacheError::Forked
                | CacheError::ShutDown),
            ) => Err(error),
        }
    }
}

/// The result of a removal.
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use = "`HereAndQueued` means that other nodes do not know of the removal yet"]
pub struct Removal<T = bool> {
    /// Whether memory or Redis had a value; for many keys in their order, for a pattern how many. Where Redis did not reply,
    /// whether memory had one.
    pub existed: T,
    /// The reach of the removal.
    pub reach: Reach,
}

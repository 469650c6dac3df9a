//! The runtime of a request, for what is done for it on another thread.

use tokio::runtime::{EnterGuard, Handle};

/// The runtime of a request, to which its purges go also from a thread that has none: a handler may purge elsewhere, and the
/// future of a request may be dropped anywhere.
#[derive(Clone, Debug)]
pub(crate) struct HomeRuntime(Option<Handle>);

impl HomeRuntime {
    /// That of the caller, if there are other replicas that purges are told.
    pub(crate) fn of_caller(has_replicas: bool) -> HomeRuntime {
        HomeRuntime(if has_replicas { Handle::try_current().ok() } else { None })
    }

    pub(crate) fn enter(&self) -> Option<EnterGuard<'_>> {
        self.0.as_ref().map(Handle::enter)
    }
}

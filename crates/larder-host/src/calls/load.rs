//! The right to load a key, whose caller ends it with what it has loaded.

use crate::value::HostValue;
use larder::{FetchError, Fetched, LoadCx, LoadLease, Loaded};
use std::sync::Arc;
use tokio::sync::oneshot::Sender;

/// What a loader of a host fails with.
pub trait LoadError: Send + Sync + 'static {
    /// A load ahead that its caller has left. It is no failure of the loader: callers that wait lease the key anew.
    fn given_up() -> Self;

    /// Whether it is that.
    fn is_given_up(&self) -> bool;
}

/// A value, or the right to load it.
#[derive(Debug)]
#[allow(clippy::large_enum_variant, reason = "a load is moved once, and a value needs no allocation")]
pub enum HostLeased<O, X>
where
    O: Send + Sync + 'static,
    X: LoadError,
{
    /// A value: from a tier, from the load of another caller, or a stale one that is served instead of a load.
    Hit(Arc<HostValue<O>>),
    /// The caller loads.
    Lead(HostLoad<O, X>),
}

/// The right to load a key. Dropping it gives the load up and fails nobody.
#[derive(Debug)]
#[must_use = "dropping a load gives it up"]
pub enum HostLoad<O, X>
where
    O: Send + Sync + 'static,
    X: LoadError,
{
    /// Of a key without a fresh value: others wait for it.
    Leased(LoadLease<HostValue<O>, X>),
    /// Of a value that is still fresh: nobody waits for it.
    Ahead(AheadLoad<O, X>),
}

/// A load of a value that is still fresh.
#[derive(Debug)]
pub struct AheadLoad<O, X> {
    cx: LoadCx<HostValue<O>>,
    found: Arc<HostValue<O>>,
    ending: Ending<O, X>,
}

/// Where the outcome of a load ahead goes: to its task.
pub(crate) type Ending<O, X> = Sender<Result<Loaded<HostValue<O>>, X>>;

impl<O, X> AheadLoad<O, X> {
    pub(crate) fn new(cx: LoadCx<HostValue<O>>, found: Arc<HostValue<O>>, ending: Ending<O, X>) -> Self {
        AheadLoad { cx, found, ending }
    }
}

impl<O, X> HostLoad<O, X>
where
    O: Send + Sync + 'static,
    X: LoadError,
{
    /// The options of the value, and the one that it replaces: a stale one, or the one that is still fresh.
    pub fn cx(&self) -> &LoadCx<HostValue<O>> {
        match self {
            HostLoad::Leased(lease) => lease.cx(),
            HostLoad::Ahead(load) => &load.cx,
        }
    }

    /// Ends it with a value, or with what is there, unchanged. Returns the value as it is stored. After a load ahead it is in the
    /// tiers a moment later.
    ///
    /// # Errors
    /// As [`LoadLease::complete`]; none after a load ahead.
    pub async fn complete(
        self,
        loaded: impl Into<Loaded<HostValue<O>>>,
    ) -> Result<Arc<HostValue<O>>, FetchError<X>> {
        let AheadLoad { cx: _, found, ending } = match self {
            HostLoad::Leased(lease) => return lease.complete(loaded).await.map(Fetched::into_arc),
            HostLoad::Ahead(load) => load,
        };
        let (loaded, own) = match loaded.into() {
            Loaded::New(value) => (Loaded::New(value.copy()), Arc::new(value)),
            Loaded::NotModified => (Loaded::NotModified, found),
        };
        // After its hard timeout the value is its caller's alone.
        _ = ending.send(Ok(loaded));
        Ok(own)
    }

    /// Ends it with an error. A stale value within its grace period is returned instead, and after a load ahead the value that is
    /// still fresh.
    ///
    /// # Errors
    /// The error, if there is no such value.
    pub async fn fail(self, error: X) -> Result<Arc<HostValue<O>>, FetchError<X>> {
        match self {
            HostLoad::Leased(lease) => lease.fail(error).await.map(Fetched::into_arc),
            HostLoad::Ahead(AheadLoad { cx: _, found, ending }) => {
                _ = ending.send(Err(error));
                Ok(found)
            }
        }
    }
}

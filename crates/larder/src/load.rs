//! Running a loader: with its panics caught, so that those who wait learn of them, and what it says about its value.

use crate::coherence::lease::Claim;
use parking_lot::Mutex;
use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

/// What a loader came back with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Loaded<V> {
    /// A value.
    New(V),
    /// The old value is still right: it is fresh again. Without an old value this is a failure.
    NotModified,
}

impl<V> From<V> for Loaded<V> {
    fn from(value: V) -> Self {
        Loaded::New(value)
    }
}

/// What a loader is told, and what it can say about the value that it returns. Cheap to clone.
pub struct LoadCx<V> {
    said: Arc<Mutex<Said>>,
    stale: Option<Arc<V>>,
}

/// What a loader said about its value.
#[derive(Clone, Debug, Default)]
pub(crate) struct Said {
    pub(crate) ttl: Option<Duration>,
    pub(crate) grace: Option<Duration>,
    pub(crate) tags: Vec<Box<str>>,
    pub(crate) no_store: bool,
}

impl<V> LoadCx<V> {
    pub(crate) fn new(stale: Option<Arc<V>>) -> Self {
        LoadCx { said: Arc::default(), stale }
    }

    /// How long this value is fresh, whatever the call, the view or the cache say.
    pub fn ttl(&self, ttl: Duration) {
        self.said.lock().ttl = Some(ttl);
    }

    /// How long this value is kept after that, to stand in while its loader fails.
    pub fn grace(&self, grace: Duration) {
        self.said.lock().grace = Some(grace);
    }

    /// Adds a tag to this value. A tag that was invalidated after the load began invalidates the value too, so it may be
    /// named at any time during the load.
    pub fn tag(&self, tag: impl Into<Box<str>>) {
        self.said.lock().tags.push(tag.into());
    }

    /// This value goes to those who wait for it and into no tier.
    pub fn no_store(&self) {
        self.said.lock().no_store = true;
    }

    /// The old value, if there is one in grace.
    pub fn stale(&self) -> Option<&Arc<V>> {
        self.stale.as_ref()
    }

    pub(crate) fn said(&self) -> Said {
        self.said.lock().clone()
    }
}

impl<V> Clone for LoadCx<V> {
    fn clone(&self) -> Self {
        LoadCx { said: self.said.clone(), stale: self.stale.clone() }
    }
}

impl<V> std::fmt::Debug for LoadCx<V> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("LoadCx")
            .field("said", &*self.said.lock())
            .field("has_stale", &self.stale.is_some())
            .finish()
    }
}

/// A loader in the form in which a fetch keeps it. Implemented for what [`crate::Fetch::load`] and
/// [`crate::Fetch::load_or_keep`] make of closures.
pub trait Loader<V, E>: Send + 'static {
    /// Begins the load.
    #[doc(hidden)]
    fn begin(self, cx: LoadCx<V>) -> Pin<Box<dyn Future<Output = Result<Loaded<V>, E>> + Send>>;
}

/// A loader that returns values.
#[derive(Clone, Copy, Debug)]
pub struct Always<L>(pub(crate) L);

/// A loader that may say that the old value is still right.
#[derive(Clone, Copy, Debug)]
pub struct OrKeep<L>(pub(crate) L);

impl<V, E, L, F> Loader<V, E> for Always<L>
where
    L: FnOnce(LoadCx<V>) -> F + Send + 'static,
    F: Future<Output = Result<V, E>> + Send + 'static,
{
    fn begin(self, cx: LoadCx<V>) -> Pin<Box<dyn Future<Output = Result<Loaded<V>, E>> + Send>> {
        let loading = (self.0)(cx);
        Box::pin(async move { loading.await.map(Loaded::New) })
    }
}

impl<V, E, L, F> Loader<V, E> for OrKeep<L>
where
    L: FnOnce(LoadCx<V>) -> F + Send + 'static,
    F: Future<Output = Result<Loaded<V>, E>> + Send + 'static,
{
    fn begin(self, cx: LoadCx<V>) -> Pin<Box<dyn Future<Output = Result<Loaded<V>, E>> + Send>> {
        Box::pin((self.0)(cx))
    }
}

/// Why a loader has no value.
#[derive(Debug)]
pub(crate) enum NoValue<E> {
    Failed(E),
    /// The panic has been reported where panics are.
    Panicked,
    /// It took longer than it may.
    Late,
}

/// Runs a loader to its end, or until its time is over.
pub(crate) async fn run<F, R, E>(
    begin: impl FnOnce() -> F,
    at_most: Option<Duration>,
) -> Result<R, NoValue<E>>
where
    F: Future<Output = Result<R, E>>,
{
    let running = async {
        let future = catch_unwind(AssertUnwindSafe(begin)).map_err(|_| NoValue::Panicked)?;
        let mut future = pin!(future);
        std::future::poll_fn(|context| {
            // The future is not polled again after a panic.
            match catch_unwind(AssertUnwindSafe(|| future.as_mut().poll(context))) {
                Ok(Poll::Ready(result)) => Poll::Ready(result.map_err(NoValue::Failed)),
                Ok(Poll::Pending) => Poll::Pending,
                Err(_) => Poll::Ready(Err(NoValue::Panicked)),
            }
        })
        .await
    };
    match at_most {
        Some(at_most) => tokio::time::timeout(at_most, running).await.unwrap_or(Err(NoValue::Late)),
        None => running.await,
    }
}

/// What is known when a load begins, and decides where its value may go.
#[derive(Clone, Debug)]
pub(crate) struct Start {
    pub(crate) claim: Claim,
    /// The ledger's clock.
    pub(crate) clock: u64,
    /// The node's own count of invalidations.
    pub(crate) epoch: u64,
    pub(crate) generation: u64,
    /// Changes heard of by tracking so far.
    pub(crate) changes: u64,
}

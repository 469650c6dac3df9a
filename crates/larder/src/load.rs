//! Running a loader: its context, its result, and its panics, which are caught so that every caller gets an error.

use crate::policy::Policy;
use parking_lot::Mutex;
use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

/// The result of a loader.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Loaded<V> {
    /// A new value.
    New(V),
    /// The stale value has not changed: it is fresh again. Without a stale value this is an error.
    NotModified,
}

impl<V> From<V> for Loaded<V> {
    fn from(value: V) -> Self {
        Loaded::New(value)
    }
}

/// The context of a loader: the stale value, and options for the value that it returns. Cheap to clone.
pub struct LoadCx<V> {
    options: Arc<Mutex<LoadOptions>>,
    stale: Option<Arc<V>>,
}

/// The options of a loaded value, as its loader set them.
#[derive(Clone, Debug, Default)]
pub(crate) struct LoadOptions {
    pub(crate) ttl: Option<Duration>,
    pub(crate) grace: Option<Duration>,
    pub(crate) tags: Vec<Box<str>>,
    pub(crate) no_store: bool,
}

impl LoadOptions {
    /// The options as a policy, and what they leave open from a wider one.
    pub(crate) fn policy_or(&self, wider: Policy) -> Policy {
        Policy { ttl: self.ttl, negative_ttl: self.ttl, grace: self.grace, ..Policy::new() }.or(wider)
    }
}

impl<V> LoadCx<V> {
    pub(crate) fn new(stale: Option<Arc<V>>) -> Self {
        LoadCx { options: Arc::default(), stale }
    }

    /// How long this value is fresh. Overrides the call, the view and the cache.
    pub fn ttl(&self, ttl: Duration) {
        self.options.lock().ttl = Some(ttl);
    }

    /// The grace period of this value. Overrides the call, the view and the cache.
    pub fn grace(&self, grace: Duration) {
        self.options.lock().grace = Some(grace);
    }

    /// Adds a tag to this value, at any time during the load: an invalidation of the tag since the start of the load
    /// also invalidates the value.
    pub fn tag(&self, tag: impl Into<Box<str>>) {
        self.options.lock().tags.push(tag.into());
    }

    /// Returns this value to its callers and stores it in no tier.
    pub fn no_store(&self) {
        self.options.lock().no_store = true;
    }

    /// The stale value, if there is one within its grace period.
    pub fn stale(&self) -> Option<&Arc<V>> {
        self.stale.as_ref()
    }

    pub(crate) fn options(&self) -> LoadOptions {
        self.options.lock().clone()
    }
}

impl<V> Clone for LoadCx<V> {
    fn clone(&self) -> Self {
        LoadCx { options: self.options.clone(), stale: self.stale.clone() }
    }
}

impl<V> std::fmt::Debug for LoadCx<V> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("LoadCx")
            .field("options", &*self.options.lock())
            .field("has_stale", &self.stale.is_some())
            .finish()
    }
}

/// A loader as a fetch stores it. Implemented for the closures of [`crate::Fetch::load`] and
/// [`crate::Fetch::load_or_keep`].
pub trait Loader<V, E>: Send + 'static {
    /// Starts the load.
    #[doc(hidden)]
    fn start(self, cx: LoadCx<V>) -> Pin<Box<dyn Future<Output = Result<Loaded<V>, E>> + Send>>;
}

/// A loader that returns values.
#[derive(Clone, Copy, Debug)]
pub struct Always<L>(pub(crate) L);

/// A loader that may return [`Loaded::NotModified`].
#[derive(Clone, Copy, Debug)]
pub struct OrKeep<L>(pub(crate) L);

impl<V, E, L, F> Loader<V, E> for Always<L>
where
    L: FnOnce(LoadCx<V>) -> F + Send + 'static,
    F: Future<Output = Result<V, E>> + Send + 'static,
{
    fn start(self, cx: LoadCx<V>) -> Pin<Box<dyn Future<Output = Result<Loaded<V>, E>> + Send>> {
        let loading = (self.0)(cx);
        Box::pin(async move { loading.await.map(Loaded::New) })
    }
}

impl<V, E, L, F> Loader<V, E> for OrKeep<L>
where
    L: FnOnce(LoadCx<V>) -> F + Send + 'static,
    F: Future<Output = Result<Loaded<V>, E>> + Send + 'static,
{
    fn start(self, cx: LoadCx<V>) -> Pin<Box<dyn Future<Output = Result<Loaded<V>, E>> + Send>> {
        Box::pin((self.0)(cx))
    }
}

/// Why a loader returned no value.
#[derive(Debug)]
pub(crate) enum LoadFailure<E> {
    Failed(E),
    /// The panic hook has reported the panic.
    Panicked,
    /// The hard timeout is over.
    TimedOut,
}

/// Runs a loader to its end or to its timeout.
pub(crate) async fn run<F, R, E>(
    start: impl FnOnce() -> F,
    timeout: Option<Duration>,
) -> Result<R, LoadFailure<E>>
where
    F: Future<Output = Result<R, E>>,
{
    let running = async {
        let future = catch_unwind(AssertUnwindSafe(start)).map_err(|_| LoadFailure::Panicked)?;
        let mut future = pin!(future);
        std::future::poll_fn(|context| {
            // The future is not polled again after a panic.
            match catch_unwind(AssertUnwindSafe(|| future.as_mut().poll(context))) {
                Ok(Poll::Ready(result)) => Poll::Ready(result.map_err(LoadFailure::Failed)),
                Ok(Poll::Pending) => Poll::Pending,
                Err(_) => Poll::Ready(Err(LoadFailure::Panicked)),
            }
        })
        .await
    };
    match timeout {
        Some(timeout) => tokio::time::timeout(timeout, running).await.unwrap_or(Err(LoadFailure::TimedOut)),
        None => running.await,
    }
}

//! Running a loader: its context, its result, and its panics, which are caught so that every caller gets an error.

use crate::key::{CacheKey, KeyBuf};
use crate::policy::Policy;
use parking_lot::Mutex;
use std::collections::HashMap;
use std::future::Future;
use std::marker::PhantomData;
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

    /// The TTL of this value. Overrides the call, the view and the cache.
    pub fn ttl(&self, ttl: Duration) {
        self.options.lock().ttl = Some(ttl);
    }

    /// The grace period of this value. Overrides the call, the view and the cache.
    pub fn grace(&self, grace: Duration) {
        self.options.lock().grace = Some(grace);
    }

    /// Adds a tag to this value, at any time during the load: an invalidation of the tag since the start of the load
    /// also invalidates the value.
    pub fn tag(&self, tag: impl AsRef<str>) {
        self.options.lock().tags.push(tag.as_ref().into());
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

/// The context of a bulk loader: options for all values that it returns, and the context of each key. Cheap to clone.
pub struct BulkCx<K: ?Sized, V> {
    all: LoadCx<V>,
    keys: Arc<HashMap<KeyBuf, LoadCx<V>>>,
    _key: PhantomData<fn(&K)>,
}

impl<K: ?Sized, V> BulkCx<K, V> {
    pub(crate) fn new(keys: HashMap<KeyBuf, LoadCx<V>>) -> Self {
        BulkCx { all: LoadCx::new(None), keys: Arc::new(keys), _key: PhantomData }
    }

    /// The TTL of each value. Overrides the call, the view and the cache.
    pub fn ttl(&self, ttl: Duration) {
        self.all.ttl(ttl);
    }

    /// The grace period of each value. Overrides the call, the view and the cache.
    pub fn grace(&self, grace: Duration) {
        self.all.grace(grace);
    }

    /// Adds a tag to each value: its invalidation invalidates all of them.
    pub fn tag(&self, tag: impl AsRef<str>) {
        self.all.tag(tag);
    }

    /// Returns the values to their callers and stores none.
    pub fn no_store(&self) {
        self.all.no_store();
    }

    /// The options of one key: its own first, then those of all keys.
    pub(crate) fn options(&self, key: &KeyBuf) -> LoadOptions {
        let (mut own, all) =
            (self.keys.get(key).map(LoadCx::options).unwrap_or_default(), self.all.options());
        own.tags.extend(all.tags);
        LoadOptions {
            ttl: own.ttl.or(all.ttl),
            grace: own.grace.or(all.grace),
            tags: own.tags,
            no_store: own.no_store || all.no_store,
        }
    }
}

impl<K: CacheKey + ?Sized, V> BulkCx<K, V> {
    /// The context of one key: its stale value, and options for its value, which take precedence over the options for all
    /// keys. It has no effect for a key that the loader was not called for.
    pub fn of(&self, key: &K) -> LoadCx<V> {
        self.keys.get(&KeyBuf::of(key)).cloned().unwrap_or_else(|| LoadCx::new(None))
    }
}

impl<K: ?Sized, V> Clone for BulkCx<K, V> {
    fn clone(&self) -> Self {
        BulkCx { all: self.all.clone(), keys: self.keys.clone(), _key: PhantomData }
    }
}

impl<K: ?Sized, V> std::fmt::Debug for BulkCx<K, V> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("BulkCx").field("all", &self.all).field("keys", &self.keys.len()).finish()
    }
}

/// A loader as a fetch stores it. Implemented for the closures of [`crate::Fetch::load`] and
/// [`crate::Fetch::load_or_keep`].
pub trait Loader<V, E>: Send + 'static {
    /// Starts the load.
    #[doc(hidden)]
    fn start(self, cx: LoadCx<V>) -> Loading<V, E>;
}

/// A load that runs.
pub(super) type Loading<V, E> = Pin<Box<dyn Future<Output = Result<Loaded<V>, E>> + Send>>;

/// A loader without its type: what loads a key is compiled once for its types, and not for each loader.
pub(super) type BoxedLoader<V, E> = Box<dyn FnOnce(LoadCx<V>) -> Loading<V, E> + Send>;

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
    fn start(self, cx: LoadCx<V>) -> Loading<V, E> {
        let loading = (self.0)(cx);
        Box::pin(async move { loading.await.map(Loaded::New) })
    }
}

impl<V, E, L, F> Loader<V, E> for OrKeep<L>
where
    L: FnOnce(LoadCx<V>) -> F + Send + 'static,
    F: Future<Output = Result<Loaded<V>, E>> + Send + 'static,
{
    fn start(self, cx: LoadCx<V>) -> Loading<V, E> {
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
    let future = catch_unwind(AssertUnwindSafe(start)).map_err(|_| LoadFailure::Panicked)?;
    let mut future = pin!(Some(future));
    let running = std::future::poll_fn(|context| {
        let Some(running) = future.as_mut().as_pin_mut() else { return Poll::Pending };
        // The future is not polled again after a panic.
        match catch_unwind(AssertUnwindSafe(|| running.poll(context))) {
            Ok(Poll::Ready(result)) => Poll::Ready(result.map_err(LoadFailure::Failed)),
            Ok(Poll::Pending) => Poll::Pending,
            Err(_) => Poll::Ready(Err(LoadFailure::Panicked)),
        }
    });
    let outcome = match timeout {
        Some(timeout) => tokio::time::timeout(timeout, running).await.unwrap_or(Err(LoadFailure::TimedOut)),
        None => running.await,
    };
    // What the loader owns may panic when it is dropped, at its end or at the timeout.
    catch_unwind(AssertUnwindSafe(|| future.set(None))).map_err(|_| LoadFailure::Panicked)?;
    outcome
}

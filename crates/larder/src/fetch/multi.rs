//! Fetching many keys with one call of one loader.

use super::BulkOutcome;
use super::ahead::{DueKey, load_many_ahead};
use super::bulk_load::load;
use super::bulk_loader::{BulkLoader, MakeAbsent};
use super::load_batch::LoadBatch;
use super::multi_call::{MissingKey, MultiCall, Round};
use super::multi_lease::BulkLeased;
use super::pending_key::PendingKey;
use super::view_state::ViewState;
use super::waiting::Call;
use crate::fetch::loader::BulkCx;
use crate::key::{CacheKey, KeyBuf};
use crate::policy::Policy;
use std::marker::PhantomData;
use std::sync::Arc;
use std::time::Duration;
use tracing::Instrument;

/// The options of a fetch of many keys. Made by [`crate::View::fetch_multi`].
#[must_use = "a fetch does nothing until it has a loader: call `.load(…)` and await that, or use `View::read_multi` to read without loading"]
pub struct FetchMulti<K: ToOwned + ?Sized, V, E> {
    view: Arc<ViewState<V>>,
    keys: Vec<(KeyBuf, K::Owned)>,
    policy: Policy,
    tags: Vec<Box<str>>,
    /// Makes the value of a key that the loader leaves out.
    absent: Option<MakeAbsent<V>>,
    _error: PhantomData<fn() -> E>,
}

impl<K, V, E> FetchMulti<K, V, E>
where
    K: CacheKey + ToOwned + ?Sized,
    K::Owned: Send + 'static,
    V: Send + Sync + 'static,
    E: Send + Sync + 'static,
{
    pub(crate) fn new(view: Arc<ViewState<V>>, keys: Vec<(KeyBuf, K::Owned)>) -> Self {
        let policy = view.config.policy;
        FetchMulti { view, keys, policy, tags: Vec::new(), absent: None, _error: PhantomData }
    }

    /// The TTL of loaded values. Default: the view's.
    pub fn ttl(mut self, ttl: Duration) -> Self {
        self.policy.ttl = Some(ttl);
        self
    }

    /// The times and timeouts of this fetch. Times that the policy does not set are the view's.
    pub fn policy(mut self, policy: Policy) -> Self {
        self.policy = policy.or(self.policy);
        self
    }

    /// Adds a tag to each loaded value.
    pub fn tag(mut self, tag: impl AsRef<str>) -> Self {
        self.tags.push(tag.as_ref().into());
        self
    }

    /// The value of a key that the loader leaves out: one that says that the origin has none, as `None` does. It is stored as
    /// a value that the loader returns, for the negative TTL if it is negative. Without it nothing is stored for such a key.
    pub fn absent(mut self, value: V) -> Self
    where
        V: Clone,
    {
        self.absent = Some(Arc::new(move || value.clone()));
        self
    }

    /// Sets the bulk loader and fetches: one outcome for each key, in the order of the keys, duplicates included.
    ///
    /// The loader returns a map or a list of pairs. A key that it leaves out has no value: its outcome is `Ok(None)`, and
    /// nothing is stored for it, unless [`FetchMulti::absent`] gives it a value. Callers that wait for the same keys with
    /// bulk loaders of their own share that outcome. Values of other keys are dropped, since no lease covers them. Options
    /// that the loader sets in its context apply to all values; options that it sets in [`BulkCx::of`] apply to one.
    ///
    /// The loader is called once, in a task of its own, with the keys that no tier has and no other caller loads; if there
    /// are none, it is not called. It is called again only for keys that another caller or node was loading and did not
    /// load. Cost: one round trip to Redis before the load and one after it, for each 500 keys.
    ///
    /// Cancel safe: the load continues if the caller is dropped.
    ///
    /// # Panics
    /// Outside a tokio runtime, unless memory has all values.
    ///
    /// # Examples
    /// ```
    /// use larder::{Cache, View};
    /// use std::{collections::HashMap, time::Duration};
    ///
    /// # tokio::runtime::Runtime::new()?.block_on(async {
    /// let cache = Cache::builder("shop").ttl(Duration::from_secs(60)).build()?;
    /// let stock: View<str, Option<u32>> = cache.view("stock").with_negative_ttl(Duration::from_secs(10));
    /// let fetch = || {
    ///     // A name that the loader leaves out is remembered as unknown for ten seconds.
    ///     stock.fetch_multi(["apple", "pear", "unknown"]).absent(None).load(|names, cx| async move {
    ///         assert_eq!(names.len(), 3, "all of them, once");
    ///         cx.of("apple").tag("supplier:7");
    ///         cx.of("pear").ttl(Duration::from_secs(5));
    ///         let found = [("apple", 3), ("pear", 0)].map(|(name, stock)| (name.to_owned(), Some(stock)));
    ///         Ok::<_, std::convert::Infallible>(HashMap::from(found))
    ///     })
    /// };
    /// for found in [fetch().await, fetch().await] {
    ///     let found: Result<Vec<_>, larder::FetchError<_>> = found.into_iter().collect();
    ///     let stock: Vec<Option<u32>> = found?.into_iter().map(|found| *found.expect("a value or None")).collect();
    ///     assert_eq!(stock, [Some(3), Some(0), None]);
    /// }
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// # })?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub async fn load<L, F, I>(self, loader: L) -> Vec<BulkOutcome<V, E>>
    where
        L: Fn(Vec<K::Owned>, BulkCx<K, V>) -> F + Send + Sync + 'static,
        F: Future<Output = Result<I, E>> + Send + 'static,
        I: IntoIterator<Item = (K::Owned, V)> + Send + 'static,
        K: 'static,
    {
        let call = match self.into_call() {
            Ok(call) => call,
            Err(outcomes) => return outcomes,
        };
        let (tasks, loader) = (call.view.node().tasks.clone(), BulkLoader::new(loader));
        tasks.within(load_all(call, loader)).await
    }

    /// The values, or the right to load those that no tier has in this caller instead of in a loader; as [`Fetch::lease`].
    ///
    /// The lease is for the keys that no other caller or node loads. It never waits for others while this caller has keys to
    /// load; when they are loaded, [`BulkLease::complete`] waits for the others, and leads again what they did not load.
    ///
    /// Cancel safe: leases that are put for a dropped call are released. Cost: as [`FetchMulti::load`].
    ///
    /// # Panics
    /// As [`Fetch::lease`].
    ///
    /// [`BulkLease::complete`]: crate::BulkLease::complete
    /// [`Fetch::lease`]: crate::Fetch::lease
    pub async fn lease(self) -> BulkLeased<K, V, E>
    where
        K: 'static,
    {
        match self.into_call() {
            Ok(call) => {
                let tasks = call.view.node().tasks.clone();
                tasks.within(call.lease()).await
            }
            Err(outcomes) => BulkLeased::Done(outcomes),
        }
    }

    /// The call of this fetch, or its outcomes if there is nothing to do.
    fn into_call(self) -> Result<MultiCall<K, V, E>, Vec<BulkOutcome<V, E>>> {
        let FetchMulti { view, keys, policy, tags, absent, .. } = self;
        if keys.is_empty() {
            return Err(Vec::new());
        }
        match view.node().check_open_for_fetch() {
            Ok(()) => Ok(MultiCall::new(view, keys, Call::start(policy, false), tags, absent)),
            Err(error) => Err(keys.iter().map(|_| Err(error.clone())).collect()),
        }
    }
}

/// Leads or follows loads of the keys until each has an outcome.
async fn load_all<K, V, E>(
    mut call: MultiCall<K, V, E>,
    loader: BulkLoader<K, V, E>,
) -> Vec<BulkOutcome<V, E>>
where
    K: CacheKey + ToOwned + ?Sized + 'static,
    K::Owned: Send + 'static,
    V: Send + Sync + 'static,
    E: Send + Sync + 'static,
{
    if call.view.node().is_off() {
        return call.uncached(loader).await;
    }
    let loader = Arc::new(loader);
    let (view, policy, mut due) = (call.view.clone(), call.call.policy, Vec::new());
    while call.has_open_keys() {
        let Round { missing, answers, followed } = call.look_up_memory(|key, owned, found| {
            if found.state().is_loaded_ahead() && view.is_due(found, &policy) {
                due.push(DueKey { key: key.clone(), owned, found: found.clone() });
            }
        });
        if !due.is_empty() {
            load_many_ahead(
                call.batch_ahead(),
                std::mem::take(&mut due),
                loader.clone(),
                call.absent.clone(),
            );
        }
        if !missing.is_empty() {
            let namespace = call.view.node().keyspace.namespace();
            let span = tracing::debug_span!("larder.fetch_multi", cache = namespace);
            let leading = lead(call.batch(), missing, loader.clone(), call.absent.clone());
            tokio::spawn(leading.instrument(span));
        }
        call.await_answers(answers).await;
        call.follow(followed).await;
    }
    call.into_outcomes()
}

/// Looks up Redis and loads what it does not have. The keys that other nodes load are awaited meanwhile.
async fn lead<K, V, E>(
    batch: LoadBatch<V>,
    missing: Vec<MissingKey<V, E, K::Owned>>,
    loader: Arc<BulkLoader<K, V, E>>,
    absent: Option<MakeAbsent<V>>,
) where
    K: CacheKey + ToOwned + ?Sized + 'static,
    V: Send + Sync + 'static,
    E: Send + Sync + 'static,
{
    let (mut pending, keys): (Vec<_>, Vec<_>) = missing.into_iter().unzip();
    batch.lookup(&mut pending).await;
    if !pending.iter().any(PendingKey::is_open) {
        return;
    }
    let has_waited = pending.len() == 1;
    let (elsewhere, here): (Vec<_>, Vec<_>) =
        pending.into_iter().zip(keys).partition(|(pending, _)| pending.is_loaded_elsewhere() && !has_waited);
    let (mut elsewhere, keys): (Vec<_>, Vec<_>) = elsewhere.into_iter().unzip();
    let absent = absent.as_ref();
    tokio::join!(load(&batch, here, &loader, absent), async {
        batch.await_other_nodes(&mut elsewhere).await;
        load(&batch, elsewhere.into_iter().zip(keys).collect(), &loader, absent).await;
    });
}

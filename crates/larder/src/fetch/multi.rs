//! Fetching many keys with one call of one loader.

use super::BulkOutcome;
use super::load_batch::{LoadBatch, fetch_error};
use super::pending_key::PendingKey;
use super::view_state::ViewState;
use super::waiting::{Call, answer_or_stale, follow};
use crate::fetch::loader::{self, BulkCx, LoadFailure, Loaded};
use crate::key::{CacheKey, KeyBuf};
use crate::node::fetched::Fetched;
use crate::node::lookup::MemoryLookup;
use crate::policy::Policy;
use crate::report::error::FetchError;
use std::borrow::Borrow;
use std::collections::{BTreeMap, HashMap};
use std::marker::PhantomData;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;
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

type MakeAbsent<V> = Arc<dyn Fn() -> V + Send + Sync>;

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
        let FetchMulti { view, keys, policy, tags, absent, .. } = self;
        if keys.is_empty() {
            return Vec::new();
        }
        let order: Vec<KeyBuf> = keys.iter().map(|(key, _)| key.clone()).collect();
        // Sorted, so that the loader gets the keys in the same order in each run.
        let mut wanted = BTreeMap::new();
        for (key, owned) in keys {
            wanted.entry(key.as_bytes().to_vec()).or_insert((key, owned));
        }
        if view.node().is_inherited() {
            return order.iter().map(|_| Err(FetchError::Forked)).collect();
        }
        if view.node().is_off() {
            let missing = wanted.into_values().map(|(_, owned)| owned).collect();
            let loading =
                run::<K, V, E, _, _, _>(|| loader(missing, BulkCx::new(HashMap::new())), policy.hard_timeout);
            let bytes = order.iter().map(|key| key.as_bytes().to_vec());
            let loaded = loading.await.map(|values| with_absent(values, bytes, absent.as_ref()));
            return uncached(&view, order, loaded);
        }
        let loader = Arc::new(loader);
        let call = Call::start(policy, false);
        let mut outcomes: HashMap<Vec<u8>, BulkOutcome<V, E>> = HashMap::with_capacity(wanted.len());
        while !wanted.is_empty() {
            let began = Instant::now();
            let (mut missing, mut answers, mut waiters) = (vec![], vec![], vec![]);
            for (bytes, (key, owned)) in std::mem::take(&mut wanted) {
                match view.node().lookup(&view.config, &key) {
                    MemoryLookup::Hit(fetched) => _ = outcomes.insert(bytes, Ok(Some(fetched))),
                    MemoryLookup::Follow(waiter) => waiters.push((bytes, key, owned, waiter)),
                    MemoryLookup::Lead { ticket, candidate, .. } => {
                        let (pending, answer) =
                            PendingKey::new(view.redis_key(&key), ticket, candidate.clone());
                        missing.push((pending, (bytes.clone(), owned)));
                        answers.push((bytes, key, candidate, answer));
                    }
                }
            }
            if !missing.is_empty() {
                let batch = LoadBatch { view: view.clone(), call, tags: tags.clone(), refresh: false };
                let namespace = view.node().keyspace.namespace();
                let span = tracing::debug_span!("larder.fetch_multi", cache = namespace);
                let leading = lead::<K, V, E, _, _, _>(batch, missing, loader.clone(), absent.clone());
                tokio::spawn(leading.instrument(span));
            }
            for (bytes, key, candidate, answer) in answers {
                outcomes.insert(bytes, answer_or_stale(&view, &call, &key, candidate, answer).await);
            }
            for (bytes, key, owned, waiter) in waiters {
                match follow(&view, &call, &key, waiter, began).await {
                    Ok(outcome) => _ = outcomes.insert(bytes, outcome),
                    // The load of another caller failed: this fetch loads the key.
                    Err(_) => _ = wanted.insert(bytes, (key, owned)),
                }
            }
        }
        let of = |key: &KeyBuf| match &outcomes[key.as_bytes()] {
            Ok(fetched) => {
                fetched.iter().for_each(Fetched::note_freshness);
                Ok(fetched.clone())
            }
            Err(error) => Err(error.clone()),
        };
        order.iter().map(of).collect()
    }
}

/// A key that memory does not have: its load, its bytes, and the key for the loader.
type MissingKey<V, E, O> = (PendingKey<V, E>, (Vec<u8>, O));

/// Looks up Redis and loads what it does not have. The keys that other nodes load are awaited meanwhile.
async fn lead<K, V, E, L, F, I>(
    batch: LoadBatch<V>,
    missing: Vec<MissingKey<V, E, K::Owned>>,
    loader: Arc<L>,
    absent: Option<MakeAbsent<V>>,
) where
    K: CacheKey + ToOwned + ?Sized,
    V: Send + Sync + 'static,
    E: Send + Sync + 'static,
    L: Fn(Vec<K::Owned>, BulkCx<K, V>) -> F,
    F: Future<Output = Result<I, E>>,
    I: IntoIterator<Item = (K::Owned, V)>,
{
    let (mut pending, keys): (Vec<_>, Vec<_>) = missing.into_iter().unzip();
    batch.lookup(&mut pending).await;
    let has_waited = pending.len() == 1;
    let (elsewhere, here): (Vec<_>, Vec<_>) =
        pending.into_iter().zip(keys).partition(|(pending, _)| pending.is_loaded_elsewhere() && !has_waited);
    let (mut elsewhere, keys): (Vec<_>, Vec<_>) = elsewhere.into_iter().unzip();
    let absent = absent.as_ref();
    tokio::join!(load::<K, V, E, _, _, _>(&batch, here, &*loader, absent), async {
        batch.await_other_nodes(&mut elsewhere).await;
        load::<K, V, E, _, _, _>(&batch, elsewhere.into_iter().zip(keys).collect(), &*loader, absent).await;
    });
}

/// Loads the keys that are still open.
async fn load<K, V, E, L, F, I>(
    batch: &LoadBatch<V>,
    keys: Vec<MissingKey<V, E, K::Owned>>,
    loader: &L,
    absent: Option<&MakeAbsent<V>>,
) where
    K: CacheKey + ToOwned + ?Sized,
    V: Send + Sync + 'static,
    E: Send + Sync + 'static,
    L: Fn(Vec<K::Owned>, BulkCx<K, V>) -> F,
    F: Future<Output = Result<I, E>>,
    I: IntoIterator<Item = (K::Owned, V)>,
{
    let missing = keys.into_iter().filter(|(pending, _)| pending.is_open());
    let (mut open, mut keys, mut owned_keys) = (Vec::new(), Vec::new(), Vec::new());
    for (pending, (bytes, owned)) in missing {
        open.push(pending);
        keys.push(bytes);
        owned_keys.push(owned);
    }
    if open.is_empty() {
        return;
    }
    let contexts = keys.iter().cloned().zip(open.iter().map(|pending| batch.context(pending)));
    let cx = BulkCx::new(contexts.collect());
    let started = Instant::now();
    let timeout = batch.call.policy.hard_timeout;
    let loading = run::<K, V, E, _, _, _>(|| loader(owned_keys, cx.clone()), timeout);
    let mut values = match batch.await_load(&mut open, loading).await {
        Ok(values) => with_absent(values, keys.iter().cloned(), absent),
        Err(failure) => return batch.fail(open, fetch_error(failure)).await,
    };
    let (mut loads, mut left_out) = (Vec::new(), Vec::new());
    for (pending, key) in open.into_iter().zip(keys) {
        match values.remove(&key) {
            Some(value) => loads.push((pending, Loaded::New(value), cx.options(&key))),
            None => left_out.push(pending),
        }
    }
    batch.complete(loads, started).await;
    batch.mark_absent(left_out).await;
}

/// Adds the values of the keys that the loader has left out, if the call says what they are.
fn with_absent<V>(
    mut values: HashMap<Vec<u8>, V>,
    keys: impl Iterator<Item = Vec<u8>>,
    absent: Option<&MakeAbsent<V>>,
) -> HashMap<Vec<u8>, V> {
    if let Some(make) = absent {
        keys.for_each(|key| _ = values.entry(key).or_insert_with(|| make()));
    }
    values
}

/// Runs a bulk loader. Returns its values by the bytes of their keys. The iterator over them is part of the loader: it may
/// panic too.
async fn run<K, V, E, S, F, I>(
    start: S,
    timeout: Option<Duration>,
) -> Result<HashMap<Vec<u8>, V>, LoadFailure<E>>
where
    K: CacheKey + ToOwned + ?Sized,
    S: FnOnce() -> F,
    F: Future<Output = Result<I, E>>,
    I: IntoIterator<Item = (K::Owned, V)>,
{
    let bytes_of = |key: &K::Owned| KeyBuf::of(Borrow::<K>::borrow(key)).as_bytes().to_vec();
    let start = || {
        let loading = start();
        async move {
            let values = loading.await?;
            Ok(values.into_iter().map(|(key, value)| (bytes_of(&key), value)).collect())
        }
    };
    loader::run(start, timeout).await
}

/// The outcome of each key while no tier answers: nothing is stored.
fn uncached<V, E>(
    view: &ViewState<V>,
    order: Vec<KeyBuf>,
    loaded: Result<HashMap<Vec<u8>, V>, LoadFailure<E>>,
) -> Vec<BulkOutcome<V, E>>
where
    V: Send + Sync + 'static,
{
    let values: HashMap<Vec<u8>, _> = match loaded.map_err(fetch_error) {
        Ok(values) => values.into_iter().map(|(key, value)| (key, view.node().unstored(value))).collect(),
        Err(error) => return order.iter().map(|_| Err(error.clone())).collect(),
    };
    values.values().for_each(Fetched::note_freshness);
    order.iter().map(|key| Ok(values.get(key.as_bytes()).cloned())).collect()
}

//! Fetching many keys with one call of one loader.

use super::flight::{Flight, Want, no_value};
use super::{Outcome, Policy, follow};
use crate::error::FetchError;
use crate::key::{CacheKey, KeyBuf};
use crate::load::{self, LoadCx, Loaded};
use crate::view::{MemoryLookup, Shared};
use std::borrow::Borrow;
use std::collections::{BTreeMap, HashMap};
use std::marker::PhantomData;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;
use tracing::Instrument;

/// A fetch of many keys that has been described and not begun. Made by [`crate::View::fetch_multi`].
#[must_use = "a fetch begins when its loader is given and it is awaited"]
pub struct FetchMulti<K: ToOwned + ?Sized, V, E> {
    view: Arc<Shared<V>>,
    keys: Vec<(KeyBuf, K::Owned)>,
    policy: Policy,
    tags: Vec<Box<str>>,
    _error: PhantomData<fn() -> E>,
}

impl<K, V, E> FetchMulti<K, V, E>
where
    K: CacheKey + ToOwned + ?Sized,
    K::Owned: Send + 'static,
    V: Send + Sync + 'static,
    E: Send + Sync + 'static,
{
    pub(crate) fn new(view: Arc<Shared<V>>, keys: Vec<(KeyBuf, K::Owned)>) -> Self {
        let policy = view.policy;
        FetchMulti { view, keys, policy, tags: Vec::new(), _error: PhantomData }
    }

    /// How long loaded values are fresh, instead of the view's own time.
    pub fn ttl(mut self, ttl: Duration) -> Self {
        self.policy.ttl = Some(ttl);
        self
    }

    /// The times and timeouts of this fetch; what the policy leaves open is the view's.
    pub fn policy(mut self, policy: Policy) -> Self {
        self.policy = policy.or(self.policy);
        self
    }

    /// Adds a tag to each loaded value.
    pub fn tag(mut self, tag: impl Into<Box<str>>) -> Self {
        self.tags.push(tag.into());
        self
    }

    /// Gives the bulk loader and waits: one outcome for each key, in their order, keys that come twice included.
    ///
    /// The loader is called once, in a task of its own, with the keys that no tier has and nobody else loads; again only
    /// for keys that somebody else was loading and gave up. It may return values for fewer of them, whose outcome is
    /// [`FetchError::NotLoaded`], and for others, which are dropped: nobody holds a lease for them. What it says through
    /// its context holds for all. Cost: one round trip to Redis before the load and one after, however many keys.
    ///
    /// Cancel safe: whoever leaves does not take the load with them.
    ///
    /// # Panics
    /// Outside a tokio runtime, unless memory has all.
    pub async fn load<L, F, I>(self, loader: L) -> Vec<Outcome<V, E>>
    where
        L: Fn(Vec<K::Owned>, LoadCx<V>) -> F + Send + Sync + 'static,
        F: Future<Output = Result<I, E>> + Send + 'static,
        I: IntoIterator<Item = (K::Owned, V)> + Send + 'static,
        K: 'static,
    {
        let FetchMulti { view, keys, policy, tags, .. } = self;
        let order: Vec<KeyBuf> = keys.iter().map(|(key, _)| key.clone()).collect();
        // Sorted, so that the loader gets the keys in the same order in each run.
        let mut wanted = BTreeMap::new();
        for (key, owned) in keys {
            wanted.entry(key.as_bytes().to_vec()).or_insert((key, owned));
        }
        if view.is_off() {
            let asked = wanted.into_values().map(|(_, owned)| owned).collect();
            return uncached::<K, V, E, _, _>(&view, policy, order, loader(asked, LoadCx::new(None))).await;
        }
        let loader = Arc::new(loader);
        let mut outcomes: HashMap<Vec<u8>, Outcome<V, E>> = HashMap::with_capacity(wanted.len());
        while !wanted.is_empty() {
            let (mut wants, mut missing, mut flights, mut follows) = (vec![], vec![], vec![], vec![]);
            for (bytes, (key, owned)) in std::mem::take(&mut wanted) {
                match view.look(&key) {
                    MemoryLookup::Hit(fetched) => _ = outcomes.insert(bytes, Ok(fetched)),
                    MemoryLookup::Follow(followed) => follows.push((bytes, key, owned, followed)),
                    MemoryLookup::Lead { ticket, held } => {
                        let (want, answered) = Want::new(view.redis_key(&key), ticket, held);
                        wants.push(want);
                        missing.push((bytes.clone(), owned));
                        flights.push((bytes, answered));
                    }
                }
            }
            if !wants.is_empty() {
                let flight = Flight { view: view.clone(), policy, tags: tags.clone(), force: false };
                let span = tracing::debug_span!("larder.fetch_multi", cache = view.cache.namespace());
                let leading = lead::<K, V, E, _, _, _>(flight, wants, missing, loader.clone());
                tokio::spawn(leading.instrument(span));
            }
            for (bytes, answered) in flights {
                outcomes.insert(bytes, answered.await.unwrap_or(Err(FetchError::Dropped)));
            }
            for (bytes, key, owned, followed) in follows {
                match follow(&view, &policy, &key, followed).await {
                    Ok(outcome) => _ = outcomes.insert(bytes, outcome),
                    // Somebody else's load came to nothing: these keys are this fetch's to load.
                    Err(_) => _ = wanted.insert(bytes, (key, owned)),
                }
            }
        }
        let of = |key: &KeyBuf| match &outcomes[key.as_bytes()] {
            Ok(fetched) => Ok(fetched.clone()),
            Err(error) => Err(error.clone()),
        };
        order.iter().map(of).collect()
    }
}

async fn lead<K, V, E, L, F, I>(
    flight: Flight<V>,
    mut wants: Vec<Want<V, E>>,
    missing: Vec<(Vec<u8>, K::Owned)>,
    loader: Arc<L>,
) where
    K: CacheKey + ToOwned + ?Sized,
    V: Send + Sync + 'static,
    E: Send + Sync + 'static,
    L: Fn(Vec<K::Owned>, LoadCx<V>) -> F,
    F: Future<Output = Result<I, E>>,
    I: IntoIterator<Item = (K::Owned, V)>,
{
    flight.look(&mut wants).await;
    let (mut open, mut keys, mut asked) = (Vec::new(), Vec::new(), Vec::new());
    for (want, (bytes, owned)) in wants.into_iter().zip(missing) {
        if want.is_open() {
            open.push(want);
            keys.push(bytes);
            asked.push(owned);
        }
    }
    if open.is_empty() {
        return;
    }
    let cx = LoadCx::new(None);
    let began = Instant::now();
    let loading = load::run(|| loader(asked, cx.clone()), flight.policy.hard_timeout);
    let loaded = match flight.wait(&mut open, loading).await {
        Ok(loaded) => loaded,
        Err(why) => return flight.fail(open, no_value(why)).await,
    };
    let mut values: HashMap<Vec<u8>, V> = loaded
        .into_iter()
        .map(|(key, value)| (KeyBuf::of(Borrow::<K>::borrow(&key)).as_bytes().to_vec(), value))
        .collect();
    let (mut landing, mut without) = (Vec::new(), Vec::new());
    for (want, key) in open.into_iter().zip(keys) {
        match values.remove(&key) {
            Some(value) => landing.push((want, Loaded::New(value))),
            None => without.push(want),
        }
    }
    flight.land(landing, &cx.said(), began).await;
    if !without.is_empty() {
        flight.fail(without, FetchError::NotLoaded).await;
    }
}

/// All keys are loaded, and none is kept.
async fn uncached<K, V, E, F, I>(
    view: &Shared<V>,
    policy: Policy,
    order: Vec<KeyBuf>,
    loading: F,
) -> Vec<Outcome<V, E>>
where
    K: CacheKey + ToOwned + ?Sized,
    V: Send + Sync + 'static,
    E: Send + Sync + 'static,
    F: Future<Output = Result<I, E>>,
    I: IntoIterator<Item = (K::Owned, V)>,
{
    let loaded = load::run(|| loading, policy.hard_timeout).await;
    let loaded = match loaded.map_err(no_value) {
        Ok(loaded) => loaded,
        Err(error) => return order.iter().map(|_| Err(error.clone())).collect(),
    };
    let values: HashMap<Vec<u8>, _> = loaded
        .into_iter()
        .map(|(key, value)| (KeyBuf::of(Borrow::<K>::borrow(&key)).as_bytes().to_vec(), view.unkept(value)))
        .collect();
    let of = |key: &KeyBuf| values.get(key.as_bytes()).cloned().ok_or(FetchError::NotLoaded);
    order.iter().map(of).collect()
}

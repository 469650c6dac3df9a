//! The typed view: what a user reads, writes and fetches through.

mod change;
mod entry;
mod look;
mod read;
mod write;

pub(crate) use entry::{Opened, Sealing};
pub(crate) use look::{Followed, Kept, MemoryLookup};
pub use read::ReadView;
pub use write::WriteOptions;
pub(crate) use write::detached;

use crate::builder::{BuildError, check_ttl};
use crate::cache::Cache;
use crate::codec::Codec;
use crate::fetch::{Fetch, FetchMulti, Policy};
use crate::key::{CacheKey, KeyBuf, MemoryKey, MemoryKeyRef};
use std::marker::PhantomData;
use std::sync::Arc;
use std::time::Duration;

/// A typed window onto a [`Cache`]: keys of type `K`, values of type `V`, loaders that fail with `E`. Cheap to clone.
///
/// A value can be anything, an empty one or a `None` too: "nothing there" is the absence of an answer and never a value.
pub struct View<K: ?Sized, V, E = std::convert::Infallible> {
    pub(crate) shared: Arc<Shared<V>>,
    _types: PhantomData<fn(&K) -> E>,
}

/// What all clones of a view share.
pub(crate) struct Shared<V> {
    pub(crate) cache: Cache,
    name: String,
    number: u32,
    /// What the owner of the type says about its form, and the number that it gave it.
    schema: u64,
    /// The same without the number.
    form: u64,
    pub(crate) codec: Arc<dyn Codec<V>>,
    pub(crate) policy: Policy,
    /// How values that say "there is none" are known.
    is_negative: Option<fn(&V) -> bool>,
    /// Tags that every entry gets.
    tags: Vec<Box<str>>,
    weigher: Option<Arc<Weigher<V>>>,
    touch_on_read: bool,
}

type Weigher<V> = dyn Fn(&V) -> u64 + Send + Sync;

impl<V> Clone for Shared<V> {
    fn clone(&self) -> Self {
        Shared {
            cache: self.cache.clone(),
            name: self.name.clone(),
            number: self.number,
            schema: self.schema,
            form: self.form,
            codec: self.codec.clone(),
            policy: self.policy,
            is_negative: self.is_negative,
            tags: self.tags.clone(),
            weigher: self.weigher.clone(),
            touch_on_read: self.touch_on_read,
        }
    }
}

impl<K: ?Sized, V: 'static, E> View<K, V, E> {
    pub(crate) fn new(cache: Cache, name: &str, number: u32, codec: Arc<dyn Codec<V>>, form: u64) -> Self {
        let shared = Shared {
            policy: cache.inner.policy,
            name: name.to_owned(),
            number,
            schema: form,
            form,
            codec,
            is_negative: None,
            tags: cache.space.iter().map(|space| space.tag.clone()).collect(),
            weigher: None,
            touch_on_read: false,
            cache,
        };
        View { shared: Arc::new(shared), _types: PhantomData }
    }

    /// The same view with another time to live.
    ///
    /// # Errors
    /// If it is not from 1 ms to 8,900 years.
    pub fn with_ttl(self, ttl: Duration) -> Result<Self, BuildError> {
        check_ttl(ttl)?;
        Ok(self.with(|shared| shared.policy.ttl = Some(ttl)))
    }

    /// The same view with a policy of its own; what that leaves open stays as it is.
    pub fn with_policy(self, policy: Policy) -> Self {
        self.with(|shared| shared.policy = policy.or(shared.policy))
    }

    /// The same view with a tag that each of its entries gets.
    pub fn with_tag(self, tag: impl Into<Box<str>>) -> Self {
        self.with(|shared| shared.tags.push(tag.into()))
    }

    /// The same view with another schema number. Raise it when the meaning of `V` changes while its form stays: values of
    /// another number are misses. Default: 0.
    pub fn with_schema(self, schema: u32) -> Self {
        self.with(|shared| shared.schema = crate::schema::numbered(shared.form, schema))
    }

    /// The same view with another codec: how values are encoded for Redis. Default: the cache's, which is postcard.
    pub fn with_codec(self, codec: impl Codec<V>) -> Self {
        self.with(|shared| shared.codec = Arc::new(codec))
    }

    /// The same view with another weight in bytes for a value in memory. Default: its encoded length.
    pub fn with_weigher(self, weigher: impl Fn(&V) -> u64 + Send + Sync + 'static) -> Self {
        self.with(|shared| shared.weigher = Some(Arc::new(weigher)))
    }

    /// The same view, with times to live that begin anew with each read that finds a value: for sessions. Each such read
    /// costs Redis a command, which nobody waits for.
    pub fn touch_on_read(self) -> Self {
        self.with(|shared| shared.touch_on_read = true)
    }

    /// The same view without anything that changes it.
    pub fn read_only(&self) -> ReadView<K, V, E> {
        ReadView(self.clone())
    }

    /// Says how values that stand for "there is none" are known: they get the negative time to live of the policy.
    pub fn with_negative(self, is_negative: fn(&V) -> bool) -> Self {
        self.with(|shared| shared.is_negative = Some(is_negative))
    }

    fn with(self, change: impl FnOnce(&mut Shared<V>)) -> Self {
        let mut shared = Arc::unwrap_or_clone(self.shared);
        change(&mut shared);
        View { shared: Arc::new(shared), _types: PhantomData }
    }
}

impl<K: ?Sized, V: crate::Schema + 'static, E> View<K, V, E> {
    /// The same view with the schema that is derived for `V` instead of its name and shape: values that a `V` of another
    /// form wrote are misses, and those of a `V` that was moved, or renamed by `#[schema(name = "…")]`, are not.
    pub fn with_derived_schema(self) -> Self {
        self.with(|shared| (shared.schema, shared.form) = (V::SCHEMA, V::SCHEMA))
    }
}

impl<K: ?Sized, T: 'static, E> View<K, Option<T>, E> {
    /// The same view with a time to live of its own for `None`, the remembered absence.
    ///
    /// # Errors
    /// If it is not from 1 ms to 8,900 years.
    pub fn with_negative_ttl(self, ttl: Duration) -> Result<Self, BuildError> {
        check_ttl(ttl)?;
        let view = self.with_negative(Option::is_none);
        Ok(view.with(|shared| shared.policy.negative_ttl = Some(ttl)))
    }
}

impl<K, V, E> View<K, V, E>
where
    K: CacheKey + ?Sized,
    V: Send + Sync + 'static,
    E: Send + Sync + 'static,
{
    /// Starts a fetch: the value from memory, from Redis, or from a loader, which then fills both.
    pub fn fetch(&self, key: &K) -> Fetch<'_, V, E> {
        Fetch::new(&self.shared, KeyBuf::of(key))
    }

    /// Starts a fetch of many keys: what no tier has is loaded by one call of one loader.
    pub fn fetch_multi<'k>(&self, keys: impl IntoIterator<Item = &'k K>) -> FetchMulti<K, V, E>
    where
        K: 'k + ToOwned,
        K::Owned: Send + 'static,
    {
        let keys = keys.into_iter().map(|key| (KeyBuf::of(key), key.to_owned()));
        FetchMulti::new(self.shared.clone(), keys.collect())
    }
}

impl<V> Shared<V> {
    pub(crate) fn memory_key(&self, key: &KeyBuf) -> MemoryKey {
        MemoryKeyRef { view: self.number, bytes: key.as_bytes() }.into_owned()
    }

    pub(crate) fn redis_key(&self, key: &KeyBuf) -> Vec<u8> {
        [self.cache.inner.namespace.as_bytes(), b":", self.name.as_bytes(), b":", key.as_bytes()].concat()
    }

    fn both_keys(&self, key: &KeyBuf) -> (MemoryKey, Vec<u8>) {
        (self.memory_key(key), self.redis_key(key))
    }

    /// Whether nothing is to be cached.
    pub(crate) fn is_off(&self) -> bool {
        self.cache.inner.is_off()
    }
}

impl<K: ?Sized, V, E> Clone for View<K, V, E> {
    fn clone(&self) -> Self {
        View { shared: self.shared.clone(), _types: PhantomData }
    }
}

impl<K: ?Sized, V, E> std::fmt::Debug for View<K, V, E> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("View").field("name", &self.shared.name).finish_non_exhaustive()
    }
}

//! The typed view: what a user reads, writes and fetches through.

use crate::builder::{BuildError, check_ttl};
use crate::cache::Cache;
use crate::codec::{self, Codec};
use crate::envelope::{EncodeError, Id, Meta};
use crate::error::CacheError;
use crate::fetch::{Fetch, Fetched, Source};
use crate::key::{CacheKey, KeyBuf, MemoryKey, MemoryKeyRef};
use crate::stats::sampled;
use crate::tier::memory::MemoryEntry;
use crate::tier::plain::Found;
use larder_engine::{Follow, Load, Ticket, Ttl};
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
    codec: Arc<dyn Codec<V>>,
    pub(crate) ttl: Duration,
    pub(crate) negative: Option<Negative<V>>,
}

/// How values that say "there is none" are known, and how long they are believed.
pub(crate) struct Negative<V> {
    pub(crate) is_negative: fn(&V) -> bool,
    pub(crate) ttl: Duration,
}

impl<K: ?Sized, V: 'static, E> View<K, V, E> {
    pub(crate) fn new(cache: Cache, name: &str, number: u32, codec: Arc<dyn Codec<V>>) -> Self {
        let ttl = cache.inner.ttl;
        let schema = crate::schema::of_type_name::<V>(0);
        let shared = Shared { cache, name: name.to_owned(), number, schema, codec, ttl, negative: None };
        View { shared: Arc::new(shared), _types: PhantomData }
    }

    /// The same view with another time to live.
    ///
    /// # Errors
    /// If it is not from 1 ms to 8,900 years.
    pub fn with_ttl(self, ttl: Duration) -> Result<Self, BuildError> {
        check_ttl(ttl)?;
        Ok(self.with(|shared| shared.ttl = ttl))
    }

    /// The same view with another schema number. Raise it when the meaning of `V` changes while its name stays: values
    /// of another number are misses. Default: 0.
    pub fn with_schema(self, schema: u32) -> Self {
        self.with(|shared| shared.schema = crate::schema::of_type_name::<V>(schema))
    }

    /// The same view with another codec: how values are encoded for Redis. Default: the cache's, which is postcard.
    pub fn with_codec(self, codec: impl Codec<V>) -> Self {
        self.with(|shared| shared.codec = Arc::new(codec))
    }

    fn with(self, change: impl FnOnce(&mut Shared<V>)) -> Self {
        let Shared { cache, name, number, schema, codec, ttl, negative } = &*self.shared;
        let negative = negative
            .as_ref()
            .map(|Negative { is_negative, ttl }| Negative { is_negative: *is_negative, ttl: *ttl });
        let mut shared = Shared {
            cache: cache.clone(),
            name: name.clone(),
            number: *number,
            schema: *schema,
            codec: codec.clone(),
            ttl: *ttl,
            negative,
        };
        change(&mut shared);
        View { shared: Arc::new(shared), _types: PhantomData }
    }
}

impl<K: ?Sized, V: crate::Schema + 'static, E> View<K, V, E> {
    /// The same view with the schema that is derived for `V` instead of its name: values that a `V` of another form
    /// wrote are misses, and those of a `V` that was moved or renamed by `#[schema(name = "…")]` are not.
    pub fn with_derived_schema(self) -> Self {
        self.with(|shared| shared.schema = V::SCHEMA)
    }
}

impl<K: ?Sized, T: 'static, E> View<K, Option<T>, E> {
    /// The same view with a time to live of its own for `None`, the remembered absence.
    ///
    /// # Errors
    /// If it is not from 1 ms to 8,900 years.
    pub fn with_negative_ttl(self, ttl: Duration) -> Result<Self, BuildError> {
        check_ttl(ttl)?;
        Ok(self.with(|shared| shared.negative = Some(Negative { is_negative: Option::is_none, ttl })))
    }
}

impl<K, V, E> View<K, V, E>
where
    K: CacheKey + ?Sized,
    V: Send + Sync + 'static,
    E: Send + Sync + 'static,
{
    /// Starts a fetch: the value from memory, from Redis, or from a loader, which then fills both.
    pub fn fetch(&self, key: &K) -> Fetch<V, E> {
        Fetch::new(self.shared.clone(), KeyBuf::of(key))
    }

    /// The value in memory or in Redis, if either has it. Does not wait for loads that are under way.
    ///
    /// Cancel safe. Cost: a shard lock; on a miss in memory one round trip to Redis, if there is one.
    pub async fn read(&self, key: &K) -> Option<Fetched<V>> {
        let key = KeyBuf::of(key);
        let mut ticket = match self.shared.look(&key) {
            Looked::Hit(fetched) => return Some(fetched),
            Looked::Lead(ticket) => Some(ticket),
            Looked::Follow(_) => None,
        };
        let redis = self.shared.cache.inner.redis.as_ref()?;
        let found = redis.get(&self.shared.redis_key(&key)).await?;
        self.shared.promote(found, &mut ticket)
    }

    /// The values of many keys, in their order, with one round trip to Redis for all that memory does not have.
    ///
    /// Cancel safe.
    pub async fn read_multi<'k>(&self, keys: impl IntoIterator<Item = &'k K>) -> Vec<Option<Fetched<V>>>
    where
        K: 'k,
    {
        let mut answers = Vec::new();
        let mut asked = Vec::new();
        for key in keys {
            let key = KeyBuf::of(key);
            let (answer, ticket) = match self.shared.look(&key) {
                Looked::Hit(fetched) => (Some(fetched), None),
                Looked::Lead(ticket) => (None, Some(ticket)),
                Looked::Follow(_) => (None, None),
            };
            if answer.is_none() {
                asked.push((answers.len(), self.shared.redis_key(&key), ticket));
            }
            answers.push(answer);
        }
        let Some(redis) = self.shared.cache.inner.redis.as_ref().filter(|_| !asked.is_empty()) else {
            return answers;
        };
        let redis_keys: Vec<Vec<u8>> = asked.iter_mut().map(|(_, key, _)| std::mem::take(key)).collect();
        let found = redis.get_many(&redis_keys).await;
        for ((place, _, mut ticket), found) in asked.into_iter().zip(found) {
            answers[place] = found.and_then(|found| self.shared.promote(found, &mut ticket));
        }
        answers
    }

    /// Stores a value in both tiers. Loads of the key that are under way can no longer store theirs.
    ///
    /// The write goes on if the caller is dropped.
    ///
    /// # Errors
    /// If Redis did not confirm; this process has the value all the same. If the value cannot be encoded; then no tier
    /// has it.
    ///
    /// # Panics
    /// Outside a tokio runtime.
    pub async fn write(&self, key: &K, value: V) -> Result<(), CacheError> {
        let shared = self.shared.clone();
        let key = KeyBuf::of(key);
        let ttl = shared.ttl_of(&value, None);
        let bytes = shared.seal(&value, ttl).map_err(CacheError::Encode)?;
        let entry = shared.entry(Arc::new(value), bytes.len());
        let memory = shared.cache.inner.memory.clone();
        detached(async move {
            let memory_key = shared.memory_key(&key);
            memory.remove(&memory_key);
            let written = match &shared.cache.inner.redis {
                Some(redis) => redis.set(&shared.redis_key(&key), &bytes, ttl).await,
                None => Ok(()),
            };
            memory.insert_with_ttl(memory_key, entry, Ttl::After(ttl));
            written
        })
        .await
    }

    /// Removes a key from both tiers; whether either had it. Loads of the key that are under way can no longer store
    /// their value.
    ///
    /// The removal goes on if the caller is dropped.
    ///
    /// # Errors
    /// If Redis did not confirm; this process has forgotten the key all the same.
    ///
    /// # Panics
    /// Outside a tokio runtime.
    pub async fn delete(&self, key: &K) -> Result<bool, CacheError> {
        let shared = self.shared.clone();
        let key = KeyBuf::of(key);
        let memory = shared.cache.inner.memory.clone();
        detached(async move {
            let memory_key = shared.memory_key(&key);
            let in_memory = memory.remove(&memory_key).is_some();
            let Some(redis) = &shared.cache.inner.redis else { return Ok(in_memory) };
            let in_redis = redis.delete(&shared.redis_key(&key)).await;
            // Whoever read the old value from Redis meanwhile may have put it here.
            memory.remove(&memory_key);
            in_redis.map(|in_redis| in_memory || in_redis)
        })
        .await
    }
}

/// Runs a mutation in a task of its own: half of one must not be what a caller leaves behind when it is dropped.
async fn detached<R: Send + 'static>(mutation: impl Future<Output = R> + Send + 'static) -> R {
    match tokio::spawn(mutation).await {
        Ok(result) => result,
        Err(error) => std::panic::resume_unwind(error.into_panic()),
    }
}

/// What memory says about a key.
pub(crate) enum Looked<V> {
    Hit(Fetched<V>),
    Lead(Ticket<MemoryKey, MemoryEntry>),
    Follow(larder_engine::Follower<MemoryKey, MemoryEntry>),
}

impl<V: Send + Sync + 'static> Shared<V> {
    /// Looks into memory; on a miss the caller gets the key's ticket or a place among those who wait.
    pub(crate) fn look(&self, key: &KeyBuf) -> Looked<V> {
        let inner = &self.cache.inner;
        let borrowed = MemoryKeyRef { view: self.number, bytes: key.as_bytes() };
        loop {
            let load = sampled(&inner.counts.memory_latency, || {
                inner.memory.load_with(&borrowed, |key| key.into_owned())
            });
            return match load {
                Load::Hit(entry) => match self.fetched(entry, Source::Memory, false) {
                    Some(fetched) => Looked::Hit(fetched),
                    None => {
                        // A view of the same name with another type of value was here.
                        inner.memory.remove(&borrowed);
                        continue;
                    }
                },
                Load::Lead(ticket) => Looked::Lead(ticket),
                Load::Follow(follower) => Looked::Follow(follower),
            };
        }
    }

    /// Reads what Redis had and puts it into memory, if the ticket still allows it. The ticket is used up only if the
    /// bytes are a value.
    pub(crate) fn promote(
        &self,
        found: Found,
        ticket: &mut Option<Ticket<MemoryKey, MemoryEntry>>,
    ) -> Option<Fetched<V>> {
        let value = match codec::open(&found.bytes, &*self.codec, self.schema, &self.cache.inner.packing) {
            Ok((_, value)) => Arc::new(value),
            Err(reason) => {
                if let Some(redis) = &self.cache.inner.redis {
                    redis.counts.unreadable.add(1);
                }
                tracing::debug!(view = self.name, %reason, "unreadable value in redis");
                return None;
            }
        };
        let entry = self.entry(value, found.bytes.len());
        if let Some(ticket) = ticket.take() {
            let most = self.ttl_of_entry(&entry);
            let ttl = found.expires_in.map_or(most, |left| left.min(most));
            ticket.commit_with_ttl(entry.clone(), Ttl::After(ttl));
        }
        self.fetched(entry, Source::Redis, false)
    }

    pub(crate) fn fetched(&self, entry: MemoryEntry, source: Source, coalesced: bool) -> Option<Fetched<V>> {
        let value = entry.value.downcast::<V>().ok()?;
        Some(Fetched::new(value, source, coalesced, entry.since, self.cache.inner.memory.clock().clone()))
    }

    pub(crate) fn entry(&self, value: Arc<V>, encoded_bytes: usize) -> MemoryEntry {
        let encoded_bytes = u32::try_from(encoded_bytes).unwrap_or(u32::MAX);
        MemoryEntry { value, encoded_bytes, since: self.cache.inner.memory.clock().now() }
    }

    pub(crate) fn seal(&self, value: &V, ttl: Duration) -> Result<Vec<u8>, EncodeError> {
        let meta = Meta {
            id: Id::random(),
            codec: self.codec.id(),
            negative: self.negative.as_ref().is_some_and(|negative| (negative.is_negative)(value)),
            schema: self.schema,
            clock: 0,
            ttl,
            grace: Duration::ZERO,
            cost: Duration::ZERO,
            tags: Vec::new(),
        };
        codec::seal(value, &*self.codec, meta, &self.cache.inner.packing)
    }

    /// How long a value is fresh: by its absence of content, by the call, by the view.
    pub(crate) fn ttl_of(&self, value: &V, asked: Option<Duration>) -> Duration {
        let negative = self.negative.as_ref().filter(|negative| (negative.is_negative)(value));
        negative.map(|negative| negative.ttl).or(asked).unwrap_or(self.ttl)
    }

    fn ttl_of_entry(&self, entry: &MemoryEntry) -> Duration {
        entry.value.downcast_ref::<V>().map_or(self.ttl, |value| self.ttl_of(value, None))
    }

    pub(crate) fn memory_key(&self, key: &KeyBuf) -> MemoryKey {
        MemoryKeyRef { view: self.number, bytes: key.as_bytes() }.into_owned()
    }

    pub(crate) fn redis_key(&self, key: &KeyBuf) -> Vec<u8> {
        [self.cache.inner.namespace.as_bytes(), b":", self.name.as_bytes(), b":", key.as_bytes()].concat()
    }
}

/// What a follower of a load comes back with.
pub(crate) type Followed = Follow<MemoryKey, MemoryEntry>;

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

//! The typed view: how a user reads, writes and fetches.

mod conditional;
mod inspect;
mod lifetime;
pub(crate) mod raw;
mod read;
mod rewrite;
mod update;
mod warm;
mod write;

pub use inspect::{EntryInspection, Inspection};
pub use read::ReadView;
pub use update::{Update, Updated};
pub use warm::{HotKeys, NoHotKeys};
pub use write::WriteOptions;

use crate::coherence::Coordinator;
use crate::fetch::view_state::ViewState;
use crate::fetch::{Fetch, FetchMulti};
use crate::key::{CacheKey, KeyBuf};
use crate::node::view_config::ViewConfig;
use crate::policy::Policy;
use crate::value::codec::Codec;
use crate::value::schema::{self, Schema};
use std::marker::PhantomData;
use std::sync::Arc;
use std::time::Duration;

/// A typed window onto a [`Cache`](crate::Cache): keys of type `K`, values of type `V`, loaders that fail with `E`.
/// Cheap to clone.
///
/// Every value can be cached, also an empty one or a `None`.
pub struct View<K: ?Sized, V, E = std::convert::Infallible> {
    pub(crate) state: Arc<ViewState<V>>,
    _types: PhantomData<fn(&K) -> E>,
}

impl<K: ?Sized, V: 'static, E> View<K, V, E> {
    pub(crate) fn new(coordinator: Arc<Coordinator>, config: ViewConfig<V>) -> Self {
        View { state: Arc::new(ViewState { config, coordinator }), _types: PhantomData }
    }

    /// The same view with another time to live; see [`Policy::ttl`].
    pub fn with_ttl(self, ttl: Duration) -> Self {
        self.with(|config| config.policy.ttl = Some(ttl))
    }

    /// The same view with another policy. Times that the policy does not set stay as they are.
    pub fn with_policy(self, policy: Policy) -> Self {
        self.with(|config| config.policy = policy.or(config.policy))
    }

    /// The same view with a tag for each of its entries.
    pub fn with_tag(self, tag: impl AsRef<str>) -> Self {
        self.with(|config| config.tags.push(tag.as_ref().into()))
    }

    /// The same view with a schema of a name and a number instead of that of `V`, for programs with other types: in other
    /// languages, or in another module. Those that have the same name and number read each other's values; those of another
    /// name or number, or without one, are misses. Increase the number when the stored form changes, or its meaning.
    ///
    /// The codec must be one that all of them read and whose fields have names: [`Format::Json`](crate::Format) or
    /// [`Format::MessagePack`](crate::Format). postcard has no names: with it, values of a `V` with other fields would be
    /// misread, unless the number differs. How to compute the schema is on the page `docs/serialization.md`.
    ///
    /// The last call of this one and of [`View::with_derived_schema`] counts.
    ///
    /// # Panics
    /// If the name is empty or longer than 64 characters, or has others than ASCII letters, digits and `_`, `-` and `.`.
    pub fn with_shared_schema(self, name: &str, number: u32) -> Self {
        self.with(|config| config.schema = schema::shared(name, number))
    }

    /// The same view with another codec: how values are encoded for Redis. Default: the cache's, which is postcard.
    pub fn with_codec(self, codec: impl Codec<V>) -> Self {
        self.with(|config| config.codec = Arc::new(codec))
    }

    /// The same view with another weight in bytes for a value in memory. Default: its encoded length, also if the weigher
    /// panics.
    pub fn with_weigher(self, weigher: impl Fn(&V) -> u64 + Send + Sync + 'static) -> Self {
        self.with(|config| config.weigher = Some(Arc::new(weigher)))
    }

    /// The same view, in which each `read`, `read_multi` and `exist` that finds a fresh value restarts the TTL and the grace
    /// period with which it was stored: for sessions. It sends Redis a command and does not wait for it: while Redis is lost,
    /// the memory of this node alone learns of it. A stale value stays stale. Fetches, [`inspect`](View::inspect) and
    /// [`ttl`](View::ttl) restart nothing. [`View::touch`] gives one value another time.
    pub fn touch_on_read(self) -> Self {
        self.with(|config| config.touch_on_read = true)
    }

    /// The same view without the calls that write.
    pub fn read_only(&self) -> ReadView<K, V, E> {
        ReadView(self.clone())
    }

    /// The same view, in which values that `is_negative` accepts are remembered absences too: they get the negative TTL of
    /// the policy, as `None` does. If `is_negative` panics, the value is not an absence.
    pub fn with_negative(self, is_negative: fn(&V) -> bool) -> Self {
        self.with(|config| config.is_negative = Some(is_negative))
    }

    /// The same view, which knows which values are none.
    pub(crate) fn with_none(self, is_none: fn(&V) -> bool) -> Self {
        self.with(|config| config.is_none = Some(is_none))
    }

    fn with(self, change: impl FnOnce(&mut ViewConfig<V>)) -> Self {
        let mut state = Arc::unwrap_or_clone(self.state);
        change(&mut state.config);
        View { state: Arc::new(state), _types: PhantomData }
    }
}

impl<K: ?Sized, V: Schema + 'static, E> View<K, V, E> {
    /// The same view with the derived schema of `V` instead of its name and shape: values of a `V` with other fields
    /// are misses. Values of a `V` that was moved, or renamed by `#[schema(name = "…")]`, are not. Raise
    /// `#[schema(version = …)]` when the meaning changes and the fields do not.
    pub fn with_derived_schema(self) -> Self {
        self.with(|config| config.schema = V::SCHEMA)
    }
}

impl<K: ?Sized, T: 'static, E> View<K, Option<T>, E> {
    /// The same view with another time to live for `None`, the remembered absence; see [`Policy::negative_ttl`].
    pub fn with_negative_ttl(self, ttl: Duration) -> Self {
        let view = self.with_none(Option::is_none);
        view.with(|config| config.policy.negative_ttl = Some(ttl))
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
        Fetch::new(&self.state, KeyBuf::of(key))
    }

    /// Starts a fetch of many keys: one call of one loader loads the keys that no tier has.
    pub fn fetch_multi<'k>(&self, keys: impl IntoIterator<Item = &'k K>) -> FetchMulti<K, V, E>
    where
        K: 'k + ToOwned,
        K::Owned: Send + 'static,
    {
        let keys = keys.into_iter().map(|key| (KeyBuf::of(key), key.to_owned()));
        FetchMulti::new(self.state.clone(), keys.collect())
    }
}

impl<K: ?Sized, V, E> Clone for View<K, V, E> {
    fn clone(&self) -> Self {
        View { state: self.state.clone(), _types: PhantomData }
    }
}

impl<K: ?Sized, V, E> std::fmt::Debug for View<K, V, E> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("View").field("name", &self.state.config.name).finish_non_exhaustive()
    }
}

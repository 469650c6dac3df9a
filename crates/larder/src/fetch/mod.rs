//! Fetch-through: look up memory, then Redis, then load, then store upwards.
//!
//! ```text
//! fetch ─► memory ─ hit ──────────────────────────────────► answer, in the first poll, without an allocation
//!            │ miss: one caller gets the key's ticket, the others follow it
//!            ▼
//!          task: redis ─ hit ─► commit to memory ─────────► answer to all
//!                  │ miss: a lease
//!                  ▼
//!                loader ─ value ─► store in redis ─► commit to memory ──► answer to all
//!                       └ error, panic, timeout ─► the stale value within its grace period, or the error, to all
//! ```
//!
//! - [`view_state`]: what a view shares with its fetches.
//! - [`future`]: a fetch with its loader; [`turn`]: whether its caller loads, or follows another one.
//! - [`lease`]: a load by the caller instead of a loader; [`held_load`]: how its leases are held meanwhile.
//! - [`waiting`]: the wait for a load, of this caller or of another one.
//! - [`load_batch`]: what the tiers can answer, for one key or for many, each a [`pending_key`]; [`loader`]: the run of the
//!   loader, [`bulk_loader`]: of one for many keys, which [`bulk_load`] runs; [`completion`]: the end of a load.
//! - [`ahead`]: loading a value again while it is fresh.
//! - [`refresh`]: loading a value again on one node; [`other_reload`]: what it knows of another node that does so.
//! - [`spans`]: what a trace shows of a fetch.
//! - [`multi`]: fetches of many keys; [`multi_call`]: what their rounds share; [`multi_lease`]: with a load by the caller.

mod ahead;
mod bulk_load;
mod bulk_loader;
mod completion;
mod future;
mod held_load;
mod lease;
mod load_batch;
pub(crate) mod loader;
mod multi;
mod multi_call;
mod multi_lease;
mod other_reload;
mod pending_key;
mod refresh;
mod spans;
mod turn;
pub(crate) mod view_state;
mod waiting;

pub use future::FetchFuture;
pub use lease::{Leased, LoadLease};
pub use multi::FetchMulti;
pub use multi_lease::{BulkLease, BulkLeased};

use crate::fetch::loader::{Always, LoadCx, Loaded, OrKeep};
use crate::key::KeyBuf;
use crate::node::fetched::Fetched;
use crate::policy::Policy;
use crate::report::error::FetchError;
use load_batch::{LoadBatch, Reason};
use std::marker::PhantomData;
use std::ops::Deref;
use std::sync::Arc;
use std::time::Duration;
use view_state::ViewState;
use waiting::Call;

pub(crate) type Outcome<V, E> = Result<Fetched<V>, FetchError<E>>;

/// The outcome of one key of a [`FetchMulti`]; `None` if the loader returned no value for the key.
pub type BulkOutcome<V, E> = Result<Option<Fetched<V>>, FetchError<E>>;

/// The options of a fetch. Made by [`crate::View::fetch`].
#[must_use = "a fetch does nothing until it has a loader: call `.load(…)` and await that, or use `View::read` to read without loading"]
pub struct Fetch<'v, V, E> {
    view: ViewRef<'v, V>,
    key: KeyBuf,
    ttl: Option<Duration>,
    /// Boxed, since a hit in memory moves the whole fetch.
    options: Option<Box<FetchOptions>>,
    refresh: bool,
    _error: PhantomData<fn() -> E>,
}

/// The view of a fetch. It is borrowed for a hit in memory, which then changes no reference count.
enum ViewRef<'v, V> {
    Borrowed(&'v Arc<ViewState<V>>),
    Owned(Arc<ViewState<V>>),
}

impl<V> ViewRef<'_, V> {
    fn into_owned(self) -> Arc<ViewState<V>> {
        match self {
            ViewRef::Borrowed(view) => view.clone(),
            ViewRef::Owned(view) => view,
        }
    }
}

impl<V> Deref for ViewRef<'_, V> {
    type Target = Arc<ViewState<V>>;

    fn deref(&self) -> &Arc<ViewState<V>> {
        match self {
            ViewRef::Borrowed(view) => view,
            ViewRef::Owned(view) => view,
        }
    }
}

/// Options that few fetches set.
#[derive(Default)]
struct FetchOptions {
    policy: Policy,
    tags: Vec<Box<str>>,
}

impl<'v, V, E> Fetch<'v, V, E>
where
    V: Send + Sync + 'static,
    E: Send + Sync + 'static,
{
    pub(crate) fn new(view: &'v Arc<ViewState<V>>, key: KeyBuf) -> Self {
        Fetch {
            view: ViewRef::Borrowed(view),
            key,
            ttl: None,
            options: None,
            refresh: false,
            _error: PhantomData,
        }
    }

    /// The same fetch, which owns its view.
    pub(crate) fn into_owned(self) -> Fetch<'static, V, E> {
        let Fetch { view, key, ttl, options, refresh, _error } = self;
        Fetch { view: ViewRef::Owned(view.into_owned()), key, ttl, options, refresh, _error }
    }

    /// The TTL of a loaded value. Negative values keep the negative TTL of the view. Default: the view's.
    pub fn ttl(mut self, ttl: Duration) -> Self {
        self.ttl = Some(ttl);
        self
    }

    /// The times and timeouts of this fetch. Times that the policy does not set are the view's.
    pub fn policy(mut self, policy: Policy) -> Self {
        self.ttl = policy.ttl.or(self.ttl);
        let options = self.options.get_or_insert_default();
        options.policy = policy.or(options.policy);
        self
    }

    /// The load of this fetch.
    fn into_batch(self, call: Call, reason: Reason) -> LoadBatch<V> {
        let tags = self.options.map_or_else(Vec::new, |options| options.tags);
        LoadBatch { view: self.view.into_owned(), call, tags, reason, elsewhere: None }
    }

    /// Why a key is loaded that this fetch does not find.
    fn reason(&self) -> Reason {
        if self.refresh { Reason::Refresh } else { Reason::Missing }
    }

    /// The policy of this fetch, which leaves nothing open that the view decides.
    fn resolved_policy(&self) -> Policy {
        let own = self.options.as_ref().map_or(Policy::new(), |options| options.policy);
        Policy { ttl: self.ttl, ..own }.or(own).or(self.view.config.policy)
    }

    /// Adds a tag to a loaded value.
    pub fn tag(mut self, tag: impl AsRef<str>) -> Self {
        self.options.get_or_insert_default().tags.push(tag.as_ref().into());
        self
    }

    /// Loads even if there is a fresh value. Other calls on this node get that value until the new one is stored. Other
    /// nodes that have it in memory serve it until its time to live is over. A [`delete`](crate::View::delete) reaches all
    /// nodes.
    ///
    /// The value comes from a loader that began after this call, or was written meanwhile. If a load of the key is running,
    /// here or on another node, the refresh first waits for it, at most for [`lease_wait`](crate::Builder::lease_wait).
    /// Then it loads beside it, and the value whose loader began later stays. All refreshes that waited for the same load
    /// share the next one. A refresh has no [`soft_timeout`](crate::Policy::soft_timeout), since it asks for a value that
    /// does not exist yet.
    ///
    /// If the load fails, a fresh value stays as it was. The caller gets it as a stale one if it has a grace period, and
    /// the error if not.
    pub fn refresh(mut self) -> Self {
        self.refresh = true;
        self
    }

    /// Sets the loader. It runs in a task of its own, if no tier has the value and no other caller loads it.
    ///
    /// A loader that waits for a fetch of its own key waits for itself, and so do all later callers, until a
    /// [`hard_timeout`](crate::Policy::hard_timeout) drops it, or the key is written, deleted or refreshed.
    ///
    /// Awaiting the result needs a tokio runtime, unless memory has the value. Cancel safe: the load continues if the
    /// caller is dropped. While the cache is off, or its server is not supported, the loader runs in
    /// the caller, and ends with it.
    pub fn load<L, F>(self, loader: L) -> FetchFuture<'v, V, E, Always<L>>
    where
        L: FnOnce(LoadCx<V>) -> F + Send + 'static,
        F: Future<Output = Result<V, E>> + Send + 'static,
    {
        FetchFuture::new(self, Always(loader))
    }

    /// As [`Fetch::load`], for a loader that may find that the stale value in [`LoadCx::stale`] has not changed. Then
    /// it returns [`Loaded::NotModified`].
    pub fn load_or_keep<L, F>(self, loader: L) -> FetchFuture<'v, V, E, OrKeep<L>>
    where
        L: FnOnce(LoadCx<V>) -> F + Send + 'static,
        F: Future<Output = Result<Loaded<V>, E>> + Send + 'static,
    {
        FetchFuture::new(self, OrKeep(loader))
    }
}

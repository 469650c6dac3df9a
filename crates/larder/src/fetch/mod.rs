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
//! - [`waiting`]: the wait for a load, of this caller or of another one.
//! - [`load_batch`]: what the tiers can answer, for one key or for many, each a [`pending_key`]; [`loader`]: the run of the
//!   loader; [`completion`]: the end of a load.
//! - [`refresh`]: loading a value again on one node; [`other_reload`]: what it knows of another node that does so.
//! - [`multi`]: fetches of many keys.

mod completion;
mod load_batch;
pub(crate) mod loader;
mod multi;
mod other_reload;
mod pending_key;
mod refresh;
pub(crate) mod view_state;
mod waiting;

pub use multi::FetchMulti;

use crate::fetch::loader::{Always, LoadCx, Loaded, Loader, OrKeep};
use crate::key::KeyBuf;
use crate::node::fetched::Fetched;
use crate::node::lookup::MemoryLookup;
use crate::policy::Policy;
use crate::report::error::FetchError;
use larder_engine::fork::Process;
use larder_engine::{FollowOutcome, Leader, Load};
use load_batch::{LoadBatch, fetch_error};
use pending_key::PendingKey;
use std::marker::PhantomData;
use std::ops::Deref;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::time::{Instant, timeout};
use tracing::Instrument;
use view_state::ViewState;
use waiting::{Call, answer_or_stale, follow, is_loaded_by};

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
        FetchFuture { state: State::Start(self, Always(loader)) }
    }

    /// As [`Fetch::load`], for a loader that may find that the stale value in [`LoadCx::stale`] has not changed. Then
    /// it returns [`Loaded::NotModified`].
    pub fn load_or_keep<L, F>(self, loader: L) -> FetchFuture<'v, V, E, OrKeep<L>>
    where
        L: FnOnce(LoadCx<V>) -> F + Send + 'static,
        F: Future<Output = Result<Loaded<V>, E>> + Send + 'static,
    {
        FetchFuture { state: State::Start(self, OrKeep(loader)) }
    }
}

/// A fetch with its loader. The first poll looks up memory. On a miss it boxes the rest.
#[must_use = "futures do nothing unless they are awaited"]
pub struct FetchFuture<'v, V, E, L> {
    state: State<'v, V, E, L>,
}

#[allow(clippy::large_enum_variant, reason = "a box would cost each hit an allocation")]
enum State<'v, V, E, L> {
    Start(Fetch<'v, V, E>, L),
    /// And the process that its load runs in.
    Slow(Process, Pin<Box<dyn Future<Output = Outcome<V, E>> + Send>>),
    Done,
}

/// The state is boxed or moved as a whole, so nothing is pinned in place.
impl<V, E, L> Unpin for FetchFuture<'_, V, E, L> {}

impl<V, E, L> Future for FetchFuture<'_, V, E, L>
where
    V: Send + Sync + 'static,
    E: Send + Sync + 'static,
    L: Loader<V, E>,
{
    type Output = Outcome<V, E>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Outcome<V, E>> {
        if let State::Start(fetch, _) = &self.state {
            if fetch.view.node().is_inherited() {
                self.state = State::Done;
                return Poll::Ready(Err(FetchError::Forked));
            }
            let lookup = if fetch.refresh || fetch.view.node().is_off() {
                None
            } else {
                match fetch.view.node().lookup(&fetch.view.config, &fetch.key) {
                    MemoryLookup::Hit(fetched) => {
                        fetched.note_freshness();
                        self.state = State::Done;
                        return Poll::Ready(Ok(fetched));
                    }
                    missed => Some(missed),
                }
            };
            let State::Start(fetch, loader) = std::mem::replace(&mut self.state, State::Done) else {
                unreachable!("the state was checked above")
            };
            let process = fetch.view.node().process;
            self.state = State::Slow(process, Box::pin(fetch.into_owned().slow(lookup, loader)));
        }
        let State::Slow(process, slow) = &mut self.state else { panic!("fetch polled after completion") };
        let polled = match process.has_forked() {
            true => Poll::Ready(Err(FetchError::Forked)),
            false => slow.as_mut().poll(context),
        };
        if let Poll::Ready(outcome) = &polled {
            outcome.iter().for_each(Fetched::note_freshness);
            self.state = State::Done;
        }
        polled
    }
}

impl<V, E> Fetch<'static, V, E>
where
    V: Send + Sync + 'static,
    E: Send + Sync + 'static,
{
    /// Leads or follows loads of the key until there is an outcome. Without a lookup it begins with one.
    async fn slow<L: Loader<V, E>>(self, lookup: Option<MemoryLookup<V>>, loader: L) -> Outcome<V, E> {
        if self.view.node().is_off() {
            return self.uncached(loader).await;
        }
        let call = Call::start(self.resolved_policy(), self.refresh);
        let called_at = self.view.node().now();
        let mut lookup = match lookup {
            Some(lookup) => lookup,
            None => self.lookup(&call, called_at).await,
        };
        loop {
            lookup = match lookup {
                MemoryLookup::Hit(fetched) => return Ok(fetched),
                MemoryLookup::Lead { ticket, candidate, overtakes } => {
                    let (view, key, own) = (self.view.clone(), self.key.clone(), candidate.clone());
                    let (mut pending, answer) = PendingKey::new(view.redis_key(&key), ticket, candidate);
                    pending.overtakes = overtakes;
                    let namespace = view.node().keyspace.namespace();
                    let span = tracing::debug_span!("larder.fetch", cache = namespace);
                    tokio::spawn(self.lead(call, pending, loader).instrument(span));
                    let answered = answer_or_stale(&view, &call, &key, own, answer).await?;
                    return Ok(answered.expect("only a bulk loader leaves a key out"));
                }
                MemoryLookup::Follow(waiter) => {
                    let load_began = waiter.follower.began();
                    match follow(&self.view, &call, &self.key, waiter, Instant::now()).await {
                        Ok(Ok(Some(fetched))) if !self.refresh || is_loaded_by(&fetched, load_began) => {
                            return Ok(fetched);
                        }
                        Ok(Err(error)) => return Err(error),
                        Err(Some(next)) => next,
                        // Also what a bulk loader has left out: the loader of this caller returns a value.
                        Ok(Ok(_)) | Err(None) => self.lookup(&call, called_at).await,
                    }
                }
            };
        }
    }

    /// Looks up memory. A refresh waits for the end of a load that began before it was called; many refreshes that do
    /// so share the next load. It does not wait for ever: it overtakes a load that takes too long, which may still store its
    /// value until a later one has. So a value that is refreshed all the time changes, however slow its loader is.
    async fn lookup(&self, call: &Call, called_at: Duration) -> MemoryLookup<V> {
        let (node, config) = (self.view.node(), &self.view.config);
        if !self.refresh {
            return node.lookup(config, &self.key);
        }
        let lease_wait = self.view.coordinator.options.lease_wait;
        loop {
            let mut older = match node.lookup_for_refresh(config, &self.key, called_at) {
                Ok(lookup) => return lookup,
                Err(older) => older,
            };
            let wait = lease_wait.saturating_sub(call.started.elapsed());
            let (ticket, overtakes) = match timeout(wait, &mut older).await {
                Ok(FollowOutcome::Lead(ticket)) => (ticket, false),
                Ok(FollowOutcome::Value(_) | FollowOutcome::Failed(_)) => continue,
                Err(_) => match older.overtake(Leader::Async) {
                    Load::Lead(ticket) => (ticket, true),
                    // Another refresh was faster.
                    Load::Hit(_) | Load::Follow(_) => continue,
                },
            };
            let candidate = node.refresh_candidate::<V>(self.view.memory_key(&self.key));
            return MemoryLookup::Lead { ticket, candidate, overtakes };
        }
    }

    /// Looks up Redis, then loads, and ends the ticket.
    async fn lead<L: Loader<V, E>>(self, call: Call, pending: PendingKey<V, E>, loader: L) {
        let tags = self.options.map_or_else(Vec::new, |options| options.tags);
        let batch = LoadBatch { view: self.view.into_owned(), call, tags, refresh: self.refresh };
        let mut keys = [pending];
        batch.lookup(&mut keys).await;
        if !keys[0].is_open() {
            return;
        }
        let cx = batch.context(&keys[0]);
        let started = Instant::now();
        let loading = loader::run(|| loader.start(cx.clone()), batch.call.policy.hard_timeout);
        let loaded = batch.await_load(&mut keys, loading).await;
        let [pending] = keys;
        match loaded {
            Ok(loaded) => batch.complete(vec![(pending, loaded, cx.options())], started).await,
            Err(failure) => batch.fail(vec![pending], fetch_error(failure)).await,
        }
    }

    /// Loads while no tier answers: every caller loads.
    async fn uncached<L: Loader<V, E>>(self, loader: L) -> Outcome<V, E> {
        let policy = self.resolved_policy();
        let loaded = loader::run(|| loader.start(LoadCx::new(None)), policy.hard_timeout).await;
        match loaded.map_err(fetch_error)? {
            Loaded::New(value) => Ok(self.view.node().unstored(value)),
            Loaded::NotModified => Err(FetchError::NoStaleValue),
        }
    }
}

//! Fetch-through: memory, then Redis, then the loader, then back up.
//!
//! ```text
//! fetch ─► memory ─ hit ──────────────────────────────────► answer, in the first poll, without an allocation
//!            │ miss: one caller gets the key's ticket, the others wait for what becomes of it
//!            ▼
//!          task: redis ─ hit ─► commit to memory ─────────► answer to all
//!                  │ miss
//!                  ▼
//!                loader ─ value ─► commit to memory ──────► answer to all, then fill Redis
//!                       └ error, panic ───────────────────► error to all, nothing stored
//! ```

use crate::error::FetchError;
use crate::key::{KeyBuf, MemoryKey};
use crate::load::{self, LoadCx};
use crate::tier::memory::MemoryEntry;
use crate::view::{Followed, Looked, Shared};
use larder_engine::{Clock, Commit, Follower, Ticket, Ttl};
use std::marker::PhantomData;
use std::ops::Deref;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};
use tokio::sync::oneshot;

/// Where a value came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Source {
    /// The memory of this process.
    Memory,
    /// Redis.
    Redis,
    /// The loader.
    Loader,
}

/// A value with its provenance. Derefs to the value.
pub struct Fetched<V> {
    value: Arc<V>,
    source: Source,
    coalesced: bool,
    since: Duration,
    clock: Clock,
}

impl<V> Fetched<V> {
    pub(crate) fn new(value: Arc<V>, source: Source, coalesced: bool, since: Duration, clock: Clock) -> Self {
        Fetched { value, source, coalesced, since, clock }
    }

    /// The value, shared with the cache.
    pub fn into_arc(self) -> Arc<V> {
        self.value
    }

    /// Where the value came from; for a coalesced fetch, memory.
    pub fn source(&self) -> Source {
        self.source
    }

    /// Whether this is what somebody else's load came back with.
    pub fn coalesced(&self) -> bool {
        self.coalesced
    }

    /// How long ago the value came into this process.
    pub fn age(&self) -> Duration {
        self.clock.now().saturating_sub(self.since)
    }
}

impl<V> Deref for Fetched<V> {
    type Target = V;

    fn deref(&self) -> &V {
        &self.value
    }
}

impl<V> Clone for Fetched<V> {
    fn clone(&self) -> Self {
        Fetched { value: self.value.clone(), clock: self.clock.clone(), ..*self }
    }
}

impl<V: std::fmt::Debug> std::fmt::Debug for Fetched<V> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Fetched")
            .field("value", &self.value)
            .field("source", &self.source)
            .finish_non_exhaustive()
    }
}

/// A fetch that has been described and not begun. Made by [`crate::View::fetch`].
#[must_use = "a fetch begins when its loader is given and it is awaited"]
pub struct Fetch<V, E> {
    view: Arc<Shared<V>>,
    key: KeyBuf,
    ttl: Option<Duration>,
    _error: PhantomData<fn() -> E>,
}

impl<V, E> Fetch<V, E>
where
    V: Send + Sync + 'static,
    E: Send + Sync + 'static,
{
    pub(crate) fn new(view: Arc<Shared<V>>, key: KeyBuf) -> Self {
        Fetch { view, key, ttl: None, _error: PhantomData }
    }

    /// How long a loaded value is fresh, instead of the view's own time. Absences keep the view's negative time.
    pub fn ttl(mut self, ttl: Duration) -> Self {
        self.ttl = Some(ttl);
        self
    }

    /// Gives the loader, which runs in a task of its own and only if no tier has the value and nobody else loads it.
    ///
    /// Awaiting the result needs a tokio runtime, unless memory has the value. Cancel safe: whoever leaves does not take
    /// the load with them.
    pub fn load<L, F>(self, loader: L) -> FetchFuture<V, E, L>
    where
        L: FnOnce(LoadCx) -> F + Send + 'static,
        F: Future<Output = Result<V, E>> + Send + 'static,
    {
        FetchFuture { state: State::First(self, loader) }
    }
}

/// A fetch under way. Looks into memory when it is first polled; everything that takes longer is boxed then.
#[must_use = "futures do nothing unless they are awaited"]
pub struct FetchFuture<V, E, L> {
    state: State<V, E, L>,
}

type Outcome<V, E> = Result<Fetched<V>, FetchError<E>>;

enum State<V, E, L> {
    First(Fetch<V, E>, L),
    Slow(Pin<Box<dyn Future<Output = Outcome<V, E>> + Send>>),
    Done,
}

/// The state is either boxed or moved as a whole: nothing is pinned in place.
impl<V, E, L> Unpin for FetchFuture<V, E, L> {}

impl<V, E, L, F> Future for FetchFuture<V, E, L>
where
    V: Send + Sync + 'static,
    E: Send + Sync + 'static,
    L: FnOnce(LoadCx) -> F + Send + 'static,
    F: Future<Output = Result<V, E>> + Send + 'static,
{
    type Output = Outcome<V, E>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Outcome<V, E>> {
        loop {
            match std::mem::replace(&mut self.state, State::Done) {
                State::First(fetch, loader) => match fetch.view.look(&fetch.key) {
                    Looked::Hit(fetched) => return Poll::Ready(Ok(fetched)),
                    missed => self.state = State::Slow(Box::pin(fetch.slow(missed, loader))),
                },
                State::Slow(mut slow) => {
                    let polled = slow.as_mut().poll(context);
                    if polled.is_pending() {
                        self.state = State::Slow(slow);
                    }
                    return polled;
                }
                State::Done => panic!("a fetch was polled after it had ended"),
            }
        }
    }
}

impl<V, E> Fetch<V, E>
where
    V: Send + Sync + 'static,
    E: Send + Sync + 'static,
{
    /// Leads the load or waits for it, until there is an outcome.
    async fn slow<L, F>(self, mut looked: Looked<V>, loader: L) -> Outcome<V, E>
    where
        L: FnOnce(LoadCx) -> F + Send + 'static,
        F: Future<Output = Result<V, E>> + Send + 'static,
    {
        loop {
            looked = match looked {
                Looked::Hit(fetched) => return Ok(fetched),
                Looked::Lead(ticket) => return self.lead(ticket, loader).await,
                Looked::Follow(follower) => match self.follow(follower).await {
                    Ok(outcome) => return outcome,
                    Err(next) => next,
                },
            };
        }
    }

    /// Waits for somebody else's load; where that brings nothing this caller can use, says what to do next.
    async fn follow(&self, follower: Follower<MemoryKey, MemoryEntry>) -> Result<Outcome<V, E>, Looked<V>> {
        let followed: Followed = follower.await;
        let counts = &self.view.cache.inner.counts;
        match followed {
            Followed::Lead(ticket) => Err(Looked::Lead(ticket)),
            Followed::Value(entry) => match self.view.fetched(entry, Source::Memory, true) {
                Some(fetched) => {
                    counts.coalesced.add(1);
                    Ok(Ok(fetched))
                }
                None => Err(self.view.look(&self.key)),
            },
            Followed::Failed(failure) => match failure.downcast_ref::<FetchError<E>>() {
                Some(error) => {
                    counts.coalesced.add(1);
                    Ok(Err(error.clone()))
                }
                // A view of the same name with another type of error failed: that says nothing to this caller.
                None => Err(self.view.look(&self.key)),
            },
        }
    }

    /// Runs the load in a task of its own and waits for it.
    async fn lead<L, F>(self, ticket: Ticket<MemoryKey, MemoryEntry>, loader: L) -> Outcome<V, E>
    where
        L: FnOnce(LoadCx) -> F + Send + 'static,
        F: Future<Output = Result<V, E>> + Send + 'static,
    {
        let (answer, answered) = oneshot::channel();
        tokio::spawn(async move { self.load_and_fill(ticket, loader, answer).await });
        answered.await.unwrap_or(Err(FetchError::Dropped))
    }

    /// Looks into Redis, then loads, and settles the ticket.
    async fn load_and_fill<L, F>(
        self,
        ticket: Ticket<MemoryKey, MemoryEntry>,
        loader: L,
        answer: oneshot::Sender<Outcome<V, E>>,
    ) where
        L: FnOnce(LoadCx) -> F,
        F: Future<Output = Result<V, E>>,
    {
        let view = &self.view;
        let mut ticket = Some(ticket);
        if let Some(redis) = &view.cache.inner.redis
            && let Some(found) = redis.get(&view.redis_key(&self.key)).await
            && let Some(fetched) = view.promote(found, &mut ticket)
        {
            // The caller may be gone; the tiers are filled all the same.
            _ = answer.send(Ok(fetched));
            return;
        }
        let Some(ticket) = ticket else { return };
        let cx = LoadCx::default();
        let began = Instant::now();
        let loaded = match load::run(loader, cx.clone()).await {
            Ok(Ok(value)) => Ok(value),
            Ok(Err(error)) => Err(FetchError::Load(Arc::new(error))),
            Err(load::Panicked) => Err(FetchError::LoaderPanicked),
        };
        match loaded {
            Ok(value) => {
                view.cache.inner.counts.load_latency.record(began.elapsed());
                self.fill(ticket, Arc::new(value), &cx, answer).await;
            }
            Err(error) => {
                view.cache.inner.counts.load_failures.add(1);
                ticket.fail(Arc::new(error.clone()));
                _ = answer.send(Err(error));
            }
        }
    }

    /// Hands a loaded value to those who wait and puts it into the tiers.
    async fn fill(
        &self,
        ticket: Ticket<MemoryKey, MemoryEntry>,
        value: Arc<V>,
        cx: &LoadCx,
        answer: oneshot::Sender<Outcome<V, E>>,
    ) {
        let view = &self.view;
        let said = cx.said();
        let ttl = said.ttl.unwrap_or_else(|| view.ttl_of(&value, self.ttl));
        let sealed =
            view.seal(&value, ttl).inspect_err(|error| tracing::warn!(%error, "a value cannot be encoded"));
        let entry = view.entry(value, sealed.as_ref().map_or(0, Vec::len));
        let fetched = view.fetched(entry.clone(), Source::Loader, false);
        let Some(bytes) = sealed.ok().filter(|_| !said.no_store) else {
            ticket.give(entry);
            _ = answer.send(fetched.ok_or(FetchError::Dropped));
            return;
        };
        let commit = ticket.commit_with_ttl(entry, Ttl::After(ttl));
        _ = answer.send(fetched.ok_or(FetchError::Dropped));
        if let (Commit::Stored, Some(redis)) = (commit, &view.cache.inner.redis) {
            // Counted where it fails; a fetch does not fail because of Redis.
            _ = redis.set(&view.redis_key(&self.key), &bytes, ttl).await;
        }
    }
}

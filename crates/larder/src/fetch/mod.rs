//! Fetch-through: memory, then Redis, then the loader, then back up.
//!
//! ```text
//! fetch ─► memory ─ hit ──────────────────────────────────► answer, in the first poll, without an allocation
//!            │ miss: one caller gets the key's ticket, the others wait for what becomes of it
//!            ▼
//!          task: redis ─ hit ─► commit to memory ─────────► answer to all
//!                  │ miss: a lease
//!                  ▼
//!                loader ─ value ─► commit to redis ─► commit to memory ──► answer to all
//!                       └ error, panic, timeout ─► what is in grace, or the error to all
//! ```

mod fetched;
mod flight;
mod landing;
mod multi;
mod policy;

pub use fetched::{Fetched, Source};
pub use multi::FetchMulti;
pub(crate) use policy::Lifetime;
pub use policy::Policy;

use crate::error::FetchError;
use crate::key::KeyBuf;
use crate::load::{self, Always, LoadCx, Loaded, Loader, OrKeep};
use crate::view::{Followed, MemoryLookup, Shared};
use flight::{Flight, Want, no_value};
use larder_engine::FollowOutcome;
use std::marker::PhantomData;
use std::ops::Deref;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::time::{Instant, sleep};
use tracing::Instrument;

pub(crate) type Outcome<V, E> = Result<Fetched<V>, FetchError<E>>;

/// A fetch that has been described and not begun. Made by [`crate::View::fetch`].
#[must_use = "a fetch begins when its loader is given and it is awaited"]
pub struct Fetch<'v, V, E> {
    view: Lent<'v, V>,
    key: KeyBuf,
    ttl: Option<Duration>,
    /// Boxed, for a fetch that finds its value in memory moves all that it is.
    wishes: Option<Box<Wishes>>,
    force: bool,
    _error: PhantomData<fn() -> E>,
}

/// The view of a fetch, which is seldom its own: a hit in memory touches no count that all cores share.
enum Lent<'v, V> {
    Borrowed(&'v Arc<Shared<V>>),
    Owned(Arc<Shared<V>>),
}

impl<V> Lent<'_, V> {
    fn into_owned(self) -> Arc<Shared<V>> {
        match self {
            Lent::Borrowed(view) => view.clone(),
            Lent::Owned(view) => view,
        }
    }
}

impl<V> Deref for Lent<'_, V> {
    type Target = Arc<Shared<V>>;

    fn deref(&self) -> &Arc<Shared<V>> {
        match self {
            Lent::Borrowed(view) => view,
            Lent::Owned(view) => view,
        }
    }
}

/// What most fetches leave to their view.
#[derive(Default)]
struct Wishes {
    policy: Policy,
    tags: Vec<Box<str>>,
}

impl<'v, V, E> Fetch<'v, V, E>
where
    V: Send + Sync + 'static,
    E: Send + Sync + 'static,
{
    pub(crate) fn new(view: &'v Arc<Shared<V>>, key: KeyBuf) -> Self {
        Fetch { view: Lent::Borrowed(view), key, ttl: None, wishes: None, force: false, _error: PhantomData }
    }

    /// The same fetch, which keeps its view itself.
    pub(crate) fn into_owned(self) -> Fetch<'static, V, E> {
        let Fetch { view, key, ttl, wishes, force, _error } = self;
        Fetch { view: Lent::Owned(view.into_owned()), key, ttl, wishes, force, _error }
    }

    /// How long a loaded value is fresh, instead of the view's own time. Absences keep the view's negative time.
    pub fn ttl(mut self, ttl: Duration) -> Self {
        self.ttl = Some(ttl);
        self
    }

    /// The times and timeouts of this fetch; what the policy leaves open is the view's.
    pub fn policy(mut self, policy: Policy) -> Self {
        self.ttl = policy.ttl.or(self.ttl);
        let wishes = self.wishes.get_or_insert_default();
        wishes.policy = policy.or(wishes.policy);
        self
    }

    /// The policy by which it is done: its own, then the view's.
    fn resolved(&self) -> Policy {
        let own = self.wishes.as_ref().map_or(Policy::new(), |wishes| wishes.policy);
        Policy { ttl: self.ttl, ..own }.or(own).or(self.view.policy)
    }

    /// Adds a tag to a loaded value.
    pub fn tag(mut self, tag: impl Into<Box<str>>) -> Self {
        self.wishes.get_or_insert_default().tags.push(tag.into());
        self
    }

    /// Loads now, whether a value is there or not. Until the new value is there the old one is read as before.
    pub fn refresh(mut self) -> Self {
        self.force = true;
        self
    }

    /// Gives the loader, which runs in a task of its own and only if no tier has the value and nobody else loads it.
    ///
    /// Awaiting the result needs a tokio runtime, unless memory has the value. Cancel safe: whoever leaves does not take
    /// the load with them.
    pub fn load<L, F>(self, loader: L) -> FetchFuture<'v, V, E, Always<L>>
    where
        L: FnOnce(LoadCx<V>) -> F + Send + 'static,
        F: Future<Output = Result<V, E>> + Send + 'static,
    {
        FetchFuture { state: State::First(self, Always(loader)) }
    }

    /// As [`Fetch::load`], for a loader that may find that the old value is still right: it sees it in
    /// [`LoadCx::stale`] and returns [`Loaded::NotModified`].
    pub fn load_or_keep<L, F>(self, loader: L) -> FetchFuture<'v, V, E, OrKeep<L>>
    where
        L: FnOnce(LoadCx<V>) -> F + Send + 'static,
        F: Future<Output = Result<Loaded<V>, E>> + Send + 'static,
    {
        FetchFuture { state: State::First(self, OrKeep(loader)) }
    }
}

/// A fetch under way. Looks into memory when it is first polled; everything that takes longer is boxed then.
#[must_use = "futures do nothing unless they are awaited"]
pub struct FetchFuture<'v, V, E, L> {
    state: State<'v, V, E, L>,
}

#[allow(clippy::large_enum_variant, reason = "boxing the first state would allocate on each hit")]
enum State<'v, V, E, L> {
    First(Fetch<'v, V, E>, L),
    Slow(Pin<Box<dyn Future<Output = Outcome<V, E>> + Send>>),
    Done,
}

/// The state is either boxed or moved as a whole: nothing is pinned in place.
impl<V, E, L> Unpin for FetchFuture<'_, V, E, L> {}

impl<V, E, L> Future for FetchFuture<'_, V, E, L>
where
    V: Send + Sync + 'static,
    E: Send + Sync + 'static,
    L: Loader<V, E>,
{
    type Output = Outcome<V, E>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Outcome<V, E>> {
        if let State::First(fetch, _) = &self.state {
            let looked = if fetch.force || fetch.view.is_off() {
                None
            } else {
                match fetch.view.look(&fetch.key) {
                    MemoryLookup::Hit(fetched) => {
                        self.state = State::Done;
                        return Poll::Ready(Ok(fetched));
                    }
                    missed => Some(missed),
                }
            };
            let State::First(fetch, loader) = std::mem::replace(&mut self.state, State::Done) else {
                unreachable!("it was the first state a moment ago")
            };
            let fetch = fetch.into_owned();
            self.state = State::Slow(match looked {
                Some(missed) => Box::pin(fetch.slow(missed, loader)),
                None => Box::pin(fetch.forced(loader)),
            });
        }
        let State::Slow(slow) = &mut self.state else { panic!("a fetch was polled after it had ended") };
        let polled = slow.as_mut().poll(context);
        if polled.is_ready() {
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
    /// Loads although there may be a value, or without any cache.
    async fn forced<L: Loader<V, E>>(self, loader: L) -> Outcome<V, E> {
        if self.view.is_off() {
            return self.uncached(loader).await;
        }
        let looked = self.view.look_to_replace(&self.key);
        self.slow(looked, loader).await
    }

    /// Leads the load or waits for it, until there is an outcome.
    async fn slow<L: Loader<V, E>>(self, mut looked: MemoryLookup<V>, loader: L) -> Outcome<V, E> {
        let policy = self.resolved();
        loop {
            looked = match looked {
                MemoryLookup::Hit(fetched) => return Ok(fetched),
                MemoryLookup::Lead { ticket, held } => {
                    let (want, answered) = Want::new(self.view.redis_key(&self.key), ticket, held);
                    let span = tracing::debug_span!("larder.fetch", cache = self.view.cache.namespace());
                    tokio::spawn(self.lead(want, loader).instrument(span));
                    return answered.await.unwrap_or(Err(FetchError::Dropped));
                }
                MemoryLookup::Follow(followed) => {
                    match follow(&self.view, &policy, &self.key, followed).await {
                        Ok(outcome) => return outcome,
                        Err(next) => next.unwrap_or_else(|| self.view.look(&self.key)),
                    }
                }
            };
        }
    }

    /// Looks into Redis, then loads, and settles the ticket.
    async fn lead<L: Loader<V, E>>(self, want: Want<V, E>, loader: L) {
        let policy = self.resolved();
        let tags = self.wishes.map_or_else(Vec::new, |wishes| wishes.tags);
        let flight = Flight { view: self.view.into_owned(), policy, tags, force: self.force };
        let mut wants = [want];
        flight.look(&mut wants).await;
        if !wants[0].is_open() {
            return;
        }
        let cx = flight.context(&wants[0]);
        let began = Instant::now();
        let loading = load::run(|| loader.begin(cx.clone()), flight.policy.hard_timeout);
        let loaded = flight.wait(&mut wants, loading).await;
        let [want] = wants;
        match loaded {
            Ok(loaded) => flight.land(vec![(want, loaded)], &cx.said(), began).await,
            Err(why) => flight.fail(vec![want], no_value(why)).await,
        }
    }

    /// A fetch with the cache turned off: every caller loads.
    async fn uncached<L: Loader<V, E>>(self, loader: L) -> Outcome<V, E> {
        let policy = self.resolved();
        let loaded = load::run(|| loader.begin(LoadCx::new(None)), policy.hard_timeout).await;
        match loaded.map_err(no_value)? {
            Loaded::New(value) => Ok(self.view.unkept(value)),
            Loaded::NotModified => Err(FetchError::NothingToKeep),
        }
    }
}

/// Waits for somebody else's load; where that brings nothing this caller can use, says what to do next, or to look
/// again.
async fn follow<V, E>(
    view: &Shared<V>,
    policy: &Policy,
    key: &KeyBuf,
    Followed { mut follower, held, since, epoch }: Followed,
) -> Result<Outcome<V, E>, Option<MemoryLookup<V>>>
where
    V: Send + Sync + 'static,
    E: Send + Sync + 'static,
{
    let counts = &view.cache.inner.counts;
    // What memory has past its time is at hand; what is suspect is not.
    let stale = held.as_ref().filter(|held| !held.suspect).map(|held| held.entry.clone());
    let limit = match &stale {
        Some(_) => policy.soft_timeout.or(policy.hard_timeout),
        None => policy.hard_timeout,
    };
    let followed = match limit {
        None => follower.await,
        Some(limit) => tokio::select! {
            biased;
            followed = &mut follower => followed,
            () = sleep(limit) => {
                let stale = stale.and_then(|stale| view.fetched(stale, Source::Stale, true));
                counts.stale.add(u64::from(stale.is_some()));
                return Ok(stale.ok_or(FetchError::Timeout));
            }
        },
    };
    match followed {
        FollowOutcome::Lead(ticket) => Err(Some(view.leads(key, ticket, held))),
        FollowOutcome::Value(entry) if view.may_have(&entry, since, epoch) => {
            let source = if entry.facts().stale { Source::Stale } else { Source::Memory };
            match view.fetched(entry, source, true) {
                Some(fetched) => {
                    counts.coalesced.add(1);
                    Ok(Ok(fetched))
                }
                None => Err(None),
            }
        }
        FollowOutcome::Value(_) => Err(None),
        FollowOutcome::Failed(failure) => match failure.downcast_ref::<FetchError<E>>() {
            Some(error) => {
                counts.coalesced.add(1);
                Ok(Err(error.clone()))
            }
            // A view of the same name with another type of error failed: that says nothing to this caller.
            None => Err(None),
        },
    }
}

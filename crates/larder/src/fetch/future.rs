//! A fetch with its loader: a hit in the first poll, or a load in a task of its own.

use super::load_batch::{LoadBatch, fetch_error};
use super::loader::{self, BoxedLoader, LoadCx, Loaded, Loader};
use super::pending_key::PendingKey;
use super::spans::{record_outcome, shared_until_end};
use super::turn::{Lead, Turn};
use super::waiting::{Call, answer_or_stale};
use super::{Fetch, Outcome};
use crate::node::fetched::Fetched;
use crate::node::lookup::MemoryLookup;
use crate::report::error::FetchError;
use larder_engine::fork::Process;
use std::pin::Pin;
use std::task::{Context, Poll};
use tokio::time::Instant;
use tracing::Instrument;

/// A fetch with its loader. The first poll looks up memory. On a miss it boxes the rest.
#[must_use = "futures do nothing unless they are awaited"]
pub struct FetchFuture<'v, V, E, L> {
    state: State<'v, V, E, L>,
}

#[allow(clippy::large_enum_variant, reason = "a box would cost each hit an allocation")]
enum State<'v, V, E, L> {
    Start(Fetch<'v, V, E>, L),
    /// And the process that its load runs in.
    Slow(Process, Slow<V, E>),
    Done,
}

type Slow<V, E> = Pin<Box<dyn Future<Output = Outcome<V, E>> + Send>>;

impl<'v, V, E, L> FetchFuture<'v, V, E, L> {
    pub(super) fn new(fetch: Fetch<'v, V, E>, loader: L) -> Self {
        FetchFuture { state: State::Start(fetch, loader) }
    }

    /// Loads a value again that is due, in a task. The fetch has its answer.
    #[cold]
    fn load_ahead(&mut self, due: &Fetched<V>)
    where
        V: Send + Sync + 'static,
        E: Send + Sync + 'static,
        L: Loader<V, E>,
    {
        if let State::Start(fetch, loader) = std::mem::replace(&mut self.state, State::Done) {
            fetch.into_owned().load_ahead(due, Box::new(|cx| loader.start(cx)));
        }
    }
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
                        if fetched.state().is_loaded_ahead() && fetch.is_due(&fetched) {
                            self.load_ahead(&fetched);
                        }
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
            let slow = fetch.into_owned().slow(lookup, Box::new(|cx| loader.start(cx)));
            self.state = State::Slow(process, slow);
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
    /// The rest of a fetch that is no hit, where its tasks are.
    fn slow(self, lookup: Option<MemoryLookup<V>>, loader: BoxedLoader<V, E>) -> Slow<V, E> {
        let (tasks, span) = (self.view.node().tasks.clone(), self.view.fetch_span());
        let recorded = span.clone();
        let fetching = async move {
            let outcome = tasks.within(self.lead_or_follow(lookup, loader)).await;
            record_outcome(&recorded, &outcome);
            outcome
        };
        Box::pin(fetching.instrument(span))
    }

    /// Leads or follows loads of the key until there is an outcome. Without a lookup it begins with one.
    async fn lead_or_follow(
        self,
        lookup: Option<MemoryLookup<V>>,
        loader: BoxedLoader<V, E>,
    ) -> Outcome<V, E> {
        let node = self.view.node();
        node.check_open_for_fetch()?;
        if node.is_off() {
            return self.uncached(loader).await;
        }
        let call = Call::start(self.resolved_policy(), self.refresh);
        let Lead { ticket, candidate, overtakes } = match self.turn(&call, lookup).await? {
            Turn::Answer(fetched) => return Ok(fetched),
            Turn::Lead(lead) => lead,
        };
        let (view, key) = (self.view.clone(), self.key.clone());
        let (mut pending, answer) = PendingKey::new(view.redis_key(&key), ticket, candidate.clone());
        pending.overtakes = overtakes;
        let (reason, (span, shared)) = (self.reason(), view.load_span(&key));
        let loading = self.into_batch(call, reason).lookup_and_load(pending, loader);
        tokio::spawn(shared_until_end(loading, shared).instrument(span));
        let answered = answer_or_stale(&view, &call, &key, candidate, answer).await?;
        Ok(answered.expect("only a bulk loader leaves a key out"))
    }

    /// Loads while no tier answers: every caller loads.
    async fn uncached(self, loader: BoxedLoader<V, E>) -> Outcome<V, E> {
        let policy = self.resolved_policy();
        let loaded = loader::run(|| loader(LoadCx::new(None)), policy.hard_timeout).await;
        match loaded.map_err(fetch_error)? {
            Loaded::New(value) => Ok(self.view.node().unstored(value)),
            Loaded::NotModified => Err(FetchError::NoStaleValue),
        }
    }
}

impl<V> LoadBatch<V>
where
    V: Send + Sync + 'static,
{
    /// Looks up Redis, then loads, and ends the ticket.
    pub(super) async fn lookup_and_load<E: Send + Sync + 'static>(
        self,
        pending: PendingKey<V, E>,
        loader: BoxedLoader<V, E>,
    ) {
        let mut keys = [pending];
        self.lookup(&mut keys).await;
        if !keys[0].is_open() {
            return;
        }
        let cx = self.context(&keys[0]);
        let started = Instant::now();
        let loading = loader::run(|| loader(cx.clone()), self.call.policy.hard_timeout);
        let loaded = self.await_load(&mut keys, loading).await;
        let [pending] = keys;
        match loaded {
            Ok(loaded) => self.complete(vec![(pending, loaded, cx.options())], started).await,
            Err(failure) => self.fail(vec![pending], fetch_error(failure)).await,
        }
    }
}

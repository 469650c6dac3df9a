//! A load by the caller of a fetch, for code that no loader may run elsewhere: it needs the thread, the transaction or the
//! interpreter of its caller.

use super::held_load::HeldLoad;
use super::load_batch::LoadBatch;
use super::loader::{LoadCx, Loaded};
use super::pending_key::PendingKey;
use super::spans::shared_until_end;
use super::turn::{Lead, Turn};
use super::view_state::ViewState;
use super::waiting::{Call, servable};
use super::{BulkOutcome, Fetch, Outcome};
use crate::node::fetched::Fetched;
use crate::node::lookup::MemoryLookup;
use crate::report::error::FetchError;
use std::sync::Arc;
use tokio::sync::oneshot::error::TryRecvError;
use tokio::sync::{Notify, oneshot};
use tokio::time::{Instant, sleep_until};
use tracing::Instrument;

/// The result of [`Fetch::lease`].
#[derive(Debug)]
#[allow(clippy::large_enum_variant, reason = "a lease is moved once, and a hit needs no allocation")]
pub enum Leased<V, E>
where
    V: Send + Sync + 'static,
    E: Send + Sync + 'static,
{
    /// A value: from a tier, from the load of another caller, or a stale one that is served instead of a load.
    Hit(Fetched<V>),
    /// The caller loads.
    Lead(LoadLease<V, E>),
}

/// The right to load a key, on this node and on all others. Its callers wait for it: those of [`Fetch::load`] as well as those
/// of [`Fetch::lease`]. End it with [`complete`](LoadLease::complete) or [`fail`](LoadLease::fail).
///
/// Dropping it gives the load up and fails nobody: the next caller leads, here or on another node. The lease in Redis is renewed
/// as long as this exists. After the [`hard_timeout`](crate::Policy::hard_timeout) it is void: callers that wait go on as if the
/// load had failed, and what it completes with reaches its own caller only.
///
/// Nothing notices that a load waits for its own key: code that leads must not fetch that key.
///
/// # Examples
/// ```
/// use larder::{Cache, Leased, View};
/// use std::time::Duration;
///
/// # tokio::runtime::Runtime::new()?.block_on(async {
/// let cache = Cache::builder("shop").ttl(Duration::from_secs(60)).build()?;
/// let stock: View<str, u32> = cache.view("stock");
///
/// let apples = match stock.fetch("apple").lease().await? {
///     Leased::Hit(apples) => apples,
///     Leased::Lead(lease) => {
///         lease.cx().tag("fruit");
///         // Whatever code runs here, it runs in this caller.
///         lease.complete(3).await?
///     }
/// };
/// assert_eq!(*apples, 3);
/// assert!(matches!(stock.fetch("apple").lease().await?, Leased::Hit(_)));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// # })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[must_use = "dropping a lease gives up the load"]
pub struct LoadLease<V, E>
where
    V: Send + Sync + 'static,
    E: Send + Sync + 'static,
{
    load: LeasedLoad<V, E>,
    cx: LoadCx<V>,
}

/// Where the value of a lease goes.
enum LeasedLoad<V, E>
where
    V: Send + Sync + 'static,
    E: Send + Sync + 'static,
{
    /// To the tiers, and to those who wait.
    Held { load: HeldLoad<V, E>, answer: oneshot::Receiver<BulkOutcome<V, E>>, started: Instant },
    /// To the caller alone: the cache is off.
    Uncached(Arc<ViewState<V>>),
}

impl<V, E> Fetch<'_, V, E>
where
    V: Send + Sync + 'static,
    E: Send + Sync + 'static,
{
    /// The value, or the right to load it in this caller instead of in a loader. Options and tiers are those of
    /// [`Fetch::load`], and both join: at any time one caller loads the key.
    ///
    /// A caller with a stale value waits for others no longer than its [`soft_timeout`](crate::Policy::soft_timeout). One that
    /// leads gets the lease at once: it may answer with [`LoadCx::stale`] and load afterwards.
    ///
    /// Cancel safe: a lease that is put for a dropped call is released. Cost: that of [`Fetch::load`].
    ///
    /// # Errors
    /// What another caller's load failed with, if there is no stale value. The failure of Redis is none.
    ///
    /// # Panics
    /// Outside a tokio runtime, unless memory has the value or the cache has [its own](crate::Builder::runtime).
    pub async fn lease(self) -> Result<Leased<V, E>, FetchError<E>> {
        let node = self.view.node();
        node.check_open_for_fetch()?;
        let mut lookup = None;
        if !self.refresh && !node.is_off() {
            match node.lookup(&self.view.config, &self.key) {
                MemoryLookup::Hit(fetched) => {
                    fetched.note_freshness();
                    return Ok(Leased::Hit(fetched));
                }
                missed => lookup = Some(missed),
            }
        }
        let (tasks, owned) = (node.tasks.clone(), self.into_owned());
        let leased = tasks.within(owned.lease_after(lookup)).await;
        if let Ok(Leased::Hit(fetched)) = &leased {
            fetched.note_freshness();
        }
        leased
    }
}

impl<V, E> Fetch<'static, V, E>
where
    V: Send + Sync + 'static,
    E: Send + Sync + 'static,
{
    async fn lease_after(self, lookup: Option<MemoryLookup<V>>) -> Result<Leased<V, E>, FetchError<E>> {
        if self.view.node().is_off() {
            let view = self.view.into_owned();
            let lease = LoadLease { load: LeasedLoad::Uncached(view), cx: LoadCx::new(None) };
            return Ok(Leased::Lead(lease));
        }
        let call = Call::start(self.resolved_policy(), self.refresh);
        let Lead { ticket, candidate, overtakes } = match self.turn(&call, lookup).await? {
            Turn::Answer(fetched) => return Ok(Leased::Hit(fetched)),
            Turn::Lead(lead) => lead,
        };
        let (view, key) = (self.view.clone(), self.key.clone());
        let (mut pending, answer) = PendingKey::new(view.redis_key(&key), ticket, candidate.clone());
        pending.overtakes = overtakes;
        if view.node().redis.is_none() {
            let reason = self.reason();
            return lease_one(self.into_batch(call, reason), pending, answer).await;
        }
        let elsewhere = Arc::new(Notify::new());
        let reason = self.reason();
        let batch = LoadBatch { elsewhere: Some(elsewhere.clone()), ..self.into_batch(call, reason) };
        let (leased, mut waiting) = oneshot::channel();
        let (span, shared) = view.load_span(&key);
        // In a task: whoever stops polling this does not hold up its followers. A lease that nobody waits for is given up.
        let leasing = async move { _ = leased.send(lease_one(batch, pending, answer).await) };
        tokio::spawn(shared_until_end(leasing, shared).instrument(span));
        let stale = candidate.zip(call.soft_end());
        if let Some((candidate, soft_end)) = stale {
            let is_slow_elsewhere = async {
                elsewhere.notified().await;
                sleep_until(soft_end).await;
            };
            tokio::select! {
                biased;
                leased = &mut waiting => return leased.unwrap_or(Err(FetchError::Dropped)),
                () = is_slow_elsewhere => {}
            }
            if let Some(stale) = servable(&view, &candidate, false) {
                view.node().observers.served_stale(&view.redis_key(&key));
                return Ok(Leased::Hit(stale));
            }
        }
        waiting.await.unwrap_or(Err(FetchError::Dropped))
    }
}

/// Looks up Redis. What it cannot answer is leased.
async fn lease_one<V, E>(
    batch: LoadBatch<V>,
    pending: PendingKey<V, E>,
    mut answer: oneshot::Receiver<BulkOutcome<V, E>>,
) -> Result<Leased<V, E>, FetchError<E>>
where
    V: Send + Sync + 'static,
    E: Send + Sync + 'static,
{
    let mut keys = vec![pending];
    batch.lookup(&mut keys).await;
    if !keys[0].is_open() {
        return answered(answer.try_recv()).map(Leased::Hit);
    }
    let cx = batch.context(&keys[0]);
    let load = LeasedLoad::Held { load: HeldLoad::new(batch, keys), answer, started: Instant::now() };
    Ok(Leased::Lead(LoadLease { load, cx }))
}

impl<V, E> LoadLease<V, E>
where
    V: Send + Sync + 'static,
    E: Send + Sync + 'static,
{
    /// The options of the value, and the stale value. An invalidation of a tag since the start of the lease also invalidates
    /// the value, whenever the tag is added.
    pub fn cx(&self) -> &LoadCx<V> {
        &self.cx
    }

    /// Stores the value in both tiers and answers those who wait. [`Loaded::NotModified`] makes the stale value fresh again.
    ///
    /// Callers get the value whether it can be stored or not. It is stored in no tier if the key was invalidated since the
    /// start of the lease.
    ///
    /// The store continues if the caller is dropped. Cost: one round trip to Redis.
    ///
    /// # Errors
    /// [`FetchError::NoStaleValue`]; [`FetchError::Dropped`] if the runtime shuts down.
    ///
    /// # Panics
    /// As [`Fetch::lease`], if the cache has Redis.
    pub async fn complete(self, loaded: impl Into<Loaded<V>>) -> Outcome<V, E> {
        let (loaded, options) = (loaded.into(), self.cx.options());
        let uncached = |view: &ViewState<V>, loaded| match loaded {
            Loaded::New(value) => Ok(view.node().unstored(value)),
            Loaded::NotModified => Err(FetchError::NoStaleValue),
        };
        let outcome = match self.load {
            LeasedLoad::Uncached(view) => uncached(&view, loaded),
            LeasedLoad::Held { load, .. } if load.is_inherited() => Err(FetchError::Forked),
            LeasedLoad::Held { mut load, mut answer, started } => match load.end() {
                Some(mut keys) => {
                    let loads = keys.pop().map(|pending| (pending, loaded, options)).into_iter().collect();
                    let batch = load.batch().clone();
                    load.finish(async move { batch.complete(loads, started).await }).await;
                    answered(answer.try_recv())
                }
                None => uncached(&load.batch().view, loaded),
            },
        };
        outcome.iter().for_each(Fetched::note_freshness);
        outcome
    }

    /// Ends the load with an error, which those who wait get too. A stale value within its grace period is served instead, to
    /// this caller as well.
    ///
    /// The end continues if the caller is dropped. Cost: one round trip to Redis, for the release of the lease.
    ///
    /// # Errors
    /// The error, if there is no stale value.
    ///
    /// # Panics
    /// As [`LoadLease::complete`].
    pub async fn fail(self, error: E) -> Outcome<V, E> {
        let error = FetchError::Load(Arc::new(error));
        let outcome = match self.load {
            LeasedLoad::Uncached(_) => Err(error),
            LeasedLoad::Held { load, .. } if load.is_inherited() => Err(FetchError::Forked),
            LeasedLoad::Held { mut load, mut answer, .. } => match load.end() {
                Some(keys) => {
                    let batch = load.batch().clone();
                    load.finish(async move { batch.fail(keys, error).await }).await;
                    answered(answer.try_recv())
                }
                // The stale value, if it was served after the hard timeout.
                None => answered(answer.try_recv()).map_err(|_| error),
            },
        };
        outcome.iter().for_each(Fetched::note_freshness);
        outcome
    }
}

/// What the caller of an ended load gets.
fn answered<V, E>(answer: Result<BulkOutcome<V, E>, TryRecvError>) -> Outcome<V, E> {
    let answer = answer.unwrap_or(Err(FetchError::Dropped))?;
    Ok(answer.expect("only a bulk loader leaves a key out"))
}

impl<V, E> std::fmt::Debug for LoadLease<V, E>
where
    V: Send + Sync + 'static,
    E: Send + Sync + 'static,
{
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("LoadLease").field("cx", &self.cx).finish_non_exhaustive()
    }
}

//! A load of many keys by the caller of a fetch.

use super::BulkOutcome;
use super::bulk_loader::{LoadedValues, by_key, with_absent};
use super::held_load::{HeldLoad, give_up};
use super::load_batch::LoadBatch;
use super::loader::BulkCx;
use super::multi_call::{AwaitedKey, Followed, MultiCall, Round};
use super::pending_key::PendingKey;
use crate::coherence::Coordinator;
use crate::key::{CacheKey, KeyBuf};
use crate::report::error::FetchError;
use std::borrow::Borrow;
use std::collections::HashMap;
use std::sync::Arc;
use tokio::time::Instant;

/// The result of [`FetchMulti::lease`](crate::FetchMulti::lease), and of the end of a load.
#[allow(clippy::large_enum_variant, reason = "it is moved once in each round")]
pub enum BulkLeased<K, V, E>
where
    K: CacheKey + ToOwned + ?Sized + 'static,
    K::Owned: Send + 'static,
    V: Send + Sync + 'static,
    E: Send + Sync + 'static,
{
    /// One outcome for each key, in the order of the keys, duplicates included; see
    /// [`FetchMulti::load`](crate::FetchMulti::load).
    Done(Vec<BulkOutcome<V, E>>),
    /// The caller loads.
    Lead(BulkLease<K, V, E>),
}

/// The right to load some of many keys; as a [`LoadLease`](crate::LoadLease) for each.
///
/// # Examples
/// ```
/// use larder::{BulkLeased, Cache, View};
/// use std::time::Duration;
///
/// # tokio::runtime::Runtime::new()?.block_on(async {
/// let cache = Cache::builder("shop").ttl(Duration::from_secs(60)).build()?;
/// let stock: View<str, u32> = cache.view("stock");
///
/// let mut leased = stock.fetch_multi(["apple", "pear"]).lease().await;
/// let outcomes = loop {
///     leased = match leased {
///         BulkLeased::Done(outcomes) => break outcomes,
///         BulkLeased::Lead(lease) => {
///             let loaded: Vec<_> = lease.keys().iter().map(|name| (name.clone(), name.len() as u32)).collect();
///             lease.complete(loaded).await
///         }
///     };
/// };
/// let outcomes: Vec<u32> = outcomes.into_iter().map(|outcome| *outcome.unwrap().unwrap()).collect();
/// assert_eq!(outcomes, [5, 4]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// # })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[must_use = "dropping a lease gives up the load"]
pub struct BulkLease<K, V, E>
where
    K: CacheKey + ToOwned + ?Sized + 'static,
    K::Owned: Send + 'static,
    V: Send + Sync + 'static,
    E: Send + Sync + 'static,
{
    call: MultiCall<K, V, E>,
    /// The keys that this caller loads, for the loader.
    keys: Vec<K::Owned>,
    cx: BulkCx<K, V>,
    /// `None` while the cache is off.
    held: Option<HeldKeys<V, E, K::Owned>>,
    started: Instant,
}

/// The loads of a lease, and those that it waits for afterwards.
struct HeldKeys<V, E, O>
where
    V: Send + Sync + 'static,
    E: Send + Sync + 'static,
{
    load: HeldLoad<V, E>,
    answers: Vec<AwaitedKey<V, E>>,
    followed: Followed<O>,
}

/// A key that this caller may load: its load, what its caller gets, and the key for the loader.
type LedKey<V, E, O> = (PendingKey<V, E>, AwaitedKey<V, E>, O);

impl<K, V, E> MultiCall<K, V, E>
where
    K: CacheKey + ToOwned + ?Sized + 'static,
    K::Owned: Send + 'static,
    V: Send + Sync + 'static,
    E: Send + Sync + 'static,
{
    /// Looks up the open keys, until there are keys to load or all have outcomes.
    pub(super) async fn lease(mut self) -> BulkLeased<K, V, E> {
        if self.view.node().is_off() {
            return BulkLeased::Lead(BulkLease::uncached(self));
        }
        while self.has_open_keys() {
            let Round { missing, answers, followed } = self.look_up_memory(|_, _, _| {});
            let missing = missing.into_iter().zip(answers);
            let led: Vec<LedKey<_, _, _>> =
                missing.map(|((pending, (_, owned)), awaited)| (pending, awaited, owned)).collect();
            if !led.is_empty() {
                let batch = self.batch();
                let tasks = self.view.node().tasks.clone();
                // In a task: whoever stops polling this does not hold up its followers.
                let Some((batch, found)) = tasks.run(look_up(batch, led)).await else {
                    self.fail_rest(&FetchError::Dropped);
                    return BulkLeased::Done(self.into_outcomes());
                };
                let led = self.sort(found.take());
                if !led.is_empty() {
                    return BulkLeased::Lead(BulkLease::new(self, batch, led, followed));
                }
            }
            self.follow(followed).await;
        }
        BulkLeased::Done(self.into_outcomes())
    }

    /// Keeps the keys that this caller loads. Others are answered, or open for the next round, in which the load of another
    /// node has ended.
    fn sort(&mut self, led: Vec<LedKey<V, E, K::Owned>>) -> Vec<LedKey<V, E, K::Owned>> {
        let (mut here, mut given_up) = (Vec::new(), Vec::new());
        let loads_here = led.iter().any(|(pending, ..)| is_loaded_here(pending));
        for (pending, mut awaited, owned) in led {
            match awaited.answer.try_recv() {
                Ok(outcome) => {
                    self.set_outcome(awaited.key, outcome);
                    given_up.push(pending);
                }
                Err(_) if !pending.is_open() => self.set_outcome(awaited.key, Err(FetchError::Dropped)),
                Err(_) if loads_here && pending.is_loaded_elsewhere() => {
                    self.reopen(awaited.key, owned);
                    given_up.push(pending);
                }
                Err(_) => here.push((pending, awaited, owned)),
            }
        }
        give_up(&self.view.coordinator, given_up);
        here
    }
}

/// The keys of a lookup that has ended, on their way to their caller: if that has left, they are given up.
struct LookedUp<V, E, O>
where
    V: Send + Sync + 'static,
    E: Send + Sync + 'static,
{
    coordinator: Arc<Coordinator>,
    led: Vec<LedKey<V, E, O>>,
}

impl<V, E, O> LookedUp<V, E, O>
where
    V: Send + Sync + 'static,
    E: Send + Sync + 'static,
{
    fn take(mut self) -> Vec<LedKey<V, E, O>> {
        std::mem::take(&mut self.led)
    }
}

impl<V, E, O> Drop for LookedUp<V, E, O>
where
    V: Send + Sync + 'static,
    E: Send + Sync + 'static,
{
    fn drop(&mut self) {
        let left = std::mem::take(&mut self.led).into_iter().map(|(pending, ..)| pending).collect();
        give_up(&self.coordinator, left);
    }
}

/// Looks up Redis. If other nodes load all that it does not have, waits for them.
async fn look_up<V, E, O>(batch: LoadBatch<V>, led: Vec<LedKey<V, E, O>>) -> (LoadBatch<V>, LookedUp<V, E, O>)
where
    V: Send + Sync + 'static,
    E: Send + Sync + 'static,
{
    let (mut keys, rest): (Vec<_>, Vec<_>) =
        led.into_iter().map(|(pending, awaited, owned)| (pending, (awaited, owned))).unzip();
    batch.lookup(&mut keys).await;
    // The lookup of one key has waited.
    if keys.len() > 1 && !keys.iter().any(is_loaded_here) {
        batch.await_other_nodes(&mut keys).await;
    }
    let led = keys.into_iter().zip(rest).map(|(pending, (awaited, owned))| (pending, awaited, owned));
    let found = LookedUp { coordinator: batch.view.coordinator.clone(), led: led.collect() };
    (batch, found)
}

fn is_loaded_here<V, E>(pending: &PendingKey<V, E>) -> bool {
    pending.is_open() && !pending.is_loaded_elsewhere()
}

impl<K, V, E> BulkLease<K, V, E>
where
    K: CacheKey + ToOwned + ?Sized + 'static,
    K::Owned: Send + 'static,
    V: Send + Sync + 'static,
    E: Send + Sync + 'static,
{
    fn new(
        call: MultiCall<K, V, E>,
        batch: LoadBatch<V>,
        led: Vec<LedKey<V, E, K::Owned>>,
        followed: Followed<K::Owned>,
    ) -> Self {
        let (mut pending, mut answers, mut keys) = (Vec::new(), Vec::new(), Vec::new());
        for (key, awaited, owned) in led {
            pending.push(key);
            answers.push(awaited);
            keys.push(owned);
        }
        let led = answers.iter().map(|awaited: &AwaitedKey<V, E>| awaited.key.clone());
        let cx = batch.bulk_context(led.zip(&pending));
        let held = HeldKeys { load: HeldLoad::new(batch, pending), answers, followed };
        BulkLease { call, keys, cx, held: Some(held), started: Instant::now() }
    }

    fn uncached(mut call: MultiCall<K, V, E>) -> Self {
        let keys = call.take_open().into_iter().map(|(_, owned)| owned).collect();
        BulkLease { call, keys, cx: BulkCx::new(HashMap::new()), held: None, started: Instant::now() }
    }

    /// The keys to load, sorted by their bytes.
    pub fn keys(&self) -> &[K::Owned] {
        &self.keys
    }

    /// The options of the values, and the stale value of each key.
    pub fn cx(&self) -> &BulkCx<K, V> {
        &self.cx
    }

    /// Stores the values in both tiers and answers those who wait, then waits for the keys that others load. What those do not
    /// load is leased to this caller: complete it again.
    ///
    /// A key without a value has none, as for [`FetchMulti::load`](crate::FetchMulti::load). Values of other keys are dropped.
    ///
    /// The store continues if the caller is dropped. Cost: one round trip to Redis for each 500 keys.
    ///
    /// # Panics
    /// As [`Fetch::lease`](crate::Fetch::lease), if the cache has Redis.
    pub async fn complete(self, values: impl IntoIterator<Item = (K::Owned, V)>) -> BulkLeased<K, V, E> {
        let tasks = self.call.view.node().tasks.clone();
        tasks.within(self.complete_with(by_key::<K, V>(values))).await
    }

    async fn complete_with(self, values: LoadedValues<V>) -> BulkLeased<K, V, E> {
        let BulkLease { mut call, keys, cx, held, started } = self;
        let keys: Vec<_> = keys.iter().map(|key| KeyBuf::of(Borrow::<K>::borrow(key))).collect();
        let Some(mut held) = held else {
            call.set_unstored(keys, values);
            return BulkLeased::Done(call.into_outcomes());
        };
        if held.load.is_inherited() {
            return call.inherited();
        }
        let Some(pending) = held.load.end() else {
            // The hard timeout was over: nobody else gets these values.
            call.set_unstored(keys, values);
            return call.next_round(held.followed).await;
        };
        let values = with_absent(values, keys.iter().cloned(), call.absent.as_ref());
        let batch = held.load.batch().clone();
        let ending =
            async move { batch.complete_many(pending.into_iter().zip(keys), values, &cx, started).await };
        held.load.finish(ending).await;
        call.take_answers(held.answers);
        call.next_round(held.followed).await
    }

    /// Ends the load of these keys with an error, which those who wait get too, unless they have stale values. Then waits for
    /// the keys that others load, as [`BulkLease::complete`] does.
    ///
    /// # Panics
    /// As [`BulkLease::complete`].
    pub async fn fail(self, error: E) -> BulkLeased<K, V, E> {
        let tasks = self.call.view.node().tasks.clone();
        tasks.within(self.fail_with(FetchError::Load(Arc::new(error)))).await
    }

    async fn fail_with(self, error: FetchError<E>) -> BulkLeased<K, V, E> {
        let BulkLease { mut call, held, .. } = self;
        let Some(mut held) = held else {
            call.fail_rest(&error);
            return BulkLeased::Done(call.into_outcomes());
        };
        if held.load.is_inherited() {
            return call.inherited();
        }
        if let Some(pending) = held.load.end() {
            let batch = held.load.batch().clone();
            held.load.finish(async move { batch.fail(pending, error).await }).await;
        }
        // After the hard timeout the keys have their outcomes.
        call.take_answers(held.answers);
        call.next_round(held.followed).await
    }
}

impl<K, V, E> MultiCall<K, V, E>
where
    K: CacheKey + ToOwned + ?Sized + 'static,
    K::Owned: Send + 'static,
    V: Send + Sync + 'static,
    E: Send + Sync + 'static,
{
    /// The outcomes of an ended load.
    fn take_answers(&mut self, answers: Vec<AwaitedKey<V, E>>) {
        for AwaitedKey { key, mut answer, .. } in answers {
            self.set_outcome(key, answer.try_recv().unwrap_or(Err(FetchError::Dropped)));
        }
    }

    /// Waits for others, and leads what they did not load.
    async fn next_round(mut self, followed: Followed<K::Owned>) -> BulkLeased<K, V, E> {
        self.follow(followed).await;
        Box::pin(self.lease()).await
    }

    /// The outcomes in a forked child: the load is the parent's.
    fn inherited(mut self) -> BulkLeased<K, V, E> {
        self.fail_rest(&FetchError::Forked);
        BulkLeased::Done(self.into_outcomes())
    }
}

impl<K, V, E> std::fmt::Debug for BulkLeased<K, V, E>
where
    K: CacheKey + ToOwned + ?Sized + 'static,
    K::Owned: Send + 'static,
    V: Send + Sync + 'static,
    E: Send + Sync + 'static,
{
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            BulkLeased::Done(outcomes) => f.debug_struct("Done").field("keys", &outcomes.len()).finish(),
            BulkLeased::Lead(lease) => f.debug_tuple("Lead").field(lease).finish(),
        }
    }
}

impl<K, V, E> std::fmt::Debug for BulkLease<K, V, E>
where
    K: CacheKey + ToOwned + ?Sized + 'static,
    K::Owned: Send + 'static,
    V: Send + Sync + 'static,
    E: Send + Sync + 'static,
{
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("BulkLease").field("keys", &self.keys.len()).finish_non_exhaustive()
    }
}

//! An update by a function of the host: the value is read, the function decides in its caller, and the key is changed if it is still the
//! same. Otherwise the function decides anew.
//!
//! ```text
//!  begin ─► turn of the key ─► read Redis ──► Decide: the caller calls its function
//!                                 ▲              │ keep, put, remove
//!                                 │              ▼
//!                                 └── no ── is it still the same? ── yes ─► Done
//! ```
//!
//! Both steps are a [`View::update`] of larder, whose functions are of Rust: the first one keeps what it gets, the second one compares.
//! Equal bytes are the same value, whoever has written them: a function makes the same of both.

use super::turns::{Turn, turn_of};
use crate::cache::{HostView, StartError};
use crate::errors::{ErrorClass, HostError};
use crate::value::HostValue;
use larder::{Update, Updated, View, WriteOptions};
use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tokio::runtime::Handle;
use tokio::time::sleep;

/// How many times a function decides because others have changed the key since. Callers of this process take turns, so these are others.
const MAX_TRIES: u32 = 32;
/// The longest pause before the second try; it doubles with each further one, up to the longest of all.
const FIRST_PAUSE: Duration = Duration::from_millis(1);
const MAX_PAUSE: Duration = Duration::from_millis(64);

/// What is next for the caller of an update.
#[derive(Debug)]
#[allow(clippy::large_enum_variant, reason = "a try is moved once, and the end needs no allocation")]
pub enum UpdateStep<O, X> {
    /// It decides what becomes of a value.
    Decide(UpdateTry<O, X>),
    /// The update has ended, and this is there now. Nothing is there while the cache is off.
    Done(Option<Arc<HostValue<O>>>),
}

/// What becomes of a value.
#[derive(Debug)]
pub enum Change<O> {
    /// It stays.
    Keep,
    /// This one takes its place, with its times and tags, or with those of the update, if it has any.
    Put(HostValue<O>),
    /// It is removed.
    Remove,
}

/// A value to decide about. Dropping it leaves it as it is.
#[must_use = "dropping it changes nothing"]
pub struct UpdateTry<O, X> {
    update: HostUpdate<O, X>,
    found: Option<Arc<HostValue<O>>>,
}

/// What the tries of an update share.
struct HostUpdate<O, X> {
    view: View<[u8], HostValue<O>, X>,
    runtime: Handle,
    key: Vec<u8>,
    options: Option<WriteOptions>,
    tries: u32,
    _turn: Turn,
}

impl<O, X> HostView<O, X>
where
    O: Send + Sync + 'static,
    X: Send + Sync + 'static,
{
    /// Begins an update of a key. Without options a value keeps the times and tags of the one that it replaces, and has those of the
    /// view where there is none.
    ///
    /// # Errors
    /// As [`HostCache::cache`](crate::HostCache::cache). The future: as [`View::update`], if Redis could not be read.
    pub fn update(
        &self,
        key: Vec<u8>,
        options: Option<WriteOptions>,
    ) -> Result<impl Future<Output = Result<UpdateStep<O, X>, HostError>> + Send + use<O, X>, StartError>
    {
        let (view, runtime) = (self.get()?.clone(), self.cache().runtime()?.clone());
        Ok(async move {
            let _turn = turn_of(view.inspect(&key).redis_key, &runtime).await;
            let update = HostUpdate { view, runtime, key, options, tries: 0, _turn };
            update.read().await
        })
    }
}

impl<O, X> HostUpdate<O, X>
where
    O: Send + Sync + 'static,
    X: Send + Sync + 'static,
{
    async fn read(self) -> Result<UpdateStep<O, X>, HostError> {
        let is_on = Arc::new(AtomicBool::new(false));
        let called = is_on.clone();
        let kept = self.view.update(&self.key[..], move |_| {
            called.store(true, Ordering::Relaxed);
            Update::Keep
        });
        let Updated { value, .. } = kept.await?;
        if !is_on.load(Ordering::Relaxed) {
            return Ok(UpdateStep::Done(None));
        }
        let found = value.map(larder::Fetched::into_arc);
        Ok(UpdateStep::Decide(UpdateTry { update: self, found }))
    }

    /// Pauses before a further try, at random, so that nodes do not meet again.
    async fn pause(&self) {
        let longest = (FIRST_PAUSE * (1 << self.tries.min(6))).min(MAX_PAUSE);
        let share = RandomState::new().hash_one(self.tries) as f64 / u64::MAX as f64;
        // The caller may be no thread of the runtime.
        let pause = longest.mul_f64(share);
        _ = self.runtime.spawn(async move { sleep(pause).await }).await;
    }
}

impl<O, X> UpdateTry<O, X>
where
    O: Send + Sync + 'static,
    X: Send + Sync + 'static,
{
    /// The value. `None` if there is none, or one that somebody has moved to this key.
    pub fn value(&self) -> Option<&Arc<HostValue<O>>> {
        self.found.as_ref().filter(|found| found.payload(&self.update.key).is_some())
    }

    /// The key.
    pub fn key(&self) -> &[u8] {
        &self.update.key
    }

    /// Does it, unless the key has changed since.
    ///
    /// # Errors
    /// As [`View::update`]. Of class [`Contended`](ErrorClass::Contended), if others came first each time: nothing has changed.
    pub async fn decide(mut self, change: Change<O>) -> Result<UpdateStep<O, X>, HostError> {
        let is_readable = self.value().is_some();
        let UpdateTry { found, update } = &mut self;
        if matches!(change, Change::Keep) {
            return Ok(UpdateStep::Done(found.take().filter(|_| is_readable)));
        }
        let (options, is_same) = (update.options.clone(), Arc::new(AtomicBool::new(true)));
        let (same, seen) = (is_same.clone(), found.take());
        let changed = update.view.update(&update.key[..], move |now| {
            let still = now.map(HostValue::stored) == seen.as_deref().map(HostValue::stored);
            same.store(still, Ordering::Relaxed);
            match (&change, &options) {
                _ if !still => Update::Keep,
                (Change::Keep, _) => Update::Keep,
                (Change::Remove, _) => Update::Remove,
                (Change::Put(value), None) if is_readable => Update::Put(value.copy()),
                (Change::Put(value), options) => {
                    Update::PutWith(value.copy(), options.clone().unwrap_or_else(WriteOptions::new))
                }
            }
        });
        let value = changed.await?.value.map(larder::Fetched::into_arc);
        if is_same.load(Ordering::Relaxed) {
            return Ok(UpdateStep::Done(value));
        }
        update.tries += 1;
        if update.tries == MAX_TRIES {
            let key = String::from_utf8_lossy(&update.key);
            let message =
                format!("others have changed key {key:?} each of {MAX_TRIES} times before it was updated");
            return Err(HostError::new(ErrorClass::Contended, message));
        }
        update.pause().await;
        // What is there now may be newer than what was compared.
        self.update.read().await
    }
}

impl<O, X> std::fmt::Debug for UpdateTry<O, X> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("UpdateTry").field("tries", &self.update.tries).finish_non_exhaustive()
    }
}

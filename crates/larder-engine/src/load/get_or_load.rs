//! Read-through in one call: look up, and load on a miss, once for all callers.

use super::flight::FlightOutcome;
use super::{FollowOutcome, Leader, Load, Ticket};
use crate::cache::Cache;
use crate::entry::Ttl;
use crate::sync::thread_local;
use std::cell::Cell;
use std::convert::Infallible;
use std::future::Future;
use std::hash::Hash;
use std::sync::Arc;
use std::time::Duration;

impl<K: Hash + Eq + Clone, V: Clone> Cache<K, V> {
    /// The value of `key`, loaded by `loader` on a miss, at most once at a time.
    ///
    /// Callers of this function wait for each other. They do not wait for a load that was begun with [`Cache::load`], which
    /// may belong to a task that needs this very thread: they load for themselves, and the first value that is valid when
    /// it comes is stored. `loader` runs without any lock. If it in turn loads its own key, or another key of any cache, it
    /// does not wait for other loads either: two loaders that need each other's key would wait for ever. This covers only
    /// its own thread. A loader must not wait for another thread that asks for the same key, nor for a thread whose loader
    /// waits for this one.
    ///
    /// # Errors
    /// The error of `loader`, of this call or of the call that it waited for.
    ///
    /// # Panics
    /// If `loader` panics; the callers that waited then load for themselves.
    pub fn get_or_load<E>(&self, key: &K, loader: impl FnOnce() -> Result<V, E>) -> Result<V, E>
    where
        E: Clone + Send + Sync + 'static,
    {
        self.get_or_load_within(key, None, || Ok((loader()?, Ttl::Default)))
    }

    /// As [`Cache::get_or_load`], with a loader that also says how long its value lives.
    ///
    /// # Errors
    /// As [`Cache::get_or_load`].
    ///
    /// # Panics
    /// As [`Cache::get_or_load`].
    pub fn get_or_load_with_ttl<E>(
        &self,
        key: &K,
        loader: impl FnOnce() -> Result<(V, Ttl), E>,
    ) -> Result<V, E>
    where
        E: Clone + Send + Sync + 'static,
    {
        self.get_or_load_within(key, None, loader)
    }

    /// As [`Cache::get_or_load`], but it waits for the load of another caller at most for `limit` of real time. Then it
    /// loads for itself, and the first value that is valid when it comes is stored.
    ///
    /// # Errors
    /// As [`Cache::get_or_load`].
    ///
    /// # Panics
    /// As [`Cache::get_or_load`].
    pub fn get_or_load_timeout<E>(
        &self,
        key: &K,
        limit: Duration,
        loader: impl FnOnce() -> Result<V, E>,
    ) -> Result<V, E>
    where
        E: Clone + Send + Sync + 'static,
    {
        self.get_or_load_within(key, Some(limit), || Ok((loader()?, Ttl::Default)))
    }

    /// As [`Cache::get_or_load`], with a loader that cannot fail.
    ///
    /// # Panics
    /// As [`Cache::get_or_load`].
    pub fn get_or_insert_with(&self, key: &K, loader: impl FnOnce() -> V) -> V {
        let loaded: Result<V, Infallible> = self.get_or_load(key, || Ok(loader()));
        match loaded {
            Ok(value) => value,
            Err(never) => match never {},
        }
    }

    /// As [`Cache::get_or_load`] for asynchronous callers, on any runtime: `loader` is awaited by the caller that leads.
    ///
    /// The callers wait for every load of the key, however it was begun. So a loader must not ask for its own key, and two
    /// loaders must not ask for each other's, nor wait for a task or a thread that does.
    ///
    /// # Errors
    /// The error of `loader`, of this call or of the call that it waited for.
    ///
    /// # Panics
    /// If `loader` panics; one of the callers that waited then leads.
    ///
    /// # Cancel safety
    /// A call that is dropped stores nothing. If it was the leader, one of the callers that waited leads.
    pub async fn get_or_load_async<E, F>(&self, key: &K, loader: impl FnOnce() -> F) -> Result<V, E>
    where
        E: Clone + Send + Sync + 'static,
        F: Future<Output = Result<V, E>>,
    {
        let loader = || async { Ok((loader().await?, Ttl::Default)) };
        self.get_or_load_async_with_ttl(key, loader).await
    }

    /// As [`Cache::get_or_load_async`], with a loader that also says how long its value lives.
    ///
    /// # Errors
    /// As [`Cache::get_or_load_async`].
    ///
    /// # Panics
    /// As [`Cache::get_or_load_async`].
    ///
    /// # Cancel safety
    /// As [`Cache::get_or_load_async`].
    pub async fn get_or_load_async_with_ttl<E, F>(&self, key: &K, loader: impl FnOnce() -> F) -> Result<V, E>
    where
        E: Clone + Send + Sync + 'static,
        F: Future<Output = Result<(V, Ttl), E>>,
    {
        let mut load = self.load(key);
        let ticket = loop {
            match load {
                Load::Hit(value) => return Ok(value),
                Load::Lead(ticket) => break ticket,
                Load::Follow(follower) => match follower.await {
                    FollowOutcome::Value(value) => return Ok(value),
                    FollowOutcome::Lead(ticket) => break ticket,
                    FollowOutcome::Failed(why) => {
                        if let Some(error) = why.downcast_ref::<E>() {
                            return Err(error.clone());
                        }
                    }
                },
            }
            // The call is one read, and has missed.
            load = self.load_after_miss(key);
        };
        settle(ticket, loader().await)
    }

    fn get_or_load_within<E>(
        &self,
        key: &K,
        limit: Option<Duration>,
        loader: impl FnOnce() -> Result<(V, Ttl), E>,
    ) -> Result<V, E>
    where
        E: Clone + Send + Sync + 'static,
    {
        let mut load = self.load_from(key, self.now(), None, K::clone, Leader::Sync);
        let ticket = loop {
            match load {
                Load::Hit(value) => return Ok(value),
                Load::Lead(ticket) => break ticket,
                Load::Follow(mut follower) => {
                    let may_wait = follower.flight.leader == Leader::Sync && !InsideLoader::is_active();
                    match may_wait.then(|| follower.wait_for_flight(limit)).flatten() {
                        Some(FlightOutcome::Value(value)) => return Ok(value),
                        Some(FlightOutcome::Failed(failure)) => {
                            if let Some(error) = failure.downcast_ref::<E>() {
                                return Err(error.clone());
                            }
                        }
                        // The next leader may be a task, which must not be waited for: look up the load again.
                        Some(FlightOutcome::Abandoned) => {}
                        None => {
                            let flight = follower.flight.clone();
                            break Ticket::new(self, key.clone(), self.locate(key), flight, false);
                        }
                    }
                }
            }
            // The call is one read, and has missed.
            load = self.load_again(key, Leader::Sync);
        };
        let loading = InsideLoader::begin();
        let outcome = loader();
        drop(loading);
        settle(ticket, outcome)
    }
}

fn settle<K: Hash + Eq, V: Clone, E>(ticket: Ticket<K, V>, outcome: Result<(V, Ttl), E>) -> Result<V, E>
where
    E: Clone + Send + Sync + 'static,
{
    match outcome {
        Ok((value, ttl)) => {
            ticket.commit_with_ttl(value.clone(), ttl);
            Ok(value)
        }
        Err(error) => {
            ticket.fail(Arc::new(error.clone()));
            Err(error)
        }
    }
}

thread_local! {
    /// The number of loaders that this thread is executing, nested.
    static LOADERS: Cell<u32> = const { Cell::new(0) };
}

/// Marks the thread as executing a loader, until it is dropped.
struct InsideLoader;

impl InsideLoader {
    fn begin() -> Self {
        LOADERS.with(|loaders| loaders.set(loaders.get() + 1));
        InsideLoader
    }

    fn is_active() -> bool {
        LOADERS.with(|loaders| loaders.get() > 0)
    }
}

impl Drop for InsideLoader {
    fn drop(&mut self) {
        LOADERS.with(|loaders| loaders.set(loaders.get() - 1));
    }
}

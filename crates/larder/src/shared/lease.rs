//! The right to load shared bytes, and the end of a load: commit, or release.

use super::SharedView;
use super::copy::{KeyPosition, SharedCopy};
use crate::coherence::Coordinator;
use crate::coherence::lease::{StoreCondition, StoreOutcome, StoreRequest};
use crate::coherence::leased_lookup::{Purpose, RedisLookup};
use crate::node::StartState;
use crate::node::sealing::{NewEntry, Sealing};
use crate::policy::Lifetime;
use crate::report::error::CacheError;
use crate::report::events::{Event, EventKey};
use crate::value::format::Id;
use crate::view::WriteOptions;
use std::sync::Arc;
use std::time::Duration;
use tokio::task::JoinHandle;
use tokio::time::Instant;

/// The right to load the bytes of a key. The lease in Redis is renewed while this exists. Dropping it releases the lease:
/// the next caller on any node loads.
///
/// After a failure of Redis, or a wait in vain, a lease belongs to this process only: then [`SharedLease::commit`] stores
/// nothing in Redis.
#[derive(Debug)]
#[must_use = "dropping a lease gives up the load"]
pub struct SharedLease {
    pub(super) start: LoadStart,
    pub(super) condition: StoreCondition,
    pub(super) held: Option<HeldLease>,
}

/// What a load knew when it started.
#[derive(Debug)]
pub(super) struct LoadStart {
    pub(super) view: SharedView,
    pub(super) redis_key: Vec<u8>,
    pub(super) invalidations: KeyPosition,
    pub(super) state: StartState,
    /// On the engine's clock.
    pub(super) at: Duration,
    pub(super) started: Instant,
}

/// The result of [`SharedLease::commit`].
#[derive(Debug)]
pub enum Committed {
    /// The bytes are in Redis, or another node that loaded them at the same time stores its own.
    Everywhere(SharedCopy),
    /// Only this node has them: Redis did not store them, or may not.
    Here(SharedCopy),
    /// The key was invalidated during the load, or this process inherited the cache through a fork: callers that waited may
    /// get the bytes, but the bytes must not be kept.
    Refused,
}

impl SharedLease {
    /// The identity of the bytes that Redis has after the load. If another node loads at the same time, both know the same
    /// identity, whichever bytes are stored. No other load has it. `None` if nothing is stored in Redis.
    pub fn id(&self) -> Option<u128> {
        self.condition.id().map(|Id(bytes)| u128::from_le_bytes(bytes))
    }

    /// The copy that judges the bytes of this load while Redis does not have them: while the load is running, or if they
    /// are kept on this node only. It is dead after an invalidation since the start of the load.
    pub fn copy(&self, options: &WriteOptions) -> SharedCopy {
        self.unconfirmed(self.copy_as(None, self.lifetime(options), self.tags(options)))
    }

    /// A lease that this load has found out to need: for another key, or for its own if it is
    /// [unleased](SharedView::unleased). Tags that were invalidated since the start of this load refuse its bytes too. A
    /// deletion of the key counts from now on. `None` if Redis has bytes of it.
    ///
    /// Cost: one round trip, unless Redis did not reply at the start of this load.
    ///
    /// # Cancel safety
    /// As [`SharedView::fetch`].
    ///
    /// # Panics
    /// As [`SharedView::fetch`].
    pub async fn also(&self, key: &[u8]) -> Option<SharedLease> {
        self.start
            .view
            .node()
            .tasks
            .within(async {
                let LoadStart { view, state, at, started, .. } = &self.start;
                let (mut load, coordinator) = (view.start(key).await, view.coordinator());
                (load.at, load.started) = (*at, *started);
                let mut lookup = RedisLookup::Absent;
                // Without the ledger's clock nothing can be stored.
                if view.has_redis() && state.clock != 0 {
                    let key = std::slice::from_ref(&load.redis_key);
                    match coordinator.lookup_redis(key, Purpose::Load).await {
                        Ok((mut lookups, _)) => lookup = lookups.pop().unwrap_or(lookup),
                        Err(error) => coordinator.node.observers.report(&error),
                    }
                }
                load.state = StartState { tracked_writes: load.state.tracked_writes, ..*state };
                match lookup {
                    RedisLookup::Bytes(_) => None,
                    missing => Some(load.after(&missing)),
                }
            })
            .await
    }

    /// Stores the loaded bytes in Redis and ends the lease. The caller keeps its bytes with the returned copy.
    ///
    /// Options that are not set are those of the cache, such as [`Builder::ttl`](crate::Builder::ttl). Bytes with more than
    /// 64 tags, or longer than [`Builder::max_value_bytes`](crate::Builder::max_value_bytes), stay on this node.
    ///
    /// Cost: one round trip, and a copy of the bytes.
    ///
    /// # Cancel safety
    /// The bytes of a dropped call may or may not be stored.
    ///
    /// # Panics
    /// Outside a tokio runtime, if the cache has Redis.
    pub async fn commit(self, bytes: Vec<u8>, options: &WriteOptions) -> Committed {
        if self.start.view.node().is_inherited() {
            return Committed::Refused;
        }
        if self.start.view.node().redis.is_none() {
            return self.store(bytes, options).await;
        }
        let options = options.clone();
        // Others wait for the stores of a node.
        let tasks = self.start.view.node().tasks.clone();
        tasks.run(async move { self.store(bytes, &options).await }).await.unwrap_or(Committed::Refused)
    }

    async fn store(self, bytes: Vec<u8>, options: &WriteOptions) -> Committed {
        let LoadStart { view, redis_key, state, started, .. } = &self.start;
        let (coordinator, node) = (view.coordinator(), view.node());
        let (cost, id) = (started.elapsed(), self.condition.id());
        node.observers.counts.load_latency.record(cost);
        let (lifetime, tags) = (self.lifetime(options), self.tags(options));
        let sealing = Sealing {
            id: id.unwrap_or_else(|| node.random.id()),
            clock: state.clock,
            lifetime,
            cost,
            tags: tags.clone(),
        };
        let envelope = match node.seal(&view.0.config, &bytes, sealing) {
            Ok(sealed) => sealed.envelope,
            Err(error) => {
                node.observers.emit(|| Event::EncodeFailed { key: EventKey::new(redis_key) });
                node.observers.report(&CacheError::Encode(error));
                return Committed::Here(self.unconfirmed(self.copy_as(None, lifetime, tags)));
            }
        };
        drop(bytes);
        let request = StoreRequest {
            key: redis_key,
            condition: self.condition.clone(),
            put: envelope.map(|envelope| (envelope, lifetime.kept_for())),
        };
        let outcome = coordinator.store(vec![request]).await.pop().unwrap_or(StoreOutcome::Unknown);
        let copy = self.copy_as(id, lifetime, tags);
        node.observers.emit(|| Event::Loaded { key: EventKey::new(redis_key), ok: true });
        let copy = if outcome == StoreOutcome::Stored { copy } else { self.unconfirmed(copy) };
        let committed = match outcome {
            StoreOutcome::Stored => Committed::Everywhere(copy),
            StoreOutcome::Unknown => {
                if id.is_some() {
                    copy.state.mark_suspect();
                }
                Committed::Here(copy)
            }
            StoreOutcome::Refused => {
                node.observers.counts.refused.add(1);
                node.observers.emit(|| Event::Refused { key: EventKey::new(redis_key) });
                Committed::Refused
            }
        };
        if let Some(held) = self.held {
            held.end();
        }
        committed
    }

    /// A copy whose key may have been invalidated since the load started.
    fn unconfirmed(&self, copy: SharedCopy) -> SharedCopy {
        let max_lag = self.start.view.max_lag();
        copy.state.set_validated_at(self.start.at.saturating_add(max_lag));
        copy
    }

    fn lifetime(&self, options: &WriteOptions) -> Lifetime {
        let node = self.start.view.node();
        options.policy.or(node.settings.policy).lifetime(false, &node.random)
    }

    fn tags(&self, options: &WriteOptions) -> Vec<Box<str>> {
        self.start.view.0.config.tags(&options.tags)
    }

    fn copy_as(&self, id: Option<Id>, lifetime: Lifetime, tags: Vec<Box<str>>) -> SharedCopy {
        let new = NewEntry::written(0, lifetime, tags, id);
        let state = self.start.view.node().new_state(new, &self.start.state);
        SharedCopy::new(state, &self.start.invalidations)
    }
}

/// A lease that is in Redis. It is renewed until this is dropped, and then released.
#[derive(Debug)]
pub(super) struct HeldLease {
    coordinator: Arc<Coordinator>,
    key: Vec<u8>,
    /// `None` after the end of the load.
    condition: Option<StoreCondition>,
    /// `None` once it was dropped.
    renewal: Option<JoinHandle<()>>,
}

impl HeldLease {
    pub(super) fn new(coordinator: &Arc<Coordinator>, key: Vec<u8>, condition: StoreCondition) -> Self {
        let (renewals, renewer) = (condition.renewals(&key).collect(), coordinator.clone());
        let renewal =
            coordinator.node.tasks.spawn(async move { match renewer.renew_leases(renewals).await {} });
        HeldLease {
            coordinator: coordinator.clone(),
            key,
            condition: Some(condition),
            renewal: Some(renewal),
        }
    }

    /// The load has stored its bytes, or may not: there is nothing to release.
    fn end(mut self) {
        self.condition = None;
    }
}

impl Drop for HeldLease {
    fn drop(&mut self) {
        let Some(renewal) = self.renewal.take() else { return };
        if self.coordinator.node.process.has_forked() {
            // Task and lease are the parent's.
            return std::mem::forget(renewal);
        }
        renewal.abort();
        // Without a runtime the lease expires.
        if let Some(condition) = self.condition.take() {
            let (coordinator, key) = (self.coordinator.clone(), std::mem::take(&mut self.key));
            let release = async move { coordinator.release(&condition.releases(&key)).await };
            self.coordinator.node.tasks.spawn_if_possible(release);
        }
    }
}

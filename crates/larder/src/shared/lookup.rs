//! Fetches of a [`SharedView`]: the bytes in Redis, or the right to load them.

use super::copy::{KeyPosition, SharedCopy};
use super::lease::{HeldLease, SharedLease};
use super::{SharedView, lease::LoadStart};
use crate::coherence::lease::StoreCondition;
use crate::coherence::leased_lookup::{Purpose, RedisLookup};
use crate::coherence::reload::Reload;
use crate::node::entry::Validity;
use crate::node::ledger::untagged_members;
use crate::node::sealing::OpenedEntry;
use crate::report::error::CacheError;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

/// How many times a key is looked up again because it changed between the lookup and the lease.
const MAX_LOOKUPS: usize = 4;

/// The result of [`SharedView::fetch`].
#[derive(Debug)]
pub enum SharedFetch {
    /// Redis has bytes, fresh or within their grace period.
    Found(SharedValue),
    /// The caller loads.
    Lease(SharedLease),
}

/// The result of [`SharedView::reload`].
#[derive(Debug)]
pub enum SharedReload {
    /// Redis has fresh bytes.
    Found(SharedValue),
    /// The caller loads.
    Lease(SharedLease),
    /// Another node loads. Serve the stale copy and ask again later.
    Elsewhere,
}

/// Bytes from Redis.
#[derive(Debug)]
pub struct SharedValue {
    bytes: Arc<Vec<u8>>,
    copy: SharedCopy,
    is_stale: bool,
    age: Duration,
    ttl: Duration,
    kept_for: Duration,
}

impl SharedValue {
    /// The bytes that were committed.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Whether the bytes are past their time to live, and within their grace period.
    pub fn is_stale(&self) -> bool {
        self.is_stale
    }

    /// The time since they were committed, by the server's clock.
    pub fn age(&self) -> Duration {
        self.age
    }

    /// The remaining TTL, at least 1 ms; zero if they are stale.
    pub fn remaining_ttl(&self) -> Duration {
        self.ttl
    }

    /// The remaining time in which they may be served, fresh or stale; at least 1 ms.
    pub fn remaining(&self) -> Duration {
        self.kept_for
    }

    /// The copy that judges the bytes from now on.
    pub fn into_copy(self) -> SharedCopy {
        self.copy
    }
}

impl SharedView {
    /// The bytes of a key in Redis, or a lease: the right to load them, which one node has at a time. A lease of another
    /// node is awaited, at most for [`Builder::lease_wait`](crate::Builder::lease_wait); then this node loads too, and
    /// its bytes are not stored in Redis. The same holds for a load while Redis does not reply.
    ///
    /// Cost: one round trip, another one if the bytes have tags that this node does not know, and one every few
    /// milliseconds while another node loads.
    ///
    /// # Cancel safety
    /// A lease that was put for a dropped call expires after 10 s.
    ///
    /// # Panics
    /// Outside a tokio runtime, if the cache has Redis.
    pub async fn fetch(&self, key: &[u8]) -> SharedFetch {
        self.node()
            .tasks
            .within(async {
                let coordinator = self.coordinator();
                let mut load = self.start(key).await;
                if !self.has_redis() {
                    return SharedFetch::Lease(load.unleased());
                }
                let mut wait = coordinator.lease_wait();
                for _ in 0..MAX_LOOKUPS {
                    let key = std::slice::from_ref(&load.redis_key);
                    let (lookup, clock) = match coordinator.lookup_or_wait_for_lease(key, &mut wait).await {
                        Ok(found) => found,
                        Err(error) => {
                            coordinator.node.observers.report(&error);
                            return SharedFetch::Lease(load.unleased());
                        }
                    };
                    load.state.clock = clock;
                    match lookup {
                        RedisLookup::Bytes(bytes) => {
                            if let Some((value, _)) = self.open(&load, &bytes).await {
                                return SharedFetch::Found(value);
                            }
                            if let Some(condition) = coordinator.lease_over(&load.redis_key, &bytes).await {
                                return SharedFetch::Lease(load.leased(condition));
                            }
                        }
                        missing => return SharedFetch::Lease(load.after(&missing)),
                    }
                }
                SharedFetch::Lease(load.unleased())
            })
            .await
    }

    /// The bytes of a key in Redis, fresh or within their grace period. Leaves no lease and does not wait for loads.
    ///
    /// Cost: one round trip, and another one if the bytes have tags that this node does not know.
    ///
    /// # Cancel safety
    /// A dropped call changes nothing.
    ///
    /// # Panics
    /// As [`SharedView::fetch`].
    pub async fn read(&self, key: &[u8]) -> Option<SharedValue> {
        self.node()
            .tasks
            .within(async {
                let mut load = self.start(key).await;
                if !self.has_redis() {
                    return None;
                }
                let key = std::slice::from_ref(&load.redis_key);
                match self.coordinator().lookup_redis(key, Purpose::Read).await {
                    Ok((lookups, clock)) => {
                        load.state.clock = clock;
                        let Some(RedisLookup::Bytes(bytes)) = lookups.into_iter().next() else { return None };
                        Some(self.open(&load, &bytes).await?.0)
                    }
                    Err(error) => {
                        self.node().observers.report(&error);
                        None
                    }
                }
            })
            .await
    }

    /// Fresh bytes of a key whose copy here is stale, or the right to load them again, which one node has at a time. Does
    /// not wait for other nodes.
    ///
    /// Cost: one round trip, and one more for the lease.
    ///
    /// # Cancel safety
    /// As [`SharedView::fetch`].
    ///
    /// # Panics
    /// As [`SharedView::fetch`].
    pub async fn reload(&self, key: &[u8]) -> SharedReload {
        self.node()
            .tasks
            .within(async {
                let coordinator = self.coordinator();
                let mut load = self.start(key).await;
                if !self.has_redis() {
                    return SharedReload::Lease(load.unleased());
                }
                let key = std::slice::from_ref(&load.redis_key);
                let (lookup, clock) = match coordinator.lookup_redis(key, Purpose::Load).await {
                    Ok((mut lookups, clock)) => (lookups.pop().unwrap_or(RedisLookup::Absent), clock),
                    Err(error) => {
                        coordinator.node.observers.report(&error);
                        return SharedReload::Lease(load.unleased());
                    }
                };
                load.state.clock = clock;
                match lookup {
                    RedisLookup::LeaseHeldByOther(_) => SharedReload::Elsewhere,
                    RedisLookup::Bytes(bytes) => match self.open(&load, &bytes).await {
                        Some((value, _)) if !value.is_stale => SharedReload::Found(value),
                        Some((_, Some(id))) => match coordinator.lease_reloads(&[id]).await.pop() {
                            Some((Reload::Elsewhere(_), _)) => SharedReload::Elsewhere,
                            Some((reload, condition)) => {
                                SharedReload::Lease(load.reloading(reload, condition))
                            }
                            None => SharedReload::Lease(load.unleased()),
                        },
                        _ => match coordinator.lease_over(&load.redis_key, &bytes).await {
                            Some(condition) => SharedReload::Lease(load.leased(condition)),
                            // They have changed since.
                            None => SharedReload::Elsewhere,
                        },
                    },
                    missing => SharedReload::Lease(load.after(&missing)),
                }
            })
            .await
    }

    /// A load that other nodes do not know of: they do not wait for it, and [`commit`](SharedLease::commit) does not store
    /// its bytes in Redis. The `commit` of a [later lease](SharedLease::also) does. Its copy is judged like any other.
    ///
    /// Cost: none while this node receives announcements, else one round trip.
    ///
    /// # Panics
    /// As [`SharedView::fetch`].
    pub async fn unleased(&self, key: &[u8]) -> SharedLease {
        self.node()
            .tasks
            .within(async {
                let mut load = self.start(key).await;
                if self.has_redis() {
                    load.state.clock = match self.current_clock().await {
                        Ok(clock) => clock,
                        Err(error) => {
                            self.node().observers.report(&error);
                            0
                        }
                    };
                }
                load.unleased()
            })
            .await
    }

    /// What a load that starts now knows. Waits for the first attempt to connect.
    pub(super) async fn start(&self, key: &[u8]) -> LoadStart {
        if self.node().redis.is_some() && !self.node().is_inherited() {
            self.coordinator().ensure_connected().await;
        }
        let redis_key = self.redis_key(key);
        let node = self.node();
        LoadStart {
            view: self.clone(),
            invalidations: KeyPosition::of(self, &redis_key),
            state: node.start_state(&redis_key),
            at: node.now(),
            started: Instant::now(),
            redis_key,
        }
    }

    /// Whether Redis may have bytes of this view.
    pub(super) fn has_redis(&self) -> bool {
        let node = self.node();
        node.supported_redis().is_some() && node.is_usable()
    }

    /// Opens bytes from Redis. `None` if they may not be served.
    async fn open(
        &self,
        load: &LoadStart,
        bytes: &[u8],
    ) -> Option<(SharedValue, Option<crate::value::format::Id>)> {
        let node = self.node();
        let OpenedEntry { entry, validity, .. } =
            node.open(&self.0.config, &load.redis_key, bytes, &load.state).await?;
        let (state, now) = (entry.state(), node.now());
        let (is_stale, kept_for) = (validity == Validity::Stale, state.remaining(now));
        // As `kept_for`, at least 1 ms: the end of what has no grace period is one moment.
        let fresh_for = state.remaining_ttl(now).max(Duration::from_millis(1)).min(kept_for);
        let value = SharedValue {
            bytes: entry.value::<Vec<u8>>()?.clone(),
            copy: SharedCopy::new(state.copy(), &load.invalidations),
            is_stale,
            age: state.initial_age.saturating_add(now.saturating_sub(state.stored_at)),
            ttl: if is_stale { Duration::ZERO } else { fresh_for },
            kept_for,
        };
        Some((value, state.id))
    }

    /// The ledger's clock. Reads it if this node may have missed an invalidation.
    async fn current_clock(&self) -> Result<u64, CacheError> {
        let node = self.node();
        match node.known_clock() {
            Some(clock) => Ok(clock),
            None => node.read_stamps(&untagged_members()).await,
        }
    }
}

impl LoadStart {
    /// The lease after a lookup that found no bytes.
    pub(super) fn after(self, lookup: &RedisLookup) -> SharedLease {
        match lookup {
            RedisLookup::LeaseGranted(id) => self.leased(StoreCondition::lease(*id)),
            RedisLookup::LeaseHeldByOther(id) => self.with(StoreCondition::ForeignLease(*id), None),
            RedisLookup::Absent | RedisLookup::Bytes(_) => self.unleased(),
        }
    }

    pub(super) fn unleased(self) -> SharedLease {
        self.with(StoreCondition::None, None)
    }

    fn leased(self, condition: StoreCondition) -> SharedLease {
        let held = HeldLease::new(self.view.coordinator(), self.redis_key.clone(), condition.clone());
        self.with(condition, Some(held))
    }

    fn reloading(self, reload: Reload, condition: StoreCondition) -> SharedLease {
        let held = match reload {
            Reload::Leased { key, lease } => Some(HeldLease::new(self.view.coordinator(), key, lease)),
            Reload::Unleased | Reload::Elsewhere(_) => None,
        };
        self.with(condition, held)
    }

    fn with(self, condition: StoreCondition, held: Option<HeldLease>) -> SharedLease {
        SharedLease { start: self, condition, held }
    }
}

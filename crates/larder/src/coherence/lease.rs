//! Storing a loaded value in Redis under a condition: the only way by which it gets there.
//!
//! A key in Redis is absent, a lease, or a value. A load puts its lease where nothing is. It stores its value if the
//! first bytes under the key are still the same. Every invalidation in between has changed them:
//!
//! ```text
//!             lookup                   store: still lease A?            delete, write
//! (absent) ────────► lease A ────────────────────────────► value A ─────────────────► (absent), value B
//!    ▲                  │ delete, write, expiry, eviction                                 │
//!    └──────────────────┴───────────────────────────────── a store of A is refused ◄──────┘
//! ```

use super::Coordinator;
use crate::node::guarded_tier::GuardedTier;
use crate::report::error::CacheError;
use crate::tier::{CasAction, CompareAndSet, Expiry, HEAD_BYTES};
use crate::value::envelope::Head;
use crate::value::format::Id;
use std::convert::Infallible;
use std::future::pending;
use std::time::Duration;
use tokio::time::sleep;

/// The lifetime of a lease that its load does not renew. The lease of a node that died blocks the key for so long.
pub(super) const LEASE_TTL: Duration = Duration::from_secs(10);
/// The time between renewals. One lost renewal does no harm.
const RENEWAL_INTERVAL: Duration = Duration::from_secs(3);

/// The condition under which a load may store its value.
#[derive(Clone, Debug)]
pub(crate) enum StoreCondition {
    /// Redis was not asked or did not reply: store in memory only, suspect.
    None,
    /// Store under this id if the key still starts with these bytes; or has the value with the other id, which a load stores
    /// that this one has overtaken.
    CompareAndSet { expected: Vec<u8>, id: Id, overtaken: Option<Id> },
    /// Another load stores: store in memory only, if its lease or value is still there.
    ForeignLease(Id),
}

impl StoreCondition {
    /// Store if the lease with this id is still there.
    pub(crate) fn lease(id: Id) -> Self {
        StoreCondition::CompareAndSet { expected: Head::Lease(id).to_bytes().to_vec(), id, overtaken: None }
    }

    /// Replace these bytes by a value with this id.
    pub(crate) fn replacing(bytes: &[u8], id: Id) -> Self {
        let expected = bytes[..bytes.len().min(HEAD_BYTES)].to_vec();
        StoreCondition::CompareAndSet { expected, id, overtaken: None }
    }

    /// Replace this lease or value by a value with this id, and also that of a load that is overtaken.
    pub(crate) fn overtaking(found: Head, overtaken: Option<Id>, id: Id) -> Self {
        StoreCondition::CompareAndSet { expected: found.to_bytes().to_vec(), id, overtaken }
    }

    /// Whether this load has a lease.
    pub(crate) fn is_lease(&self) -> bool {
        matches!(self, StoreCondition::CompareAndSet { expected, id, .. }
            if matches!(Head::parse(expected), Ok(Head::Lease(lease)) if lease == *id))
    }

    /// The request that renews the lease that the store needs, if there is one: also that of a load that is overtaken, whose
    /// node may have died.
    pub(crate) fn renewal(&self, key: &[u8]) -> Option<CompareAndSet> {
        match self {
            StoreCondition::CompareAndSet { expected, .. } if is_lease(expected) => Some(CompareAndSet {
                key: key.to_vec(),
                expected: expected.clone(),
                action: CasAction::Touch(LEASE_TTL),
            }),
            _ => None,
        }
    }

    /// The id of the value in Redis.
    pub(crate) fn id(&self) -> Option<Id> {
        match self {
            StoreCondition::None => None,
            StoreCondition::CompareAndSet { id, .. } | StoreCondition::ForeignLease(id) => Some(*id),
        }
    }
}

/// The result of a store in Redis.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StoreOutcome {
    /// The value is there, or that of the load that has the lease.
    Stored,
    /// The key was mutated during the load: the value must not be stored in any tier.
    Refused,
    /// Redis did not reply or cannot store: memory may have the value, suspect.
    Unknown,
}

/// A value to store.
pub(crate) struct StoreRequest<'a> {
    pub(crate) key: &'a [u8],
    pub(crate) condition: StoreCondition,
    /// The envelope and its lifetime; `None` releases the lease.
    pub(crate) put: Option<(Vec<u8>, Duration)>,
}

impl Coordinator {
    /// The condition of a load that replaces these bytes.
    pub(crate) fn condition_to_replace(&self, bytes: &[u8]) -> StoreCondition {
        StoreCondition::replacing(bytes, self.node.random.id())
    }

    /// Puts a lease in the place of bytes that may not be served. `None` if they have changed or Redis does not reply.
    pub(crate) async fn lease_over(&self, key: &[u8], bytes: &[u8]) -> Option<StoreCondition> {
        let redis = self.node.redis.as_ref()?;
        let id = self.node.random.id();
        let request = CompareAndSet {
            key: key.to_vec(),
            expected: bytes[..bytes.len().min(HEAD_BYTES)].to_vec(),
            action: CasAction::Put(Head::Lease(id).to_bytes().to_vec(), Expiry::After(LEASE_TTL)),
        };
        match redis.call(redis.tier.compare_and_set(&[request], None)).await {
            Ok(accepted) if accepted.first() == Some(&true) => Some(StoreCondition::lease(id)),
            _ => None,
        }
    }

    /// Renews the leases of a load for as long as it is polled.
    pub(crate) async fn renew_leases(&self, renewals: Vec<CompareAndSet>) -> Infallible {
        let Some(redis) = self.node.redis.as_ref().filter(|_| !renewals.is_empty()) else {
            return pending().await;
        };
        loop {
            sleep(RENEWAL_INTERVAL).await;
            // A refused renewal needs no action: the store will be refused too.
            _ = redis.call(redis.tier.compare_and_set(&renewals, None)).await;
        }
    }

    /// Stores loaded values, or releases leases, each under its condition.
    pub(crate) async fn store(&self, requests: Vec<StoreRequest<'_>>) -> Vec<StoreOutcome> {
        let mut outcomes = vec![StoreOutcome::Unknown; requests.len()];
        let Some(redis) = &self.node.redis else { return vec![StoreOutcome::Stored; requests.len()] };
        let (mut swaps, mut swap_indices) = (Vec::new(), Vec::new());
        let (mut foreign_keys, mut foreign_leases) = (Vec::new(), Vec::new());
        for (index, request) in requests.into_iter().enumerate() {
            match request.condition {
                StoreCondition::None => {}
                StoreCondition::CompareAndSet { expected, overtaken, .. } => {
                    match self.action(request.put).await {
                        Ok(action) => {
                            swap_indices.push((index, overtaken));
                            swaps.push(CompareAndSet { key: request.key.to_vec(), expected, action });
                        }
                        Err(error) => self.node.observers.report(&error),
                    }
                }
                StoreCondition::ForeignLease(id) => {
                    foreign_leases.push((index, id));
                    foreign_keys.push(request.key.to_vec());
                }
            }
        }
        let mut overtaking = Vec::new();
        let swapped = self.swap(redis, &swaps).await;
        for ((swap, (index, overtaken)), outcome) in swaps.into_iter().zip(swap_indices).zip(swapped) {
            outcomes[index] = outcome;
            if let Some(id) = overtaken.filter(|_| outcome == StoreOutcome::Refused) {
                let expected = Head::Value(id).to_bytes().to_vec();
                overtaking.push((index, CompareAndSet { expected, ..swap }));
            }
        }
        // The loads that these have overtaken may have stored their values first.
        let (indices, swaps): (Vec<_>, Vec<_>) = overtaking.into_iter().unzip();
        for (index, outcome) in indices.into_iter().zip(self.swap(redis, &swaps).await) {
            outcomes[index] = outcome;
        }
        if !foreign_keys.is_empty() {
            let reply = redis.call(redis.tier.read_heads(&foreign_keys, None)).await;
            if let Err(error) = &reply {
                self.node.observers.report(error);
            }
            for (position, (index, id)) in foreign_leases.into_iter().enumerate() {
                outcomes[index] = match &reply {
                    Ok(reply) if has_id(reply.heads.get(position), id) => StoreOutcome::Stored,
                    Ok(_) => StoreOutcome::Refused,
                    Err(_) => StoreOutcome::Unknown,
                };
            }
        }
        outcomes
    }

    async fn swap(&self, redis: &GuardedTier, swaps: &[CompareAndSet]) -> Vec<StoreOutcome> {
        if swaps.is_empty() {
            return Vec::new();
        }
        match redis.call(redis.tier.compare_and_set(swaps, None)).await {
            Ok(accepted) => {
                let outcome = |accepted| if accepted { StoreOutcome::Stored } else { StoreOutcome::Refused };
                accepted.into_iter().map(outcome).collect()
            }
            Err(error) => {
                self.node.observers.report(&error);
                vec![StoreOutcome::Unknown; swaps.len()]
            }
        }
    }

    /// The action that stores an envelope, with its deadline, or releases a lease.
    async fn action(&self, put: Option<(Vec<u8>, Duration)>) -> Result<CasAction, CacheError> {
        let Some((envelope, kept_for)) = put else { return Ok(CasAction::Remove) };
        self.node.learn_server_time().await?;
        let put = self.node.with_deadline(envelope, kept_for).ok_or(CacheError::NotAsked)?;
        Ok(CasAction::put_or_remove(Some(put)))
    }

    /// Restarts the time to live of a value in Redis. A newer value keeps its own.
    pub(crate) async fn touch(&self, key: Vec<u8>, id: Id, kept_for: Duration) -> Result<(), CacheError> {
        let Some(redis) = &self.node.redis else { return Ok(()) };
        self.node.learn_server_time().await?;
        let deadline_ms = self.node.server_clock.deadline(kept_for).ok_or(CacheError::NotAsked)?;
        let expected = Head::Value(id).to_bytes().to_vec();
        let touch = CompareAndSet { key, expected, action: CasAction::Renew(deadline_ms) };
        redis.call(redis.tier.compare_and_set(&[touch], None)).await.map(drop)
    }
}

pub(crate) fn is_lease(bytes: &[u8]) -> bool {
    matches!(Head::parse(bytes), Ok(Head::Lease(_)))
}

/// Whether the head is the lease or the value with this id.
pub(super) fn has_id(head: Option<&Vec<u8>>, id: Id) -> bool {
    let head = head.and_then(|head| Head::parse(head).ok());
    head == Some(Head::Value(id)) || head == Some(Head::Lease(id))
}

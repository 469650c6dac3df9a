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
//!
//! A refresh that has waited too long for a load loads beside it, and both may store. It puts its own lease behind the other
//! one, as the successor: whatever invalidates the key removes both, and a load that fails leaves the successor.
//!
//! ```text
//! lease A ─► lease A, successor B ── store of A ─► value A ── store of B ─► value B
//!                      │    └─────── store of B ─► value B       a store of A is refused
//!                      └─ A fails ─► lease B ────────────────────────────► value B
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
    /// that this one has overtaken; or the lease with this id, which the overtaken load has left as its successor.
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

    /// The leases that the store needs: that of a load that is overtaken, whose node may have died, and the successor.
    fn leases(&self) -> Vec<Vec<u8>> {
        match self {
            StoreCondition::CompareAndSet { expected, id, .. } if is_lease(expected) => {
                let own = Head::Lease(*id).to_bytes().to_vec();
                if *expected == own { vec![own] } else { vec![expected.clone(), own] }
            }
            _ => Vec::new(),
        }
    }

    /// The requests that renew the leases that the store needs.
    pub(crate) fn renewals(&self, key: &[u8]) -> impl Iterator<Item = CompareAndSet> {
        let renewal =
            |expected| CompareAndSet { key: key.to_vec(), expected, action: CasAction::Touch(LEASE_TTL) };
        self.leases().into_iter().map(renewal)
    }

    /// The requests that release the lease of this load. One that is overtaken stays, without a successor.
    pub(crate) fn releases(&self, key: &[u8]) -> Vec<CompareAndSet> {
        let leases = self.leases();
        let release = |(index, lease): (usize, &Vec<u8>)| {
            let is_own = index + 1 == leases.len();
            let stay = || CasAction::Put(lease.clone(), Expiry::After(LEASE_TTL));
            let action = if is_own { CasAction::Release(LEASE_TTL) } else { stay() };
            CompareAndSet { key: key.to_vec(), expected: lease.clone(), action }
        };
        leases.iter().enumerate().map(release).collect()
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

    /// Puts a lease behind that of a load that takes too long: its successor. `None` if that lease is gone.
    pub(crate) async fn lease_behind(&self, key: &[u8], overtaken: Id) -> Option<StoreCondition> {
        let redis = self.node.redis.as_ref()?;
        let id = self.node.random.id();
        let expected = Head::Lease(overtaken).to_bytes().to_vec();
        let bytes = [Head::Lease(overtaken), Head::Lease(id)].map(Head::to_bytes).concat();
        let action = CasAction::Put(bytes, Expiry::After(LEASE_TTL));
        let request = CompareAndSet { key: key.to_vec(), expected, action };
        match redis.call(redis.tier.compare_and_set(&[request], None)).await {
            Ok(accepted) if accepted.first() != Some(&true) => None,
            // A server that is full stores no lease, and may store the value later.
            Ok(_) | Err(_) => Some(StoreCondition::overtaking(Head::Lease(overtaken), Some(overtaken), id)),
        }
    }

    /// Sends requests that release leases. A refused one needs no action: that lease is gone.
    pub(crate) async fn release(&self, releases: &[CompareAndSet]) {
        let Some(redis) = self.node.redis.as_ref().filter(|_| !releases.is_empty()) else { return };
        if let Err(error) = redis.call(redis.tier.compare_and_set(releases, None)).await {
            self.node.observers.report(&error);
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
                StoreCondition::CompareAndSet { expected, overtaken, id } => {
                    let overtaken = overtaken.map(|overtaken| (overtaken, id));
                    match self.action(request.put, &expected).await {
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
            if let Some((overtaken, own)) = overtaken.filter(|_| outcome == StoreOutcome::Refused) {
                for head in [Head::Value(overtaken), Head::Lease(own)] {
                    let expected = head.to_bytes().to_vec();
                    overtaking.push((index, CompareAndSet { expected, ..swap.clone() }));
                }
            }
        }
        // The loads that these have overtaken may have stored their values first, or left their successors.
        let (indices, swaps): (Vec<_>, Vec<_>) = overtaking.into_iter().unzip();
        for (index, outcome) in indices.into_iter().zip(self.swap(redis, &swaps).await) {
            if outcome != StoreOutcome::Refused {
                outcomes[index] = outcome;
            }
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

    /// The action that stores an envelope, with its deadline, or ends what is expected.
    async fn action(
        &self,
        put: Option<(Vec<u8>, Duration)>,
        expected: &[u8],
    ) -> Result<CasAction, CacheError> {
        let Some((envelope, kept_for)) = put else {
            return Ok(if is_lease(expected) { CasAction::Release(LEASE_TTL) } else { CasAction::Remove });
        };
        self.node.learn_server_time().await?;
        let put = self.node.with_deadline(envelope, kept_for).ok_or(CacheError::NotAsked)?;
        Ok(CasAction::put_or_remove(Some(put)))
    }

    /// Restarts the time to live with which a value was stored, in Redis. A newer value keeps its own. The value keeps its id
    /// and nobody hears of it: it only ends later than other nodes know. Another time to live needs a new id, as
    /// `View::touch` gives it.
    pub(crate) async fn renew(&self, key: Vec<u8>, id: Id, kept_for: Duration) -> Result<(), CacheError> {
        let Some(redis) = &self.node.redis else { return Ok(()) };
        self.node.learn_server_time().await?;
        let deadline_ms = self.node.server_clock.deadline(kept_for).ok_or(CacheError::NotAsked)?;
        let expected = Head::Value(id).to_bytes().to_vec();
        let renewal = CompareAndSet { key, expected, action: CasAction::Renew(deadline_ms) };
        redis.call(redis.tier.compare_and_set(&[renewal], None)).await.map(drop)
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

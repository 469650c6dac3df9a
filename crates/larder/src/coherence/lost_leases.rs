//! Leases that a failed lookup may have left in Redis. Its load cannot use them, and every other load of those keys would
//! wait for them.

use super::Coordinator;
use super::lease::LEASE_TTL;
use crate::tier::{BATCH, CasAction, CompareAndSet};
use crate::value::envelope::Head;
use crate::value::format::Id;
use parking_lot::Mutex;

/// The most leases that are remembered. More end by themselves.
const MAX_LOST: usize = 20 * BATCH;

/// The leases to release, and their keys.
#[derive(Default)]
pub(super) struct LostLeases(Mutex<Vec<(Vec<u8>, Id)>>);

impl LostLeases {
    pub(super) fn add(&self, leases: impl Iterator<Item = (Vec<u8>, Id)>) {
        let mut lost = self.0.lock();
        let room = MAX_LOST - lost.len();
        lost.extend(leases.take(room));
    }

    fn take(&self) -> Vec<(Vec<u8>, Id)> {
        let mut lost = self.0.lock();
        let rest = lost.len().saturating_sub(BATCH);
        lost.split_off(rest)
    }
}

impl Coordinator {
    /// Releases leases that lookups have lost, now that Redis replies. A release takes effect after the lookup that may have
    /// put the lease there, or that never does.
    pub(super) async fn release_lost_leases(&self) {
        let Some(redis) = &self.node.redis else { return };
        loop {
            let lost = self.lost_leases.take();
            if lost.is_empty() {
                return;
            }
            let release = |(key, id): &(Vec<u8>, Id)| CompareAndSet {
                key: key.clone(),
                expected: Head::Lease(*id).to_bytes().to_vec(),
                action: CasAction::Release(LEASE_TTL),
            };
            let releases: Vec<_> = lost.iter().map(release).collect();
            if redis.call_ignoring_breaker(redis.tier.compare_and_set(&releases, None)).await.is_err() {
                return self.lost_leases.add(lost.into_iter());
            }
        }
    }
}

//! The state of bytes that the caller of a [`SharedView`] keeps, and the judgement whether they may be served.

use super::SharedView;
use crate::node::entry::{EntryState, Validity, nanos};
use crate::node::validity::Proof;
use crate::policy::Prefer;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tokio::sync::MutexGuard;
use tokio::time::timeout;

/// How long a comparison waits for another one: most replies take less time.
const MAX_TURN: Duration = Duration::from_millis(100);

/// The data that decide whether bytes that a caller of a [`SharedView`] keeps may still be served: the moment of their
/// load, their tags, and their TTL. It does not hold the bytes. About 200 bytes, and [`SharedCopy::heap_bytes`].
#[derive(Debug)]
pub struct SharedCopy {
    pub(super) state: EntryState,
    invalidations: KeyPosition,
    /// When the last comparison began that found it in Redis, in nanoseconds of the engine's clock.
    compared_from: AtomicU64,
}

/// The invalidations of a key that a load or a copy knows.
#[derive(Debug)]
pub(super) struct KeyPosition {
    index: usize,
    count: AtomicU64,
}

impl SharedCopy {
    pub(super) fn new(state: EntryState, invalidations: &KeyPosition) -> Self {
        SharedCopy { state, invalidations: invalidations.copy(), compared_from: AtomicU64::new(0) }
    }

    /// The same copy, for a second entry with the same bytes.
    pub fn duplicate(&self) -> Self {
        SharedCopy::new(self.state.copy(), &self.invalidations)
    }

    /// The memory of the tags, in bytes.
    pub fn heap_bytes(&self) -> usize {
        self.state.tags.iter().map(|tag| size_of_val(tag) + tag.len()).sum()
    }

    /// The tags, including the tags of the view.
    pub fn tags(&self) -> impl Iterator<Item = &str> {
        self.state.tags.iter().map(|tag| &**tag)
    }
}

impl KeyPosition {
    /// Taken before Redis is asked.
    pub(super) fn of(view: &SharedView, redis_key: &[u8]) -> Self {
        let index = view.invalidations().index(redis_key);
        KeyPosition { index, count: AtomicU64::new(view.invalidations().count_at(index)) }
    }

    /// Whether no invalidation of the key is newer.
    #[inline]
    fn is_current(&self, view: &SharedView) -> bool {
        view.invalidations().count_at(self.index) == self.count.load(Ordering::Acquire)
    }

    fn copy(&self) -> Self {
        KeyPosition { index: self.index, count: AtomicU64::new(self.count.load(Ordering::Acquire)) }
    }
}

/// The moment of a caller's request, with this node's knowledge at that time; see [`SharedView::validity_for`].
#[derive(Clone, Copy, Debug)]
pub struct SharedMoment {
    at: Duration,
    epoch: u64,
}

impl SharedView {
    /// This moment, for a caller that may wait for the load of another one.
    pub fn moment(&self) -> SharedMoment {
        let node = self.node();
        SharedMoment { at: node.now(), epoch: node.ledger.epoch() }
    }

    /// As [`SharedView::validity`], for a caller that asked at this moment and has waited since. It may also get the bytes
    /// of a load that began later, or at most `max_lag` earlier, unless this node knows of an invalidation between the two.
    /// So all callers that wait for one load get its bytes, also while Redis does not reply.
    ///
    /// Cost: as [`SharedView::validity`], and a shared lock if this node has heard of an invalidation since the load began.
    pub fn validity_for(&self, copy: &SharedCopy, asked: SharedMoment) -> Validity {
        let (node, state) = (self.node(), &copy.state);
        match self.validity(copy) {
            Validity::Unknown
                if state.is_valid_since(asked.at)
                    && copy.invalidations.is_current(self)
                    && (state.epoch >= asked.epoch || node.ledger.judge(state).is_valid()) =>
            {
                Validity::Valid
            }
            validity => validity,
        }
    }

    /// Whether copies may be served to callers that did not wait for their load: false while the cache is turned off or
    /// its server is not supported, and once Redis has not replied for longer than
    /// [`Builder::disconnected`](crate::Builder::disconnected), unless [`Prefer::Availability`] is set. Cost: four atomic
    /// reads.
    pub fn serves_copies(&self) -> bool {
        let node = self.node();
        let is_within_disconnected = || !node.redis_is_lost() || node.trust.is_within_disconnected();
        !node.is_off() && (node.settings.prefer == Prefer::Availability || is_within_disconnected())
    }

    /// The maximum time until an invalidation reaches this node: [`Builder::max_lag`](crate::Builder::max_lag).
    pub fn max_lag(&self) -> Duration {
        self.node().trust.max_lag()
    }

    /// Whether a copy may be served now: [`Validity::Valid`], or [`Validity::Stale`] within its grace period. A dead copy
    /// stays dead. Ask [`SharedView::revalidate`] about an unknown one.
    ///
    /// While Redis does not reply, copies are served for [`Builder::disconnected`](crate::Builder::disconnected).
    ///
    /// Cost: eleven atomic reads and one of the clock; no lock and no allocation. After an invalidation of tags, by any node
    /// and of any tags, each copy takes a shared lock once and compares its tags.
    pub fn validity(&self, copy: &SharedCopy) -> Validity {
        let node = self.node();
        // Before the counts: what was announced before the proof is counted.
        let (trust, epoch, now) = (node.trust.snapshot(), node.ledger.epoch(), node.now());
        if copy.state.is_dead() || !copy.state.is_kept(now) {
            return Validity::Dead;
        }
        if !copy.invalidations.is_current(self) || !node.is_usable() {
            return Validity::Unknown;
        }
        node.judge(&copy.state, Proof::Trust(trust), epoch, now)
    }

    /// Compares an unknown copy of a key with Redis: one short read, which concurrent callers share.
    ///
    /// [`Validity::Unknown`] if Redis does not reply, and the copy may not be served without it.
    ///
    /// # Cancel safety
    /// A dropped call changes nothing.
    ///
    /// # Panics
    /// Outside a tokio runtime, if the cache has Redis.
    pub async fn revalidate(&self, key: &[u8], copy: &SharedCopy) -> Validity {
        self.node()
            .tasks
            .within(async {
                let (node, redis_key) = (self.node(), self.redis_key(key));
                if !node.is_usable() {
                    return self.validity(copy);
                }
                let called_at = nanos(node.now());
                let _one_at_a_time = self.one_at_a_time(copy.invalidations.index).await;
                let validity = self.validity(copy);
                if validity != Validity::Unknown || node.is_off() {
                    return validity;
                }
                // One that began after this call is as good as its own.
                if copy.compared_from.load(Ordering::Acquire) > called_at
                    && copy.invalidations.is_current(self)
                {
                    return node.judge(&copy.state, Proof::Redis, node.ledger.epoch(), node.now());
                }
                self.coordinator().ensure_connected().await;
                let (position, began) = (KeyPosition::of(self, &redis_key), nanos(node.now()));
                match self.coordinator().revalidate(&redis_key, &copy.state).await {
                    Some(validity @ (Validity::Valid | Validity::Stale)) => {
                        copy.invalidations.count.store(position.count.into_inner(), Ordering::Release);
                        copy.compared_from.store(began, Ordering::Release);
                        validity
                    }
                    Some(validity) => validity,
                    None if copy.invalidations.is_current(self) => node.judge_without_redis(&copy.state),
                    None => Validity::Unknown,
                }
            })
            .await
    }

    /// The turn to compare a key of this position. Whoever has it may not be polled: then others compare beside it.
    async fn one_at_a_time(&self, position: usize) -> Option<MutexGuard<'_, ()>> {
        let comparison = &self.0.comparisons[position % super::COMPARISONS];
        match comparison.try_lock() {
            Ok(turn) => Some(turn),
            Err(_) => timeout(MAX_TURN, comparison.lock()).await.ok(),
        }
    }
}

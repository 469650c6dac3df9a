//! The invalidations that Redis must be told again.
//!
//! *Pending* invalidations were not confirmed. Until they are, Redis is not read for their keys. *Recent* invalidations
//! were confirmed in the last minute. If another server or an older copy of the data answers, all of them are pending
//! again. Both lists are bounded. Beyond the bound, one invalidation of everything covers the rest.

use crate::node::ledger::{FLOOR, MutationSeq};
use larder_engine::Clock;
use parking_lot::Mutex;
use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

/// How long a confirmed invalidation is recent.
const RECENT: Duration = Duration::from_secs(60);
const MAX_PENDING: usize = 10_000;
const MAX_RECENT: usize = 50_000;

/// The target of an invalidation.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Invalidated {
    /// A Redis key.
    Key(Vec<u8>),
    /// A member of the ledger.
    Member(Vec<u8>),
}

impl Invalidated {
    pub(crate) fn everything() -> Self {
        Invalidated::Member(FLOOR.to_vec())
    }
}

#[derive(Debug)]
pub(crate) struct ReplayLog {
    clock: Clock,
    next_seq: AtomicU64,
    /// How many times the recent invalidations were queued again.
    replay_epoch: AtomicU64,
    /// The number of pending invalidations, so that a lookup takes no lock if there are none.
    pending_count: AtomicUsize,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// Sorted, so that they are replayed in the same order in each run.
    pending: BTreeMap<Invalidated, MutationSeq>,
    recent: VecDeque<(Duration, Invalidated)>,
    /// Until when some recent invalidations are missing from the list.
    incomplete_until: Duration,
    /// When the recent invalidations were last queued again. The server before that may have confirmed any mutation
    /// that started earlier.
    requeued: Option<MutationSeq>,
}

impl ReplayLog {
    pub(crate) fn new(clock: Clock) -> Self {
        ReplayLog {
            clock,
            next_seq: AtomicU64::new(0),
            replay_epoch: AtomicU64::new(0),
            pending_count: AtomicUsize::new(0),
            state: Mutex::default(),
        }
    }

    /// The number of a mutation that starts now.
    pub(crate) fn next_seq(&self) -> MutationSeq {
        MutationSeq(self.next_seq.fetch_add(1, Ordering::AcqRel))
    }

    /// Redis confirmed the mutation `seq`, which ends what was pending before it started. If recent invalidations were
    /// queued again since it started, it is queued again too.
    pub(crate) fn confirm(&self, targets: impl IntoIterator<Item = Invalidated>, seq: MutationSeq) {
        let now = self.clock.now();
        let mut state = self.state.lock();
        let state = &mut *state;
        while state.recent.front().is_some_and(|(at, _)| at.saturating_add(RECENT) < now) {
            state.recent.pop_front();
        }
        let is_outdated = state.requeued.is_some_and(|requeued| seq < requeued);
        for target in targets {
            if is_outdated {
                state.pending.insert(target, self.next_seq());
                continue;
            }
            if state.pending.get(&target).is_some_and(|pending| *pending <= seq) {
                state.pending.remove(&target);
            }
            if state.recent.len() == MAX_RECENT {
                state.recent.pop_front();
                state.incomplete_until = now.saturating_add(RECENT);
            }
            state.recent.push_back((now, target));
        }
        self.pending_count.store(state.pending.len(), Ordering::Release);
    }

    /// Redis did not confirm: queues the invalidations. Returns their number, and whether there were too many, so that
    /// an invalidation of everything is pending instead.
    pub(crate) fn queue(&self, targets: impl IntoIterator<Item = Invalidated>) -> (MutationSeq, bool) {
        let seq = self.next_seq();
        let mut state = self.state.lock();
        state.pending.extend(targets.into_iter().map(|target| (target, seq)));
        let overflows = state.pending.len() > MAX_PENDING;
        if overflows {
            // The members stay: their stamps in this node's ledger are pending until they are confirmed.
            state.pending.retain(|target, _| matches!(target, Invalidated::Member(_)));
            state.pending.insert(Invalidated::everything(), seq);
        }
        self.pending_count.store(state.pending.len(), Ordering::Release);
        (seq, overflows)
    }

    /// Redis may have lost recent invalidations: queues them again. Returns their number and their targets.
    pub(crate) fn requeue_recent(&self) -> (MutationSeq, Vec<Invalidated>) {
        let (now, seq) = (self.clock.now(), self.next_seq());
        let mut state = self.state.lock();
        self.replay_epoch.fetch_add(1, Ordering::AcqRel);
        state.requeued = Some(seq);
        let mut targets: Vec<_> = if now < state.incomplete_until {
            vec![Invalidated::everything()]
        } else {
            let recent = state.recent.iter().filter(|(at, _)| at.saturating_add(RECENT) >= now);
            recent.map(|(_, target)| target.clone()).collect()
        };
        if targets.len() > MAX_PENDING {
            targets = vec![Invalidated::everything()];
        }
        state.pending.extend(targets.iter().map(|target| (target.clone(), seq)));
        self.pending_count.store(state.pending.len(), Ordering::Release);
        (seq, targets)
    }

    /// Taken before Redis is asked. A reply counts only if the epoch is still the same: otherwise another server was
    /// accepted, and the reply may be older than the invalidations that it is being told.
    pub(crate) fn replay_epoch(&self) -> u64 {
        self.replay_epoch.load(Ordering::Acquire)
    }

    /// Whether Redis must not be read for this key. Cost: one atomic read if nothing is pending.
    pub(crate) fn blocks(&self, redis_key: &[u8]) -> bool {
        if self.pending_count() == 0 {
            return false;
        }
        let state = self.state.lock();
        state.pending.contains_key(&Invalidated::everything())
            || state.pending.contains_key(&Invalidated::Key(redis_key.to_vec()))
    }

    pub(crate) fn has_pending_members(&self) -> bool {
        let is_member = |target: &Invalidated| matches!(target, Invalidated::Member(_));
        self.pending_count() > 0 && self.state.lock().pending.keys().any(is_member)
    }

    pub(crate) fn pending_count(&self) -> usize {
        self.pending_count.load(Ordering::Acquire)
    }

    /// A batch of pending invalidations: at most `limit` members of the ledger and as many keys.
    pub(crate) fn pending_batch(&self, limit: usize) -> (Vec<Vec<u8>>, Vec<Vec<u8>>) {
        let state = self.state.lock();
        let (mut members, mut keys) = (Vec::new(), Vec::new());
        for target in state.pending.keys() {
            let (batch, name) = match target {
                Invalidated::Member(member) => (&mut members, member),
                Invalidated::Key(key) => (&mut keys, key),
            };
            if batch.len() < limit {
                batch.push(name.clone());
            }
        }
        (members, keys)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(name: &str) -> Invalidated {
        Invalidated::Key(name.as_bytes().to_vec())
    }

    #[test]
    fn pending_invalidation_blocks_key_until_later_mutation_is_confirmed() {
        let log = ReplayLog::new(Clock::monotonic());
        let early = log.next_seq();
        log.queue([key("a")]);
        assert!(log.blocks(b"a") && !log.blocks(b"b"));
        log.confirm([key("a")], early);
        assert!(log.blocks(b"a"), "the mutation started before the failure");
        log.confirm([key("a")], log.next_seq());
        assert!(!log.blocks(b"a"));
    }

    #[test]
    fn too_many_pending_invalidations_become_one() {
        let log = ReplayLog::new(Clock::monotonic());
        let many = (0..=MAX_PENDING).map(|n| key(&n.to_string()));
        assert!(log.queue(many).1);
        assert_eq!(log.pending_batch(9), (vec![FLOOR.to_vec()], vec![]));
        assert!(log.blocks(b"anything"));
    }

    #[test]
    fn requeue_covers_last_minute_only() {
        let (clock, hand) = Clock::manual();
        let log = ReplayLog::new(clock);
        log.confirm([key("old")], log.next_seq());
        hand.advance(Duration::from_secs(61));
        log.confirm([key("new")], log.next_seq());
        let epoch = log.replay_epoch();
        assert_eq!(log.requeue_recent().1, [key("new")]);
        assert_ne!(log.replay_epoch(), epoch);
        assert!(log.blocks(b"new") && !log.blocks(b"old"));
    }

    #[test]
    fn mutation_that_started_before_requeue_is_queued_again() {
        let log = ReplayLog::new(Clock::monotonic());
        let early = log.next_seq();
        log.requeue_recent();
        log.confirm([key("k")], early);
        assert!(log.blocks(b"k"), "another server may have confirmed it");
        log.confirm([key("k")], log.next_seq());
        assert!(!log.blocks(b"k"));
    }
}

//! The invalidations that Redis must be told again.
//!
//! *Pending* invalidations were not confirmed. Until they are, Redis is not read for their keys. *Recent* invalidations
//! were confirmed in the last minute, to this node or to another one that announced them: that node may be gone when
//! they are needed. If another server or an older copy of the data answers, all of them are pending again. Both lists
//! are bounded. Beyond the bound, or if the copy is older than the list, one invalidation of everything takes their place.

use crate::key::glob::Glob;
use crate::node::ledger::{FLOOR, MutationSeq};
use larder_engine::Clock;
use parking_lot::Mutex;
use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

/// How long a confirmed invalidation is recent.
const RECENT: Duration = Duration::from_secs(60);
/// The highest age of a restored copy of the data that the recent invalidations cover. The rest of the minute is for
/// what happens between the reading of the age and the use of the list.
const MAX_RESTORED_AGE: Duration = Duration::from_secs(55);
const MAX_PENDING: usize = 10_000;
/// Each lookup compares its key with every pending glob.
const MAX_PENDING_GLOBS: usize = 100;
const MAX_RECENT: usize = 50_000;

/// The target of an invalidation.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Invalidated {
    /// A Redis key.
    Key(Vec<u8>),
    /// A member of the ledger.
    Member(Vec<u8>),
    /// All Redis keys that match a glob.
    Matching(Glob),
}

impl Invalidated {
    pub(crate) fn key(key: &[u8]) -> Self {
        Invalidated::Key(key.to_vec())
    }

    pub(crate) fn everything() -> Self {
        Invalidated::Member(FLOOR.to_vec())
    }
}

/// Invalidations that were queued, because Redis may not know them.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Queued {
    pub(crate) invalidations: usize,
    pub(crate) seq: MutationSeq,
    /// Whether there were too many: one of everything with this number has taken the place of all that were pending.
    pub(crate) overflows: bool,
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

impl State {
    /// The pending globs, which are the last targets in their order.
    fn globs(&self) -> impl Iterator<Item = &Glob> {
        self.pending.keys().rev().map_while(|target| match target {
            Invalidated::Matching(glob) => Some(glob),
            Invalidated::Key(_) | Invalidated::Member(_) => None,
        })
    }

    fn remember(&mut self, target: Invalidated, now: Duration) {
        while self.recent.front().is_some_and(|(at, _)| at.saturating_add(RECENT) < now) {
            self.recent.pop_front();
        }
        if self.recent.len() == MAX_RECENT {
            self.recent.pop_front();
            self.incomplete_until = now.saturating_add(RECENT);
        }
        self.recent.push_back((now, target));
    }
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
    /// queued again since it started, its targets are queued again too.
    pub(crate) fn confirm(
        &self,
        targets: impl IntoIterator<Item = Invalidated>,
        seq: MutationSeq,
    ) -> Option<Queued> {
        let now = self.clock.now();
        let mut state = self.state.lock();
        if state.requeued.is_some_and(|requeued| seq < requeued) {
            let queued = self.queue_in(&mut state, targets, self.next_seq());
            return Some(queued).filter(|queued| queued.invalidations > 0);
        }
        for target in targets {
            if state.pending.get(&target).is_some_and(|pending| *pending <= seq) {
                state.pending.remove(&target);
            }
            state.remember(target, now);
        }
        self.pending_count.store(state.pending.len(), Ordering::Release);
        None
    }

    /// Another node announced invalidations on a subscription that was opened in this replay epoch. If another server
    /// was found since, it may not know them, and they are queued.
    pub(crate) fn record_announced(
        &self,
        targets: impl IntoIterator<Item = Invalidated>,
        replay_epoch: u64,
    ) -> Option<Queued> {
        let now = self.clock.now();
        let mut state = self.state.lock();
        if replay_epoch < self.replay_epoch() {
            return Some(self.queue_in(&mut state, targets, self.next_seq()));
        }
        targets.into_iter().for_each(|target| state.remember(target, now));
        None
    }

    /// Redis did not confirm: queues the invalidations.
    pub(crate) fn queue(&self, targets: impl IntoIterator<Item = Invalidated>) -> Queued {
        self.queue_in(&mut self.state.lock(), targets, self.next_seq())
    }

    fn queue_in(
        &self,
        state: &mut State,
        targets: impl IntoIterator<Item = Invalidated>,
        seq: MutationSeq,
    ) -> Queued {
        let mut invalidations = 0;
        for target in targets {
            state.pending.insert(target, seq);
            invalidations += 1;
        }
        let overflows = state.pending.len() > MAX_PENDING || state.globs().count() > MAX_PENDING_GLOBS;
        if overflows {
            state.pending.clear();
            state.pending.insert(Invalidated::everything(), seq);
        }
        self.pending_count.store(state.pending.len(), Ordering::Release);
        Queued { invalidations, seq, overflows }
    }

    /// Redis may have lost recent invalidations, because it is a copy of the data of this age: queues them again, or one
    /// of everything if they do not cover the age. Returns their number and their targets.
    pub(crate) fn requeue_recent(&self, restored_age: Option<Duration>) -> (MutationSeq, Vec<Invalidated>) {
        let is_covered = restored_age.is_some_and(|age| age <= MAX_RESTORED_AGE);
        let since = is_covered.then(|| self.clock.now().saturating_sub(RECENT));
        self.requeue(since)
    }

    /// The server that was accepted before has confirmed invalidations until now: queues those again that are not older than
    /// this. Returns what [`ReplayLog::requeue_recent`] does.
    pub(crate) fn requeue_since(&self, since: Duration) -> (MutationSeq, Vec<Invalidated>) {
        self.requeue(Some(since))
    }

    /// Queues those since then again, or one of everything.
    fn requeue(&self, since: Option<Duration>) -> (MutationSeq, Vec<Invalidated>) {
        let (now, seq) = (self.clock.now(), self.next_seq());
        let mut state = self.state.lock();
        self.replay_epoch.fetch_add(1, Ordering::AcqRel);
        state.requeued = Some(seq);
        let mut targets: Vec<_> = match since.filter(|_| now >= state.incomplete_until) {
            Some(since) => {
                let recent = state.recent.iter().filter(|(at, _)| *at >= since);
                recent.map(|(_, target)| target.clone()).collect()
            }
            None => vec![Invalidated::everything()],
        };
        if self.queue_in(&mut state, targets.iter().cloned(), seq).overflows {
            targets = vec![Invalidated::everything()];
        }
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
            || state.pending.contains_key(&Invalidated::key(redis_key))
            || state.globs().any(|glob| glob.matches(redis_key))
    }

    pub(crate) fn has_pending_members(&self) -> bool {
        let is_member = |target: &Invalidated| matches!(target, Invalidated::Member(_));
        self.pending_count() > 0 && self.state.lock().pending.keys().any(is_member)
    }

    pub(crate) fn has_pending_member(&self, member: &[u8]) -> bool {
        self.pending_count() > 0
            && self.state.lock().pending.contains_key(&Invalidated::Member(member.to_vec()))
    }

    pub(crate) fn pending_count(&self) -> usize {
        self.pending_count.load(Ordering::Acquire)
    }

    /// A batch of pending invalidations: at most `limit` of each kind.
    pub(crate) fn pending_batch(&self, limit: usize) -> PendingBatch {
        let state = self.state.lock();
        let mut pending = PendingBatch::default();
        for target in state.pending.keys() {
            match target {
                Invalidated::Member(member) => push_below(limit, &mut pending.members, member),
                Invalidated::Key(key) => push_below(limit, &mut pending.keys, key),
                Invalidated::Matching(glob) => push_below(limit, &mut pending.globs, glob),
            }
        }
        pending
    }
}

fn push_below<T: Clone>(limit: usize, batch: &mut Vec<T>, target: &T) {
    if batch.len() < limit {
        batch.push(target.clone());
    }
}

/// Pending invalidations, by their kind.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct PendingBatch {
    pub(crate) members: Vec<Vec<u8>>,
    pub(crate) keys: Vec<Vec<u8>>,
    pub(crate) globs: Vec<Glob>,
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
        assert!(log.queue(many).overflows);
        let everything = PendingBatch { members: vec![FLOOR.to_vec()], ..PendingBatch::default() };
        assert_eq!(log.pending_batch(9), everything);
        assert!(log.blocks(b"anything"));
    }

    #[test]
    fn tags_are_bounded_too_on_each_way_into_the_list() {
        let tag = |n: usize| Invalidated::Member(format!("!{n}").into_bytes());
        let many = || (0..=MAX_PENDING).map(tag);
        let log = ReplayLog::new(Clock::monotonic());
        assert!(log.queue(many()).overflows);
        assert_eq!(log.pending_count(), 1);
        assert!(!log.queue([tag(0)]).overflows, "the next one is pending beside that of everything");
        assert_eq!(log.pending_count(), 2);

        let (early, epoch) = (log.next_seq(), log.replay_epoch());
        log.requeue_recent(Some(Duration::ZERO));
        assert!(log.confirm(many(), early).is_some_and(|queued| queued.overflows));
        assert!(log.record_announced(many(), epoch).is_some_and(|queued| queued.overflows));
        assert_eq!(log.pending_count(), 1);
    }

    #[test]
    fn pending_glob_blocks_what_matches() {
        let log = ReplayLog::new(Clock::monotonic());
        log.queue([key("z"), Invalidated::Matching(Glob::new(b"n:v:a*".to_vec()))]);
        assert!(log.blocks(b"n:v:abc") && log.blocks(b"z"));
        assert!(!log.blocks(b"n:v:b"));
        let globs =
            (0..MAX_PENDING_GLOBS).map(|n| Invalidated::Matching(Glob::new(n.to_string().into_bytes())));
        assert!(log.queue(globs).overflows, "too many to compare with each key");
        assert!(log.blocks(b"n:v:b"));
    }

    #[test]
    fn requeue_covers_last_minute_only() {
        let (clock, hand) = Clock::manual();
        let log = ReplayLog::new(clock);
        log.confirm([key("old")], log.next_seq());
        hand.advance(Duration::from_secs(61));
        log.confirm([key("new")], log.next_seq());
        let epoch = log.replay_epoch();
        assert_eq!(log.requeue_recent(Some(Duration::ZERO)).1, [key("new")]);
        assert_ne!(log.replay_epoch(), epoch);
        assert!(log.blocks(b"new") && !log.blocks(b"old"));
    }

    #[test]
    fn copy_older_than_recent_invalidations_needs_one_of_everything() {
        for age in [None, Some(MAX_RESTORED_AGE + Duration::from_micros(1))] {
            let log = ReplayLog::new(Clock::monotonic());
            log.confirm([key("k")], log.next_seq());
            assert_eq!(log.requeue_recent(age).1, [Invalidated::everything()], "{age:?}");
        }
    }

    #[test]
    fn announced_invalidation_is_queued_again_and_at_once_if_it_comes_late() {
        let log = ReplayLog::new(Clock::monotonic());
        log.record_announced([key("heard")], log.replay_epoch());
        assert!(!log.blocks(b"heard"), "redis has confirmed it");
        let before = log.replay_epoch();
        assert_eq!(log.requeue_recent(Some(Duration::ZERO)).1, [key("heard")]);
        log.record_announced([key("late")], before);
        assert!(log.blocks(b"heard") && log.blocks(b"late"));
    }

    /// The next server is accepted some time after the recent invalidations were queued again.
    #[test]
    fn what_the_former_server_confirms_until_then_is_queued_again() {
        let (clock, hand) = Clock::manual();
        let log = ReplayLog::new(clock.clone());
        log.confirm([key("before")], log.next_seq());
        hand.advance(Duration::from_secs(1));
        let replaced_at = clock.now();
        log.requeue_recent(Some(Duration::ZERO));
        let under_way = log.next_seq();
        log.confirm([key("between")], log.next_seq());
        assert!(!log.blocks(b"between"));
        assert_eq!(log.requeue_since(replaced_at).1, [key("between")]);
        log.confirm([key("under way")], under_way);
        assert!([&b"before"[..], b"between", b"under way"].iter().all(|key| log.blocks(key)));
    }

    #[test]
    fn mutation_that_started_before_requeue_is_queued_again() {
        let log = ReplayLog::new(Clock::monotonic());
        let early = log.next_seq();
        log.requeue_recent(Some(Duration::ZERO));
        log.confirm([key("k")], early);
        assert!(log.blocks(b"k"), "another server may have confirmed it");
        log.confirm([key("k")], log.next_seq());
        assert!(!log.blocks(b"k"));
    }
}

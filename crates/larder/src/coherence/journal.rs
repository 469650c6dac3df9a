//! What this node owes Redis, and what it did lately.
//!
//! The *debts* are invalidations that failed: until they are paid, Redis is not read for their keys. The *history* is
//! what succeeded in the last minute: if Redis turns out to be another server, or an older copy of itself, all of it is
//! owed again. Both are bounded; what does not fit is covered by one invalidation of everything.

use larder_engine::Clock;
use parking_lot::Mutex;
use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

/// How long a success is remembered.
const HISTORY: Duration = Duration::from_secs(60);
/// How many debts there may be.
const MOST_DEBTS: usize = 10_000;
/// How many successes are remembered.
const MOST_HISTORY: usize = 50_000;

/// Something invalidated.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Invalidated {
    /// A Redis key.
    Key(Vec<u8>),
    /// A member of the ledger; `floor` is everything.
    Member(Vec<u8>),
}

impl Invalidated {
    pub(crate) fn everything() -> Self {
        Invalidated::Member(b"floor".to_vec())
    }
}

/// Orders mutations of this node by their beginning.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Turn(u64);

#[derive(Debug)]
pub(crate) struct Journal {
    clock: Clock,
    turns: AtomicU64,
    /// How often the history was owed again.
    eras: AtomicU64,
    /// The length of the debts, so that nobody locks to learn that there are none.
    owed: AtomicUsize,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// Sorted, so that they are paid in the same order in each run.
    debts: BTreeMap<Invalidated, Turn>,
    history: VecDeque<(Duration, Invalidated)>,
    /// Until when the history would be longer than it is.
    forgotten_until: Duration,
    /// When the history was owed again: what began before may have been confirmed by the server that was there then.
    replayed: Option<Turn>,
}

impl Journal {
    pub(crate) fn new(clock: Clock) -> Self {
        let (turns, eras) = (AtomicU64::new(0), AtomicU64::new(0));
        Journal { clock, turns, eras, owed: AtomicUsize::new(0), state: Mutex::default() }
    }

    /// A mutation begins.
    pub(crate) fn turn(&self) -> Turn {
        Turn(self.turns.fetch_add(1, Ordering::AcqRel))
    }

    /// Redis confirmed: what was owed before this turn is paid by it. If the history was owed again since then, so is this.
    pub(crate) fn done(&self, what: impl IntoIterator<Item = Invalidated>, turn: Turn) {
        let now = self.clock.now();
        let mut state = self.state.lock();
        let state = &mut *state;
        while state.history.front().is_some_and(|(when, _)| when.saturating_add(HISTORY) < now) {
            state.history.pop_front();
        }
        let is_outdated = state.replayed.is_some_and(|replayed| turn < replayed);
        for what in what {
            if is_outdated {
                state.debts.insert(what, self.turn());
                continue;
            }
            if state.debts.get(&what).is_some_and(|owed| *owed <= turn) {
                state.debts.remove(&what);
            }
            if state.history.len() == MOST_HISTORY {
                state.history.pop_front();
                state.forgotten_until = now.saturating_add(HISTORY);
            }
            state.history.push_back((now, what));
        }
        self.owed.store(state.debts.len(), Ordering::Release);
    }

    /// Redis did not confirm. Returns the turn in which it is owed, and whether there were too many debts, so that
    /// everything is owed instead.
    pub(crate) fn owe(&self, what: impl IntoIterator<Item = Invalidated>) -> (Turn, bool) {
        let turn = self.turn();
        let mut state = self.state.lock();
        state.debts.extend(what.into_iter().map(|what| (what, turn)));
        let overflows = state.debts.len() > MOST_DEBTS;
        if overflows {
            // The tags stay: their stamps are pending here until they are paid.
            state.debts.retain(|what, _| matches!(what, Invalidated::Member(_)));
            state.debts.insert(Invalidated::everything(), turn);
        }
        self.owed.store(state.debts.len(), Ordering::Release);
        (turn, overflows)
    }

    /// Redis may have lost what was done lately: owes it again. Returns what.
    pub(crate) fn owe_history(&self) -> (Turn, Vec<Invalidated>) {
        let (now, turn) = (self.clock.now(), self.turn());
        let mut state = self.state.lock();
        self.eras.fetch_add(1, Ordering::AcqRel);
        state.replayed = Some(turn);
        let mut again: Vec<_> = if now < state.forgotten_until {
            vec![Invalidated::everything()]
        } else {
            let recent = state.history.iter().filter(|(when, _)| when.saturating_add(HISTORY) >= now);
            recent.map(|(_, what)| what.clone()).collect()
        };
        if again.len() > MOST_DEBTS {
            again = vec![Invalidated::everything()];
        }
        state.debts.extend(again.iter().map(|what| (what.clone(), turn)));
        self.owed.store(state.debts.len(), Ordering::Release);
        (turn, again)
    }

    /// Taken before Redis is asked: the answer counts only if it is still the same era, because by then another server may
    /// have been accepted, and have been told what it had forgotten after it answered.
    pub(crate) fn era(&self) -> u64 {
        self.eras.load(Ordering::Acquire)
    }

    /// Whether Redis must not be read for this key. Cost: one atomic read if nothing is owed.
    pub(crate) fn blocks(&self, redis_key: &[u8]) -> bool {
        if self.owed.load(Ordering::Acquire) == 0 {
            return false;
        }
        let state = self.state.lock();
        state.debts.contains_key(&Invalidated::everything())
            || state.debts.contains_key(&Invalidated::Key(redis_key.to_vec()))
    }

    /// Whether members of the ledger are owed.
    pub(crate) fn owes_members(&self) -> bool {
        self.debts() > 0 && self.state.lock().debts.keys().any(|debt| matches!(debt, Invalidated::Member(_)))
    }

    pub(crate) fn debts(&self) -> usize {
        self.owed.load(Ordering::Acquire)
    }

    /// Some of what is owed, at most `most` members of the ledger and as many keys.
    pub(crate) fn some_debts(&self, most: usize) -> (Vec<Vec<u8>>, Vec<Vec<u8>>) {
        let state = self.state.lock();
        let (mut members, mut keys) = (Vec::new(), Vec::new());
        for debt in state.debts.keys() {
            let (kind, what) = match debt {
                Invalidated::Member(member) => (&mut members, member),
                Invalidated::Key(key) => (&mut keys, key),
            };
            if kind.len() < most {
                kind.push(what.clone());
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
    fn a_debt_blocks_its_key_until_a_later_turn_pays_it() {
        let journal = Journal::new(Clock::monotonic());
        let early = journal.turn();
        journal.owe([key("a")]);
        assert!(journal.blocks(b"a") && !journal.blocks(b"b"));
        journal.done([key("a")], early);
        assert!(journal.blocks(b"a"), "what began before the failure does not pay for it");
        journal.done([key("a")], journal.turn());
        assert!(!journal.blocks(b"a"));
    }

    #[test]
    fn too_many_debts_are_one() {
        let journal = Journal::new(Clock::monotonic());
        let many = (0..=MOST_DEBTS).map(|n| key(&n.to_string()));
        assert!(journal.owe(many).1);
        assert_eq!(journal.some_debts(9), (vec![b"floor".to_vec()], vec![]));
        assert!(journal.blocks(b"anything"));
    }

    #[test]
    fn the_last_minute_is_owed_again() {
        let (clock, hand) = Clock::manual();
        let journal = Journal::new(clock);
        journal.done([key("old")], journal.turn());
        hand.advance(Duration::from_secs(61));
        journal.done([key("new")], journal.turn());
        let era = journal.era();
        assert_eq!(journal.owe_history().1, [key("new")]);
        assert_ne!(journal.era(), era);
        assert!(journal.blocks(b"new") && !journal.blocks(b"old"));
    }

    #[test]
    fn what_was_confirmed_before_the_history_was_owed_again_is_owed_too() {
        let journal = Journal::new(Clock::monotonic());
        let early = journal.turn();
        journal.owe_history();
        journal.done([key("k")], early);
        assert!(journal.blocks(b"k"), "it may be another server that confirmed it");
        journal.done([key("k")], journal.turn());
        assert!(!journal.blocks(b"k"));
    }
}

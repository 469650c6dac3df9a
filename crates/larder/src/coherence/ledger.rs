//! What this node knows of the ledger: when each tag, and everything, was last invalidated.
//!
//! Two clocks say whether an entry is older than an invalidation. The *ledger's* clock orders what happened on different
//! nodes: an entry bears the clock as it was when its load began, an invalidation moves it on. The *epoch* counts what
//! this node has heard or done itself, and decides where the ledger was not asked: for values that were loaded while
//! Redis was away, for caches without Redis, and while an invalidation of this node has not reached Redis yet.
//!
//! An entry remembers the epoch in which it was last found valid, so a hit compares two numbers and looks at no tag.

use crate::coherence::journal::Turn;
use crate::tier::Stamps;
use crate::tier::memory::Facts;
use parking_lot::RwLock;
use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Beyond so many tags this node forgets all and asks again, or, without Redis, gives up what is older.
const MOST_TAGS: usize = 100_000;

/// How an invalidation treats what it meets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Invalidation {
    /// Never served again.
    #[default]
    Hard,
    /// Marked stale: served only as the rules of grace allow.
    Soft,
}

/// A member of the ledger: all entries, or those with a tag; hard or soft.
pub(crate) fn member(tag: Option<&str>, how: Invalidation) -> Vec<u8> {
    match (tag, how) {
        (None, Invalidation::Hard) => b"clear".to_vec(),
        (None, Invalidation::Soft) => b"expire".to_vec(),
        (Some(tag), Invalidation::Hard) => [b"!", tag.as_bytes()].concat(),
        (Some(tag), Invalidation::Soft) => [b"~", tag.as_bytes()].concat(),
    }
}

/// The members by which an entry with these tags is judged, in an order that [`Ledger::judge`] does not depend on.
pub(crate) fn members_of<'t>(tags: impl IntoIterator<Item = &'t str>) -> Vec<Vec<u8>> {
    let both = [Invalidation::Hard, Invalidation::Soft];
    let everything = both.map(|how| member(None, how));
    let tagged = tags.into_iter().flat_map(|tag| both.map(|how| member(Some(tag), how)));
    everything.into_iter().chain(tagged).collect()
}

/// What the ledger says of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Judgement {
    Valid,
    /// Invalidated softly.
    Stale,
    /// Invalidated.
    Dead,
    /// This node does not know all the stamps.
    Unknown,
}

#[derive(Debug)]
pub(crate) struct Ledger {
    /// Moves on with each invalidation that this node does or hears of.
    epoch: AtomicU64,
    /// The highest clock seen.
    clock: AtomicU64,
    /// Whether it is that of the ledger that there is now.
    is_current: AtomicBool,
    /// How often announcements may have been missed.
    gaps: AtomicU64,
    known: RwLock<Known>,
    /// Whether there is a ledger in Redis, so that a tag that is not known has to be asked for.
    shared: bool,
}

#[derive(Debug, Default)]
struct Known {
    floor: Stamp,
    everything: Pair,
    tags: HashMap<Box<[u8]>, Pair>,
}

/// When the same entries were last invalidated hard and softly.
#[derive(Clone, Copy, Debug, Default)]
struct Pair {
    hard: Stamp,
    soft: Stamp,
}

impl Known {
    /// The stamp of a member; `None` if this node has no use for it.
    fn stamp(&mut self, member: &[u8]) -> Option<&mut Stamp> {
        match member {
            b"floor" => Some(&mut self.floor),
            b"clear" => Some(&mut self.everything.hard),
            b"expire" => Some(&mut self.everything.soft),
            [b'!', tag @ ..] => Some(&mut self.tags.entry(tag.into()).or_default().hard),
            [b'~', tag @ ..] => Some(&mut self.tags.entry(tag.into()).or_default().soft),
            _ => None,
        }
    }

    fn stamps(&mut self) -> impl Iterator<Item = &mut Stamp> {
        self.tags.values_mut().chain([&mut self.everything]).flat_map(|pair| [&mut pair.hard, &mut pair.soft])
    }
}

/// When something was last invalidated.
#[derive(Clone, Copy, Debug, Default)]
struct Stamp {
    clock: u64,
    epoch: u64,
    /// The latest invalidation of this node that has not reached Redis yet.
    pending: Option<Turn>,
    /// Whether nothing later can have been missed. What is not sure still bars what is older.
    sure: bool,
}

impl Stamp {
    fn admits(self, facts: &Facts) -> bool {
        // Where the ledger was not asked, or does not have it yet, this node's own count decides; what the ledger has
        // counts too.
        let by_clock = facts.clock == 0 || facts.clock >= self.clock;
        let by_epoch = facts.epoch >= self.epoch && !(facts.promoted && self.pending.is_some());
        by_clock && (by_epoch || (facts.clock != 0 && self.pending.is_none()))
    }
}

impl Ledger {
    pub(crate) fn new(shared: bool) -> Self {
        Ledger {
            epoch: AtomicU64::new(1),
            clock: AtomicU64::new(0),
            is_current: AtomicBool::new(false),
            gaps: AtomicU64::new(0),
            known: RwLock::default(),
            shared,
        }
    }

    pub(crate) fn epoch(&self) -> u64 {
        self.epoch.load(Ordering::Acquire)
    }

    /// Taken before Redis is asked: what an answer says is the latest only if no announcement was missed while it was on
    /// its way.
    pub(crate) fn gaps(&self) -> u64 {
        self.gaps.load(Ordering::Acquire)
    }

    /// The highest clock seen; 0 if none was.
    pub(crate) fn clock(&self) -> u64 {
        self.clock.load(Ordering::Acquire)
    }

    /// The highest clock seen in the ledger that there is now, if it was asked.
    pub(crate) fn known_clock(&self) -> Option<u64> {
        self.is_current.load(Ordering::Acquire).then(|| self.clock())
    }

    /// Whether an entry is older than an invalidation of it, as far as this node knows. Remembers that it is not.
    pub(crate) fn judge(&self, facts: &Facts) -> Judgement {
        self.judge_with(facts, self.shared && facts.clock != 0)
    }

    /// The same for a value that this node has just loaded. What it has not heard of since the load began has not
    /// happened since, if it `missed_nothing`.
    pub(crate) fn judge_loaded(&self, facts: &Facts, missed_nothing: bool) -> Judgement {
        self.judge_with(facts, self.shared && facts.clock != 0 && !missed_nothing)
    }

    fn judge_with(&self, facts: &Facts, must_know: bool) -> Judgement {
        let known = self.known.read();
        // Under the lock: what is applied later has a later epoch.
        let epoch = self.epoch();
        if facts.checked.load(Ordering::Acquire) == epoch {
            return Judgement::Valid;
        }
        // What was heard since the load began may have been forgotten since.
        let must_know = must_know || (self.shared && facts.clock != 0 && facts.epoch < known.floor.epoch);
        let mut judgement = if known.floor.admits(facts) { Judgement::Valid } else { Judgement::Dead };
        let tags = facts.tags.iter().map(|tag| known.tags.get(tag.as_bytes()).copied().unwrap_or_default());
        for Pair { hard, soft } in std::iter::once(known.everything).chain(tags) {
            for (stamp, invalidated) in [(hard, Judgement::Dead), (soft, Judgement::Stale)] {
                let seen = match stamp.admits(facts) {
                    true if stamp.sure || !must_know => Judgement::Valid,
                    true => Judgement::Unknown,
                    false => invalidated,
                };
                judgement = worse(judgement, seen);
            }
        }
        if judgement == Judgement::Valid {
            facts.checked.store(epoch, Ordering::Release);
        }
        judgement
    }

    /// What Redis says, that was asked after so many gaps. Scores only grow, so what was heard meanwhile stands.
    pub(crate) fn learn(&self, members: &[Vec<u8>], stamps: &Stamps, gaps: u64) {
        self.clock.fetch_max(stamps.clock, Ordering::AcqRel);
        let mut known = self.known.write();
        let is_latest = self.gaps() == gaps;
        self.is_current.fetch_or(is_latest, Ordering::AcqRel);
        self.make_room(&mut known, members.len());
        let mut is_news = stamps.floor > known.floor.clock;
        known.floor.clock = known.floor.clock.max(stamps.floor);
        let floor = known.floor.clock;
        for (member, stamp) in members.iter().zip(&stamps.members) {
            let clock = stamp.unwrap_or(floor);
            if let Some(known) = known.stamp(member) {
                is_news |= clock > known.clock;
                known.clock = known.clock.max(clock);
                known.sure |= is_latest;
            }
        }
        if is_news {
            // What was found valid by what was known before has to be looked at again.
            self.epoch.fetch_add(1, Ordering::AcqRel);
        }
    }

    /// An invalidation of this node begins, or is owed: until it is settled, nothing that is older, and nothing from
    /// Redis, is valid.
    pub(crate) fn begin(&self, members: &[Vec<u8>], turn: Turn) {
        self.apply(members, |stamp| stamp.pending = stamp.pending.max(Some(turn)));
    }

    /// What was begun in this turn, after so many gaps, has reached Redis under this clock, and with it what was begun
    /// before.
    pub(crate) fn settle(&self, members: &[Vec<u8>], clock: u64, turn: Turn, gaps: u64) {
        self.clock.fetch_max(clock, Ordering::AcqRel);
        self.apply(members, |stamp| {
            stamp.pending = stamp.pending.filter(|pending| *pending > turn);
            stamp.clock = stamp.clock.max(clock);
            stamp.sure |= self.gaps() == gaps;
        });
    }

    /// Another node invalidated.
    pub(crate) fn hear(&self, members: &[Vec<u8>], clock: u64) {
        self.clock.fetch_max(clock, Ordering::AcqRel);
        self.apply(members, |stamp| {
            stamp.clock = stamp.clock.max(clock);
            stamp.sure = true;
        });
    }

    fn apply(&self, members: &[Vec<u8>], change: impl Fn(&mut Stamp)) {
        let mut known = self.known.write();
        self.make_room(&mut known, members.len());
        let epoch = self.epoch.fetch_add(1, Ordering::AcqRel) + 1;
        for member in members {
            if let Some(stamp) = known.stamp(member) {
                stamp.epoch = epoch;
                change(stamp);
            }
        }
    }

    /// Announcements may have been missed: stamps have to be asked for again. What is known goes on barring what is older:
    /// this node may have to serve alone before it can ask.
    pub(crate) fn forget(&self) {
        let mut known = self.known.write();
        self.gaps.fetch_add(1, Ordering::AcqRel);
        self.is_current.store(false, Ordering::Release);
        if self.shared {
            known.stamps().for_each(|stamp| stamp.sure = false);
        }
        self.epoch.fetch_add(1, Ordering::AcqRel);
    }

    fn make_room(&self, known: &mut Known, more: usize) {
        if known.tags.len() + more <= MOST_TAGS {
            return;
        }
        known.tags.retain(|_, pair| pair.hard.pending.is_some() || pair.soft.pending.is_some());
        // What the ledger was not asked about can be judged by nothing else.
        known.floor.epoch = self.epoch.fetch_add(1, Ordering::AcqRel) + 1;
    }
}

fn worse(one: Judgement, other: Judgement) -> Judgement {
    let rank = |judgement| match judgement {
        Judgement::Valid => 0,
        Judgement::Stale => 1,
        Judgement::Unknown => 2,
        Judgement::Dead => 3,
    };
    if rank(other) > rank(one) { other } else { one }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::coherence::journal::Journal;
    use std::time::Duration;

    /// Facts of a value that was loaded under this clock and has a tag.
    fn tagged(ledger: &Ledger, clock: u64) -> Facts {
        let mut facts = Facts::new(Duration::ZERO, Duration::MAX, Duration::MAX, 1, ledger.epoch());
        facts.clock = clock;
        facts.tags = Box::new(["t".into()]);
        facts.checked.store(0, Ordering::Release);
        facts
    }

    fn hard(tag: &str) -> Vec<Vec<u8>> {
        vec![member(Some(tag), Invalidation::Hard)]
    }

    /// Hears of so many tags that what was known before is forgotten.
    fn overflow(ledger: &Ledger) {
        (0..=MOST_TAGS).for_each(|n| ledger.hear(&hard(&n.to_string()), 0));
    }

    #[test]
    fn what_was_asked_before_a_gap_is_not_known_after_it() {
        let ledger = Ledger::new(true);
        let members = members_of(["t"]);
        let stamps = |clock| Stamps { clock, floor: 1, members: vec![None; members.len()] };
        let before = ledger.gaps();
        ledger.forget();
        ledger.learn(&members, &stamps(5), before);
        assert_eq!(ledger.known_clock(), None);
        assert_eq!(ledger.judge(&tagged(&ledger, 5)), Judgement::Unknown);
        ledger.learn(&members, &stamps(6), ledger.gaps());
        assert_eq!(ledger.known_clock(), Some(6));
        assert_eq!(ledger.judge(&tagged(&ledger, 5)), Judgement::Valid);
    }

    #[test]
    fn what_was_confirmed_over_a_gap_bars_what_is_older_and_proves_nothing() {
        let ledger = Ledger::new(true);
        let (turn, before) = (Journal::new(larder_engine::Clock::monotonic()).turn(), ledger.gaps());
        let members = members_of(["t"]);
        ledger.begin(&members, turn);
        ledger.forget();
        ledger.settle(&members, 7, turn, before);
        assert_eq!(ledger.judge(&tagged(&ledger, 6)), Judgement::Dead);
        assert_eq!(ledger.judge(&tagged(&ledger, 8)), Judgement::Unknown);
    }

    #[test]
    fn what_is_confirmed_does_not_settle_what_was_begun_later() {
        let (ledger, journal) = (Ledger::new(true), Journal::new(larder_engine::Clock::monotonic()));
        let (early, late) = (journal.turn(), journal.turn());
        ledger.begin(&hard("t"), early);
        ledger.begin(&hard("t"), late);
        ledger.settle(&hard("t"), 5, early, ledger.gaps());
        let mut found = tagged(&ledger, 6);
        found.promoted = true;
        assert_eq!(ledger.judge(&found), Judgement::Dead, "the later one has not reached redis");
    }

    #[test]
    fn forgetting_tags_revives_nothing() {
        for shared in [false, true] {
            let ledger = Ledger::new(shared);
            let old = tagged(&ledger, 0);
            ledger.hear(&hard("t"), 0);
            overflow(&ledger);
            assert_eq!(ledger.judge(&old), Judgement::Dead, "never asked about, shared: {shared}");
            assert_eq!(ledger.judge(&tagged(&ledger, 0)), Judgement::Valid, "what is newer");
        }
        let ledger = Ledger::new(true);
        ledger.learn(&members_of([]), &Stamps { clock: 5, floor: 1, members: vec![None; 2] }, ledger.gaps());
        let loading = tagged(&ledger, 5);
        ledger.hear(&hard("t"), 6);
        overflow(&ledger);
        assert_eq!(ledger.judge_loaded(&loading, true), Judgement::Unknown, "during the load");
    }
}

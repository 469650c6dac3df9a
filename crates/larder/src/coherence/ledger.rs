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
            known: RwLock::default(),
            shared,
        }
    }

    pub(crate) fn epoch(&self) -> u64 {
        self.epoch.load(Ordering::Acquire)
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

    /// What Redis says. Scores only grow, so what was heard meanwhile stands.
    pub(crate) fn learn(&self, members: &[Vec<u8>], stamps: &Stamps) {
        self.clock.fetch_max(stamps.clock, Ordering::AcqRel);
        self.is_current.store(true, Ordering::Release);
        let mut known = self.known.write();
        self.make_room(&mut known, members.len());
        let mut is_news = stamps.floor > known.floor.clock;
        known.floor.clock = known.floor.clock.max(stamps.floor);
        let floor = known.floor.clock;
        for (member, stamp) in members.iter().zip(&stamps.members) {
            let clock = stamp.unwrap_or(floor);
            if let Some(known) = known.stamp(member) {
                is_news |= clock > known.clock;
                known.clock = known.clock.max(clock);
                known.sure = true;
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

    /// What was begun in this turn has reached Redis under this clock, and with it what was begun before.
    pub(crate) fn settle(&self, members: &[Vec<u8>], clock: u64, turn: Turn) {
        self.clock.fetch_max(clock, Ordering::AcqRel);
        self.apply(members, |stamp| {
            stamp.pending = stamp.pending.filter(|pending| *pending > turn);
            stamp.clock = stamp.clock.max(clock);
            stamp.sure = true;
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
        let epoch = self.epoch.fetch_add(1, Ordering::AcqRel) + 1;
        if !self.shared {
            known.floor.epoch = epoch;
        }
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

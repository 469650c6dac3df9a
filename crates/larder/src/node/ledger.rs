//! What this node knows of the ledger: when each tag, and the whole namespace, was last invalidated.
//!
//! Two counters order an entry and an invalidation. The *ledger clock* orders the events of different nodes: an entry
//! has the clock of the moment at which its load started, and an invalidation advances the clock. The *epoch* counts
//! the invalidations that this node did or received. It decides where the ledger was not read: for values that were
//! loaded while Redis did not reply, for caches without Redis, and while an invalidation of this node has not reached
//! Redis.
//!
//! An entry remembers the epoch in which it was last found valid, so a hit compares two numbers and reads no tag.

use super::entry::EntryState;
use super::soft_time::SoftTime;
use crate::tier::{Stamps, time_member, timed_member};
use larder_engine::Clock;
use parking_lot::RwLock;
use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// The most tags whose stamps a node stores. One more, and it drops all but the pending ones, which the replay log
/// bounds: with Redis it reads them again, without Redis older entries with tags are dead.
const MAX_KNOWN_TAGS: usize = 100_000;

/// The member of the ledger that invalidates everything older, whatever its tags are.
pub(crate) const FLOOR: &[u8] = b"floor";

/// The effect of an invalidation on the entries that it finds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Invalidation {
    /// The entries are never served again.
    #[default]
    Hard,
    /// The entries become stale: a fetch serves them if the load fails, within their grace period, which begins at the
    /// invalidation.
    Soft,
}

/// Orders the mutations of this node by their start.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct MutationSeq(pub(crate) u64);

/// A member of the ledger: all entries, or those with a tag; hard or soft.
pub(crate) fn member(tag: Option<&str>, how: Invalidation) -> Vec<u8> {
    match (tag, how) {
        (None, Invalidation::Hard) => b"clear".to_vec(),
        (None, Invalidation::Soft) => b"expire".to_vec(),
        (Some(tag), Invalidation::Hard) => [b"!", tag.as_bytes()].concat(),
        (Some(tag), Invalidation::Soft) => [b"~", tag.as_bytes()].concat(),
    }
}

/// The members by which an entry with these tags is judged, each soft one before its time.
pub(crate) fn members_of<'t>(tags: impl IntoIterator<Item = &'t str>) -> Vec<Vec<u8>> {
    let of = |tag| {
        let [hard, soft] = [Invalidation::Hard, Invalidation::Soft].map(|how| member(tag, how));
        let time = time_member(&soft).expect("it is a soft one");
        [hard, soft, time]
    };
    let tagged = tags.into_iter().flat_map(|tag| of(Some(tag)));
    of(None).into_iter().chain(tagged).collect()
}

/// The members by which an entry without tags is judged.
pub(crate) fn untagged_members() -> Vec<Vec<u8>> {
    members_of([])
}

/// What the ledger knows of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LedgerJudgement {
    /// The invalidation of the entry, the hard one if there are both.
    pub(crate) invalidated: Option<Invalidation>,
    /// When it was softly invalidated.
    pub(crate) soft_time: SoftTime,
    /// Whether no other invalidation of the entry can be missing.
    pub(crate) is_certain: bool,
}

impl LedgerJudgement {
    /// Whether the entry is valid for sure.
    pub(crate) fn is_valid(self) -> bool {
        self.invalidated.is_none() && self.is_certain
    }

    fn valid() -> Self {
        LedgerJudgement { invalidated: None, soft_time: SoftTime::default(), is_certain: true }
    }
}

#[derive(Debug)]
pub(crate) struct Ledger {
    /// Advances with each invalidation that this node does or receives.
    epoch: AtomicU64,
    /// The highest ledger clock that this node has read.
    clock: AtomicU64,
    /// Whether that clock belongs to the ledger that exists now.
    is_current: AtomicBool,
    /// How many times announcements may have been missed.
    gaps: AtomicU64,
    stamps: RwLock<KnownStamps>,
    /// Whether Redis has a ledger, so that the stamps of an unknown tag must be read.
    has_redis: bool,
    /// The engine's clock.
    time: Clock,
}

#[derive(Debug, Default)]
struct KnownStamps {
    floor: Stamp,
    /// Entries with tags must be newer than it too: stamps of their tags may have been dropped.
    tag_floor: Stamp,
    everything: StampPair,
    tags: HashMap<Box<[u8]>, StampPair>,
}

/// The last hard and the last soft invalidation of the same entries.
#[derive(Clone, Copy, Debug, Default)]
struct StampPair {
    hard: Stamp,
    soft: Stamp,
    /// When the soft one was made.
    soft_time: SoftTime,
}

impl KnownStamps {
    /// The stamp of a member; `None` for a member that this version does not know.
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

    /// The time of a soft member.
    fn soft_time(&mut self, member: &[u8]) -> Option<&mut SoftTime> {
        match member {
            b"expire" => Some(&mut self.everything.soft_time),
            [b'~', tag @ ..] => Some(&mut self.tags.entry(tag.into()).or_default().soft_time),
            _ => None,
        }
    }

    /// An invalidation of everything starts. It takes the place of all that are pending: each is older, and the replay log
    /// may have dropped it, so that nothing would confirm it.
    fn forget_pending(&mut self) {
        self.tags.clear();
        self.everything.hard.pending = None;
        self.everything.soft.pending = None;
    }

    fn all(&mut self) -> impl Iterator<Item = &mut Stamp> {
        self.tags.values_mut().chain([&mut self.everything]).flat_map(|pair| [&mut pair.hard, &mut pair.soft])
    }
}

/// The last invalidation of a member.
#[derive(Clone, Copy, Debug, Default)]
struct Stamp {
    clock: u64,
    epoch: u64,
    /// The latest invalidation of this node that has not reached Redis.
    pending: Option<MutationSeq>,
    /// Whether no later invalidation can be missing. An uncertain stamp still refuses older entries.
    is_certain: bool,
}

impl Stamp {
    /// Whether an entry is newer than the invalidation.
    fn admits(self, state: &EntryState) -> bool {
        // Without a clock, or while the stamp is not in the ledger, the epoch decides. A clock in the ledger counts
        // too.
        let by_clock = state.clock == 0 || state.clock >= self.clock;
        let by_epoch = state.epoch >= self.epoch && !(state.promoted && self.pending.is_some());
        by_clock && (by_epoch || (state.clock != 0 && self.pending.is_none()))
    }
}

impl Ledger {
    pub(crate) fn new(has_redis: bool, time: Clock) -> Self {
        Ledger {
            epoch: AtomicU64::new(1),
            clock: AtomicU64::new(0),
            is_current: AtomicBool::new(false),
            gaps: AtomicU64::new(0),
            stamps: RwLock::default(),
            has_redis,
            time,
        }
    }

    #[inline]
    pub(crate) fn epoch(&self) -> u64 {
        self.epoch.load(Ordering::Acquire)
    }

    /// Taken before Redis is asked: a reply is the latest state only if no announcement was missed in between.
    pub(crate) fn gaps(&self) -> u64 {
        self.gaps.load(Ordering::Acquire)
    }

    /// The highest ledger clock that this node has read; 0 if it read none.
    pub(crate) fn clock(&self) -> u64 {
        self.clock.load(Ordering::Acquire)
    }

    /// A heartbeat found the ledger at this clock.
    pub(crate) fn observe(&self, clock: u64) {
        self.clock.fetch_max(clock, Ordering::AcqRel);
    }

    /// The highest clock of the ledger that exists now, if it was read.
    pub(crate) fn known_clock(&self) -> Option<u64> {
        self.is_current.load(Ordering::Acquire).then(|| self.clock())
    }

    /// Compares an entry with all invalidations that this node knows. Stores in the entry that it is valid.
    pub(crate) fn judge(&self, state: &EntryState) -> LedgerJudgement {
        self.judge_with(state, self.has_redis && state.clock != 0)
    }

    /// The same for a value that this node has just loaded. If the node `missed_nothing` during the load, an
    /// invalidation that it did not receive did not happen.
    pub(crate) fn judge_loaded(&self, state: &EntryState, missed_nothing: bool) -> LedgerJudgement {
        self.judge_with(state, self.has_redis && state.clock != 0 && !missed_nothing)
    }

    fn judge_with(&self, state: &EntryState, needs_certain_stamps: bool) -> LedgerJudgement {
        let stamps = self.stamps.read();
        // Under the lock: a later invalidation has a later epoch.
        let epoch = self.epoch();
        if state.is_checked_in(epoch) {
            return LedgerJudgement::valid();
        }
        // A stamp that was received during the load may have been dropped since.
        let needs_certain_stamps = needs_certain_stamps
            || (self.has_redis && state.clock != 0 && state.epoch < stamps.tag_floor.epoch);
        let has_lost_stamps = !state.tags.is_empty() && !stamps.tag_floor.admits(state);
        let mut is_hard = !stamps.floor.admits(state) || has_lost_stamps;
        let (mut is_soft, mut is_certain, mut earliest) = (false, true, SoftTime::default());
        let tags = state.tags.iter().map(|tag| stamps.tags.get(tag.as_bytes()).copied().unwrap_or_default());
        for StampPair { hard, soft, soft_time } in std::iter::once(stamps.everything).chain(tags) {
            is_hard |= !hard.admits(state);
            // A stale value that is served until the next attempt to load is softly invalidated already.
            if !state.is_stale_value && !soft.admits(state) {
                is_soft = true;
                earliest = earliest.or_earlier(soft_time);
            }
            is_certain &= (hard.is_certain && soft.is_certain) || !needs_certain_stamps;
        }
        let invalidated = match (is_hard, is_soft) {
            (true, _) => Some(Invalidation::Hard),
            (false, true) => Some(Invalidation::Soft),
            (false, false) => None,
        };
        let judgement = LedgerJudgement { invalidated, soft_time: earliest, is_certain };
        if judgement.is_valid() {
            state.set_checked_in(epoch);
        }
        judgement
    }

    /// Stores stamps that were read from Redis; `gaps` was taken before. Clocks only grow, so a stamp that was received
    /// in between stays.
    pub(crate) fn learn(&self, members: &[Vec<u8>], read: &Stamps, gaps: u64) {
        self.clock.fetch_max(read.clock, Ordering::AcqRel);
        let mut stamps = self.stamps.write();
        let is_latest = self.gaps() == gaps;
        self.is_current.fetch_or(is_latest, Ordering::AcqRel);
        self.make_room(&mut stamps, members.len());
        let mut is_news = read.floor > stamps.floor.clock;
        stamps.floor.clock = stamps.floor.clock.max(read.floor);
        for (member, score) in members.iter().zip(&read.members) {
            if let Some(soft) = timed_member(member) {
                if let Some((made_ms, time)) = score.zip(stamps.soft_time(soft)) {
                    time.set_made(made_ms);
                }
                continue;
            }
            let clock = read.of(member, *score);
            let Some(stamp) = stamps.stamp(member) else { continue };
            let is_newer = clock > stamp.clock;
            stamp.clock = stamp.clock.max(clock);
            stamp.is_certain |= is_latest;
            is_news |= is_newer;
            if is_newer {
                self.learn_time(&mut stamps, member);
            }
        }
        if is_news {
            // Entries that were valid by the older stamps must be judged again.
            self.epoch.fetch_add(1, Ordering::AcqRel);
        }
    }

    /// This node learns of a newer invalidation now. The time in the ledger follows, if it is a soft one.
    fn learn_time(&self, stamps: &mut KnownStamps, member: &[u8]) {
        if let Some(time) = stamps.soft_time(member) {
            *time = SoftTime::learned(self.time.now());
        }
    }

    /// An invalidation of this node starts. Until it is confirmed, older entries and entries from Redis are not valid.
    pub(crate) fn start(&self, members: &[Vec<u8>], seq: MutationSeq) {
        let mut stamps = self.stamps.write();
        for member in members {
            self.learn_time(&mut stamps, member);
        }
        self.set_pending(&mut stamps, members, seq);
    }

    /// The same for one that is queued again: it was made when it was started, if that is known.
    pub(crate) fn start_again(&self, members: &[Vec<u8>], seq: MutationSeq) {
        let mut stamps = self.stamps.write();
        for member in members {
            if stamps.stamp(member).is_some_and(|stamp| stamp.pending.is_none()) {
                self.learn_time(&mut stamps, member);
            }
        }
        self.set_pending(&mut stamps, members, seq);
    }

    fn set_pending(&self, stamps: &mut KnownStamps, members: &[Vec<u8>], seq: MutationSeq) {
        if members.iter().any(|member| member == FLOOR) {
            stamps.forget_pending();
        }
        self.apply(stamps, members, |stamp| stamp.pending = stamp.pending.max(Some(seq)));
    }

    /// Redis confirmed, under this clock, the invalidation with this number and all that started before it. `gaps` was
    /// taken before Redis was asked.
    pub(crate) fn confirm(&self, members: &[Vec<u8>], clock: u64, seq: MutationSeq, gaps: u64) {
        self.clock.fetch_max(clock, Ordering::AcqRel);
        self.apply(&mut self.stamps.write(), members, |stamp| {
            stamp.pending = stamp.pending.filter(|pending| *pending > seq);
            stamp.clock = stamp.clock.max(clock);
            stamp.is_certain |= self.gaps() == gaps;
        });
    }

    /// Another node announced an invalidation.
    pub(crate) fn receive(&self, members: &[Vec<u8>], clock: u64) {
        self.clock.fetch_max(clock, Ordering::AcqRel);
        let mut stamps = self.stamps.write();
        for member in members {
            if stamps.stamp(member).is_some_and(|stamp| clock > stamp.clock) {
                self.learn_time(&mut stamps, member);
            }
        }
        self.apply(&mut stamps, members, |stamp| {
            stamp.clock = stamp.clock.max(clock);
            stamp.is_certain = true;
        });
    }

    fn apply(&self, stamps: &mut KnownStamps, members: &[Vec<u8>], update: impl Fn(&mut Stamp)) {
        self.make_room(stamps, members.len());
        let epoch = self.epoch.fetch_add(1, Ordering::AcqRel) + 1;
        for member in members {
            if let Some(stamp) = stamps.stamp(member) {
                stamp.epoch = epoch;
                update(stamp);
            }
        }
    }

    /// Announcements may have been missed: stamps must be read again. The known stamps still refuse older entries,
    /// since this node may have to serve without Redis before it can read them.
    pub(crate) fn record_gap(&self) {
        let mut stamps = self.stamps.write();
        self.gaps.fetch_add(1, Ordering::AcqRel);
        self.is_current.store(false, Ordering::Release);
        if self.has_redis {
            stamps.all().for_each(|stamp| stamp.is_certain = false);
        }
        self.epoch.fetch_add(1, Ordering::AcqRel);
    }

    fn make_room(&self, stamps: &mut KnownStamps, more: usize) {
        if stamps.tags.len() + more <= MAX_KNOWN_TAGS {
            return;
        }
        stamps.tags.retain(|_, pair| pair.hard.pending.is_some() || pair.soft.pending.is_some());
        // Nothing else judges entries with tags that have no ledger clock.
        stamps.tag_floor.epoch = self.epoch.fetch_add(1, Ordering::AcqRel) + 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::node::server_clock::ServerClock;
    use std::time::Duration;

    /// The state of a value with a tag that was loaded under this clock.
    fn tagged(ledger: &Ledger, clock: u64) -> EntryState {
        let mut state = EntryState::new(Duration::ZERO, Duration::MAX, Duration::MAX, 1, ledger.epoch());
        state.clock = clock;
        state.tags = Box::new(["t".into()]);
        state.set_unchecked();
        state
    }

    fn new_ledger(has_redis: bool) -> Ledger {
        Ledger::new(has_redis, Clock::monotonic())
    }

    /// Whether an entry is invalidated, and how certainly.
    fn judged(judgement: LedgerJudgement) -> (Option<Invalidation>, bool) {
        (judgement.invalidated, judgement.is_certain)
    }

    fn hard(tag: &str) -> Vec<Vec<u8>> {
        vec![member(Some(tag), Invalidation::Hard)]
    }

    /// Receives so many tags that the ledger drops the tags it knew before.
    fn overflow(ledger: &Ledger) {
        (0..=MAX_KNOWN_TAGS).for_each(|n| ledger.receive(&hard(&n.to_string()), 0));
    }

    #[test]
    fn stamps_read_before_gap_are_unknown_after_it() {
        let ledger = new_ledger(true);
        let members = members_of(["t"]);
        let stamps = |clock| Stamps { clock, floor: 1, tag_floor: 0, members: vec![None; members.len()] };
        let before = ledger.gaps();
        ledger.record_gap();
        ledger.learn(&members, &stamps(5), before);
        assert_eq!(ledger.known_clock(), None);
        assert_eq!(judged(ledger.judge(&tagged(&ledger, 5))), (None, false));
        ledger.learn(&members, &stamps(6), ledger.gaps());
        assert_eq!(ledger.known_clock(), Some(6));
        assert!(ledger.judge(&tagged(&ledger, 5)).is_valid());
    }

    #[test]
    fn confirmation_across_gap_refuses_older_entries_and_validates_none() {
        let ledger = new_ledger(true);
        let (seq, before) = (MutationSeq(1), ledger.gaps());
        let members = members_of(["t"]);
        ledger.start(&members, seq);
        ledger.record_gap();
        ledger.confirm(&members, 7, seq, before);
        assert_eq!(ledger.judge(&tagged(&ledger, 6)).invalidated, Some(Invalidation::Hard));
        assert_eq!(judged(ledger.judge(&tagged(&ledger, 8))), (None, false));
    }

    #[test]
    fn confirmation_leaves_later_mutation_pending() {
        let ledger = new_ledger(true);
        let (early, late) = (MutationSeq(1), MutationSeq(2));
        ledger.start(&hard("t"), early);
        ledger.start(&hard("t"), late);
        ledger.confirm(&hard("t"), 5, early, ledger.gaps());
        let mut found = tagged(&ledger, 6);
        found.promoted = true;
        let hard = Some(Invalidation::Hard);
        assert_eq!(ledger.judge(&found).invalidated, hard, "the later one has not reached redis");
    }

    #[test]
    fn soft_invalidation_counts_from_its_start_while_an_earlier_one_is_pending() {
        let (clock, hand) = Clock::manual();
        let (ledger, server) = (Ledger::new(true, clock.clone()), ServerClock::default());
        let soft = [member(Some("t"), Invalidation::Soft)];
        let elapsed = |state: &EntryState| ledger.judge(state).soft_time.elapsed(clock.now(), &server);
        let state = tagged(&ledger, 0);
        ledger.start(&soft, MutationSeq(1));
        hand.advance(Duration::from_secs(60));
        assert_eq!(elapsed(&state), Duration::from_secs(60));
        ledger.start_again(&soft, MutationSeq(2));
        assert_eq!(elapsed(&state), Duration::from_secs(60), "it was made when it was started");
        let state = tagged(&ledger, 0);
        ledger.start(&soft, MutationSeq(3));
        assert_eq!(elapsed(&state), Duration::ZERO, "the value is newer than the first one");
    }

    #[test]
    fn invalidation_of_everything_takes_the_place_of_those_that_are_pending() {
        let ledger = new_ledger(true);
        let (early, late) = (MutationSeq(1), MutationSeq(2));
        let loaded_here = tagged(&ledger, 6);
        ledger.start(&hard("t"), early);
        ledger.start(&[FLOOR.to_vec()], late);
        let mut found = tagged(&ledger, 6);
        found.promoted = true;
        for older in [&loaded_here, &found] {
            assert_eq!(ledger.judge(older).invalidated, Some(Invalidation::Hard));
        }
        // Nothing confirms the tag: the replay log has dropped it.
        ledger.confirm(&[FLOOR.to_vec()], 5, late, ledger.gaps());
        assert_eq!(ledger.judge(&found).invalidated, None);
        assert_eq!(ledger.judge(&tagged(&ledger, 4)).invalidated, Some(Invalidation::Hard));
    }

    #[test]
    fn uncertain_stamp_hides_no_soft_invalidation() {
        let ledger = new_ledger(true);
        let state = tagged(&ledger, 5);
        ledger.receive(&[member(Some("t"), Invalidation::Soft)], 6);
        let soft = Some(Invalidation::Soft);
        assert_eq!(judged(ledger.judge(&state)), (soft, false), "the hard stamp is not known");
    }

    #[test]
    fn dropped_tags_revive_no_entry() {
        for has_redis in [false, true] {
            let ledger = new_ledger(has_redis);
            let old = tagged(&ledger, 0);
            let mut untagged = tagged(&ledger, 0);
            untagged.tags = Box::default();
            ledger.receive(&hard("t"), 0);
            overflow(&ledger);
            let judgement = ledger.judge(&old);
            assert_eq!(
                judgement.invalidated,
                Some(Invalidation::Hard),
                "no ledger clock, redis: {has_redis}"
            );
            assert!(ledger.judge(&tagged(&ledger, 0)).is_valid(), "a newer entry");
            assert!(ledger.judge(&untagged).is_valid(), "no tag is about it");
        }
        let ledger = new_ledger(true);
        let read = Stamps { clock: 5, floor: 1, tag_floor: 0, members: vec![None; 2] };
        ledger.learn(&untagged_members(), &read, ledger.gaps());
        let loading = tagged(&ledger, 5);
        ledger.receive(&hard("t"), 6);
        overflow(&ledger);
        assert_eq!(judged(ledger.judge_loaded(&loading, true)), (None, false), "during the load");
    }
}

//! The default policy, CLOCK-TinyLFU with density steering: a window, a CLOCK, and a contest between them that learns.
//!
//! ```text
//!  new ──► window, first in first out ──► contest ──► main, CLOCK ──► out
//!                                            └──────────────────────► out
//! ```
//!
//! A new entry enters the *window*. When it leaves the window it competes with the entry under the hand of the *main*
//! space's CLOCK. Both are compared by how often they were used lately (the admission of TinyLFU, see [`crate::policy::sketch`]);
//! what that comparison is worth is learned from the outcomes of former contests (see [`contest`]). A hit raises the
//! two-bit hit count of its entry and does nothing else. The hand resets the count and grants a second chance to an entry
//! that had any. The sketch counts uses only when an entry leaves the window, loses its hits, or is removed.
//!
//! Where main has less than its share, since entries have left it by themselves or the border has moved, a newcomer that
//! wins is promoted and nobody leaves main for it. If it has much less, no contest is held.
//!
//! The size of the window adapts to the traffic: over a sample of requests, the policy compares the hits per entry of
//! window and main and moves the border towards the denser side. Traffic that favours recency gets a large window, traffic
//! that favours frequency a small one. This rule is that of Caffeine's density climber (Ben Manes, 2026); the CLOCK
//! instead of its lists, and a sketch that a hit does not touch, are ours.

mod contest;
#[cfg(test)]
mod tests;

use super::{Entries, Evict, Hits, IN_MAIN, MAX_HITS, OnHit, USED};
use crate::layout::packed::NONE;
use crate::layout::queue::{Queue, Queued};
use crate::layout::slots::{Moves, Slots};
use crate::policy::sketch::Sketch;
use contest::{Class, Contest, Contestant};

/// The window's share of the weight: at the start and at least, and at most. A larger window is not needed for recency,
/// because the contest can admit all newcomers.
const MIN_WINDOW: f64 = 0.02;
const MAX_WINDOW: f64 = 0.40;
/// A sample is this many requests per entry. Shorter samples follow chance more than the traffic.
const SAMPLE_PER_ENTRY: u64 = 8;
/// How far the border moves: `STEP` for each factor of e between the densities, at most `MAX_STEP`.
const STEP: f64 = 0.03;
const MAX_STEP: f64 = 0.30;

/// The CLOCK hand grants at most sixteen second chances per eviction.
const MAX_SECOND_CHANCES: usize = 16;
/// How many uses the sketch counts when the hand takes the hits of an entry. The entry had one to three counted hits and an
/// unknown number in all. Counting more would keep what was hot long ago.
const USES_PER_ROUND: u8 = 1;
/// A resident that wins this many contests in a row goes to the back of the queue. Otherwise one that was used often, but
/// is not used any more, would turn every newcomer away.
const MAX_WINS: u8 = 2;

/// Marks an entry of the window whose uses the sketch has counted: it has lost its contest and leaves, unless a listener
/// panics.
const COUNTED: u8 = USED;

/// At most so many newcomers are promoted per eviction while main has less than its share.
const MAX_PROMOTIONS: usize = 4;
/// Main may lack this part of all weight, and only winners fill the lack. If it lacks more, everybody is promoted: where nobody
/// wins, as in a loop, it would stay empty.
const MAX_LACK: u64 = 8;

/// How many positions ahead of the front of a queue the memory of an entry is prefetched.
const PREFETCHED_AHEAD: u32 = 4;

/// A share in units of 2^-32: each eviction multiplies by it, and conversions to floating point are slow.
#[derive(Clone, Copy, Debug)]
struct Share(u32);

impl Share {
    fn new(share: f64) -> Self {
        Share((share * 2f64.powi(32)) as u32)
    }

    fn to_f64(self) -> f64 {
        f64::from(self.0) / 2f64.powi(32)
    }

    #[inline]
    fn of(self, weight: u64) -> u64 {
        ((u128::from(weight) * u128::from(self.0)) >> 32) as u64
    }
}

#[derive(Debug)]
pub(crate) struct Ctd {
    window: Queue,
    main: Queue,
    /// Allocated at the first eviction: before that there is nothing to decide.
    sketch: Option<Sketch>,
    window_share: Share,
    /// The hits at the start of the current sample, and the insertions since then.
    sample_from: [u64; 2],
    inserts: u64,
    contest: Contest,
    /// The resident that won the last contest, and how many in a row.
    winner: u32,
    wins: u8,
}

impl Ctd {
    pub(super) fn new() -> Self {
        Ctd {
            window: Queue::new(),
            main: Queue::new(),
            sketch: None,
            window_share: Share::new(MIN_WINDOW),
            sample_from: [0; 2],
            inserts: 0,
            contest: Contest::new(),
            winner: NONE,
            wins: 0,
        }
    }

    #[inline]
    fn queue(&mut self, mark: u8) -> &mut Queue {
        if mark & IN_MAIN == 0 { &mut self.window } else { &mut self.main }
    }

    #[inline]
    fn len(&self) -> usize {
        self.window.len() + self.main.len()
    }

    /// Counts uses in the sketch, and returns its estimate.
    #[inline]
    fn count(&mut self, rank: u32, uses: u8) -> u8 {
        self.sketch.as_mut().map_or(0, |sketch| sketch.add(rank, uses))
    }

    #[inline]
    fn estimate(&self, rank: u32) -> u8 {
        self.sketch.as_ref().map_or(0, |sketch| sketch.estimate(rank))
    }

    /// Allocates the sketch, seeded with the present entries. It is sized by the number of entries, and made again when
    /// that has doubled, because a capacity by weight does not fix the number.
    #[inline]
    fn ensure_sketch(&mut self) {
        let len = self.len();
        if self.sketch.as_ref().is_none_or(|sketch| sketch.entries() * 2 <= len) {
            self.allocate_sketch(len);
        }
    }

    #[cold]
    fn allocate_sketch(&mut self, entries: usize) {
        let mut sketch = Sketch::new(entries);
        for entry in self.main.iter().chain(self.window.iter()) {
            sketch.add(entry.rank, 1);
        }
        self.sketch = Some(sketch);
        self.contest.resize(entries);
    }

    /// Moves the border between window and main when a sample is complete.
    #[inline]
    fn adapt_window(&mut self, hits: &Hits) {
        let by_queue = hits.by_queue();
        let [in_window, in_main] = [by_queue[0] - self.sample_from[0], by_queue[1] - self.sample_from[1]];
        let requests = in_window + in_main + self.inserts;
        if requests >= SAMPLE_PER_ENTRY * self.len() as u64 {
            self.move_border(in_window, in_main);
            (self.sample_from, self.inserts) = (by_queue, 0);
        }
    }

    #[cold]
    fn move_border(&mut self, in_window: u64, in_main: u64) {
        let density = |hits: u64, len: usize| (hits as f64 + 0.5) / (len as f64 + 0.5);
        let window = density(in_window, self.window.len());
        let main = density(in_main, self.main.len());
        let lean = (window / main).ln();
        let step = (lean.abs() * STEP).min(MAX_STEP).copysign(lean);
        self.window_share = Share::new((self.window_share.to_f64() + step).clamp(MIN_WINDOW, MAX_WINDOW));
    }

    /// The entry that the CLOCK hand stops at.
    ///
    /// The mark of an entry is read once for all that its contest needs: it lies in a group of the table that a contest reads
    /// for nothing else.
    #[inline]
    fn main_victim(
        &mut self,
        slots: &mut Slots,
        entries: &mut impl Entries,
        keep: Option<u32>,
    ) -> Option<Contestant> {
        for _ in 0..MAX_SECOND_CHANCES {
            let resident = self.main.front()?;
            let mark = entries.mark(resident.slot);
            let has_hits = mark & MAX_HITS != 0;
            if Some(resident.slot) != keep && (!has_hits || entries.is_due(resident.slot)) {
                return Some(Contestant::new(resident, mark));
            }
            if has_hits {
                entries.set_mark(resident.slot, IN_MAIN | USED);
                self.count(resident.rank, USES_PER_ROUND);
            }
            self.prefetch_ahead(&self.main, slots, entries);
            self.main.requeue(slots, resident);
        }
        let resident = self.main.front_but(slots, keep)?;
        Some(Contestant::new(resident, entries.mark(resident.slot)))
    }

    /// Decides which of two entries leaves: the newcomer at the end of the window, or the resident under the hand. A
    /// newcomer that stays is promoted; if main has room the resident stays beside it, and none leaves.
    fn decide(
        &mut self,
        slots: &mut Slots,
        entries: &mut impl Entries,
        (newcomer, newcomer_mark): (Queued, u8),
        resident: Contestant,
        main_has_room: bool,
    ) -> Option<Queued> {
        let uses = self.count(newcomer.rank, uncounted_uses(newcomer_mark));
        let newcomer = Contestant::new(newcomer, newcomer_mark);
        if entries.is_due(resident.entry.slot) {
            self.promote(slots, entries, newcomer.entry);
            return Some(resident.entry);
        }
        let lead = i32::from(uses) - i32::from(self.estimate(resident.entry.rank) + resident.hits);
        let class = Class::of(lead, newcomer.hits > 0);
        let admitted = self.contest.admits(class);
        let (keeper, loser) = if admitted { (newcomer, resident) } else { (resident, newcomer) };
        if admitted {
            self.promote(slots, entries, newcomer.entry);
            if main_has_room {
                return None;
            }
        } else {
            entries.set_mark(newcomer.entry.slot, COUNTED);
            self.record_win(slots, entries, resident.entry);
        }
        // A resident with hits is here because the hand has granted all of its second chances: no example for others.
        if resident.hits == 0 {
            self.contest.observe(entries, class, admitted, keeper.entry, loser.entry);
        }
        Some(loser.entry)
    }

    fn record_win(&mut self, slots: &mut Slots, entries: &impl Entries, resident: Queued) {
        self.wins = if self.winner == resident.slot { self.wins + 1 } else { 1 };
        self.winner = resident.slot;
        if self.wins == MAX_WINS {
            self.winner = NONE;
            self.main.requeue(slots, resident);
            self.prefetch_ahead(&self.main, slots, entries);
        }
    }

    /// Prefetches what a later contest of a queue reads and its end writes. The ring of the queue knows both, so this does
    /// not wait for the entry.
    #[inline]
    fn prefetch_ahead(&self, queue: &Queue, slots: &Slots, entries: &impl Entries) {
        if let (Some(entry), Some(sketch)) = (queue.at(PREFETCHED_AHEAD), &self.sketch) {
            entries.prefetch(entry.slot);
            slots.prefetch(entry.slot);
            sketch.prefetch(entry.rank);
        }
    }

    fn promote(&mut self, slots: &mut Slots, entries: &mut impl Entries, entry: Queued) {
        self.window.unlink(slots, entry.slot);
        entries.set_mark(entry.slot, IN_MAIN);
        self.main.push_back(slots, entry);
        self.prefetch_ahead(&self.main, slots, entries);
    }
}

/// How often an entry with this mark was used that the sketch has not counted. An insertion is a use.
fn uncounted_uses(mark: u8) -> u8 {
    (mark & MAX_HITS) + u8::from(mark & (IN_MAIN | COUNTED) == 0)
}

impl Evict for Ctd {
    const ON_HIT: OnHit = OnHit::Count;

    #[inline]
    fn prefetch(&self, rank: u32) {
        self.contest.prefetch(rank);
    }

    #[inline]
    fn insert(&mut self, slots: &mut Slots, entry: Queued, hits: &Hits) -> u8 {
        // Until the first eviction every entry belongs to the main space.
        let mark = if self.sketch.is_none() { IN_MAIN } else { 0 };
        self.queue(mark).push_back(slots, entry);
        self.inserts += 1;
        self.contest.inserted(entry.rank);
        if self.sketch.is_some() {
            self.adapt_window(hits);
        }
        mark
    }

    #[inline]
    fn remove(&mut self, slots: &mut Slots, entry: Queued, mark: u8) {
        self.queue(mark).unlink(slots, entry.slot);
        let uses = uncounted_uses(mark);
        if uses > 0 {
            self.count(entry.rank, uses);
        }
    }

    fn reweigh(&mut self, mark: u8, from: u64, to: u64) {
        self.queue(mark).reweigh(from, to);
    }

    fn victim(
        &mut self,
        slots: &mut Slots,
        entries: &mut impl Entries,
        incoming: u64,
        keep: Option<u32>,
    ) -> Option<Queued> {
        self.ensure_sketch();
        self.contest.learn(entries);
        let held = self.weight();
        let window_target = self.window_share.of(held).max(1);
        let mut promotions = 0;
        loop {
            let resident = self.main_victim(slots, entries, keep);
            let Some(candidate) = self.window.front_but(slots, keep) else {
                return resident.map(|resident| resident.entry);
            };
            if entries.is_due(candidate.slot) {
                return Some(candidate);
            }
            let mark = entries.mark(candidate.slot);
            let rest_of_window = self.window.weight() - slots.weight(candidate.slot);
            let main_has_room = rest_of_window >= window_target && promotions < MAX_PROMOTIONS;
            promotions += 1;
            let lacks_much =
                resident.is_none() || rest_of_window.saturating_sub(window_target) > held / MAX_LACK;
            if main_has_room && lacks_much {
                self.count(candidate.rank, uncounted_uses(mark));
                self.promote(slots, entries, candidate);
                continue;
            }
            let Some(resident) = resident else { return Some(candidate) };
            if self.window.weight() + incoming <= window_target {
                return Some(resident.entry);
            }
            self.prefetch_ahead(&self.window, slots, entries);
            let loser = self.decide(slots, entries, (candidate, mark), resident, main_has_room);
            if loser.is_some() {
                return loser;
            }
        }
    }

    fn weight(&self) -> u64 {
        self.window.weight() + self.main.weight()
    }

    fn relocate(&mut self, moves: &Moves) {
        self.window.relocate(moves);
        self.main.relocate(moves);
        self.contest.forget();
        self.winner = NONE;
    }

    fn visit(&self, visit: impl FnMut(Queued)) {
        self.window.iter().chain(self.main.iter()).for_each(visit);
    }

    fn bytes_allocated(&self) -> usize {
        let sketch = self.sketch.as_ref().map_or(0, Sketch::bytes_allocated);
        self.window.bytes_allocated() + self.main.bytes_allocated() + sketch + self.contest.bytes_allocated()
    }

    fn walk(&self, slots: &Slots) -> Vec<Queued> {
        let mut entries = self.window.collect(slots);
        entries.extend(self.main.collect(slots));
        entries
    }
}

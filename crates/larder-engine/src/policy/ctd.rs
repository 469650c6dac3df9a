//! The default policy, CLOCK-TinyLFU with density steering: a window, a CLOCK, and a contest between them that learns.
//!
//! ```text
//!  new ──► window, first in first out ──► contest ──► main, CLOCK ──► out
//!                                            └──────────────────────► out
//! ```
//!
//! A new entry enters the *window*. When it leaves the window it competes with the entry under the hand of the *main*
//! space's CLOCK. Both are compared by how often they were used lately (the admission of TinyLFU, see [`crate::sketch`]);
//! what that comparison is worth is learned from the outcomes of former contests (see [`contest`]). A hit raises the
//! two-bit hit count of its entry and does nothing else. The hand resets the count and grants a second chance to an entry
//! that had any. The sketch counts uses only when an entry is inserted, moves, is removed, or loses its hits.
//!
//! The size of the window adapts to the traffic: over a sample of requests, the policy compares the hits per entry of
//! window and main and moves the border towards the denser side. Traffic that favours recency gets a large window, traffic
//! that favours frequency a small one. This rule is that of Caffeine's density climber (Ben Manes, 2026); the CLOCK
//! instead of its lists, and a sketch that a hit does not touch, are ours.

mod contest;
#[cfg(test)]
mod tests;

use super::{Entries, Evict, Hits, IN_MAIN, MAX_HITS, OnHit, USED};
use crate::queue::Queue;
use crate::sketch::Sketch;
use crate::slots::{Moves, NONE, Slots};
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

/// How many contests ahead the record of an entry is prefetched, and its line of the sketch.
const RECORDS_AHEAD: u32 = 6;
const SKETCH_LINES_AHEAD: u32 = 2;

#[derive(Debug)]
pub(crate) struct Ctd {
    window: Queue,
    main: Queue,
    /// Allocated at the first eviction: before that there is nothing to decide.
    sketch: Option<Sketch>,
    window_share: f64,
    /// The hits at the start of the current sample, and the insertions since then.
    sample_from: Hits,
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
            window_share: MIN_WINDOW,
            sample_from: Hits::default(),
            inserts: 0,
            contest: Contest::new(),
            winner: NONE,
            wins: 0,
        }
    }

    fn queue(&mut self, mark: u8) -> &mut Queue {
        if mark & IN_MAIN == 0 { &mut self.window } else { &mut self.main }
    }

    fn len(&self) -> usize {
        self.window.len() + self.main.len()
    }

    /// Counts uses in the sketch.
    fn count(&mut self, hash: u64, uses: u8) {
        if uses > 0
            && let Some(sketch) = &mut self.sketch
        {
            sketch.add(hash, uses);
        }
    }

    fn estimate(&self, hash: u64) -> u8 {
        self.sketch.as_ref().map_or(0, |sketch| sketch.estimate(hash))
    }

    /// Allocates the sketch, seeded with the present entries. It is sized by the number of entries, and made again when
    /// that has doubled, because a capacity by weight does not fix the number.
    fn ensure_sketch(&mut self, entries: &impl Entries) {
        let len = self.len();
        if self.sketch.as_ref().is_some_and(|sketch| sketch.entries() * 2 > len) {
            return;
        }
        let mut sketch = Sketch::new(len);
        for id in self.main.iter().chain(self.window.iter()) {
            sketch.add(entries.hash(id), 1);
        }
        self.sketch = Some(sketch);
        self.contest.resize(len);
    }

    /// Moves the border between window and main when a sample is complete.
    fn adapt_window(&mut self, hits: &Hits) {
        let [in_window, in_main] = [hits[0] - self.sample_from[0], hits[1] - self.sample_from[1]];
        let requests = in_window + in_main + self.inserts;
        if requests < SAMPLE_PER_ENTRY * self.len() as u64 {
            return;
        }
        let density = |hits: u64, len: usize| (hits as f64 + 0.5) / (len as f64 + 0.5);
        let window = density(in_window, self.window.len());
        let main = density(in_main, self.main.len());
        let lean = (window / main).ln();
        let step = (lean.abs() * STEP).min(MAX_STEP).copysign(lean);
        self.window_share = (self.window_share + step).clamp(MIN_WINDOW, MAX_WINDOW);
        (self.sample_from, self.inserts) = (*hits, 0);
    }

    /// The entry that the CLOCK hand stops at.
    fn main_victim(
        &mut self,
        slots: &mut Slots,
        entries: &mut impl Entries,
        keep: Option<u32>,
    ) -> Option<u32> {
        for _ in 0..MAX_SECOND_CHANCES {
            let id = self.main.front()?;
            let mark = entries.mark(id);
            let has_hits = mark & MAX_HITS != 0;
            if Some(id) != keep && (!has_hits || entries.is_due(id)) {
                return Some(id);
            }
            if has_hits {
                entries.set_mark(id, IN_MAIN | USED);
                self.count(entries.hash(id), USES_PER_ROUND);
            }
            self.prefetch_contests(&self.main, slots, entries);
            self.main.requeue(slots, id);
        }
        self.main.front_but(keep)
    }

    /// Decides which of two entries leaves: the newcomer at the end of the window, or the resident under the hand. A
    /// newcomer that stays is promoted.
    fn decide(&mut self, slots: &mut Slots, entries: &mut impl Entries, newcomer: u32, resident: u32) -> u32 {
        if entries.is_due(newcomer) {
            return newcomer;
        }
        let [newcomer, resident] = [newcomer, resident].map(|id| Contestant::of(entries, id));
        if entries.is_due(resident.id) {
            self.promote(slots, entries, newcomer);
            return resident.id;
        }
        let lead = self.uses(newcomer) - self.uses(resident);
        let class = Class::of(lead, newcomer.hits > 0);
        let admitted = self.contest.admits(class);
        let (keeper, loser) = if admitted { (newcomer, resident) } else { (resident, newcomer) };
        if admitted {
            self.promote(slots, entries, newcomer);
        } else {
            self.record_win(slots, entries, resident.id);
        }
        // A resident with hits is here because the hand has granted all of its second chances: no example for others.
        if resident.hits == 0 {
            self.contest.observe(entries, class, admitted, keeper, loser);
        }
        loser.id
    }

    fn uses(&self, contestant: Contestant) -> i32 {
        i32::from(self.estimate(contestant.hash) + contestant.hits)
    }

    fn record_win(&mut self, slots: &mut Slots, entries: &impl Entries, resident: u32) {
        self.wins = if self.winner == resident { self.wins + 1 } else { 1 };
        self.winner = resident;
        if self.wins == MAX_WINS {
            self.winner = NONE;
            self.main.requeue(slots, resident);
            self.prefetch_contests(&self.main, slots, entries);
        }
    }

    /// Prefetches what the next contests of a queue read: the record of an entry first, then the line of the sketch that
    /// the record's key leads to.
    fn prefetch_contests(&self, queue: &Queue, slots: &Slots, entries: &impl Entries) {
        if let Some(far) = queue.peek_ahead(RECORDS_AHEAD) {
            entries.prefetch(far);
            slots.prefetch(far);
        }
        if let (Some(near), Some(sketch)) = (queue.peek_ahead(SKETCH_LINES_AHEAD), &self.sketch) {
            sketch.prefetch(entries.hash(near));
        }
    }

    fn promote(&mut self, slots: &mut Slots, entries: &mut impl Entries, newcomer: Contestant) {
        self.count(newcomer.hash, newcomer.hits);
        self.window.unlink(slots, newcomer.id);
        entries.set_mark(newcomer.id, IN_MAIN);
        self.main.push_back(slots, newcomer.id);
        self.prefetch_contests(&self.main, slots, entries);
    }
}

impl Evict for Ctd {
    const ON_HIT: OnHit = OnHit::Count;

    fn prefetch(&self, hash: u64) {
        if let Some(sketch) = &self.sketch {
            sketch.prefetch(hash);
            self.contest.prefetch(hash);
        }
    }

    fn insert(&mut self, slots: &mut Slots, id: u32, hash: u64, hits: &Hits) -> u8 {
        // Until the first eviction every entry belongs to the main space.
        let mark = if self.sketch.is_none() { IN_MAIN } else { 0 };
        self.queue(mark).push_back(slots, id);
        self.inserts += 1;
        self.count(hash, 1);
        self.contest.inserted(hash);
        if self.sketch.is_some() {
            self.adapt_window(hits);
        }
        mark
    }

    fn remove(&mut self, slots: &mut Slots, id: u32, hash: u64, mark: u8) {
        self.queue(mark).unlink(slots, id);
        self.count(hash, mark & MAX_HITS);
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
    ) -> Option<u32> {
        self.ensure_sketch(entries);
        self.contest.learn(entries);
        let held = self.window.weight() + self.main.weight();
        let window_target = (held as f64 * self.window_share) as u64;
        let candidate = self.window.front_but(keep);
        if let Some(candidate) = candidate
            && (self.window.weight() + incoming > window_target.max(1) || entries.is_due(candidate))
        {
            self.prefetch_contests(&self.window, slots, entries);
            let Some(resident) = self.main_victim(slots, entries, keep) else { return Some(candidate) };
            return Some(self.decide(slots, entries, candidate, resident));
        }
        self.main_victim(slots, entries, keep).or(candidate)
    }

    fn relocate(&mut self, moves: &Moves) {
        self.window.relocate(moves);
        self.main.relocate(moves);
        self.contest.forget();
        self.winner = NONE;
    }

    fn walk(&self, slots: &Slots) -> Vec<u32> {
        let mut ids = self.window.collect(slots);
        ids.extend(self.main.collect(slots));
        ids
    }
}

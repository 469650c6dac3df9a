//! The default policy: a window, a CLOCK, and a contest between them.
//!
//! ```text
//!  new ──► window, first in first out ──► contest ──► main, CLOCK ──► out
//!                                            └──────────────────────► out
//! ```
//!
//! A new entry waits in the *window*. When it comes out, the entry that the hand of the *main* space's CLOCK points at
//! is its opponent: whichever was asked for more often lately stays (the admission of TinyLFU, see [`crate::sketch`]).
//! Each entry has a two-bit count of its hits, which a hit raises, and nothing else: the hand takes from it and gives an
//! entry that has any another round. The sketch is told of uses only when entries come, move, leave, or have lost the
//! last of their hits.
//!
//! How much of the space the window gets follows the traffic: over a sample of requests, the hits per entry of window
//! and main are compared, and the window moves towards the denser side. Recency-loving traffic gets a large window,
//! frequency-loving traffic a small one. The rule of steering is that of Caffeine's density climber (Ben Manes, 2026);
//! the CLOCK in place of its lists, and the sketch that a hit does not touch, are ours.

use super::{Entries, Evict, Hits, IN_MAIN, MAX_HITS, OnHit};
use crate::queue::Queue;
use crate::sketch::Sketch;
use crate::slots::{Moves, Slots};

/// The window's share of the weight at the start, and the least it shrinks to.
const LEAST_WINDOW: f64 = 0.02;
const MOST_WINDOW: f64 = 0.80;
/// A sample is this many requests for each entry held. Shorter ones follow chance more than the traffic.
const SAMPLE_PER_ENTRY: u64 = 8;
/// How far the window moves: this share for each factor of e between the densities, and at most that.
const STEP: f64 = 0.03;
const MOST_STEP: f64 = 0.30;

/// How many entries the hand gives another round before it takes the next as it is.
const MAX_STEPS: usize = 16;
/// What the sketch is told when the hand takes the last hit of an entry. It had one to three at a time and nobody knows how
/// many in all. To tell each hit would cost a miss of the processor's cache for each, and keeps what was hot long ago.
const USES_OF_A_LIFE: u8 = 2;
/// A candidate that has been seen this often and loses is let in once in a while, so that nobody can keep the main space
/// shut by making a few keys look frequent.
const WARM: u8 = 6;
const LUCKY: u32 = 512;

/// How many contests ahead an entry's record is asked for, and its line of the sketch.
const FAR: u32 = 6;
const NEAR: u32 = 2;

#[derive(Debug)]
pub(crate) struct Ctd {
    window: Queue,
    main: Queue,
    /// Made when the first entry has to leave: before that there is nothing to decide.
    sketch: Option<Sketch>,
    window_share: f64,
    /// The hits when the present sample began, and the insertions since.
    sample_from: Hits,
    inserts: u64,
    losers: u32,
}

impl Ctd {
    pub(super) fn new() -> Self {
        Ctd {
            window: Queue::new(),
            main: Queue::new(),
            sketch: None,
            window_share: LEAST_WINDOW,
            sample_from: Hits::default(),
            inserts: 0,
            losers: 0,
        }
    }

    fn queue(&mut self, mark: u8) -> &mut Queue {
        if mark & IN_MAIN == 0 { &mut self.window } else { &mut self.main }
    }

    fn len(&self) -> usize {
        self.window.len() + self.main.len()
    }

    /// Tells the sketch of uses.
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

    /// Makes the sketch that the contests need, and tells it what is known of those who are here. Its size follows the
    /// number of entries, which a bound by weight does not fix.
    fn begin_to_evict(&mut self, entries: &impl Entries) {
        let len = self.len();
        if self.sketch.as_ref().is_some_and(|sketch| sketch.entries() * 2 > len) {
            return;
        }
        let mut sketch = Sketch::new(len);
        for id in self.main.iter().chain(self.window.iter()) {
            sketch.add(entries.hash(id), 1);
        }
        self.sketch = Some(sketch);
    }

    /// Moves the border between window and main once a sample is complete.
    fn steer(&mut self, hits: &Hits) {
        let [in_window, in_main] = [hits[0] - self.sample_from[0], hits[1] - self.sample_from[1]];
        let requests = in_window + in_main + self.inserts;
        if requests < SAMPLE_PER_ENTRY * self.len() as u64 {
            return;
        }
        let density = |hits: u64, len: usize| (hits as f64 + 0.5) / (len as f64 + 0.5);
        let window = density(in_window, self.window.len());
        let main = density(in_main, self.main.len());
        let lean = (window / main).ln();
        let step = (lean.abs() * STEP).min(MOST_STEP).copysign(lean);
        self.window_share = (self.window_share + step).clamp(LEAST_WINDOW, MOST_WINDOW);
        (self.sample_from, self.inserts) = (*hits, 0);
    }

    /// The entry of the main space that the hand comes to.
    fn main_victim(
        &mut self,
        slots: &mut Slots,
        entries: &mut impl Entries,
        keep: Option<u32>,
    ) -> Option<u32> {
        for _ in 0..MAX_STEPS {
            let id = self.main.front()?;
            let mark = entries.mark(id);
            if Some(id) != keep && (mark == IN_MAIN || entries.is_due(id)) {
                return Some(id);
            }
            if mark > IN_MAIN {
                entries.set_mark(id, mark - 1);
                if mark - 1 == IN_MAIN {
                    self.count(entries.hash(id), USES_OF_A_LIFE);
                }
            }
            self.foresee_contests(&self.main, slots, entries);
            self.main.requeue(slots, id);
        }
        self.main.front_but(keep)
    }

    /// Whether a candidate from the window takes the place of an entry of the main space.
    fn admits(&mut self, entries: &impl Entries, candidate: u32, resident: u32) -> bool {
        let strength = |id: u32| self.estimate(entries.hash(id)).saturating_add(entries.mark(id) & MAX_HITS);
        let (challenge, defence) = (strength(candidate), strength(resident));
        if challenge > defence {
            return true;
        }
        if challenge < WARM {
            return false;
        }
        self.losers += 1;
        self.losers.is_multiple_of(LUCKY)
    }

    /// The next entries of a queue will come up soon: what the contests will look at is on its way when they do. That of
    /// a record leads to that of its line in the sketch.
    fn foresee_contests(&self, queue: &Queue, slots: &Slots, entries: &impl Entries) {
        if let Some(far) = queue.ahead(FAR) {
            entries.foresee(far);
            slots.foresee(far);
        }
        if let Some(near) = queue.ahead(NEAR) {
            self.foresee(entries.hash(near));
        }
    }

    fn promote(&mut self, slots: &mut Slots, entries: &mut impl Entries, id: u32) {
        let hits = entries.mark(id) & MAX_HITS;
        self.count(entries.hash(id), hits);
        self.window.unlink(slots, id);
        entries.set_mark(id, IN_MAIN);
        self.main.push_back(slots, id);
    }
}

impl Evict for Ctd {
    const ON_HIT: OnHit = OnHit::Count;

    fn foresee(&self, hash: u64) {
        if let Some(sketch) = &self.sketch {
            sketch.foresee(hash);
        }
    }

    fn insert(&mut self, slots: &mut Slots, id: u32, hash: u64, hits: &Hits) -> u8 {
        // Until something has to leave, everything belongs to the main space.
        let mark = if self.sketch.is_none() { IN_MAIN } else { 0 };
        self.queue(mark).push_back(slots, id);
        self.inserts += 1;
        self.count(hash, 1);
        if self.sketch.is_some() {
            self.steer(hits);
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
        self.begin_to_evict(entries);
        let held = self.window.weight() + self.main.weight();
        let window_target = (held as f64 * self.window_share) as u64;
        let candidate = self.window.front_but(keep);
        if let Some(candidate) = candidate
            && (self.window.weight() + incoming > window_target.max(1) || entries.is_due(candidate))
        {
            self.foresee_contests(&self.window, slots, entries);
            let Some(resident) = self.main_victim(slots, entries, keep) else { return Some(candidate) };
            if entries.is_due(candidate) || !self.admits(entries, candidate, resident) {
                return Some(candidate);
            }
            self.foresee_contests(&self.main, slots, entries);
            self.promote(slots, entries, candidate);
            return Some(resident);
        }
        self.main_victim(slots, entries, keep).or(candidate)
    }

    fn relocate(&mut self, moves: &Moves) {
        self.window.relocate(moves);
        self.main.relocate(moves);
    }

    fn walk(&self, slots: &Slots) -> Vec<u32> {
        let mut ids = self.window.collect(slots);
        ids.extend(self.main.collect(slots));
        ids
    }
}

//! The contest between a newcomer and a resident: which of the two stays, and what former contests have taught.
//!
//! The better of the two is the one that is requested first. The policy observes for a sample of its contests which one
//! that was: it records the key of the entry that left and the slot of the one that stayed. When that key is inserted again,
//! the entry that stayed was either used before, or it was not. A logistic regression with one weight for each *class* of
//! contests learns from it how likely the newcomer is the first. An observation tells who was first whatever the decision
//! was, so no decision is made worse for the sake of learning.
//!
//! A class is the newcomer's lead in uses, and whether the newcomer had a hit in the window. At the start the weights are
//! the rule of TinyLFU: admit what leads. Traffic that favours frequency keeps them there; traffic that favours recency
//! raises them until most newcomers are admitted.

use crate::layout::packed::NONE;
use crate::layout::prefetch::prefetch_element;
use crate::layout::queue::Queued;
use crate::policy::{Entries, IN_MAIN, MAX_HITS, USED};

/// The leads that are told apart. What leads by more is as certain.
const LEADS: std::ops::RangeInclusive<i32> = -3..=4;
const LEAD_COUNT: usize = 8;

/// The weight of a class whose newcomer leads, and the negative weight of the others, at the start: a few observations
/// confirm it, and five to ten outweigh it.
const INITIAL_WEIGHT: f32 = 0.3;
/// How far an observation moves the weights: a memory of about twenty observations. A longer one is slow when the traffic
/// changes, a shorter one follows chance.
const LEARNING_RATE: f32 = 0.05;
/// The limit of the weights, so that a rule that held for long can be unlearned.
const MAX_WEIGHT: f32 = 3.0;

/// One observation for this many entries, and at least `MIN_OBSERVATIONS`. About as many contests as there are entries
/// pass before an observation is replaced: this is how far ahead the contest looks. A contest is observed if the rank of its loser
/// is one of the sample, so most insertions and contests read no observation.
const ENTRIES_PER_OBSERVATION: usize = 16;
const MIN_OBSERVATIONS: usize = 64;
/// After so many observed contests the sample loses its first ranks and gets the next ones. Were it the same for ever, few keys
/// would speak for all, which differ where a pattern repeats. They stay long enough that few observations end early.
const CONTESTS_PER_STEP: u32 = 4;

/// One of the pair.
#[derive(Clone, Copy, Debug)]
pub(super) struct Contestant {
    pub(super) entry: Queued,
    /// The hits that the sketch has not counted.
    pub(super) hits: u8,
}

impl Contestant {
    /// An entry with this mark.
    #[inline]
    pub(super) fn new(entry: Queued, mark: u8) -> Self {
        Contestant { entry, hits: mark & MAX_HITS }
    }
}

/// The properties of a contest that decide it: an index of the weights.
#[derive(Clone, Copy, Debug)]
pub(super) struct Class(u8);

impl Class {
    /// `lead` is the number of the newcomer's uses minus that of the resident's.
    pub(super) fn of(lead: i32, newcomer_has_hits: bool) -> Self {
        let lead = lead.clamp(*LEADS.start(), *LEADS.end()) - LEADS.start();
        Class(lead as u8 + u8::from(newcomer_has_hits) * LEAD_COUNT as u8)
    }
}

/// A contest whose outcome is awaited.
#[derive(Clone, Copy, Debug)]
struct Observation {
    /// The rank of the key that left.
    loser: u32,
    /// The slot of the entry that stayed, or `NONE` if nothing is observed here.
    keeper: u32,
    /// A part of the rank of its key, because the slot may be used for another entry later.
    keeper_rank: u16,
    class: Class,
    admitted: bool,
}

const NOTHING: Observation =
    Observation { loser: 0, keeper: NONE, keeper_rank: 0, class: Class(0), admitted: false };

impl Observation {
    /// Whether the entry that stayed is still there and was used since.
    fn keeper_was_used(&self, entries: &impl Entries) -> bool {
        self.keeper != NONE
            && entries.is_used(self.keeper)
            && entries.mark(self.keeper) & IN_MAIN != 0
            && entries.mark(self.keeper) & (MAX_HITS | USED) != 0
            && entries.rank(self.keeper) as u16 == self.keeper_rank
    }
}

#[derive(Debug)]
pub(super) struct Contest {
    /// The part of the weights that all classes share.
    bias: f32,
    weights: [f32; 2 * LEAD_COUNT],
    /// By the rank of the key that left; empty until the first eviction.
    observations: Box<[Observation]>,
    /// Over how many places the ranks are spread. The sample are the ranks of as many places as there are observations, from
    /// `first` on.
    places: usize,
    first: usize,
    /// The contests observed since the sample changed.
    observed: u32,
    /// For how many more evictions `learn` looks for keepers that were used.
    looks: usize,
    /// The index of an observation whose loser was inserted again.
    returned: Option<usize>,
}

impl Contest {
    pub(super) fn new() -> Self {
        let leads = LEADS.map(|lead| if lead > 0 { INITIAL_WEIGHT } else { -INITIAL_WEIGHT });
        let weights: Vec<f32> = leads.clone().chain(leads).collect();
        Contest {
            bias: 0.0,
            weights: weights.try_into().expect("one weight for each class"),
            observations: Box::default(),
            looks: 0,
            places: 0,
            first: 0,
            observed: 0,
            returned: None,
        }
    }

    /// Starts to observe contests among this many entries.
    pub(super) fn resize(&mut self, entries: usize) {
        let count = (entries / ENTRIES_PER_OBSERVATION).max(MIN_OBSERVATIONS);
        self.observations = vec![NOTHING; count].into();
        self.returned = None;
        (self.places, self.first) = (count * (entries / count).max(1), 0);
        self.looks = entries;
    }

    pub(super) fn bytes_allocated(&self) -> usize {
        size_of_val(&*self.observations)
    }

    /// Ends all observations, because the entries have moved to other slots.
    pub(super) fn forget(&mut self) {
        self.observations.fill(NOTHING);
        self.returned = None;
    }

    /// Whether the newcomer of such a contest stays.
    pub(super) fn admits(&self, class: Class) -> bool {
        self.score(class) > 0.0
    }

    /// The logarithm of the odds that the newcomer is requested first.
    fn score(&self, class: Class) -> f32 {
        self.bias + self.weights[usize::from(class.0)]
    }

    /// Observes a contest that was decided, if it is one of the sample.
    pub(super) fn observe(
        &mut self,
        entries: &mut impl Entries,
        class: Class,
        admitted: bool,
        keeper: Queued,
        loser: Queued,
    ) {
        let Some(index) = self.index(loser.rank) else { return };
        self.settle(entries, index, false);
        entries.set_mark(keeper.slot, entries.mark(keeper.slot) & !USED);
        self.observations[index] = Observation {
            loser: loser.rank,
            keeper: keeper.slot,
            keeper_rank: keeper.rank as u16,
            class,
            admitted,
        };
        self.observed += 1;
        if self.observed == CONTESTS_PER_STEP {
            self.change_sample(entries);
        }
    }

    /// Ends the observation of the first place of the sample, in favour of the next place.
    fn change_sample(&mut self, entries: &impl Entries) {
        self.observed = 0;
        if self.places > self.observations.len() {
            self.settle(entries, self.first % self.observations.len(), false);
            self.first = (self.first + 1) % self.places;
        }
    }

    /// Prefetches what the insertion of a key of this rank reads.
    #[inline]
    pub(super) fn prefetch(&self, rank: u32) {
        if let Some(index) = self.index(rank) {
            prefetch_element(&self.observations, index);
        }
    }

    /// A key was inserted. If it had to leave in an observed contest, the next call of `learn` settles that contest: only
    /// then are the entries accessible.
    #[inline]
    pub(super) fn inserted(&mut self, rank: u32) {
        if let Some(index) = self.awaits(rank) {
            self.returned = Some(index);
        }
    }

    /// The index of the observation whose outcome is open, if a key of this rank had to leave in one.
    #[inline]
    pub(super) fn awaits(&self, rank: u32) -> Option<usize> {
        let index = self.index(rank)?;
        let observation = self.observations[index];
        (observation.keeper != NONE && observation.loser == rank).then_some(index)
    }

    /// Learns from the key that was inserted again; at the start, also from a keeper that was used.
    #[inline]
    pub(super) fn learn(&mut self, entries: &impl Entries) {
        if let Some(index) = self.returned.take() {
            self.settle(entries, index, true);
        }
        if self.looks > 0 {
            self.look(entries);
        }
    }

    /// Settles one of the observations, if its keeper was used. A loser that returns is seen at once, but a keeper that was
    /// used only when its observation ends, so without this the first observations would speak for the newcomers alone.
    #[cold]
    fn look(&mut self, entries: &impl Entries) {
        self.looks -= 1;
        let index = self.looks % self.observations.len();
        if self.observations[index].keeper_was_used(entries) {
            self.settle(entries, index, false);
        }
    }

    /// Ends an observation. If neither of the two entries was requested, there is nothing to learn from it.
    fn settle(&mut self, entries: &impl Entries, index: usize, loser_returned: bool) {
        let observation = std::mem::replace(&mut self.observations[index], NOTHING);
        if observation.keeper == NONE {
            return;
        }
        let keeper_was_first = observation.keeper_was_used(entries);
        if keeper_was_first || loser_returned {
            self.adjust(observation.class, keeper_was_first == observation.admitted);
        }
    }

    /// One step of the gradient.
    fn adjust(&mut self, class: Class, newcomer_was_first: bool) {
        let expected = 1.0 / (1.0 + (-self.score(class)).exp());
        let observed = if newcomer_was_first { 1.0 } else { 0.0 };
        for weight in [&mut self.bias, &mut self.weights[usize::from(class.0)]] {
            *weight = (*weight + LEARNING_RATE * (observed - expected)).clamp(-MAX_WEIGHT, MAX_WEIGHT);
        }
    }

    /// Where a contest is observed that a key of this rank has lost; `None` if it is not of the sample.
    #[inline]
    fn index(&self, rank: u32) -> Option<usize> {
        let mixed = u64::from(rank).wrapping_mul(0xd6e8_feb8_6659_fd93) >> 32;
        let place = ((mixed * self.places as u64) >> 32) as usize;
        let behind_first = if place < self.first { place + self.places } else { place } - self.first;
        // The place behind the last of the sample has the index of the first. The number of places is a multiple of that of
        // observations.
        (behind_first < self.observations.len()).then(|| place % self.observations.len())
    }
}

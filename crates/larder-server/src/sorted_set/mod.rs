//! A sorted set: members with scores, in order of score and then name.
//!
//! ```text
//! index: hash of the name ──► handle ──► members: score, name      (packed, 64 KiB chunks)
//! order: B+-tree of handles, with ranks ───┘
//! ```
//!
//! A lookup by name takes O(1), everything by rank, score or name range O(log n). A member of 16 bytes takes 44 to 48
//! bytes. A change moves a few thousand entries of the index at most.

mod bounds;
mod index;
#[cfg_attr(not(feature = "scripts"), allow(dead_code))]
mod journal;
mod members;
mod order;
#[cfg(test)]
mod tests;

use std::hash::BuildHasher;
use std::ops::Range;
use std::sync::LazyLock;

pub(crate) use bounds::{NameBound, ScoreBound};
use index::Index;
pub(crate) use journal::Journal;
use members::{Handle, Members};
use order::Order;

/// Redis stores a set in another form above this number of members, or with a longer name than this.
const MAX_PACKED_MEMBERS: usize = 128;
const MAX_PACKED_NAME_BYTES: usize = 64;

/// The hasher of names. Its seed is random, so that clients cannot choose names that collide.
static HASHER: LazyLock<rapidhash::fast::RandomState> = LazyLock::new(rapidhash::fast::RandomState::default);

/// Members with scores, in order. No score is NaN.
#[derive(Clone, Debug)]
pub(crate) struct SortedSet {
    members: Members,
    index: Index,
    order: Order,
    is_packed: bool,
    /// How often a member was added, moved or removed.
    changes: u32,
    /// What is changed, if that may have to be undone.
    journal: Option<Box<Journal>>,
}

impl SortedSet {
    pub(crate) fn new() -> Self {
        SortedSet {
            members: Members::default(),
            index: Index::new(),
            order: Order::new(),
            is_packed: true,
            changes: 0,
            journal: None,
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.order.len()
    }

    /// A number that is different after a change.
    pub(crate) fn changes(&self) -> u32 {
        self.changes
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The memory that was allocated, with this structure in a box.
    pub(crate) fn bytes_allocated(&self) -> usize {
        size_of::<Self>()
            + self.members.bytes_allocated()
            + self.index.bytes_allocated()
            + self.order.bytes_allocated()
    }

    /// Whether Redis would store it in the form for small sets: it never returns to that form.
    pub(crate) fn is_packed(&self) -> bool {
        self.is_packed
    }

    pub(crate) fn score(&self, name: &[u8]) -> Option<f64> {
        self.find(name).map(|handle| self.members.score(handle))
    }

    /// The number of members before this one, and its score.
    pub(crate) fn rank(&self, name: &[u8]) -> Option<(usize, f64)> {
        let score = self.score(name)?;
        Some((self.rank_of(score, name), score))
    }

    /// Adds a member or changes its score. Returns the former score.
    pub(crate) fn insert(&mut self, name: &[u8], score: f64) -> Option<f64> {
        let Some(handle) = self.find(name) else {
            self.add(name, score);
            return None;
        };
        let former = self.members.score(handle);
        self.record_change(name, Some(former));
        if former != score {
            self.changes = self.changes.wrapping_add(1);
            self.order.remove(self.rank_of(former, name));
            self.members.set_score(handle, score);
            let members = &self.members;
            self.order.insert(handle, |other| precedes(members, other, score, name));
        } else {
            // Zero has two signs.
            self.members.set_score(handle, score);
        }
        Some(former)
    }

    /// Removes a member; returns its score.
    pub(crate) fn remove(&mut self, name: &[u8]) -> Option<f64> {
        let (rank, score) = self.rank(name)?;
        self.remove_at(rank);
        Some(score)
    }

    /// Removes the members of these ranks.
    pub(crate) fn remove_range(&mut self, ranks: Range<usize>) {
        // From behind, so that ranks stay.
        ranks.rev().for_each(|rank| self.remove_at(rank));
    }

    /// The member of this rank.
    ///
    /// # Panics
    /// If there are not more members.
    pub(crate) fn at(&self, rank: usize) -> (&[u8], f64) {
        let handle = self.order.get(rank);
        (self.members.name(handle), self.members.score(handle))
    }

    /// Calls `f` with the members of these ranks, the last one first if `reversed`, as long as it returns true.
    ///
    /// # Panics
    /// If there are not as many members.
    pub(crate) fn visit(&self, ranks: Range<usize>, reversed: bool, mut f: impl FnMut(&[u8], f64) -> bool) {
        self.order.visit(ranks, reversed, |handle| f(self.members.name(handle), self.members.score(handle)));
    }

    /// The ranks of the members with scores in this range.
    pub(crate) fn ranks_by_score(&self, min: ScoreBound, max: ScoreBound) -> Range<usize> {
        let start = self.order.rank(|handle| min.is_above(self.members.score(handle)));
        let end = self.order.rank(|handle| !max.is_below(self.members.score(handle)));
        start..end.max(start)
    }

    /// The ranks of the members with names in this range, if all scores are equal; else any ranks.
    pub(crate) fn ranks_by_name(&self, min: NameBound<'_>, max: NameBound<'_>) -> Range<usize> {
        let start = self.order.rank(|handle| min.is_above(self.members.name(handle)));
        let end = self.order.rank(|handle| !max.is_below(self.members.name(handle)));
        start..end.max(start)
    }

    /// Calls `f` with about `count` members from a cursor on, and returns the next cursor. Zero starts a scan, and ends it
    /// when it is returned. Members that stay throughout are visited exactly once, whatever their scores become.
    pub(crate) fn scan(&self, cursor: u64, count: usize, mut f: impl FnMut(&[u8], f64)) -> u64 {
        self.members.walk(cursor, count, |handle| f(self.members.name(handle), self.members.score(handle)))
    }

    /// Records the former score of a member that changes now, if changes are recorded.
    #[inline]
    fn record_change(&mut self, name: &[u8], former: Option<f64>) {
        if let Some(journal) = &mut self.journal {
            journal.record(name, former);
        }
    }

    fn find(&self, name: &[u8]) -> Option<Handle> {
        self.index.find(HASHER.hash_one(name), |handle| self.members.name(handle) == name)
    }

    fn rank_of(&self, score: f64, name: &[u8]) -> usize {
        self.order.rank(|handle| precedes(&self.members, handle, score, name))
    }

    fn add(&mut self, name: &[u8], score: f64) {
        self.record_change(name, None);
        self.changes = self.changes.wrapping_add(1);
        let handle = self.members.insert(score, name);
        let members = &self.members;
        self.index.insert(HASHER.hash_one(name), handle, |handle| HASHER.hash_one(members.name(handle)));
        self.order.insert(handle, |other| precedes(members, other, score, name));
        self.is_packed &= self.len() <= MAX_PACKED_MEMBERS && name.len() <= MAX_PACKED_NAME_BYTES;
    }

    fn remove_at(&mut self, rank: usize) {
        self.changes = self.changes.wrapping_add(1);
        let handle = self.order.remove(rank);
        let members = &self.members;
        if let Some(journal) = &mut self.journal {
            journal.record(members.name(handle), Some(members.score(handle)));
        }
        let hash_of = |handle| HASHER.hash_one(members.name(handle));
        self.index.remove(hash_of(handle), handle, hash_of);
        self.members.remove(handle);
    }
}

/// Whether a member comes before one with this score and name.
fn precedes(members: &Members, handle: Handle, score: f64, name: &[u8]) -> bool {
    let other = members.score(handle);
    other < score || other == score && members.name(handle) < name
}

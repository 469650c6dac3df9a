//! The form of a large sorted set: an index of names, and a B+-tree for the order.
//!
//! ```text
//! index: hash of the name ──► handle ──► members: score, name      (slots in 64 KiB chunks)
//! order: B+-tree of handles, with ranks ───┘
//! ```
//!
//! A lookup by name takes O(1), everything by rank, score or name range O(log n). A member of 16 bytes takes 44 to 48
//! bytes. A change moves a few hundred entries of the index at most.

use std::ops::Range;

use super::bounds::{Member, precedes};
use super::members::Members;
use super::packed::Packed;
use crate::values::table::{Handle, Index, Order, hash_of};

#[derive(Clone, Debug)]
pub(super) struct Tree {
    members: Members,
    index: Index,
    order: Order,
}

impl From<&Packed> for Tree {
    fn from(packed: &Packed) -> Self {
        let mut tree = Tree { members: Members::new(), index: Index::new(), order: Order::new() };
        packed.visit(0..packed.len(), false, |name, score| {
            tree.add(name, score);
            true
        });
        tree
    }
}

impl Tree {
    pub(super) fn len(&self) -> usize {
        self.order.len()
    }

    /// The memory that was allocated, with this structure in a box.
    pub(super) fn bytes_allocated(&self) -> usize {
        size_of::<Self>()
            + self.members.bytes_allocated()
            + self.index.bytes_allocated()
            + self.order.bytes_allocated()
    }

    /// The number of members before this one, and its score.
    pub(super) fn rank(&self, name: &[u8]) -> Option<(usize, f64)> {
        let score = self.score(name)?;
        Some((self.rank_of(name, score), score))
    }

    pub(super) fn score(&self, name: &[u8]) -> Option<f64> {
        self.find(name).map(|handle| self.members.score(handle))
    }

    /// The number of members that satisfy `precedes`, which are the first ones.
    pub(super) fn rank_where(&self, precedes: impl Fn(Member<'_>) -> bool) -> usize {
        self.order.rank(|handle| precedes(self.members.get(handle)))
    }

    /// The member of this rank.
    ///
    /// # Panics
    /// If there are not more members.
    pub(super) fn at(&self, rank: usize) -> Member<'_> {
        self.members.get(self.order.get(rank))
    }

    /// Calls `f` with the members of these ranks, the last one first if `reversed`, as long as it returns true.
    ///
    /// # Panics
    /// If there are not as many members.
    pub(super) fn visit(&self, ranks: Range<usize>, reversed: bool, mut f: impl FnMut(&[u8], f64) -> bool) {
        self.order.visit(ranks, reversed, |handle| f(self.members.name(handle), self.members.score(handle)));
    }

    /// Calls `f` with about `count` members from a cursor on, and returns the next cursor. Zero starts a scan, and ends it
    /// when it is returned.
    pub(super) fn scan(&self, cursor: u64, count: usize, mut f: impl FnMut(&[u8], f64)) -> u64 {
        let hash = |handle| hash_of(self.members.name(handle));
        self.index.scan(cursor, count, hash, |handle| {
            let (name, score) = self.members.get(handle);
            f(name, score);
        })
    }

    /// Adds a member or changes its score. Returns the former score.
    pub(super) fn insert(&mut self, name: &[u8], score: f64) -> Option<f64> {
        let Some(handle) = self.find(name) else {
            self.add(name, score);
            return None;
        };
        let former = self.members.score(handle);
        if former != score {
            self.order.remove(self.rank_of(name, former));
            self.members.set_score(handle, score);
            let members = &self.members;
            self.order.insert(handle, |other| precedes(members.get(other), (name, score)));
        } else {
            // Zero has two signs.
            self.members.set_score(handle, score);
        }
        Some(former)
    }

    /// Removes a member; returns its score.
    pub(super) fn remove(&mut self, name: &[u8]) -> Option<f64> {
        let (rank, score) = self.rank(name)?;
        self.remove_at(rank);
        Some(score)
    }

    /// Removes the members of these ranks.
    pub(super) fn remove_range(&mut self, ranks: Range<usize>) {
        // From behind, so that ranks stay.
        ranks.rev().for_each(|rank| self.remove_at(rank));
    }

    fn find(&self, name: &[u8]) -> Option<Handle> {
        self.index.find(hash_of(name), |handle| self.members.name(handle) == name)
    }

    fn rank_of(&self, name: &[u8], score: f64) -> usize {
        self.rank_where(|member| precedes(member, (name, score)))
    }

    /// Adds a member, which is not in the set.
    fn add(&mut self, name: &[u8], score: f64) {
        let handle = self.members.insert(score, name);
        let members = &self.members;
        self.index.insert(hash_of(name), handle, |handle| hash_of(members.name(handle)));
        self.order.insert(handle, |other| precedes(members.get(other), (name, score)));
    }

    fn remove_at(&mut self, rank: usize) {
        let handle = self.order.remove(rank);
        let members = &self.members;
        let hash = |handle| hash_of(members.name(handle));
        self.index.remove(hash(handle), handle, hash);
        self.members.remove(handle);
    }
}

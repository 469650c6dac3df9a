//! The form of a small sorted set: all members in one buffer, in their order.
//!
//! Every operation walks over the members, which is why they are few.

use std::ops::Range;

use super::bounds::{Member, precedes};
use super::stored::{MAX_NAME_BYTES, Stored, Walk, encode, stored_bytes, write};
use crate::values::table::{Buffer, HEADER_BYTES};

const MAX_MEMBERS: usize = 128;
const MAX_BYTES: usize = 2048;

/// Members in their order. Without any it needs no memory.
#[derive(Clone, Debug, Default)]
pub(super) struct Packed {
    buffer: Buffer,
}

/// There is no room for a member: it is too long, or the others are too many or too long.
#[derive(Debug)]
pub(super) struct Full;

impl Packed {
    pub(super) fn len(&self) -> usize {
        self.buffer.count()
    }

    /// The memory that was allocated.
    pub(super) fn bytes_allocated(&self) -> usize {
        self.buffer.bytes_allocated()
    }

    /// The number of members before this one, and its score.
    pub(super) fn rank(&self, name: &[u8]) -> Option<(usize, f64)> {
        let found = self.walk().enumerate().find(|(_, stored)| stored.is_named(name));
        found.map(|(rank, stored)| (rank, stored.score()))
    }

    pub(super) fn score(&self, name: &[u8]) -> Option<f64> {
        self.find(name).map(|stored| stored.score())
    }

    /// The number of members that satisfy `precedes`, which are the first ones.
    pub(super) fn rank_where(&self, precedes: impl Fn(Member<'_>) -> bool) -> usize {
        self.walk().take_while(|stored| precedes(stored.member())).count()
    }

    /// The member of this rank.
    ///
    /// # Panics
    /// If there are not more members.
    pub(super) fn at(&self, rank: usize) -> Member<'_> {
        self.walk().nth(rank).expect("there are more members").member()
    }

    /// Calls `f` with the members of these ranks, the last one first if `reversed`, as long as it returns true.
    ///
    /// # Panics
    /// If it is reversed and there are not as many members.
    pub(super) fn visit(&self, ranks: Range<usize>, reversed: bool, mut f: impl FnMut(&[u8], f64) -> bool) {
        let mut visit = |stored: Stored<'_>| {
            let (name, score) = stored.member();
            f(name, score)
        };
        if !reversed {
            self.walk().skip(ranks.start).take(ranks.len()).all(visit);
            return;
        }
        let mut starts = [0; MAX_MEMBERS];
        self.walk()
            .zip(&mut starts[..ranks.end])
            .for_each(|(stored, start)| *start = stored.range().start as u16);
        ranks.rev().all(|rank| self.walk_from(starts[rank].into()).next().is_some_and(&mut visit));
    }

    /// Adds a member or changes its score. Returns the former score.
    ///
    /// # Errors
    /// [`Full`]. Nothing was changed then.
    pub(super) fn insert(&mut self, name: &[u8], score: f64) -> Result<Option<f64>, Full> {
        if name.len() > MAX_NAME_BYTES {
            return Err(Full);
        }
        let (from, to, former) = self.locate(name, score);
        let (encoded, length) = encode(score);
        let encoded = &encoded[..length];
        let bytes = stored_bytes(name, encoded);
        let members = self.len() + usize::from(former.is_none());
        if self.buffer.used() - from.len() + bytes > MAX_BYTES || members > MAX_MEMBERS {
            return Err(Full);
        }
        let start = self.make_place(from, to, bytes);
        self.buffer.set_count(members);
        write(self.buffer.range_mut(start..start + bytes), name, encoded);
        Ok(former)
    }

    /// Removes a member; returns its score.
    pub(super) fn remove(&mut self, name: &[u8]) -> Option<f64> {
        let stored = self.find(name)?;
        let (range, score) = (stored.range(), stored.score());
        self.buffer.cut(range, 1);
        Some(score)
    }

    /// Removes the members of these ranks.
    pub(super) fn remove_range(&mut self, ranks: Range<usize>) {
        if ranks.is_empty() {
            return;
        }
        let offset = |rank| self.walk().nth(rank).map_or(self.buffer.used(), |stored| stored.range().start);
        self.buffer.cut(offset(ranks.start)..offset(ranks.end), ranks.len());
    }

    fn find(&self, name: &[u8]) -> Option<Stored<'_>> {
        self.walk().find(|stored| stored.is_named(name))
    }

    fn walk(&self) -> Walk<'_> {
        self.walk_from(HEADER_BYTES)
    }

    fn walk_from(&self, at: usize) -> Walk<'_> {
        Walk { buffer: self.buffer.in_use(), at }
    }

    /// The place of a member, the offset before which it lies with this score, and its own score. One that is missing has
    /// an empty place there.
    fn locate(&self, name: &[u8], score: f64) -> (Range<usize>, usize, Option<f64>) {
        let found = self.find(name).map(|stored| (stored.range(), stored.score()));
        let first = match &found {
            // It moves behind others only.
            Some((from, former)) if *former <= score => from.start,
            _ => HEADER_BYTES,
        };
        let behind = self.walk_from(first).find(|stored| !precedes(stored.member(), (name, score)));
        let to = behind.map_or(self.buffer.used(), |stored| stored.range().start);
        match found {
            Some((from, former)) => (from, to, Some(former)),
            None => (to..to, to, None),
        }
    }

    /// Makes a place of this length before the member at `to`, instead of the place `from`. Returns where it begins.
    fn make_place(&mut self, from: Range<usize>, to: usize, bytes: usize) -> usize {
        self.buffer.splice(from.clone(), bytes);
        if to <= from.start {
            self.buffer.range_mut(to..from.start + bytes).rotate_right(bytes);
            return to;
        }
        let end = to - from.len() + bytes;
        self.buffer.range_mut(from.start..end).rotate_left(bytes);
        end - bytes
    }
}

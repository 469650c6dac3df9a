//! A sorted set: members with scores, in order of score and then name.
//!
//! A small set is one buffer, in which members lie in their order; a large one is an index and a tree. A set that has
//! outgrown the buffer stays a tree: the cursors of its scans are positions there.

mod bounds;
#[cfg_attr(not(feature = "scripts"), allow(dead_code))]
mod journal;
mod members;
#[cfg(test)]
mod model;
mod packed;
mod stored;
#[cfg(test)]
mod tests;
mod tree;

use std::ops::Range;

use bounds::Member;
pub(crate) use bounds::{NameBound, ScoreBound};
pub(crate) use journal::Journal;
use packed::{Full, Packed};
use tree::Tree;

/// Redis stores a set in another form above this number of members, or with a longer name than this.
const MAX_PACKED_MEMBERS: usize = 128;
const MAX_PACKED_NAME_BYTES: usize = 64;

/// Members with scores, in order. No score is NaN.
#[derive(Clone, Debug)]
pub(crate) struct SortedSet {
    form: Form,
    /// What is changed, if that may have to be undone.
    journal: Option<Box<Journal>>,
    /// How often a member was added, moved or removed.
    changes: u32,
    is_packed: bool,
}

#[derive(Clone, Debug)]
enum Form {
    Packed(Packed),
    Tree(Box<Tree>),
}

/// Calls a method that both forms have.
macro_rules! each {
    ($form:expr, $name:ident => $call:expr) => {
        match $form {
            Form::Packed($name) => $call,
            Form::Tree($name) => $call,
        }
    };
}

impl SortedSet {
    pub(crate) fn new() -> Self {
        SortedSet { form: Form::Packed(Packed::default()), journal: None, changes: 0, is_packed: true }
    }

    pub(crate) fn len(&self) -> usize {
        each!(&self.form, form => form.len())
    }

    /// Calls `f`, and tells whether it has changed the set.
    pub(crate) fn observe<R>(&mut self, f: impl FnOnce(&mut SortedSet) -> R) -> (bool, R) {
        let before = self.changes;
        let result = f(self);
        (self.changes != before, result)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The memory that was allocated, with this structure in a box.
    pub(crate) fn bytes_allocated(&self) -> usize {
        size_of::<Self>() + each!(&self.form, form => form.bytes_allocated())
    }

    /// Whether Redis would store it in the form for small sets: it never returns to that form.
    pub(crate) fn is_packed(&self) -> bool {
        self.is_packed
    }

    pub(crate) fn score(&self, name: &[u8]) -> Option<f64> {
        each!(&self.form, form => form.score(name))
    }

    /// The number of members before this one, and its score.
    pub(crate) fn rank(&self, name: &[u8]) -> Option<(usize, f64)> {
        each!(&self.form, form => form.rank(name))
    }

    /// Adds a member or changes its score. Returns the former score.
    pub(crate) fn insert(&mut self, name: &[u8], score: f64) -> Option<f64> {
        let former = self.form.insert(name, score);
        self.record_change(name, former);
        if former != Some(score) {
            self.changes = self.changes.wrapping_add(1);
        }
        if former.is_none() {
            self.is_packed &= self.len() <= MAX_PACKED_MEMBERS && name.len() <= MAX_PACKED_NAME_BYTES;
        }
        former
    }

    /// Removes a member; returns its score.
    pub(crate) fn remove(&mut self, name: &[u8]) -> Option<f64> {
        let score = each!(&mut self.form, form => form.remove(name))?;
        self.record_change(name, Some(score));
        self.changes = self.changes.wrapping_add(1);
        Some(score)
    }

    /// Removes the members of these ranks.
    pub(crate) fn remove_range(&mut self, ranks: Range<usize>) {
        if let Some(journal) = &mut self.journal {
            each!(&self.form, form => form.visit(ranks.clone(), false, |name, score| {
                journal.record(name, Some(score));
                true
            }));
        }
        self.changes = self.changes.wrapping_add(ranks.len() as u32);
        each!(&mut self.form, form => form.remove_range(ranks));
    }

    /// The member of this rank.
    ///
    /// # Panics
    /// If there are not more members.
    pub(crate) fn at(&self, rank: usize) -> Member<'_> {
        each!(&self.form, form => form.at(rank))
    }

    /// Calls `f` with the members of these ranks, which must exist, the last one first if `reversed`, as long as it
    /// returns true.
    pub(crate) fn visit(&self, ranks: Range<usize>, reversed: bool, f: impl FnMut(&[u8], f64) -> bool) {
        each!(&self.form, form => form.visit(ranks, reversed, f));
    }

    /// The ranks of the members with scores in this range.
    pub(crate) fn ranks_by_score(&self, min: ScoreBound, max: ScoreBound) -> Range<usize> {
        self.ranks(|(_, score)| min.is_above(score), |(_, score)| max.is_below(score))
    }

    /// The ranks of the members with names in this range, if all scores are equal; else any ranks.
    pub(crate) fn ranks_by_name(&self, min: NameBound<'_>, max: NameBound<'_>) -> Range<usize> {
        self.ranks(|(name, _)| min.is_above(name), |(name, _)| max.is_below(name))
    }

    /// Calls `f` with about `count` members from a cursor on, and returns the next cursor. Zero starts a scan, and ends it
    /// when it is returned. Members that stay throughout are visited exactly once, whatever their scores become. A small set
    /// is visited whole.
    pub(crate) fn scan(&self, cursor: u64, count: usize, mut f: impl FnMut(&[u8], f64)) -> u64 {
        match &self.form {
            Form::Packed(packed) => {
                packed.visit(0..packed.len(), false, |name, score| {
                    f(name, score);
                    true
                });
                0
            }
            Form::Tree(tree) => tree.scan(cursor, count, f),
        }
    }

    /// The ranks of the members between those below the start of a range and those above its end.
    fn ranks(
        &self,
        is_below: impl Fn(Member<'_>) -> bool,
        is_above: impl Fn(Member<'_>) -> bool,
    ) -> Range<usize> {
        let start = each!(&self.form, form => form.rank_where(is_below));
        let end = each!(&self.form, form => form.rank_where(|member| !is_above(member)));
        start..end.max(start)
    }

    /// Records the former score of a member, if changes are recorded.
    #[inline]
    fn record_change(&mut self, name: &[u8], former: Option<f64>) {
        if let Some(journal) = &mut self.journal {
            journal.record(name, former);
        }
    }
}

impl Form {
    /// Adds a member or changes its score. Returns the former score.
    fn insert(&mut self, name: &[u8], score: f64) -> Option<f64> {
        let mut tree = match self {
            Form::Tree(tree) => return tree.insert(name, score),
            Form::Packed(packed) => match packed.insert(name, score) {
                Ok(former) => return former,
                Err(Full) => Box::new(Tree::from(&*packed)),
            },
        };
        let former = tree.insert(name, score);
        *self = Form::Tree(tree);
        former
    }
}

//! A set: a hash whose fields have no values.
//!
//! A small set is one buffer, in which an empty value takes a byte of each member; a large one is an index of slots.

#[cfg(test)]
mod tests;

#[cfg(feature = "scripts")]
use super::hash::Journal;
use super::hash::{Field, Hash};

/// From this number of members on, a walk over the buffer takes longer than a lookup in the index.
const MAX_PACKED_MEMBERS: usize = 128;
/// Redis stores a set of integers in another form up to this number of members.
const MAX_INTEGERS: usize = 512;
/// No field has a deadline.
const NOW: i64 = i64::MIN;

/// Different members, in no order.
#[derive(Clone, Debug)]
pub(crate) struct Set {
    members: Hash,
}

impl Set {
    pub(crate) fn new() -> Set {
        Set { members: Hash::new() }
    }

    pub(crate) fn len(&self) -> usize {
        self.members.stored()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.members.is_empty()
    }

    /// The memory that was allocated, with this structure in a box.
    pub(crate) fn bytes_allocated(&self) -> usize {
        self.members.bytes_allocated()
    }

    /// Whether Redis would store it in the form for integers. Cost: all members.
    pub(crate) fn has_few_integers(&self) -> bool {
        let mut are_integers = self.len() <= MAX_INTEGERS;
        if are_integers {
            self.visit(|member| are_integers &= larder_resp::parse_integer(member).is_some());
        }
        are_integers
    }

    pub(crate) fn contains(&self, member: &[u8]) -> bool {
        self.members.contains(member, NOW)
    }

    /// Brings what lookups of some members read into the processor's caches, where that is worth it.
    pub(crate) fn prefetch<'n>(&self, members: impl Iterator<Item = &'n [u8]>) {
        self.members.prefetch(members);
    }

    /// Calls `f` with all members.
    pub(crate) fn visit(&self, mut f: impl FnMut(&[u8])) {
        self.members.visit(NOW, |field| f(field.name));
    }

    /// Calls `f` with the members of these ranks, in an order that lasts until the next change, as long as it returns true.
    ///
    /// # Panics
    /// May panic if there are not as many members.
    pub(crate) fn visit_ranks(
        &self,
        ranks: impl IntoIterator<Item = usize>,
        mut f: impl FnMut(&[u8]) -> bool,
    ) {
        self.members.visit_ranks(ranks, |field| f(field.name));
    }

    /// Calls `f` with about `count` members from a cursor on, and returns the next cursor. Zero starts a scan, and ends it
    /// when it is returned. Members that stay throughout are visited exactly once. A small set is visited whole.
    pub(crate) fn scan(&self, cursor: u64, count: usize, mut f: impl FnMut(&[u8])) -> u64 {
        self.members.scan(cursor, count, NOW, |field| f(field.name))
    }

    /// Adds a member; returns whether it is new.
    pub(crate) fn insert(&mut self, member: &[u8]) -> bool {
        let is_new = self.members.insert(Field { name: member, value: b"", deadline: None });
        if self.len() > MAX_PACKED_MEMBERS {
            self.members.outgrow();
        }
        is_new
    }

    /// Removes a member; returns whether it was one.
    pub(crate) fn remove(&mut self, member: &[u8]) -> bool {
        self.members.remove(member)
    }

    /// Calls `f`, which adds members or removes some, and tells whether it has done so.
    pub(crate) fn observe<R>(&mut self, f: impl FnOnce(&mut Set) -> R) -> (bool, R) {
        let before = self.len();
        let result = f(self);
        (self.len() != before, result)
    }

    /// Records the changes from now on.
    #[cfg(feature = "scripts")]
    pub(crate) fn start_journal(&mut self) {
        self.members.start_journal();
    }

    /// Ends the recording. Returns what was recorded, if it was started.
    #[cfg(feature = "scripts")]
    pub(crate) fn take_journal(&mut self) -> Option<Box<Journal>> {
        self.members.take_journal()
    }

    /// Undoes changes, which must be the last ones.
    #[cfg(feature = "scripts")]
    pub(crate) fn undo(&mut self, journal: &Journal) {
        self.members.undo(journal);
    }
}

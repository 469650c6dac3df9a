//! The changes of a list, so that they can be undone without a copy of the list.

use super::List;

/// What was changed since the start, in this order.
#[derive(Clone, Debug, Default)]
pub(crate) struct Journal {
    changes: Vec<Change>,
    bytes: usize,
}

/// A change, with the index at which it was made.
#[derive(Clone, Debug)]
enum Change {
    Added(usize),
    Replaced(usize, Box<[u8]>),
    Removed(usize, Box<[u8]>),
}

impl Journal {
    pub(super) fn added(&mut self, index: usize) {
        self.push(Change::Added(index), 0);
    }

    pub(super) fn replaced(&mut self, index: usize, former: Box<[u8]>) {
        let bytes = former.len();
        self.push(Change::Replaced(index, former), bytes);
    }

    pub(super) fn removed(&mut self, index: usize, former: Box<[u8]>) {
        let bytes = former.len();
        self.push(Change::Removed(index, former), bytes);
    }

    fn push(&mut self, change: Change, bytes: usize) {
        self.bytes += size_of::<Change>() + bytes;
        self.changes.push(change);
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.changes.is_empty()
    }

    /// The memory that it needs, about.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }
}

impl List {
    /// Records the changes from now on.
    pub(crate) fn start_journal(&mut self) {
        self.chunks.set_journal(Box::default());
    }

    /// Ends the recording. Returns what was recorded, if it was started.
    pub(crate) fn take_journal(&mut self) -> Option<Box<Journal>> {
        self.chunks.take_journal()
    }

    /// Undoes changes, which must be the last ones.
    pub(crate) fn undo(&mut self, journal: &Journal) {
        for change in journal.changes.iter().rev() {
            match change {
                Change::Added(index) => self.remove(*index..index + 1),
                Change::Replaced(index, former) => self.replace(*index, former),
                Change::Removed(index, former) => self.insert(*index, former),
            }
        }
    }
}

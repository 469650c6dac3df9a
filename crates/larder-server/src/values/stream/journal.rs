//! The changes of a stream, so that they can be undone without a copy of the stream.

use super::chunk::Chunk;
use super::{Head, Stream};

/// What was changed since the start, in this order.
#[derive(Clone, Debug)]
pub(crate) struct Journal {
    /// As it was at the start.
    head: Head,
    changes: Vec<Change>,
    bytes: usize,
}

/// A change of the chunks.
#[derive(Clone, Debug)]
pub(super) enum Change {
    /// The last chunk got an entry of so many bytes.
    Appended(usize),
    /// A chunk was added behind all others.
    Begun,
    /// The chunk of this number lost so many entries, which were there.
    Cut { number: usize, at: usize, entries: Box<[u8]>, count: usize },
    /// The chunk of this number was removed.
    Dropped { number: usize, former: Chunk },
}

impl Journal {
    pub(super) fn push(&mut self, change: Change) {
        self.bytes += size_of::<Change>();
        self.bytes += match &change {
            Change::Appended(_) | Change::Begun => 0,
            Change::Cut { entries, .. } => entries.len(),
            Change::Dropped { former, .. } => former.bytes_allocated(),
        };
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

impl Stream {
    /// Records the changes from now on.
    pub(crate) fn start_journal(&mut self) {
        self.journal = Some(Box::new(Journal { head: self.head, changes: Vec::new(), bytes: 0 }));
    }

    /// Ends the recording. Returns what was recorded, if it was started.
    pub(crate) fn take_journal(&mut self) -> Option<Box<Journal>> {
        self.journal.take()
    }

    /// Undoes changes, which must be the last ones.
    pub(crate) fn undo(&mut self, journal: &Journal) {
        for change in journal.changes.iter().rev() {
            match change {
                Change::Appended(bytes) => {
                    self.change(self.chunks.len() - 1, |chunk| chunk.take_back(*bytes))
                }
                Change::Begun => _ = self.drop_chunk(self.chunks.len() - 1),
                Change::Cut { number, at, entries, count } => {
                    self.change(*number, |chunk| chunk.insert(*at, entries, *count));
                }
                Change::Dropped { number, former } => self.add_chunk(*number, former.clone()),
            }
        }
        self.head = journal.head;
    }
}

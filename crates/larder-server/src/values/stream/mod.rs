//! A stream: entries with fields, in the order of their ids. Entries are added at the end, and leave anywhere.
//!
//! - [`chunk`]: entries in a buffer, up to a hundred. [`fields`]: how one is stored. [`id`]: its id.
//! - [`trim`]: entries that leave at the front.
//! - [`journal`]: changes, so that they can be undone.

mod chunk;
mod fields;
mod id;
#[cfg_attr(not(feature = "scripts"), allow(dead_code))]
mod journal;
#[cfg(test)]
mod model;
mod trim;

use std::collections::VecDeque;
use std::ops::RangeInclusive;

use chunk::Chunk;
use fields::Encoded;
pub(crate) use fields::Entry;
pub(crate) use id::Id;
use journal::Change;
pub(crate) use journal::Journal;
pub(crate) use trim::{Keep, Trim};

/// What a sequence of chunks has room for at least, once it has several.
const MIN_CAPACITY: usize = 4;

/// Entries in the order of their ids.
#[derive(Clone, Debug)]
pub(crate) struct Stream {
    chunks: VecDeque<Chunk>,
    len: usize,
    /// Of all buffers.
    buffer_bytes: usize,
    head: Head,
    is_changed: bool,
    /// What is changed, if that may have to be undone.
    journal: Option<Box<Journal>>,
}

/// What a stream knows of entries that it may not have any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Head {
    /// The id of the entry that was added last.
    pub(crate) last_id: Id,
    /// The highest id of an entry that was removed by its id.
    pub(crate) max_removed_id: Id,
    /// How many entries were added.
    pub(crate) added: u64,
}

impl Stream {
    pub(crate) fn new() -> Stream {
        Stream {
            // Most streams are short.
            chunks: VecDeque::with_capacity(1),
            len: 0,
            buffer_bytes: 0,
            head: Head { last_id: Id::MIN, max_removed_id: Id::MIN, added: 0 },
            is_changed: false,
            journal: None,
        }
    }

    /// The number of entries.
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Whether it has ever got an entry.
    pub(crate) fn is_used(&self) -> bool {
        self.head.last_id > Id::MIN
    }

    /// The number of buffers in which its entries are.
    pub(crate) fn chunks(&self) -> usize {
        self.chunks.len()
    }

    pub(crate) fn head(&self) -> Head {
        self.head
    }

    /// Sets what is known of entries that the stream does not have.
    pub(crate) fn set_head(&mut self, head: Head) {
        self.head = head;
    }

    /// The id of the first entry.
    pub(crate) fn first_entry_id(&self) -> Option<Id> {
        self.chunks.front()?.walk().next().map(|stored| stored.entry.id)
    }

    /// The id of the last entry. Cost: a walk over up to a hundred.
    pub(crate) fn last_entry_id(&self) -> Option<Id> {
        self.chunks.back()?.last_id()
    }

    /// Calls `f`, and tells whether it has changed the stream.
    pub(crate) fn observe<R>(&mut self, f: impl FnOnce(&mut Stream) -> R) -> (bool, R) {
        self.is_changed = false;
        let result = f(self);
        (self.is_changed, result)
    }

    /// The memory that was allocated, with this structure in a box.
    pub(crate) fn bytes_allocated(&self) -> usize {
        size_of::<Stream>() + self.chunks.capacity() * size_of::<Chunk>() + self.buffer_bytes
    }

    /// Calls `f` with the entries that have these ids, the last one first if `reversed`, as long as it returns true.
    pub(crate) fn visit(
        &self,
        ids: RangeInclusive<Id>,
        reversed: bool,
        mut f: impl FnMut(&Entry<'_>) -> bool,
    ) {
        if ids.is_empty() {
            return;
        }
        // Entries of an id from here on are in this chunk or behind it.
        let first = self.find(*ids.start()).unwrap_or(0);
        let end = self.find(*ids.end()).map_or(0, |last| last + 1);
        let mut visit_all = |chunk: &Chunk| {
            let entries = chunk.walk().map(|stored| stored.entry).filter(|entry| ids.contains(&entry.id));
            match reversed {
                false => { entries }.all(|entry| f(&entry)),
                // An entry does not tell where the one before it begins.
                true => entries.collect::<Vec<_>>().iter().rev().all(&mut f),
            }
        };
        match reversed {
            false => _ = (first..end).all(|number| visit_all(&self.chunks[number])),
            true => _ = (first..end).rev().all(|number| visit_all(&self.chunks[number])),
        }
    }

    /// All entries, those of one chunk at a time.
    pub(crate) fn entries_by_chunk(&self) -> impl Iterator<Item = Vec<Entry<'_>>> {
        self.chunks.iter().map(|chunk| chunk.walk().map(|stored| stored.entry).collect())
    }

    /// Adds an entry, of names and values by turns. Its id must be higher than that of the last one.
    pub(crate) fn append<T: AsRef<[u8]>>(&mut self, id: Id, texts: &[T]) {
        debug_assert!(id > self.head.last_id, "{id} after {}", self.head.last_id);
        let fields = Encoded::new(texts);
        let last = self.chunks.len().checked_sub(1);
        let appended = last.and_then(|last| self.change(last, |chunk| chunk.append(id, &fields)));
        match appended {
            Some(bytes) => self.record(|| Change::Appended(bytes)),
            None => {
                self.add_chunk(self.chunks.len(), Chunk::new(id, &fields));
                self.record(|| Change::Begun);
            }
        }
        self.head.last_id = id;
        self.head.added += 1;
        self.is_changed = true;
    }

    /// Removes the entry of this id; returns whether there was one.
    pub(crate) fn remove(&mut self, id: Id) -> bool {
        let Some(number) = self.find(id) else { return false };
        let found = self.chunks[number].walk().find(|stored| stored.entry.id == id);
        let Some(place) = found.map(|stored| stored.place) else { return false };
        self.cut(number, place.start, place.end, 1);
        self.head.max_removed_id = self.head.max_removed_id.max(id);
        true
    }

    /// The number of the chunk in which an entry of this id would be.
    fn find(&self, id: Id) -> Option<usize> {
        self.chunks.partition_point(|chunk| chunk.base() <= id).checked_sub(1)
    }

    /// Removes so many entries of a chunk, which lie there, and the chunk with its last one.
    fn cut(&mut self, number: usize, start: usize, end: usize, count: usize) {
        if self.chunks[number].len() == count {
            let former = self.drop_chunk(number);
            self.record(|| Change::Dropped { number, former });
        } else {
            if self.journal.is_some() {
                let entries = self.chunks[number].bytes(start..end).into();
                self.record(|| Change::Cut { number, at: start, entries, count });
            }
            self.change(number, |chunk| chunk.cut(start..end, count));
        }
        self.is_changed = true;
    }

    fn record(&mut self, change: impl FnOnce() -> Change) {
        if let Some(journal) = &mut self.journal {
            journal.push(change());
        }
    }

    /// Changes a chunk.
    fn change<R>(&mut self, number: usize, change: impl FnOnce(&mut Chunk) -> R) -> R {
        let chunk = &mut self.chunks[number];
        let (entries, bytes) = (chunk.len(), chunk.bytes_allocated());
        let result = change(chunk);
        self.len = self.len - entries + chunk.len();
        self.buffer_bytes = self.buffer_bytes - bytes + chunk.bytes_allocated();
        result
    }

    fn add_chunk(&mut self, number: usize, chunk: Chunk) {
        self.len += chunk.len();
        self.buffer_bytes += chunk.bytes_allocated();
        self.chunks.insert(number, chunk);
    }

    /// Removes a chunk, and gives back memory of a sequence that was much longer.
    fn drop_chunk(&mut self, number: usize) -> Chunk {
        let chunk = self.chunks.remove(number).expect("there are more chunks");
        self.len -= chunk.len();
        self.buffer_bytes -= chunk.bytes_allocated();
        let chunks = self.chunks.len();
        if self.chunks.capacity() > MIN_CAPACITY && self.chunks.capacity() / 4 >= chunks {
            self.chunks.shrink_to((chunks * 2).max(MIN_CAPACITY));
        }
        chunk
    }

    /// Panics if the parts do not agree.
    #[cfg(test)]
    fn validate(&self) {
        self.chunks.iter().for_each(Chunk::validate);
        assert_eq!(self.len, self.chunks.iter().map(Chunk::len).sum::<usize>());
        assert_eq!(self.buffer_bytes, self.chunks.iter().map(Chunk::bytes_allocated).sum::<usize>());
        let bases = self.chunks.iter().skip(1).map(Chunk::base);
        assert!(self.chunks.iter().zip(bases).all(|(chunk, next)| chunk.last_id() < Some(next)));
        assert!(self.last_entry_id().is_none_or(|last| last <= self.head.last_id));
    }
}

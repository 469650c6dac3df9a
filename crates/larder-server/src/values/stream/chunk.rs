//! A run of entries in one buffer.
//!
//! ```text
//! names │ free │ entry │ entry │ … │ free
//! entry: (ms since the base) · 2 + has own names │ number in its ms, since the base in that of the base │ own names │ values
//! ```
//!
//! The *base* is the id of the entry that began the chunk, and the names are those of its fields: most entries have the same ones.
//! An entry that is removed moves those behind it, or none if it is the first one.

use std::ops::Range;

use super::Id;
use super::fields::{Encoded, Entry, MAX_NUMBER_BYTES, Reader, write_number};
use crate::values::table::block_bytes;

/// The longest buffer for several entries. A longer entry has a chunk of its own.
pub(super) const MAX_CHUNK_BYTES: usize = 4 << 10;
/// The most entries that a chunk gets: as many as a node of Redis, because an inexact trim removes whole ones.
pub(super) const MAX_CHUNK_ENTRIES: u16 = 100;
/// A later entry begins another chunk, so that its time has room for a bit beside it.
const MAX_MS_SINCE_BASE: u64 = 1 << 62;

/// Entries in the order of their ids: at least one.
#[derive(Clone, Debug)]
pub(super) struct Chunk {
    buffer: Box<[u8]>,
    base: Id,
    /// The end of the names.
    names: u32,
    /// Where the entries are.
    start: u32,
    end: u32,
    count: u16,
    /// How many entries it has got, with those that were removed.
    added: u16,
}

/// An entry in its chunk.
pub(super) struct Stored<'a> {
    pub(super) entry: Entry<'a>,
    /// Where it lies, counted from the first one.
    pub(super) place: Range<usize>,
}

impl Chunk {
    /// A chunk that begins with this entry.
    pub(super) fn new(base: Id, fields: &Encoded) -> Chunk {
        let names = fields.names().len() as u32;
        let buffer = fields.names().into();
        let mut chunk = Chunk { buffer, base, names, start: names, end: names, count: 0, added: 1 };
        chunk.insert(0, &encoded(base, base, &[], fields.values()), 1);
        chunk
    }

    /// No entry has a lower id.
    pub(super) fn base(&self) -> Id {
        self.base
    }

    /// The number of entries.
    pub(super) fn len(&self) -> usize {
        self.count.into()
    }

    /// The memory that was allocated.
    pub(super) fn bytes_allocated(&self) -> usize {
        self.buffer.len()
    }

    /// The bytes of the entries.
    fn used(&self) -> usize {
        (self.end - self.start) as usize
    }

    /// The names of the entry that began it.
    pub(super) fn names(&self) -> &[u8] {
        &self.buffer[..self.names as usize]
    }

    /// All entries.
    pub(super) fn walk(&self) -> impl Iterator<Item = Stored<'_>> {
        let entries = &self.buffer[self.start as usize..self.end as usize];
        let mut reader = Reader(entries);
        std::iter::from_fn(move || {
            if reader.is_at_end() {
                return None;
            }
            let start = entries.len() - reader.0.len();
            let (time, seq) = (reader.number(), reader.number());
            let id = match time >> 1 {
                0 => Id { ms: self.base.ms, seq: self.base.seq + seq },
                since_base => Id { ms: self.base.ms + since_base, seq },
            };
            let has_own_names = time & 1 == 1;
            let mut names = if has_own_names { reader } else { Reader(self.names()) };
            let fields = names.number() as usize;
            if has_own_names {
                reader = names;
                reader.skip_texts(fields);
                names = Reader(&names.0[..names.0.len() - reader.0.len()]);
            }
            let values = reader;
            reader.skip_texts(fields);
            let end = entries.len() - reader.0.len();
            Some(Stored { entry: Entry { id, fields, names, values }, place: start..end })
        })
    }

    /// The id of the last entry.
    pub(super) fn last_id(&self) -> Option<Id> {
        self.walk().last().map(|stored| stored.entry.id)
    }

    /// Adds an entry behind all others, whose ids must be lower. Returns its bytes; `None` if there is no room for it.
    pub(super) fn append(&mut self, id: Id, fields: &Encoded) -> Option<usize> {
        if self.added == MAX_CHUNK_ENTRIES || id.ms - self.base.ms >= MAX_MS_SINCE_BASE {
            return None;
        }
        // No names begin with other ones, because their number is ahead of them.
        let own_names = if self.buffer.starts_with(fields.names()) { &[] } else { fields.names() };
        let entry = encoded(self.base, id, own_names, fields.values());
        if self.names as usize + self.used() + entry.len() > MAX_CHUNK_BYTES {
            return None;
        }
        self.insert(self.used(), &entry, 1);
        self.added += 1;
        Some(entry.len())
    }

    /// Undoes [`append`](Self::append).
    pub(super) fn take_back(&mut self, bytes: usize) {
        self.cut(self.used() - bytes..self.used(), 1);
        self.added -= 1;
    }

    /// The bytes of entries that lie here.
    pub(super) fn bytes(&self, place: Range<usize>) -> &[u8] {
        &self.buffer[self.start as usize..self.end as usize][place]
    }

    /// Removes so many entries, which lie here.
    pub(super) fn cut(&mut self, place: Range<usize>, count: usize) {
        if place.start == 0 {
            self.start += place.len() as u32;
        } else {
            let (start, end) = (self.start as usize, self.end as usize);
            self.buffer.copy_within(start + place.end..end, start + place.start);
            self.end -= place.len() as u32;
        }
        self.count -= count as u16;
        // Not before a quarter is free, so that not each entry that leaves moves the others.
        if self.names as usize + self.used() < self.buffer.len() / 4 * 3 {
            self.resize(0);
        }
    }

    /// Inserts the bytes of so many entries here.
    pub(super) fn insert(&mut self, at: usize, entries: &[u8], count: usize) {
        if self.end as usize + entries.len() > self.buffer.len() {
            self.resize(entries.len());
        }
        let (at, end) = (self.start as usize + at, self.end as usize);
        self.buffer.copy_within(at..end, at + entries.len());
        self.buffer[at..at + entries.len()].copy_from_slice(entries);
        self.end += entries.len() as u32;
        self.count += count as u16;
    }

    /// Gives the buffer the size for its content and so many further bytes.
    fn resize(&mut self, further: usize) {
        let (names, used) = (self.names as usize, self.used());
        let size = match names + used + further {
            needed @ ..=MAX_CHUNK_BYTES => block_bytes(needed),
            needed => needed,
        };
        let mut buffer = vec![0; size].into_boxed_slice();
        buffer[..names].copy_from_slice(self.names());
        buffer[names..names + used].copy_from_slice(self.bytes(0..used));
        self.buffer = buffer;
        (self.start, self.end) = (self.names, (names + used) as u32);
    }

    /// Panics if the parts do not agree.
    #[cfg(test)]
    pub(super) fn validate(&self) {
        let ids: Vec<Id> = self.walk().map(|stored| stored.entry.id).collect();
        assert_eq!(ids.len(), self.len());
        assert!(!ids.is_empty() && ids[0] >= self.base && ids.is_sorted_by(|a, b| a < b), "{ids:?}");
        assert!(self.count <= self.added && self.added <= MAX_CHUNK_ENTRIES);
        assert!(self.added == 1 || self.names as usize + self.used() <= MAX_CHUNK_BYTES);
    }
}

/// An entry as it is stored in a chunk with this base.
fn encoded(base: Id, id: Id, own_names: &[u8], values: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(2 * MAX_NUMBER_BYTES + own_names.len() + values.len());
    let since_base = id.ms - base.ms;
    write_number(&mut bytes, since_base << 1 | u64::from(!own_names.is_empty()));
    write_number(&mut bytes, if since_base == 0 { id.seq - base.seq } else { id.seq });
    bytes.extend_from_slice(own_names);
    bytes.extend_from_slice(values);
    bytes
}

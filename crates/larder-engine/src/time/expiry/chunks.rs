//! Lists of slots in chunks of one cache line: a list wastes part of one chunk, however long it is.

use crate::layout::array::Array;
use crate::layout::packed::Width;
use crate::layout::sizes;

/// How many slots a chunk has, if each takes two bytes.
const SHORT_SLOTS: usize = 30;
/// How many, if each takes four.
const LONG_SLOTS: usize = 15;
const UNUSED: Chunk = Chunk { next: NO_CHUNK, halves: [0; SHORT_SLOTS] };
const NO_CHUNK: u32 = (1 << 27) - 1;

/// The chunks of all lists of a shard.
#[derive(Debug)]
pub(super) struct Chunks {
    chunks: Array<Chunk>,
    /// How many of them were ever used.
    begun: usize,
    /// The first free chunk, if `any_free`.
    free: u32,
    any_free: bool,
    width: Width,
}

#[derive(Clone, Copy, Debug)]
#[repr(align(64))]
struct Chunk {
    next: u32,
    /// Slots; those of four bytes take two of them.
    halves: [u16; SHORT_SLOTS],
}

/// A last-in-first-out list of slots, in four bytes because a shard has 256 lists: the index of the first chunk and, in
/// the lowest five bits, its length; all other chunks are full.
#[derive(Clone, Copy, Debug)]
pub(super) struct ChunkList(u32);

impl ChunkList {
    pub(super) const EMPTY: ChunkList = ChunkList::new(NO_CHUNK, 0);

    const fn new(first: u32, len: usize) -> Self {
        ChunkList(first << 5 | len as u32)
    }

    fn first(self) -> u32 {
        self.0 >> 5
    }

    fn len(self) -> usize {
        self.0 as usize & 31
    }
}

impl Chunks {
    /// No chunks, for slots of this width.
    pub(super) fn new(width: Width) -> Self {
        Chunks { chunks: Array::filled(0, UNUSED), begun: 0, free: 0, any_free: false, width }
    }

    pub(super) fn bytes_allocated(&self) -> usize {
        size_of_val(&*self.chunks)
    }

    pub(super) fn push(&mut self, list: &mut ChunkList, id: u32) {
        if list.first() == NO_CHUNK || list.len() == self.slots_per_chunk() {
            *list = ChunkList::new(self.take(list.first()), 0);
        }
        let halves = &mut self.chunks[list.first() as usize].halves;
        match self.width {
            Width::Short => halves[list.len()] = id as u16,
            Width::Long => {
                halves[2 * list.len()] = id as u16;
                halves[2 * list.len() + 1] = (id >> 16) as u16;
            }
        }
        *list = ChunkList::new(list.first(), list.len() + 1);
    }

    pub(super) fn pop(&mut self, list: &mut ChunkList) -> Option<u32> {
        let (first, len) = (list.first(), list.len());
        if first == NO_CHUNK {
            return None;
        }
        let chunk = self.chunks[first as usize];
        *list = ChunkList::new(first, len - 1);
        if len == 1 {
            self.chunks[first as usize].next = if self.any_free { self.free } else { NO_CHUNK };
            (self.free, self.any_free) = (first, true);
            *list = match chunk.next {
                NO_CHUNK => ChunkList::EMPTY,
                next => ChunkList::new(next, self.slots_per_chunk()),
            };
        }
        let half = |at: usize| u32::from(chunk.halves[at]);
        Some(match self.width {
            Width::Short => half(len - 1),
            Width::Long => half(2 * len - 2) | half(2 * len - 1) << 16,
        })
    }

    fn slots_per_chunk(&self) -> usize {
        match self.width {
            Width::Short => SHORT_SLOTS,
            Width::Long => LONG_SLOTS,
        }
    }

    fn take(&mut self, next: u32) -> u32 {
        if self.any_free {
            let chunk = self.free;
            self.free = self.chunks[chunk as usize].next;
            self.any_free = self.free != NO_CHUNK;
            self.chunks[chunk as usize].next = next;
            return chunk;
        }
        let at = self.begun;
        if at == self.chunks.len() {
            let mut larger = Array::filled(sizes::at_least(at + (at / 8).max(4)), UNUSED);
            larger[..at].copy_from_slice(&self.chunks);
            self.chunks = larger;
        }
        self.begun += 1;
        self.chunks[at].next = next;
        at as u32
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_of_both_widths_come_back_in_reverse_order() {
        assert_eq!(size_of::<Chunk>(), 64);
        for (width, most) in [(Width::Short, u32::from(u16::MAX)), (Width::Long, u32::MAX - 1)] {
            let mut chunks = Chunks::new(width);
            let mut lists = [ChunkList::EMPTY; 2];
            for round in 0..2 {
                for n in 0..1_000 {
                    chunks.push(&mut lists[n as usize % 2], most - n);
                }
                for n in (0..1_000).rev() {
                    assert_eq!(chunks.pop(&mut lists[n as usize % 2]), Some(most - n), "round {round}");
                }
                assert_eq!(lists.each_mut().map(|list| chunks.pop(list)), [None, None]);
            }
            assert!(chunks.chunks.len() <= 2 * 1_000 / LONG_SLOTS, "free chunks are used again");
        }
    }
}

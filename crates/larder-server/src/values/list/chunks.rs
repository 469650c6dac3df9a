//! The chunks of a list, and where an element is among them.

use std::collections::VecDeque;
use std::ops::Range;

use super::chunk::{Chunk, MAX_CHUNK_BYTES, stored_bytes};
use super::journal::Journal;

/// Neighbours with no more bytes than this together become one chunk.
const JOINED_BYTES: usize = MAX_CHUNK_BYTES / 2;
/// What a sequence of chunks has room for at least, once it has any.
const MIN_CAPACITY: usize = 4;

/// Chunks in their order, of which none is empty if there are several.
#[derive(Clone, Debug)]
pub(super) enum Chunks {
    One(Chunk),
    /// Two or more, or changes are recorded.
    Many(Box<Sequence>),
}

/// Several chunks.
#[derive(Clone, Debug)]
pub(super) struct Sequence {
    chunks: VecDeque<Chunk>,
    elements: usize,
    /// Of all buffers.
    buffer_bytes: usize,
    is_changed: bool,
    /// What is changed, if that may have to be undone.
    journal: Option<Box<Journal>>,
}

/// Where an element is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Place {
    /// The number of its chunk.
    pub(super) chunk: usize,
    /// Its index there.
    pub(super) index: usize,
}

impl Default for Chunks {
    fn default() -> Chunks {
        Chunks::One(Chunk::default())
    }
}

impl Chunks {
    /// The number of chunks, at least one.
    pub(super) fn len(&self) -> usize {
        match self {
            Chunks::One(_) => 1,
            Chunks::Many(sequence) => sequence.chunks.len(),
        }
    }

    /// The number of elements.
    pub(super) fn elements(&self) -> usize {
        match self {
            Chunks::One(chunk) => chunk.len(),
            Chunks::Many(sequence) => sequence.elements,
        }
    }

    /// The memory that was allocated, without this structure and without what is recorded.
    pub(super) fn bytes_allocated(&self) -> usize {
        match self {
            Chunks::One(chunk) => chunk.bytes_allocated(),
            // It is one again at the end of the recording.
            Chunks::Many(sequence) if sequence.chunks.len() == 1 => sequence.buffer_bytes,
            Chunks::Many(sequence) => {
                let places = sequence.chunks.capacity() * size_of::<Chunk>();
                size_of::<Sequence>() + places + sequence.buffer_bytes
            }
        }
    }

    /// Whether the list was changed. What adds and drops chunks may lose that, so it is to be set after a change.
    pub(super) fn is_changed(&mut self) -> &mut bool {
        match self {
            Chunks::One(chunk) => &mut chunk.is_changed,
            Chunks::Many(sequence) => &mut sequence.is_changed,
        }
    }

    pub(super) fn chunk(&self, number: usize) -> &Chunk {
        match self {
            Chunks::One(chunk) => chunk,
            Chunks::Many(sequence) => &sequence.chunks[number],
        }
    }

    /// Where the element of this index is. Cost: a look at each chunk from the nearer end on.
    ///
    /// # Panics
    /// If there are not more elements.
    pub(super) fn find(&self, index: usize) -> Place {
        let elements = self.elements();
        assert!(index < elements, "{index} of {elements}");
        if index < elements / 2 {
            let mut before = 0;
            for number in 0..self.len() {
                let length = self.chunk(number).len();
                if index < before + length {
                    return Place { chunk: number, index: index - before };
                }
                before += length;
            }
        } else {
            let mut before = elements;
            for number in (0..self.len()).rev() {
                before -= self.chunk(number).len();
                if index >= before {
                    return Place { chunk: number, index: index - before };
                }
            }
        }
        unreachable!("the chunks have all elements")
    }

    /// Adds an element before the one of this index, or at the end.
    pub(super) fn insert(&mut self, index: usize, element: &[u8]) {
        let Place { chunk: number, index } = match index == self.elements() {
            true => Place { chunk: self.len() - 1, index: self.chunk(self.len() - 1).len() },
            false => self.find(index),
        };
        let length = self.chunk(number).len();
        if self.chunk(number).fits(element) {
            self.change(number, |chunk| chunk.insert(index, element));
        } else if index == 0 {
            self.add(number, chunk_of(element));
        } else if index == length {
            self.add(number + 1, chunk_of(element));
        } else {
            let tail = self.change(number, |chunk| chunk.split_off(index));
            self.add(number + 1, tail);
            if self.chunk(number).fits(element) {
                self.change(number, |chunk| chunk.insert(index, element));
            } else if self.chunk(number + 1).fits(element) {
                self.change(number + 1, |chunk| chunk.insert(0, element));
            } else {
                self.add(number + 1, chunk_of(element));
            }
        }
    }

    /// Replaces the element of this index.
    pub(super) fn replace(&mut self, index: usize, element: &[u8]) {
        let place = self.find(index);
        let chunk = self.chunk(place.chunk);
        let former = stored_bytes(chunk.at(place.index).bytes.len());
        let used = chunk.used() - former + stored_bytes(element.len());
        if chunk.len() > 1 && used > MAX_CHUNK_BYTES {
            self.remove(index..index + 1);
            self.insert(index, element);
        } else {
            self.change(place.chunk, |chunk| chunk.replace(place.index, element));
        }
    }

    /// Removes the elements of these indices, of which there must be one.
    pub(super) fn remove(&mut self, indices: Range<usize>) {
        let Place { chunk: first, index } = self.find(indices.start);
        let (mut left, mut number, mut from) = (indices.len(), first, index);
        while left > 0 {
            if from == 0 && self.chunk(number).len() <= left {
                let mut whole = 0;
                while number + whole < self.len() && self.chunk(number + whole).len() <= left {
                    left -= self.chunk(number + whole).len();
                    whole += 1;
                }
                self.drop_chunks(number..number + whole);
                continue;
            }
            let count = left.min(self.chunk(number).len() - from);
            self.change(number, |chunk| chunk.remove(from..from + count));
            (left, number, from) = (left - count, number + 1, 0);
        }
        self.join(first);
    }

    /// Removes elements of a chunk, whose indices there are in order. The chunk may be empty afterwards: see [`Self::tidy`].
    pub(super) fn remove_each(&mut self, number: usize, indices: &[usize]) {
        self.change(number, |chunk| {
            let mut removed = indices.iter().copied().peekable();
            chunk.retain(|index| removed.next_if_eq(&index).is_none());
        });
    }

    /// Joins all small neighbours, and drops empty chunks.
    pub(super) fn tidy(&mut self) {
        let Chunks::Many(sequence) = self else { return };
        let mut joined: VecDeque<Chunk> = VecDeque::with_capacity(MIN_CAPACITY);
        for chunk in sequence.chunks.drain(..).filter(|chunk| chunk.len() > 0) {
            match joined.back_mut() {
                Some(last) if last.used() + chunk.used() <= JOINED_BYTES => last.append(&chunk),
                _ => joined.push_back(chunk),
            }
        }
        sequence.buffer_bytes = joined.iter().map(Chunk::bytes_allocated).sum();
        sequence.chunks = joined;
        self.settle();
    }

    /// Changes a chunk.
    fn change<R>(&mut self, number: usize, change: impl FnOnce(&mut Chunk) -> R) -> R {
        let sequence = match self {
            Chunks::One(chunk) => return change(chunk),
            Chunks::Many(sequence) => &mut **sequence,
        };
        let chunk = &mut sequence.chunks[number];
        let (elements, bytes) = (chunk.len(), chunk.bytes_allocated());
        let result = change(chunk);
        sequence.elements = sequence.elements - elements + chunk.len();
        sequence.buffer_bytes = sequence.buffer_bytes - bytes + chunk.bytes_allocated();
        result
    }

    /// Adds a chunk before the one of this number, or at the end.
    fn add(&mut self, number: usize, chunk: Chunk) {
        let sequence = self.as_sequence();
        sequence.elements += chunk.len();
        sequence.buffer_bytes += chunk.bytes_allocated();
        sequence.chunks.insert(number, chunk);
    }

    /// Takes the form for many chunks.
    fn as_sequence(&mut self) -> &mut Sequence {
        if let Chunks::One(first) = self {
            let (elements, buffer_bytes, is_changed) =
                (first.len(), first.bytes_allocated(), first.is_changed);
            let mut chunks = VecDeque::with_capacity(MIN_CAPACITY);
            chunks.push_back(std::mem::take(first));
            let sequence = Sequence { chunks, elements, buffer_bytes, is_changed, journal: None };
            *self = Chunks::Many(Box::new(sequence));
        }
        match self {
            Chunks::Many(sequence) => sequence,
            Chunks::One(_) => unreachable!("it was replaced"),
        }
    }

    /// What is recorded, if changes are.
    pub(super) fn journal(&mut self) -> Option<&mut Journal> {
        match self {
            Chunks::One(_) => None,
            Chunks::Many(sequence) => sequence.journal.as_deref_mut(),
        }
    }

    /// Records the changes from now on.
    pub(super) fn set_journal(&mut self, journal: Box<Journal>) {
        self.as_sequence().journal = Some(journal);
    }

    /// Ends the recording.
    pub(super) fn take_journal(&mut self) -> Option<Box<Journal>> {
        let journal = match self {
            Chunks::One(_) => None,
            Chunks::Many(sequence) => sequence.journal.take(),
        };
        self.settle();
        journal
    }

    fn drop_chunks(&mut self, numbers: Range<usize>) {
        match self {
            Chunks::One(_) => *self = Chunks::default(),
            Chunks::Many(sequence) => {
                for chunk in sequence.chunks.drain(numbers) {
                    sequence.elements -= chunk.len();
                    sequence.buffer_bytes -= chunk.bytes_allocated();
                }
                self.settle();
            }
        }
    }

    /// Joins the chunk of this number with the next one, and with the one before, if they are small.
    fn join(&mut self, number: usize) {
        for first in [number, number.wrapping_sub(1)] {
            let Chunks::Many(sequence) = self else { return };
            let (chunk, next) = (sequence.chunks.get(first), sequence.chunks.get(first.wrapping_add(1)));
            if let (Some(chunk), Some(next)) = (chunk, next)
                && chunk.used() + next.used() <= JOINED_BYTES
            {
                let next = next.clone();
                self.change(first, |chunk| chunk.append(&next));
                self.drop_chunks(first + 1..first + 2);
            }
        }
    }

    /// Takes the form for as many chunks as there are, and gives back memory of a sequence that was much longer.
    fn settle(&mut self) {
        let Chunks::Many(sequence) = self else { return };
        let chunks = &mut sequence.chunks;
        if chunks.len() <= 1 && sequence.journal.is_some() {
            chunks.resize_with(1, Chunk::default);
        } else if chunks.len() <= 1 {
            let mut chunk = chunks.pop_front().unwrap_or_default();
            chunk.is_changed = sequence.is_changed;
            *self = Chunks::One(chunk);
        } else if chunks.capacity() > MIN_CAPACITY && chunks.capacity() / 4 >= chunks.len() {
            chunks.shrink_to((chunks.len() * 2).max(MIN_CAPACITY));
        }
    }

    /// Panics if the parts do not agree.
    #[cfg(test)]
    pub(super) fn validate(&self) {
        let chunks = || (0..self.len()).map(|number| self.chunk(number));
        assert_eq!(self.elements(), chunks().map(Chunk::len).sum::<usize>());
        if let Chunks::Many(sequence) = self {
            assert_eq!(sequence.buffer_bytes, chunks().map(Chunk::bytes_allocated).sum::<usize>());
        }
        assert!(self.len() == 1 || chunks().all(|chunk| chunk.len() > 0));
        assert!(chunks().all(|chunk| chunk.len() == 1 || chunk.used() <= MAX_CHUNK_BYTES));
    }
}

fn chunk_of(element: &[u8]) -> Chunk {
    let mut chunk = Chunk::default();
    chunk.insert(0, element);
    chunk
}

//! A list: elements in the order that their commands give them.
//!
//! A short list is one buffer; a long one is a sequence of such *chunks* of at most 8 KiB. At both ends, and to find an element by
//! its index, only the lengths of chunks are looked at.
//!
//! - [`chunk`]: elements in a buffer. [`chunks`]: the chunks of a list, and where an element is.
//! - [`journal`]: changes, so that they can be undone.

mod chunk;
mod chunks;
#[cfg_attr(not(feature = "scripts"), allow(dead_code))]
mod journal;
#[cfg(test)]
mod model;

use std::ops::Range;

use chunks::{Chunks, Place};
#[cfg(feature = "scripts")]
pub(crate) use journal::Journal;

/// Elements in their order.
#[derive(Clone, Debug)]
pub(crate) struct List {
    chunks: Chunks,
}

/// An end of a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// Where the first element is.
    Left,
    /// Where the last element is.
    Right,
}

impl List {
    pub(crate) fn new() -> List {
        List { chunks: Chunks::default() }
    }

    pub(crate) fn len(&self) -> usize {
        self.chunks.elements()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Calls `f`, and tells whether it has changed the list.
    pub(crate) fn observe<R>(&mut self, f: impl FnOnce(&mut List) -> R) -> (bool, R) {
        *self.chunks.is_changed() = false;
        let result = f(self);
        (*self.chunks.is_changed(), result)
    }

    /// Counts as a change, without one.
    pub(crate) fn touch(&mut self) {
        *self.chunks.is_changed() = true;
    }

    /// The memory that was allocated, with this structure in a box.
    pub(crate) fn bytes_allocated(&self) -> usize {
        size_of::<List>() + self.chunks.bytes_allocated()
    }

    /// The element of this index.
    ///
    /// # Panics
    /// If there are not more elements.
    pub(crate) fn at(&self, index: usize) -> &[u8] {
        let place = self.chunks.find(index);
        self.chunks.chunk(place.chunk).at(place.index).bytes
    }

    /// Calls `f` with the elements of these indices, which must exist, the last one first if `reversed`, as long as it returns
    /// true.
    pub(crate) fn visit(&self, indices: Range<usize>, reversed: bool, mut f: impl FnMut(&[u8]) -> bool) {
        let mut left = indices.len();
        let mut visit = |element: &[u8]| {
            left = left.saturating_sub(1);
            f(element) && left > 0
        };
        if indices.is_empty() {
        } else if reversed {
            let Place { chunk, index } = self.chunks.find(indices.end - 1);
            let first = self.chunks.chunk(chunk);
            let goes_on = first.walk_back().skip(first.len() - 1 - index).all(|element| visit(element.bytes));
            // A list may have thousands of chunks, and a caller who wants one element.
            _ = goes_on
                && (0..chunk)
                    .rev()
                    .all(|number| self.chunks.chunk(number).walk_back().all(|element| visit(element.bytes)));
        } else {
            let Place { chunk, index } = self.chunks.find(indices.start);
            let first = self.chunks.chunk(chunk);
            let goes_on = first.walk().skip(index).all(|element| visit(element.bytes));
            _ = goes_on
                && (chunk + 1..self.chunks.len())
                    .all(|number| self.chunks.chunk(number).walk().all(|element| visit(element.bytes)));
        }
    }

    /// Adds an element at an end.
    pub(crate) fn push(&mut self, end: End, element: &[u8]) {
        let index = if end == End::Left { 0 } else { self.len() };
        self.insert(index, element);
    }

    /// Adds an element before the one of this index, or at the end.
    ///
    /// # Panics
    /// If there are fewer elements.
    pub(crate) fn insert(&mut self, index: usize, element: &[u8]) {
        if let Some(journal) = self.chunks.journal() {
            journal.added(index);
        }
        self.chunks.insert(index, element);
        *self.chunks.is_changed() = true;
    }

    /// Replaces the element of this index.
    ///
    /// # Panics
    /// If there are not more elements.
    pub(crate) fn replace(&mut self, index: usize, element: &[u8]) {
        let former = self.recorded(index..index + 1);
        if let Some(journal) = self.chunks.journal() {
            former.into_iter().for_each(|former| journal.replaced(index, former));
        }
        self.chunks.replace(index, element);
        *self.chunks.is_changed() = true;
    }

    /// Removes the elements of these indices.
    ///
    /// # Panics
    /// If there are not as many elements.
    pub(crate) fn remove(&mut self, indices: Range<usize>) {
        if indices.is_empty() {
            return;
        }
        let former = self.recorded(indices.clone());
        if let Some(journal) = self.chunks.journal() {
            former.into_iter().for_each(|former| journal.removed(indices.start, former));
        }
        self.chunks.remove(indices);
        *self.chunks.is_changed() = true;
    }

    /// Removes elements that are equal to this one, at most so many, beginning at an end. Returns how many.
    pub(crate) fn remove_equal(&mut self, element: &[u8], most: usize, from: End) -> usize {
        let (mut removed, chunks) = (0, self.chunks.len());
        let mut first_index = if from == End::Left { 0 } else { self.len() };
        for turn in 0..chunks {
            let number = if from == End::Left { turn } else { chunks - 1 - turn };
            let chunk = self.chunks.chunk(number);
            let length = chunk.len();
            let equal = chunk.walk().enumerate().filter(|(_, other)| other.bytes == element);
            let mut indices: Vec<usize> = equal.map(|(index, _)| index).collect();
            let excess = indices.len().saturating_sub(most - removed);
            match from {
                End::Left => indices.truncate(indices.len() - excess),
                End::Right => {
                    indices.drain(..excess);
                    first_index -= length;
                }
            }
            if !indices.is_empty() {
                if let Some(journal) = self.chunks.journal() {
                    (0..).zip(&indices).for_each(|(before, index)| {
                        journal.removed(first_index + index - before, element.into())
                    });
                }
                self.chunks.remove_each(number, &indices);
                removed += indices.len();
            }
            if from == End::Left {
                first_index += length - indices.len();
            }
            if removed == most {
                break;
            }
        }
        if removed > 0 {
            self.chunks.tidy();
            *self.chunks.is_changed() = true;
        }
        removed
    }

    /// The elements of these indices, if changes are recorded.
    fn recorded(&mut self, indices: Range<usize>) -> Vec<Box<[u8]>> {
        let mut former = Vec::new();
        if self.chunks.journal().is_some() {
            self.visit(indices, false, |element| {
                former.push(element.into());
                true
            });
        }
        former
    }
}

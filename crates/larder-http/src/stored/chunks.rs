//! A complete body: its chunks, and a reader for a part of it. Most bodies have one chunk.

use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;
use twox_hash::XxHash3_128;

/// A body in one or several chunks. Clones share them.
#[derive(Clone, Debug)]
pub(crate) struct Chunks {
    chunks: ChunkList,
    len: usize,
}

#[derive(Clone, Debug)]
enum ChunkList {
    One(Bytes),
    Many(Arc<[Bytes]>),
}

impl Chunks {
    pub(crate) fn new(mut chunks: Vec<Bytes>) -> Chunks {
        let len = chunks.iter().map(Bytes::len).sum();
        let chunks = match chunks.len() {
            0 => ChunkList::One(Bytes::new()),
            1 => ChunkList::One(chunks.swap_remove(0)),
            _ => ChunkList::Many(chunks.into()),
        };
        Chunks { chunks, len }
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Bytes beside those of the body.
    pub(crate) fn overhead(&self) -> usize {
        match &self.chunks {
            ChunkList::One(_) => 0,
            ChunkList::Many(chunks) => size_of_val(&**chunks),
        }
    }

    /// The whole body, if it is in one piece.
    pub(crate) fn as_one(&self) -> Option<&Bytes> {
        match &self.chunks {
            ChunkList::One(bytes) => Some(bytes),
            ChunkList::Many(_) => None,
        }
    }

    /// Reads the part of the body in `range`, which must lie in the body.
    pub(crate) fn reader(&self, range: Range<usize>) -> ChunkReader {
        let mut reader =
            ChunkReader { chunks: self.chunks.clone(), next: 0, skip: range.start, remaining: range.len() };
        while reader.skip > 0 && reader.chunk().is_some_and(|chunk| chunk.len() <= reader.skip) {
            reader.skip -= reader.chunk().map_or(0, Bytes::len);
            reader.next += 1;
        }
        reader
    }

    /// A hash of the bytes, however they are divided into chunks.
    pub(crate) fn hash(&self) -> u128 {
        match &self.chunks {
            ChunkList::One(bytes) => XxHash3_128::oneshot(bytes),
            ChunkList::Many(chunks) => {
                let mut hash = XxHash3_128::new();
                chunks.iter().for_each(|chunk| hash.write(chunk));
                hash.finish_128()
            }
        }
    }
}

/// Reads a part of a body, without copying.
#[derive(Debug)]
pub(crate) struct ChunkReader {
    chunks: ChunkList,
    next: usize,
    /// Bytes to skip in the next chunk.
    skip: usize,
    remaining: usize,
}

impl ChunkReader {
    pub(crate) fn remaining(&self) -> usize {
        self.remaining
    }

    fn chunk(&self) -> Option<&Bytes> {
        match &self.chunks {
            ChunkList::One(bytes) => (self.next == 0).then_some(bytes),
            ChunkList::Many(chunks) => chunks.get(self.next),
        }
    }
}

impl Iterator for ChunkReader {
    type Item = Bytes;

    fn next(&mut self) -> Option<Bytes> {
        if self.remaining == 0 {
            return None;
        }
        let chunk = self.chunk()?;
        let start = self.skip;
        let len = self.remaining.min(chunk.len() - start);
        let part = chunk.slice(start..start + len);
        self.skip = 0;
        self.next += 1;
        self.remaining -= len;
        Some(part)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reader_returns_exactly_its_range() {
        let text = "abcdefghij";
        for lengths in [&[10][..], &[3, 4, 3], &[1; 10]] {
            let mut rest = text;
            let split = lengths.iter().map(|len| {
                let (chunk, later) = rest.split_at(*len);
                rest = later;
                Bytes::from(chunk)
            });
            let body = Chunks::new(split.collect());
            assert_eq!((body.len(), body.hash()), (10, Chunks::new(vec![Bytes::from(text)]).hash()));
            for start in 0..=10 {
                for end in start..=10 {
                    let reader = body.reader(start..end);
                    assert_eq!(reader.remaining(), end - start);
                    let read: Vec<_> = reader.collect();
                    assert_eq!(read.concat(), &text.as_bytes()[start..end], "{start}..{end} of {lengths:?}");
                    assert!(read.iter().all(|chunk| !chunk.is_empty()));
                }
            }
        }
    }
}

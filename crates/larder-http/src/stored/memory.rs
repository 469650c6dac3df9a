//! The memory of response bodies: which allocations are kept, and how much all of them may take.
//!
//! A chunk that a handler sends may be a small part of a large read buffer, which it would keep alive. So a chunk is
//! kept as it is only if it owns its allocation and fills most of it; otherwise it is copied. Every kept chunk is
//! charged until its last reader has dropped it, also after its entry was evicted: readers that stall cannot hold more
//! than the budget together.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;

/// A chunk from this length on shrinks its allocation instead of being copied, if it fills half of it.
const MIN_SHRUNK_BYTES: usize = 128 << 10;
/// The longest piece in which a chunk is copied, and the longest body that is joined into one piece.
pub(crate) const MAX_PIECE_BYTES: usize = 1 << 20;
/// A longer body whose chunks are shorter on average is divided anew.
const MIN_CHUNK_BYTES: usize = 4096;
/// Charged for each chunk beside its bytes: its handle, its owner and its allocation.
const CHUNK_OVERHEAD: u64 = 128;

/// The bytes of all body chunks of one cache, in the store, in running fills and in replies that are being sent.
#[derive(Debug)]
pub(crate) struct BodyMemory {
    charged: AtomicU64,
    limit: u64,
}

impl BodyMemory {
    pub(crate) fn new(limit: u64) -> Arc<BodyMemory> {
        Arc::new(BodyMemory { charged: AtomicU64::new(0), limit })
    }

    pub(crate) fn charged(&self) -> u64 {
        self.charged.load(Ordering::Relaxed)
    }

    /// Appends `data` to `chunks`, in pieces that own their allocations. Returns `data` if there is no room for it.
    pub(crate) fn keep(self: &Arc<BodyMemory>, data: Bytes, chunks: &mut Vec<Bytes>) -> Result<(), Bytes> {
        if data.is_empty() {
            return Ok(());
        }
        let pieces = data.len().div_ceil(MAX_PIECE_BYTES) as u64;
        let Some(mut charge) = self.reserve(data.len() as u64 + pieces * CHUNK_OVERHEAD) else {
            return Err(data);
        };
        match into_tight_vec(data) {
            Ok(owned) => chunks.push(charge.attach(owned)),
            Err(data) => {
                for piece in data.chunks(MAX_PIECE_BYTES) {
                    let len = piece.len() as u64 + CHUNK_OVERHEAD;
                    chunks.push(charge.split(len).attach(piece.to_vec()));
                }
            }
        }
        Ok(())
    }

    /// Joins small chunks into pieces of at most 1 MiB, so that a hit sends few of them. Larger chunks stay as they are,
    /// because their readers would hold them beside the copy, and so do all if there is no room for the copy.
    pub(crate) fn join(self: &Arc<BodyMemory>, chunks: Vec<Bytes>) -> Vec<Bytes> {
        let len: usize = chunks.iter().map(Bytes::len).sum();
        if chunks.len() <= 1 || len > MAX_PIECE_BYTES && len / chunks.len() >= MIN_CHUNK_BYTES {
            return chunks;
        }
        let mut joined = Vec::with_capacity(len.div_ceil(MAX_PIECE_BYTES));
        let mut rest = len;
        let mut unread = chunks.iter().flat_map(|chunk| chunk.chunks(4096));
        let mut part: &[u8] = &[];
        while rest > 0 {
            let piece_len = rest.min(MAX_PIECE_BYTES);
            let Some(charge) = self.reserve(piece_len as u64 + CHUNK_OVERHEAD) else { return chunks };
            let mut piece = Vec::with_capacity(piece_len);
            while piece.len() < piece_len {
                if part.is_empty() {
                    part = unread.next().expect("the chunks have the bytes that were counted");
                }
                let (now, later) = part.split_at(part.len().min(piece_len - piece.len()));
                piece.extend_from_slice(now);
                part = later;
            }
            joined.push(charge.attach(piece));
            rest -= piece_len;
        }
        joined
    }

    /// A chunk of `len` bytes that `read` appends to an empty buffer. `None` if there is no room for it: then nothing is read.
    ///
    /// # Errors
    /// Those of `read`.
    #[cfg(feature = "disk")]
    pub(crate) fn read(
        self: &Arc<BodyMemory>,
        len: usize,
        read: impl FnOnce(&mut Vec<u8>) -> std::io::Result<usize>,
    ) -> Option<std::io::Result<Bytes>> {
        let charge = self.reserve(len as u64 + CHUNK_OVERHEAD)?;
        let mut data = Vec::with_capacity(len);
        Some(read(&mut data).map(|_| charge.attach(data)))
    }

    fn reserve(self: &Arc<BodyMemory>, bytes: u64) -> Option<Charge> {
        let fits = |charged: u64| charged.checked_add(bytes).filter(|sum| *sum <= self.limit);
        self.charged.fetch_update(Ordering::Relaxed, Ordering::Relaxed, fits).ok()?;
        Some(Charge { memory: self.clone(), bytes })
    }
}

/// The data in an allocation that is at most a quarter larger; or `data` again, if it is shared, static, or a short part of
/// a larger allocation. A long one that fills half of its allocation shrinks it instead of being copied: most allocators cut off
/// the rest where it stands.
fn into_tight_vec(data: Bytes) -> Result<Vec<u8>, Bytes> {
    if !data.is_unique() {
        return Err(data);
    }
    // Without other owners this takes over the allocation, whose size a `Bytes` does not tell.
    let mut owned = Vec::from(data);
    if owned.capacity() <= owned.len() + owned.len() / 4 {
        return Ok(owned);
    }
    if owned.len() < MIN_SHRUNK_BYTES || owned.capacity() > 2 * owned.len() {
        return Err(Bytes::from(owned));
    }
    owned.shrink_to_fit();
    Ok(owned)
}

/// Bytes that are charged until it is dropped.
struct Charge {
    memory: Arc<BodyMemory>,
    bytes: u64,
}

impl Charge {
    fn split(&mut self, bytes: u64) -> Charge {
        self.bytes -= bytes;
        Charge { memory: self.memory.clone(), bytes }
    }

    /// A chunk that is charged until its last reader has dropped it.
    fn attach(self, data: Vec<u8>) -> Bytes {
        Bytes::from_owner(ChargedChunk { data, _charge: self })
    }
}

impl Drop for Charge {
    fn drop(&mut self) {
        self.memory.charged.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

struct ChargedChunk {
    data: Vec<u8>,
    _charge: Charge,
}

impl AsRef<[u8]> for ChargedChunk {
    fn as_ref(&self) -> &[u8] {
        &self.data
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytes::BytesMut;

    fn memory() -> Arc<BodyMemory> {
        BodyMemory::new(64 << 20)
    }

    fn keep(memory: &Arc<BodyMemory>, data: Bytes) -> Vec<Bytes> {
        let mut chunks = Vec::new();
        memory.keep(data, &mut chunks).unwrap();
        chunks
    }

    #[test]
    fn chunk_that_fills_its_allocation_is_not_copied() {
        let mut data = Vec::with_capacity(1250);
        data.extend_from_slice(&[7; 1000]);
        let pointer = data.as_ptr();
        let chunks = keep(&memory(), Bytes::from(data));
        assert_eq!((chunks.len(), chunks[0].len(), chunks[0].as_ptr()), (1, 1000, pointer));
    }

    #[test]
    fn part_of_a_larger_allocation_is_copied() {
        let memory = memory();
        let mut with_spare = Vec::with_capacity(1251);
        with_spare.extend_from_slice(&[7; 1000]);
        let mut read_buffer = BytesMut::zeroed(64 << 10);
        let front = read_buffer.split_to(1000).freeze();
        let shared = Bytes::from(vec![7; 1000]);
        let _other = shared.clone();
        let mut tail = BytesMut::zeroed(64 << 10).freeze();
        bytes::Buf::advance(&mut tail, (64 << 10) - 1000);
        for data in [Bytes::from(with_spare), front, shared, tail, Bytes::from_static(&[7; 1000])] {
            let pointer = data.as_ptr();
            let chunks = keep(&memory, data);
            assert_eq!((chunks.len(), chunks[0].len()), (1, 1000));
            assert_ne!(chunks[0].as_ptr(), pointer);
        }
        assert_eq!(memory.charged(), 0, "every chunk was dropped");
    }

    #[test]
    fn long_copy_has_pieces_of_at_most_1_mib() {
        let memory = memory();
        let long = Bytes::from(vec![7; 2 * MAX_PIECE_BYTES + 1]);
        let _other = long.clone();
        let chunks = keep(&memory, long);
        let lengths: Vec<_> = chunks.iter().map(Bytes::len).collect();
        assert_eq!(lengths, [MAX_PIECE_BYTES, MAX_PIECE_BYTES, 1]);
        assert_eq!(memory.charged(), 2 * MAX_PIECE_BYTES as u64 + 1 + 3 * CHUNK_OVERHEAD);
        drop(chunks);
        assert_eq!(memory.charged(), 0);
    }

    #[test]
    fn long_chunk_that_fills_half_of_its_allocation_shrinks_it() {
        const LONG: usize = MIN_SHRUNK_BYTES;
        for (len, capacity, is_copied) in
            [(LONG, 2 * LONG, false), (LONG, 2 * LONG + 1, true), (LONG - 1, 2 * LONG - 2, true)]
        {
            let mut data = Vec::with_capacity(capacity);
            data.resize(len, 7);
            match into_tight_vec(Bytes::from(data)) {
                Ok(owned) => assert!(!is_copied && owned.len() == len && owned.capacity() <= len + len / 4),
                Err(data) => assert!(is_copied && data.len() == len),
            }
        }
    }

    #[test]
    fn charge_ends_with_the_last_reader() {
        let memory = memory();
        let chunks = keep(&memory, Bytes::from(vec![7; 1000]));
        let read = chunks[0].slice(10..20);
        drop(chunks);
        assert_eq!(memory.charged(), 1000 + CHUNK_OVERHEAD);
        drop(read);
        assert_eq!(memory.charged(), 0);
    }

    #[test]
    fn chunk_without_room_is_returned() {
        let memory = BodyMemory::new(1000 + CHUNK_OVERHEAD);
        let data = Bytes::from(vec![7; 1001]);
        assert_eq!(memory.keep(data.clone(), &mut Vec::new()), Err(data));
        let kept = keep(&memory, Bytes::from(vec![7; 1000]));
        assert!(memory.keep(Bytes::from_static(b"x"), &mut Vec::new()).is_err());
        drop(kept);
        assert_eq!(memory.charged(), 0);
    }

    #[test]
    fn small_chunks_are_joined() {
        let memory = memory();
        for (count, len, joined_count) in [(1, 10, 1), (2, 10, 1), (5000, 1000, 5), (400, 4096, 400)] {
            let chunks: Vec<_> =
                (0..count).flat_map(|n| keep(&memory, Bytes::from(vec![n as u8; len]))).collect();
            let joined = memory.join(chunks.clone());
            assert_eq!(joined.len(), joined_count, "{count} chunks of {len} bytes");
            assert_eq!(joined.concat(), chunks.concat());
        }
        assert_eq!(memory.charged(), 0);
    }
}

//! The members of a large sorted set with their scores, in slots.
//!
//! ```text
//! length of the name, 1 to 5 bytes │ score, 8 bytes │ name
//! ```

use super::bounds::Member;
use crate::values::table::{Content, Handle, Slots, length_bytes, read_length, write_length};

const SCORE_BYTES: usize = 8;

#[derive(Clone, Debug)]
pub(super) struct Members {
    slots: Slots<StoredMember>,
}

/// A member in its slot.
#[derive(Debug)]
struct StoredMember;

impl Content for StoredMember {
    fn bytes(slot: &[u8]) -> usize {
        let (length, score_at) = read_length(slot);
        score_at + SCORE_BYTES + length
    }
}

impl Members {
    pub(super) fn new() -> Self {
        Members { slots: Slots::new() }
    }

    /// Stores a member.
    ///
    /// # Panics
    /// If all members together need more than 16 GiB.
    pub(super) fn insert(&mut self, score: f64, name: &[u8]) -> Handle {
        let bytes = length_bytes(name.len()) + SCORE_BYTES + name.len();
        self.slots.insert(bytes, |slot| {
            let score_at = write_length(slot, name.len());
            let (score_place, name_place) = slot[score_at..].split_at_mut(SCORE_BYTES);
            score_place.copy_from_slice(&score.to_le_bytes());
            name_place.copy_from_slice(name);
        })
    }

    pub(super) fn remove(&mut self, handle: Handle) {
        self.slots.remove(handle);
    }

    #[inline]
    pub(super) fn score(&self, handle: Handle) -> f64 {
        self.get(handle).1
    }

    pub(super) fn set_score(&mut self, handle: Handle, score: f64) {
        let slot = self.slots.get_mut(handle);
        let (_, score_at) = read_length(slot);
        slot[score_at..score_at + SCORE_BYTES].copy_from_slice(&score.to_le_bytes());
    }

    #[inline]
    pub(super) fn name(&self, handle: Handle) -> &[u8] {
        self.get(handle).0
    }

    #[inline]
    pub(super) fn get(&self, handle: Handle) -> Member<'_> {
        let slot = self.slots.get(handle);
        let (length, score_at) = read_length(slot);
        let score = slot[score_at..].first_chunk().expect("a member has a score");
        let name_at = score_at + SCORE_BYTES;
        (&slot[name_at..name_at + length], f64::from_le_bytes(*score))
    }

    /// The memory that was allocated.
    pub(super) fn bytes_allocated(&self) -> usize {
        self.slots.bytes_allocated()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_keep_their_names_and_scores() {
        let mut members = Members::new();
        let handles: Vec<Handle> =
            [0, 7, 16, 124, 125, 70_000].map(|bytes| members.insert(bytes as f64, &vec![b'x'; bytes])).into();
        for (handle, bytes) in handles.into_iter().zip([0, 7, 16, 124, 125, 70_000]) {
            assert_eq!(members.get(handle), (&vec![b'x'; bytes][..], bytes as f64));
            members.set_score(handle, f64::NEG_INFINITY);
            assert_eq!((members.name(handle).len(), members.score(handle)), (bytes, f64::NEG_INFINITY));
            members.remove(handle);
        }
    }
}

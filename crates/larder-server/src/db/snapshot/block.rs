//! A block that is being filled.

use super::layout::checksum;
use super::record::StoredEntry;

/// The bytes of a block. A command may have to wait until one is loaded, which takes less than 100 µs at this length.
pub(crate) const BLOCK_BYTES: usize = 16 << 10;

/// Records until they are a block.
#[derive(Debug, Default)]
pub(super) struct Block {
    bytes: Vec<u8>,
    records: u32,
    /// Its number in the order of writing.
    pub(super) number: u32,
}

impl Block {
    pub(super) fn push(&mut self, entry: &StoredEntry<'_>) {
        entry.write_head(&mut self.bytes);
        self.bytes.extend_from_slice(entry.value);
        self.records += 1;
    }

    pub(super) fn is_empty(&self) -> bool {
        self.records == 0
    }

    pub(super) fn is_full(&self) -> bool {
        self.bytes.len() >= BLOCK_BYTES
    }

    pub(super) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    pub(super) fn records(&self) -> u32 {
        self.records
    }

    pub(super) fn checksum(&self) -> u64 {
        checksum(&self.bytes)
    }

    pub(super) fn clear(&mut self) {
        self.bytes.clear();
        self.bytes.shrink_to(4 * BLOCK_BYTES);
        self.records = 0;
    }
}

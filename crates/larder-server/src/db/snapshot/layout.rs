//! The parts of a snapshot that say where everything is: directory, index and footer.

use larder_engine::raw::Key;
use rapidhash::v3::{RapidSecrets, rapidhash_v3_seeded};

use crate::db::record::DATABASE_COUNT;
use crate::error::SnapshotError;

const MAGIC: [u8; 8] = *b"LARDSNAP";
/// The version that is written and read.
const VERSION: u32 = 1;
pub(super) const FOOTER_BYTES: usize = 64;
pub(super) const PLACE_BYTES: usize = 28;
pub(super) const INDEXED_BYTES: usize = 8;

/// Bits of a number of a block in the index.
const BLOCK_BITS: u32 = 24;
/// The most blocks: with the shortest ones 256 GiB.
pub(super) const MAX_BLOCKS: u32 = 1 << BLOCK_BITS;

/// Where a block is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) offset: u64,
    pub(super) length: u64,
    pub(super) records: u32,
    pub(super) checksum: u64,
}

impl Place {
    pub(super) fn write(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.offset.to_le_bytes());
        out.extend_from_slice(&self.length.to_le_bytes());
        out.extend_from_slice(&self.records.to_le_bytes());
        out.extend_from_slice(&self.checksum.to_le_bytes());
    }

    /// From its [`PLACE_BYTES`].
    pub(super) fn read(bytes: &[u8]) -> Place {
        let (offset, rest) = take_u64(bytes);
        let (length, rest) = take_u64(rest);
        let (records, rest) = take_u32(rest);
        let (checksum, _) = take_u64(rest);
        Place { offset, length, records, checksum }
    }
}

/// The end of the file, which says what is before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Footer {
    pub(super) blocks: u32,
    /// When it was written, in milliseconds of Unix time.
    pub(super) written_ms: i64,
    pub(super) seed: u64,
    pub(super) records: u64,
    /// Where the directory begins.
    pub(super) directory: u64,
    /// Of directory and index.
    pub(super) checksum: u64,
}

impl Footer {
    pub(super) fn to_bytes(self) -> Vec<u8> {
        let mut out = MAGIC.to_vec();
        out.extend_from_slice(&VERSION.to_le_bytes());
        out.extend_from_slice(&self.blocks.to_le_bytes());
        out.extend_from_slice(&self.written_ms.to_le_bytes());
        for number in [self.seed, self.records, self.directory, self.checksum] {
            out.extend_from_slice(&number.to_le_bytes());
        }
        out.extend_from_slice(&checksum(&out).to_le_bytes());
        out
    }

    /// The footer of a file of this length, from its last [`FOOTER_BYTES`].
    pub(super) fn read(bytes: &[u8; FOOTER_BYTES], file_bytes: u64) -> Result<Footer, SnapshotError> {
        let (magic, rest) = bytes.split_at(MAGIC.len());
        if magic != MAGIC {
            return Err(SnapshotError::Damaged("its end has no mark"));
        }
        let (version, rest) = take_u32(rest);
        if version != VERSION {
            return Err(SnapshotError::Version { found: version, known: VERSION });
        }
        let (blocks, rest) = take_u32(rest);
        let (written_ms, rest) = take_u64(rest);
        let (seed, rest) = take_u64(rest);
        let (records, rest) = take_u64(rest);
        let (directory, rest) = take_u64(rest);
        let (own_checksum, rest) = take_u64(rest);
        if take_u64(rest).0 != checksum(&bytes[..FOOTER_BYTES - 8]) {
            return Err(SnapshotError::Damaged("its footer has a wrong checksum"));
        }
        let footer = Footer {
            blocks,
            written_ms: written_ms as i64,
            seed,
            records,
            directory,
            checksum: own_checksum,
        };
        let expected = footer.tables_bytes().and_then(|bytes| bytes.checked_add(directory));
        match expected.and_then(|bytes| bytes.checked_add(FOOTER_BYTES as u64)) {
            Some(expected) if expected == file_bytes => Ok(footer),
            _ => Err(SnapshotError::Damaged("it has another length than its footer says")),
        }
    }

    /// The length of directory and index.
    pub(super) fn tables_bytes(&self) -> Option<u64> {
        let index = self.records.checked_mul(INDEXED_BYTES as u64)?;
        (u64::from(self.blocks) * PLACE_BYTES as u64).checked_add(index)
    }
}

/// Hashes keys for the index.
#[derive(Debug)]
pub(super) struct KeyHasher([RapidSecrets; DATABASE_COUNT]);

impl KeyHasher {
    pub(super) fn new(seed: u64) -> Self {
        KeyHasher(std::array::from_fn(|space| RapidSecrets::seed(seed ^ space as u64)))
    }

    /// What a key has in the index, without the number of its block.
    pub(super) fn hash(&self, key: Key<'_>) -> IndexedHash {
        let hash = rapidhash_v3_seeded(key.name, &self.0[usize::from(key.space) % DATABASE_COUNT]);
        IndexedHash(hash >> BLOCK_BITS << BLOCK_BITS)
    }
}

/// The part of a hash that is in the index, in its place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct IndexedHash(u64);

impl IndexedHash {
    /// The record of the index for a key that is in this block.
    pub(super) fn in_block(self, block: u32) -> u64 {
        self.0 | u64::from(block)
    }

    /// The blocks that may have the key: usually one or none.
    pub(super) fn blocks(self, index: &[u64]) -> impl Iterator<Item = u32> + '_ {
        let first = index.partition_point(|&indexed| indexed < self.0);
        index[first..].iter().take_while(move |&&indexed| hash_of(indexed) == self.0).map(|&it| block_of(it))
    }
}

fn hash_of(indexed: u64) -> u64 {
    indexed >> BLOCK_BITS << BLOCK_BITS
}

/// The block in a record of the index.
pub(super) fn block_of(indexed: u64) -> u32 {
    indexed as u32 & (MAX_BLOCKS - 1)
}

/// The record of the index with the same key in another block.
pub(super) fn moved_to(indexed: u64, block: u32) -> u64 {
    hash_of(indexed) | u64::from(block)
}

/// A checksum against damage, not against intent.
pub(super) fn checksum(bytes: &[u8]) -> u64 {
    const SECRETS: RapidSecrets = RapidSecrets::seed(0);
    rapidhash_v3_seeded(bytes, &SECRETS)
}

pub(super) fn take_u64(bytes: &[u8]) -> (u64, &[u8]) {
    let (number, rest) = bytes.split_first_chunk().expect("the length was checked");
    (u64::from_le_bytes(*number), rest)
}

fn take_u32(bytes: &[u8]) -> (u32, &[u8]) {
    let (number, rest) = bytes.split_first_chunk().expect("the length was checked");
    (u32::from_le_bytes(*number), rest)
}

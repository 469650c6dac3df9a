//! The bytes under a Redis key: a head that says how to read the rest, and the encoded value.
//!
//! ```text
//! offset  bytes
//!      0      2  magic, "Lr"
//!      2      1  version, 1
//!      3      1  kind, 1 = value
//!      4     16  id, random, new for each value stored
//!     20      8  schema of the value type, little-endian
//!     28      8  xxh3 of the payload, little-endian
//!     36      …  payload
//! ```
//!
//! A field may only be added with a new version, and a reader keeps reading the version before its own. Whatever a
//! reader does not know, or finds damaged, is a miss and never an error: [`Unreadable`] says what it was.

use serde::Serialize;
use serde::de::DeserializeOwned;
use xxhash_rust::xxh3::xxh3_64;

const MAGIC: &[u8; 2] = b"Lr";
const VERSION: u8 = 1;
const KIND_VALUE: u8 = 1;
const HEAD_BYTES: usize = 36;

/// Why stored bytes are not a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Unreadable {
    #[error("not written by larder")]
    Foreign,
    #[error("envelope version {0} is not known")]
    Version(u8),
    #[error("kind {0} is not known")]
    Kind(u8),
    #[error("the value type has another schema")]
    Schema,
    #[error("the bytes are damaged")]
    Damaged,
}

/// Encodes a value into a new envelope with a new id.
pub(crate) fn seal<V: Serialize>(value: &V, schema: u64) -> Result<Vec<u8>, postcard::Error> {
    let mut bytes = Vec::with_capacity(HEAD_BYTES + 64);
    bytes.extend_from_slice(MAGIC);
    bytes.extend_from_slice(&[VERSION, KIND_VALUE]);
    bytes.extend_from_slice(&rand::random::<[u8; 16]>());
    bytes.extend_from_slice(&schema.to_le_bytes());
    bytes.extend_from_slice(&[0; 8]);
    let mut bytes = postcard::to_extend(value, bytes)?;
    let checksum = xxh3_64(&bytes[HEAD_BYTES..]);
    bytes[28..36].copy_from_slice(&checksum.to_le_bytes());
    Ok(bytes)
}

/// Reads an envelope.
pub(crate) fn open<V: DeserializeOwned>(bytes: &[u8], schema: u64) -> Result<V, Unreadable> {
    let Some((head, payload)) = bytes.split_at_checked(HEAD_BYTES) else { return Err(Unreadable::Foreign) };
    if &head[..2] != MAGIC {
        return Err(Unreadable::Foreign);
    }
    if head[2] != VERSION {
        return Err(Unreadable::Version(head[2]));
    }
    if head[3] != KIND_VALUE {
        return Err(Unreadable::Kind(head[3]));
    }
    if head[20..28] != schema.to_le_bytes() {
        return Err(Unreadable::Schema);
    }
    if head[28..36] != xxh3_64(payload).to_le_bytes() {
        return Err(Unreadable::Damaged);
    }
    postcard::from_bytes(payload).map_err(|_| Unreadable::Damaged)
}

/// The schema of a value type in a view: its name and the number that its owner gave it.
pub(crate) fn schema_of<V>(number: u32) -> u64 {
    xxh3_64(std::any::type_name::<V>().as_bytes()) ^ u64::from(number).rotate_left(32)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A value as version 1 wrote it: `(7u32, "seven")`, schema 5.
    const GOLDEN_V1: &[u8] = &[
        0x4c, 0x72, 0x01, 0x01, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 5, 0, 0, 0, 0, 0, 0, 0,
        0, 0, 0, 0, 0, 0, 0, 0, 7, 5, b's', b'e', b'v', b'e', b'n',
    ];

    fn golden() -> Vec<u8> {
        let mut bytes = GOLDEN_V1.to_vec();
        bytes[28..36].copy_from_slice(&xxh3_64(&GOLDEN_V1[36..]).to_le_bytes());
        bytes
    }

    #[test]
    fn version_1_stays_readable() {
        assert_eq!(open(&golden(), 5), Ok((7u32, "seven".to_owned())));
    }

    #[test]
    fn what_is_sealed_can_be_opened_and_ids_differ() {
        let (one, other) = (seal(&Some(1u8), 9).expect("encodes"), seal(&Some(1u8), 9).expect("encodes"));
        assert_eq!(open(&one, 9), Ok(Some(1u8)));
        assert_ne!(one[4..20], other[4..20]);
    }

    #[test]
    fn anything_else_is_a_named_miss() {
        type Value = (u32, String);
        let changed = |at: usize, byte: u8| {
            let mut bytes = golden();
            bytes[at] = byte;
            open::<Value>(&bytes, 5)
        };
        assert_eq!(open::<Value>(b"plain text of another program, long enough", 5), Err(Unreadable::Foreign));
        assert_eq!(open::<Value>(b"", 5), Err(Unreadable::Foreign));
        assert_eq!(changed(2, 9), Err(Unreadable::Version(9)));
        assert_eq!(changed(3, 9), Err(Unreadable::Kind(9)));
        assert_eq!(open::<Value>(&golden(), 6), Err(Unreadable::Schema));
        for at in 28..golden().len() {
            assert_eq!(changed(at, golden()[at] ^ 0x10), Err(Unreadable::Damaged), "byte {at}");
        }
        for len in 0..golden().len() {
            assert!(open::<Value>(&golden()[..len], 5).is_err(), "cut to {len} bytes");
        }
    }
}

//! The bytes under a Redis key: a head, metadata, and the encoded value.
//!
//! ```text
//! offset  bytes
//!      0      2  magic, "Lr"
//!      2      1  version, 2
//!      3      1  kind: 1 a value, 2 a lease
//!      4     16  id, random, new for each lease; a value that was stored under a lease has the lease's id
//!   ── the head ends here: a compare-and-set compares it, and a lease has nothing else ──
//!     20      8  deadline: when the key leaves Redis, in milliseconds since 1970 by the server's clock
//!     28      8  xxh3 of everything that follows
//!     36      1  codec: 1 postcard, 2 JSON, 3 MessagePack, 4 raw bytes, from 128 codecs of the user
//!     37      1  flags: bits 0 and 1 compression (0 none, 1 LZ4, 2 zstd), bit 2 the value is an absence, others 0
//!     38      8  schema of the value type
//!     46      8  clock of the ledger when the load started; 0 without a ledger
//!     54      8  TTL in milliseconds: fresh for so long after it was stored
//!     62      8  grace period in milliseconds: kept for so long after that
//!     70      4  duration of the load in milliseconds
//!     74      4  length of the payload before compression
//!     78      4  length of the payload
//!     82      1  number of tags, at most 64; then for each its length in one byte, and its UTF-8
//!      …      …  payload, to the end
//! ```
//!
//! Integers are little-endian. The envelope contains no time of a node. The time to the deadline without the grace period
//! is how long the value is fresh. A read that renews a value overwrites the deadline in place, so it is not part of the
//! checksum. A value that is expired gets an earlier deadline and as much less of a TTL: the deadline without both times is when it was stored.
//!
//! A new field needs a new version, and a version reads no other: version 1 had no deadline. Unknown or damaged bytes are
//! a miss and never an error; [`Unreadable`] is the reason. Lengths are checked before memory is allocated for them.

use crate::value::compression::{Packed, Packing};
use crate::value::format::{CodecError, EncodeError, Id, Unreadable};
use std::ops::Range;
use std::time::Duration;
use twox_hash::XxHash3_64;

const MAGIC: &[u8; 2] = b"Lr";
const VERSION: u8 = 2;
const KIND_VALUE: u8 = 1;
const KIND_LEASE: u8 = 2;

/// The bytes that a compare-and-set compares.
pub(crate) const HEAD_BYTES: usize = 20;
const DEADLINE: Range<usize> = HEAD_BYTES..HEAD_BYTES + 8;
const CHECKSUM: Range<usize> = 28..36;
const FLAGS_AT: usize = 37;
const TTL: Range<usize> = 54..62;
const GRACE: Range<usize> = 62..70;
const RAW_LENGTH: Range<usize> = 74..78;
const PAYLOAD_LENGTH: Range<usize> = 78..82;

const COMPRESSION_BITS: u8 = 0b011;
const NEGATIVE_BIT: u8 = 0b100;

/// The most tags of an entry.
pub(crate) const MAX_TAGS: usize = 64;
/// The most bytes of a tag.
pub(crate) const MAX_TAG_BYTES: usize = 255;

/// The parsed head.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Head {
    Lease(Id),
    Value(Id),
}

/// Whether this library wrote the bytes, in this version or in another one.
pub(crate) fn has_magic(bytes: &[u8]) -> bool {
    bytes.starts_with(MAGIC)
}

/// The id of the value under a key. `None` if there is none.
pub(crate) fn value_id(bytes: &[u8]) -> Option<Id> {
    match Head::parse(bytes) {
        Ok(Head::Value(id)) => Some(id),
        _ => None,
    }
}

impl Head {
    /// Parses the first bytes under a key.
    pub(crate) fn parse(bytes: &[u8]) -> Result<Self, Unreadable> {
        let head: &[u8; HEAD_BYTES] = bytes.first_chunk().ok_or(Unreadable::Foreign)?;
        if !has_magic(head) {
            return Err(Unreadable::Foreign);
        }
        if head[2] != VERSION {
            return Err(Unreadable::Version(head[2]));
        }
        let id = Id(*head.last_chunk().expect("the head ends with the id"));
        match head[3] {
            KIND_VALUE => Ok(Head::Value(id)),
            KIND_LEASE => Ok(Head::Lease(id)),
            kind => Err(Unreadable::Kind(kind)),
        }
    }

    /// The bytes of a head. A lease has no others, or the head of its successor.
    pub(crate) fn to_bytes(self) -> [u8; HEAD_BYTES] {
        let (kind, id) = match self {
            Head::Value(id) => (KIND_VALUE, id),
            Head::Lease(id) => (KIND_LEASE, id),
        };
        let mut head = [0; HEAD_BYTES];
        head[..2].copy_from_slice(MAGIC);
        head[2..4].copy_from_slice(&[VERSION, kind]);
        head[4..].copy_from_slice(&id.0);
        head
    }
}

/// Gives a value another id. The checksum does not cover the head.
pub(crate) fn set_id(bytes: &mut [u8], id: Id) {
    bytes[..HEAD_BYTES].copy_from_slice(&Head::Value(id).to_bytes());
}

/// Sets the deadline of a value. The checksum does not cover it.
pub(crate) fn set_deadline(bytes: &mut [u8], deadline_ms: u64) {
    bytes[DEADLINE].copy_from_slice(&deadline_ms.to_le_bytes());
}

/// Sets the TTL and the grace period of a value, and the checksum that covers them. Cost: a pass over the bytes.
pub(crate) fn set_lifetime(bytes: &mut [u8], ttl: Duration, grace: Duration) {
    bytes[TTL].copy_from_slice(&millis(ttl).to_le_bytes());
    bytes[GRACE].copy_from_slice(&millis(grace).to_le_bytes());
    set_checksum(bytes);
}

fn set_checksum(bytes: &mut [u8]) {
    let checksum = XxHash3_64::oneshot(&bytes[CHECKSUM.end..]);
    bytes[CHECKSUM].copy_from_slice(&checksum.to_le_bytes());
}

/// The metadata of a value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Meta {
    pub(crate) id: Id,
    /// When the value leaves Redis, in milliseconds of the server's clock; 0 before it is stored.
    pub(crate) deadline_ms: u64,
    pub(crate) codec: u8,
    /// The value is a remembered absence.
    pub(crate) negative: bool,
    pub(crate) schema: u64,
    /// The ledger's clock when the load started; 0 without a ledger.
    pub(crate) clock: u64,
    /// How long the value is fresh after it was stored.
    pub(crate) ttl: Duration,
    /// How long it is kept after that.
    pub(crate) grace: Duration,
    /// How long the load took.
    pub(crate) cost: Duration,
    /// At most [`MAX_TAGS`] of at most [`MAX_TAG_BYTES`].
    pub(crate) tags: Vec<Box<str>>,
}

/// Writes an envelope around the bytes that `encode` appends. Compresses them if that makes them smaller.
pub(crate) fn seal(
    meta: &Meta,
    packing: &Packing,
    encode: impl FnOnce(&mut Vec<u8>) -> Result<(), CodecError>,
) -> Result<Vec<u8>, EncodeError> {
    check_tags(&meta.tags)?;
    let mut bytes = Vec::with_capacity(128);
    bytes.extend_from_slice(&Head::Value(meta.id).to_bytes());
    bytes.extend_from_slice(&meta.deadline_ms.to_le_bytes());
    bytes.extend_from_slice(&[0; 8]);
    let flags = if meta.negative { NEGATIVE_BIT } else { 0 };
    bytes.extend_from_slice(&[meta.codec, flags]);
    bytes.extend_from_slice(&meta.schema.to_le_bytes());
    bytes.extend_from_slice(&meta.clock.to_le_bytes());
    bytes.extend_from_slice(&millis(meta.ttl).to_le_bytes());
    bytes.extend_from_slice(&millis(meta.grace).to_le_bytes());
    bytes.extend_from_slice(&u32::try_from(millis(meta.cost)).unwrap_or(u32::MAX).to_le_bytes());
    bytes.extend_from_slice(&[0; 8]);
    bytes.push(meta.tags.len() as u8);
    for tag in &meta.tags {
        bytes.push(tag.len() as u8);
        bytes.extend_from_slice(tag.as_bytes());
    }
    let payload_at = bytes.len();
    encode(&mut bytes).map_err(EncodeError::Codec)?;
    let raw_length = bytes.len() - payload_at;
    let limit = packing.max_bytes.min(u32::MAX as usize);
    if raw_length > limit {
        return Err(EncodeError::TooLarge { bytes: raw_length, limit });
    }
    bytes[FLAGS_AT] |= packing.pack(&mut bytes, payload_at);
    let payload_length = bytes.len() - payload_at;
    bytes[RAW_LENGTH].copy_from_slice(&(raw_length as u32).to_le_bytes());
    bytes[PAYLOAD_LENGTH].copy_from_slice(&(payload_length as u32).to_le_bytes());
    set_checksum(&mut bytes);
    Ok(bytes)
}

/// Whether tags can be written into an envelope.
pub(crate) fn check_tags(tags: &[Box<str>]) -> Result<(), EncodeError> {
    if tags.len() > MAX_TAGS {
        return Err(EncodeError::Tags(tags.len()));
    }
    match tags.iter().find(|tag| tag.len() > MAX_TAG_BYTES) {
        Some(tag) => Err(EncodeError::Tag(tag.clone())),
        None => Ok(()),
    }
}

/// Parses an envelope without decoding the payload. Cost: a pass over the bytes for the checksum, and an allocation for
/// each tag.
pub(crate) fn parse(bytes: &[u8]) -> Result<(Meta, Packed<'_>), Unreadable> {
    let Head::Value(id) = Head::parse(bytes)? else { return Err(Unreadable::Lease) };
    let mut fields = Fields(&bytes[HEAD_BYTES..]);
    let deadline_ms = u64::from_le_bytes(fields.take()?);
    let checksum = u64::from_le_bytes(fields.take()?);
    if checksum != XxHash3_64::oneshot(fields.0) {
        return Err(Unreadable::Damaged);
    }
    let [codec, flags] = fields.take()?;
    if flags & !(COMPRESSION_BITS | NEGATIVE_BIT) != 0 {
        return Err(Unreadable::Flags(flags));
    }
    let schema = u64::from_le_bytes(fields.take()?);
    let clock = u64::from_le_bytes(fields.take()?);
    let ttl = Duration::from_millis(u64::from_le_bytes(fields.take()?));
    let grace = Duration::from_millis(u64::from_le_bytes(fields.take()?));
    let cost = Duration::from_millis(u32::from_le_bytes(fields.take()?).into());
    let raw_length = u32::from_le_bytes(fields.take()?) as usize;
    let payload_length = u32::from_le_bytes(fields.take()?) as usize;
    let tags = fields.tags()?;
    let payload = fields.0;
    if payload.len() != payload_length {
        return Err(Unreadable::Length);
    }
    let negative = flags & NEGATIVE_BIT != 0;
    let packed = Packed { compression: flags & COMPRESSION_BITS, raw_length, payload };
    Ok((Meta { id, deadline_ms, codec, negative, schema, clock, ttl, grace, cost, tags }, packed))
}

/// The fields of an envelope that are not parsed yet.
struct Fields<'a>(&'a [u8]);

impl Fields<'_> {
    fn take<const N: usize>(&mut self) -> Result<[u8; N], Unreadable> {
        let (field, rest) = self.0.split_first_chunk().ok_or(Unreadable::Length)?;
        self.0 = rest;
        Ok(*field)
    }

    fn tags(&mut self) -> Result<Vec<Box<str>>, Unreadable> {
        let [count] = self.take()?;
        if usize::from(count) > MAX_TAGS {
            return Err(Unreadable::Length);
        }
        let mut tags = Vec::with_capacity(count.into());
        for _ in 0..count {
            let [length] = self.take()?;
            let (tag, rest) = self.0.split_at_checked(length.into()).ok_or(Unreadable::Length)?;
            self.0 = rest;
            tags.push(std::str::from_utf8(tag).map_err(|_| Unreadable::Damaged)?.into());
        }
        Ok(tags)
    }
}

/// A time in whole milliseconds, as envelopes have it.
pub(crate) fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests;

//! Compression of payloads. Decompression is bounded, because bytes from Redis may claim any length.

use crate::value::format::Unreadable;
use std::borrow::Cow;

#[cfg(feature = "lz4")]
const LZ4: u8 = 1;
#[cfg(feature = "zstd")]
const ZSTD: u8 = 2;

/// Below this many bytes compression costs more than it saves.
const DEFAULT_COMPRESS_FROM_BYTES: usize = 1 << 10;
const DEFAULT_MAX_BYTES: usize = 64 << 20;
/// The fastest regular level of zstd: a cache writes on every miss.
#[cfg(feature = "zstd")]
const ZSTD_LEVEL: i32 = 1;

/// The compression of values for Redis. A reader reads every compression that is built in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Compression {
    /// No compression.
    #[default]
    None,
    /// LZ4: the fastest. Feature `lz4`.
    #[cfg(feature = "lz4")]
    Lz4,
    /// zstd at level 1: smaller than LZ4 and several times slower. Feature `zstd`.
    #[cfg(feature = "zstd")]
    Zstd,
}

impl Compression {
    /// The number and the bytes of a compressed payload.
    #[cfg_attr(
        not(any(feature = "lz4", feature = "zstd")),
        allow(unused_variables, reason = "used by the compressors")
    )]
    fn of(self, payload: &[u8]) -> Option<(u8, Vec<u8>)> {
        match self {
            Compression::None => None,
            #[cfg(feature = "lz4")]
            Compression::Lz4 => Some((LZ4, lz4_flex::block::compress(payload))),
            #[cfg(feature = "zstd")]
            Compression::Zstd => Some((ZSTD, zstd::bulk::compress(payload, ZSTD_LEVEL).ok()?)),
        }
    }
}

/// How a cache compresses payloads, and the limit of their length.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Packing {
    pub(crate) compression: Compression,
    /// Shorter payloads are not compressed.
    pub(crate) compress_from_bytes: usize,
    /// The most bytes of a payload before compression, written or read.
    pub(crate) max_bytes: usize,
}

impl Default for Packing {
    fn default() -> Self {
        Packing {
            compression: Compression::default(),
            compress_from_bytes: DEFAULT_COMPRESS_FROM_BYTES,
            max_bytes: DEFAULT_MAX_BYTES,
        }
    }
}

impl Packing {
    /// Replaces `bytes[payload_at..]` by its compressed form if that is smaller. Returns the number of the compression.
    pub(crate) fn pack(&self, bytes: &mut Vec<u8>, payload_at: usize) -> u8 {
        let payload = &bytes[payload_at..];
        if payload.len() < self.compress_from_bytes {
            return 0;
        }
        let Some((number, packed)) = self.compression.of(payload) else { return 0 };
        if packed.len() >= payload.len() {
            return 0;
        }
        bytes.truncate(payload_at);
        bytes.extend_from_slice(&packed);
        number
    }
}

/// A payload as it is stored.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Packed<'a> {
    pub(crate) compression: u8,
    /// The length before compression, by the envelope.
    pub(crate) raw_length: usize,
    pub(crate) payload: &'a [u8],
}

impl<'a> Packed<'a> {
    /// The decompressed payload. Allocates the length in the envelope, and never more than `max_bytes`.
    pub(crate) fn unpack(self, max_bytes: usize) -> Result<Cow<'a, [u8]>, Unreadable> {
        if self.raw_length > max_bytes {
            return Err(Unreadable::TooLarge { bytes: self.raw_length, limit: max_bytes });
        }
        match self.compression {
            0 if self.payload.len() == self.raw_length => Ok(Cow::Borrowed(self.payload)),
            0 => Err(Unreadable::Length),
            #[cfg(feature = "lz4")]
            LZ4 => {
                let mut raw = vec![0; self.raw_length];
                let length = lz4_flex::block::decompress_into(self.payload, &mut raw);
                exactly(raw, length.ok())
            }
            #[cfg(feature = "zstd")]
            ZSTD => {
                let mut raw = vec![0; self.raw_length];
                let length = zstd::bulk::decompress_to_buffer(self.payload, raw.as_mut_slice());
                exactly(raw, length.ok())
            }
            other => Err(Unreadable::Compression(other)),
        }
    }
}

/// The decompressed payload, if it has the length in the envelope.
#[cfg(any(feature = "lz4", feature = "zstd"))]
fn exactly<'a>(raw: Vec<u8>, length: Option<usize>) -> Result<Cow<'a, [u8]>, Unreadable> {
    if length == Some(raw.len()) { Ok(Cow::Owned(raw)) } else { Err(Unreadable::Damaged) }
}

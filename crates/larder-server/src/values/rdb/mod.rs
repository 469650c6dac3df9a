//! The serialized form of values that `DUMP` and `RESTORE` exchange with Redis: its snapshot format.
//!
//! ```text
//! type, 1 byte │ value │ version, 2 bytes │ CRC-64 of all before, 8 bytes      little-endian
//! string: length or encoding, bytes
//! ```

mod hashes;
mod listpack;
mod lists;
mod packed;
mod sets;
mod sorted_sets;
mod streams;
mod ziplist;

use std::ops::Range;
use std::sync::Arc;

use larder_resp::parse_integer;

pub(crate) use hashes::dump_hash;
use hashes::{
    HASH, HASH_LISTPACK, HASH_LISTPACK_WITH_DEADLINES, HASH_WITH_DEADLINES, HASH_WITH_OFFSETS, HASH_ZIPLIST,
    read_hash,
};
pub(crate) use lists::dump_list;
use lists::{LIST, LIST_NODES, LIST_ZIPLISTS, read_list};
pub(crate) use sets::dump_set;
use sets::{SET, SET_INTEGERS, SET_LISTPACK, read_set};
pub(crate) use sorted_sets::dump_sorted_set;
use sorted_sets::{SORTED_SET, SORTED_SET_LISTPACK, SORTED_SET_ZIPLIST, read_sorted_set};
pub(crate) use streams::dump_stream;
use streams::{STREAM, STREAM_BEFORE_7, STREAM_SINCE_7_2, read_stream};

use super::hash::Hash;
use super::large::{PartialValue, release};
use super::list::List;
use super::set::Set;
use super::sorted_set::SortedSet;
use super::stream::Stream;

/// The version that is written: that of Redis 7.0, which all later ones read.
const WRITTEN_VERSION: u16 = 10;
/// The latest version of Redis that is read: that of 7.4 and 8.0. Strings have had the same form in all of them.
const MAX_VERSION: u16 = 12;
/// The version of Valkey 9, whose numbers are apart from those of Redis.
const VALKEY_VERSION: u16 = 80;
const STRING: u8 = 0;
const CHECKSUM_BYTES: usize = 8;
/// Version and checksum.
const FOOTER_BYTES: usize = 2 + CHECKSUM_BYTES;

/// The longest text that is written as an integer.
const MAX_INTEGER_BYTES: usize = 11;
const INT8: u8 = 0xc0;
const INT16: u8 = 0xc1;
const INT32: u8 = 0xc2;
const LZF: u8 = 0xc3;
const LENGTH32: u8 = 0x80;
const LENGTH64: u8 = 0x81;

/// Why a payload is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RdbError {
    /// It is too short, too new, or damaged.
    Checksum,
    /// It has another type, or is not valid.
    Format,
    /// The value is longer than the limit.
    TooLong,
    /// It is a stream with consumer groups.
    Groups,
}

/// A value from a payload.
#[derive(Debug)]
pub(crate) enum Restored {
    String(Vec<u8>),
    /// A long string.
    Shared(Arc<[u8]>),
    Hash(Hash),
    List(List),
    Set(Set),
    SortedSet(SortedSet),
    Stream(Stream),
}

impl Restored {
    /// Another owner of a long string.
    pub(crate) fn shared(&self) -> Option<Arc<[u8]>> {
        match self {
            Restored::Shared(value) => Some(Arc::clone(value)),
            _ => None,
        }
    }
}

/// Serializes a string.
pub(crate) fn dump(value: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(value.len() + 20);
    out.push(STRING);
    write_string(&mut out, value);
    sealed(out, WRITTEN_VERSION)
}

fn write_string(out: &mut Vec<u8>, value: &[u8]) {
    match short_integer(value) {
        Some(number) => write_integer(out, number),
        None => {
            write_length(out, value.len());
            out.extend_from_slice(value);
        }
    }
}

/// A body with its footer.
fn sealed(mut body: Vec<u8>, version: u16) -> Vec<u8> {
    let footer = footer(crc64(0, &body), version);
    body.extend_from_slice(&footer);
    body
}

/// Serializes a long string piece by piece.
#[derive(Debug)]
pub(crate) struct LongDump {
    payload: PartialValue,
    /// Of what has been written.
    checksum: u64,
}

impl LongDump {
    /// For a string of this length, which is no integer.
    pub(crate) fn new(length: usize) -> Self {
        let mut head = vec![STRING];
        write_length(&mut head, length);
        let mut dump =
            LongDump { payload: PartialValue::new(head.len() + length + FOOTER_BYTES), checksum: 0 };
        dump.push(&head);
        dump
    }

    pub(crate) fn push(&mut self, piece: &[u8]) {
        self.payload.get_mut().push(piece);
        self.checksum = crc64(self.checksum, piece);
    }

    /// Bytes that are written.
    pub(crate) fn len(&self) -> usize {
        self.payload.len()
    }

    /// The payload, after the last piece.
    pub(crate) fn finish(mut self) -> Arc<[u8]> {
        self.payload.get_mut().push(&footer(self.checksum, WRITTEN_VERSION));
        self.payload.finish()
    }
}

/// The version, and the checksum of what is before it and of itself.
fn footer(before: u64, version: u16) -> [u8; FOOTER_BYTES] {
    let mut footer = [0; FOOTER_BYTES];
    let (version_place, checksum) = footer.split_at_mut(2);
    version_place.copy_from_slice(&version.to_le_bytes());
    checksum.copy_from_slice(&crc64(before, version_place).to_le_bytes());
    footer
}

/// The value in a payload, of at most this many bytes.
pub(crate) fn restore(payload: &[u8], max_bytes: usize) -> Result<Restored, RdbError> {
    restore_verified(verified(payload).ok_or(RdbError::Checksum)?, max_bytes)
}

/// The value in a payload without version and checksum, which were right.
fn restore_verified(body: &[u8], max_bytes: usize) -> Result<Restored, RdbError> {
    let (&kind, rest) = body.split_first().ok_or(RdbError::Format)?;
    let mut input = Input(rest);
    let value = match kind {
        STRING => Restored::String(input.string(max_bytes)?),
        HASH
        | HASH_LISTPACK
        | HASH_ZIPLIST
        | HASH_WITH_DEADLINES
        | HASH_WITH_OFFSETS
        | HASH_LISTPACK_WITH_DEADLINES => Restored::Hash(read_hash(kind, &mut input, max_bytes)?),
        SET | SET_INTEGERS | SET_LISTPACK => Restored::Set(read_set(kind, &mut input, max_bytes)?),
        LIST | LIST_ZIPLISTS | LIST_NODES => Restored::List(read_list(kind, &mut input, max_bytes)?),
        SORTED_SET | SORTED_SET_LISTPACK | SORTED_SET_ZIPLIST => {
            Restored::SortedSet(read_sorted_set(kind, &mut input, max_bytes)?)
        }
        STREAM_BEFORE_7 | STREAM | STREAM_SINCE_7_2 => {
            Restored::Stream(read_stream(kind, &mut input, max_bytes)?)
        }
        _ => return Err(RdbError::Format),
    };
    if input.0.is_empty() { Ok(value) } else { Err(RdbError::Format) }
}

/// The payload without version and checksum, if both are right.
fn verified(payload: &[u8]) -> Option<&[u8]> {
    let (checked, checksum) = payload.split_last_chunk()?;
    verified_by(checked, crc64(0, checked), *checksum)
}

/// As [`verified`], of what is before the checksum, if `computed` is its checksum.
fn verified_by(checked: &[u8], computed: u64, checksum: [u8; CHECKSUM_BYTES]) -> Option<&[u8]> {
    let (body, version) = checked.split_last_chunk()?;
    let version = u16::from_le_bytes(*version);
    let is_known = version <= MAX_VERSION || version == VALKEY_VERSION;
    (is_known && u64::from_le_bytes(checksum) == computed).then_some(body)
}

/// Checks a long payload piece by piece, and copies the string meanwhile unless it is compressed.
#[derive(Debug)]
pub(crate) struct LongRestore {
    payload: Arc<[u8]>,
    max_bytes: usize,
    /// Where the string is, if it is copied meanwhile.
    string: Option<Range<usize>>,
    /// Of the first `checked` bytes.
    checksum: u64,
    checked: usize,
    value: PartialValue,
}

impl LongRestore {
    /// For a string of at most this many bytes.
    pub(crate) fn new(payload: &Arc<[u8]>, max_bytes: usize) -> Self {
        let string = plain_string(payload).filter(|string| string.len() <= max_bytes);
        LongRestore {
            payload: Arc::clone(payload),
            max_bytes,
            checksum: 0,
            checked: 0,
            value: PartialValue::new(string.as_ref().map_or(0, Range::len)),
            string,
        }
    }

    /// Checks and copies the next bytes. Returns the value if these were the last ones. What is not a plain string is read
    /// as a whole then.
    pub(crate) fn advance(&mut self, bytes: usize) -> Result<Option<Restored>, RdbError> {
        let all = self.payload.len().saturating_sub(CHECKSUM_BYTES);
        let piece = self.checked..all.min(self.checked + bytes);
        self.checksum = crc64(self.checksum, &self.payload[piece.clone()]);
        if let Some(string) = &self.string {
            let copied = piece.start.max(string.start)..piece.end.min(string.end);
            if !copied.is_empty() {
                self.value.get_mut().push(&self.payload[copied]);
            }
        }
        self.checked = piece.end;
        if self.checked < all {
            return Ok(None);
        }
        let (checked, checksum) = self.payload.split_last_chunk().ok_or(RdbError::Checksum)?;
        let body = verified_by(checked, self.checksum, *checksum).ok_or(RdbError::Checksum)?;
        match self.string {
            Some(_) => {
                let value = std::mem::replace(&mut self.value, PartialValue::new(0)).finish();
                Ok(Some(Restored::Shared(value)))
            }
            None => restore_verified(body, self.max_bytes).map(Some),
        }
    }

    pub(crate) fn payload_bytes(&self) -> usize {
        self.payload.len()
    }
}

/// Where the string of a payload is, if it is not compressed and nothing follows it.
fn plain_string(payload: &[u8]) -> Option<Range<usize>> {
    let mut input = Input(payload.strip_prefix(&[STRING])?);
    let length = input.length().ok()?;
    let start = payload.len() - input.0.len();
    (length.checked_add(FOOTER_BYTES) == Some(input.0.len())).then(|| start..start + length)
}

impl Drop for LongRestore {
    fn drop(&mut self) {
        release(std::mem::replace(&mut self.payload, Arc::from([])));
    }
}

fn short_integer(value: &[u8]) -> Option<i32> {
    let number = parse_integer(value).filter(|_| value.len() <= MAX_INTEGER_BYTES)?;
    i32::try_from(number).ok()
}

fn write_integer(out: &mut Vec<u8>, number: i32) {
    if let Ok(number) = i8::try_from(number) {
        out.extend_from_slice(&[INT8, number as u8]);
    } else if let Ok(number) = i16::try_from(number) {
        out.push(INT16);
        out.extend_from_slice(&number.to_le_bytes());
    } else {
        out.push(INT32);
        out.extend_from_slice(&number.to_le_bytes());
    }
}

/// Lengths are big-endian: 6 bits, 14 bits, 32 bits or 64 bits.
fn write_length(out: &mut Vec<u8>, length: usize) {
    match length {
        0..0x40 => out.push(length as u8),
        0x40..0x4000 => out.extend_from_slice(&(0x4000 | length as u16).to_be_bytes()),
        _ => match u32::try_from(length) {
            Ok(length) => {
                out.push(LENGTH32);
                out.extend_from_slice(&length.to_be_bytes());
            }
            Err(_) => {
                out.push(LENGTH64);
                out.extend_from_slice(&(length as u64).to_be_bytes());
            }
        },
    }
}

/// The rest of a payload.
struct Input<'a>(&'a [u8]);

impl<'a> Input<'a> {
    fn take(&mut self, bytes: usize) -> Result<&'a [u8], RdbError> {
        let (taken, rest) = self.0.split_at_checked(bytes).ok_or(RdbError::Format)?;
        self.0 = rest;
        Ok(taken)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], RdbError> {
        let (taken, rest) = self.0.split_first_chunk().ok_or(RdbError::Format)?;
        self.0 = rest;
        Ok(*taken)
    }

    fn length(&mut self) -> Result<usize, RdbError> {
        let [first] = self.array()?;
        let length = match first {
            0..0x40 => u64::from(first),
            0x40..0x80 => {
                let [second] = self.array()?;
                u64::from(first & 0x3f) << 8 | u64::from(second)
            }
            LENGTH32 => u32::from_be_bytes(self.array()?).into(),
            LENGTH64 => u64::from_be_bytes(self.array()?),
            _ => return Err(RdbError::Format),
        };
        usize::try_from(length).map_err(|_| RdbError::TooLong)
    }

    fn string(&mut self, max_bytes: usize) -> Result<Vec<u8>, RdbError> {
        let integer = |number: i32| Ok(number.to_string().into_bytes());
        match self.0.first() {
            Some(&encoding @ INT8..=LZF) => {
                self.take(1)?;
                match encoding {
                    INT8 => integer(i8::from_le_bytes(self.array()?).into()),
                    INT16 => integer(i16::from_le_bytes(self.array()?).into()),
                    INT32 => integer(i32::from_le_bytes(self.array()?)),
                    _ => {
                        let (compressed, length) = (self.length()?, self.length()?);
                        let compressed = self.take(compressed)?;
                        if length > max_bytes {
                            return Err(RdbError::TooLong);
                        }
                        decompress(compressed, length).ok_or(RdbError::Format)
                    }
                }
            }
            _ => {
                let length = self.length()?;
                let value = self.take(length)?;
                if length > max_bytes { Err(RdbError::TooLong) } else { Ok(value.to_vec()) }
            }
        }
    }
}

/// Decompresses LZF to exactly this length. The memory grows with what is decompressed, not with the announced length.
fn decompress(mut input: &[u8], length: usize) -> Option<Vec<u8>> {
    let mut out: Vec<u8> = Vec::new();
    while let Some((&control, rest)) = input.split_first() {
        let control = usize::from(control);
        if control < 32 {
            let (literal, rest) = rest.split_at_checked(control + 1)?;
            out.extend_from_slice(literal);
            input = rest;
        } else {
            let (more, rest) = if control >> 5 == 7 { rest.split_first()? } else { (&0, rest) };
            let (low, rest) = rest.split_first()?;
            let count = (control >> 5) + 2 + usize::from(*more);
            let back = ((control & 0x1f) << 8 | usize::from(*low)) + 1;
            let start = out.len().checked_sub(back)?;
            // The copy may overlap what it writes.
            (start..start + count).for_each(|at| out.push(out[at]));
            input = rest;
        }
        if out.len() > length {
            return None;
        }
    }
    (out.len() == length).then_some(out)
}

/// CRC-64 with the polynomial of Jones, reflected: of these bytes after those of which it was `before`.
fn crc64(before: u64, bytes: &[u8]) -> u64 {
    static TABLE: [u64; 256] = crc_table();
    bytes.iter().fold(before, |crc, byte| TABLE[usize::from(crc as u8 ^ byte)] ^ (crc >> 8))
}

const fn crc_table() -> [u64; 256] {
    const POLYNOMIAL: u64 = 0xad93_d235_94c9_35a9_u64.reverse_bits();
    let mut table = [0; 256];
    let mut byte = 0;
    while byte < 256 {
        let mut crc = byte as u64;
        let mut bit = 0;
        while bit < 8 {
            crc = if crc & 1 == 1 { crc >> 1 ^ POLYNOMIAL } else { crc >> 1 };
            bit += 1;
        }
        table[byte] = crc;
        byte += 1;
    }
    table
}

/// A payload with this body, of the version that is written.
#[cfg(test)]
pub(crate) fn payload(body: &[u8]) -> Vec<u8> {
    sealed(body.to_vec(), WRITTEN_VERSION)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn bytes(value: Restored) -> Vec<u8> {
        match value {
            Restored::String(value) => value,
            Restored::Shared(value) => value.to_vec(),
            Restored::Hash(hash) => dump_hash(&hash, i64::MIN),
            Restored::List(list) => dump_list(&list),
            Restored::Set(set) => dump_set(&set),
            Restored::SortedSet(set) => dump_sorted_set(&set),
            Restored::Stream(stream) => dump_stream(&stream),
        }
    }

    /// Restores a payload at once and in pieces.
    fn restore(payload: &[u8], max_bytes: usize) -> Result<Vec<u8>, RdbError> {
        let mut pieces = LongRestore::new(&payload.into(), max_bytes);
        let restored = loop {
            match pieces.advance(3) {
                Ok(None) => {}
                Ok(Some(value)) => break Ok(bytes(value)),
                Err(error) => break Err(error),
            }
        };
        assert_eq!(super::restore(payload, max_bytes).map(bytes), restored);
        restored
    }

    #[test]
    fn checksum_has_its_published_check_value() {
        assert_eq!(crc64(0, b"123456789"), 0xe9c6_d914_c4b8_d9ca);
    }

    #[test]
    fn damaged_payloads_are_refused() {
        let good = dump(b"hello");
        for at in 0..good.len() {
            let mut bad = good.clone();
            bad[at] ^= 1;
            assert_eq!(restore(&bad, 100), Err(RdbError::Checksum), "byte {at}");
            assert_eq!(restore(&good[..at], 100), Err(RdbError::Checksum), "{at} bytes");
        }
        for (body, what) in [
            (&b""[..], "nothing"),
            (&[0], "no length"),
            (&[1, 0], "a list"),
            (&[0, 5, b'a'], "too short"),
            (&[0, 1, b'a', b'b'], "too long"),
            (&[0, INT32, 1, 2], "half an integer"),
            (&[0, 0xc4, 1], "an unknown encoding"),
            (&[0, 0x82, 1], "an unknown length"),
            (&[0, LZF, 2, 5, 0xe0, 1], "a reference that is cut"),
            (&[0, LZF, 2, 5, 0x20, 9], "a reference to before the start"),
            (&[0, LZF, 2, 9, 0, b'a'], "less than announced"),
            (&[0, LZF, 4, 1, 2, b'a', b'b', b'c'], "more than announced"),
        ] {
            assert_eq!(restore(&payload(body), 100), Err(RdbError::Format), "{what}");
        }
        for body in [
            &[0, LZF, 1, 0x81, 0x7f, 0, 0, 0, 0, 0, 0, 0, 0][..],
            &[&[0, 0x40, 101][..], &[b'x'; 101]].concat(),
        ] {
            assert_eq!(restore(&payload(body), 100), Err(RdbError::TooLong));
        }
    }

    #[test]
    fn compressed_string_is_read() {
        // One literal, and a reference to it that overlaps itself.
        assert_eq!(restore(&payload(&[0, LZF, 5, 21, 0, b'a', 0xe0, 11, 0]), 100), Ok(b"a".repeat(21)));
    }

    proptest! {
        #[test]
        fn strings_round_trip(value in proptest::collection::vec(any::<u8>(), 0..70_000)) {
            prop_assert_eq!(restore(&dump(&value), 70_000), Ok(value));
        }

        #[test]
        fn integers_round_trip(number in any::<i64>(), bits in 0u32..63) {
            let value = (number >> bits).to_string().into_bytes();
            prop_assert_eq!(restore(&dump(&value), 100), Ok(value));
        }

        #[test]
        fn any_body_is_restored_or_refused(body in proptest::collection::vec(any::<u8>(), 0..60)) {
            let _ = restore(&payload(&[&[0, LZF][..], &body].concat()), 1_000);
            let _ = restore(&payload(&body), 1_000);
        }
    }
}

//! Ziplists: the buffers of Redis before version 7 for small values of many parts, which are read and not written.
//!
//! ```text
//! bytes of all, 4 │ start of the last text, 4 │ number of texts, 2 │ texts │ 255         little-endian
//! text: bytes of the text before, 1, or 254 and 4 │ code, with a length or a number in it │ text or number
//! ```

use super::RdbError;
use super::listpack::{Left, signed};

const HEADER_BYTES: usize = 10;
const END: u8 = 0xff;
/// It begins a length of the text before that has four bytes more.
const LONG_BEFORE: u8 = 0xfe;
const TEXT32: u8 = 0x80;
const INT16: u8 = 0xc0;
const INT32: u8 = 0xd0;
const INT64: u8 = 0xe0;
const INT24: u8 = 0xf0;
const INT8: u8 = 0xfe;

/// The texts of a ziplist.
pub(super) struct ZiplistReader<'a> {
    rest: &'a [u8],
    left: Left,
    /// The bytes of the text before.
    before: usize,
    buffer: itoa::Buffer,
}

impl<'a> ZiplistReader<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Result<Self, RdbError> {
        let (header, rest) = bytes.split_at_checked(HEADER_BYTES).ok_or(RdbError::Format)?;
        let told = u32::from_le_bytes(header[..4].try_into().expect("four bytes"));
        if told as usize != bytes.len() {
            return Err(RdbError::Format);
        }
        let left = Left::new(u16::from_le_bytes([header[8], header[9]]));
        Ok(ZiplistReader { rest, left, before: 0, buffer: itoa::Buffer::new() })
    }

    /// The next text; `None` at the end, which must be that of the bytes and of the number in the header.
    pub(super) fn next(&mut self) -> Result<Option<&[u8]>, RdbError> {
        let bytes = self.rest;
        let at = |index: usize| bytes.get(index).copied().ok_or(RdbError::Format);
        let first = at(0)?;
        if first == END {
            return self.left.end(bytes).map(|()| None);
        }
        self.left.take_one()?;
        let (before, code_at) = match first {
            LONG_BEFORE => (u32::from_le_bytes([at(1)?, at(2)?, at(3)?, at(4)?]) as usize, 5),
            short => (usize::from(short), 1),
        };
        if before != self.before {
            return Err(RdbError::Format);
        }
        let code = at(code_at)?;
        // Where the text or the number begins, and its length.
        let (start, length) = match code {
            0x00..0x40 => (1, usize::from(code)),
            0x40..0x80 => (2, usize::from(code & 0x3f) << 8 | usize::from(at(code_at + 1)?)),
            TEXT32 => {
                let length = [at(code_at + 1)?, at(code_at + 2)?, at(code_at + 3)?, at(code_at + 4)?];
                (5, u32::from_be_bytes(length) as usize)
            }
            INT8 => (1, 1),
            INT16 => (1, 2),
            INT24 => (1, 3),
            INT32 => (1, 4),
            INT64 => (1, 8),
            0xf1..=0xfd => (1, 0),
            _ => return Err(RdbError::Format),
        };
        let (start, end) = (code_at + start, code_at + start + length);
        let content = bytes.get(start..end).ok_or(RdbError::Format)?;
        self.before = end;
        self.rest = &bytes[end..];
        let number = match code {
            0x00..=TEXT32 => return Ok(Some(content)),
            0xf1..=0xfd => i64::from(code & 0x0f) - 1,
            _ => signed(content),
        };
        Ok(Some(self.buffer.format(number).as_bytes()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// A text of six bits, one of fourteen, and numbers: 12 in the code, -1 in one byte, 300 in two and -8388608 in three.
    fn good() -> Vec<u8> {
        let long = [b'y'; 254];
        let texts = [
            &[0, 1, b'a'][..],
            &[&[3, 0x40, 254][..], &long].concat(),
            &[LONG_BEFORE, 1, 1, 0, 0, 0xfd],
            &[6, INT8, 0xff],
            &[3, INT16, 0x2c, 1],
            &[4, INT24, 0, 0, 0x80],
        ]
        .concat();
        let total = (HEADER_BYTES + texts.len() + 1) as u32;
        [&total.to_le_bytes()[..], &[0, 0, 0, 0, 6, 0], &texts, &[END]].concat()
    }

    fn read(bytes: &[u8]) -> Result<Vec<String>, RdbError> {
        let (mut reader, mut texts) = (ZiplistReader::new(bytes)?, Vec::new());
        while let Some(text) = reader.next()? {
            texts.push(String::from_utf8_lossy(text).into_owned());
        }
        Ok(texts)
    }

    #[test]
    fn texts_and_numbers_are_read() {
        let expected = ["a", &"y".repeat(254), "12", "-1", "300", "-8388608"].map(str::to_owned);
        assert_eq!(read(&good()), Ok(expected.into()));
    }

    #[test]
    fn damaged_ziplists_are_refused() {
        let good = good();
        for end in 0..good.len() {
            assert!(read(&good[..end]).is_err(), "{end} bytes");
        }
        for (at, byte, what) in [
            (0, 3, "another length"),
            (8, 5, "fewer texts than there are"),
            (8, 7, "more texts than there are"),
            (10, 1, "a length of a text before the first"),
            (11, 2, "a longer text"),
            (11, 0x81, "an unknown code"),
            (13, 4, "another length of the text before"),
        ] {
            let mut bad = good.clone();
            bad[at] = byte;
            assert_eq!(read(&bad), Err(RdbError::Format), "{what}");
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn any_bytes_are_read_or_refused(body in proptest::collection::vec(any::<u8>(), 0..60), count in 0u8..9) {
            let total = (body.len() + HEADER_BYTES + 1) as u32;
            let _ = read(&[&total.to_le_bytes()[..], &[0, 0, 0, 0, count, 0], &body, &[END]].concat());
        }
    }
}

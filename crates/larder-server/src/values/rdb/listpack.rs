//! Listpacks: the buffers of Redis for small values of many parts.
//!
//! ```text
//! bytes of all, 4 │ number of texts, 2 │ texts │ 255                                little-endian
//! text: code, with a short text or number in it │ text or number │ bytes of both, backwards
//! ```

use larder_resp::parse_integer;

use super::RdbError;

const HEADER_BYTES: usize = 6;
const END: u8 = 0xff;
/// The number in the header if there are more texts than it can tell.
const UNKNOWN_COUNT: u16 = u16::MAX;
const INT16: u8 = 0xf1;
const INT24: u8 = 0xf2;
const INT32: u8 = 0xf3;
const INT64: u8 = 0xf4;
const TEXT32: u8 = 0xf0;
/// The longest text that is written as an integer.
const MAX_INTEGER_BYTES: usize = 20;

/// A listpack that is written text by text.
pub(super) struct ListpackWriter {
    bytes: Vec<u8>,
    texts: usize,
}

impl ListpackWriter {
    pub(super) fn new() -> Self {
        ListpackWriter { bytes: vec![0; HEADER_BYTES], texts: 0 }
    }

    pub(super) fn push(&mut self, text: &[u8]) {
        let start = self.bytes.len();
        match parse_integer(text).filter(|_| text.len() <= MAX_INTEGER_BYTES) {
            Some(number) => self.push_integer(number),
            None => self.push_text(text),
        }
        self.push_length_backwards(self.bytes.len() - start);
        self.texts += 1;
    }

    /// The bytes so far.
    pub(super) fn len(&self) -> usize {
        self.bytes.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.texts == 0
    }

    pub(super) fn finish(mut self) -> Vec<u8> {
        self.bytes.push(END);
        let total = self.bytes.len() as u32;
        self.bytes[..4].copy_from_slice(&total.to_le_bytes());
        let texts = u16::try_from(self.texts).unwrap_or(UNKNOWN_COUNT);
        self.bytes[4..HEADER_BYTES].copy_from_slice(&texts.to_le_bytes());
        self.bytes
    }

    fn push_integer(&mut self, number: i64) {
        let bytes = number.to_le_bytes();
        let (code, length) = match number {
            0..=0x7f => return self.bytes.push(number as u8),
            -0x1000..0x1000 => {
                let code = 0xc000 | number as u16 & 0x1fff;
                return self.bytes.extend_from_slice(&code.to_be_bytes());
            }
            -0x8000..0x8000 => (INT16, 2),
            -0x80_0000..0x80_0000 => (INT24, 3),
            -0x8000_0000..0x8000_0000 => (INT32, 4),
            _ => (INT64, 8),
        };
        self.bytes.push(code);
        self.bytes.extend_from_slice(&bytes[..length]);
    }

    fn push_text(&mut self, text: &[u8]) {
        match text.len() {
            length @ 0..0x40 => self.bytes.push(0x80 | length as u8),
            length @ 0x40..0x1000 => self.bytes.extend_from_slice(&(0xe000 | length as u16).to_be_bytes()),
            length => {
                self.bytes.push(TEXT32);
                self.bytes.extend_from_slice(&(length as u32).to_le_bytes());
            }
        }
        self.bytes.extend_from_slice(text);
    }

    fn push_length_backwards(&mut self, length: usize) {
        let groups = length_bytes(length);
        for group in (0..groups).rev() {
            let bits = (length >> (7 * group)) as u8 & 0x7f;
            // All but the first continue the number.
            self.bytes.push(if group + 1 == groups { bits } else { bits | 0x80 });
        }
    }
}

/// The bytes of the length behind a text.
fn length_bytes(length: usize) -> usize {
    match length {
        0..0x80 => 1,
        0x80..0x3fff => 2,
        0x3fff..0x1f_ffff => 3,
        0x1f_ffff..0xfff_ffff => 4,
        _ => 5,
    }
}

/// How many texts are left, if the header of a buffer tells.
pub(super) struct Left(Option<usize>);

impl Left {
    pub(super) fn new(count: u16) -> Self {
        Left((count != UNKNOWN_COUNT).then_some(count.into()))
    }

    /// Counts one more text.
    pub(super) fn take_one(&mut self) -> Result<(), RdbError> {
        if let Some(left) = &mut self.0 {
            *left = left.checked_sub(1).ok_or(RdbError::Format)?;
        }
        Ok(())
    }

    /// Checks the end of a buffer, which must be that of its bytes and of the number in its header.
    pub(super) fn end(&self, rest: &[u8]) -> Result<(), RdbError> {
        let is_end = rest.len() == 1 && self.0.is_none_or(|left| left == 0);
        if is_end { Ok(()) } else { Err(RdbError::Format) }
    }
}

/// A number of up to eight bytes, whose sign is its highest bit.
pub(super) fn signed(bytes: &[u8]) -> i64 {
    let mut wide = [0; 8];
    let at = wide.len() - bytes.len();
    wide[at..].copy_from_slice(bytes);
    i64::from_le_bytes(wide) >> (8 * at)
}

/// The texts of a listpack.
pub(super) struct ListpackReader<'a> {
    rest: &'a [u8],
    left: Left,
    buffer: itoa::Buffer,
}

impl<'a> ListpackReader<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Result<Self, RdbError> {
        let (header, rest) = bytes.split_at_checked(HEADER_BYTES).ok_or(RdbError::Format)?;
        let [a, b, c, d, e, f] = *header else { return Err(RdbError::Format) };
        if u32::from_le_bytes([a, b, c, d]) as usize != bytes.len() {
            return Err(RdbError::Format);
        }
        let left = Left::new(u16::from_le_bytes([e, f]));
        Ok(ListpackReader { rest, left, buffer: itoa::Buffer::new() })
    }

    /// The next text; `None` at the end, which must be that of the bytes and of the number in the header.
    pub(super) fn next(&mut self) -> Result<Option<&[u8]>, RdbError> {
        let bytes = self.rest;
        let &code = bytes.first().ok_or(RdbError::Format)?;
        if code == END {
            return self.left.end(bytes).map(|()| None);
        }
        self.left.take_one()?;
        let at = |index: usize| bytes.get(index).copied().ok_or(RdbError::Format);
        // Where the text or the number begins, and its length.
        let (start, length, is_text) = match code {
            0x00..0x80 => (0, 1, false),
            0x80..0xc0 => (1, usize::from(code & 0x3f), true),
            0xc0..0xe0 => (0, 2, false),
            0xe0..0xf0 => (2, usize::from(code & 0x0f) << 8 | usize::from(at(1)?), true),
            TEXT32 => (5, u32::from_le_bytes([at(1)?, at(2)?, at(3)?, at(4)?]) as usize, true),
            INT16 => (1, 2, false),
            INT24 => (1, 3, false),
            INT32 => (1, 4, false),
            INT64 => (1, 8, false),
            _ => return Err(RdbError::Format),
        };
        let end = start + length;
        let content = bytes.get(start..end).ok_or(RdbError::Format)?;
        let backwards = bytes.get(end..end + length_bytes(end)).ok_or(RdbError::Format)?;
        let told = backwards.iter().fold(0, |told, byte| told << 7 | usize::from(byte & 0x7f));
        if told != end {
            return Err(RdbError::Format);
        }
        self.rest = &bytes[end + backwards.len()..];
        if is_text {
            return Ok(Some(content));
        }
        let number = match *content {
            [small] => small.into(),
            // The code of thirteen bits, whose sign is its highest one.
            [high, low] if start == 0 => (i64::from(u16::from_be_bytes([high, low])) << 51) >> 51,
            ref bytes => signed(bytes),
        };
        Ok(Some(self.buffer.format(number).as_bytes()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn write(texts: &[Vec<u8>]) -> Vec<u8> {
        let mut writer = ListpackWriter::new();
        texts.iter().for_each(|text| writer.push(text));
        writer.finish()
    }

    fn read(bytes: &[u8]) -> Result<Vec<Vec<u8>>, RdbError> {
        let (mut reader, mut texts) = (ListpackReader::new(bytes)?, Vec::new());
        while let Some(text) = reader.next()? {
            texts.push(text.to_vec());
        }
        Ok(texts)
    }

    #[test]
    fn numbers_and_texts_at_each_limit_round_trip() {
        let numbers = [
            "0",
            "127",
            "128",
            "-1",
            "-4096",
            "4095",
            "4096",
            "-4097",
            "32767",
            "-32768",
            "32768",
            "8388607",
            "-8388608",
            "8388608",
            "2147483647",
            "-2147483648",
            "2147483648",
            "9223372036854775807",
            "-9223372036854775808",
            "9223372036854775808",
            "007",
            "-0",
            "",
        ];
        let mut texts: Vec<Vec<u8>> = numbers.map(|text| text.as_bytes().to_vec()).into();
        texts.extend(
            [63, 64, 126, 4_095, 4_096, 16_380, 16_382, 16_390, 70_000].map(|length| vec![b'x'; length]),
        );
        assert_eq!(read(&write(&texts)), Ok(texts));
        let many = vec![b"1".to_vec(); 70_000];
        assert_eq!(read(&write(&many)), Ok(many));
    }

    #[test]
    fn damaged_listpacks_are_refused() {
        let good = write(&[b"text".to_vec(), b"5".to_vec(), b"-300".to_vec()]);
        for end in 0..good.len() {
            assert!(read(&good[..end]).is_err(), "{end} bytes");
        }
        for (at, byte, what) in [
            (0, 3, "another length"),
            (4, 2, "fewer texts than there are"),
            (4, 4, "more texts than there are"),
            (6, 0x85, "a longer text"),
            (6, 0xf5, "an unknown code"),
            (11, 9, "another length backwards"),
        ] {
            let mut bad = good.clone();
            bad[at] = byte;
            assert_eq!(read(&bad), Err(RdbError::Format), "{what}");
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn any_texts_round_trip(texts in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..200), 0..40)) {
            prop_assert_eq!(read(&write(&texts)), Ok(texts));
        }

        #[test]
        fn any_bytes_are_read_or_refused(body in proptest::collection::vec(any::<u8>(), 0..60), count in 0u8..9) {
            let total = body.len() as u32 + 7;
            let _ = read(&[&total.to_le_bytes()[..], &[count, 0], &body, &[END]].concat());
        }
    }
}

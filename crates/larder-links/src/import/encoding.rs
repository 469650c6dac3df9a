//! The text of a file as UTF-8, whatever encoding it has: spreadsheets write UTF-16 and Windows-1252 too.
//!
//! A byte order mark decides, or the zero bytes of UTF-16. Without them a file is ASCII until a byte is not; then what
//! surrounds that byte decides between UTF-8 and Windows-1252, of which Latin-1 is a part.

use std::io::{ErrorKind, Read, Result};

/// How much is read at a time, in bytes.
const PIECE_BYTES: usize = 64 * 1024;

/// The characters of the bytes from 0x80 to 0x9f in Windows-1252. Five have none, and count as control characters.
const WINDOWS_1252: [char; 32] = [
    '€', '\u{81}', '‚', 'ƒ', '„', '…', '†', '‡', 'ˆ', '‰', 'Š', '‹', 'Œ', '\u{8d}', 'Ž', '\u{8f}', '\u{90}',
    '‘', '’', '“', '”', '•', '–', '—', '˜', '™', 'š', '›', 'œ', '\u{9d}', 'ž', 'Ÿ',
];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Encoding {
    /// Nothing was read yet.
    Unknown,
    /// Every byte so far is ASCII.
    Ascii,
    Utf8,
    Windows1252,
    Utf16 {
        is_big_endian: bool,
    },
}

/// Reads a file as UTF-8. Bytes that are not valid in UTF-8 stay as they are, so that the reader can name their line.
pub(super) struct Decoded<R> {
    source: R,
    encoding: Encoding,
    /// What was read and not decoded: a part of a character, or what is too short to decide.
    rest: Vec<u8>,
    /// What was decoded, and how much of it was read.
    text: Vec<u8>,
    position: usize,
    has_ended: bool,
}

impl<R: Read> Decoded<R> {
    pub(super) fn new(source: R) -> Decoded<R> {
        let (rest, text) = (Vec::new(), Vec::new());
        Decoded { source, encoding: Encoding::Unknown, rest, text, position: 0, has_ended: false }
    }

    /// Decodes the next piece. It may have no text.
    fn decode_piece(&mut self) -> Result<()> {
        let known = self.rest.len();
        self.rest.resize(known + PIECE_BYTES, 0);
        let read = loop {
            match self.source.read(&mut self.rest[known..]) {
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                read => break read,
            }
        };
        self.rest.truncate(known + *read.as_ref().unwrap_or(&0));
        self.has_ended = read? == 0;
        self.text.clear();
        self.position = 0;
        self.recognise();
        let decoded = match self.encoding {
            Encoding::Unknown => 0,
            Encoding::Ascii => self.rest.iter().position(|byte| !byte.is_ascii()).unwrap_or(self.rest.len()),
            Encoding::Utf8 | Encoding::Windows1252 => self.rest.len(),
            Encoding::Utf16 { .. } => self.utf16_bytes(),
        };
        let bytes = &self.rest[..decoded];
        match self.encoding {
            Encoding::Unknown => {}
            Encoding::Ascii | Encoding::Utf8 => self.text.extend_from_slice(bytes),
            Encoding::Windows1252 => {
                let decoded: String = bytes.iter().map(|byte| from_windows_1252(*byte)).collect();
                self.text = decoded.into_bytes();
            }
            Encoding::Utf16 { is_big_endian } => {
                let unit = if is_big_endian { u16::from_be_bytes } else { u16::from_le_bytes };
                let units = bytes.chunks(2).map(|pair| pair.try_into().map_or(0xfffd, unit));
                let characters = char::decode_utf16(units);
                let decoded: String =
                    characters.map(|character| character.unwrap_or(char::REPLACEMENT_CHARACTER)).collect();
                self.text = decoded.into_bytes();
            }
        }
        self.rest.drain(..decoded);
        Ok(())
    }

    /// Decides on the encoding as far as what was read allows it, and removes a byte order mark.
    fn recognise(&mut self) {
        if self.encoding == Encoding::Unknown && (self.rest.len() >= 4 || self.has_ended) {
            let (encoding, mark) = match *self.rest {
                [0xef, 0xbb, 0xbf, ..] => (Encoding::Utf8, 3),
                [0xff, 0xfe, ..] => (Encoding::Utf16 { is_big_endian: false }, 2),
                [0xfe, 0xff, ..] => (Encoding::Utf16 { is_big_endian: true }, 2),
                [1..=255, 0, 1..=255, 0, ..] => (Encoding::Utf16 { is_big_endian: false }, 0),
                [0, 1..=255, 0, 1..=255, ..] => (Encoding::Utf16 { is_big_endian: true }, 0),
                _ => (Encoding::Ascii, 0),
            };
            self.encoding = encoding;
            self.rest.drain(..mark);
        }
        if self.encoding == Encoding::Ascii {
            self.encoding = self.of_first_characters().unwrap_or(Encoding::Ascii);
        }
    }

    /// UTF-8 or Windows-1252, whichever explains more of the characters that are not ASCII. `None` if there are none, or only
    /// a part of one.
    fn of_first_characters(&self) -> Option<Encoding> {
        let (mut valid, mut invalid, mut position) = (0, 0, 0);
        for chunk in self.rest.utf8_chunks() {
            valid += chunk.valid().chars().filter(|character| !character.is_ascii()).count();
            position += chunk.valid().len() + chunk.invalid().len();
            let is_cut_off = position == self.rest.len() && !self.has_ended;
            invalid += usize::from(!chunk.invalid().is_empty() && !is_cut_off);
        }
        match (valid, invalid) {
            (0, 0) => None,
            _ if invalid > valid => Some(Encoding::Windows1252),
            _ => Some(Encoding::Utf8),
        }
    }

    /// How many bytes of UTF-16 can be decoded: not half of a character at the end, unless the file ends.
    fn utf16_bytes(&self) -> usize {
        if self.has_ended {
            return self.rest.len();
        }
        let whole = self.rest.len() & !1;
        let Encoding::Utf16 { is_big_endian } = self.encoding else { return whole };
        let last = self.rest[..whole].last_chunk::<2>().map(|pair| pair[usize::from(!is_big_endian)]);
        // The first half of a pair of surrogates.
        if matches!(last, Some(0xd8..=0xdb)) { whole - 2 } else { whole }
    }
}

impl<R: Read> Read for Decoded<R> {
    fn read(&mut self, buffer: &mut [u8]) -> Result<usize> {
        while self.position == self.text.len() && !self.has_ended {
            self.decode_piece()?;
        }
        let count = (self.text.len() - self.position).min(buffer.len());
        buffer[..count].copy_from_slice(&self.text[self.position..][..count]);
        self.position += count;
        Ok(count)
    }
}

fn from_windows_1252(byte: u8) -> char {
    match byte {
        0x80..=0x9f => WINDOWS_1252[usize::from(byte - 0x80)],
        _ => char::from(byte),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns what is read in pieces of a few bytes.
    struct Slow<'a>(&'a [u8], usize);

    impl Read for Slow<'_> {
        fn read(&mut self, buffer: &mut [u8]) -> Result<usize> {
            let count = self.1.min(buffer.len());
            self.0.read(&mut buffer[..count])
        }
    }

    fn decoded(bytes: &[u8]) -> Vec<u8> {
        let read = |piece| {
            let mut text = Vec::new();
            Decoded::new(Slow(bytes, piece)).read_to_end(&mut text).unwrap();
            text
        };
        let whole = read(PIECE_BYTES);
        for piece in [1, 2, 3, 5] {
            assert_eq!(read(piece), whole, "in pieces of {piece}: {bytes:?}");
        }
        whole
    }

    fn utf16(text: &str, bytes: fn(u16) -> [u8; 2]) -> Vec<u8> {
        text.encode_utf16().flat_map(bytes).collect()
    }

    #[test]
    fn encodings_are_recognised_with_and_without_a_mark() {
        let text = "name,url\nGrüße 😀 – “x”,https://a.example/\n";
        for bytes in [
            text.as_bytes().to_vec(),
            format!("\u{feff}{text}").into_bytes(),
            utf16(text, u16::to_le_bytes),
            utf16(text, u16::to_be_bytes),
            utf16(&format!("\u{feff}{text}"), u16::to_le_bytes),
            utf16(&format!("\u{feff}{text}"), u16::to_be_bytes),
        ] {
            assert_eq!(String::from_utf8(decoded(&bytes)).unwrap(), text);
        }
        let western = b"name,url\nGr\xfc\xdfe \x96 \x93x\x94 \x80,https://a.example/\n";
        assert_eq!(
            String::from_utf8(decoded(western)).unwrap(),
            "name,url\nGrüße – “x” €,https://a.example/\n"
        );
    }

    #[test]
    fn ascii_and_short_files_stay_as_they_are() {
        for text in ["", "a", "ab", "abc", "a,b\n", "ü", "aü"] {
            assert_eq!(decoded(text.as_bytes()), text.as_bytes());
        }
        assert_eq!(decoded(b"\xfc"), "ü".as_bytes());
        assert_eq!(decoded(b"\xff\xfea\0b"), "a\u{fffd}".as_bytes());
        assert_eq!(decoded(&utf16("ab", u16::to_le_bytes)), b"ab");
    }

    #[test]
    fn broken_bytes_of_utf8_stay_for_the_reader() {
        let text = b"\xc3\xbc\n\xff\n".as_slice();
        let mut read = Vec::new();
        Decoded::new(text).read_to_end(&mut read).unwrap();
        assert_eq!(read, text);
    }
}

//! The fields of an entry, and the numbers and texts that they are stored as.
//!
//! ```text
//! number: seven bits in each byte, the lowest ones first
//! text: code, 1 │ length, 4, if the code cannot tell it │ bytes
//! names: number of them │ texts
//! ```

use super::Id;
use crate::values::element::{Element, decode, stored_bytes};

/// The code of a text whose length follows.
const LONG: u8 = 0xff;
const LENGTH_BYTES: usize = size_of::<u32>();
/// The bytes of the longest number.
pub(super) const MAX_NUMBER_BYTES: usize = 10;

pub(super) fn write_number(to: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        to.push(number as u8 | 0x80);
        number >>= 7;
    }
    to.push(number as u8);
}

fn write_text(to: &mut Vec<u8>, text: &[u8]) {
    if let Some(element) = Element::new(text) {
        to.push(element.code);
        to.extend_from_slice(element.bytes());
    } else {
        to.push(LONG);
        to.extend_from_slice(&(text.len() as u32).to_le_bytes());
        to.extend_from_slice(text);
    }
}

/// Reads numbers and texts that were written one after another.
#[derive(Clone, Copy, Debug)]
pub(super) struct Reader<'a>(pub(super) &'a [u8]);

impl<'a> Reader<'a> {
    pub(super) fn is_at_end(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn number(&mut self) -> u64 {
        let (mut number, mut shift) = (0, 0);
        loop {
            let byte = self.take(1)[0];
            number |= u64::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return number;
            }
            shift += 7;
        }
    }

    /// The next text, which is in `buffer` if it is an integer.
    fn text<'b>(&mut self, buffer: &'b mut itoa::Buffer) -> &'b [u8]
    where
        'a: 'b,
    {
        match self.coded() {
            (LONG, text) => text,
            (code, bytes) => decode(code, bytes, buffer),
        }
    }

    pub(super) fn skip_texts(&mut self, count: usize) {
        (0..count).for_each(|_| _ = self.coded());
    }

    /// The code of the next text, and what is stored beside it.
    fn coded(&mut self) -> (u8, &'a [u8]) {
        let code = self.take(1)[0];
        let bytes = match code {
            LONG => {
                self.take(LENGTH_BYTES).iter().rev().fold(0, |length, byte| length << 8 | usize::from(*byte))
            }
            code => stored_bytes(code),
        };
        (code, self.take(bytes))
    }

    fn take(&mut self, bytes: usize) -> &'a [u8] {
        let (taken, rest) = self.0.split_at(bytes);
        self.0 = rest;
        taken
    }
}

/// The fields of a new entry, as they are stored.
pub(super) struct Encoded {
    bytes: Vec<u8>,
    names_end: usize,
}

impl Encoded {
    /// Of names and values by turns.
    pub(super) fn new<T: AsRef<[u8]>>(texts: &[T]) -> Encoded {
        let mut bytes = Vec::new();
        write_number(&mut bytes, texts.len() as u64 / 2);
        texts.iter().step_by(2).for_each(|name| write_text(&mut bytes, name.as_ref()));
        let names_end = bytes.len();
        texts.iter().skip(1).step_by(2).for_each(|value| write_text(&mut bytes, value.as_ref()));
        Encoded { bytes, names_end }
    }

    pub(super) fn names(&self) -> &[u8] {
        &self.bytes[..self.names_end]
    }

    pub(super) fn values(&self) -> &[u8] {
        &self.bytes[self.names_end..]
    }
}

/// An entry.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Entry<'a> {
    pub(crate) id: Id,
    /// The number of fields.
    pub(crate) fields: usize,
    pub(super) names: Reader<'a>,
    pub(super) values: Reader<'a>,
}

impl Entry<'_> {
    /// Whether its fields have the same names, in this order.
    pub(crate) fn has_names_of(&self, other: &Entry<'_>) -> bool {
        (self.fields, self.names.0) == (other.fields, other.names.0)
    }

    /// Calls `f` with the name and the value of each field.
    pub(crate) fn visit(&self, mut f: impl FnMut(&[u8], &[u8])) {
        let (mut names, mut values) = (self.names, self.values);
        for _ in 0..self.fields {
            let [mut name, mut value] = [itoa::Buffer::new(); 2];
            f(names.text(&mut name), values.text(&mut value));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn numbers_and_texts_round_trip(
            number in any::<u64>(),
            shift in 0..64,
            texts in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..200), 0..9),
            integer in any::<i64>(),
        ) {
            let integer = integer.to_string();
            let text = |reader: &mut Reader<'_>| reader.text(&mut itoa::Buffer::new()).to_vec();
            let mut bytes = Vec::new();
            write_number(&mut bytes, number >> shift);
            prop_assert!(bytes.len() <= MAX_NUMBER_BYTES);
            texts.iter().for_each(|text| write_text(&mut bytes, text));
            write_text(&mut bytes, integer.as_bytes());
            let mut reader = Reader(&bytes);
            prop_assert_eq!(reader.number(), number >> shift);
            let mut other = reader;
            other.skip_texts(texts.len());
            for expected in &texts {
                prop_assert_eq!(&text(&mut reader), expected);
            }
            prop_assert_eq!(other.0, reader.0);
            prop_assert_eq!(text(&mut reader), integer.as_bytes());
            prop_assert!(reader.is_at_end());
        }
    }
}

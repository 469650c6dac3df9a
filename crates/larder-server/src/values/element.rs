//! A short text in a buffer with others: as bytes, or as an integer if that is shorter.
//!
//! A code says which, and how many bytes they are. Equal texts have equal codes and bytes, so that one is found without decoding
//! any.

use larder_resp::parse_integer;

/// The longest text.
pub(super) const MAX_TEXT_BYTES: usize = 64;
/// What the code of an integer of no bytes would be: codes up to [`MAX_TEXT_BYTES`] are lengths of texts.
const INTEGER: u8 = MAX_TEXT_BYTES as u8;
/// The longest integer.
const MAX_INTEGER_BYTES: usize = size_of::<i64>();

/// A text, encoded.
pub(super) struct Element<'a> {
    pub(super) code: u8,
    text: &'a [u8],
    integer: [u8; MAX_INTEGER_BYTES],
}

impl<'a> Element<'a> {
    /// `None` if the text is too long.
    pub(super) fn new(text: &'a [u8]) -> Option<Self> {
        if text.len() > MAX_TEXT_BYTES {
            return None;
        }
        let number = parse_integer(text);
        let shorter =
            number.map(|number| (number, integer_bytes(number))).filter(|(_, bytes)| *bytes < text.len());
        Some(match shorter {
            Some((number, bytes)) => {
                Element { code: INTEGER + bytes as u8, text: &[], integer: number.to_le_bytes() }
            }
            None => Element { code: text.len() as u8, text, integer: [0; MAX_INTEGER_BYTES] },
        })
    }

    /// What is stored beside the code.
    #[inline]
    pub(super) fn bytes(&self) -> &[u8] {
        match self.code.checked_sub(INTEGER + 1) {
            Some(more) => &self.integer[..usize::from(more) + 1],
            None => self.text,
        }
    }
}

/// The bytes that are stored beside this code.
#[inline]
pub(super) fn stored_bytes(code: u8) -> usize {
    usize::from(if code > INTEGER { code - INTEGER } else { code })
}

/// The text of a code and its bytes, which is in `buffer` if it is an integer.
#[inline]
pub(super) fn decode<'a>(code: u8, bytes: &'a [u8], buffer: &'a mut itoa::Buffer) -> &'a [u8] {
    if code <= INTEGER {
        return bytes;
    }
    let mut wide = [0; MAX_INTEGER_BYTES];
    let at = MAX_INTEGER_BYTES - bytes.len();
    wide[at..].copy_from_slice(bytes);
    // The sign is in the highest byte.
    let number = i64::from_le_bytes(wide) >> (8 * at);
    buffer.format(number).as_bytes()
}

/// The bytes of a number in two's complement.
fn integer_bytes(number: i64) -> usize {
    let bits = u64::BITS - (number ^ number >> 63).leading_zeros() + 1;
    bits.div_ceil(8) as usize
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The bytes that a text takes beside its code, and which must mean this text.
    fn encoded_bytes(text: &[u8]) -> usize {
        let element = Element::new(text).expect("it is short");
        let mut buffer = itoa::Buffer::new();
        assert_eq!(decode(element.code, element.bytes(), &mut buffer), text, "{}", text.escape_ascii());
        assert_eq!(stored_bytes(element.code), element.bytes().len());
        element.bytes().len()
    }

    #[test]
    fn integers_take_the_bytes_that_they_need() {
        for (text, bytes) in [
            ("", 0),
            ("7", 1),
            ("-7", 1),
            ("127", 1),
            ("128", 2),
            ("-128", 1),
            ("-129", 2),
            ("32767", 2),
            ("32768", 3),
            ("1700000000", 4),
            ("1700000000000", 6),
            ("9223372036854775807", 8),
            ("-9223372036854775808", 8),
            ("9223372036854775808", 19),
            ("007", 3),
            ("+1", 2),
            ("-0", 2),
            ("1.5", 3),
        ] {
            assert_eq!(encoded_bytes(text.as_bytes()), bytes, "{text}");
        }
        assert!(Element::new(&[b'1'; MAX_TEXT_BYTES + 1]).is_none());
        assert_eq!(encoded_bytes(&[b'x'; MAX_TEXT_BYTES]), MAX_TEXT_BYTES);
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn any_text_round_trips(text in proptest::collection::vec(any::<u8>(), 0..=MAX_TEXT_BYTES), number in any::<i64>(), shift in 0u32..64) {
            encoded_bytes(&text);
            let number = (number >> shift).to_string();
            prop_assert!(encoded_bytes(number.as_bytes()) <= number.len());
        }
    }
}

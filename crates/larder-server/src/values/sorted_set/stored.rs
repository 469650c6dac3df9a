//! Members as they lie one after another in the buffer of a small sorted set.
//!
//! ```text
//! logarithm of the length of the score, 2 bits; length of the name, 6 bits │ score │ name
//! ```
//!
//! A score takes 1, 2 or 4 bytes if it is an integer of that size, else 8.

use std::ops::Range;

use super::bounds::Member;

const NAME_LENGTH_BITS: u32 = 6;
/// What six bits can tell.
pub(super) const MAX_NAME_BYTES: usize = (1 << NAME_LENGTH_BITS) - 1;

/// A member in a buffer: only what is asked for is read.
pub(super) struct Stored<'a> {
    buffer: &'a [u8],
    start: usize,
    name_at: usize,
    end: usize,
}

impl<'a> Stored<'a> {
    #[inline]
    pub(super) fn member(&self) -> Member<'a> {
        (&self.buffer[self.name_at..self.end], self.score())
    }

    #[inline]
    pub(super) fn score(&self) -> f64 {
        decode(&self.buffer[self.start + 1..self.name_at])
    }

    /// Whether it has this name. The last byte tells apart most names that begin in the same way, without a call.
    #[inline]
    pub(super) fn is_named(&self, name: &[u8]) -> bool {
        self.end - self.name_at == name.len()
            && name.last().is_none_or(|last| self.buffer[self.end - 1] == *last)
            && self.buffer[self.name_at..self.end] == *name
    }

    pub(super) fn range(&self) -> Range<usize> {
        self.start..self.end
    }
}

/// The members of a buffer from an offset on.
pub(super) struct Walk<'a> {
    pub(super) buffer: &'a [u8],
    pub(super) at: usize,
}

impl<'a> Iterator for Walk<'a> {
    type Item = Stored<'a>;

    #[inline]
    fn next(&mut self) -> Option<Stored<'a>> {
        let start = self.at;
        let head = *self.buffer.get(start)?;
        let name_at = start + 1 + (1 << (head >> NAME_LENGTH_BITS));
        self.at = name_at + (usize::from(head) & MAX_NAME_BYTES);
        Some(Stored { buffer: self.buffer, start, name_at, end: self.at })
    }
}

/// The bytes of a member with this encoded score.
pub(super) fn stored_bytes(name: &[u8], score: &[u8]) -> usize {
    1 + score.len() + name.len()
}

/// Writes a member to its place.
///
/// # Panics
/// If the place has another length than [`stored_bytes`] says.
pub(super) fn write(place: &mut [u8], name: &[u8], score: &[u8]) {
    place[0] = (score.len().ilog2() << NAME_LENGTH_BITS) as u8 | name.len() as u8;
    let (score_place, name_place) = place[1..].split_at_mut(score.len());
    score_place.copy_from_slice(score);
    name_place.copy_from_slice(name);
}

/// A score in the first bytes, and how many they are.
pub(super) fn encode(score: f64) -> ([u8; 8], usize) {
    let integer = score as i32;
    // Negative zero is no integer.
    if f64::from(integer).to_bits() != score.to_bits() {
        return (score.to_le_bytes(), 8);
    }
    let length = match integer {
        -0x80..0x80 => 1,
        -0x8000..0x8000 => 2,
        _ => 4,
    };
    (i64::from(integer).to_le_bytes(), length)
}

#[inline]
fn decode(score: &[u8]) -> f64 {
    match *score {
        [a] => f64::from(a as i8),
        [a, b] => f64::from(i16::from_le_bytes([a, b])),
        [a, b, c, d] => f64::from(i32::from_le_bytes([a, b, c, d])),
        _ => f64::from_le_bytes(*score.first_chunk().expect("a score that is no integer has eight bytes")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The length of the encoded score, which must mean this score to the bit.
    fn encoded_bytes(score: f64) -> usize {
        let (bytes, length) = encode(score);
        assert_eq!(decode(&bytes[..length]).to_bits(), score.to_bits(), "{score}");
        length
    }

    #[test]
    fn score_takes_the_bytes_that_it_needs() {
        for (bytes, scores) in [
            (1, [0.0, 1.0, -1.0, 127.0, -128.0]),
            (2, [128.0, -129.0, 1_000.0, 32_767.0, -32_768.0]),
            (4, [32_768.0, -32_769.0, 1e9, 2_147_483_647.0, -2_147_483_648.0]),
            (8, [-0.0, 0.5, 2_147_483_648.0, -2_147_483_649.0, 9_007_199_254_740_992.0]),
            (8, [f64::INFINITY, f64::NEG_INFINITY, f64::MIN_POSITIVE, f64::MAX, f64::MIN]),
        ] {
            for score in scores {
                assert_eq!(encoded_bytes(score), bytes, "{score}");
            }
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn any_score_keeps_its_bits(score in any::<f64>(), integer in any::<i32>(), shift in 0u32..32) {
            encoded_bytes(score);
            prop_assert!(encoded_bytes(f64::from(integer >> shift)) <= 4);
        }

        #[test]
        fn written_members_are_walked_over(members in proptest::collection::vec((any::<f64>(), 0..=MAX_NAME_BYTES), 0..9)) {
            let mut buffer = Vec::new();
            for (score, length) in &members {
                let (score, bytes) = encode(*score);
                let (start, name) = (buffer.len(), vec![b'x'; *length]);
                buffer.resize(start + stored_bytes(&name, &score[..bytes]), 0);
                write(&mut buffer[start..], &name, &score[..bytes]);
            }
            let mut end = 0;
            for (stored, (score, length)) in (Walk { buffer: &buffer, at: 0 }).zip(&members) {
                prop_assert_eq!(stored.member(), (&vec![b'x'; *length][..], *score));
                prop_assert_eq!(stored.range().start, end);
                end = stored.range().end;
            }
            prop_assert_eq!(end, buffer.len());
        }
    }
}

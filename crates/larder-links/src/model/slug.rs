//! Slugs: the short names of links, derived from a row id or chosen by the user.
//!
//! A derived slug is a keyed permutation of the id, in base 62. A permutation is unique without a lookup and never repeats.
//! The key hides how many links exist and which slug is next. A slug is not a secret: any visitor who has it can open the
//! link.
//!
//! ```text
//! id ──► width (6 letters hold the first 62^6 ids) ──► Feistel rounds over just enough bits ──┐
//!                     ▲ not below 62^width: once more ("cycle walking", Black & Rogaway 2002) │
//!                     └───────────────────────────────────────────────────────────────────────┤
//!                                                                        base 62 ──► "k3ZpQ9" ◄┘
//! ```
//!
//! The Feistel network is that of Luby and Rackoff, "How to construct pseudorandom permutations from pseudorandom
//! functions" (SIAM J. Comput. 17(2), 1988); four rounds suffice in theory, we run eight because the round function
//! is a fast hash and not a cryptographic one.

use twox_hash::XxHash3_64;

/// The longest slug that a user can choose, in bytes.
pub const MAX_SLUG_BYTES: usize = 64;

const ALPHABET: &[u8; 62] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
const FIRST_WIDTH: u32 = 6;
const LAST_WIDTH: u32 = 10;
const ROUNDS: u64 = 8;

/// First path segments of the service's own routes, compared case-insensitively.
const RESERVED: [&str; 8] = ["api", "healthz", "static", "admin", "metrics", "graphql", "assets", "index"];

/// The permutation between row ids and derived slugs, under one database's key.
///
/// Cost: about 100 ns and one allocation per slug.
#[derive(Clone, Debug)]
pub struct SlugCodec {
    seeds: [u64; 2],
}

impl SlugCodec {
    /// The permutation of `key`.
    pub fn new(key: [u8; 16]) -> SlugCodec {
        let (low, high) = key.split_at(8);
        let seed = |half: &[u8]| XxHash3_64::oneshot_with_seed(half.len() as u64, half);
        SlugCodec { seeds: [seed(low), seed(high)] }
    }

    /// The slug of a row id, or `None` beyond the 8.5 × 10¹⁷ ids that ten letters can encode.
    pub fn encode(&self, id: u64) -> Option<String> {
        let (width, offset) = width_of(id)?;
        let size = 62_u64.pow(width);
        let mut number = self.permute(width, id - offset);
        while number >= size {
            number = self.permute(width, number);
        }
        Some(to_base62(number, width))
    }

    /// The row id of a derived slug; `None` for a string that [`encode`](SlugCodec::encode) cannot return.
    pub fn decode(&self, slug: &str) -> Option<u64> {
        let width =
            u32::try_from(slug.len()).ok().filter(|width| (FIRST_WIDTH..=LAST_WIDTH).contains(width))?;
        let size = 62_u64.pow(width);
        let mut number = self.permute_back(width, from_base62(slug)?);
        while number >= size {
            number = self.permute_back(width, number);
        }
        Some(number + offset_of(width))
    }

    fn permute(&self, width: u32, number: u64) -> u64 {
        let half = half_bits(width);
        let (mut left, mut right) = (number >> half, number & mask(half));
        for round in 0..ROUNDS {
            (left, right) = (right, left ^ self.round(width, round, right) & mask(half));
        }
        left << half | right
    }

    fn permute_back(&self, width: u32, number: u64) -> u64 {
        let half = half_bits(width);
        let (mut left, mut right) = (number >> half, number & mask(half));
        for round in (0..ROUNDS).rev() {
            (left, right) = (right ^ self.round(width, round, left) & mask(half), left);
        }
        left << half | right
    }

    fn round(&self, width: u32, round: u64, half: u64) -> u64 {
        let tweak = u64::from(width) << 8 | round;
        let mut input = [0; 24];
        input[..8].copy_from_slice(&half.to_le_bytes());
        input[8..16].copy_from_slice(&tweak.to_le_bytes());
        input[16..].copy_from_slice(&self.seeds[1].to_le_bytes());
        XxHash3_64::oneshot_with_seed(self.seeds[0], &input)
    }
}

/// Why a slug chosen by the user is invalid.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SlugError {
    /// Empty, or longer than [`MAX_SLUG_BYTES`].
    #[error("is {0} characters long, expected 1 to 64")]
    Length(usize),
    /// A character outside letters, digits, `-` and `_`.
    #[error("may contain letters, digits, '-' and '_' only, not {0:?}")]
    Character(char),
    /// The name of one of the service's own routes.
    #[error("is reserved for the service; choose another")]
    Reserved,
}

/// Checks a slug chosen by the user.
///
/// # Errors
/// The rule that the slug violates; see [`SlugError`].
pub fn check_custom(slug: &str) -> Result<(), SlugError> {
    let length = slug.chars().count();
    if length == 0 || slug.len() > MAX_SLUG_BYTES {
        return Err(SlugError::Length(length));
    }
    if let Some(other) = slug.chars().find(|&c| !is_slug_char(c)) {
        return Err(SlugError::Character(other));
    }
    if is_reserved(slug) { Err(SlugError::Reserved) } else { Ok(()) }
}

/// Whether a path segment can be a slug. Other segments get a 404 without a lookup.
pub(crate) fn can_be_slug(segment: &str) -> bool {
    (1..=MAX_SLUG_BYTES).contains(&segment.len()) && segment.chars().all(is_slug_char)
}

pub(crate) fn is_reserved(slug: &str) -> bool {
    RESERVED.iter().any(|name| name.eq_ignore_ascii_case(slug))
}

fn is_slug_char(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '-' || c == '_'
}

/// The width of an id's slug, and the first id of that width.
fn width_of(id: u64) -> Option<(u32, u64)> {
    (FIRST_WIDTH..=LAST_WIDTH)
        .map(|width| (width, offset_of(width)))
        .find(|&(width, offset)| id - offset < 62_u64.pow(width))
}

fn offset_of(width: u32) -> u64 {
    (FIRST_WIDTH..width).map(|narrower| 62_u64.pow(narrower)).sum()
}

/// Half of the bits that hold every number below 62^width: 18, 21, 24, 27, 30.
fn half_bits(width: u32) -> u32 {
    (64 - (62_u64.pow(width) - 1).leading_zeros()).div_ceil(2)
}

fn mask(bits: u32) -> u64 {
    (1 << bits) - 1
}

fn to_base62(mut number: u64, width: u32) -> String {
    let mut letters = vec![ALPHABET[0]; width as usize];
    for letter in letters.iter_mut().rev() {
        *letter = ALPHABET[(number % 62) as usize];
        number /= 62;
    }
    letters.into_iter().map(char::from).collect()
}

fn from_base62(slug: &str) -> Option<u64> {
    slug.bytes().try_fold(0, |number, letter| {
        let digit = match letter {
            b'0'..=b'9' => letter - b'0',
            b'A'..=b'Z' => letter - b'A' + 10,
            b'a'..=b'z' => letter - b'a' + 36,
            _ => return None,
        };
        Some(number * 62 + u64::from(digit))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    fn codec() -> SlugCodec {
        SlugCodec::new(*b"an arbitrary key")
    }

    #[test]
    fn sampled_ids_have_unique_slugs_that_decode() {
        let codec = codec();
        let mut seen = HashSet::new();
        // A stride that is coprime to 62 visits the whole first two widths without repeating.
        for step in 0..1_000_000_u64 {
            let id = step * 3_500_017;
            let slug = codec.encode(id).unwrap();
            assert_eq!(codec.decode(&slug), Some(id), "{slug} does not decode to {id}");
            assert!(can_be_slug(&slug));
            assert!(seen.insert(slug), "the slug of {id} repeats");
        }
    }

    #[test]
    fn permutation_stays_within_its_width() {
        let codec = codec();
        for width in FIRST_WIDTH..=LAST_WIDTH {
            let first = offset_of(width);
            let last = first + 62_u64.pow(width) - 1;
            for id in [first, first + 1, last - 1, last] {
                let slug = codec.encode(id).unwrap();
                assert_eq!(slug.len(), width as usize);
                assert_eq!(codec.decode(&slug), Some(id));
            }
        }
        assert_eq!(codec.encode(offset_of(LAST_WIDTH) + 62_u64.pow(LAST_WIDTH)), None);
    }

    #[test]
    fn neighbouring_slugs_and_keys_look_unrelated() {
        let codec = codec();
        let slugs: Vec<_> = (1..=1_000).map(|id| codec.encode(id).unwrap()).collect();
        let near = slugs.windows(2).filter(|pair| pair[0][..3] == pair[1][..3]).count();
        assert!(near <= 2, "{near} of 999 neighbours share their first three letters");

        let other = SlugCodec::new(*b"some other key!!");
        assert_ne!(other.encode(1), codec.encode(1));
    }

    #[test]
    fn foreign_text_does_not_decode() {
        for slug in ["", "short", "elevenchars", "with-1", "ünicode"] {
            assert_eq!(codec().decode(slug), None, "{slug}");
        }
    }

    #[test]
    fn custom_slug_is_checked() {
        for good in ["a", "Q3_report-2026", &"x".repeat(64)] {
            assert_eq!(check_custom(good), Ok(()), "{good}");
        }
        assert_eq!(check_custom(""), Err(SlugError::Length(0)));
        assert_eq!(check_custom(&"x".repeat(65)), Err(SlugError::Length(65)));
        assert_eq!(check_custom("a b"), Err(SlugError::Character(' ')));
        assert_eq!(check_custom("a/b"), Err(SlugError::Character('/')));
        assert_eq!(check_custom("é"), Err(SlugError::Character('é')));
        assert_eq!(check_custom("API"), Err(SlugError::Reserved));
    }
}

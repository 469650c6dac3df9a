//! Glob patterns that match as in Redis, on bytes, in time proportional to the text.
//!
//! `*` matches any bytes, `?` one byte, `[abc]`, `[a-c]` and `[^a-c]` one byte of a class or beside it, and `\` stands before
//! a literal byte. The oddities of Redis are part of it: a range compares *signed* bytes, as on the processors that most
//! servers run on; an escaped byte starts no range; a `]` that ends a range does not end the class; a class without `]`
//! ends with the pattern; and an empty text matches the empty pattern only, not `*`.
//!
//! # Cost
//!
//! A pattern is compiled once and compared with many texts. The stars divide it into segments, each of which matches as
//! many bytes as it has elements. The first and the last segment can match at one position only. The others are searched
//! in their order, each from the end of the one before, and the first match is always the right one: a later match leaves
//! less text to the rest. Only the search for one segment can be expensive:
//!
//! - literal bytes are found by a substring search, which is linear;
//! - a segment with `?` or classes is compared at each position until that costs more than a few steps per byte of text.
//!   Then the rest is searched with a bit for each element, a word of 64 elements per step (R. Baeza-Yates, G. H. Gonnet,
//!   "A new approach to text searching", 1992, <https://doi.org/10.1145/135239.135243>).
//!
//! Four words are enough, because such a segment has at most [`MAX_SEARCHED_ELEMENTS`] elements, and compiling is cheap,
//! because a pattern has at most [`MAX_STARS`] stars and [`MAX_CLASSES`] classes. Patterns beyond that are refused with an
//! error when they are compiled. So a match cannot fail, takes a bounded number of steps for each byte of the text, and may run
//! while a lock is held, where a budget that is exhausted during a match would leave its caller without an answer.
//!
//! # Examples
//!
//! ```
//! use larder_glob::Pattern;
//!
//! let pattern = Pattern::new(b"user:*:[a-c]?")?;
//! assert!(pattern.matches(b"user:7:b1"));
//! assert!(!pattern.matches(b"user:7:d1"));
//! # Ok::<(), larder_glob::PatternError>(())
//! ```

mod compile;
mod search;
#[cfg(test)]
mod tests;

use compile::{Case, Compiler};
use search::Segment;

/// The most groups of stars in a pattern. Redis stops to match at as many.
pub const MAX_STARS: usize = 1_000;
/// The most classes in a pattern.
pub const MAX_CLASSES: usize = 1_000;
/// The most elements between two stars, if one of them is a `?` or a class.
pub const MAX_SEARCHED_ELEMENTS: usize = 256;

/// Why a pattern is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PatternError {
    /// It has more than [`MAX_STARS`] groups of stars.
    #[error("it has more than {MAX_STARS} stars")]
    TooManyStars,
    /// It has more than [`MAX_CLASSES`] classes.
    #[error("it has more than {MAX_CLASSES} classes")]
    TooManyClasses,
    /// It has more than [`MAX_SEARCHED_ELEMENTS`] elements between two stars, and not only literal bytes.
    #[error("it has more than {MAX_SEARCHED_ELEMENTS} characters with '?' or '[' between two stars")]
    TooLongBetweenStars,
    /// One of its classes has a character beyond ASCII. See [`Pattern::portable`].
    #[error(
        "a class matches one byte, and has a character of several bytes or a range that depends on the processor"
    )]
    ClassBeyondAscii,
}

/// A compiled pattern.
#[derive(Debug)]
pub struct Pattern {
    /// The elements at the start of the text, all of them if there is no star.
    head: Segment,
    /// What follows the first star.
    rest: Option<Rest>,
    /// The number of bytes that a text needs at least.
    min_bytes: usize,
    classes: Vec<search::Class>,
}

/// What follows the first star: segments to search for, and the elements at the end of the text.
#[derive(Debug)]
struct Rest {
    searched: Vec<Segment>,
    tail: Segment,
}

impl Pattern {
    /// Compiles a pattern.
    ///
    /// Cost: linear in its length, and at most three times its length in memory beside 400 kB.
    ///
    /// # Errors
    /// [`PatternError`] if matching would be expensive.
    pub fn new(pattern: &[u8]) -> Result<Self, PatternError> {
        Compiler::new(Case::Exact).compile(pattern)
    }

    /// Compiles a pattern that matches letters of ASCII in either case.
    ///
    /// # Errors
    /// As [`Pattern::new`].
    pub fn ignoring_case(pattern: &[u8]) -> Result<Self, PatternError> {
        Compiler::new(Case::Ignored).compile(pattern)
    }

    /// Compiles a pattern that matches the same texts on every Redis, whatever its processor and version.
    ///
    /// A range from below 128 to above it has other members where bytes are unsigned. In a text of UTF-8 a character
    /// beyond ASCII is several bytes, so in a class it would match a part of a character.
    ///
    /// # Errors
    /// As [`Pattern::new`], and [`PatternError::ClassBeyondAscii`].
    pub fn portable(pattern: &[u8]) -> Result<Self, PatternError> {
        Compiler::new(Case::Exact).with_ascii_classes().compile(pattern)
    }

    /// Whether the whole text matches.
    ///
    /// Cost: linear in the length of the text, at most some ten steps for a byte.
    pub fn matches(&self, text: &[u8]) -> bool {
        self.matches_counted(text, &mut 0)
    }

    /// The same. Adds the number of steps, so that tests can bound them.
    fn matches_counted(&self, text: &[u8], steps: &mut u64) -> bool {
        if text.len() < self.min_bytes {
            return false;
        }
        let Some(Rest { searched, tail }) = &self.rest else {
            return text.len() == self.head.len() && self.head.starts(text, &self.classes, steps);
        };
        let (inner, end) = text.split_at(text.len() - tail.len());
        // Redis compares no star with an empty text.
        if text.is_empty()
            || !self.head.starts(text, &self.classes, steps)
            || !tail.starts(end, &self.classes, steps)
        {
            return false;
        }
        let mut left = &inner[self.head.len()..];
        searched.iter().all(|segment| {
            let found = segment.find(left, &self.classes, steps);
            found.inspect(|start| left = &left[start + segment.len()..]).is_some()
        })
    }

    /// The memory that the pattern needs beside itself, in bytes.
    pub fn bytes(&self) -> usize {
        let rest = self.rest.as_ref().map_or(0, |rest| {
            rest.tail.bytes()
                + rest.searched.iter().map(|one| size_of::<Segment>() + one.bytes()).sum::<usize>()
        });
        self.head.bytes() + rest + size_of_val(&self.classes[..])
    }
}

/// A pattern that matches this text only.
pub fn escape(text: &str) -> String {
    let mut pattern = String::with_capacity(text.len());
    for character in text.chars() {
        if matches!(character, '*' | '?' | '[' | ']' | '\\') {
            pattern.push('\\');
        }
        pattern.push(character);
    }
    pattern
}

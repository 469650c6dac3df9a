//! The commands on sorted sets, and what they share: scores, ranges, and members in replies.

pub(super) mod add;
pub(super) mod combine;
pub(super) mod pop;
pub(super) mod range;
pub(super) mod read;
pub(super) mod sample;
pub(super) mod scan;
mod source;

use std::ops::Range;

use larder_resp::{Encoder, Protocol, parse_float, parse_integer};

use super::options::{index_range, integer};
use super::{CommandError, Context};
use crate::values::sorted_set::{NameBound, ScoreBound, SortedSet};

/// Integers up to this are exact as scores.
const MAX_EXACT: u64 = 1 << f64::MANTISSA_DIGITS;

/// Parses a score: a number or an infinity. A number that is too large for a float is an error.
fn score(text: &[u8]) -> Option<f64> {
    // Most scores are integers, which need no general method.
    let exact = parse_integer(text).filter(|number| number.unsigned_abs() <= MAX_EXACT);
    if let Some(number) = exact {
        return Some(number as f64);
    }
    let names_infinity = || text.iter().any(|byte| byte.eq_ignore_ascii_case(&b'n'));
    parse_float(text).filter(|score| score.is_finite() || names_infinity())
}

/// A range of members, as a command gives it.
#[derive(Clone, Copy)]
enum MemberRange<'a> {
    /// From one rank to another, which is included; negative ranks count from the end.
    Ranks(i64, i64),
    Scores(ScoreBound, ScoreBound),
    Names(NameBound<'a>, NameBound<'a>),
}

impl<'a> MemberRange<'a> {
    fn ranks(start: &[u8], end: &[u8]) -> Result<Self, CommandError> {
        Ok(MemberRange::Ranks(integer(start)?, integer(end)?))
    }

    fn scores(min: &[u8], max: &[u8]) -> Result<Self, CommandError> {
        let bound = |text| score_bound(text).ok_or(CommandError::Fixed("ERR min or max is not a float"));
        Ok(MemberRange::Scores(bound(min)?, bound(max)?))
    }

    fn names(min: &'a [u8], max: &'a [u8]) -> Result<Self, CommandError> {
        let bound =
            |text| name_bound(text).ok_or(CommandError::Fixed("ERR min or max not valid string range item"));
        Ok(MemberRange::Names(bound(min)?, bound(max)?))
    }

    /// The ranks of its members. `reversed`: if it is in ranks, these count from the end.
    fn find(self, set: &SortedSet, reversed: bool) -> Range<usize> {
        match self {
            MemberRange::Ranks(start, end) => {
                let ranks = index_range(start, end, set.len());
                if reversed { set.len() - ranks.end..set.len() - ranks.start } else { ranks }
            }
            MemberRange::Scores(min, max) => set.ranks_by_score(min, max),
            MemberRange::Names(min, max) => set.ranks_by_name(min, max),
        }
    }
}

/// A score, after `(` if it lies outside of the range. Nothing is zero, and blanks may precede it, as in Redis.
fn score_bound(text: &[u8]) -> Option<ScoreBound> {
    let (is_exclusive, number) = match text {
        [b'(', number @ ..] => (true, number),
        number => (false, number),
    };
    let score = if number.is_empty() { Some(0.0) } else { parse_float(number.trim_ascii_start()) };
    score.map(|score| ScoreBound { score, is_exclusive })
}

fn name_bound(text: &[u8]) -> Option<NameBound<'_>> {
    match text {
        b"-" => Some(NameBound::First),
        b"+" => Some(NameBound::Last),
        [b'[', name @ ..] => Some(NameBound::Inclusive(name)),
        [b'(', name @ ..] => Some(NameBound::Exclusive(name)),
        _ => None,
    }
}

/// Writes members into a reply.
struct MemberWriter<'a> {
    reply: Encoder<'a>,
    with_scores: bool,
    /// Whether a member and its score are an array, as in RESP3. In RESP2 they follow each other.
    is_nested: bool,
}

impl<'a> MemberWriter<'a> {
    fn new(cx: &'a mut Context<'_>, with_scores: bool) -> Self {
        let is_nested = cx.session.protocol() == Protocol::Resp3;
        MemberWriter { reply: cx.reply(), with_scores, is_nested }
    }

    /// The header of the array; this many members follow.
    fn start(&mut self, members: usize) {
        let is_flat = self.with_scores && !self.is_nested;
        self.reply.array(if is_flat { 2 * members } else { members });
    }

    fn write(&mut self, name: &[u8], score: f64) {
        if self.with_scores && self.is_nested {
            self.reply.array(2);
        }
        self.reply.bulk(name);
        if self.with_scores {
            self.reply.double(score);
        }
    }

    /// The members of these ranks, the last one first if `reversed`.
    fn write_range(&mut self, set: &SortedSet, ranks: Range<usize>, reversed: bool) {
        self.start(ranks.len());
        set.visit(ranks, reversed, |name, score| {
            self.write(name, score);
            true
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scores_are_numbers_and_infinities() {
        for (text, expected) in [
            ("1.5", Some(1.5)),
            ("-1e3", Some(-1_000.0)),
            ("inf", Some(f64::INFINITY)),
            ("-Infinity", Some(f64::NEG_INFINITY)),
            ("+inf", Some(f64::INFINITY)),
            ("1e999", None),
            ("nan", None),
            ("", None),
            (" 1", None),
            ("1x", None),
        ] {
            assert_eq!(score(text.as_bytes()), expected, "{text}");
        }
    }

    /// As `strtod` reads them.
    #[test]
    fn blanks_may_precede_a_bound() {
        for (text, expected) in [
            ("1", Some((1.0, false))),
            (" \t1", Some((1.0, false))),
            ("( 1", Some((1.0, true))),
            ("\n+inf", Some((f64::INFINITY, false))),
            ("(", Some((0.0, true))),
            (" (1", None),
            ("1 ", None),
            (" ", None),
        ] {
            let bound = score_bound(text.as_bytes()).map(|bound| (bound.score, bound.is_exclusive));
            assert_eq!(bound, expected, "{text:?}");
        }
    }
}

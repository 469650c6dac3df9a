//! The ids in the arguments of commands.

use std::ops::RangeInclusive;

use crate::cmd::CommandError;
use crate::values::stream::{Id, Stream};

const INVALID: CommandError =
    CommandError::Fixed("ERR Invalid stream ID specified as stream command argument");

/// Parses an id. One that is only a time has this number.
pub(in crate::cmd) fn id(text: &[u8], missing_seq: u64) -> Result<Id, CommandError> {
    let (ms, seq) = split(text);
    let seq = seq.map_or(Some(missing_seq), number);
    number(ms).zip(seq).map(|(ms, seq)| Id { ms, seq }).ok_or(INVALID)
}

/// The time of an id, and its number if it has one.
fn split(text: &[u8]) -> (&[u8], Option<&[u8]>) {
    match text.iter().position(|byte| *byte == b'-') {
        Some(at) => (&text[..at], Some(&text[at + 1..])),
        None => (text, None),
    }
}

/// Digits, which may begin with zeros.
fn number(text: &[u8]) -> Option<u64> {
    let digits = std::str::from_utf8(text).ok().filter(|_| text.iter().all(u8::is_ascii_digit))?;
    digits.parse().ok()
}

/// The ids from a first to a last one, each of which `(` excludes.
pub(super) fn range(first: &[u8], last: &[u8]) -> Result<RangeInclusive<Id>, CommandError> {
    let start = match first.strip_prefix(b"(") {
        Some(text) => {
            let error = CommandError::Fixed("ERR invalid start ID for the interval");
            id(text, 0)?.next().ok_or(error)?
        }
        None => bound(first, 0)?,
    };
    let end = match last.strip_prefix(b"(") {
        Some(text) => {
            let error = CommandError::Fixed("ERR invalid end ID for the interval");
            id(text, u64::MAX)?.previous().ok_or(error)?
        }
        None => bound(last, u64::MAX)?,
    };
    Ok(start..=end)
}

fn bound(text: &[u8], missing_seq: u64) -> Result<Id, CommandError> {
    match text {
        b"-" => Ok(Id::MIN),
        b"+" => Ok(Id::MAX),
        text => id(text, missing_seq),
    }
}

/// The id that `XADD` gives to an entry.
#[derive(Clone, Copy)]
pub(super) enum NewId {
    /// The time now, or what follows the last id.
    Now,
    /// This time, with the next number.
    Time(u64),
    This(Id),
}

impl NewId {
    pub(super) fn parse(text: &[u8]) -> Result<NewId, CommandError> {
        match split(text) {
            (b"*", None) => Ok(NewId::Now),
            (ms, Some(b"*")) => number(ms).map(NewId::Time).ok_or(INVALID),
            _ => id(text, 0).map(NewId::This),
        }
    }

    /// The id of the next entry of a stream.
    pub(super) fn of_next(self, stream: &Stream, now_ms: i64) -> Result<Id, CommandError> {
        let last = stream.head().last_id;
        let following = last.next().ok_or(CommandError::Fixed(
            "ERR The stream has exhausted the last possible ID, unable to add more items",
        ))?;
        let id = match self {
            NewId::Now => following.max(Id { ms: now_ms.unsigned_abs(), seq: 0 }),
            // The number of the last one may be the highest.
            NewId::Time(ms) if ms == last.ms => Id { seq: last.seq.saturating_add(1), ms },
            NewId::Time(ms) => Id { ms, seq: 0 },
            NewId::This(id) => id,
        };
        Some(id).filter(|id| *id > last).ok_or(CommandError::Fixed(
            "ERR The ID specified in XADD is equal or smaller than the target stream top item",
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_numbers_are_ids() {
        let parse = |text: &str| id(text.as_bytes(), 7).ok().map(|id| (id.ms, id.seq));
        for (text, expected) in [
            ("5", Some((5, 7))),
            ("5-0", Some((5, 0))),
            ("007-08", Some((7, 8))),
            ("18446744073709551615-18446744073709551615", Some((u64::MAX, u64::MAX))),
            ("18446744073709551616", None),
            ("", None),
            ("-", None),
            ("+", None),
            ("5-", None),
            ("-5", None),
            ("5--1", None),
            ("5-+1", None),
            ("+5", None),
            (" 5", None),
            ("5-1-1", None),
            ("$", None),
        ] {
            assert_eq!(parse(text), expected, "{text}");
        }
    }
}

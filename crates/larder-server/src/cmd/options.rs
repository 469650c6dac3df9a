//! Options that several commands share.

use std::ops::Range;

use larder_glob::Pattern;
use larder_resp::{Args, parse_integer};

use super::{CommandError, Context, Outcome};
use crate::db::DATABASE_COUNT;

/// The unit and base of a time argument.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum TimeUnit {
    /// Seconds from now.
    Seconds,
    /// Milliseconds from now.
    Millis,
    /// Seconds of Unix time.
    UnixSeconds,
    /// Milliseconds of Unix time.
    UnixMillis,
}

impl TimeUnit {
    /// The unit of a time option of `SET` and `GETEX`.
    fn from_option(option: &[u8]) -> Option<TimeUnit> {
        let is = |name: &[u8]| option.eq_ignore_ascii_case(name);
        match option.len() {
            2 if is(b"EX") => Some(TimeUnit::Seconds),
            2 if is(b"PX") => Some(TimeUnit::Millis),
            4 if is(b"EXAT") => Some(TimeUnit::UnixSeconds),
            4 if is(b"PXAT") => Some(TimeUnit::UnixMillis),
            _ => None,
        }
    }

    /// Reads the argument of a time option. A repeated option replaces the one `before`; a different one is an error.
    pub(super) fn with_argument<'a>(
        option: &[u8],
        words: &mut impl Iterator<Item = &'a [u8]>,
        before: Option<(TimeUnit, &'a [u8])>,
    ) -> Result<(TimeUnit, &'a [u8]), CommandError> {
        let is_allowed = |unit: &TimeUnit| before.is_none_or(|(before, _)| before == *unit);
        let unit = TimeUnit::from_option(option).filter(is_allowed);
        unit.zip(words.next()).ok_or(CommandError::Syntax)
    }

    /// `number` in this unit as milliseconds of Unix time; `None` on overflow.
    pub(super) fn to_unix_ms(self, number: i64, now_ms: i64) -> Option<i64> {
        match self {
            TimeUnit::Seconds => number.checked_mul(1000)?.checked_add(now_ms),
            TimeUnit::Millis => number.checked_add(now_ms),
            TimeUnit::UnixSeconds => number.checked_mul(1000),
            TimeUnit::UnixMillis => Some(number),
        }
    }

    /// Parses the argument of a time option as a deadline. Zero and negative numbers are errors.
    pub(super) fn deadline(
        self,
        text: &[u8],
        now_ms: i64,
        command: &'static str,
    ) -> Result<i64, CommandError> {
        let invalid = CommandError::InvalidExpire(command);
        let number = integer(text)?;
        if number <= 0 {
            return Err(invalid);
        }
        self.to_unix_ms(number, now_ms).ok_or(invalid)
    }
}

/// Parses the index of a database.
pub(super) fn database_index(text: &[u8]) -> Result<u8, CommandError> {
    let number = i32::try_from(integer(text)?).map_err(|_| {
        CommandError::Fixed("ERR value is out of range, value must between -2147483648 and 2147483647")
    })?;
    let index = u8::try_from(number).ok().filter(|index| usize::from(*index) < DATABASE_COUNT);
    index.ok_or(CommandError::Fixed("ERR DB index is out of range"))
}

/// Refuses a request for several databases in cluster mode, with this error: a cluster has one.
pub(super) fn refuse_in_cluster_mode(cx: &Context<'_>, error: &'static str) -> Outcome {
    if cx.state.config.cluster_mode { Err(CommandError::Fixed(error)) } else { Ok(()) }
}

/// Parses an integer in canonical form.
pub(super) fn integer(text: &[u8]) -> Result<i64, CommandError> {
    parse_integer(text).ok_or(CommandError::NotInteger)
}

/// A number that must not be negative.
pub(super) fn count(text: &[u8]) -> Result<usize, CommandError> {
    let count = parse_integer(text).and_then(|count| usize::try_from(count).ok());
    count.ok_or(CommandError::Fixed("ERR value is out of range, must be positive"))
}

/// A number from one on, or this error.
pub(super) fn positive(text: &[u8], error: &'static str) -> Result<usize, CommandError> {
    let number = parse_integer(text).and_then(|number| usize::try_from(number).ok());
    number.filter(|number| *number > 0).ok_or(CommandError::Fixed(error))
}

/// The indices from `start` to `end` inclusive of so many elements. Negative ones count from the end.
pub(super) fn index_range(start: i64, end: i64, len: usize) -> Range<usize> {
    let from_start = |index: i64| if index < 0 { index.saturating_add(len as i64) } else { index };
    let (start, end) = (from_start(start).max(0), from_start(end).min(len as i64 - 1));
    if start > end { 0..0 } else { start as usize..end as usize + 1 }
}

/// The arguments of `LMPOP` and `ZMPOP`.
pub(super) struct MultiPop<'a> {
    pub(super) names: Vec<&'a [u8]>,
    /// From which end members are taken.
    pub(super) word: &'a [u8],
    /// The most members.
    pub(super) count: usize,
}

impl<'a> MultiPop<'a> {
    /// Parses the number of keys and what follows it.
    pub(super) fn parse(args: Args<'a>) -> Result<Self, CommandError> {
        let key_count = positive(&args[0], "ERR numkeys should be greater than 0")?;
        let options = args.skip(1usize.saturating_add(key_count).min(args.len()));
        let word = options.get(0).ok_or(CommandError::Syntax)?;
        let count = match (options.get(1), options.get(2)) {
            (None, _) => 1,
            (Some(word), Some(number)) if word.eq_ignore_ascii_case(b"COUNT") => {
                positive(number, "ERR count should be greater than 0")?
            }
            _ => return Err(CommandError::Syntax),
        };
        if options.len() > 3 {
            return Err(CommandError::Syntax);
        }
        Ok(MultiPop { names: args.skip(1).iter().take(key_count).collect(), word, count })
    }
}

/// Parses the cursor of a scan. As in Redis, an empty one is the first.
pub(super) fn cursor(text: &[u8]) -> Result<u64, CommandError> {
    let text = if text.is_empty() { b"0" } else { text };
    let cursor = std::str::from_utf8(text).ok().and_then(|text| text.parse().ok());
    cursor.ok_or(CommandError::Fixed("ERR invalid cursor"))
}

/// Members that a scan visits without `COUNT`.
const DEFAULT_COUNT: usize = 10;

/// The options of `HSCAN` and `ZSCAN`.
pub(super) struct MemberScan {
    pub(super) count: usize,
    pub(super) pattern: Option<Pattern>,
    pub(super) with_values: bool,
}

impl MemberScan {
    /// Parses what follows the cursor. `NOVALUES` is an option if `has_values`.
    pub(super) fn parse(args: Args<'_>, has_values: bool) -> Result<Self, CommandError> {
        let mut options = MemberScan { count: DEFAULT_COUNT, pattern: None, with_values: true };
        let mut words = args.iter();
        while let Some(word) = words.next() {
            if has_values && word.eq_ignore_ascii_case(b"NOVALUES") {
                options.with_values = false;
                continue;
            }
            let value = words.next().ok_or(CommandError::Syntax)?;
            if word.eq_ignore_ascii_case(b"COUNT") {
                let count = integer(value)?;
                options.count = usize::try_from(count).ok().filter(|n| *n > 0).ok_or(CommandError::Syntax)?;
            } else if word.eq_ignore_ascii_case(b"MATCH") {
                options.pattern = if value == b"*" { None } else { Some(Pattern::new(value)?) };
            } else {
                return Err(CommandError::Syntax);
            }
        }
        Ok(options)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn indices_are_clamped() {
        for (start, end, expected) in [
            (0, -1, 0..5),
            (1, 3, 1..4),
            (-2, -1, 3..5),
            (-100, 100, 0..5),
            (3, 1, 0..0),
            (5, 9, 0..0),
            (0, -6, 0..0),
            (i64::MIN, i64::MAX, 0..5),
        ] {
            assert_eq!(index_range(start, end, 5), expected, "{start} {end}");
        }
        assert_eq!(index_range(0, -1, 0), 0..0);
    }
}

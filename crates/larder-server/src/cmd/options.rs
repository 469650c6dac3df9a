//! Options that several commands take.

use larder_resp::parse_integer;

use super::CommandError;

/// How a command gives a point in time.
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
    /// The unit that an option of `SET` and `GETEX` stands for.
    pub(super) fn of_option(option: &[u8]) -> Option<TimeUnit> {
        let is = |name: &[u8]| option.eq_ignore_ascii_case(name);
        match option.len() {
            2 if is(b"EX") => Some(TimeUnit::Seconds),
            2 if is(b"PX") => Some(TimeUnit::Millis),
            4 if is(b"EXAT") => Some(TimeUnit::UnixSeconds),
            4 if is(b"PXAT") => Some(TimeUnit::UnixMillis),
            _ => None,
        }
    }

    /// `number` of this unit as milliseconds of Unix time; none if that does not fit.
    pub(super) fn to_unix_ms(self, number: i64, now_ms: i64) -> Option<i64> {
        match self {
            TimeUnit::Seconds => number.checked_mul(1000)?.checked_add(now_ms),
            TimeUnit::Millis => number.checked_add(now_ms),
            TimeUnit::UnixSeconds => number.checked_mul(1000),
            TimeUnit::UnixMillis => Some(number),
        }
    }

    /// The deadline that an option's argument means. Zero and negative numbers are refused.
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

/// A whole number in the canonical form.
pub(super) fn integer(text: &[u8]) -> Result<i64, CommandError> {
    parse_integer(text).ok_or(CommandError::NotInteger)
}

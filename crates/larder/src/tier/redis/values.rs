//! Between the values of the client library and those of a tier.

use crate::tier::{Expiry, TierError};
use redis::{ServerError, Value};
use std::time::Duration;

/// A reply of an unexpected type.
fn unexpected(expected: &str, value: &Value) -> TierError {
    TierError::Refused(format!("expected {expected}, got {value:?}"))
}

/// The value, or the error of the server in its place.
pub(super) fn checked(value: Value) -> Result<Value, TierError> {
    match value {
        Value::ServerError(error) => Err(TierError::Refused(text_of(&error))),
        value => Ok(value),
    }
}

/// The error of a server as it sent it, without the name of a script and the line in it: no user knows our scripts.
pub(super) fn text_of(error: &ServerError) -> String {
    let details = error.details().unwrap_or_default();
    let details = details.split_once(" script: ").map_or(details, |(details, _)| details);
    format!("{} {details}", error.code()).trim_end().to_owned()
}

pub(super) fn int(value: Value) -> Result<i64, TierError> {
    match checked(value)? {
        Value::Int(number) => Ok(number),
        other => Err(unexpected("an integer", &other)),
    }
}

/// A field of a reply to `INFO`; empty if it has none.
pub(super) fn info_field<'a>(info: &'a str, name: &str) -> &'a str {
    let field = |line: &'a str| line.strip_prefix(name)?.strip_prefix(':');
    info.lines().find_map(field).unwrap_or_default().trim()
}

/// A string, or nil.
pub(super) fn bytes(value: Value) -> Result<Option<Vec<u8>>, TierError> {
    match checked(value)? {
        Value::Nil => Ok(None),
        Value::BulkString(bytes) => Ok(Some(bytes)),
        Value::SimpleString(text) => Ok(Some(text.into_bytes())),
        Value::VerbatimString { text, .. } => Ok(Some(text.into_bytes())),
        Value::Okay => Ok(Some(b"OK".to_vec())),
        other => Err(unexpected("a string", &other)),
    }
}

/// The first bytes of a key from the reply to GETRANGE; none if it is absent or no string.
pub(super) fn head_of(answer: Value) -> Result<Vec<u8>, TierError> {
    if is_wrong_type(&answer) {
        return Ok(Vec::new());
    }
    Ok(bytes(answer)?.unwrap_or_default())
}

/// Whether the key has another type than the command needs.
pub(super) fn is_wrong_type(answer: &Value) -> bool {
    matches!(answer, Value::ServerError(error) if error.code() == "WRONGTYPE")
}

pub(super) fn text(value: Value) -> Result<String, TierError> {
    Ok(bytes(value)?.map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).unwrap_or_default())
}

pub(super) fn array(value: Value) -> Result<Vec<Value>, TierError> {
    match checked(value)? {
        Value::Array(values) => Ok(values),
        other => Err(unexpected("an array", &other)),
    }
}

/// Every stamp of a ledger is less: beyond it a score is no exact number, and a clock could not advance by one.
pub(super) const STAMP_LIMIT: u64 = 1 << 53;

/// A stamp of a ledger: a whole number in a sorted set's score. No other score orders anything, so it is an error.
pub(super) fn stamp(value: Value) -> Result<Option<u64>, TierError> {
    let value = checked(value)?;
    let number = match &value {
        Value::Nil => return Ok(None),
        Value::Double(number) => Some(*number),
        Value::Int(number) => Some(*number as f64),
        Value::BulkString(bytes) => std::str::from_utf8(bytes).ok().and_then(|text| text.parse().ok()),
        _ => None,
    };
    match number {
        Some(number) if (1.0..STAMP_LIMIT as f64).contains(&number) => Ok(Some(number as u64)),
        _ => Err(unexpected("a stamp from 1 to 2^53 - 1", &value)),
    }
}

/// The reply to TIME, in microseconds.
pub(super) fn time_micros(value: Value) -> Result<u64, TierError> {
    let parts =
        array(value)?.into_iter().map(|part| text(part).ok().and_then(|part| part.parse::<u64>().ok()));
    match parts.collect::<Option<Vec<_>>>().as_deref() {
        Some([seconds, micros]) => Ok(seconds.saturating_mul(1_000_000).saturating_add(*micros)),
        _ => Err(TierError::Refused("TIME is not two numbers".into())),
    }
}

/// The argument of PX: at least 1, and not so large that the server's clock overflows.
pub(super) fn px(ttl: Duration) -> u64 {
    const LONGEST_MS: u64 = 1 << 53;
    u64::try_from(ttl.as_millis()).unwrap_or(LONGEST_MS).clamp(1, LONGEST_MS)
}

/// The option of SET for an expiry, and its argument.
pub(super) fn set_option(expiry: Expiry) -> (&'static str, u64) {
    match expiry {
        Expiry::After(ttl) => ("PX", px(ttl)),
        Expiry::At(deadline_ms) => ("PXAT", deadline_ms),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn error_of_server_has_no_quotes_and_no_script() {
        let text = |sent: &str| match redis::parse_redis_value(format!("-{sent}\r\n").as_bytes()) {
            Ok(Value::ServerError(error)) => text_of(&error),
            other => panic!("{other:?}"),
        };
        let plain = "WRONGTYPE Operation against a key holding the wrong kind of value";
        assert_eq!(text(plain), plain);
        assert_eq!(text(&format!("{plain} script: 4e6d8fc8bb01, on @user_script:1.")), plain);
        assert_eq!(text("OOM command not allowed"), "OOM command not allowed");
        assert_eq!(text("ERR value is not an integer"), "ERR value is not an integer");
    }

    #[test]
    fn score_that_orders_nothing_is_no_stamp() {
        for number in [1.0, 1.7e15, 9_007_199_254_740_991.0] {
            assert_eq!(stamp(Value::Double(number)), Ok(Some(number as u64)));
        }
        let bytes = |text: &str| Value::BulkString(text.into());
        assert_eq!(stamp(bytes("1700000000000001")), Ok(Some(1_700_000_000_000_001)));
        assert_eq!(stamp(Value::Nil), Ok(None));
        for number in [0.0, -5.0, 9_007_199_254_740_992.0, f64::INFINITY, f64::NEG_INFINITY, f64::NAN] {
            assert!(stamp(Value::Double(number)).is_err(), "{number}");
        }
        assert!(stamp(bytes("inf")).is_err() && stamp(bytes("text")).is_err());
    }
}

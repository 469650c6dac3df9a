//! Between the values of the client library and those of a tier.

use crate::tier::{Expiry, TierError};
use redis::{RedisError, Value};
use std::time::Duration;

/// A reply of an unexpected type.
fn unexpected(expected: &str, value: &Value) -> TierError {
    TierError::Refused(format!("expected {expected}, got {value:?}"))
}

/// The value, or the error of the server in its place.
pub(super) fn checked(value: Value) -> Result<Value, TierError> {
    match value {
        Value::ServerError(error) => Err(TierError::Refused(RedisError::from(error).to_string())),
        value => Ok(value),
    }
}

pub(super) fn int(value: Value) -> Result<i64, TierError> {
    match checked(value)? {
        Value::Int(number) => Ok(number),
        other => Err(unexpected("an integer", &other)),
    }
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

/// A stamp of a ledger: a whole number in a sorted set's score.
pub(super) fn stamp(value: Value) -> Result<Option<u64>, TierError> {
    match checked(value)? {
        Value::Nil => Ok(None),
        Value::Double(number) => Ok(Some(number as u64)),
        Value::Int(number) => Ok(Some(number.max(0) as u64)),
        Value::BulkString(bytes) => {
            let number = std::str::from_utf8(&bytes).ok().and_then(|text| text.parse::<f64>().ok());
            number
                .map(|number| Some(number as u64))
                .ok_or_else(|| unexpected("a score", &Value::BulkString(bytes)))
        }
        other => Err(unexpected("a score", &other)),
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

//! Writing values of JavaScript as MessagePack.

use crate::js::{Env, Kind, Value};
use crate::raised::Raised;
use larder_host::profile::{Encoder, Refused};

/// The reason why a value was not written.
pub(super) enum WriteError {
    Refused(Refused),
    /// By code of the program, such as a getter.
    Raised(Raised),
}

impl From<Refused> for WriteError {
    fn from(refused: Refused) -> Self {
        WriteError::Refused(refused)
    }
}

impl From<Raised> for WriteError {
    fn from(raised: Raised) -> Self {
        WriteError::Raised(raised)
    }
}

/// The MessagePack of a value.
pub(super) fn message_pack<'s>(
    env: Env<'s>,
    value: Value<'s>,
    mut encoder: Encoder,
) -> Result<Vec<u8>, WriteError> {
    write(env, value, &mut encoder)?;
    Ok(encoder.finish()?)
}

/// The encoder bounds the depth.
fn write<'s>(env: Env<'s>, value: Value<'s>, out: &mut Encoder) -> Result<(), WriteError> {
    match value.kind(env)? {
        Kind::Null => Ok(out.nil()?),
        Kind::Boolean => Ok(out.boolean(value.boolean(env)?)?),
        Kind::Number => match value.whole(env)? {
            Some(number) => Ok(out.integer(number)?),
            None => Ok(out.float(value.number(env)?)?),
        },
        Kind::BigInt => write_bigint(env, value, out),
        Kind::Text => match value.text(env)? {
            Some(text) => Ok(out.text(&text)?),
            None => Err(out.unsupported("a text with half of a surrogate pair").into()),
        },
        Kind::Object => write_object(env, value, out),
        Kind::Undefined => Err(out.unsupported("undefined").into()),
        Kind::External | Kind::Other => Err(out.unsupported("a function or a symbol").into()),
    }
}

fn write_bigint<'s>(env: Env<'s>, value: Value<'s>, out: &mut Encoder) -> Result<(), WriteError> {
    if let Some(number) = value.signed(env)? {
        return Ok(out.integer(number)?);
    }
    match value.unsigned(env)? {
        Some(number) => Ok(out.unsigned(number)?),
        None => Err(out.unsupported("an integer outside of -2^63 to 2^64 - 1").into()),
    }
}

fn write_object<'s>(env: Env<'s>, object: Value<'s>, out: &mut Encoder) -> Result<(), WriteError> {
    if object.is_array(env)? {
        // Read as it goes: a getter may shorten it.
        let length = object.length(env)?;
        out.begin_list(length as usize)?;
        for index in 0..length {
            write(env, object.element(env, index)?, out)?;
        }
        return Ok(out.end()?);
    }
    if let Some(bytes) = object.bytes(env)? {
        return Ok(out.bytes(&bytes)?);
    }
    if let Some(milliseconds) = object.date(env)? {
        return write_date(milliseconds, out);
    }
    if !is_plain(env, object)? {
        let refusal = "an object of a class, which would be read as a plain object: convert it";
        return Err(out.unsupported(refusal).into());
    }
    let mut properties = Vec::new();
    for name in object.names(env)?.elements(env)? {
        let value = object.property(env, name)?;
        // As in JSON: it could not be told from one that is not there.
        if !value.is_undefined(env)? {
            properties.push((name, value));
        }
    }
    out.begin_map(properties.len())?;
    for (name, value) in properties {
        match name.text(env)? {
            Some(name) => out.key(&name)?,
            None => return Err(out.unsupported("a name with half of a surrogate pair").into()),
        }
        write(env, value, out)?;
    }
    Ok(out.end()?)
}

/// Whether it has no prototype, or that of `{}`, in whatever realm it was made.
fn is_plain<'s>(env: Env<'s>, object: Value<'s>) -> Result<bool, Raised> {
    let prototype = object.prototype(env)?;
    if prototype.kind(env)? == Kind::Null {
        return Ok(true);
    }
    if prototype.kind(env)? != Kind::Object {
        return Ok(false);
    }
    Ok(prototype.prototype(env)?.kind(env)? == Kind::Null)
}

fn write_date(milliseconds: f64, out: &mut Encoder) -> Result<(), WriteError> {
    if !milliseconds.is_finite() {
        return Err(out.unsupported("an invalid Date").into());
    }
    let milliseconds = milliseconds as i64;
    let nanoseconds = milliseconds.rem_euclid(1_000) as u32 * 1_000_000;
    Ok(out.timestamp(milliseconds.div_euclid(1_000), nanoseconds)?)
}

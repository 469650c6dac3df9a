//! Keys: text, bytes, whole numbers, booleans and arrays of them, with the bytes that a key of the same parts has in Rust.

use crate::js::function::Arguments;
use crate::js::{Env, Kind, Value};
use crate::raised::{Raised, Result};
use larder_host::{ErrorClass, KeyParts};

/// How many arrays may be around a part.
const MAX_DEPTH: usize = 16;

/// The bytes of a key.
pub(crate) fn bytes_of<'s>(env: Env<'s>, key: Value<'s>) -> Result<Vec<u8>> {
    nested(env, key, MAX_DEPTH)
}

fn nested<'s>(env: Env<'s>, key: Value<'s>, depth: usize) -> Result<Vec<u8>> {
    let bytes = match key.kind(env)? {
        Kind::Text => key.text(env)?.map(String::into_bytes),
        Kind::Number => key.whole(env)?.map(|number| number.to_string().into_bytes()),
        Kind::BigInt | Kind::Boolean => Some(key.as_text(env)?.into_bytes()),
        Kind::Object => match key.bytes(env)? {
            Some(bytes) => Some(bytes),
            None if depth > 0 && key.is_array(env)? && key.length(env)? > 0 => {
                Some(of_parts(env, key, depth - 1)?)
            }
            None => None,
        },
        _ => None,
    };
    bytes.ok_or_else(|| {
        Raised::of(ErrorClass::KeyType, format!(
            "the key is {}; it must be well-formed text, a Uint8Array, a whole number, a bigint, a boolean, or an array of them \
             that is not empty",
            key.shown(env)
        ))
    })
}

fn of_parts<'s>(env: Env<'s>, parts: Value<'s>, depth: usize) -> Result<Vec<u8>> {
    let mut key = KeyParts::new();
    for part in parts.elements(env)? {
        key.add(&nested(env, part, depth)?);
    }
    Ok(key.into_bytes())
}

/// `keyBytes(key)`: the bytes of a key, as they follow the name of the view in Redis.
pub(crate) fn key_bytes<'s>(env: Env<'s>, given: &Arguments<'s>) -> Result<Value<'s>> {
    env.bytes(&bytes_of(env, given[0])?)
}

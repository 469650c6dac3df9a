//! Keys: strings, symbols, integers, booleans and arrays of them, with the bytes that a key of the same parts has in Rust.

use crate::raised::{Raised, Result};
use crate::ruby::method::Arguments;
use crate::ruby::string::Encoding;
use crate::ruby::value::Kind;
use crate::ruby::{Ruby, Value};
use larder_host::{ErrorClass, KeyParts};

/// How deep the arrays of a key may be in each other.
const MAX_DEPTH: usize = 16;

/// The bytes of a key.
pub(crate) fn bytes_of<'r>(ruby: Ruby<'r>, key: Value<'r>) -> Result<Vec<u8>> {
    match bytes_within(ruby, key, 0)? {
        Some(bytes) => Ok(bytes),
        None => {
            let (shown, class) = (key.shown(ruby)?, key.class_name(ruby)?);
            Err(Raised::new(
                ErrorClass::KeyType,
                format!(
                    "the key {shown} is of class {class}; it must be a String of UTF-8 or bytes, a Symbol, an Integer, true, \
                     false, or an Array of them that is not empty"
                ),
            ))
        }
    }
}

/// `None` for what is no key.
fn bytes_within<'r>(ruby: Ruby<'r>, key: Value<'r>, depth: usize) -> Result<Option<Vec<u8>>> {
    if is_plain_string(key) {
        return Ok(Some(key.bytes()));
    }
    match key.kind() {
        Kind::Symbol => {
            let name = key.name(ruby)?;
            Ok(is_plain_string(name).then(|| name.bytes()))
        }
        Kind::Integer => Ok(Some(key.call(ruby, "to_s", &[])?.bytes())),
        Kind::Boolean(truth) => Ok(Some(if truth { b"true".to_vec() } else { b"false".to_vec() })),
        Kind::Array if depth < MAX_DEPTH => of_parts(ruby, key, depth),
        _ => Ok(None),
    }
}

/// Whether the bytes of a string are what a text of it has in every language.
#[inline]
pub(crate) fn is_plain_string(key: Value<'_>) -> bool {
    key.is_string() && key.encoding() != Encoding::Other
}

fn of_parts<'r>(ruby: Ruby<'r>, array: Value<'r>, depth: usize) -> Result<Option<Vec<u8>>> {
    let length = array.length(ruby)?;
    let mut parts = KeyParts::new();
    for index in 0..length {
        let Some(part) = bytes_within(ruby, array.element(index), depth + 1)? else { return Ok(None) };
        parts.add(&part);
    }
    Ok((length > 0).then(|| parts.into_bytes()))
}

/// `Larder.key_bytes(key)`: the bytes of a key, as they follow the name of the view in Redis.
pub(crate) fn key_bytes<'r>(ruby: Ruby<'r>, given: Arguments<'r>) -> Result<Value<'r>> {
    ruby.bytes(&bytes_of(ruby, given.get(0))?)
}

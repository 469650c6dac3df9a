//! Keys: binaries, integers, booleans and other atoms, and tuples of them, with the bytes that a key of the same parts has in
//! Rust.

use crate::erl::nif::Call;
use crate::erl::{Kind, Term};
use crate::raised::{Raised, Result};
use larder_host::{ErrorClass, KeyParts};
use std::borrow::Cow;

/// How many tuples may be around a part.
const MAX_DEPTH: usize = 16;

/// The bytes of a key. A binary is its own.
#[inline]
pub(crate) fn bytes_of(key: Term<'_>) -> Result<Cow<'_, [u8]>> {
    match key.bytes() {
        Some(bytes) => Ok(Cow::Borrowed(bytes)),
        None => Ok(Cow::Owned(nested(key, MAX_DEPTH)?)),
    }
}

fn nested(key: Term<'_>, depth: usize) -> Result<Vec<u8>> {
    let bytes = match key.kind() {
        Kind::Bitstring => key.bytes().map(<[u8]>::to_vec),
        Kind::Integer => match (key.integer(), key.unsigned()) {
            (Some(number), _) => Some(number.to_string().into_bytes()),
            (None, Some(number)) => Some(number.to_string().into_bytes()),
            (None, None) => None,
        },
        // `nil` is what a lookup without a result leaves: as a key it would be a mistake.
        Kind::Atom => key.atom_text().filter(|text| text != "nil").map(String::into_bytes),
        Kind::Tuple if depth > 0 => of_parts(key, depth - 1)?,
        _ => None,
    };
    bytes.ok_or_else(|| {
        Raised::new(
            ErrorClass::KeyType,
            format!(
                "the key is {}; it must be a binary, an integer of 64 bits, an atom other than nil, or a tuple of them that is not \
                 empty",
                key.shown()
            ),
        )
    })
}

/// `None` if there are none.
fn of_parts(parts: Term<'_>, depth: usize) -> Result<Option<Vec<u8>>> {
    let (mut key, mut is_empty) = (KeyParts::new(), true);
    for part in parts.tuple_elements() {
        key.add(&nested(part, depth)?);
        is_empty = false;
    }
    Ok((!is_empty).then(|| key.into_bytes()))
}

/// `key_bytes(key)`: the bytes of a key, as they follow the name of the view in Redis.
pub(crate) fn key_bytes<'e>(call: &Call<'_, 'e>) -> Result<Term<'e>> {
    Ok(call.env.binary(&bytes_of(call.given[0])?))
}

/// How many keys are read on a thread that runs processes.
const MAX_QUICK_KEYS: usize = 500;

/// The keys of a list.
pub(crate) fn keys_of(call: &Call<'_, '_>, keys: Term<'_>) -> Result<Vec<Vec<u8>>> {
    if !call.may_take_long && keys.has_more_elements_than(MAX_QUICK_KEYS) {
        return Err(Raised::TooLong);
    }
    keys.elements().map(|key| Ok(bytes_of(key)?.into_owned())).collect()
}

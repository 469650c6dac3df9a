//! Keys: text, bytes, whole numbers, booleans and tuples of them, with the bytes that a key of the same parts has in Rust.

use crate::raised::KeyTypeError;
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyBytes, PyInt, PyString, PyTuple};
use std::borrow::Cow;

/// Separates the parts of a tuple. In a part it is escaped.
const SEPARATOR: u8 = b':';
const ESCAPE: u8 = b'\\';

/// The bytes of a key.
pub(crate) fn bytes_of<'k>(key: &'k Bound<'_, PyAny>) -> PyResult<Cow<'k, [u8]>> {
    if let Ok(text) = key.cast::<PyString>() {
        return Ok(Cow::Borrowed(text.to_str()?.as_bytes()));
    }
    if let Ok(bytes) = key.cast::<PyBytes>() {
        return Ok(Cow::Borrowed(bytes.as_bytes()));
    }
    if let Ok(truth) = key.cast::<PyBool>() {
        return Ok(Cow::Borrowed(if truth.is_true() { b"true" } else { b"false" }));
    }
    // Without the name that an enumeration or another subclass may print.
    if key.is_exact_instance_of::<PyInt>() {
        return Ok(Cow::Owned(key.str()?.to_str()?.as_bytes().to_owned()));
    }
    if let Ok(parts) = key.cast::<PyTuple>().map_err(drop)
        && !parts.is_empty()
    {
        return of_parts(parts).map(Cow::Owned);
    }
    Err(KeyTypeError::new_err(format!(
        "the key {} is of type {}; it must be str, bytes, int, bool, or a tuple of them that is not empty",
        key.repr().map_or_else(|_| "?".to_owned(), |shown| shown.to_string()),
        key.get_type().name()?
    )))
}

fn of_parts(parts: &Bound<'_, PyTuple>) -> PyResult<Vec<u8>> {
    let mut out = Vec::new();
    for (number, part) in parts.iter().enumerate() {
        if number > 0 {
            out.push(SEPARATOR);
        }
        for byte in bytes_of(&part)?.iter() {
            if matches!(*byte, SEPARATOR | ESCAPE) {
                out.push(ESCAPE);
            }
            out.push(*byte);
        }
    }
    Ok(out)
}

/// The bytes of a key, as they follow the name of the view in Redis.
#[pyfunction]
pub(crate) fn key_bytes<'py>(key: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyBytes>> {
    Ok(PyBytes::new(key.py(), &bytes_of(key)?))
}

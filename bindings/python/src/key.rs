//! Keys: text, bytes, whole numbers, booleans and tuples of them, with the bytes that a key of the same parts has in Rust.

use crate::raised::KeyTypeError;
use larder_host::KeyParts;
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyBytes, PyInt, PyString, PyTuple};
use std::borrow::Cow;

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
    let mut key = KeyParts::new();
    for part in parts {
        key.add(&bytes_of(&part)?);
    }
    Ok(key.into_bytes())
}

/// The bytes of a key, as they follow the name of the view in Redis.
#[pyfunction]
pub(crate) fn key_bytes<'py>(key: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyBytes>> {
    Ok(PyBytes::new(key.py(), &bytes_of(key)?))
}

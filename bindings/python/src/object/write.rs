//! Writing objects of Python as MessagePack.

use larder_host::profile::{Encoder, Refused};
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{
    PyBool, PyByteArray, PyBytes, PyDateTime, PyDelta, PyDict, PyFloat, PyInt, PyList, PyString, PyTuple,
};

/// The reason why an object was not written.
pub(super) enum WriteError {
    Refused(Refused),
    /// By Python.
    Raised(PyErr),
}

impl From<Refused> for WriteError {
    fn from(refused: Refused) -> Self {
        WriteError::Refused(refused)
    }
}

impl From<PyErr> for WriteError {
    fn from(raised: PyErr) -> Self {
        WriteError::Raised(raised)
    }
}

/// The MessagePack of an object.
pub(super) fn message_pack(object: &Bound<'_, PyAny>, mut encoder: Encoder) -> Result<Vec<u8>, WriteError> {
    write(object, &mut encoder)?;
    Ok(encoder.finish()?)
}

/// Only of exact types: an enumeration, a named tuple or another subclass would be read as something else. The encoder bounds
/// the depth.
fn write(object: &Bound<'_, PyAny>, out: &mut Encoder) -> Result<(), WriteError> {
    if object.is_none() {
        return Ok(out.nil()?);
    }
    if let Ok(text) = object.cast_exact::<PyString>() {
        return Ok(out.text(text.to_str()?)?);
    }
    if let Ok(truth) = object.cast_exact::<PyBool>() {
        return Ok(out.boolean(truth.is_true())?);
    }
    if object.cast_exact::<PyInt>().is_ok() {
        return write_integer(object, out);
    }
    if let Ok(number) = object.cast_exact::<PyFloat>() {
        return Ok(out.float(number.extract()?)?);
    }
    if let Ok(map) = object.cast_exact::<PyDict>() {
        return write_map(map, out);
    }
    if let Ok(list) = object.cast_exact::<PyList>() {
        return write_list(list.len(), list.iter(), out);
    }
    if let Ok(tuple) = object.cast_exact::<PyTuple>() {
        return write_list(tuple.len(), tuple.iter(), out);
    }
    if let Ok(bytes) = object.cast_exact::<PyBytes>() {
        return Ok(out.bytes(bytes.as_bytes())?);
    }
    if let Ok(bytes) = object.cast_exact::<PyByteArray>() {
        return Ok(out.bytes(&bytes.to_vec())?);
    }
    if let Ok(time) = object.cast_exact::<PyDateTime>() {
        return write_time(time, out);
    }
    let name = object.get_type().name()?;
    Err(out
        .unsupported(format!(
            "a value of type {name}, which other languages do not read: convert it, or use codec='pickle'"
        ))
        .into())
}

fn write_integer(number: &Bound<'_, PyAny>, out: &mut Encoder) -> Result<(), WriteError> {
    if let Ok(number) = number.extract::<i64>() {
        return Ok(out.integer(number)?);
    }
    match number.extract::<u64>() {
        Ok(number) => Ok(out.unsigned(number)?),
        Err(_) => Err(out.unsupported("an integer outside of -2^63 to 2^64 - 1").into()),
    }
}

fn write_list<'py>(
    length: usize,
    elements: impl Iterator<Item = Bound<'py, PyAny>>,
    out: &mut Encoder,
) -> Result<(), WriteError> {
    out.begin_list(length)?;
    for element in elements {
        write(&element, out)?;
    }
    Ok(out.end()?)
}

fn write_map(map: &Bound<'_, PyDict>, out: &mut Encoder) -> Result<(), WriteError> {
    out.begin_map(map.len())?;
    for (key, value) in map {
        match key.cast_exact::<PyString>() {
            Ok(text) => out.key(text.to_str()?)?,
            Err(_) => {
                let name = key.get_type().name()?;
                return Err(out
                    .unsupported(format!("a key of type {name}; the keys of a map are str"))
                    .into());
            }
        }
        write(&value, out)?;
    }
    Ok(out.end()?)
}

fn write_time(time: &Bound<'_, PyDateTime>, out: &mut Encoder) -> Result<(), WriteError> {
    if time.getattr("tzinfo")?.is_none() {
        return Err(out.unsupported("a datetime without a time zone").into());
    }
    let since = time.sub(epoch(time.py())?)?;
    let since = since.cast::<PyDelta>().map_err(PyErr::from)?;
    let part = |name| since.getattr(name)?.extract::<i64>();
    let seconds = part("days")? * 86_400 + part("seconds")?;
    let nanoseconds = part("microseconds")? * 1_000;
    Ok(out.timestamp(seconds, u32::try_from(nanoseconds).expect("less than a second"))?)
}

/// The begin of 1970 UTC.
pub(super) fn epoch(py: Python<'_>) -> PyResult<&Bound<'_, PyAny>> {
    static EPOCH: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    let epoch = EPOCH.get_or_try_init(py, || {
        let module = py.import("datetime")?;
        let utc = module.getattr("timezone")?.getattr("utc")?;
        Ok::<_, PyErr>(module.getattr("datetime")?.call1((1970, 1, 1, 0, 0, 0, 0, utc))?.unbind())
    })?;
    Ok(epoch.bind(py))
}

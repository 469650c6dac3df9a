//! Values: objects of Python and the bytes of them.

mod read;
mod write;

use crate::log;
use crate::raised::EncodeError;
use larder_host::{HostCodec, HostValue, Payload};
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyBytes, PyFloat, PyInt, PyNone, PyString};
use std::ops::Deref;

/// A value in the tiers, with an object of Python beside it.
pub(crate) type Value = HostValue<Py<PyAny>>;

/// How a view reads and writes its values.
pub(crate) struct Encoding {
    pub(crate) codec: HostCodec,
    /// Of a view with private values.
    pickle: Option<Pickle>,
    /// Whether all hits share one object, also one that can be changed.
    shared: bool,
    max_bytes: usize,
}

struct Pickle {
    dumps: Py<PyAny>,
    loads: Py<PyAny>,
}

impl Encoding {
    pub(crate) fn of_all_languages(codec: HostCodec, shared: bool, max_bytes: usize) -> Self {
        Encoding { codec, pickle: None, shared, max_bytes }
    }

    pub(crate) fn pickle(py: Python<'_>, codec: HostCodec, shared: bool, max_bytes: usize) -> PyResult<Self> {
        let module = py.import("pickle")?;
        let pickle =
            Pickle { dumps: module.getattr("dumps")?.unbind(), loads: module.getattr("loads")?.unbind() };
        Ok(Encoding { codec, pickle: Some(pickle), shared, max_bytes })
    }

    /// The value of an object, for the entry of a key.
    pub(crate) fn value(&self, key: &[u8], object: &Bound<'_, PyAny>) -> PyResult<Value> {
        let Some(pickle) = &self.pickle else {
            let bytes = write::message_pack(object, self.codec.encoder(self.max_bytes))
                .map_err(|error| refused(key, error))?;
            return Ok(self.codec.message_pack_value(key, bytes));
        };
        if is_immutable(object)
            && let Ok(bytes) = write::message_pack(object, self.codec.encoder(self.max_bytes))
        {
            return Ok(self.codec.message_pack_value(key, bytes));
        }
        // The highest protocol of the oldest Python that the package runs on.
        let pickled = pickle.dumps.bind(object.py()).call1((object, 5))?;
        Ok(self.codec.private_value(key, pickled.cast::<PyBytes>()?.as_bytes()))
    }

    /// The object of a value that was found under a key. `None`, as if it were not there: it was signed for another key, or a
    /// class of it does not exist any more.
    pub(crate) fn object<'py>(
        &self,
        py: Python<'py>,
        value: &impl Deref<Target = Value>,
        key: &[u8],
    ) -> PyResult<Option<Bound<'py, PyAny>>> {
        if let Some(kept) = value.object() {
            return Ok(Some(kept.bind(py).clone()));
        }
        let Some(payload) = self.codec.payload(value, key) else { return Ok(None) };
        let object = match self.read(py, payload) {
            Ok(object) => object,
            Err(error) => return unreadable(py, key, error).map(|()| None),
        };
        if self.shared || is_immutable(&object) {
            return Ok(Some(value.keep(object.unbind()).bind(py).clone()));
        }
        Ok(Some(object))
    }

    fn read<'py>(&self, py: Python<'py>, payload: Payload<'_>) -> PyResult<Bound<'py, PyAny>> {
        match (payload, &self.pickle) {
            (Payload::MessagePack(bytes), _) => read::message_pack(py, bytes),
            (Payload::Private(bytes), Some(pickle)) => {
                pickle.loads.bind(py).call1((PyBytes::new(py, bytes),))
            }
            (Payload::Private(_), None) => Err(EncodeError::new_err("the value is a pickle")),
        }
    }
}

/// Whether all callers may have the same object. MessagePack gives it back with its type.
fn is_immutable(object: &Bound<'_, PyAny>) -> bool {
    object.is_exact_instance_of::<PyString>()
        || object.is_exact_instance_of::<PyInt>()
        || object.is_exact_instance_of::<PyBytes>()
        || object.is_exact_instance_of::<PyFloat>()
        || object.is_exact_instance_of::<PyBool>()
        || object.is_exact_instance_of::<PyNone>()
}

/// A value that cannot be read is a miss, and the log says so. An interruption is none.
fn unreadable(py: Python<'_>, key: &[u8], error: PyErr) -> PyResult<()> {
    if !error.is_instance_of::<pyo3::exceptions::PyException>(py) {
        return Err(error);
    }
    let key = String::from_utf8_lossy(key);
    log::logger(py)?
        .call_method1("warning", ("the value of key %r cannot be read: %r", &*key, error.value(py)))?;
    Ok(())
}

fn refused(key: &[u8], error: write::WriteError) -> PyErr {
    let key = String::from_utf8_lossy(key);
    match error {
        write::WriteError::Refused(refused) => {
            EncodeError::new_err(format!("the value of key {key:?} cannot be written: {refused}"))
        }
        write::WriteError::Raised(raised) => raised,
    }
}

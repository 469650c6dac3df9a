//! Making objects of Python from MessagePack.

use super::write::epoch;
use crate::raised::EncodeError;
use larder_host::profile::{DecodeError, Visitor, decode};
use pyo3::IntoPyObjectExt;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDelta, PyDict, PyList, PyString};

/// The object of some MessagePack.
pub(super) fn message_pack<'py>(py: Python<'py>, bytes: &[u8]) -> PyResult<Bound<'py, PyAny>> {
    let mut maker = Maker { py, open: Vec::new(), made: None };
    match decode(bytes, &mut maker) {
        Ok(()) => Ok(maker.made.expect("the bytes were one value")),
        Err(DecodeError::Visitor(raised)) => Err(raised),
        Err(DecodeError::Refused(refused)) => Err(EncodeError::new_err(refused.to_string())),
    }
}

struct Maker<'py> {
    py: Python<'py>,
    /// The lists and maps that have no end yet.
    open: Vec<Open<'py>>,
    made: Option<Bound<'py, PyAny>>,
}

enum Open<'py> {
    List(Bound<'py, PyList>),
    /// With the key of its next value.
    Map(Bound<'py, PyDict>, Option<Bound<'py, PyString>>),
}

impl<'py> Maker<'py> {
    fn add(&mut self, object: impl IntoPyObjectExt<'py>) -> PyResult<()> {
        let object = object.into_bound_py_any(self.py)?;
        match self.open.last_mut() {
            None => self.made = Some(object),
            Some(Open::List(list)) => list.append(object)?,
            Some(Open::Map(map, key)) => {
                map.set_item(key.take().expect("a key comes before its value"), object)?
            }
        }
        Ok(())
    }
}

impl Visitor for Maker<'_> {
    type Error = PyErr;

    fn nil(&mut self) -> PyResult<()> {
        self.add(self.py.None())
    }

    fn boolean(&mut self, value: bool) -> PyResult<()> {
        self.add(value)
    }

    fn integer(&mut self, value: i64) -> PyResult<()> {
        self.add(value)
    }

    fn unsigned(&mut self, value: u64) -> PyResult<()> {
        self.add(value)
    }

    fn float(&mut self, value: f64) -> PyResult<()> {
        self.add(value)
    }

    fn text(&mut self, value: &str) -> PyResult<()> {
        self.add(value)
    }

    fn bytes(&mut self, value: &[u8]) -> PyResult<()> {
        self.add(PyBytes::new(self.py, value))
    }

    /// Python has microseconds: a nanosecond is lost. A year outside of 1 to 9999 is an `OverflowError`.
    fn timestamp(&mut self, seconds: i64, nanoseconds: u32) -> PyResult<()> {
        let (days, seconds) = (seconds.div_euclid(86_400), seconds.rem_euclid(86_400));
        let since = PyDelta::new(
            self.py,
            i32::try_from(days)?,
            i32::try_from(seconds)?,
            i32::try_from(nanoseconds / 1_000)?,
            false,
        )?;
        self.add(epoch(self.py)?.add(since)?)
    }

    fn begin_list(&mut self, _: usize) -> PyResult<()> {
        self.open.push(Open::List(PyList::empty(self.py)));
        Ok(())
    }

    fn begin_map(&mut self, _: usize) -> PyResult<()> {
        self.open.push(Open::Map(PyDict::new(self.py), None));
        Ok(())
    }

    fn key(&mut self, key: &str) -> PyResult<()> {
        if let Some(Open::Map(_, next)) = self.open.last_mut() {
            // Maps of one kind have the same keys: each text of them exists once.
            *next = Some(PyString::intern(self.py, key));
        }
        Ok(())
    }

    fn end(&mut self) -> PyResult<()> {
        match self.open.pop().expect("it was begun") {
            Open::List(list) => self.add(list),
            Open::Map(map, _) => self.add(map),
        }
    }
}

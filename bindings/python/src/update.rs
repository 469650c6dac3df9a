//! An update by a function of Python, which runs in its caller between the steps.

use crate::call::Call;
use crate::object::{Encoding, Value};
use crate::raised::{Failure, of_host};
use larder_host::{Change, HostCache, HostError, UpdateStep, UpdateTry};
use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use std::sync::{Arc, Mutex, PoisonError};

type Step = Result<UpdateStep<Py<PyAny>, Failure>, HostError>;

/// A value to decide about. Python drops it to leave the value as it is.
#[pyclass(frozen, module = "larder_cache")]
pub(crate) struct Update {
    step: Mutex<Option<UpdateTry<Py<PyAny>, Failure>>>,
    own: Own,
}

/// What the steps of an update share.
#[derive(Clone)]
struct Own {
    key: Vec<u8>,
    /// What stands for no value.
    default: Arc<Py<PyAny>>,
    encoding: Arc<Encoding>,
    cache: HostCache,
}

impl Own {
    /// The object of a value; the default for none, and for one that Python cannot read.
    fn object<'py>(&self, py: Python<'py>, found: Option<&Value>) -> PyResult<Bound<'py, PyAny>> {
        let object = found.map(|found| self.encoding.object(py, &found, &self.key)).transpose()?.flatten();
        Ok(object.unwrap_or_else(|| self.default.bind(py).clone()))
    }

    /// A call that results in an [`Update`], or in what is there at the end.
    fn call(self, step: impl Future<Output = Step> + Send + 'static) -> Call {
        let cache = self.cache.clone();
        Call::new(&cache, step, move |py, step| match step.map_err(of_host)? {
            UpdateStep::Decide(step) => {
                Ok(Bound::new(py, Update { step: Mutex::new(Some(step)), own: self })?.into_any())
            }
            UpdateStep::Done(found) => self.object(py, found.as_deref()),
        })
    }
}

/// A call that begins an update.
pub(crate) fn begin(
    (cache, encoding): (&HostCache, &Arc<Encoding>),
    key: Vec<u8>,
    default: Py<PyAny>,
    step: impl Future<Output = Step> + Send + 'static,
) -> Call {
    Own { key, default: Arc::new(default), encoding: encoding.clone(), cache: cache.clone() }.call(step)
}

impl Update {
    fn decide(&self, change: Change<Py<PyAny>>) -> PyResult<Call> {
        let step = self.step.lock().unwrap_or_else(PoisonError::into_inner).take();
        let step = step.ok_or_else(|| PyRuntimeError::new_err("the update has ended"))?;
        Ok(self.own.clone().call(step.decide(change)))
    }
}

#[pymethods]
impl Update {
    /// The value, or the default.
    #[getter]
    fn value<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let step = self.step.lock().unwrap_or_else(PoisonError::into_inner);
        let found = step.as_ref().and_then(|step| step.value().cloned());
        drop(step);
        self.own.object(py, found.as_deref())
    }

    fn _put(&self, value: &Bound<'_, PyAny>) -> PyResult<Call> {
        let value = self.own.encoding.value(&self.own.key, value);
        self.decide(Change::Put(value.inspect_err(|_| self._abandon())?))
    }

    fn _keep(&self) -> PyResult<Call> {
        self.decide(Change::Keep)
    }

    fn _remove(&self) -> PyResult<Call> {
        self.decide(Change::Remove)
    }

    /// Leaves the value as it is: others need not wait until Python drops this.
    fn _abandon(&self) {
        drop(self.step.lock().unwrap_or_else(PoisonError::into_inner).take());
    }
}

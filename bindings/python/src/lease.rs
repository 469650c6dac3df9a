//! The right to load keys: its caller ends it with what it has loaded.

use crate::call::Call;
use crate::object::{Encoding, Value};
use crate::options::time;
use crate::raised::{Failure, of_fetch};
use larder::{BulkLeased, FetchError, Fetched, Loaded};
use larder_host::{HostCache, HostLoad};
use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

/// The right to load one key. Without an end it is given up when Python drops it.
#[pyclass(frozen, module = "larder_cache", name = "Load")]
pub(crate) struct Lease {
    load: Mutex<Option<NativeLoad>>,
    key: Vec<u8>,
    encoding: Arc<Encoding>,
    cache: HostCache,
}

type NativeLoad = HostLoad<Py<PyAny>, Failure>;
type NativeBulkLease = larder::BulkLease<[u8], Value, Failure>;

impl Lease {
    pub(crate) fn new(load: NativeLoad, key: Vec<u8>, encoding: Arc<Encoding>, cache: HostCache) -> Self {
        Lease { load: Mutex::new(Some(load)), key, encoding, cache }
    }

    fn take(&self) -> PyResult<NativeLoad> {
        let taken = self.load.lock().unwrap_or_else(PoisonError::into_inner).take();
        taken.ok_or_else(ended)
    }

    fn with<R>(&self, act: impl FnOnce(&NativeLoad) -> R) -> PyResult<R> {
        self.load.lock().unwrap_or_else(PoisonError::into_inner).as_ref().map(act).ok_or_else(ended)
    }

    /// A call that ends with a value, or with an error that `raised` makes.
    fn ending(
        &self,
        end: impl Future<Output = Result<Arc<Value>, FetchError<Failure>>> + Send + 'static,
        raised: impl for<'py> FnOnce(Python<'py>, FetchError<Failure>) -> PyErr + Send + 'static,
    ) -> Call {
        let (key, encoding) = (self.key.clone(), self.encoding.clone());
        Call::new(&self.cache, end, move |py, outcome| match outcome {
            Ok(found) => Ok(encoding.object(py, &found, &key)?.unwrap_or_else(|| py.None().into_bound(py))),
            Err(error) => Err(raised(py, error)),
        })
    }
}

fn ended() -> PyErr {
    PyRuntimeError::new_err("the load has ended")
}

#[pymethods]
impl Lease {
    /// The stale value, or `None`.
    #[getter]
    fn stale<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyAny>>> {
        let stale = self.with(|lease| lease.cx().stale().cloned())?;
        let Some(stale) = stale else { return Ok(None) };
        self.encoding.object(py, &stale, &self.key)
    }

    /// The TTL of the value.
    fn ttl(&self, ttl: &Bound<'_, PyAny>) -> PyResult<()> {
        let ttl = time("ttl", ttl)?;
        self.with(|lease| lease.cx().ttl(ttl))
    }

    /// The grace period of the value.
    fn grace(&self, grace: &Bound<'_, PyAny>) -> PyResult<()> {
        let grace = time("grace", grace)?;
        self.with(|lease| lease.cx().grace(grace))
    }

    /// Adds a tag to the value.
    fn tag(&self, tag: &str) -> PyResult<()> {
        self.with(|lease| lease.cx().tag(tag))
    }

    /// Returns the value to its callers and stores it nowhere.
    fn no_store(&self) -> PyResult<()> {
        self.with(|lease| lease.cx().no_store())
    }

    fn _complete(&self, value: &Bound<'_, PyAny>) -> PyResult<Call> {
        // Taken first: a value that cannot be encoded gives the load up at once, however long Python keeps this.
        let load = self.take()?;
        let end = load.complete(self.encoding.value(&self.key, value)?);
        Ok(self.ending(end, |py, error| of_fetch(py, &error)))
    }

    fn _keep(&self) -> PyResult<Call> {
        let end = self.take()?.complete(Loaded::NotModified);
        Ok(self.ending(end, |py, error| of_fetch(py, &error)))
    }

    /// The caller gets its own exception, or the stale value.
    fn _fail(&self, raised: Bound<'_, PyAny>) -> PyResult<Call> {
        let failure = Failure::Raised(PyErr::from_value(raised.clone()));
        let own = PyErr::from_value(raised);
        let end = self.take()?.fail(failure);
        Ok(self.ending(end, |py, error| match error {
            FetchError::Load(_) => own,
            other => of_fetch(py, &other),
        }))
    }

    /// Gives the load up: the next caller leads.
    fn _abandon(&self) {
        drop(self.take());
    }
}

/// The right to load several keys.
#[pyclass(frozen, module = "larder_cache", name = "BulkLoad")]
pub(crate) struct BulkLease {
    lease: Mutex<Option<NativeBulkLease>>,
    keys: Arc<BulkKeys>,
    cache: HostCache,
}

/// The keys of a call for several, as Python has them, and the encoding of their values.
pub(crate) struct BulkKeys {
    /// Each once, in the order of the call.
    pub(crate) bytes: Vec<Vec<u8>>,
    pub(crate) objects: HashMap<Vec<u8>, Py<PyAny>>,
    pub(crate) encoding: Arc<Encoding>,
}

impl BulkKeys {
    /// A dictionary of the values that were found or loaded.
    pub(crate) fn dict<'py, F: std::ops::Deref<Target = Value>>(
        &self,
        py: Python<'py>,
        found: impl IntoIterator<Item = Option<F>>,
    ) -> PyResult<Bound<'py, PyDict>> {
        let values = PyDict::new(py);
        for (key, found) in self.bytes.iter().zip(found) {
            let Some(found) = found else { continue };
            if let Some(object) = self.encoding.object(py, &found, key)? {
                values.set_item(&self.objects[key], object)?;
            }
        }
        Ok(values)
    }
}

/// What a step of a call for several keys results in: a lease, or the values.
pub(crate) fn bulk_answer<'py>(
    py: Python<'py>,
    leased: BulkLeased<[u8], Value, Failure>,
    keys: Arc<BulkKeys>,
    cache: HostCache,
) -> PyResult<Bound<'py, PyAny>> {
    match leased {
        BulkLeased::Lead(lease) => {
            let lease = BulkLease { lease: Mutex::new(Some(lease)), keys, cache };
            Ok(Bound::new(py, lease)?.into_any())
        }
        BulkLeased::Done(outcomes) => {
            let found = outcomes.into_iter().map(|outcome| outcome.map_err(|error| of_fetch(py, &error)));
            let found = found.collect::<PyResult<Vec<_>>>()?;
            Ok(keys.dict(py, found.into_iter().map(|found| found.map(Fetched::into_arc)))?.into_any())
        }
    }
}

impl BulkLease {
    fn take(&self) -> PyResult<NativeBulkLease> {
        let taken = self.lease.lock().unwrap_or_else(PoisonError::into_inner).take();
        taken.ok_or_else(ended)
    }

    fn ending(&self, end: impl Future<Output = BulkLeased<[u8], Value, Failure>> + Send + 'static) -> Call {
        let (keys, cache) = (self.keys.clone(), self.cache.clone());
        Call::new(&self.cache, end, move |py, leased| bulk_answer(py, leased, keys, cache))
    }

    fn with<R>(&self, act: impl FnOnce(&NativeBulkLease) -> R) -> PyResult<R> {
        self.lease.lock().unwrap_or_else(PoisonError::into_inner).as_ref().map(act).ok_or_else(ended)
    }
}

#[pymethods]
impl BulkLease {
    /// The keys to load, as they were passed.
    #[getter]
    fn keys<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        let keys = self.with(|lease| lease.keys().to_vec())?;
        PyList::new(py, keys.iter().map(|key| self.keys.objects[key].bind(py)))
    }

    /// The TTL of each value.
    fn ttl(&self, ttl: &Bound<'_, PyAny>) -> PyResult<()> {
        let ttl = time("ttl", ttl)?;
        self.with(|lease| lease.cx().ttl(ttl))
    }

    /// Adds a tag to each value.
    fn tag(&self, tag: &str) -> PyResult<()> {
        self.with(|lease| lease.cx().tag(tag))
    }

    /// Returns the values to their callers and stores none.
    fn no_store(&self) -> PyResult<()> {
        self.with(|lease| lease.cx().no_store())
    }

    /// Values by their keys. A key without one is absent.
    fn _complete(&self, loaded: &Bound<'_, PyDict>) -> PyResult<Call> {
        let lease = self.take()?;
        let mut values = Vec::with_capacity(loaded.len());
        for (key, value) in loaded {
            let key = crate::key::bytes_of(&key)?.into_owned();
            let value = self.keys.encoding.value(&key, &value)?;
            values.push((key, value));
        }
        Ok(self.ending(async move { lease.complete(values).await }))
    }

    fn _fail(&self, raised: Bound<'_, PyAny>) -> PyResult<Call> {
        let lease = self.take()?;
        let raised = PyErr::from_value(raised);
        let own = Python::attach(|py| raised.clone_ref(py));
        let (keys, cache) = (self.keys.clone(), self.cache.clone());
        // Its caller gets its own exception.
        Ok(Call::new(
            &self.cache,
            async move { lease.fail(Failure::Raised(raised)).await },
            move |py, leased| match leased {
                BulkLeased::Done(outcomes) if outcomes.iter().any(Result::is_err) => Err(own),
                leased => bulk_answer(py, leased, keys, cache),
            },
        ))
    }

    /// Gives the load up: the next caller leads.
    fn _abandon(&self) {
        drop(self.take());
    }
}

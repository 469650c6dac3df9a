//! A call of larder that is under way, or will be: it is waited for, or given to an event loop.

use crate::exit;
use crate::log;
use crate::raised::{of_host, of_wait};
use larder_host::HostCache;
use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use std::pin::Pin;
use std::sync::{Mutex, PoisonError};

/// Makes the result of a call, on a thread that has the lock of the interpreter.
pub(crate) type Answer = Box<dyn for<'py> FnOnce(Python<'py>) -> PyResult<Bound<'py, PyAny>> + Send>;

pub(crate) type Future = Pin<Box<dyn std::future::Future<Output = Answer> + Send>>;

/// It begins when it is waited for or started, which it can be once.
#[pyclass(frozen, module = "larder_cache")]
pub(crate) struct Call {
    future: Mutex<Option<Future>>,
    pub(crate) cache: HostCache,
}

impl Call {
    /// A call whose result `answer` makes.
    pub(crate) fn new<R, A>(
        cache: &HostCache,
        future: impl std::future::Future<Output = R> + Send + 'static,
        answer: A,
    ) -> Self
    where
        R: Send + 'static,
        A: for<'py> FnOnce(Python<'py>, R) -> PyResult<Bound<'py, PyAny>> + Send + 'static,
    {
        let answered = async move {
            let result = future.await;
            let answer: Answer = Box::new(move |py| answer(py, result));
            answer
        };
        Call { future: Mutex::new(Some(Box::pin(answered))), cache: cache.clone() }
    }

    pub(crate) fn take(&self) -> PyResult<Future> {
        let taken = self.future.lock().unwrap_or_else(PoisonError::into_inner).take();
        taken.ok_or_else(|| PyRuntimeError::new_err("the call has begun already"))
    }
}

/// A wait of a caller that loads something, which ends with this.
#[pyclass(frozen, module = "larder_cache")]
pub(crate) struct Waiting(Mutex<Option<larder_host::Waiting>>);

#[pymethods]
impl Waiting {
    /// Raises `RecursiveLoad` if one of the wanted loads waits for one that is held. Both are named by bytes.
    #[new]
    fn new(held: Vec<Vec<u8>>, wanted: Vec<Vec<u8>>) -> PyResult<Self> {
        Ok(Waiting(Mutex::new(larder_host::Waiting::begin(held, wanted).map_err(of_host)?)))
    }

    fn end(&self) {
        drop(self.0.lock().unwrap_or_else(PoisonError::into_inner).take());
    }
}

#[pymethods]
impl Call {
    /// Blocks this thread until the call ends, without the lock of the interpreter. Signals interrupt it.
    fn wait<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let future = self.take()?;
        let waited = py.detach(|| {
            let waited = self.cache.wait(future, None, || {
                exit::unless_exiting(|py| {
                    log::write(py);
                    py.check_signals()
                })
            });
            exit::stay();
            waited
        });
        log::write(py);
        waited.map_err(of_wait)?(py)
    }
}

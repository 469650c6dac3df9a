//! The exceptions of the package, and what each error of larder raises.

use larder::FetchError;
use larder_host::{ErrorClass, HostError, LoadError, WaitError};
use pyo3::import_exception;
use pyo3::prelude::*;
use std::fmt;

import_exception!(larder_cache._errors, CacheClosed);
import_exception!(larder_cache._errors, Contended);
import_exception!(larder_cache._errors, EncodeError);
import_exception!(larder_cache._errors, KeyTypeError);
import_exception!(larder_cache._errors, LarderError);
import_exception!(larder_cache._errors, LoadFailed);
import_exception!(larder_cache._errors, LoadTimeout);
import_exception!(larder_cache._errors, OptionError);
import_exception!(larder_cache._errors, RecursiveLoad);
import_exception!(larder_cache._errors, RedisError);

/// The exception of an error of larder or of the layer below this package.
pub(crate) fn of_host(error: impl Into<HostError>) -> PyErr {
    let HostError { class, message } = error.into();
    match class {
        ErrorClass::Closed => CacheClosed::new_err(message),
        ErrorClass::Contended => Contended::new_err(message),
        ErrorClass::Encode => EncodeError::new_err(message),
        ErrorClass::KeyType => KeyTypeError::new_err(message),
        ErrorClass::LoadFailed => LoadFailed::new_err(message),
        ErrorClass::LoadTimeout => LoadTimeout::new_err(message),
        ErrorClass::Option => OptionError::new_err(message),
        ErrorClass::Recursive => RecursiveLoad::new_err(message),
        ErrorClass::Redis => RedisError::new_err(message),
        ErrorClass::Other => LarderError::new_err(message),
    }
}

/// What ends a load without a value.
#[derive(Debug)]
pub(crate) enum Failure {
    /// The loader has raised this.
    Raised(PyErr),
    /// The caller of a load ahead was interrupted.
    GivenUp,
}

impl LoadError for Failure {
    fn given_up() -> Self {
        Failure::GivenUp
    }

    fn is_given_up(&self) -> bool {
        matches!(self, Failure::GivenUp)
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Failure::Raised(raised) => raised.fmt(f),
            Failure::GivenUp => f.write_str("its caller was interrupted"),
        }
    }
}

/// For a caller whose own loader did not raise it.
pub(crate) fn of_fetch(py: Python<'_>, error: &FetchError<Failure>) -> PyErr {
    let raised = of_host(HostError::of_fetch(error));
    if let FetchError::Load(cause) = error
        && let Failure::Raised(cause) = &**cause
    {
        raised.set_cause(py, Some(cause.clone_ref(py)));
    }
    raised
}

pub(crate) fn of_wait(error: WaitError<PyErr>) -> PyErr {
    match error {
        WaitError::Interrupted(raised) => raised,
        WaitError::Closed => CacheClosed::new_err(error.to_string()),
        other => LarderError::new_err(other.to_string()),
    }
}

//! The exceptions of the package, and what each error of larder raises.

use larder::{BuildError, CacheError, FetchError};
use larder_host::{FormTaken, KeyError, NameError, StartError, WaitError};
use pyo3::import_exception;
use pyo3::prelude::*;

import_exception!(larder_cache._errors, CacheClosed);
import_exception!(larder_cache._errors, Contended);
import_exception!(larder_cache._errors, EncodeError);
import_exception!(larder_cache._errors, KeyTypeError);
import_exception!(larder_cache._errors, LarderError);
import_exception!(larder_cache._errors, LoadFailed);
import_exception!(larder_cache._errors, LoadTimeout);
import_exception!(larder_cache._errors, OptionError);
import_exception!(larder_cache._errors, RedisError);

pub(crate) fn of_build(error: &BuildError) -> PyErr {
    OptionError::new_err(error.to_string())
}

pub(crate) fn of_key(error: KeyError) -> PyErr {
    OptionError::new_err(error.to_string())
}

pub(crate) fn of_name(wrong: &NameError) -> PyErr {
    OptionError::new_err(wrong.to_string())
}

pub(crate) fn of_form(taken: &FormTaken) -> PyErr {
    OptionError::new_err(taken.to_string())
}

pub(crate) fn of_start(error: StartError) -> PyErr {
    match error {
        StartError::Build(error) => of_build(&error),
        other => LarderError::new_err(other.to_string()),
    }
}

pub(crate) fn of_cache(error: &CacheError) -> PyErr {
    let message = error.to_string();
    match error {
        CacheError::ShutDown | CacheError::Forked => CacheClosed::new_err(message),
        CacheError::Encode(_) => EncodeError::new_err(message),
        CacheError::Contended { .. } => Contended::new_err(message),
        CacheError::Pattern { .. } => OptionError::new_err(message),
        _ => RedisError::new_err(message),
    }
}

/// For a caller whose own loader did not raise it: never the exception of another caller itself, to which each thread that
/// raises it would add its traceback.
pub(crate) fn of_fetch(py: Python<'_>, error: &FetchError<PyErr>) -> PyErr {
    match error {
        FetchError::Load(cause) => {
            let raised = LoadFailed::new_err(format!("the load of another caller failed: {cause}"));
            raised.set_cause(py, Some(cause.clone_ref(py)));
            raised
        }
        FetchError::Timeout => LoadTimeout::new_err(error.to_string()),
        FetchError::ShutDown | FetchError::Forked | FetchError::Dropped => {
            CacheClosed::new_err(error.to_string())
        }
        other => LarderError::new_err(other.to_string()),
    }
}

pub(crate) fn of_wait(error: WaitError<PyErr>) -> PyErr {
    match error {
        WaitError::Interrupted(raised) => raised,
        WaitError::Closed => CacheClosed::new_err(error.to_string()),
        other => LarderError::new_err(other.to_string()),
    }
}

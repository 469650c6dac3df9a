//! The errors of every binding: a class for each, which has the same name in all languages but for its ending.

use crate::cache::StartError;
use crate::schemas::FormTaken;
use crate::{KeyError, NameError};
use larder::{BuildError, CacheError, FetchError};

/// What an error is about. A binding has an exception of its own for each.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ErrorClass {
    /// The cache was closed, or belongs to a parent process.
    Closed,
    /// Others changed the value too often while it was updated.
    Contended,
    /// A value that cannot be written.
    Encode,
    /// A key of a type that is none.
    KeyType,
    /// The load of another caller has failed.
    LoadFailed,
    /// A load was longer than it may be.
    LoadTimeout,
    /// An option, a name or a key for signatures.
    Option,
    /// A loader that waits for its own load, itself or through others.
    Recursive,
    /// Redis did not do what it was asked for.
    Redis,
    /// Anything else.
    Other,
}

/// An error of larder before the host has an exception of it: its class and its text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostError {
    /// What it is about.
    pub class: ErrorClass,
    /// What it says.
    pub message: String,
}

impl HostError {
    /// An error of this class.
    pub fn new(class: ErrorClass, message: impl ToString) -> Self {
        HostError { class, message: message.to_string() }
    }

    /// For a caller of a fetch. [`FetchError::Load`] is the failure of another caller's loader, which the binding adds as the
    /// cause: never as the exception itself, to which each thread that raises it would add its traceback.
    pub fn of_fetch<X: std::fmt::Display + std::fmt::Debug>(error: &FetchError<X>) -> Self {
        match error {
            FetchError::Load(cause) => {
                HostError::new(ErrorClass::LoadFailed, format!("the load of another caller failed: {cause}"))
            }
            FetchError::Timeout => HostError::new(ErrorClass::LoadTimeout, error),
            FetchError::ShutDown | FetchError::Forked | FetchError::Dropped => {
                HostError::new(ErrorClass::Closed, error)
            }
            other => HostError::new(ErrorClass::Other, other),
        }
    }
}

impl From<&CacheError> for HostError {
    fn from(error: &CacheError) -> Self {
        let class = match error {
            CacheError::ShutDown | CacheError::Forked => ErrorClass::Closed,
            CacheError::Encode(_) => ErrorClass::Encode,
            CacheError::Contended { .. } => ErrorClass::Contended,
            CacheError::Pattern { .. } => ErrorClass::Option,
            _ => ErrorClass::Redis,
        };
        HostError::new(class, error)
    }
}

impl From<CacheError> for HostError {
    fn from(error: CacheError) -> Self {
        HostError::from(&error)
    }
}

impl From<BuildError> for HostError {
    fn from(error: BuildError) -> Self {
        HostError::new(ErrorClass::Option, error)
    }
}

impl From<StartError> for HostError {
    fn from(error: StartError) -> Self {
        match error {
            StartError::Build(error) => error.into(),
            StartError::Closed => HostError::new(ErrorClass::Closed, error),
            other => HostError::new(ErrorClass::Other, other),
        }
    }
}

impl From<NameError> for HostError {
    fn from(error: NameError) -> Self {
        HostError::new(ErrorClass::Option, error)
    }
}

impl From<FormTaken> for HostError {
    fn from(error: FormTaken) -> Self {
        HostError::new(ErrorClass::Option, error)
    }
}

impl From<KeyError> for HostError {
    fn from(error: KeyError) -> Self {
        HostError::new(ErrorClass::Option, error)
    }
}

//! Errors on their way to Ruby, and what each error of larder is there.

use crate::ruby::kept::Kept;
use crate::ruby::{Jump, Ruby, Value};
use larder::{BuildError, CacheError, FetchError};
use larder_host::{ErrorClass, HostError, KeyError, LoadError, NameError, StartError, WaitError};
use std::fmt;

pub(crate) type Result<T> = std::result::Result<T, Raised>;

/// The reason why a call has no result.
#[derive(Debug)]
pub(crate) enum Raised {
    /// Ruby has it.
    Jump(Jump),
    /// One of the classes in `errors.rb`.
    Larder(HostError),
}

impl Raised {
    pub(crate) fn new(class: ErrorClass, message: impl ToString) -> Self {
        Raised::Larder(HostError::new(class, message))
    }

    /// A fault of this library.
    pub(crate) fn fault(message: impl ToString) -> Self {
        Raised::new(ErrorClass::Other, message)
    }

    /// A panic, which the panic hook has reported.
    pub(crate) fn panicked() -> Self {
        Raised::fault("larder has a fault: see the message on stderr")
    }

    /// The error as an exception, or what making that has raised.
    pub(crate) fn into_exception<'r>(self, ruby: Ruby<'r>) -> Result<Value<'r>> {
        match self {
            Raised::Jump(_) => Err(self),
            Raised::Larder(error) => {
                let message = ruby.text(&error.message)?;
                ruby.constant(name_of(error.class))?.call(ruby, "new", &[message])
            }
        }
    }
}

/// The name of a class in `errors.rb`.
fn name_of(class: ErrorClass) -> &'static str {
    match class {
        ErrorClass::Closed => "CacheClosed",
        ErrorClass::Contended => "Contended",
        ErrorClass::Encode => "EncodeError",
        ErrorClass::KeyType => "KeyTypeError",
        ErrorClass::LoadFailed => "LoadFailed",
        ErrorClass::LoadTimeout => "LoadTimeout",
        ErrorClass::Option => "OptionError",
        ErrorClass::Recursive => "RecursiveLoad",
        ErrorClass::Redis => "RedisError",
        ErrorClass::Other => "Error",
    }
}

macro_rules! from_errors_of_host {
    ($($error:ty),*) => {$(
        impl From<$error> for Raised {
            fn from(error: $error) -> Self {
                Raised::Larder(HostError::from(error))
            }
        }
    )*};
}
from_errors_of_host!(HostError, CacheError, StartError, BuildError, NameError, KeyError);

/// What a wait raises that has ended before its call.
pub(crate) fn of_wait<I: fmt::Debug>(error: &WaitError<I>) -> Raised {
    match error {
        WaitError::Closed => Raised::new(ErrorClass::Closed, "the cache was closed"),
        other => Raised::fault(format!("the call was not waited for: {other:?}")),
    }
}

/// What a fetch raises whose loader was not the caller's, or that has no loader.
pub(crate) fn of_fetch<'r>(ruby: Ruby<'r>, error: &FetchError<Failure>) -> Raised {
    let error_of_host = HostError::of_fetch(error);
    let FetchError::Load(failure) = error else { return error_of_host.into() };
    let Some(cause) = failure.exception.as_ref().and_then(|kept| kept.object(ruby)) else {
        return error_of_host.into();
    };
    let raised = || {
        let message = ruby.text(&error_of_host.message)?;
        // It raises: so Ruby sets the cause.
        ruby.constant("LoadFailed")?.call(ruby, "raise_with", &[message, cause])
    };
    raised().err().unwrap_or_else(|| Raised::fault("LoadFailed was not raised"))
}

/// What a block has raised, for those that have waited for it.
#[derive(Debug)]
pub(crate) struct Failure {
    message: String,
    /// `None` if it could not be kept.
    exception: Option<Kept>,
    /// Nothing was raised: the caller of a load ahead has left.
    is_given_up: bool,
}

impl Failure {
    pub(crate) fn new(message: String, exception: Option<Kept>) -> Self {
        Failure { message, exception, is_given_up: false }
    }
}

impl LoadError for Failure {
    fn given_up() -> Self {
        Failure { is_given_up: true, ..Failure::new("its caller has left".to_owned(), None) }
    }

    fn is_given_up(&self) -> bool {
        self.is_given_up
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

//! Errors on their way to JavaScript, and what each error of larder is there.

use crate::environment::Environment;
use crate::js::reference::Reference;
use crate::js::{Env, Value};
use larder::FetchError;
use larder_host::{ErrorClass, HostError, LoadError};

pub(crate) type Result<T> = std::result::Result<T, Raised>;

/// An error.
#[derive(Debug)]
pub(crate) enum Raised {
    /// Node has it: code of the program that this library called has thrown it.
    Pending,
    /// One of the classes in `errors.js`.
    Larder {
        class: ErrorClass,
        message: String,
        /// The error of another caller's loader.
        cause: Option<Reference>,
    },
}

/// The name of a class in `errors.js`.
fn name(class: ErrorClass) -> &'static str {
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
        ErrorClass::Other => "LarderError",
    }
}

impl Raised {
    pub(crate) fn of(class: ErrorClass, message: impl ToString) -> Self {
        HostError::new(class, message).into()
    }

    /// A fault of this library.
    pub(crate) fn fault(message: impl ToString) -> Self {
        Raised::of(ErrorClass::Other, message)
    }

    /// A panic, which the panic hook has reported.
    pub(crate) fn panicked() -> Self {
        Raised::fault("larder has a fault: see the message on stderr")
    }

    /// The error as a value; the environment has none pending afterwards.
    pub(crate) fn into_value<'s>(self, env: Env<'s>, environment: &Environment) -> Result<Value<'s>> {
        let Raised::Larder { class, message, cause } = self else {
            return env.take_pending();
        };
        let cause = match cause {
            Some(cause) => cause.value(env)?,
            None => None,
        };
        let cause = cause.map_or_else(|| env.undefined(), Ok)?;
        let arguments = [env.text(name(class))?, env.text(&message)?, cause];
        environment.make_error(env)?.call(env, &arguments)
    }
}

impl<E: Into<HostError>> From<E> for Raised {
    fn from(error: E) -> Self {
        let HostError { class, message } = error.into();
        Raised::Larder { class, message, cause: None }
    }
}

/// For a caller whose own loader did not throw it.
pub(crate) fn of_fetch(error: &FetchError<Failure>) -> Raised {
    let HostError { class, message } = HostError::of_fetch(error);
    let cause = if let FetchError::Load(failure) = error { failure.error.clone() } else { None };
    Raised::Larder { class, message, cause }
}

/// What a loader has thrown.
#[derive(Debug)]
pub(crate) struct Failure {
    message: String,
    /// `None` for what is no object.
    error: Option<Reference>,
    /// Nothing was thrown: the caller of a load ahead has left.
    is_given_up: bool,
}

impl Failure {
    pub(crate) fn new(message: String, error: Option<Reference>) -> Self {
        Failure { message, error, is_given_up: false }
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

impl std::fmt::Display for Failure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.message)
    }
}

//! Errors on their way to Elixir, where they are exceptions.

use crate::erl::{Env, SavedTerm, Term, atom};
use larder::FetchError;
use larder_host::{ErrorClass, HostError, LoadError};
use std::fmt;
use std::sync::Arc;

pub(crate) type Result<T> = std::result::Result<T, Raised>;

/// An error.
#[derive(Debug)]
pub(crate) enum Raised {
    Host(HostError),
    /// The load of another caller has failed with this.
    LoadFailed(HostError, Arc<Failure>),
    /// The work takes too long for a thread that runs processes. No error: the function is called again on another one.
    TooLong,
}

impl Raised {
    pub(crate) fn new(class: ErrorClass, message: impl ToString) -> Self {
        Raised::Host(HostError::new(class, message))
    }

    /// A fault of this library.
    pub(crate) fn fault(message: impl ToString) -> Self {
        Raised::new(ErrorClass::Other, message)
    }

    pub(crate) fn option(message: impl ToString) -> Self {
        Raised::new(ErrorClass::Option, message)
    }

    pub(crate) fn closed() -> Self {
        Raised::new(ErrorClass::Closed, "the cache was closed")
    }

    /// A panic, which the panic hook has reported.
    pub(crate) fn panicked() -> Self {
        Raised::fault("larder has a fault: see the message on stderr")
    }

    /// For a caller whose own loader did not fail.
    pub(crate) fn of_fetch(error: &FetchError<Failure>) -> Self {
        match error {
            FetchError::Load(failure) => Raised::LoadFailed(HostError::of_fetch(error), failure.clone()),
            other => Raised::Host(HostError::of_fetch(other)),
        }
    }

    /// The exception.
    pub(crate) fn exception<'e>(&self, env: Env<'e>) -> Term<'e> {
        let (error, cause) = match self {
            Raised::Host(error) => (error, None),
            Raised::LoadFailed(error, failure) => {
                (error, failure.cause.as_ref().map(|cause| cause.copy_to(env)))
            }
            Raised::TooLong => (&HostError::new(ErrorClass::Other, "the call took too long"), None),
        };
        let fields = [
            (&atom::STRUCT, env.named(module(error.class))),
            (&atom::EXCEPTION, env.boolean(true)),
            (&atom::MESSAGE, env.binary(error.message.as_bytes())),
        ];
        env.record(fields.into_iter().chain(cause.map(|cause| (&atom::CAUSE, cause))))
    }
}

impl<E: Into<HostError>> From<E> for Raised {
    fn from(error: E) -> Self {
        Raised::Host(error.into())
    }
}

/// The module of an exception.
fn module(class: ErrorClass) -> &'static str {
    match class {
        ErrorClass::Closed => "Elixir.Larder.Closed",
        ErrorClass::Contended => "Elixir.Larder.Contended",
        ErrorClass::Encode => "Elixir.Larder.EncodeError",
        ErrorClass::KeyType => "Elixir.Larder.KeyTypeError",
        ErrorClass::LoadFailed => "Elixir.Larder.LoadFailed",
        ErrorClass::LoadTimeout => "Elixir.Larder.LoadTimeout",
        ErrorClass::Option => "Elixir.Larder.OptionError",
        ErrorClass::Recursive => "Elixir.Larder.RecursiveLoad",
        ErrorClass::Redis => "Elixir.Larder.RedisError",
        ErrorClass::Other => "Elixir.Larder.Error",
    }
}

/// What a loader has raised, thrown or exited with.
#[derive(Debug)]
pub(crate) struct Failure {
    message: String,
    /// `None` if the caller of a load ahead has left.
    cause: Option<SavedTerm>,
}

impl Failure {
    pub(crate) fn new(message: String, cause: Term<'_>) -> Self {
        Failure { message, cause: Some(SavedTerm::new(cause)) }
    }
}

impl LoadError for Failure {
    fn given_up() -> Self {
        Failure { message: "its caller has left".to_owned(), cause: None }
    }

    fn is_given_up(&self) -> bool {
        self.cause.is_none()
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

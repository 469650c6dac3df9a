//! Errors on their way to JavaScript, and what each error of larder is there.

use crate::environment::Environment;
use crate::js::reference::Reference;
use crate::js::{Env, Value};
use larder::{BuildError, CacheError, FetchError};
use larder_host::{FormTaken, NameError, StartError};

pub(crate) type Result<T> = std::result::Result<T, Raised>;

/// An error.
#[derive(Debug)]
pub(crate) enum Raised {
    /// Node has it: code of the program that this library called has thrown it.
    Pending,
    /// One of the classes in `errors.js`.
    Larder {
        class: Class,
        message: String,
        /// The error of another caller's loader.
        cause: Option<Reference>,
    },
}

/// The classes of `errors.js`, by their names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Class {
    CacheClosed,
    Contended,
    Encode,
    KeyType,
    Larder,
    LoadFailed,
    LoadTimeout,
    Option,
    Redis,
}

impl Class {
    fn name(self) -> &'static str {
        match self {
            Class::CacheClosed => "CacheClosed",
            Class::Contended => "Contended",
            Class::Encode => "EncodeError",
            Class::KeyType => "KeyTypeError",
            Class::Larder => "LarderError",
            Class::LoadFailed => "LoadFailed",
            Class::LoadTimeout => "LoadTimeout",
            Class::Option => "OptionError",
            Class::Redis => "RedisError",
        }
    }

    pub(crate) fn error(self, message: impl Into<String>) -> Raised {
        Raised::Larder { class: self, message: message.into(), cause: None }
    }
}

impl Raised {
    /// A fault of this library.
    pub(crate) fn fault(message: impl Into<String>) -> Self {
        Class::Larder.error(message)
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
        let arguments = [env.text(class.name())?, env.text(&message)?, cause];
        environment.make_error(env)?.call(env, &arguments)
    }
}

pub(crate) fn of_build(error: &BuildError) -> Raised {
    Class::Option.error(error.to_string())
}

pub(crate) fn of_name(wrong: &NameError) -> Raised {
    Class::Option.error(wrong.to_string())
}

pub(crate) fn of_form(taken: &FormTaken) -> Raised {
    Class::Option.error(taken.to_string())
}

pub(crate) fn of_start(error: StartError) -> Raised {
    match error {
        StartError::Build(error) => of_build(&error),
        other => Raised::fault(other.to_string()),
    }
}

pub(crate) fn of_cache(error: &CacheError) -> Raised {
    let class = match error {
        CacheError::ShutDown | CacheError::Forked => Class::CacheClosed,
        CacheError::Encode(_) => Class::Encode,
        CacheError::Contended { .. } => Class::Contended,
        CacheError::Pattern { .. } => Class::Option,
        _ => Class::Redis,
    };
    class.error(error.to_string())
}

/// For a caller whose own loader did not throw it: an error of its own, with that as the cause.
pub(crate) fn of_fetch(error: &FetchError<Failure>) -> Raised {
    match error {
        FetchError::Load(failure) => Raised::Larder {
            class: Class::LoadFailed,
            message: format!("the load of another caller failed: {failure}"),
            cause: failure.error.clone(),
        },
        FetchError::Timeout => Class::LoadTimeout.error(error.to_string()),
        FetchError::ShutDown | FetchError::Forked | FetchError::Dropped => {
            Class::CacheClosed.error(error.to_string())
        }
        other => Raised::fault(other.to_string()),
    }
}

/// What a loader has thrown.
#[derive(Debug)]
pub(crate) struct Failure {
    message: String,
    /// `None` for what is no object.
    error: Option<Reference>,
}

impl Failure {
    pub(crate) fn new(message: String, error: Option<Reference>) -> Self {
        Failure { message, error }
    }
}

impl std::fmt::Display for Failure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.message)
    }
}

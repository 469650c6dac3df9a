//! The errors that callers get.

use crate::report::events::EventKey;
use crate::tier::{Requirement, TierError};
use crate::value::format::EncodeError;
use std::sync::Arc;

/// The reason why a fetch has no value. A failure of Redis is never the reason: the cache then loads.
#[derive(Debug)]
#[non_exhaustive]
pub enum FetchError<E> {
    /// The loader returned this error. All callers that waited for the load get it. A [`grace`](crate::Policy::grace)
    /// period serves the stale value instead.
    Load(Arc<E>),
    /// The loader panicked, or the iterator that a bulk loader returned. The panic hook has reported it.
    LoaderPanicked,
    /// The load exceeded its [`hard_timeout`](crate::Policy::hard_timeout), and there was no stale value. Retry, raise
    /// the timeout, or set a grace period.
    Timeout,
    /// The loader returned [`Loaded::NotModified`](crate::Loaded::NotModified) although
    /// [`LoadCx::stale`](crate::LoadCx::stale) was `None`. Return a new value in that case.
    NoStaleValue,
    /// The runtime shut down before the load ended.
    Dropped,
    /// This process inherited the cache through a fork. Build another one in it.
    Forked,
    /// The cache was ended by [`Cache::shutdown`](crate::Cache::shutdown).
    ShutDown,
}

impl<E: std::fmt::Display> std::fmt::Display for FetchError<E> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            FetchError::Load(error) => write!(f, "the loader failed: {error}"),
            FetchError::LoaderPanicked => f.write_str("the loader panicked"),
            FetchError::Timeout => f.write_str("the loader exceeded its hard timeout"),
            FetchError::NoStaleValue => f.write_str("the loader returned NotModified without a stale value"),
            FetchError::Dropped => f.write_str("the load was dropped because its runtime shut down"),
            FetchError::Forked => CacheError::Forked.fmt(f),
            FetchError::ShutDown => CacheError::ShutDown.fmt(f),
        }
    }
}

/// The source is the error of the loader.
impl<E: std::error::Error + 'static> std::error::Error for FetchError<E> {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            FetchError::Load(error) => Some(&**error),
            _ => None,
        }
    }
}

impl<E> Clone for FetchError<E> {
    fn clone(&self) -> Self {
        match self {
            FetchError::Load(error) => FetchError::Load(error.clone()),
            FetchError::LoaderPanicked => FetchError::LoaderPanicked,
            FetchError::Timeout => FetchError::Timeout,
            FetchError::NoStaleValue => FetchError::NoStaleValue,
            FetchError::Dropped => FetchError::Dropped,
            FetchError::Forked => FetchError::Forked,
            FetchError::ShutDown => FetchError::ShutDown,
        }
    }
}

/// The reason why a call did nothing, or why it is unknown whether Redis executed it. An invalidation that is in effect on
/// this node and queued returns [`Reach::HereAndQueued`](crate::Reach::HereAndQueued) and no error;
/// [`Builder::on_error`](crate::Builder::on_error) gets the error.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CacheError {
    /// Redis did not reply. It may or may not have executed the request.
    #[error("redis did not confirm: {0}")]
    Redis(String),
    /// Redis refused the request and did not execute it: it is full or read-only, or does not know the command. Check
    /// the server's memory limit, its role and the user's permissions. Or a counter cannot hold the sum, or its key has
    /// other content.
    #[error("refused: {0}")]
    Refused(String),
    /// Redis was not asked, or its answer was not used: it failed twice in a row and gets no request for 500 ms, or an
    /// invalidation of the key is pending, or its clock is not known yet. Try again later.
    #[error(
        "redis is not asked now: it has failed, or an invalidation is pending, or its clock is not known yet"
    )]
    NotAsked,
    /// The server does not meet a requirement of coherent nodes: Redis was not asked. A call that removes or
    /// replaces values has removed them from the memory of this node; nothing is queued. See
    /// [`CoherenceMode::Unsupported`](crate::CoherenceMode::Unsupported).
    #[error("the server is not supported: {0}")]
    Unsupported(Requirement),
    /// The value cannot be encoded. It is stored in no tier.
    #[error(transparent)]
    Encode(EncodeError),
    /// Others changed the key between its read and its compare-and-set, in each of so many tries. Nothing was stored. The
    /// calls of one node wait for each other, so these were other nodes, or writes and loads. Try again, or let fewer nodes
    /// update one key.
    #[error("key {key:?} was changed by others in each of {tries} tries")]
    Contended {
        /// The Redis key.
        key: EventKey,
        /// The number of tries.
        tries: usize,
    },
    /// The pattern of [`Cache::delete_matched`](crate::Cache::delete_matched) is refused. Nothing is deleted.
    #[error("pattern {pattern:?} is refused: {reason}")]
    Pattern {
        /// The pattern as it was passed.
        pattern: String,
        /// Why nodes and Redis might not agree on it, or why it is too expensive.
        reason: String,
    },
    /// The operation needs Redis, and the cache has none. Build it with [`Builder::redis`](crate::Builder::redis).
    #[error("the cache has no redis")]
    NoRedis,
    /// This process inherited the cache through a fork: its connections and tasks belong to the parent. Nothing was done.
    /// Build another cache in this process.
    #[error("this process inherited the cache through a fork; build another one in it")]
    Forked,
    /// The cache was ended by [`Cache::shutdown`](crate::Cache::shutdown). Nothing was done.
    #[error("the cache was shut down")]
    ShutDown,
}

impl From<TierError> for CacheError {
    fn from(error: TierError) -> Self {
        match error {
            TierError::Refused(reason) | TierError::Unusable(reason) => CacheError::Refused(reason),
            TierError::Unsupported(requirement) => CacheError::Unsupported(requirement),
            other => CacheError::Redis(other.to_string()),
        }
    }
}

/// The reason why a cache could not be built.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BuildError {
    /// The namespace is empty or contains a `:`.
    #[error("namespace is {0:?}; it must be a name without ':'")]
    Namespace(String),
    /// [`Builder::ttl`](crate::Builder::ttl) was not called.
    #[error("a cache needs a time to live: call ttl()")]
    NoTtl,
    /// An option is out of its range, or its text is no value, or it is missing beside another one.
    #[error("{option} is {value}; it must be {expected}")]
    Option {
        /// The name of the option.
        option: &'static str,
        /// Its value; a text in quotes.
        value: String,
        /// The valid values, for people.
        expected: String,
    },
    /// No option has the name that [`Builder::option`](crate::Builder::option) was given.
    #[error("there is no option {name:?}{}", suggestion(similar))]
    UnknownOption {
        /// The name.
        name: String,
        /// The options with similar names, the most similar first.
        similar: Vec<&'static str>,
    },
    /// [`Builder::build_local`](crate::Builder::build_local) was called after
    /// [`Builder::redis`](crate::Builder::redis).
    #[error("a local cache has no redis: call build() instead of build_local()")]
    LocalWithRedis,
    /// The address of Redis or the certificates for it are not valid.
    #[error("redis address {url:?}: {reason}")]
    RedisUrl {
        /// The address, without its password.
        url: String,
        /// What is wrong with it.
        reason: String,
    },
}

/// The part of a message that suggests names.
fn suggestion(similar: &[&str]) -> String {
    match similar {
        [] => String::new(),
        [one] => format!("; did you mean {one}?"),
        [first @ .., last] => format!("; did you mean {} or {last}?", first.join(", ")),
    }
}

/// An address as an error may show it: without user information but the name, and without parameters for a password.
///
/// What is shown need not be a valid address: a password may contain the characters that end it in a valid one.
pub(crate) fn without_password(url: &str) -> String {
    let is_scheme =
        |name: &str| name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"+-.".contains(&byte));
    let scheme_end = url.find("://").filter(|at| is_scheme(&url[..*at])).map_or(0, |at| at + "://".len());
    let (scheme, rest) = url.split_at(scheme_end);
    let Some((user, host)) = rest.rsplit_once('@') else {
        return scheme.to_owned() + &without_password_parameters(rest);
    };
    if user.split_once('?').is_some_and(|(_, query)| query.contains('=')) {
        // The `@` is part of a parameter, or the `?` part of a password.
        return format!("{scheme}***");
    }
    let name = user.split_once(':').map_or("", |(name, _)| name);
    format!("{scheme}{name}:***@{}", without_password_parameters(host))
}

fn without_password_parameters(address: &str) -> String {
    let Some((path, query)) = address.split_once('?') else { return address.to_owned() };
    let parameters: Vec<_> = query
        .split('&')
        .map(|parameter| match parameter.split_once('=') {
            Some((name, _)) if name.contains("pass") => format!("{name}=***"),
            _ => parameter.to_owned(),
        })
        .collect();
    format!("{path}?{}", parameters.join("&"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shown_address_has_no_password() {
        for (url, shown) in [
            ("redis://host:1/0", "redis://host:1/0"),
            ("redis://ada:p@ss:w@host:1", "redis://ada:***@host:1"),
            ("redis://:secret@host", "redis://:***@host"),
            ("redis://secret@host", "redis://:***@host"),
            ("secret@host", ":***@host"),
            ("redis://ada:se?cret@host:6379", "redis://ada:***@host:6379"),
            ("redis://:hunter2?x@host", "redis://:***@host"),
            ("redis://ada:se/cret@host", "redis://ada:***@host"),
            ("redis://ada:se#cret@host", "redis://ada:***@host"),
            ("redis://ada:se?a=cret@host", "redis://***"),
            ("redis://ada:s://e?cret@host?db=1&password=secret", "redis://ada:***@host?db=1&password=***"),
            ("ada:se://cret@host", "ada:***@host"),
            ("redis+unix:///path?user=ada&pass=s@cret", "redis+unix://***"),
            ("redis+unix:///path?db=1&pass=se?cret", "redis+unix:///path?db=1&pass=***"),
            ("redis+unix:///path?user=ada&pass=secret&db=1", "redis+unix:///path?user=ada&pass=***&db=1"),
        ] {
            assert_eq!(without_password(url), shown);
        }
    }
}

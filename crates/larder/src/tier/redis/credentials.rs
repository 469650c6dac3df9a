//! The user and the password of a connection: those of the address, fixed ones, or what a function returns each time.

use crate::tier::TierError;
use std::error::Error;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use tokio::task::JoinSet;

/// A user of Redis and its password. `Debug` does not show the password.
#[derive(Clone, PartialEq, Eq)]
pub struct RedisCredentials {
    user: Option<String>,
    password: String,
}

impl RedisCredentials {
    /// A user of the server's access control list. Any characters are allowed: nothing is escaped.
    pub fn new(user: impl Into<String>, password: impl Into<String>) -> Self {
        RedisCredentials { user: Some(user.into()), password: password.into() }
    }

    /// A password for the user `default`, for servers with `requirepass`.
    pub fn password(password: impl Into<String>) -> Self {
        RedisCredentials { user: None, password: password.into() }
    }

    pub(super) fn apply(&self, settings: redis::RedisConnectionInfo) -> redis::RedisConnectionInfo {
        // Without a name the password is that of `default`, even if the address has a name.
        settings.set_username(self.user.as_deref().unwrap_or("default")).set_password(&self.password)
    }
}

impl fmt::Debug for RedisCredentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RedisCredentials").field("user", &self.user).finish_non_exhaustive()
    }
}

type Asking = Pin<Box<dyn Future<Output = Result<RedisCredentials, String>> + Send>>;

/// Where a connection gets its credentials.
#[derive(Clone, Default)]
pub(crate) enum CredentialsSource {
    /// From the address, which may have none.
    #[default]
    Address,
    /// The same for every connection.
    Fixed(RedisCredentials),
    /// From a function that is called for every connection.
    Function(Arc<dyn Fn() -> Asking + Send + Sync>),
}

impl CredentialsSource {
    pub(crate) fn function<F, A, E>(ask: F) -> Self
    where
        F: Fn() -> A + Send + Sync + 'static,
        A: Future<Output = Result<RedisCredentials, E>> + Send + 'static,
        E: Into<Box<dyn Error + Send + Sync>>,
    {
        CredentialsSource::Function(Arc::new(move || {
            let asking = ask();
            Box::pin(async move { asking.await.map_err(|error| error.into().to_string()) })
        }))
    }

    /// The credentials for the next connection; `None` for those of the address.
    pub(super) async fn next(&self) -> Result<Option<RedisCredentials>, TierError> {
        let ask = match self {
            CredentialsSource::Address => return Ok(None),
            CredentialsSource::Fixed(credentials) => return Ok(Some(credentials.clone())),
            CredentialsSource::Function(ask) => ask.clone(),
        };
        // In its own task, so that a panic does not end the coherence task. Dropping the set ends it.
        let mut asking = JoinSet::new();
        asking.spawn(async move { ask().await });
        let failed = |reason: &str| TierError::Unusable(format!("redis_credentials failed: {reason}"));
        match asking.join_next().await {
            Some(Ok(Ok(credentials))) => Ok(Some(credentials)),
            Some(Ok(Err(reason))) => Err(failed(&reason)),
            Some(Err(_)) | None => Err(failed("the function panicked")),
        }
    }
}

impl fmt::Debug for CredentialsSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            CredentialsSource::Address => "Address",
            CredentialsSource::Fixed(_) => "Fixed",
            CredentialsSource::Function(_) => "Function",
        })
    }
}

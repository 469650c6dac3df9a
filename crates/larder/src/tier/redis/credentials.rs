//! The user and the password of a connection: those of the address, given ones, or what a file or a function has each time.

use crate::tier::TierError;
use std::error::Error;
use std::fmt;
use std::future::Future;
use std::path::{Path, PathBuf};
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
    /// The same user for every connection, and a password. Without a name the user is `default`; without a password it is not
    /// complete.
    Given { user: Option<String>, password: Option<Password> },
    /// From a function that is called for every connection.
    Function(Arc<dyn Fn() -> Asking + Send + Sync>),
}

/// A password that the options of a cache give.
#[derive(Clone)]
pub(crate) enum Password {
    Text(String),
    /// Read for every connection, so that the password can rotate.
    File(PathBuf),
}

impl From<RedisCredentials> for CredentialsSource {
    fn from(RedisCredentials { user, password }: RedisCredentials) -> Self {
        CredentialsSource::Given { user, password: Some(Password::Text(password)) }
    }
}

impl CredentialsSource {
    /// The user and the password, none of which is given yet if they were not given here before.
    pub(crate) fn given(&mut self) -> (&mut Option<String>, &mut Option<Password>) {
        if !matches!(self, CredentialsSource::Given { .. }) {
            *self = CredentialsSource::Given { user: None, password: None };
        }
        let CredentialsSource::Given { user, password } = self else { unreachable!("it was made so") };
        (user, password)
    }

    /// Whether there is a user whose password is missing.
    pub(crate) fn lacks_password(&self) -> bool {
        matches!(self, CredentialsSource::Given { password: None, .. })
    }

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
        // In a task of its own, so that a panic does not end the coherence task. Dropping the set ends the wait for it.
        let mut asking = JoinSet::new();
        let option = match self {
            CredentialsSource::Address | CredentialsSource::Given { password: None, .. } => return Ok(None),
            CredentialsSource::Given { user, password: Some(Password::Text(password)) } => {
                return Ok(Some(RedisCredentials { user: user.clone(), password: password.clone() }));
            }
            CredentialsSource::Given { user, password: Some(Password::File(file)) } => {
                let (user, file) = (user.clone(), file.clone());
                asking.spawn_blocking(move || Ok(RedisCredentials { user, password: read_password(&file)? }));
                "redis_password_file"
            }
            CredentialsSource::Function(ask) => {
                let ask = ask.clone();
                asking.spawn(async move { ask().await });
                "redis_credentials"
            }
        };
        let failed = |reason: &str| TierError::Unusable(format!("{option} failed: {reason}"));
        match asking.join_next().await {
            Some(Ok(Ok(credentials))) => Ok(Some(credentials)),
            Some(Ok(Err(reason))) => Err(failed(&reason)),
            Some(Err(_)) | None => Err(failed("the function panicked")),
        }
    }
}

/// The text of a file without its last line break.
fn read_password(file: &Path) -> Result<String, String> {
    let text = std::fs::read_to_string(file);
    let text = text.map_err(|error| format!("cannot read {}: {error}", file.display()))?;
    let password = text.strip_suffix('\n').unwrap_or(&text);
    Ok(password.strip_suffix('\r').unwrap_or(password).to_owned())
}

impl fmt::Debug for CredentialsSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            CredentialsSource::Address => f.write_str("Address"),
            CredentialsSource::Given { user, .. } => {
                f.debug_struct("Given").field("user", user).finish_non_exhaustive()
            }
            CredentialsSource::Function(_) => f.write_str("Function"),
        }
    }
}

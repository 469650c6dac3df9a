//! The options of a [`Builder`] for Redis: its address, its user, its certificates and its connections.

use super::Builder;
use super::options::{TlsFile, check_number, check_time};
use crate::report::error::BuildError;
#[cfg(feature = "tls")]
use crate::tier::redis::RedisTls;
use crate::tier::redis::{CredentialsSource, Password, RedisCredentials, RedisOptions};
use std::error::Error;
use std::future::Future;
use std::time::Duration;

impl Builder {
    /// A Redis, Valkey or Larder server behind the memory: `redis://[user:password@]host[:port][/db]`, the same with
    /// `rediss://` for TLS, which needs the feature `tls` or `tls-ring`, or a Unix socket with
    /// `redis+unix:///path[?db=…&user=…&pass=…]`, also written `unix://`. With `valkey` for `redis` they mean the same.
    /// Special characters in the user and the password are percent-encoded. The first use connects. The host is resolved
    /// again for each connection. Default: none.
    ///
    /// A server behind sentinels is `redis+sentinel://[user:password@]host[:port],…/name[/db]`, with the name under which
    /// they watch it; `rediss+sentinel://` is TLS to both. The user is that of the server; that of the sentinels is
    /// `?sentinel_user=…&sentinel_pass=…`.
    ///
    /// A cluster is `redis+cluster://[user:password@]host[:port],…`, with some of its servers; `rediss+cluster://` is TLS to
    /// all of them. What is promised behind sentinels and on a cluster is on the page `docs/scale.md`.
    pub fn redis(mut self, url: impl Into<String>) -> Self {
        self.redis_url = Some(url.into());
        self
    }

    /// The user and the password. They replace the credentials in the address. Default: the credentials in the address.
    pub fn redis_user(mut self, credentials: RedisCredentials) -> Self {
        self.redis.credentials = credentials.into();
        self
    }

    /// A function that returns the user and the password, for credentials that rotate. It is called for each
    /// connection that is opened, also concurrently, in a task of its own, and its time counts as part of
    /// [`Builder::redis_connect_timeout`]: when that is over, its future is dropped. Open connections stay as they are.
    /// If it fails or panics, Redis is not used until a later call succeeds. Replaces [`Builder::redis_user`].
    ///
    /// ```
    /// use larder::{Cache, RedisCredentials};
    /// use std::time::Duration;
    ///
    /// let cache = Cache::builder("shop")
    ///     .ttl(Duration::from_secs(300))
    ///     .redis("redis://cache.internal")
    ///     .redis_credentials(|| async {
    ///         let password = std::fs::read_to_string("/run/secrets/redis")?;
    ///         Ok::<_, std::io::Error>(RedisCredentials::new("shop", password.trim_end()))
    ///     })
    ///     .build()?;
    /// # Ok::<(), larder::BuildError>(())
    /// ```
    pub fn redis_credentials<F, A, E>(mut self, ask: F) -> Self
    where
        F: Fn() -> A + Send + Sync + 'static,
        A: Future<Output = Result<RedisCredentials, E>> + Send + 'static,
        E: Into<Box<dyn Error + Send + Sync>>,
    {
        self.redis.credentials = CredentialsSource::function(ask);
        self
    }

    /// Whether a majority of the sentinels must confirm, with each heartbeat and each invalidation, that the server is the
    /// primary: a former primary that was cut off together with this node confirms them too. The quorum of the sentinels
    /// must be a majority of them. While none does, the server counts as lost. Costs an invalidation one more round trip.
    /// Default: true.
    pub fn sentinel_fence(mut self, fence: bool) -> Self {
        self.redis.sentinel_fence = fence;
        self
    }

    /// How many replicas must acknowledge each heartbeat, each invalidation and each write: 0 to 100. A primary that a service has
    /// replaced by one of its replicas may go on and answer. It has lost that replica, so with the number of all replicas it
    /// misleads no node. While one of them is missing, the server counts as lost: memory is served within
    /// [`Builder::disconnected`], and invalidations are queued. Costs an invalidation one more round trip, and one from the
    /// primary to its replicas. Default: 0.
    pub fn replica_fence(mut self, replicas: u32) -> Self {
        self.redis.replica_fence = replicas;
        self
    }

    /// The certificates for a `rediss://` address. Default: the roots of the operating system, and no client
    /// certificate.
    #[cfg(feature = "tls")]
    pub fn redis_tls(mut self, tls: RedisTls) -> Self {
        self.redis.tls = Some(tls);
        self
    }

    /// The timeout for each reply of Redis: 1 ms to 1 min. Default: 250 ms.
    pub fn redis_timeout(mut self, timeout: Duration) -> Self {
        self.redis.timeout = timeout;
        self
    }

    /// The timeout for opening a connection: credentials, host, TCP, TLS and authentication. 1 ms to 1 min. Default:
    /// the [`Builder::redis_timeout`].
    pub fn redis_connect_timeout(mut self, timeout: Duration) -> Self {
        self.redis.connect_timeout = Some(timeout);
        self
    }

    /// The idle time after which the system probes a connection over TCP, and the time between probes: 1 s to 1 h. A probe
    /// keeps the connection open in load balancers and firewalls. Default: 60 s.
    pub fn redis_keepalive(mut self, interval: Duration) -> Self {
        self.redis.keepalive = interval;
        self
    }

    /// The number of connections for lookups and compare-and-sets: 1 to 64. Mutations have one more, and so have
    /// announcements. They are opened when they are first used. A cluster has as many to each primary. Default: 4.
    pub fn redis_connections(mut self, connections: usize) -> Self {
        self.redis.connections = connections;
        self
    }
    /// The user alone, whose password is another option.
    pub(super) fn redis_user_name(mut self, name: &str) -> Self {
        *self.redis.credentials.given().0 = Some(name.to_owned());
        self
    }

    /// The password alone.
    pub(super) fn redis_password(mut self, password: &str) -> Self {
        *self.redis.credentials.given().1 = Some(Password::Text(password.to_owned()));
        self
    }

    /// A file with the password, which each connection reads.
    pub(super) fn redis_password_file(mut self, file: &str) -> Self {
        *self.redis.credentials.given().1 = Some(Password::File(file.into()));
        self
    }

    /// One of the files of [`Builder::redis_tls`], which is read now. An error is what is expected of its name.
    #[cfg(feature = "tls")]
    pub(super) fn redis_tls_file(mut self, which: TlsFile, file: &str) -> Result<Self, String> {
        let pem = std::fs::read(file).map_err(|error| format!("a file in PEM: {error}"))?;
        let tls = self.redis.tls.take().unwrap_or_default();
        self.redis.tls = Some(match which {
            TlsFile::Roots => tls.with_root_certificates(pem),
            TlsFile::Certificate => tls.with_certificate(pem),
            TlsFile::Key => tls.with_key(pem),
        });
        Ok(self)
    }

    #[cfg(not(feature = "tls"))]
    pub(super) fn redis_tls_file(self, _: TlsFile, _: &str) -> Result<Self, String> {
        Err("left out: it needs the feature `tls` or `tls-ring` of larder".into())
    }
}

pub(super) fn check(options: &RedisOptions) -> Result<(), BuildError> {
    check_time("redis_timeout", options.timeout)?;
    if let Some(timeout) = options.connect_timeout {
        check_time("redis_connect_timeout", timeout)?;
    }
    check_time("redis_keepalive", options.keepalive)?;
    check_number("redis_connections", options.connections as u64)?;
    check_number("replica_fence", options.replica_fence.into())?;
    if options.credentials.lacks_password() {
        return Err(missing("redis_password", "given, or redis_password_file, since redis_user is set"));
    }
    #[cfg(feature = "tls")]
    match options.tls.as_ref().map(RedisTls::has_certificate_and_key) {
        Some((true, false)) => return Err(missing("redis_key", "a file, since redis_certificate is set")),
        Some((false, true)) => return Err(missing("redis_certificate", "a file, since redis_key is set")),
        _ => {}
    }
    Ok(())
}

/// An option without which another one has no meaning.
fn missing(option: &'static str, expected: &str) -> BuildError {
    BuildError::Option { option, value: "missing".into(), expected: expected.into() }
}

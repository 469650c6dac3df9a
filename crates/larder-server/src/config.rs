//! The options of a server, with meaning, default and range.

use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;

use larder_text::ByteSize;
use serde::Deserialize;

use crate::db::MemoryPolicy;
use crate::error::ServerError;

/// The ranges of the options.
const MAX_THREADS: usize = 256;
pub(crate) const MAX_CLIENTS: u64 = 1_000_000;
const MIN_BYTES: u64 = 1 << 20;
const MAX_BYTES: u64 = i64::MAX as u64;
/// The longest time that Linux accepts.
const MAX_KEEPALIVE_SECS: u64 = 32_767;
const MAX_DRAIN_MS: u64 = 600_000;

/// The options of a server. Unknown keys are errors.
#[derive(Debug, Clone, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// Address to listen on; port 0 selects a free port. Default `127.0.0.1:6379`; `None` listens on the Unix socket
    /// only.
    pub listen: Option<SocketAddr>,
    /// Path of a Unix socket to listen on in addition. Default: none.
    pub unixsocket: Option<PathBuf>,
    /// Memory in bytes that keys, values and their overhead may take together, free blocks between them included. Above it,
    /// entries are evicted; see the page on the server for how exact that is. Default: half of
    /// the memory of the machine or the cgroup, whichever is less. At least 1 MiB.
    pub max_memory: Option<ByteSize>,
    /// Which keys are evicted when the memory for entries is used up; `CONFIG SET maxmemory-policy` changes it. Default:
    /// that of the keyspace, which is `allkeys-lfu` at first.
    pub max_memory_policy: Option<MemoryPolicy>,
    /// File for a snapshot of all keys, which the server writes when it ends by itself, within 60 seconds, and reads and removes
    /// when it starts. It serves meanwhile: a key is loaded when it is asked for. Default: none, the server starts empty.
    pub snapshot: Option<PathBuf>,
    /// Threads that serve connections. Default: one per core. Range 1 to 256.
    pub threads: Option<usize>,
    /// Password of the user `default`, which clients send with `AUTH` or `HELLO`. Default: none, which is an error unless the
    /// address is loopback.
    pub requirepass: Option<Password>,
    /// File of users, their passwords and their rights, in the form of Redis. `ACL LOAD` reads it again, and `ACL SAVE` writes
    /// it. A user `default` in it replaces the one of `requirepass`. Default: none.
    pub aclfile: Option<PathBuf>,
    /// Port for connections with TLS, at the IP address of `listen`; 0 selects a free port. Needs `tls_cert` and `tls_key`.
    /// Default: none.
    pub tls_port: Option<u16>,
    /// Whether only the port for TLS is open at the address, and that of `listen` is not. Default `false`.
    pub tls_only: bool,
    /// The certificate chain of the server, in PEM. Default: none.
    pub tls_cert: Option<PathBuf>,
    /// The private key of `tls_cert`, in PEM. Only its owner may have access to it. Default: none.
    pub tls_key: Option<PathBuf>,
    /// Root certificates, in PEM, one of which must have signed the certificates of clients. Default: none, clients need no
    /// certificate.
    pub tls_ca: Option<PathBuf>,
    /// Whether clients need a certificate, if there is `tls_ca`. Default `yes`.
    pub tls_auth_clients: ClientCertificates,
    /// Maximum number of open connections. A further connection gets an error and is closed. The server raises the
    /// process's limit on open files accordingly, if the system allows it. Default 10,000. Range 1 to 1,000,000.
    pub maxclients: usize,
    /// Bytes of the longest reply. Instead of a longer one the client gets an error, and the connection stays open. The
    /// server stops reading from a client that does not read its replies, so that further replies do not add up. Default
    /// 1 GiB; never more than `max_client_memory`. At least 1 MiB.
    pub max_reply_bytes: ByteSize,
    /// Bytes of incomplete requests and unsent replies that all connections together may buffer. Above it, the
    /// connection with the largest buffers is closed, and one request that announces more gets an error. Entries are
    /// never evicted for connections. Default: half of `max_memory`, at most a quarter of the memory of the machine or
    /// the cgroup, at least 64 MiB. At least 1 MiB if it is given.
    pub max_client_memory: Option<ByteSize>,
    /// Whether the server answers as the only node of a cluster, which owns all slots, for clients that work with clusters
    /// only. Clients then have one database. Default `false`.
    pub cluster_mode: bool,
    /// Idle seconds after which TCP sends keepalive probes; 0 = never. Default 300. Range 0 to 32,767.
    pub tcp_keepalive_secs: u64,
    /// Milliseconds that connections have after the start of a shutdown to receive their pending replies. Default
    /// 5,000. Range 0 to 600,000.
    pub drain_timeout_ms: u64,
}

impl Default for Config {
    fn default() -> Self {
        Config {
            listen: Some(SocketAddr::from(([127, 0, 0, 1], 6379))),
            unixsocket: None,
            max_memory: None,
            max_memory_policy: None,
            snapshot: None,
            threads: None,
            requirepass: None,
            aclfile: None,
            tls_port: None,
            tls_only: false,
            tls_cert: None,
            tls_key: None,
            tls_ca: None,
            tls_auth_clients: ClientCertificates::Yes,
            maxclients: 10_000,
            max_reply_bytes: ByteSize(1 << 30),
            max_client_memory: None,
            cluster_mode: false,
            tcp_keepalive_secs: 300,
            drain_timeout_ms: 5_000,
        }
    }
}

impl Config {
    /// Checks the range of every option but `max_memory`, which a [`Store`](crate::Store) checks.
    ///
    /// # Errors
    ///
    /// [`ServerError::Range`] names the first option that is out of range, its value and the range.
    pub fn validate(&self) -> Result<(), ServerError> {
        let in_range =
            |option: &'static str, value: u64, min: u64, max: u64| match (min..=max).contains(&value) {
                true => Ok(()),
                false => Err(ServerError::Range { option, value, min, max }),
            };
        let max_client_memory = self.max_client_memory.map_or(MAX_BYTES, |size| size.0);
        in_range("threads", self.threads.unwrap_or(1) as u64, 1, MAX_THREADS as u64)?;
        in_range("maxclients", self.maxclients as u64, 1, MAX_CLIENTS)?;
        in_range("max_reply_bytes", self.max_reply_bytes.0, MIN_BYTES, MAX_BYTES)?;
        in_range("max_client_memory", max_client_memory, MIN_BYTES, MAX_BYTES)?;
        in_range("tcp_keepalive_secs", self.tcp_keepalive_secs, 0, MAX_KEEPALIVE_SECS)?;
        in_range("drain_timeout_ms", self.drain_timeout_ms, 0, MAX_DRAIN_MS)?;
        self.check_tls()
    }

    /// Refuses options of TLS that would have no effect, or need another one.
    fn check_tls(&self) -> Result<(), ServerError> {
        let is_given = [
            ("tls_only", self.tls_only),
            ("tls_cert", self.tls_cert.is_some()),
            ("tls_key", self.tls_key.is_some()),
            ("tls_ca", self.tls_ca.is_some()),
        ];
        let needs = |option, missing: &str| {
            Err(ServerError::Tls { option, reason: format!("it needs {missing}, which is missing") })
        };
        match self.tls_port {
            None => match is_given.into_iter().find(|(_, is_given)| *is_given) {
                Some((option, _)) => needs(option, "tls_port"),
                None => Ok(()),
            },
            Some(_) if self.listen.is_none() => needs("tls_port", "listen"),
            Some(_) if self.tls_cert.is_none() => needs("tls_port", "tls_cert"),
            Some(_) if self.tls_key.is_none() => needs("tls_port", "tls_key"),
            Some(_) if !cfg!(feature = "tls") => {
                let reason = "this program was built without TLS".to_owned();
                Err(ServerError::Tls { option: "tls_port", reason })
            }
            Some(_) => Ok(()),
        }
    }

    /// The mode of the server, as `INFO` and `HELLO` name it.
    pub(crate) fn mode(&self) -> &'static str {
        if self.cluster_mode { "cluster" } else { "standalone" }
    }

    /// The threads that serve connections.
    pub(crate) fn threads(&self) -> usize {
        let cores = || std::thread::available_parallelism().map_or(1, usize::from).min(MAX_THREADS);
        self.threads.unwrap_or_else(cores)
    }
}

/// Which clients need a certificate on the port for TLS.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ClientCertificates {
    /// None is asked for.
    No,
    /// One that is sent must be valid.
    Optional,
    /// All of them.
    Yes,
}

impl std::str::FromStr for ClientCertificates {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "no" => Ok(ClientCertificates::No),
            "optional" => Ok(ClientCertificates::Optional),
            "yes" => Ok(ClientCertificates::Yes),
            _ => Err(format!("'{text}' is not no, optional or yes")),
        }
    }
}

/// A password; its debug form does not show it.
#[derive(Clone, Deserialize)]
#[serde(transparent)]
pub struct Password(String);

impl Password {
    /// A password. An empty one is none.
    #[must_use]
    pub fn new(text: impl Into<String>) -> Self {
        Password(text.into())
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The password itself, for a client that knows it.
    pub(crate) fn text(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Password {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Password(…)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn config_parses_sizes_and_rejects_unknown_keys() {
        let read = |text: &str| serde_json::from_str::<Config>(text);
        let config =
            read(r#"{"listen": "127.0.0.1:7000", "max_memory": "64mb", "max_reply_bytes": 1000}"#).unwrap();
        assert_eq!(config.listen, Some(SocketAddr::from(([127, 0, 0, 1], 7000))));
        assert_eq!((config.max_memory, config.max_reply_bytes), (Some(ByteSize(64 << 20)), ByteSize(1000)));
        assert_eq!(config.maxclients, 10_000);
        assert!(read(r#"{"max_memori": 1}"#).unwrap_err().to_string().contains("max_memori"));
        let policy = read(r#"{"max_memory_policy": "noeviction"}"#).unwrap().max_memory_policy;
        assert_eq!(policy, Some(MemoryPolicy::Noeviction));
        let error = read(r#"{"max_memory_policy": "volatile"}"#).unwrap_err().to_string();
        assert!(error.contains("'volatile' is not a policy"), "{error}");
        assert!(read(r#"{"max_memory": "much"}"#).unwrap_err().to_string().contains("'much' is not a size"));
    }

    #[test]
    fn options_out_of_range_are_errors() {
        let default = Config::default;
        let wrong = [
            (Config { threads: Some(0), ..default() }, "threads is 0; it must be from 1 to 256"),
            (Config { threads: Some(257), ..default() }, "threads is 257; it must be from 1 to 256"),
            (Config { maxclients: 0, ..default() }, "maxclients is 0; it must be from 1 to 1000000"),
            (Config { maxclients: 1_000_001, ..default() }, "maxclients is 1000001; "),
            (
                Config { max_reply_bytes: ByteSize(0), ..default() },
                "max_reply_bytes is 0; it must be from 1048576 ",
            ),
            (Config { max_client_memory: Some(ByteSize(0)), ..default() }, "max_client_memory is 0; "),
            (
                Config { tcp_keepalive_secs: 32_768, ..default() },
                "tcp_keepalive_secs is 32768; it must be from 0 to 32767",
            ),
            (
                Config { drain_timeout_ms: 600_001, ..default() },
                "drain_timeout_ms is 600001; it must be from 0 to 600000",
            ),
        ];
        for (config, expected) in wrong {
            let error = config.validate().unwrap_err().to_string();
            assert!(error.starts_with(expected), "{error}");
        }
        assert!(default().validate().is_ok());
    }

    #[test]
    fn password_is_not_shown() {
        assert_eq!(format!("{:?}", Password::new("secret")), "Password(…)");
    }
}

//! The options of the proxy, each with its default, range and reason.
//!
//! The fields have the names that the configuration file and the command line use. Durations are whole milliseconds.

pub(crate) mod origin_url;

use crate::error::ProxyError;
use crate::rules::Rules;
use crate::rules::config::{GateConfig, RuleConfig};
use larder_web::Network;
use origin_url::OriginUrl;
use serde::{Deserialize, Serialize};
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::time::Duration;

/// The options of the proxy. Unknown keys are errors.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// The origins, as `http://HOST:PORT` or `https://HOST:PORT`, or as `h2c://HOST:PORT` for HTTP/2 without encryption. At least
    /// one, at most 64. Requests go to each in turn; one that cannot be reached is left out for a while.
    pub origin: Vec<String>,
    /// Further root certificates, in PEM, that the certificates of `https` origins are verified with. Default none: those of
    /// the operating system alone.
    pub origin_roots: Option<PathBuf>,
    /// Whether an origin gets the `Host` that the client sent. Default true: the origin makes its redirects, links and
    /// cookies for that host, and the cache keeps the hosts apart. With false it gets the host of its own URL.
    pub preserve_host: bool,
    /// Proxies in front of this one whose `X-Forwarded-*` and `Forwarded` are kept: addresses or ranges such as `10.0.0.0/8`.
    /// Default none: the fields of all clients are replaced.
    pub trusted_proxies: Vec<String>,
    /// What is set for some requests, at most 256 rules. The first one that is for a request applies. Default none.
    pub rules: Vec<RuleConfig>,
    /// The path of the origin that tells who may have the responses of rules with a scope. Default none.
    pub gate: Option<GateConfig>,
    /// The certificate chain of the proxy, in PEM. With it the proxy serves HTTPS, without it HTTP. Default none.
    pub tls_cert: Option<PathBuf>,
    /// The private key of `tls_cert`, in PEM. Only its owner may have access to it. Default none.
    pub tls_key: Option<PathBuf>,
    /// A Redis through which the replicas of the proxy share responses and purges, as a URL: `redis://`, `redis+cluster://` or
    /// `redis+sentinel://`, with `rediss` for TLS. Default none: the proxy is alone.
    pub redis: Option<String>,
    /// The user of Redis whose password is in `redis_password_file`. Default `default`.
    pub redis_user: Option<String>,
    /// A file with the password of Redis, without its last line break. It is read for each connection, so that the password can
    /// rotate. Default none: user and password are those of the URL.
    pub redis_password_file: Option<PathBuf>,
    /// A file in PEM with the root certificates that a `rediss://` server is verified with. Default none: the roots of the
    /// operating system.
    pub redis_roots: Option<PathBuf>,
    /// A file in PEM with the certificate for a Redis that demands one of its clients. Default none.
    pub redis_certificate: Option<PathBuf>,
    /// A file in PEM with the private key of `redis_certificate`. Default none.
    pub redis_key: Option<PathBuf>,
    /// The name under which replicas share: proxies of different services that use one Redis need different ones. Default
    /// `proxy`.
    pub redis_namespace: String,
    /// The longest time after which a purge by another replica takes effect here. Default 1,000, from 10 to 60,000.
    pub redis_max_lag_ms: u64,
    /// The longest body that other replicas get, in bytes. Default 1 MiB, at most 512 MiB. Longer ones stay on their replica, where
    /// purges by others reach them.
    pub max_shared_body_bytes: u64,
    /// Memory for stored responses, in bytes. Default 64 MiB, at least 1 MiB.
    pub cache_bytes: u64,
    /// A folder of its own in which the proxy keeps responses beyond memory and over restarts. Default none: memory alone.
    pub disk: Option<PathBuf>,
    /// Room for the responses in `disk`, in bytes. Default 1 GiB, from 1 MiB to 256 TiB.
    pub disk_bytes: u64,
    /// The longest body that is stored, in bytes. Default 16 MiB, at most 4 GiB. Longer ones are passed on.
    pub max_body_bytes: u64,
    /// Open connections of clients. Default 4,096, from 1 to 1,000,000. Further ones wait to be accepted.
    pub max_connections: usize,
    /// Requests that an origin gets at a time. Default 512, from 1 to 65,536. Further ones wait for at most
    /// `connect_timeout_ms`.
    pub max_origin_requests: usize,
    /// The longest head of a request or response, in bytes. Default 64 KiB, from 8 KiB to 1 MiB.
    pub max_head_bytes: usize,
    /// How long a client may take to send the head of a request, or its part of a TLS handshake. Default 10,000, from 100 to
    /// 600,000.
    pub header_timeout_ms: u64,
    /// How long a client may take nothing of a response that it has asked for. Default 30,000, from 100 to 600,000.
    pub write_timeout_ms: u64,
    /// How long a connection of a client may have no request. Default 60,000, from 100 to 3,600,000.
    pub keepalive_timeout_ms: u64,
    /// How long a connection to an origin may take, with its TLS handshake. Default 5,000, from 10 to 600,000.
    pub connect_timeout_ms: u64,
    /// How long an origin may take to begin its response, once it has the request. Default 60,000, from 10 to 3,600,000.
    pub response_timeout_ms: u64,
    /// How long an origin may send nothing in the middle of a body. Default 60,000, from 10 to 3,600,000.
    pub body_timeout_ms: u64,
    /// How long running requests may take to end when the proxy stops. Default 10,000, from 0 to 600,000.
    pub drain_timeout_ms: u64,
}

impl Default for Config {
    fn default() -> Config {
        Config {
            origin: Vec::new(),
            origin_roots: None,
            preserve_host: true,
            trusted_proxies: Vec::new(),
            rules: Vec::new(),
            gate: None,
            tls_cert: None,
            tls_key: None,
            redis: None,
            redis_user: None,
            redis_password_file: None,
            redis_roots: None,
            redis_certificate: None,
            redis_key: None,
            redis_namespace: "proxy".to_owned(),
            redis_max_lag_ms: 1_000,
            max_shared_body_bytes: 1 << 20,
            cache_bytes: 64 << 20,
            disk: None,
            disk_bytes: 1 << 30,
            max_body_bytes: 16 << 20,
            max_connections: 4_096,
            max_origin_requests: 512,
            max_head_bytes: 64 << 10,
            header_timeout_ms: 10_000,
            write_timeout_ms: 30_000,
            keepalive_timeout_ms: 60_000,
            connect_timeout_ms: 5_000,
            response_timeout_ms: 60_000,
            body_timeout_ms: 60_000,
            drain_timeout_ms: 10_000,
        }
    }
}

const MAX_ORIGINS: usize = 64;
const HOUR_MS: u64 = 3_600_000;
const TEN_MINUTES_MS: u64 = 600_000;

impl Config {
    /// Checks every option, without a look at files.
    ///
    /// # Errors
    /// [`ProxyError::Config`] and [`ProxyError::Incomplete`], with the first option that is wrong.
    pub fn validate(&self) -> Result<(), ProxyError> {
        if self.origin.is_empty() {
            return Err(wrong("origin", "missing", "a URL such as http://127.0.0.1:3000"));
        }
        self.origins()?;
        self.check_ranges()?;
        self.check_redis()?;
        match (&self.tls_cert, &self.tls_key) {
            (Some(_), None) => {
                Err(ProxyError::Incomplete { given: "tls_cert", missing: "tls_key", expected: "a file" })
            }
            (None, Some(_)) => {
                Err(ProxyError::Incomplete { given: "tls_key", missing: "tls_cert", expected: "a file" })
            }
            _ => Ok(()),
        }
    }

    /// Checks what needs no origin: the numbers, the networks and the rules.
    ///
    /// # Errors
    /// [`ProxyError::Config`] and [`ProxyError::Rule`], with the first option that is wrong.
    pub fn check_ranges(&self) -> Result<(), ProxyError> {
        self.trusted_networks()?;
        self.compiled_rules()?;
        if self.redis_namespace.is_empty() || self.redis_namespace.contains(':') {
            let value = format!("{:?}", self.redis_namespace);
            return Err(wrong("redis_namespace", value, "a name without a colon"));
        }
        in_range("redis_max_lag_ms", self.redis_max_lag_ms, 10..=60_000)?;
        in_range("max_shared_body_bytes", self.max_shared_body_bytes, 0..=512 << 20)?;
        in_range("cache_bytes", self.cache_bytes, 1 << 20..=i64::MAX as u64)?;
        in_range("disk_bytes", self.disk_bytes, 1 << 20..=1 << 48)?;
        in_range("max_body_bytes", self.max_body_bytes, 0..=4 << 30)?;
        in_range("max_connections", self.max_connections as u64, 1..=1_000_000)?;
        in_range("max_origin_requests", self.max_origin_requests as u64, 1..=65_536)?;
        in_range("max_head_bytes", self.max_head_bytes as u64, 8 << 10..=1 << 20)?;
        in_range("header_timeout_ms", self.header_timeout_ms, 100..=TEN_MINUTES_MS)?;
        in_range("write_timeout_ms", self.write_timeout_ms, 100..=TEN_MINUTES_MS)?;
        in_range("keepalive_timeout_ms", self.keepalive_timeout_ms, 100..=HOUR_MS)?;
        in_range("connect_timeout_ms", self.connect_timeout_ms, 10..=TEN_MINUTES_MS)?;
        in_range("response_timeout_ms", self.response_timeout_ms, 10..=HOUR_MS)?;
        in_range("body_timeout_ms", self.body_timeout_ms, 10..=HOUR_MS)?;
        in_range("drain_timeout_ms", self.drain_timeout_ms, 0..=TEN_MINUTES_MS)
    }

    /// Refuses an option of Redis that would have no effect.
    fn check_redis(&self) -> Result<(), ProxyError> {
        let files = [
            ("redis_password_file", &self.redis_password_file),
            ("redis_roots", &self.redis_roots),
            ("redis_certificate", &self.redis_certificate),
            ("redis_key", &self.redis_key),
        ];
        let first_file = files.into_iter().find(|(_, file)| file.is_some()).map(|(name, _)| name);
        match self.redis_user.as_ref().map(|_| "redis_user").or(first_file) {
            Some(given) if self.redis.is_none() => {
                Err(ProxyError::Incomplete { given, missing: "redis", expected: "a URL" })
            }
            Some(given @ "redis_user") if self.redis_password_file.is_none() => {
                Err(ProxyError::Incomplete { given, missing: "redis_password_file", expected: "a file" })
            }
            _ => Ok(()),
        }
    }

    /// The origins, parsed.
    pub(crate) fn origins(&self) -> Result<Vec<OriginUrl>, ProxyError> {
        if self.origin.len() > MAX_ORIGINS {
            return Err(wrong("origin", format!("{} URLs", self.origin.len()), "at most 64"));
        }
        let parse =
            |text: &String| OriginUrl::parse(text).map_err(|expected| wrong("origin", text, expected));
        self.origin.iter().map(parse).collect()
    }

    /// The rules, checked.
    pub(crate) fn compiled_rules(&self) -> Result<Rules, ProxyError> {
        Rules::new(&self.rules, self.gate.as_ref())
    }

    /// The trusted proxies, parsed.
    pub(crate) fn trusted_networks(&self) -> Result<Vec<Network>, ProxyError> {
        let expected = "an address or a range such as 10.0.0.0/8";
        let parse = |text: &String| text.parse().map_err(|()| wrong("trusted_proxies", text, expected));
        self.trusted_proxies.iter().map(parse).collect()
    }
}

/// The duration of an option in milliseconds.
pub(crate) fn ms(milliseconds: u64) -> Duration {
    Duration::from_millis(milliseconds)
}

fn wrong(field: &'static str, value: impl Into<String>, expected: impl Into<String>) -> ProxyError {
    ProxyError::Config { field, value: value.into(), expected: expected.into() }
}

fn in_range(field: &'static str, value: u64, range: RangeInclusive<u64>) -> Result<(), ProxyError> {
    if range.contains(&value) {
        return Ok(());
    }
    Err(wrong(field, value.to_string(), format!("{} to {}", range.start(), range.end())))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(change: impl FnOnce(&mut Config)) -> String {
        let mut config = Config { origin: vec!["http://127.0.0.1:1".into()], ..Config::default() };
        change(&mut config);
        config.validate().expect_err("refused").to_string()
    }

    #[test]
    fn default_with_an_origin_is_valid() {
        let origin = vec!["http://127.0.0.1:1".to_owned()];
        assert!(Config { origin, ..Config::default() }.validate().is_ok());
    }

    #[test]
    fn errors_name_the_option_its_value_and_its_range() {
        for (message, expected) in [
            (message(|config| config.origin.clear()), "origin is missing, expected a URL such as "),
            (message(|config| config.origin = vec!["ftp://a".into()]), "origin is ftp://a, expected http://"),
            (
                message(|config| config.origin = vec!["http://a".into(); 65]),
                "origin is 65 URLs, expected at most",
            ),
            (message(|config| config.max_connections = 0), "max_connections is 0, expected 1 to 1000000"),
            (message(|config| config.max_head_bytes = 9), "max_head_bytes is 9, expected 8192 to 1048576"),
            (
                message(|config| config.trusted_proxies = vec!["10.0.0.0/33".into()]),
                "trusted_proxies is 10.0.0.0/33, expected an address or a range such as 10.0.0.0/8",
            ),
            (
                message(|config| config.tls_cert = Some("a.pem".into())),
                "tls_key is missing, expected a file, since tls_cert is set",
            ),
            (
                message(|config| config.tls_key = Some("a.key".into())),
                "tls_cert is missing, expected a file, since tls_key is set",
            ),
            (
                message(|config| config.redis_roots = Some("roots.pem".into())),
                "redis is missing, expected a URL, since redis_roots is set",
            ),
            (
                message(|config| {
                    config.redis = Some("redis://localhost".into());
                    config.redis_user = Some("ada".into());
                }),
                "redis_password_file is missing, expected a file, since redis_user is set",
            ),
            (
                message(|config| config.redis_namespace = "a:b".into()),
                "redis_namespace is \"a:b\", expected a name without a colon",
            ),
            (message(|config| config.redis_max_lag_ms = 9), "redis_max_lag_ms is 9, expected 10 to 60000"),
        ] {
            assert!(message.starts_with(expected), "{message}");
        }
    }
}

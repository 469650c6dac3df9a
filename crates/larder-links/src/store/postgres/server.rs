//! The URL of a server: what the client library parses, and `sslmode` and `sslrootcert`, of which it knows less than libpq.

use super::open_error;
use super::tls::{self, Verified};
use crate::store::{DatabaseAddress, StoreError};
use percent_encoding::percent_decode_str;
use std::error::Error;
use std::path::PathBuf;
use tokio_postgres::Config;
use tokio_postgres::config::{Host, SslMode};
use tokio_postgres_rustls::MakeRustlsConnect;

/// How to connect to a server.
pub(super) struct Server {
    pub(super) config: Config,
    pub(super) tls: MakeRustlsConnect,
}

/// A URL whose files were not read yet.
struct ServerUrl {
    config: Config,
    verified: Verified,
    roots: Option<PathBuf>,
}

impl Server {
    /// Reads the root certificates that the URL asks for.
    pub(super) fn of(url: &str, address: &DatabaseAddress) -> Result<Server, StoreError> {
        let refused = |reason: String| open_error(address, &reason);
        let ServerUrl { config, verified, roots } =
            parse(url).map_err(|expected| refused(format!("expected {expected}")))?;
        let tls = tls::connector(verified, roots.as_deref()).map_err(refused)?;
        Ok(Server { config, tls })
    }
}

/// Whether a text is the URL of a database that this program can connect to.
///
/// # Errors
/// What is expected instead.
pub(crate) fn check_url(url: &str) -> Result<(), String> {
    parse(url).map(drop)
}

fn parse(url: &str) -> Result<ServerUrl, String> {
    let Parameters { rest, sslmode, sslrootcert } = Parameters::of(url);
    // The client library takes what follows the first one for the host.
    if rest.matches('@').count() > 1 {
        return Err("a URL with one '@', in front of the host: elsewhere it is %40".into());
    }
    let mut config: Config = rest.parse().map_err(|error| expected(&error))?;
    let (mode, verified) = match sslmode.as_deref() {
        Some("disable") => (SslMode::Disable, Verified::Nothing),
        None | Some("prefer") => (SslMode::Prefer, Verified::Nothing),
        Some("verify-ca") => (SslMode::Require, Verified::Root),
        // libpq verifies nothing by `require`. An attacker between the two could then read all that is encrypted.
        Some("require" | "verify-full") => (SslMode::Require, Verified::RootAndName),
        Some(_) => {
            return Err("a URL whose sslmode is disable, prefer, require, verify-ca or verify-full".into());
        }
    };
    if sslrootcert.is_some() && verified == Verified::Nothing {
        return Err("a URL with sslmode=verify-full beside sslrootcert, or no server is verified".into());
    }
    // There is no TLS on a Unix socket, and nobody between its two ends.
    let is_unix = |host: &Host| matches!(host, Host::Unix(_));
    let on_sockets = !config.get_hosts().is_empty() && config.get_hosts().iter().all(is_unix);
    config.ssl_mode(if on_sockets { SslMode::Disable } else { mode });
    if config.get_application_name().is_none() {
        config.application_name("larder links");
    }
    // As in libpq, this is the name of the roots of the operating system.
    let roots = sslrootcert.filter(|roots| roots != "system").map(PathBuf::from);
    Ok(ServerUrl { config, verified, roots })
}

/// What is expected instead of a URL that cannot be parsed. Most of an error is not shown: it can contain the password.
fn expected(error: &tokio_postgres::Error) -> String {
    let reason = error.source().map(ToString::to_string).unwrap_or_default();
    match reason.starts_with("unknown option ") {
        true => format!("a URL such as postgres://user@host/name, without an {reason}"),
        false => "a URL such as postgres://user@host/name".to_owned(),
    }
}

/// A URL without these parameters, and their values.
struct Parameters {
    rest: String,
    sslmode: Option<String>,
    sslrootcert: Option<String>,
}

impl Parameters {
    fn of(url: &str) -> Parameters {
        let mut parameters = Parameters { rest: url.to_owned(), sslmode: None, sslrootcert: None };
        // A password in front of the host may contain a question mark.
        let host = url.find('@').unwrap_or(0);
        let Some(query) = url[host..].find('?').map(|start| host + start + 1) else { return parameters };
        let mut others = Vec::new();
        for pair in url[query..].split('&') {
            let place = match pair.split_once('=') {
                Some(("sslmode", value)) => (&mut parameters.sslmode, value),
                Some(("sslrootcert", value)) => (&mut parameters.sslrootcert, value),
                _ => {
                    others.push(pair);
                    continue;
                }
            };
            *place.0 = Some(percent_decode_str(place.1).decode_utf8_lossy().into_owned());
        }
        parameters.rest = format!("{}{}", &url[..query], others.join("&"));
        parameters
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modes_are_those_of_libpq_and_require_verifies() {
        for (query, mode, verified) in [
            ("", SslMode::Prefer, Verified::Nothing),
            ("?sslmode=prefer&connect_timeout=3", SslMode::Prefer, Verified::Nothing),
            ("?sslmode=disable", SslMode::Disable, Verified::Nothing),
            ("?connect_timeout=3&sslmode=require", SslMode::Require, Verified::RootAndName),
            ("?sslmode=verify-ca&sslrootcert=/a%20b.pem", SslMode::Require, Verified::Root),
            ("?sslrootcert=system&sslmode=verify-full", SslMode::Require, Verified::RootAndName),
        ] {
            let url = parse(&format!("postgres://me:a?b@db.example/links{query}")).unwrap();
            assert_eq!((url.config.get_ssl_mode(), url.verified), (mode, verified), "{query}");
            assert_eq!(url.config.get_password(), Some(&b"a?b"[..]), "{query}");
            let timeout = url.config.get_connect_timeout().map(|timeout| timeout.as_secs());
            assert_eq!(timeout, query.contains("timeout").then_some(3), "{query}");
            assert_eq!(url.roots, query.contains("/a%20b").then(|| "/a b.pem".into()), "{query}");
        }
        let on_socket = parse("postgres:///links?host=/run/postgresql&sslmode=require").unwrap();
        assert_eq!(on_socket.config.get_ssl_mode(), SslMode::Disable);
    }

    #[test]
    fn roots_that_nothing_is_verified_with_and_unknown_modes_are_refused() {
        for (query, reason) in [
            ("sslmode=allow", "whose sslmode is disable, prefer"),
            ("sslmode=prefer&sslrootcert=/roots.pem", "sslmode=verify-full beside sslrootcert"),
            ("sslrootcert=/roots.pem", "sslmode=verify-full beside sslrootcert"),
            ("sslcert=/client.pem", "without an unknown option `sslcert`"),
            ("sslmod=require", "without an unknown option `sslmod`"),
        ] {
            let error = check_url(&format!("postgres://db.example/links?{query}")).unwrap_err();
            assert!(error.contains(reason), "{query}: {error}");
        }
    }
}

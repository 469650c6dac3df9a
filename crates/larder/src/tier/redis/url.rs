//! The addresses that a cache can be given.

use redis::{ConnectionAddr, ConnectionInfo, IntoConnectionInfo, RedisError};

/// The port of a sentinel that names none.
const SENTINEL_PORT: u16 = 26379;

/// What an address leads to.
pub(super) enum Target {
    /// One server.
    Server(ConnectionInfo),
    /// The server that sentinels watch under a name.
    Sentinels {
        name: String,
        each: Vec<ConnectionInfo>,
        /// Its place is unknown.
        server: ConnectionInfo,
    },
}

/// Parses an address.
///
/// # Errors
/// What is wrong with it, without its passwords.
pub(super) fn parse(url: &str) -> Result<Target, String> {
    let sentinels = |scheme: &str| url.strip_prefix(scheme)?.strip_prefix("+sentinel://");
    for scheme in ["redis", "rediss", "valkey", "valkeys"] {
        if let Some(rest) = sentinels(scheme) {
            return parse_sentinels(scheme, rest);
        }
    }
    parse_server(url).map(Target::Server)
}

/// Parses `[user:password@]host[:port][,…]/name[/db][?sentinel_user=…&sentinel_pass=…]`.
fn parse_sentinels(scheme: &str, rest: &str) -> Result<Target, String> {
    let form = format!("expected {scheme}+sentinel://[USER:PASSWORD@]HOST[:PORT],…/NAME[/DB]");
    let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
    let (authority, path) =
        rest.split_once('/').ok_or_else(|| format!("the name of the primary is missing; {form}"))?;
    let (user, hosts) = match authority.rsplit_once('@') {
        Some((user, hosts)) => (format!("{user}@"), hosts),
        None => (String::new(), authority),
    };
    let (name, database) = path.split_once('/').unwrap_or((path, "0"));
    if name.is_empty() {
        return Err(format!("the name of the primary is missing; {form}"));
    }
    let (mut sentinel_user, mut sentinel_pass) = ("", None);
    for pair in query.split('&').filter(|pair| !pair.is_empty()) {
        match pair.split_once('=') {
            Some(("sentinel_user", value)) => sentinel_user = value,
            Some(("sentinel_pass", value)) => sentinel_pass = Some(value),
            _ => {
                let option = pair.split('=').next().unwrap_or_default();
                return Err(format!("unknown option {option:?}; expected sentinel_user or sentinel_pass"));
            }
        }
    }
    let sentinel_user = sentinel_pass.map(|pass| format!("{sentinel_user}:{pass}@")).unwrap_or_default();
    let sentinel = |host: &str| {
        if host.is_empty() {
            return Err(format!("a sentinel has no host; {form}"));
        }
        // The last colon is that of the port, unless it is inside of an IPv6 address.
        let has_port = host.rsplit_once(':').is_some_and(|(_, port)| !port.contains(']'));
        let port = if has_port { String::new() } else { format!(":{SENTINEL_PORT}") };
        parse_server(&format!("{scheme}://{sentinel_user}{host}{port}"))
    };
    Ok(Target::Sentinels {
        name: name.to_owned(),
        each: hosts.split(',').map(sentinel).collect::<Result<_, _>>()?,
        server: parse_server(&format!("{scheme}://{user}primary.invalid/{database}"))?,
    })
}

fn parse_server(url: &str) -> Result<ConnectionInfo, String> {
    let is_tls = is_tls(url);
    if is_tls && !cfg!(feature = "tls") {
        return Err("TLS needs the feature `tls-ring` of larder, or `tls` and a crypto provider".into());
    }
    if is_tls && url.ends_with("#insecure") {
        return Err("a server that is not verified is not supported: give its root certificate to \
                    RedisTls::with_root_certificates"
            .into());
    }
    let info = url.into_connection_info().map_err(|error| explain(&error))?;
    // The client ignores it.
    if !matches!(info.addr(), ConnectionAddr::Unix(_)) && url.contains('?') {
        return Err("a query is only for Unix sockets; expected redis://USER:PASSWORD@HOST:PORT/DB".into());
    }
    match info.redis_settings().db() {
        number @ ..0 => Err(format!("the database is {number}; its number must not be negative")),
        _ => Ok(info),
    }
}

/// What is wrong with an address. The client tells of most addresses only that they are wrong.
fn explain(error: &RedisError) -> String {
    let text = error.to_string();
    let forms = "expected redis://HOST:PORT, rediss://HOST:PORT for TLS, redis+unix:///PATH, or \
                 redis+sentinel://HOST:PORT,…/NAME";
    match text.split_once(" - ") {
        Some(("Redis URL did not parse", _)) => forms.to_owned(),
        Some((reason, _)) => format!("{}; {forms}", reason.to_ascii_lowercase()),
        None => text,
    }
}

fn is_tls(url: &str) -> bool {
    url.starts_with("rediss://") || url.starts_with("valkeys://")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error(url: &str) -> String {
        parse(url).err().expect("it is wrong")
    }

    #[test]
    fn address_of_sentinels_has_hosts_name_database_and_two_passwords() {
        let url = "redis+sentinel://ann:one@a,b:7000,[::1]:7001/shop/3?sentinel_pass=two";
        let Ok(Target::Sentinels { name, each, server }) = parse(url) else { panic!("it is right") };
        let places: Vec<_> = each.iter().map(|sentinel| sentinel.addr().to_string()).collect();
        assert_eq!((&*name, places), ("shop", vec!["a:26379".into(), "b:7000".into(), "::1:7001".into()]));
        assert!(each.iter().all(|sentinel| sentinel.redis_settings().password() == Some("two")));
        let settings = server.redis_settings();
        assert_eq!((settings.username(), settings.password()), (Some("ann"), Some("one")));
        assert_eq!(settings.db(), 3);
    }

    #[test]
    fn wrong_address_of_sentinels_names_what_is_wrong_and_no_password() {
        for (url, expected) in [
            ("redis+sentinel://a,b", "the name of the primary is missing"),
            ("redis+sentinel://u:secret@a,b/", "the name of the primary is missing"),
            ("redis+sentinel://u:secret@a,,b/shop", "a sentinel has no host"),
            ("redis+sentinel://a/shop?password=secret", "unknown option \"password\""),
            ("redis+sentinel://a/shop/-1", "the database is -1"),
            ("redis+sentinel://u:secret@a:x/shop", "expected redis://"),
        ] {
            let error = error(url);
            assert!(error.contains(expected) && !error.contains("secret"), "{url}: {error}");
        }
    }
}

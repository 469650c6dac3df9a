//! The addresses that a cache can be given.

use redis::{ConnectionAddr, ConnectionInfo, IntoConnectionInfo, RedisError};
use std::collections::HashSet;

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
    /// Some servers of a cluster.
    Cluster(Vec<ConnectionInfo>),
}

impl Target {
    /// The number of the database.
    pub(super) fn database(&self) -> i64 {
        match self {
            Target::Server(info) | Target::Sentinels { server: info, .. } => info.redis_settings().db(),
            Target::Cluster(_) => 0,
        }
    }
}

/// Parses an address.
///
/// # Errors
/// What is wrong with it, without its passwords.
pub(super) fn parse(url: &str) -> Result<Target, String> {
    for scheme in ["redis", "rediss", "valkey", "valkeys"] {
        match url.strip_prefix(scheme).and_then(|rest| rest.split_once("://")) {
            Some(("+sentinel", rest)) => return parse_sentinels(scheme, rest),
            Some(("+cluster", rest)) => return parse_cluster(scheme, rest),
            _ => {}
        }
    }
    parse_server(url).map(Target::Server)
}

/// Parses `[user:password@]host[:port][,…]`.
fn parse_cluster(scheme: &str, rest: &str) -> Result<Target, String> {
    let form = format!("expected {scheme}+cluster://[USER:PASSWORD@]HOST[:PORT],…");
    check_scheme_is_once(rest, &form)?;
    let (authority, path) = rest.split_once('/').unwrap_or((rest, ""));
    if !matches!(path, "" | "0") {
        return Err(format!("a cluster has the database 0 only, not {path:?}; {form}"));
    }
    let (user, hosts) = user_and_hosts(authority);
    let server = |host: &str| match host {
        "" => Err(format!("a server has no host; {form}")),
        host => parse_server(&format!("{scheme}://{user}{host}")),
    };
    hosts.split(',').map(server).collect::<Result<_, _>>().map(Target::Cluster)
}

fn check_scheme_is_once(rest: &str, form: &str) -> Result<(), String> {
    match rest.contains("://") {
        true => Err(format!("the scheme stands once, in front of all hosts; {form}")),
        false => Ok(()),
    }
}

/// The part up to the `@`, which is empty if there is none, and what follows.
fn user_and_hosts(authority: &str) -> (&str, &str) {
    authority.split_at(authority.rfind('@').map_or(0, |at| at + 1))
}

/// Parses `[user:password@]host[:port][,…]/name[/db][?sentinel_user=…&sentinel_pass=…]`.
fn parse_sentinels(scheme: &str, rest: &str) -> Result<Target, String> {
    let form = format!("expected {scheme}+sentinel://[USER:PASSWORD@]HOST[:PORT],…/NAME[/DB]");
    check_scheme_is_once(rest, &form)?;
    let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
    let (authority, path) =
        rest.split_once('/').ok_or_else(|| format!("the name of the primary is missing; {form}"))?;
    let (user, hosts) = user_and_hosts(authority);
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
    let each = hosts.split(',').map(sentinel).collect::<Result<Vec<_>, _>>()?;
    let mut places = HashSet::new();
    if let Some(twice) = each.iter().find(|sentinel| !places.insert(sentinel.addr().to_string())) {
        return Err(format!("the sentinel {} stands there twice: a majority counts each once", twice.addr()));
    }
    Ok(Target::Sentinels {
        name: name.to_owned(),
        each,
        server: parse_server(&format!("{scheme}://{user}primary.invalid/{database}"))?,
    })
}

fn parse_server(url: &str) -> Result<ConnectionInfo, String> {
    let is_tls = is_tls(url);
    if is_tls && !cfg!(feature = "tls") {
        return Err("TLS needs the feature `tls-ring` of larder, or `tls` and a crypto provider".into());
    }
    if is_tls && url.ends_with("#insecure") {
        return Err(
            "a server that is not verified is not supported: name the file of its root certificate as \
                    redis_roots, or pass it to RedisTls::with_root_certificates"
                .into(),
        );
    }
    let authority = url.split_once("://").map_or(url, |(_, rest)| rest);
    let (authority, rest) = authority.split_at(authority.find(['/', '?', '#']).unwrap_or(authority.len()));
    if !authority.is_empty() && !authority.contains('@') && rest.contains('@') {
        return Err("a '/', '?' or '#' in a user or a password must be percent-encoded".into());
    }
    if user_and_hosts(authority).1.contains(',') {
        return Err(
            "several servers are redis+sentinel://HOST:PORT,…/NAME or redis+cluster://HOST:PORT,…".into()
        );
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
    let forms = "expected redis://HOST:PORT, rediss://HOST:PORT for TLS, redis+unix:///PATH, \
                 redis+sentinel://HOST:PORT,…/NAME, or redis+cluster://HOST:PORT,…";
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
    fn address_of_cluster_has_servers_and_one_user() {
        let Ok(Target::Cluster(seeds)) = parse("rediss+cluster://ann:one@a,b:7000,[::1]:7001/0") else {
            panic!("it is right")
        };
        let places: Vec<_> = seeds.iter().map(|seed| seed.addr().to_string()).collect();
        assert_eq!(places, ["a:6379", "b:7000", "::1:7001"]);
        assert!(seeds.iter().all(|seed| seed.redis_settings().password() == Some("one")));
        assert!(seeds.iter().all(|seed| matches!(seed.addr(), ConnectionAddr::TcpTls { .. })));
    }

    #[test]
    fn wrong_address_of_several_servers_names_what_is_wrong_and_no_password() {
        for (url, expected) in [
            ("redis+sentinel://a,b", "the name of the primary is missing"),
            ("redis+sentinel://a,b,a:26379/shop", "the sentinel a:26379 stands there twice"),
            ("redis+sentinel://u:secret@a,b/", "the name of the primary is missing"),
            ("redis+sentinel://u:secret@a,,b/shop", "a sentinel has no host"),
            ("redis+sentinel://a/shop?password=secret", "unknown option \"password\""),
            ("redis+sentinel://a/shop/-1", "the database is -1"),
            ("redis+sentinel://u:secret@a:x/shop", "expected redis://"),
            ("redis+cluster://u:secret@a,b/1", "a cluster has the database 0 only, not \"1\""),
            ("redis+cluster://u:secret@a/shop", "a cluster has the database 0 only"),
            ("redis+cluster://u:secret@a,,b", "a server has no host"),
            ("redis+cluster+sentinel://a/shop", "expected redis://"),
            (
                "redis+cluster://a,redis+cluster://b",
                "the scheme stands once, in front of all hosts; expected",
            ),
            ("redis+sentinel://a,redis+sentinel://b/shop", "the scheme stands once, in front of all hosts"),
            ("redis://u:secret@a,b", "several servers are redis+sentinel://"),
            ("redis://u:se/secret@a", "must be percent-encoded"),
            ("rediss://u:secret@a#insecure", "redis_roots"),
        ] {
            let error = error(url);
            assert!(error.contains(expected) && !error.contains("secret"), "{url}: {error}");
        }
    }
}

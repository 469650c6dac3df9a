//! Allows only requests whose `Host` is a name of this machine, so that no web page can access the port under a foreign
//! name (DNS rebinding). From another machine such a name is false: any program can send it.

use std::net::{IpAddr, Ipv6Addr, SocketAddr};

use axum::extract::ConnectInfo;
use http::header::{HOST, ORIGIN};
use http::uri::Authority;
use http::{Extensions, HeaderMap, Uri};
use larder_web::{host_header_is_unambiguous, is_loopback_ip, is_loopback_name};

/// Whether a request names exactly one host and that is allowed.
pub(crate) fn allows(uri: &Uri, headers: &HeaderMap, extensions: &Extensions, hosts: &[String]) -> bool {
    let of_header = || headers.get(HOST).and_then(|host| Authority::try_from(host.as_bytes()).ok());
    let host = uri.authority().cloned().or_else(of_header);
    host_header_is_unambiguous(uri, headers)
        && host.is_some_and(|host| is_allowed(host.host(), may_be_local(extensions), hosts))
}

/// Whether the client may be on this machine. A server that does not tell the address of a client must not be reachable
/// by others.
fn may_be_local(extensions: &Extensions) -> bool {
    let peer = extensions.get::<ConnectInfo<SocketAddr>>();
    peer.is_none_or(|ConnectInfo(peer)| is_loopback_ip(peer.ip()))
}

/// Whether a request comes from our own page or from no page.
pub(crate) fn same_origin(headers: &HeaderMap) -> bool {
    let mut origins = headers.get_all(ORIGIN).iter();
    let Some(origin) = origins.next() else { return true };
    if origins.next().is_some() {
        return false;
    }
    let host = headers.get(HOST).and_then(|host| host.to_str().ok());
    let origin = origin
        .to_str()
        .ok()
        .and_then(|origin| origin.strip_prefix("http://").or_else(|| origin.strip_prefix("https://")));
    matches!((origin, host), (Some(origin), Some(host)) if origin.eq_ignore_ascii_case(host))
}

fn is_allowed(host: &str, is_local: bool, hosts: &[String]) -> bool {
    let name = host.trim_end_matches('.').to_ascii_lowercase();
    let is_loopback = || is_loopback_name(&name) || address_of(&name).is_some_and(is_loopback_ip);
    (is_local && is_loopback()) || hosts.iter().any(|allowed| allowed.eq_ignore_ascii_case(&name))
}

/// The IP address that a host is, in the notation of URIs.
fn address_of(host: &str) -> Option<IpAddr> {
    match host.strip_prefix('[').and_then(|host| host.strip_suffix(']')) {
        Some(inner) => inner.parse::<Ipv6Addr>().ok().map(IpAddr::V6),
        None => host.parse().ok(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_allowed_with(uri: &str, hosts: &[&str]) -> bool {
        is_allowed_from(None, uri, hosts)
    }

    fn is_allowed_from(peer: Option<&str>, uri: &str, hosts: &[&str]) -> bool {
        let mut extensions = Extensions::new();
        if let Some(peer) = peer {
            extensions.insert(ConnectInfo(peer.parse::<SocketAddr>().unwrap()));
        }
        let mut headers = HeaderMap::new();
        for host in hosts {
            headers.append(HOST, host.parse().unwrap());
        }
        allows(&uri.parse().unwrap(), &headers, &extensions, &["admin.internal".to_owned()])
    }

    #[test]
    fn loopback_hosts_are_allowed_from_this_machine_only() {
        for peer in ["127.0.0.1:5", "127.1.2.3:5", "[::1]:5", "[::ffff:127.0.0.1]:5"] {
            assert!(is_allowed_from(Some(peer), "/", &["localhost"]), "{peer}");
        }
        for peer in ["192.0.2.7:5", "[2001:db8::1]:5", "[::ffff:192.0.2.7]:5"] {
            for host in ["localhost", "127.0.0.1:8081", "[::1]", "a.localhost"] {
                assert!(!is_allowed_from(Some(peer), "/", &[host]), "{host} from {peer}");
            }
            assert!(!is_allowed_from(Some(peer), "http://localhost/", &[]), "{peer}");
            assert!(is_allowed_from(Some(peer), "/", &["admin.internal"]), "{peer}");
        }
    }

    #[test]
    fn allows_loopback_and_configured_hosts() {
        for host in [
            "localhost",
            "LOCALHOST:8081",
            "larder.localhost:8081",
            "127.0.0.1",
            "127.8.9.1:80",
            "[::1]:8081",
            "admin.internal",
            "Admin.Internal:9",
            "localhost.",
        ] {
            assert!(is_allowed_with("/", &[host]), "{host}");
        }
        assert!(is_allowed_with("http://127.0.0.1:8081/", &["127.0.0.1:8081"]));
        assert!(is_allowed_with("http://localhost/", &[]));
    }

    #[test]
    fn allows_refuses_other_hosts() {
        for hosts in [
            &["evil.example"][..],
            &["127.0.0.1.evil.example"],
            &["localhost.evil.example"],
            &["10.0.0.1"],
            &["[::2]"],
            &["0.0.0.0"],
            &[""],
            &[],
            &["localhost", "localhost"],
            &["a b"],
            &["evillocalhost"],
        ] {
            assert!(!is_allowed_with("/", hosts), "{hosts:?}");
        }
        assert!(!is_allowed_with("http://evil.example/", &["localhost"]));
        assert!(!is_allowed_with("http://localhost/", &["evil.example"]));
    }

    #[test]
    fn same_origin_accepts_our_page_and_requests_without_origin() {
        let from = |origin: Option<&str>| {
            let mut headers = HeaderMap::new();
            headers.insert(HOST, "127.0.0.1:8081".parse().unwrap());
            if let Some(origin) = origin {
                headers.insert(ORIGIN, origin.parse().unwrap());
            }
            same_origin(&headers)
        };
        assert!(from(None));
        assert!(from(Some("http://127.0.0.1:8081")));
        for origin in [
            "null",
            "http://127.0.0.1",
            "http://evil.example",
            "file://127.0.0.1:8081",
            "http://localhost:8081",
        ] {
            assert!(!from(Some(origin)), "{origin}");
        }
    }
}

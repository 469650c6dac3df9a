//! Allows only requests whose `Host` is a name of this machine, so that no web page can access the port under a foreign
//! name (DNS rebinding).

use std::net::{IpAddr, Ipv6Addr};

use http::header::{HOST, ORIGIN};
use http::uri::Authority;
use http::{HeaderMap, Uri};
use larder_web::{host_header_is_unambiguous, is_loopback_ip, is_loopback_name};

/// Whether a request names exactly one host and that is allowed.
pub(crate) fn allows(uri: &Uri, headers: &HeaderMap, hosts: &[String]) -> bool {
    let of_header = || headers.get(HOST).and_then(|host| Authority::try_from(host.as_bytes()).ok());
    let host = uri.authority().cloned().or_else(of_header);
    host_header_is_unambiguous(uri, headers) && host.is_some_and(|host| is_allowed(host.host(), hosts))
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

fn is_allowed(host: &str, hosts: &[String]) -> bool {
    let name = host.trim_end_matches('.').to_ascii_lowercase();
    is_loopback_name(&name)
        || address_of(&name).is_some_and(is_loopback_ip)
        || hosts.iter().any(|allowed| allowed.eq_ignore_ascii_case(&name))
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
        let mut headers = HeaderMap::new();
        for host in hosts {
            headers.append(HOST, host.parse().unwrap());
        }
        allows(&uri.parse().unwrap(), &headers, &["admin.internal".to_owned()])
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

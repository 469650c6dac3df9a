//! The rules for host names that the guards of both sites follow.

use http::header::HOST;
use http::{HeaderMap, Uri};
use std::net::IpAddr;

/// The names of this machine in the hosts files of common systems.
const LOOPBACK_NAMES: [&str; 7] = [
    "localhost",
    "localhost.localdomain",
    "localhost4",
    "localhost6",
    "localhost6.localdomain6",
    "ip6-localhost",
    "ip6-loopback",
];

/// Whether a domain name, in lower case and without a final dot, is one of this machine: a name of common hosts files, or
/// below `localhost` (RFC 6761, section 6.3). No web page can point such a name at another address.
pub fn is_loopback_name(name: &str) -> bool {
    LOOPBACK_NAMES.contains(&name) || name.ends_with(".localhost")
}

/// Whether an IP address is one of this machine, also if it is an IPv4 address in IPv6 notation.
pub fn is_loopback_ip(ip: IpAddr) -> bool {
    ip.to_canonical().is_loopback()
}

/// Whether a request names at most one host: one `Host` line at most, which does not contradict the target of the request
/// (RFC 9112, section 3.2).
pub fn host_header_is_unambiguous(uri: &Uri, headers: &HeaderMap) -> bool {
    let mut lines = headers.get_all(HOST).iter();
    match (lines.next(), lines.next(), uri.authority()) {
        (_, Some(_), _) => false,
        (Some(host), None, Some(target)) => host.as_bytes() == target.as_str().as_bytes(),
        (_, None, _) => true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loopback_names_and_addresses_are_recognised() {
        for name in ["localhost", "a.localhost", "ip6-localhost", "localhost.localdomain"] {
            assert!(is_loopback_name(name), "{name}");
        }
        for name in ["", "evillocalhost", "localhost.evil.example", "localhost.", "example.com"] {
            assert!(!is_loopback_name(name), "{name}");
        }
        for ip in ["127.0.0.1", "127.8.9.1", "::1", "::ffff:127.0.0.1"] {
            assert!(is_loopback_ip(ip.parse().unwrap()), "{ip}");
        }
        for ip in ["0.0.0.0", "10.0.0.1", "::", "::2", "::ffff:10.0.0.1"] {
            assert!(!is_loopback_ip(ip.parse().unwrap()), "{ip}");
        }
    }

    #[test]
    fn second_or_contradicting_host_is_ambiguous() {
        let is_unambiguous = |uri: &'static str, hosts: &[&str]| {
            let lines = hosts.iter().map(|host| (HOST, host.parse().unwrap()));
            host_header_is_unambiguous(&Uri::from_static(uri), &lines.collect())
        };
        assert!(is_unambiguous("/", &[]));
        assert!(is_unambiguous("/", &["a"]));
        assert!(is_unambiguous("http://a/", &[]));
        assert!(is_unambiguous("http://a:80/", &["a:80"]));
        assert!(!is_unambiguous("/", &["a", "b"]));
        assert!(!is_unambiguous("/", &["a", "a"]));
        assert!(!is_unambiguous("http://a/", &["b"]));
    }
}

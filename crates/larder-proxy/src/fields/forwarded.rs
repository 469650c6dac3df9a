//! What an origin learns of the client: `X-Forwarded-For`, `-Host`, `-Proto`, and `Forwarded` (RFC 7239).
//!
//! A client can send such fields too. They are removed, unless the peer is a trusted proxy: an origin that believed them would
//! take any address or host for that of the client, and the cache would store what it makes of them.

use http::header::{FORWARDED, HOST, HeaderName};
use http::uri::Scheme;
use http::{HeaderMap, HeaderValue};
use larder_web::Network;
use std::net::IpAddr;

const FOR: HeaderName = HeaderName::from_static("x-forwarded-for");
const FORWARDED_HOST: HeaderName = HeaderName::from_static("x-forwarded-host");
const PROTO: HeaderName = HeaderName::from_static("x-forwarded-proto");

/// Further fields that servers take the client or the target from.
const CLAIMS: [&str; 10] = [
    "forwarded",
    "x-client-ip",
    "x-cluster-client-ip",
    "x-host",
    "x-original-host",
    "x-original-url",
    "x-original-uri",
    "x-real-ip",
    "x-rewrite-url",
    "true-client-ip",
];

/// Fields that servers which read names as variables confuse with others, if they have underscores.
const FRAMING: [&str; 4] = ["content-length", "transfer-encoding", "host", "connection"];

/// The peer of a connection.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Peer {
    /// The address of the peer.
    pub(crate) address: IpAddr,
    /// Whether the connection is encrypted.
    pub(crate) is_tls: bool,
    /// Whether the peer is a trusted proxy.
    pub(crate) is_trusted: bool,
}

impl Peer {
    /// The peer at an address.
    pub(crate) fn new(address: IpAddr, is_tls: bool, trusted: &[Network]) -> Peer {
        let address = address.to_canonical();
        Peer { address, is_tls, is_trusted: trusted.iter().any(|network| network.contains(address)) }
    }

    /// The scheme that the client used: of the connection, or what a trusted proxy says.
    pub(crate) fn scheme(&self, headers: &HeaderMap) -> Scheme {
        let claimed = headers.get(PROTO).filter(|_| self.is_trusted);
        match claimed.map(HeaderValue::as_bytes) {
            Some(claimed) if claimed.eq_ignore_ascii_case(b"https") => Scheme::HTTPS,
            Some(claimed) if claimed.eq_ignore_ascii_case(b"http") => Scheme::HTTP,
            _ if self.is_tls => Scheme::HTTPS,
            _ => Scheme::HTTP,
        }
    }

    /// Removes what the client may not claim.
    pub(crate) fn remove_claims(&self, headers: &mut HeaderMap) {
        if !self.is_trusted {
            remove_claims(headers);
        }
    }

    /// Tells the origin of the client. `Host` is there, and claims are not.
    pub(crate) fn add_to(&self, headers: &mut HeaderMap, scheme: &Scheme) {
        let host = headers.get(HOST).cloned().unwrap_or_else(|| HeaderValue::from_static(""));
        let element = self.element(&host, scheme);
        continue_list(headers, FORWARDED, element);
        let address = HeaderValue::from_str(&self.address.to_string()).expect("an address is a valid value");
        continue_list(headers, FOR, address);
        headers.entry(FORWARDED_HOST).or_insert(host);
        let scheme = HeaderValue::from_str(scheme.as_str()).expect("a scheme is a valid value");
        headers.entry(PROTO).or_insert(scheme);
    }

    /// The element of this hop in `Forwarded` (RFC 7239, sections 4 and 6).
    fn element(&self, host: &HeaderValue, scheme: &Scheme) -> HeaderValue {
        let address = match self.address {
            IpAddr::V4(address) => address.to_string(),
            IpAddr::V6(address) => format!("\"[{address}]\""),
        };
        // An authority has no character that ends a quoted string.
        let host = host.to_str().unwrap_or_default();
        let element = format!("for={address};host=\"{host}\";proto={scheme}");
        HeaderValue::from_str(&element).expect("its parts are valid values")
    }
}

/// Adds the last member of a list, in one line: some servers read the first line only.
fn continue_list(headers: &mut HeaderMap, name: HeaderName, member: HeaderValue) {
    let mut line = Vec::new();
    for value in headers.get_all(&name) {
        line.extend_from_slice(value.as_bytes());
        line.extend_from_slice(b", ");
    }
    line.extend_from_slice(member.as_bytes());
    headers.insert(name, HeaderValue::from_bytes(&line).expect("valid values make a valid line"));
}

/// Removes what a client may claim, also under names with underscores: servers of CGI and WSGI read `X_Real_IP` as `X-Real-IP`.
fn remove_claims(headers: &mut HeaderMap) {
    let is_claim = |name: &str| name.starts_with("x-forwarded") || CLAIMS.contains(&name);
    let is_removed = |name: &HeaderName| match name.as_str() {
        name if name.contains('_') => {
            let hyphenated = name.replace('_', "-");
            is_claim(&hyphenated) || FRAMING.contains(&hyphenated.as_str())
        }
        name => is_claim(name),
    };
    let removed: Vec<HeaderName> = headers.keys().filter(|name| is_removed(name)).cloned().collect();
    for name in removed {
        headers.remove(name);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn forwarded(peer: &str, lines: &[(&'static str, &str)]) -> HeaderMap {
        let trusted = ["10.0.0.0/8".parse().unwrap()];
        let peer = Peer::new(peer.parse().unwrap(), false, &trusted);
        let mut headers = HeaderMap::new();
        headers.insert(HOST, HeaderValue::from_static("site.example:8080"));
        for (name, value) in lines {
            headers.append(HeaderName::from_static(name), value.parse().unwrap());
        }
        let scheme = peer.scheme(&headers);
        peer.remove_claims(&mut headers);
        peer.add_to(&mut headers, &scheme);
        headers
    }

    fn values(headers: &HeaderMap, name: &str) -> Vec<String> {
        headers.get_all(name).iter().map(|value| value.to_str().unwrap().to_owned()).collect()
    }

    const CLAIMED: [(&str, &str); 8] = [
        ("x-forwarded-for", "203.0.113.1"),
        ("x-forwarded-host", "evil.example"),
        ("x-forwarded-proto", "https"),
        ("x-forwarded-port", "444"),
        ("forwarded", "for=203.0.113.1;host=evil.example"),
        ("x-original-url", "/admin"),
        ("x_forwarded_host", "evil.example"),
        ("content_length", "7"),
    ];

    #[test]
    fn claims_of_a_client_are_replaced() {
        let headers = forwarded("192.0.2.7", &CLAIMED);
        assert_eq!(values(&headers, "x-forwarded-for"), ["192.0.2.7"]);
        assert_eq!(values(&headers, "x-forwarded-host"), ["site.example:8080"]);
        assert_eq!(values(&headers, "x-forwarded-proto"), ["http"]);
        assert_eq!(values(&headers, "forwarded"), ["for=192.0.2.7;host=\"site.example:8080\";proto=http"]);
        for name in ["x-forwarded-port", "x-original-url", "x_forwarded_host", "content_length"] {
            assert!(!headers.contains_key(name), "{name}");
        }
        let ipv6 = forwarded("2001:db8::1", &[]);
        assert!(values(&ipv6, "forwarded")[0].starts_with("for=\"[2001:db8::1]\";"));
    }

    #[test]
    fn claims_of_a_trusted_proxy_are_kept_and_continued() {
        let headers = forwarded("10.1.2.3", &CLAIMED);
        assert_eq!(values(&headers, "x-forwarded-for"), ["203.0.113.1, 10.1.2.3"]);
        assert_eq!(values(&headers, "x-forwarded-host"), ["evil.example"]);
        assert_eq!(values(&headers, "x-forwarded-proto"), ["https"]);
        let expected =
            "for=203.0.113.1;host=evil.example, for=10.1.2.3;host=\"site.example:8080\";proto=https";
        assert_eq!(values(&headers, "forwarded"), [expected]);
        assert_eq!(values(&headers, "x-original-url"), ["/admin"]);
    }
}

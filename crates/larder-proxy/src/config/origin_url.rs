//! The URL of an origin: a scheme, a host and a port, without a path.

use http::uri::Authority;
use http::{HeaderValue, Uri};
use std::fmt;

/// What an origin is named by.
const EXPECTED: &str = "http://HOST:PORT, https://HOST:PORT or h2c://HOST:PORT, without a path";

/// How an origin is spoken to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Scheme {
    /// HTTP/1.1, not encrypted.
    Http,
    /// What TLS chooses: HTTP/2 or HTTP/1.1.
    Https,
    /// HTTP/2 with prior knowledge, not encrypted (RFC 9113, section 3.3), as servers of gRPC speak it.
    H2c,
}

impl Scheme {
    const ALL: [Scheme; 3] = [Scheme::Http, Scheme::Https, Scheme::H2c];

    const fn as_str(self) -> &'static str {
        match self {
            Scheme::Http => "http",
            Scheme::Https => "https",
            Scheme::H2c => "h2c",
        }
    }
}

/// Where an origin is.
#[derive(Clone, Debug)]
pub(crate) struct OriginUrl {
    pub(crate) scheme: Scheme,
    /// Host and port as in the URL, for the `Host` field.
    pub(crate) authority: Authority,
    /// The same, as the value of a field.
    pub(crate) host_value: HeaderValue,
    /// The host alone; an IPv6 address has no brackets.
    pub(crate) host: String,
}

impl OriginUrl {
    /// Parses a URL. The error says what is expected.
    pub(crate) fn parse(text: &str) -> Result<OriginUrl, &'static str> {
        let uri: Uri = text.parse().map_err(|_| EXPECTED)?;
        let named = |scheme: &Scheme| uri.scheme_str() == Some(scheme.as_str());
        let scheme = Scheme::ALL.into_iter().find(named).ok_or(EXPECTED)?;
        let authority = uri.authority().cloned().ok_or(EXPECTED)?;
        // A path would be lost in redirects and cookies of the origin.
        let has_path = !matches!(uri.path(), "" | "/") || uri.query().is_some();
        let has_port = authority.as_str() != authority.host();
        if has_path || authority.as_str().contains('@') || (has_port && authority.port_u16().is_none()) {
            return Err(EXPECTED);
        }
        if authority.host().is_empty() || authority.port_u16() == Some(0) {
            return Err(EXPECTED);
        }
        let host = authority.host().trim_start_matches('[').trim_end_matches(']').to_owned();
        let host_value = HeaderValue::from_str(authority.as_str()).map_err(|_| EXPECTED)?;
        Ok(OriginUrl { scheme, authority, host_value, host })
    }
}

impl fmt::Display for OriginUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}://{}", self.scheme.as_str(), self.authority)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn url_has_a_host_and_may_have_a_port() {
        for (text, expected) in [
            ("http://127.0.0.1:3000", (Scheme::Http, "127.0.0.1")),
            ("http://app/", (Scheme::Http, "app")),
            ("https://app.example", (Scheme::Https, "app.example")),
            ("https://[::1]:8443", (Scheme::Https, "::1")),
            ("h2c://127.0.0.1:50051", (Scheme::H2c, "127.0.0.1")),
        ] {
            let url = OriginUrl::parse(text).unwrap();
            assert_eq!((url.scheme, url.host.as_str()), expected, "{text}");
            assert_eq!(url.to_string(), text.trim_end_matches('/'));
        }
        for wrong in [
            "",
            "app:80",
            "ftp://app",
            "http://",
            "http://a/b",
            "http://a/?q",
            "http://u@a",
            "http://a:99999",
            "http://a:0",
        ] {
            assert!(OriginUrl::parse(wrong).is_err(), "{wrong}");
        }
    }
}

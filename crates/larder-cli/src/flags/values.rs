//! The parsers of values. An address has one parser, for flags, variables and the configuration file; sizes are parsed by
//! [`larder_text::ByteSize`].

use axum::http::Uri;
use axum::http::uri::Authority;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use larder_links::import::SourceFormat;
use larder_server::MemoryPolicy;
use std::net::{Ipv4Addr, SocketAddr, ToSocketAddrs};
use std::ops::RangeInclusive;

/// The form of an address, for error messages.
pub(crate) const ADDRESS_FORM: &str = "expected HOST:PORT, such as 127.0.0.1:6379 or localhost:6379, or :6379 for \
                                       127.0.0.1, with a port up to 65535";

/// An address to listen on. A name is resolved, to an IPv4 address if it has one; without a host it is 127.0.0.1.
pub(crate) fn address(text: &str) -> Result<SocketAddr, String> {
    if let Ok(address) = text.parse() {
        return Ok(address);
    }
    let split = text.rsplit_once(':').and_then(|(host, port)| Some((host, port.parse::<u16>().ok()?)));
    let Some((host, port)) = split else { return Err(ADDRESS_FORM.to_owned()) };
    if host.is_empty() {
        return Ok(SocketAddr::from((Ipv4Addr::LOCALHOST, port)));
    }
    // What is left of an IPv6 address without brackets is no name.
    if host.contains([':', '/', '[', ']', '@']) || host.contains(char::is_whitespace) {
        return Err(ADDRESS_FORM.to_owned());
    }
    let found = (host, port).to_socket_addrs().map_err(|error| format!("cannot resolve {host}: {error}"))?;
    let found: Vec<SocketAddr> = found.collect();
    let preferred = found.iter().find(|address| address.is_ipv4()).or(found.first());
    preferred.copied().ok_or_else(|| format!("cannot resolve {host}: it has no address"))
}

/// Parses the URL of an admin port, such as `http://127.0.0.1:8081`, to its `HOST:PORT`.
pub(crate) fn admin_authority(url: &str) -> Result<String, String> {
    let uri: Option<Uri> = url.parse().ok();
    let is_origin = |uri: &Uri| {
        uri.scheme_str() == Some("http") && matches!(uri.path(), "" | "/") && uri.query().is_none()
    };
    let authority = uri.filter(is_origin).and_then(|uri| uri.into_parts().authority);
    // Without a user; a port that is no number up to 65535 would be ignored.
    let is_address =
        |own: &Authority| own.as_str() == own.host() || (own.port().is_some() && !own.as_str().contains('@'));
    let authority = authority.filter(is_address).map(|authority| authority.as_str().to_owned());
    authority.ok_or_else(|| "expected http://HOST:PORT".to_owned())
}

/// A parser of policies, whose names a shell completes.
pub(crate) fn policy() -> impl TypedValueParser<Value = MemoryPolicy> {
    PossibleValuesParser::new(MemoryPolicy::ALL.map(MemoryPolicy::name))
        .try_map(|name| name.parse::<MemoryPolicy>())
}

/// A parser of the formats of an import, whose names a shell completes.
pub(crate) fn source_format() -> impl TypedValueParser<Value = SourceFormat> {
    PossibleValuesParser::new(SourceFormat::ALL.map(SourceFormat::as_str))
        .try_map(|name| name.parse::<SourceFormat>())
}

/// A parser of whole numbers whose range the part checks that they are for. The range is for the message.
pub(crate) fn count(range: RangeInclusive<usize>) -> impl Fn(&str) -> Result<usize, String> + Clone {
    move |text| text.parse().map_err(|_| larder_terminal::expected(&range))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn address_is_a_host_with_a_port() {
        for (text, expected) in [
            ("[::1]:80", "[::1]:80"),
            ("10.0.0.1:0", "10.0.0.1:0"),
            (":6379", "127.0.0.1:6379"),
            ("localhost:6379", "127.0.0.1:6379"),
        ] {
            assert_eq!(address(text), Ok(expected.parse().unwrap()), "{text}");
        }
        for wrong in [
            "",
            ":",
            "6379",
            "127.0.0.1",
            "127.0.0.1:99999",
            "localhost",
            "localhost:x",
            "::1:80",
            "[::1]",
            "a b:1",
            "http://a:1",
        ] {
            assert_eq!(address(wrong), Err(ADDRESS_FORM.to_owned()), "{wrong}");
        }
        // RFC 6761 promises that nobody has this name.
        let unknown = address("nobody.invalid:1").unwrap_err();
        assert!(unknown.starts_with("cannot resolve nobody.invalid: "), "{unknown}");
    }

    /// With a port that is none, the client connected to port 80.
    #[test]
    fn admin_authority_has_a_host_and_may_have_a_port() {
        for (url, authority) in [
            ("http://127.0.0.1:8081", "127.0.0.1:8081"),
            ("http://[::1]:8081/", "[::1]:8081"),
            ("http://localhost", "localhost"),
        ] {
            assert_eq!(admin_authority(url).as_deref(), Ok(authority), "{url}");
        }
        for wrong in
            ["", "localhost:8081", "https://a", "http://a:99999", "http://a:", "http://a/b", "http://a@b"]
        {
            assert!(admin_authority(wrong).is_err(), "{wrong}");
        }
    }
}

//! Addresses as people write them: the one parser, for flags, variables and the configuration file. Sizes are parsed by
//! [`larder_server::ByteSize`].

use std::net::{Ipv4Addr, SocketAddr, ToSocketAddrs};

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
}

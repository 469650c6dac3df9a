//! The client of a request: the peer of the connection, or the address that a trusted proxy adds.

use http::HeaderMap;
use larder_web::Network;
use std::net::{IpAddr, Ipv6Addr, SocketAddr};

/// The client of a request as the rate limits count it: an IPv4 address, or the first 64 bits of an IPv6 address,
/// because one customer of a network has at least that many.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Client(IpAddr);

impl Client {
    /// The address, without the last 64 bits of an IPv6 address.
    pub(crate) fn address(self) -> IpAddr {
        self.0
    }

    fn of(address: IpAddr) -> Client {
        match address.to_canonical() {
            IpAddr::V6(ip) => Client(Ipv6Addr::from_bits(ip.to_bits() & !u128::from(u64::MAX)).into()),
            v4 => Client(v4),
        }
    }
}

/// The client: the peer, or, if the peer is a trusted proxy, the last hop in `X-Forwarded-For` that is not trusted.
///
/// Hops are read from the last to the first, because a client can send any first ones itself. A hop that is not an
/// address ends the search at the hop before it.
pub(crate) fn client_of(peer: IpAddr, headers: &HeaderMap, trusted: &[Network]) -> Client {
    let is_trusted = |address: IpAddr| trusted.iter().any(|network| network.contains(address));
    let mut client = peer;
    let lines: Vec<&str> =
        headers.get_all("x-forwarded-for").iter().map(|line| line.to_str().unwrap_or_default()).collect();
    let mut hops = lines.iter().rev().flat_map(|line| line.rsplit(','));
    while is_trusted(client) {
        let Some(hop) = hops.next().and_then(|hop| address_of(hop.trim())) else { break };
        client = hop;
    }
    Client::of(client)
}

/// An address with or without a port, as proxies write them.
fn address_of(hop: &str) -> Option<IpAddr> {
    let bare = hop.strip_prefix('[').and_then(|hop| hop.strip_suffix(']')).unwrap_or(hop);
    bare.parse().ok().or_else(|| hop.parse::<SocketAddr>().ok().map(|address| address.ip()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn client(peer: &str, lines: &[&str]) -> Client {
        let mut headers = HeaderMap::new();
        for line in lines {
            headers.append("x-forwarded-for", line.parse().unwrap());
        }
        let trusted = ["10.0.0.0/8", "fd00::/8", "127.0.0.1"].map(|text| text.parse().unwrap());
        client_of(peer.parse().unwrap(), &headers, &trusted)
    }

    fn ip(text: &str) -> Client {
        Client(text.parse().unwrap())
    }

    #[test]
    fn header_of_untrusted_peer_is_ignored() {
        assert_eq!(client("192.0.2.1", &["198.51.100.7"]), ip("192.0.2.1"));
        assert_eq!(client("127.0.0.2", &["198.51.100.7"]), ip("127.0.0.2"));
    }

    #[test]
    fn last_untrusted_hop_is_the_client() {
        assert_eq!(client("10.1.2.3", &["198.51.100.7"]), ip("198.51.100.7"));
        assert_eq!(client("10.1.2.3", &["203.0.113.9, 198.51.100.7, 10.9.9.9"]), ip("198.51.100.7"));
        assert_eq!(client("10.1.2.3", &["203.0.113.9, 198.51.100.7", "10.9.9.9"]), ip("198.51.100.7"));
        assert_eq!(client("::ffff:10.1.2.3", &["198.51.100.7:4711"]), ip("198.51.100.7"));
        assert_eq!(client("fd12::1", &["[2001:db8:1:2:3:4:5:6]:80"]), ip("2001:db8:1:2::"));
    }

    #[test]
    fn unreadable_or_missing_hop_leaves_the_last_trusted_one() {
        assert_eq!(client("10.1.2.3", &[]), ip("10.1.2.3"));
        assert_eq!(client("10.1.2.3", &["198.51.100.7, unknown"]), ip("10.1.2.3"));
        assert_eq!(client("10.1.2.3", &["unknown, 10.4.4.4"]), ip("10.4.4.4"));
        assert_eq!(client("10.1.2.3", &["10.4.4.4"]), ip("10.4.4.4"));
    }

    #[test]
    fn ipv6_client_is_its_64_bit_network() {
        assert_eq!(client("2001:db8:1:2:3:4:5:6", &[]), client("2001:db8:1:2:ffff::1", &[]));
        assert_ne!(client("2001:db8:1:2::1", &[]), client("2001:db8:1:3::1", &[]));
        assert_eq!(client("::ffff:192.0.2.1", &[]), ip("192.0.2.1"));
    }
}

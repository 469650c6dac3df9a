//! Ranges of IP addresses, for the options that name trusted proxies.

use std::net::IpAddr;
use std::str::FromStr;

/// A range of IP addresses. Parsed from `10.0.0.0/8`, `2001:db8::/32`, or one address; anything else is an error without
/// details.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Network {
    address: IpAddr,
    prefix: u8,
}

impl Network {
    /// Whether the address is in the range. An IPv4 address in IPv6 notation counts as IPv4.
    pub fn contains(&self, address: IpAddr) -> bool {
        match (self.address, address.to_canonical()) {
            (IpAddr::V4(network), IpAddr::V4(ip)) => {
                same_prefix(u128::from(network.to_bits()) << 96, u128::from(ip.to_bits()) << 96, self.prefix)
            }
            (IpAddr::V6(network), IpAddr::V6(ip)) => {
                same_prefix(network.to_bits(), ip.to_bits(), self.prefix)
            }
            _ => false,
        }
    }
}

fn same_prefix(a: u128, b: u128, prefix: u8) -> bool {
    // A shift by the full width is not defined, and a prefix of 0 contains everything.
    (a ^ b).checked_shr(128 - u32::from(prefix)).unwrap_or(0) == 0
}

impl FromStr for Network {
    type Err = ();

    fn from_str(text: &str) -> Result<Network, ()> {
        let (address, prefix) = match text.split_once('/') {
            Some((address, prefix)) if prefix.bytes().all(|byte| byte.is_ascii_digit()) => {
                (address, Some(prefix.parse::<u8>().map_err(drop)?))
            }
            Some(_) => return Err(()),
            None => (text, None),
        };
        let address: IpAddr = address.parse().map_err(drop)?;
        let width = if address.is_ipv4() { 32 } else { 128 };
        let prefix = prefix.unwrap_or(width);
        if prefix > width {
            return Err(());
        }
        // An IPv4 address in IPv6 form is compared in its IPv4 form.
        match (address.to_canonical(), address) {
            (IpAddr::V4(mapped), IpAddr::V6(_)) if prefix >= 96 => {
                Ok(Network { address: mapped.into(), prefix: prefix - 96 })
            }
            _ => Ok(Network { address, prefix }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn networks_are_parsed_and_compared() {
        let network = |text: &str| text.parse::<Network>();
        let contains = |text: &str, address: &str| network(text).unwrap().contains(address.parse().unwrap());
        assert!(contains("0.0.0.0/0", "203.0.113.1") && !contains("0.0.0.0/0", "2001:db8::1"));
        assert!(contains("10.1.0.0/16", "10.1.255.255") && !contains("10.1.0.0/16", "10.2.0.0"));
        assert!(contains("::ffff:10.1.0.0/112", "10.1.3.4"));
        assert!(contains("::1", "::1") && !contains("::1", "::2"));
        for wrong in ["", "10.0.0.0/33", "10.0.0.0/", "10.0.0.0/+8", "::/129", "proxy.example", "10.0.0/8"] {
            assert!(network(wrong).is_err(), "{wrong}");
        }
    }
}

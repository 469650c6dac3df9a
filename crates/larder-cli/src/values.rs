//! Addresses and sizes as people write them: the one parser of each, for flags, variables and the configuration file.

use larder_server::ByteSize;
use std::net::{Ipv4Addr, SocketAddr, ToSocketAddrs};

/// The form of an address, for error messages.
pub(crate) const ADDRESS_FORM: &str = "expected HOST:PORT, such as 127.0.0.1:6379 or localhost:6379, or :6379 for \
                                       127.0.0.1, with a port up to 65535";

/// What comes behind the number of a size, and its bytes. `k`, `m` and `g` are those of Redis.
const UNITS: [(&str, u64); 11] = [
    ("", 1),
    ("b", 1),
    ("k", 1_000),
    ("m", 1_000_000),
    ("g", 1_000_000_000),
    ("kb", 1 << 10),
    ("mb", 1 << 20),
    ("gb", 1 << 30),
    ("kib", 1 << 10),
    ("mib", 1 << 20),
    ("gib", 1 << 30),
];

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

/// A number of bytes, with a unit or without: `65536`, `512mb`, `512MiB`, `1.5gb`. A fraction of a byte is dropped.
pub(crate) fn size(text: &str) -> Result<ByteSize, String> {
    let form = || {
        format!(
            "'{text}' is not a size: write bytes, or a number such as 1.5 with k, kb, KiB, m, mb, MiB, g, gb or GiB"
        )
    };
    let number = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let unit = text[number.len()..].to_ascii_lowercase();
    let number = number.trim_end();
    let (_, factor) = UNITS.into_iter().find(|(name, _)| *name == unit).ok_or_else(form)?;
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    let is_number = |digits: &str| !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    let has_fraction = number.contains('.');
    if !is_number(whole) || (has_fraction && (!is_number(fraction) || factor == 1)) {
        return Err(form());
    }
    let too_large = || format!("'{text}' is too large: at most {} bytes are possible", u64::MAX);
    let whole =
        whole.parse::<u64>().ok().and_then(|whole| whole.checked_mul(factor)).ok_or_else(too_large)?;
    // Further digits are less than a byte of any unit.
    let digits = &fraction[..fraction.len().min(18)];
    let scale = 10u128.pow(digits.len() as u32);
    let part = digits.parse::<u128>().unwrap_or(0) * u128::from(factor) / scale;
    // Less than the factor.
    whole.checked_add(part as u64).map(ByteSize).ok_or_else(too_large)
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

    #[test]
    fn size_is_a_number_with_or_without_a_unit() {
        for (text, expected) in [
            ("0", 0),
            ("65536", 65_536),
            ("7b", 7),
            ("1k", 1_000),
            ("1kb", 1 << 10),
            ("1KiB", 1 << 10),
            ("3m", 3_000_000),
            ("64mb", 64 << 20),
            ("512MiB", 512 << 20),
            ("512 MiB", 512 << 20),
            ("1g", 1_000_000_000),
            ("1GB", 1 << 30),
            ("2GiB", 2 << 30),
            ("1.5gb", 3 << 29),
            ("0.25MiB", 1 << 18),
            ("1.0000000000000000000001k", 1_000),
            ("0.0009kb", 0),
            ("18446744073709551615", u64::MAX),
        ] {
            assert_eq!(size(text), Ok(ByteSize(expected)), "{text}");
        }
        for wrong in
            ["", "mb", "-1", "1.5", "1.5b", ".5gb", "1.gb", "1,5gb", "1e3", "64 apples", "1tb", "0x10", "+1"]
        {
            let message = size(wrong).unwrap_err();
            assert!(message.starts_with(&format!("'{wrong}' is not a size: write bytes, or ")), "{message}");
        }
        for large in ["18446744073709551616", "99999999999gb"] {
            assert!(size(large).unwrap_err().contains("is too large"), "{large}");
        }
    }
}

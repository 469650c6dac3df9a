//! The rules for a link's address, in one pure function.
//!
//! An address is parsed as a browser parses it (WHATWG, "URL Standard", <https://url.spec.whatwg.org>), checked, and stored
//! in the parser's own form. Visitors get exactly what was checked: `http:example.com`, which a browser resolves
//! against the page that it is on, cannot pass as one thing and be sent as another.

use larder_web::{is_loopback_ip, is_loopback_name};
use std::fmt;
use url::{Host, Url};

/// The longest address, in bytes, both as given and as stored.
pub const MAX_URL_BYTES: usize = 8 * 1024;

/// A valid address: `http` or `https`, with a host, without credentials.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Address {
    text: String,
    authority: Authority,
}

impl Address {
    /// Parses an address; white space around it is dropped.
    ///
    /// # Errors
    /// The rule that the text violates; see [`AddressError`].
    pub fn parse(text: &str) -> Result<Address, AddressError> {
        let text = text.trim_matches(|c: char| c.is_ascii_whitespace());
        if text.is_empty() {
            return Err(AddressError::Empty);
        }
        if text.len() > MAX_URL_BYTES {
            return Err(AddressError::TooLong(text.len()));
        }
        // The parser silently removes tabs and line ends from inside an address.
        if let Some(control) = text.chars().find(|c| c.is_control()) {
            return Err(AddressError::Control(control));
        }
        let url = Url::parse(text).map_err(|error| match error {
            url::ParseError::RelativeUrlWithoutBase => AddressError::NotAbsolute,
            other => AddressError::Syntax(other),
        })?;
        if !matches!(url.scheme(), "http" | "https") {
            return Err(AddressError::Scheme(url.scheme().to_owned()));
        }
        // The parser also accepts `http:host`, `http:/host` and `http:\\host`.
        if !text[url.scheme().len()..].starts_with("://") {
            return Err(AddressError::NoSlashes);
        }
        if !url.username().is_empty() || url.password().is_some() {
            return Err(AddressError::Credentials);
        }
        let authority = Authority::of(&url).ok_or(AddressError::NotAbsolute)?;
        let text = String::from(url);
        if text.len() > MAX_URL_BYTES {
            return Err(AddressError::TooLong(text.len()));
        }
        Ok(Address { text, authority })
    }

    /// The address in the parser's form: printable ASCII, so a header can contain it.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// Host and port of the address.
    pub(crate) fn authority(&self) -> &Authority {
        &self.authority
    }
}

/// The form of a stored address for a `Location` header (RFC 9110, section 10.2.2).
///
/// A database of an older version may contain addresses in other forms.
pub(crate) fn to_location(address: &str) -> String {
    Url::parse(address).map_or_else(|_| address.to_owned(), String::from)
}

/// A host and its port, the default port of the scheme filled in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Authority {
    pub(crate) host: Host<String>,
    pub(crate) port: u16,
}

impl Authority {
    pub(crate) fn of(url: &Url) -> Option<Authority> {
        // A name with a final dot is the same machine.
        let host = match url.host()?.to_owned() {
            Host::Domain(name) => Host::Domain(name.trim_end_matches('.').to_owned()),
            address => address,
        };
        Some(Authority { host, port: url.port_or_known_default()? })
    }

    /// Parses the value of a `Host` header as the host of a URL with `scheme`.
    pub(crate) fn of_host_header(scheme: &str, value: &str) -> Option<Authority> {
        if value.contains(['/', '@', '?', '#', '\\']) {
            return None;
        }
        Authority::of(&Url::parse(&format!("{scheme}://{value}/")).ok()?)
    }

    pub(crate) fn is_loopback(&self) -> bool {
        match &self.host {
            Host::Domain(name) => is_loopback_name(name),
            Host::Ipv4(ip) => is_loopback_ip((*ip).into()),
            Host::Ipv6(ip) => is_loopback_ip((*ip).into()),
        }
    }

    /// Whether the host is `0.0.0.0` or `::`, which a client resolves to its own machine.
    pub(crate) fn is_unspecified(&self) -> bool {
        match &self.host {
            Host::Domain(_) => false,
            Host::Ipv4(ip) => ip.is_unspecified(),
            Host::Ipv6(ip) => ip.to_canonical().is_unspecified(),
        }
    }
}

impl fmt::Display for Authority {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.host, self.port)
    }
}

/// Why an address is invalid.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum AddressError {
    /// Nothing but white space.
    #[error("is missing: an http or https address is needed")]
    Empty,
    /// Longer than [`MAX_URL_BYTES`].
    #[error("is {0} bytes long, expected at most 8192")]
    TooLong(usize),
    /// A control character, which parsers remove silently.
    #[error("contains the control character {0:?}")]
    Control(char),
    /// No scheme or no host.
    #[error("must be absolute, with http:// or https:// and a host")]
    NotAbsolute,
    /// No `://` behind the scheme.
    #[error("must have :// after the scheme")]
    NoSlashes,
    /// A scheme other than `http` and `https`.
    #[error("must begin with http:// or https://; {0}: is not allowed")]
    Scheme(String),
    /// A user name or password, which every visitor would see.
    #[error("must not contain a user name or password")]
    Credentials,
    /// A link to the shortener itself, which would be a loop.
    #[error("points to this service")]
    OwnHost,
    /// Anything else that is not a URL.
    #[error("is not a valid address: {0}")]
    Syntax(#[source] url::ParseError),
}

/// An address for an error message: without user name and password.
pub(crate) fn without_credentials(address: &str) -> String {
    let Some((scheme, rest)) = address.split_once("://") else { return address.to_owned() };
    let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
    match rest[..end].rfind('@') {
        Some(at) => format!("{scheme}://…{}", &rest[at..]),
        None => address.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn valid_address_is_stored_in_parsed_form() {
        for (text, stored) in [
            ("http://example.com", "http://example.com/"),
            ("https://example.com/a?b=c#d", "https://example.com/a?b=c#d"),
            ("HTTPS://Example.COM:8443/Path", "https://example.com:8443/Path"),
            ("https://example.com:443/", "https://example.com/"),
            ("https://bücher.example/straße", "https://xn--bcher-kva.example/stra%C3%9Fe"),
            ("http://[2001:DB8::1]:8080/", "http://[2001:db8::1]:8080/"),
            ("http://192.0.2.1/", "http://192.0.2.1/"),
            ("http://0xC0.0.2.1/", "http://192.0.2.1/"),
            ("https://example.com/a b", "https://example.com/a%20b"),
            ("https://example.com\\@other.example/", "https://example.com/@other.example/"),
            ("https:///example.com/", "https://example.com/"),
            (
                "https://example.com/?next=https://other.example/%2F",
                "https://example.com/?next=https://other.example/%2F",
            ),
            ("  https://example.com/\n", "https://example.com/"),
        ] {
            let address = Address::parse(text).unwrap();
            assert_eq!(address.as_str(), stored);
            assert_eq!(Address::parse(stored), Ok(address));
        }
        let longest = format!("https://example.com/{}", "a".repeat(MAX_URL_BYTES - 20));
        assert_eq!(Address::parse(&longest).unwrap().as_str().len(), MAX_URL_BYTES);
        let grows = format!("https://example.com/{}", "ü".repeat(2_000));
        assert_eq!(Address::parse(&grows), Err(AddressError::TooLong(20 + 12_000)));
    }

    #[test]
    fn invalid_address_names_the_rule() {
        use AddressError::*;
        let too_long = format!("https://example.com/{}", "a".repeat(MAX_URL_BYTES - 19));
        for (text, expected) in [
            ("", Empty),
            (" \t ", Empty),
            (too_long.as_str(), TooLong(MAX_URL_BYTES + 1)),
            ("example.com", NotAbsolute),
            ("/path", NotAbsolute),
            ("//example.com", NotAbsolute),
            ("javascript:alert(1)", Scheme("javascript".into())),
            ("javascript://host/%0aalert(1)", Scheme("javascript".into())),
            ("data:text/html,hi", Scheme("data".into())),
            ("file:///etc/passwd", Scheme("file".into())),
            ("ftp://example.com/", Scheme("ftp".into())),
            ("example.com:80/", Scheme("example.com".into())),
            ("https://user@example.com/", Credentials),
            ("https://user:secret@example.com/", Credentials),
            ("https://:secret@example.com/", Credentials),
            ("https://exa\nmple.com/", Control('\n')),
            ("https://example.com/\0", Control('\0')),
            ("https://example.com/\u{85}", Control('\u{85}')),
            ("http:example.com", NoSlashes),
            ("http:/example.com", NoSlashes),
            ("http:\\\\example.com", NoSlashes),
            ("https:abc", NoSlashes),
            ("http:\\/example.com", NoSlashes),
            ("https://", Syntax(url::ParseError::EmptyHost)),
            ("https://exa mple.com/", Syntax(url::ParseError::IdnaError)),
            ("http://256.256.256.256/", Syntax(url::ParseError::InvalidIpv4Address)),
            ("http://example.com:99999/", Syntax(url::ParseError::InvalidPort)),
        ] {
            assert_eq!(Address::parse(text), Err(expected), "{text:?}");
        }
    }

    #[test]
    fn location_is_printable_ascii() {
        assert_eq!(to_location("https://example.com"), "https://example.com/");
        assert_eq!(to_location("http:example.com"), "http://example.com/");
        assert_eq!(to_location("https://bücher.example/ß"), "https://xn--bcher-kva.example/%C3%9F");
        assert_eq!(to_location("https://example.com/a b"), "https://example.com/a%20b");
    }

    #[test]
    fn equivalent_authorities_are_equal() {
        let of = |text| Address::parse(text).unwrap().authority;
        assert_eq!(of("http://EXAMPLE.com./"), of("http://example.com:80/"));
        assert_eq!(of("http://0x7f.1:81/"), Authority::of_host_header("http", "127.0.0.1:81").unwrap());
        assert_ne!(of("http://example.com/"), of("https://example.com/"));
        assert!(of("http://[::1]:1/").is_loopback());
        assert_eq!(Authority::of_host_header("http", "a@b"), None);
        assert_eq!(Authority::of_host_header("http", ""), None);
    }
}

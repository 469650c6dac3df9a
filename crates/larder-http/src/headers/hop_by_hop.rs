//! The fields of a response that belong to one connection: no cache stores them.

use http::header::{CONNECTION, TE, TRAILER, TRANSFER_ENCODING, UPGRADE};
use http::{HeaderMap, HeaderName};

use crate::headers::control::list_members;

/// RFC 9110, 7.6.1, and RFC 9111, 3.1.
const HOP_BY_HOP: [HeaderName; 10] = [
    CONNECTION,
    HeaderName::from_static("keep-alive"),
    HeaderName::from_static("proxy-connection"),
    HeaderName::from_static("proxy-authenticate"),
    HeaderName::from_static("proxy-authentication-info"),
    HeaderName::from_static("proxy-authorization"),
    TE,
    TRAILER,
    TRANSFER_ENCODING,
    UPGRADE,
];

/// The fields of one message that belong to its connection.
pub(crate) struct HopByHop<'a> {
    /// The members of `Connection`.
    options: Vec<&'a [u8]>,
}

impl HopByHop<'_> {
    /// Those of a message with these fields.
    pub(crate) fn of(headers: &HeaderMap) -> HopByHop<'_> {
        let lines = headers.get_all(CONNECTION).iter();
        HopByHop { options: lines.flat_map(|line| list_members(line.as_bytes())).collect() }
    }

    /// Whether the field is one of them.
    pub(crate) fn has(&self, name: &HeaderName) -> bool {
        HOP_BY_HOP.contains(name)
            || self.options.iter().any(|option| option.eq_ignore_ascii_case(name.as_str().as_bytes()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::HeaderValue;

    #[test]
    fn fields_of_the_connection_are_the_known_and_the_named_ones() {
        let mut headers = HeaderMap::new();
        headers.append(CONNECTION, HeaderValue::from_static("close, X-A"));
        headers.append(CONNECTION, HeaderValue::from_static("x-b"));
        let fields = HopByHop::of(&headers);
        for (name, belongs) in [("x-a", true), ("x-b", true), ("x-c", false), ("te", true), ("etag", false)] {
            assert_eq!(fields.has(&HeaderName::from_static(name)), belongs, "{name}");
        }
    }
}

//! How a request has arrived. Its origin learns that from header fields, which are made on the way there: a stored response needs
//! none of them.

use crate::fields::forwarded::Peer;
use crate::fields::via::Pseudonym;
use http::header::VARY;
use http::uri::Scheme;
use http::{HeaderMap, HeaderValue, Version};

/// The fields that no key of the cache has. What else the origin learns, the scheme and the host, are in every key.
const UNKEYED: [&str; 3] = ["forwarded", "x-forwarded-for", "via"];

/// How a request has arrived: an extension of the request until it goes to an origin.
#[derive(Clone, Debug)]
pub(crate) struct Arrival {
    /// From whom.
    pub(crate) peer: Peer,
    /// With the scheme that the client used.
    pub(crate) scheme: Scheme,
    /// In this version of HTTP.
    pub(crate) version: Version,
}

impl Arrival {
    /// Tells the origin who the client is, and that the request came through this proxy.
    pub(crate) fn add_to(&self, headers: &mut HeaderMap, pseudonym: &Pseudonym) {
        self.peer.add_to(headers, &self.scheme);
        pseudonym.add_to_request(headers, self.version);
    }
}

/// Whether a response says that it varies by what no key has.
pub(crate) fn is_varied_by(response: &HeaderMap) -> bool {
    let lines = response.get_all(VARY).iter().map(HeaderValue::as_bytes);
    let mut members = lines.flat_map(|line| line.split(|byte| *byte == b',')).map(<[u8]>::trim_ascii);
    members.any(|member| UNKEYED.iter().any(|name| member.eq_ignore_ascii_case(name.as_bytes())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn response_that_names_the_client_in_vary_varies_by_it() {
        for (lines, expected) in [
            (&["accept, X-Forwarded-For"][..], true),
            (&["accept", "forwarded"], true),
            (&["Via"], true),
            (&["accept, x-forwarded-proto, x-forwarded-host"], false),
            (&[], false),
        ] {
            let lines = lines.iter().map(|line| (VARY, HeaderValue::from_static(line)));
            assert_eq!(is_varied_by(&lines.collect()), expected);
        }
    }
}

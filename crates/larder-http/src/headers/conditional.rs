//! Conditional requests: when a request gets a 304 (RFC 9110, section 13).

use std::time::SystemTime;

use http::header::{
    ACCESS_CONTROL_ALLOW_CREDENTIALS, ACCESS_CONTROL_ALLOW_ORIGIN, ACCESS_CONTROL_EXPOSE_HEADERS, AGE,
    CACHE_CONTROL, CONTENT_LOCATION, DATE, ETAG, EXPIRES, IF_MODIFIED_SINCE, IF_NONE_MATCH, LAST_MODIFIED,
    VARY,
};
use http::{HeaderMap, HeaderName};

use crate::status::CACHE_STATUS;

/// The fields of the 200 that a 304 repeats (RFC 9110, 15.4.5), and the CORS fields, which browsers check on a 304.
pub(crate) const REPEATED_IN_304: [HeaderName; 11] = [
    CACHE_STATUS,
    CACHE_CONTROL,
    CONTENT_LOCATION,
    DATE,
    ETAG,
    EXPIRES,
    VARY,
    AGE,
    ACCESS_CONTROL_ALLOW_ORIGIN,
    ACCESS_CONTROL_ALLOW_CREDENTIALS,
    ACCESS_CONTROL_EXPOSE_HEADERS,
];

/// Whether the client's copy is current, by the validators in `response`.
///
/// If `If-None-Match` is present, `If-Modified-Since` is ignored (RFC 9110, 13.2.2). An invalid or repeated date is
/// ignored too.
pub(crate) fn not_modified(request: &HeaderMap, response: &HeaderMap) -> bool {
    if request.contains_key(IF_NONE_MATCH) {
        let etag = response.get(ETAG).map(|value| opaque_tag(value.as_bytes()));
        return request.get_all(IF_NONE_MATCH).iter().any(|line| match line.as_bytes().trim_ascii() {
            b"*" => true,
            list => etag.is_some_and(|etag| entity_tags(list).any(|tag| tag == etag)),
        });
    }
    match (single_date(request, IF_MODIFIED_SINCE), single_date(response, LAST_MODIFIED)) {
        (Some(since), Some(modified)) => modified <= since,
        _ => false,
    }
}

/// The tag without its weakness flag, for the weak comparison (RFC 9110, 8.8.3.2).
fn opaque_tag(tag: &[u8]) -> &[u8] {
    tag.strip_prefix(b"W/").unwrap_or(tag)
}

/// The opaque tags of a list, up to the first malformed member. An entity tag may contain a comma and has no escapes.
fn entity_tags(list: &[u8]) -> impl Iterator<Item = &[u8]> {
    let mut rest = list;
    std::iter::from_fn(move || {
        let start = rest.iter().position(|b| !b.is_ascii_whitespace() && *b != b',')?;
        let tag = opaque_tag(&rest[start..]);
        let close = 2 + tag.strip_prefix(b"\"")?.iter().position(|b| *b == b'"')?;
        let (tag, after) = tag.split_at(close);
        rest = after.trim_ascii_start();
        (rest.is_empty() || rest.starts_with(b",")).then_some(tag)
    })
    .fuse()
}

fn single_date(headers: &HeaderMap, name: HeaderName) -> Option<SystemTime> {
    let mut lines = headers.get_all(name).iter();
    let date = httpdate::parse_http_date(lines.next()?.to_str().ok()?).ok()?;
    lines.next().is_none().then_some(date)
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::HeaderValue;

    const EARLIER: &str = "Sun, 06 Nov 1994 08:49:36 GMT";
    const DATE: &str = "Sun, 06 Nov 1994 08:49:37 GMT";
    const LATER: &str = "Sun, 06 Nov 1994 08:49:38 GMT";

    fn map(fields: &[(HeaderName, &'static str)]) -> HeaderMap {
        fields.iter().map(|(name, value)| (name.clone(), HeaderValue::from_static(value))).collect()
    }

    fn matches(sent: &'static str, stored: &'static str) -> bool {
        not_modified(&map(&[(IF_NONE_MATCH, sent)]), &map(&[(ETAG, stored)]))
    }

    #[test]
    fn if_none_match_compares_weakly_and_in_lists() {
        assert!(matches("\"a\"", "\"a\""));
        assert!(matches("W/\"a\"", "\"a\""));
        assert!(matches("\"a\"", "W/\"a\""));
        assert!(matches("\"x\", W/\"y,z\" ,\"a\"", "\"a\""));
        assert!(matches("*", "\"a\""));
        assert!(!matches("\"A\"", "\"a\""));
        assert!(!matches("\"x,\"a", "\"a\""));
        assert!(!matches("a", "\"a\""));
        assert!(matches("\"a\", W/ \"b\"", "\"a\""));
        assert!(!matches("W/ \"b\", \"a\"", "\"a\""), "nothing after a malformed member counts");
    }

    #[test]
    fn if_none_match_overrides_date() {
        let request = map(&[(IF_NONE_MATCH, "\"old\""), (IF_MODIFIED_SINCE, LATER)]);
        assert!(!not_modified(&request, &map(&[(ETAG, "\"new\""), (LAST_MODIFIED, DATE)])));
        assert!(!not_modified(&request, &map(&[(LAST_MODIFIED, DATE)])));
    }

    #[test]
    fn if_modified_since_accepts_three_date_formats() {
        let response = map(&[(LAST_MODIFIED, DATE)]);
        for (since, current) in [
            (EARLIER, false),
            (DATE, true),
            (LATER, true),
            ("Sunday, 06-Nov-94 08:49:37 GMT", true),
            ("Sun Nov  6 08:49:37 1994", true),
            ("yesterday", false),
        ] {
            assert_eq!(not_modified(&map(&[(IF_MODIFIED_SINCE, since)]), &response), current, "{since}");
        }
    }

    #[test]
    fn repeated_date_is_ignored() {
        let mut request = map(&[(IF_MODIFIED_SINCE, LATER)]);
        request.append(IF_MODIFIED_SINCE, HeaderValue::from_static(LATER));
        assert!(!not_modified(&request, &map(&[(LAST_MODIFIED, DATE)])));
    }

    #[test]
    fn unconditional_request_is_never_304() {
        assert!(!not_modified(&HeaderMap::new(), &map(&[(ETAG, "\"a\""), (LAST_MODIFIED, DATE)])));
    }
}

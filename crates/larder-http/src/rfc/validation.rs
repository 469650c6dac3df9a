//! The validation of a stored response by its origin: the conditions of the request, and what a 304, or the response to a HEAD,
//! means for the stored fields (RFC 9111, 4.3 and 3.2).

use http::header::{
    AGE, CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_RANGE, DATE, ETAG, IF_MATCH, IF_MODIFIED_SINCE,
    IF_NONE_MATCH, IF_UNMODIFIED_SINCE, LAST_MODIFIED, SET_COOKIE,
};
use http::{HeaderMap, HeaderName, HeaderValue};

use crate::headers::hop_by_hop::HopByHop;

/// The fields of a response without a body that say nothing about the stored one (RFC 9111, 3.2; RFC 9530, section 2), and
/// the one that only its client gets.
const NOT_MERGED: [HeaderName; 5] =
    [CONTENT_LENGTH, CONTENT_ENCODING, CONTENT_RANGE, HeaderName::from_static("content-digest"), SET_COOKIE];

/// Replaces the conditions of a request by those that validate a stored response (RFC 9111, 4.3.1). `own_etag` is the one
/// that the origin gave it. Returns false, and changes nothing, if it has no validator.
pub(crate) fn add_conditions(
    request: &mut HeaderMap,
    own_etag: Option<&HeaderValue>,
    stored: &HeaderMap,
) -> bool {
    let last_modified = stored.get(LAST_MODIFIED);
    if own_etag.is_none() && last_modified.is_none() {
        return false;
    }
    for name in [IF_MATCH, IF_UNMODIFIED_SINCE, IF_NONE_MATCH, IF_MODIFIED_SINCE] {
        request.remove(name);
    }
    if let Some(etag) = own_etag {
        request.insert(IF_NONE_MATCH, etag.clone());
    }
    if let Some(date) = last_modified {
        request.insert(IF_MODIFIED_SINCE, date.clone());
    }
    true
}

/// Whether a 304 is about the stored response that it was asked about (RFC 9111, 4.3.4). If it is not, the stored response
/// is of no use, and the request must be repeated without conditions.
///
/// Origins that leave their validators out of a 304 mean that one.
pub(crate) fn is_selected(own_etag: Option<&HeaderValue>, stored: &HeaderMap, from_304: &HeaderMap) -> bool {
    let (opaque, is_weak) = match from_304.get(ETAG) {
        Some(etag) => opaque_tag(etag),
        None => {
            let (old, new) = (stored.get(LAST_MODIFIED), from_304.get(LAST_MODIFIED));
            return own_etag.is_some() || new.is_none() || old == new;
        }
    };
    match own_etag.map(opaque_tag) {
        Some((own_opaque, own_is_weak)) => opaque == own_opaque && (is_weak || !own_is_weak),
        None => is_weak,
    }
}

/// What the response to a HEAD is about (RFC 9111, 4.3.5).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum HeadMatch {
    /// The stored response: all of its validators, at least one, are those of that, and so is its length.
    Stored,
    /// Another response.
    Other,
    /// It has no validator. That it has the same length, or none, does not mean that the body is the same: a HEAD that is sent again
    /// and again would keep what is outdated fresh.
    Unknown,
}

/// Compares the response to a HEAD with a stored response to a GET, which has a body of so many bytes.
pub(crate) fn match_head(
    own_etag: Option<&HeaderValue>,
    stored: &HeaderMap,
    body_bytes: usize,
    head: &HeaderMap,
) -> HeadMatch {
    let validators = [(head.get(ETAG), own_etag), (head.get(LAST_MODIFIED), stored.get(LAST_MODIFIED))];
    let mut received = validators.into_iter().filter(|(received, _)| received.is_some()).peekable();
    let has_validator = received.peek().is_some();
    let has_other_length = head.get(CONTENT_LENGTH).is_some_and(|length| {
        let length = length.to_str().ok().and_then(|length| length.parse().ok());
        length != Some(body_bytes)
    });
    if has_other_length || received.any(|(received, stored)| received != stored) {
        return HeadMatch::Other;
    }
    if has_validator { HeadMatch::Stored } else { HeadMatch::Unknown }
}

/// The fields of a stored response after a 304, or after the response to a HEAD: all of their fields replace the stored ones, except
/// those that belong to their connection or that describe a body. The stored `Age` and `Date` are dropped: they are those of the
/// validating response, or new ones.
pub(crate) fn merge(stored: &HeaderMap, validating: &HeaderMap) -> HeaderMap {
    let hop_by_hop = HopByHop::of(validating);
    let replaces = |name: &HeaderName| !NOT_MERGED.contains(name) && !hop_by_hop.has(name);
    let mut merged = stored.clone();
    merged.remove(AGE);
    merged.remove(DATE);
    for name in validating.keys().filter(|name| replaces(name)) {
        merged.remove(name);
        for value in validating.get_all(name) {
            merged.append(name, value.clone());
        }
    }
    merged
}

/// A tag without its weakness flag, and whether it has one.
fn opaque_tag(etag: &HeaderValue) -> (&[u8], bool) {
    let tag = etag.as_bytes();
    tag.strip_prefix(b"W/").map_or((tag, false), |opaque| (opaque, true))
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::header::{CACHE_CONTROL, CONNECTION, CONTENT_TYPE, TRANSFER_ENCODING, VARY};

    fn headers(fields: &[(HeaderName, &'static str)]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for (name, line) in fields {
            headers.append(name, HeaderValue::from_static(line));
        }
        headers
    }

    const DAY: &str = "Wed, 01 Jan 2020 00:00:00 GMT";
    const NEXT_DAY: &str = "Thu, 02 Jan 2020 00:00:00 GMT";

    #[test]
    fn conditions_have_both_validators() {
        let etag = HeaderValue::from_static("W/\"a\"");
        for (own_etag, modified, expected) in [
            (Some(&etag), Some(DAY), &[(IF_NONE_MATCH, "W/\"a\""), (IF_MODIFIED_SINCE, DAY)][..]),
            (Some(&etag), None, &[(IF_NONE_MATCH, "W/\"a\"")]),
            (None, Some(DAY), &[(IF_MODIFIED_SINCE, DAY)]),
        ] {
            let modified: Vec<_> = modified.map(|date| (LAST_MODIFIED, date)).into_iter().collect();
            let mut request = headers(&[(IF_NONE_MATCH, "\"x\""), (IF_MATCH, "\"y\"")]);
            assert!(add_conditions(&mut request, own_etag, &headers(&modified)));
            assert_eq!(request, headers(expected));
        }
    }

    #[test]
    fn response_without_validator_gets_no_conditions() {
        let mut request = headers(&[(IF_NONE_MATCH, "\"x\"")]);
        assert!(!add_conditions(&mut request, None, &headers(&[(ETAG, "\"made-by-the-cache\"")])));
        assert_eq!(request, headers(&[(IF_NONE_MATCH, "\"x\"")]));
    }

    #[test]
    fn validators_of_a_304_select_the_stored_response() {
        let selects = |own: Option<&'static str>, fields: &[(HeaderName, &'static str)]| {
            let own = own.map(HeaderValue::from_static);
            is_selected(own.as_ref(), &headers(&[(LAST_MODIFIED, DAY)]), &headers(fields))
        };
        for (own, fields, expected) in [
            (Some("\"a\""), &[(ETAG, "\"a\"")][..], true),
            (Some("\"a\""), &[(ETAG, "\"b\"")], false),
            // A weak tag corresponds to the stored one; a strong one of the 304 identifies one with that strong tag.
            (Some("\"a\""), &[(ETAG, "W/\"a\"")], true),
            (Some("W/\"a\""), &[(ETAG, "W/\"a\"")], true),
            (Some("W/\"a\""), &[(ETAG, "\"a\"")], false),
            (Some("W/\"a\""), &[(ETAG, "W/\"b\"")], false),
            (Some("\"a\""), &[(ETAG, "\"a\""), (LAST_MODIFIED, NEXT_DAY)], true),
            (Some("\"a\""), &[], true),
            (Some("\"a\""), &[(LAST_MODIFIED, NEXT_DAY)], true),
            (None, &[(ETAG, "\"a\"")], false),
            (None, &[(ETAG, "W/\"a\"")], true),
            (None, &[(LAST_MODIFIED, DAY)], true),
            (None, &[(LAST_MODIFIED, NEXT_DAY)], false),
            (None, &[], true),
        ] {
            assert_eq!(selects(own, fields), expected, "{own:?} {fields:?}");
        }
    }

    #[test]
    fn head_matches_by_every_validator_and_by_its_length() {
        let length = |text| (CONTENT_LENGTH, text);
        let stored = [(LAST_MODIFIED, DAY)];
        for (own, fields, expected) in [
            (Some("\"a\""), &[(ETAG, "\"a\"")][..], HeadMatch::Stored),
            (Some("\"a\""), &[(ETAG, "\"a\""), (LAST_MODIFIED, DAY), length("7")], HeadMatch::Stored),
            (None, &[(LAST_MODIFIED, DAY)], HeadMatch::Stored),
            (Some("\"a\""), &[(ETAG, "\"b\"")], HeadMatch::Other),
            (Some("\"a\""), &[(ETAG, "W/\"a\"")], HeadMatch::Other),
            (Some("\"a\""), &[(ETAG, "\"a\""), (LAST_MODIFIED, NEXT_DAY)], HeadMatch::Other),
            (Some("\"a\""), &[(ETAG, "\"a\""), length("8")], HeadMatch::Other),
            (Some("\"a\""), &[(ETAG, "\"a\""), length("seven")], HeadMatch::Other),
            (None, &[(ETAG, "\"a\"")], HeadMatch::Other),
            (None, &[(ETAG, "\"a\""), (LAST_MODIFIED, DAY)], HeadMatch::Other),
            (Some("\"a\""), &[length("0")], HeadMatch::Other),
            (Some("\"a\""), &[length("7")], HeadMatch::Unknown),
            (Some("\"a\""), &[], HeadMatch::Unknown),
        ] {
            let own_etag = own.map(HeaderValue::from_static);
            let matched = match_head(own_etag.as_ref(), &headers(&stored), 7, &headers(fields));
            assert_eq!(matched, expected, "{own:?} {fields:?}");
        }
    }

    #[test]
    fn fields_of_a_304_replace_all_lines_of_the_stored_ones() {
        let x = HeaderName::from_static("x");
        let stored =
            [(CACHE_CONTROL, "max-age=1"), (CACHE_CONTROL, "public"), (CONTENT_TYPE, "a/b"), (AGE, "5")];
        let from_304 =
            [(CACHE_CONTROL, "max-age=9"), (VARY, "a"), (x.clone(), "1"), (x.clone(), "2"), (DATE, DAY)];
        let merged = [
            (CONTENT_TYPE, "a/b"),
            (CACHE_CONTROL, "max-age=9"),
            (VARY, "a"),
            (x.clone(), "1"),
            (x, "2"),
            (DATE, DAY),
        ];
        assert_eq!(merge(&headers(&stored), &headers(&from_304)), headers(&merged));
    }

    #[test]
    fn age_and_date_are_those_of_the_304() {
        let stored = headers(&[(AGE, "5"), (DATE, DAY), (VARY, "a")]);
        assert_eq!(merge(&stored, &HeaderMap::new()), headers(&[(VARY, "a")]));
        let fields = [(VARY, "a"), (AGE, "7"), (DATE, NEXT_DAY)];
        assert_eq!(merge(&stored, &headers(&fields[1..])), headers(&fields));
    }

    #[test]
    fn fields_of_the_connection_and_of_a_body_are_not_merged() {
        let (a, md5) = (HeaderName::from_static("x-a"), HeaderName::from_static("content-md5"));
        let stored =
            [(CONTENT_LENGTH, "36"), (CONTENT_ENCODING, "gzip"), (a.clone(), "old"), (md5.clone(), "old")];
        let from_304 = [
            (CONTENT_LENGTH, "0"),
            (CONTENT_ENCODING, "br"),
            (CONTENT_RANGE, "bytes 0-1/2"),
            (CONNECTION, "X-A, close"),
            (a.clone(), "new"),
            (TRANSFER_ENCODING, "chunked"),
            (SET_COOKIE, "a=b"),
            (md5.clone(), "new"),
        ];
        let merged = [(CONTENT_LENGTH, "36"), (CONTENT_ENCODING, "gzip"), (a, "old"), (md5, "new")];
        assert_eq!(merge(&headers(&stored), &headers(&from_304)), headers(&merged));
    }
}

//! Range requests (RFC 9110, section 14). A request with several ranges gets the complete body: the RFC allows it, and
//! overlapping ranges cannot amplify the response.

use std::ops::Range;

use http::header::{
    ACCEPT_RANGES, ACCESS_CONTROL_ALLOW_CREDENTIALS, ACCESS_CONTROL_ALLOW_ORIGIN,
    ACCESS_CONTROL_EXPOSE_HEADERS, CONTENT_RANGE, DATE, ETAG, IF_RANGE, RANGE, VARY,
};
use http::{HeaderMap, HeaderName};

use crate::headers::control::list_members;
use crate::status::CACHE_STATUS;

/// The fields of the 200 that a 416 repeats: none that describe a body, and none that would allow to store the error.
pub(crate) const REPEATED_IN_416: [HeaderName; 7] = [
    CACHE_STATUS,
    ACCEPT_RANGES,
    DATE,
    VARY,
    ACCESS_CONTROL_ALLOW_ORIGIN,
    ACCESS_CONTROL_ALLOW_CREDENTIALS,
    ACCESS_CONTROL_EXPOSE_HEADERS,
];

/// Digests of the bytes of a message (RFC 9530, section 2; RFC 1864): a 206 has others.
pub(crate) const DIGESTS_OF_CONTENT: [HeaderName; 2] =
    [HeaderName::from_static("content-digest"), HeaderName::from_static("content-md5")];

/// The part of a body that a request gets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum BodyRange {
    Whole,
    Part(Range<usize>),
    /// The range starts after the end of the body: 416.
    Unsatisfiable,
}

/// The length of the complete body, as a 206 states it (RFC 9110, 14.4); `None` for one that states none, or has several
/// parts.
pub(crate) fn complete_length(response: &HeaderMap) -> Option<u64> {
    let mut lines = response.get_all(CONTENT_RANGE).iter();
    let (unit, range) = lines.next()?.to_str().ok()?.split_once(' ')?;
    let length = range.rsplit_once('/')?.1.trim();
    (unit.eq_ignore_ascii_case("bytes") && lines.next().is_none()).then(|| length.parse().ok())?
}

/// Evaluates `Range` and `If-Range`. Invalid fields are ignored, as the RFC requires.
pub(crate) fn requested_range(request: &HeaderMap, stored: &HeaderMap, len: usize) -> BodyRange {
    let mut lines = request.get_all(RANGE).iter();
    let Some(line) = lines.next() else { return BodyRange::Whole };
    let units = stored.get_all(ACCEPT_RANGES).iter().flat_map(|line| list_members(line.as_bytes()));
    let supports_bytes =
        !stored.contains_key(ACCEPT_RANGES) || units.into_iter().any(|unit| unit == b"bytes");
    if lines.next().is_some() || !supports_bytes || len == 0 || !if_range_matches(request, stored) {
        return BodyRange::Whole;
    }
    match line.to_str().ok().and_then(|line| parse_single_range(line, len)) {
        None => BodyRange::Whole,
        Some(part) if part.is_empty() => BodyRange::Unsatisfiable,
        Some(part) => BodyRange::Part(part),
    }
}

/// Whether `If-Range`, if present, has the strong entity tag of the stored body. A date never matches: two bodies may
/// have the same date.
pub(crate) fn if_range_matches(request: &HeaderMap, stored: &HeaderMap) -> bool {
    let mut lines = request.get_all(IF_RANGE).iter();
    match (lines.next(), lines.next()) {
        (None, _) => true,
        // A field that has one value only, twice: no client means that.
        (Some(_), Some(_)) => false,
        (Some(tag), None) => tag.as_bytes().starts_with(b"\"") && stored.get(ETAG) == Some(tag),
    }
}

/// Parses a single range. The result is empty if the range is not satisfiable, and `None` if it is invalid.
fn parse_single_range(line: &str, len: usize) -> Option<Range<usize>> {
    let (unit, spec) = line.split_once('=')?;
    let (first, last) = spec.trim().split_once('-')?;
    if !unit.trim().eq_ignore_ascii_case("bytes") {
        return None;
    }
    match (parse_offset(first)?, parse_offset(last)?) {
        (None, None) => None,
        (None, Some(suffix)) => Some(len - suffix.min(len)..len),
        (Some(first), Some(last)) if last < first => None,
        (Some(first), last) => {
            let end = last.map_or(len, |last| last.saturating_add(1)).min(len);
            Some(first.min(end)..end)
        }
    }
}

/// Parses an offset, which may be empty; `None` if it is not a number. A number above the range is the largest `usize`.
fn parse_offset(text: &str) -> Option<Option<usize>> {
    let text = text.trim();
    if !text.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    Some((!text.is_empty()).then(|| text.parse().unwrap_or(usize::MAX)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::HeaderValue;

    fn map(fields: &[(http::HeaderName, &'static str)]) -> HeaderMap {
        fields.iter().map(|(name, value)| (name.clone(), HeaderValue::from_static(value))).collect()
    }

    fn range_of_ten_bytes(range: &'static str) -> BodyRange {
        requested_range(&map(&[(RANGE, range)]), &map(&[(ETAG, "\"v\"")]), 10)
    }

    #[test]
    fn single_range_is_limited_to_body() {
        for (range, part) in [
            ("bytes=0-0", 0..1),
            ("bytes=2-4", 2..5),
            ("bytes=7-", 7..10),
            ("bytes=-3", 7..10),
            ("bytes=-30", 0..10),
            ("bytes=8-99999999999999999999999999", 8..10),
            ("Bytes = 2 - 4", 2..5),
            ("bytes=0-18446744073709551615", 0..10),
        ] {
            assert_eq!(range_of_ten_bytes(range), BodyRange::Part(part), "{range}");
        }
    }

    #[test]
    fn range_after_end_is_unsatisfiable() {
        for range in ["bytes=10-", "bytes=10-12", "bytes=-0", "bytes=99999999999999999999999-"] {
            assert_eq!(range_of_ten_bytes(range), BodyRange::Unsatisfiable, "{range}");
        }
    }

    #[test]
    fn invalid_or_multiple_ranges_are_ignored() {
        for range in
            ["bytes=0-1,3-4", "bytes=4-2", "bytes=-", "bytes=a-b", "lines=0-1", "bytes", "bytes=+1-2", ""]
        {
            assert_eq!(range_of_ten_bytes(range), BodyRange::Whole, "{range}");
        }
        let mut lines = map(&[(RANGE, "bytes=0-1")]);
        lines.append(RANGE, HeaderValue::from_static("bytes=0-2"));
        assert_eq!(requested_range(&lines, &HeaderMap::new(), 10), BodyRange::Whole);
        assert_eq!(
            requested_range(&map(&[(RANGE, "bytes=0-1")]), &map(&[(ACCEPT_RANGES, "none")]), 10),
            BodyRange::Whole
        );
        let units = map(&[(ACCEPT_RANGES, "lines, bytes")]);
        assert_eq!(requested_range(&map(&[(RANGE, "bytes=0-1")]), &units, 10), BodyRange::Part(0..2));
        assert_eq!(requested_range(&map(&[(RANGE, "bytes=0-1")]), &HeaderMap::new(), 0), BodyRange::Whole);
    }

    #[test]
    fn complete_length_is_that_of_a_single_range() {
        for (range, length) in [
            ("bytes 0-1/10", Some(10)),
            ("Bytes 0-1/ 10 ", Some(10)),
            ("bytes */10", Some(10)),
            ("bytes 0-1/*", None),
            ("bytes 0-1/-1", None),
            ("bytes 0-1/99999999999999999999", None),
            ("lines 0-1/10", None),
            ("bytes", None),
            ("", None),
        ] {
            assert_eq!(complete_length(&map(&[(CONTENT_RANGE, range)])), length, "{range}");
        }
        assert_eq!(complete_length(&HeaderMap::new()), None);
    }

    #[test]
    fn if_range_accepts_only_strong_equal_etag() {
        let with = |tag, etag| {
            requested_range(&map(&[(RANGE, "bytes=0-1"), (IF_RANGE, tag)]), &map(&[(ETAG, etag)]), 10)
                != BodyRange::Whole
        };
        assert!(with("\"v\"", "\"v\""));
        assert!(!with("\"w\"", "\"v\""));
        assert!(!with("W/\"v\"", "W/\"v\""));
        assert!(!with("Sun, 06 Nov 1994 08:49:37 GMT", "\"v\""));
    }
}

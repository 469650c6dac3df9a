//! Parts of a stored body (RFC 9110, section 14): one range at a time; several at once are answered in full, which
//! the RFC allows and which makes overlapping ranges useless as an amplifier.

use std::ops::Range;

use http::HeaderMap;
use http::header::{ACCEPT_RANGES, ETAG, IF_RANGE, RANGE};

/// What a request wants of a body.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Wanted {
    Whole,
    Part(Range<usize>),
    /// A range that begins behind the end: 416.
    Nothing,
}

/// Reads `Range` and `If-Range`; what is not understood is ignored, as the RFC asks.
pub(crate) fn wanted(request: &HeaderMap, stored: &HeaderMap, len: usize) -> Wanted {
    let mut lines = request.get_all(RANGE).iter();
    let Some(line) = lines.next() else { return Wanted::Whole };
    let offered = stored.get(ACCEPT_RANGES).is_none_or(|units| units == "bytes");
    if lines.next().is_some() || !offered || len == 0 || !same_version(request, stored) {
        return Wanted::Whole;
    }
    match line.to_str().ok().and_then(|line| part(line, len)) {
        None => Wanted::Whole,
        Some(part) if part.is_empty() => Wanted::Nothing,
        Some(part) => Wanted::Part(part),
    }
}

/// Whether the client's first part, if it names one, is of this very body: a strong entity tag. Dates are too coarse
/// to glue bytes together by, and count as a difference.
fn same_version(request: &HeaderMap, stored: &HeaderMap) -> bool {
    match request.get(IF_RANGE) {
        None => true,
        Some(tag) => tag.as_bytes().starts_with(b"\"") && stored.get(ETAG) == Some(tag),
    }
}

/// The bytes of a single range, empty when it cannot be satisfied; `None` when it is no single range.
fn part(line: &str, len: usize) -> Option<Range<usize>> {
    let (unit, spec) = line.split_once('=')?;
    let (first, last) = spec.trim().split_once('-')?;
    if !unit.trim().eq_ignore_ascii_case("bytes") {
        return None;
    }
    match (position(first)?, position(last)?) {
        (None, None) => None,
        (None, Some(suffix)) => Some(len - suffix.min(len)..len),
        (Some(first), Some(last)) if last < first => None,
        (Some(first), last) => {
            let end = last.map_or(len, |last| last.saturating_add(1)).min(len);
            Some(first.min(end)..end)
        }
    }
}

/// A position, none, or nonsense; what is too large for a number is as good as the largest.
fn position(text: &str) -> Option<Option<usize>> {
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

    fn of_ten(range: &'static str) -> Wanted {
        wanted(&map(&[(RANGE, range)]), &map(&[(ETAG, "\"v\"")]), 10)
    }

    #[test]
    fn a_single_range_is_cut_to_the_body() {
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
            assert_eq!(of_ten(range), Wanted::Part(part), "{range}");
        }
    }

    #[test]
    fn what_begins_behind_the_end_is_nothing() {
        for range in ["bytes=10-", "bytes=10-12", "bytes=-0", "bytes=99999999999999999999999-"] {
            assert_eq!(of_ten(range), Wanted::Nothing, "{range}");
        }
    }

    #[test]
    fn everything_else_is_ignored() {
        for range in
            ["bytes=0-1,3-4", "bytes=4-2", "bytes=-", "bytes=a-b", "lines=0-1", "bytes", "bytes=+1-2", ""]
        {
            assert_eq!(of_ten(range), Wanted::Whole, "{range}");
        }
        let mut lines = map(&[(RANGE, "bytes=0-1")]);
        lines.append(RANGE, HeaderValue::from_static("bytes=0-2"));
        assert_eq!(wanted(&lines, &HeaderMap::new(), 10), Wanted::Whole);
        assert_eq!(
            wanted(&map(&[(RANGE, "bytes=0-1")]), &map(&[(ACCEPT_RANGES, "none")]), 10),
            Wanted::Whole
        );
        assert_eq!(wanted(&map(&[(RANGE, "bytes=0-1")]), &HeaderMap::new(), 0), Wanted::Whole);
    }

    #[test]
    fn only_a_strong_tag_continues_a_body() {
        let with = |tag, etag| {
            wanted(&map(&[(RANGE, "bytes=0-1"), (IF_RANGE, tag)]), &map(&[(ETAG, etag)]), 10) != Wanted::Whole
        };
        assert!(with("\"v\"", "\"v\""));
        assert!(!with("\"w\"", "\"v\""));
        assert!(!with("W/\"v\"", "W/\"v\""));
        assert!(!with("Sun, 06 Nov 1994 08:49:37 GMT", "\"v\""));
    }
}

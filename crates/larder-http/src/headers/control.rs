//! The `Cache-Control` directives that the cache obeys (RFC 9111, section 5.2), and the parts of lists and media types.

use std::time::Duration;

use http::header::{AGE, CACHE_CONTROL};
use http::{HeaderMap, HeaderName};

/// The directives of all `Cache-Control` lines. `max-age` is not among them: it addresses browsers too, and the handler
/// states the TTL of this cache.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Directives {
    pub(crate) no_store: bool,
    /// Also set if it is qualified by field names (`private="x-user"`), which is the stricter interpretation.
    pub(crate) private: bool,
    /// Like `private`, also if it is qualified. This cache never revalidates, so it cannot use such a response.
    pub(crate) no_cache: bool,
    /// `must-revalidate` or `proxy-revalidate`, which `s-maxage` implies: the response must not be served stale.
    pub(crate) must_revalidate: bool,
    /// The lowest `s-maxage`; zero if it is not a number.
    pub(crate) s_maxage: Option<Duration>,
    pub(crate) only_if_cached: bool,
}

impl Directives {
    /// Parses all lines. Names are not case-sensitive, and quoted text is never a directive.
    pub(crate) fn parse(headers: &HeaderMap) -> Directives {
        let mut directives = Directives::default();
        for (name, argument) in directive_members(headers, &CACHE_CONTROL) {
            let is = |directive: &str| name.eq_ignore_ascii_case(directive.as_bytes());
            directives.no_store |= is("no-store");
            directives.private |= is("private");
            directives.no_cache |= is("no-cache");
            directives.must_revalidate |= is("must-revalidate") || is("proxy-revalidate") || is("s-maxage");
            directives.only_if_cached |= is("only-if-cached");
            if is("s-maxage") {
                let seconds = delta_seconds(argument.unwrap_or_default());
                directives.s_maxage = Some(directives.s_maxage.map_or(seconds, |s| s.min(seconds)));
            }
        }
        directives
    }
}

/// The directives of all lines of a field with the syntax of `Cache-Control`: each name, and its argument with its quotes
/// if it has one. Spaces around the equals sign have no meaning.
pub(crate) fn directive_members<'a>(
    headers: &'a HeaderMap,
    field: &HeaderName,
) -> impl Iterator<Item = (&'a [u8], Option<&'a [u8]>)> + use<'a> {
    headers.get_all(field).iter().flat_map(|line| list_members(line.as_bytes())).map(|member| {
        match member.iter().position(|byte| *byte == b'=') {
            Some(end) => (member[..end].trim_ascii(), Some(member[end + 1..].trim_ascii())),
            None => (member, None),
        }
    })
}

/// The `Age` of a response; zero if it has none or an invalid one. Of a list it is the first member (RFC 9111, 5.1).
pub(crate) fn age_value(headers: &HeaderMap) -> Duration {
    let age = headers.get(AGE).and_then(|line| split_list(line.as_bytes()).next());
    age.map(delta_seconds).unwrap_or_default()
}

/// A number of seconds, also in quotes (RFC 9111, 1.2.2); zero if it is invalid, which is stale.
pub(crate) fn delta_seconds(value: &[u8]) -> Duration {
    let unquoted = value.strip_prefix(b"\"").and_then(|value| value.strip_suffix(b"\"")).unwrap_or(value);
    if unquoted.is_empty() || !unquoted.iter().all(u8::is_ascii_digit) {
        return Duration::ZERO;
    }
    let digits = unquoted.iter().map(|digit| u64::from(digit - b'0'));
    // The RFC's limit for numbers that are too large.
    let seconds = digits.fold(0u64, |sum, digit| (sum * 10 + digit).min(1 << 31));
    Duration::from_secs(seconds)
}

/// The trimmed members of a comma-separated field, without empty ones. Commas in quotes do not separate (RFC 9110, 5.6).
pub(crate) fn list_members(line: &[u8]) -> impl Iterator<Item = &[u8]> {
    split_list(line).filter(|member| !member.is_empty())
}

/// The trimmed members of a comma-separated field, with empty ones.
pub(crate) fn split_list(line: &[u8]) -> impl Iterator<Item = &[u8]> {
    let mut rest = Some(line);
    std::iter::from_fn(move || {
        let line = rest?;
        let end = unquoted_comma(line);
        rest = end.map(|comma| &line[comma + 1..]);
        Some(line[..end.unwrap_or(line.len())].trim_ascii())
    })
}

/// Splits a field value at its first semicolon, into a media type and its parameters.
pub(crate) fn split_media_type(value: &[u8]) -> (&[u8], &[u8]) {
    let mut parts = value.splitn(2, |byte| *byte == b';');
    let mut part = || parts.next().unwrap_or_default().trim_ascii();
    (part(), part())
}

fn unquoted_comma(line: &[u8]) -> Option<usize> {
    let (mut quoted, mut escaped) = (false, false);
    line.iter().position(|byte| {
        if escaped {
            escaped = false;
            return false;
        }
        match byte {
            b'"' => quoted = !quoted,
            b'\\' => escaped = quoted,
            b',' => return !quoted,
            _ => {}
        }
        false
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(lines: &[&'static str]) -> Directives {
        let mut headers = HeaderMap::new();
        for line in lines {
            headers.append(CACHE_CONTROL, http::HeaderValue::from_static(line));
        }
        Directives::parse(&headers)
    }

    #[test]
    fn directives_match_in_any_case_and_on_any_line() {
        assert!(parse(&["max-age=5", "No-Store"]).no_store);
        assert!(parse(&["max-age=5,PRIVATE"]).private);
        assert!(parse(&[" Private = \"x-user\" "]).private);
        assert!(parse(&["only-if-cached"]).only_if_cached);
        assert!(parse(&["Must-Revalidate"]).must_revalidate);
        assert!(parse(&["no-cache = \"set-cookie\""]).no_cache);
    }

    #[test]
    fn quoted_text_is_not_a_directive() {
        assert_eq!(parse(&["ext=\"a, private, no-store\""]), Directives::default());
        assert_eq!(parse(&["ext=\"a\\\", private\""]), Directives::default());
        assert!(parse(&["ext=\"a\\\\\", private"]).private);
    }

    #[test]
    fn lowest_s_maxage_applies_and_invalid_one_is_zero() {
        let seconds = |lines: &[&'static str]| parse(lines).s_maxage.map(|duration| duration.as_secs());
        assert_eq!(seconds(&["max-age=5"]), None);
        assert_eq!(seconds(&["s-maxage=7, S-MaxAge = \"5\"", "s-maxage=6"]), Some(5));
        assert_eq!(seconds(&["s-maxage=99999999999999999999999"]), Some(1 << 31));
        for invalid in ["s-maxage", "s-maxage=", "s-maxage=-1", "s-maxage=\"5", "s-maxage=5 6"] {
            assert_eq!(parse(&[invalid]).s_maxage, Some(Duration::ZERO), "{invalid}");
        }
    }

    #[test]
    fn unknown_directives_are_ignored() {
        assert_eq!(parse(&["public, max-age=10", ",,= ,", "privateer, no-store-x"]), Directives::default());
    }

    #[test]
    fn open_quote_extends_to_end_of_line() {
        let members: Vec<_> = list_members(b"a, \"b, c").collect();
        assert_eq!(members, [&b"a"[..], b"\"b, c"]);
    }
}

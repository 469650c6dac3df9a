//! The `Cache-Control` directives that decide whether a response may be stored (RFC 9111, section 5.2).

use http::HeaderMap;
use http::header::CACHE_CONTROL;

/// The directives that the cache obeys, from all `Cache-Control` lines.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Directives {
    pub(crate) no_store: bool,
    /// Also set if it is qualified by field names (`private="x-user"`), which is the stricter interpretation.
    pub(crate) private: bool,
    pub(crate) only_if_cached: bool,
}

impl Directives {
    /// Parses all lines. Names are not case-sensitive, and quoted text is never a directive.
    pub(crate) fn parse(headers: &HeaderMap) -> Directives {
        let mut directives = Directives::default();
        for line in headers.get_all(CACHE_CONTROL) {
            for member in list_members(line.as_bytes()) {
                let name = match member.iter().position(|b| *b == b'=') {
                    Some(end) => member[..end].trim_ascii(),
                    None => member,
                };
                directives.no_store |= name.eq_ignore_ascii_case(b"no-store");
                directives.private |= name.eq_ignore_ascii_case(b"private");
                directives.only_if_cached |= name.eq_ignore_ascii_case(b"only-if-cached");
            }
        }
        directives
    }
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
    }

    #[test]
    fn quoted_text_is_not_a_directive() {
        assert_eq!(parse(&["ext=\"a, private, no-store\""]), Directives::default());
        assert_eq!(parse(&["ext=\"a\\\", private\""]), Directives::default());
        assert!(parse(&["ext=\"a\\\\\", private"]).private);
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

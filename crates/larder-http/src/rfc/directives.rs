//! The cache directives of responses and requests (RFC 9111, 5.2) as a shared cache reads them. A repeated directive counts
//! once, with its stricter value.

use std::time::Duration;

use http::header::{CACHE_CONTROL, PRAGMA};
use http::{HeaderMap, HeaderName};

use crate::headers::control::{delta_seconds, directive_members, list_members};

/// The most fields that the directives of a response may name: each field of the response is compared with them.
const MAX_RESTRICTED_FIELDS: usize = 64;

/// The directives of a response (RFC 9111, 5.2.2; RFC 5861; RFC 8246).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ResponseDirectives {
    pub(crate) max_age: Option<Duration>,
    pub(crate) s_maxage: Option<Duration>,
    pub(crate) stale_while_revalidate: Option<Duration>,
    pub(crate) stale_if_error: Option<Duration>,
    pub(crate) no_store: bool,
    /// Without field names: it applies to the whole response.
    pub(crate) no_cache: bool,
    /// Without field names: it applies to the whole response.
    pub(crate) private: bool,
    pub(crate) public: bool,
    pub(crate) must_revalidate: bool,
    pub(crate) proxy_revalidate: bool,
    pub(crate) must_understand: bool,
    pub(crate) immutable: bool,
    /// The fields that a `no-cache` or `private` names: the rest of the response is not restricted by it.
    pub(crate) restricted_fields: Vec<HeaderName>,
}

/// What a directive of a response is about.
#[derive(Clone, Copy)]
pub(crate) enum Kind {
    /// The directive has no argument.
    Flag(fn(&mut ResponseDirectives) -> &mut bool),
    /// Its argument is a number of seconds.
    Seconds(fn(&mut ResponseDirectives) -> &mut Option<Duration>),
    /// It may have field names, and applies to the whole response without them.
    Fields(fn(&mut ResponseDirectives) -> &mut bool),
}

const KINDS: [(&str, Kind); 12] = [
    ("max-age", Kind::Seconds(|directives| &mut directives.max_age)),
    ("s-maxage", Kind::Seconds(|directives| &mut directives.s_maxage)),
    ("stale-while-revalidate", Kind::Seconds(|directives| &mut directives.stale_while_revalidate)),
    ("stale-if-error", Kind::Seconds(|directives| &mut directives.stale_if_error)),
    ("no-store", Kind::Flag(|directives| &mut directives.no_store)),
    ("public", Kind::Flag(|directives| &mut directives.public)),
    ("must-revalidate", Kind::Flag(|directives| &mut directives.must_revalidate)),
    ("proxy-revalidate", Kind::Flag(|directives| &mut directives.proxy_revalidate)),
    ("must-understand", Kind::Flag(|directives| &mut directives.must_understand)),
    ("immutable", Kind::Flag(|directives| &mut directives.immutable)),
    ("no-cache", Kind::Fields(|directives| &mut directives.no_cache)),
    ("private", Kind::Fields(|directives| &mut directives.private)),
];

impl Kind {
    /// The kind of a directive, whose name is in any case; `None` if this cache does not know it.
    pub(crate) fn of(name: &[u8]) -> Option<Kind> {
        KINDS.iter().find_map(|(known, kind)| known.as_bytes().eq_ignore_ascii_case(name).then_some(*kind))
    }
}

impl ResponseDirectives {
    /// The directives of all `Cache-Control` lines. An invalid number is zero, and invalid field names are none, which
    /// is the stricter form.
    pub(crate) fn parse(response: &HeaderMap) -> ResponseDirectives {
        let mut directives = ResponseDirectives::default();
        for (name, argument) in directive_members(response, &CACHE_CONTROL) {
            match Kind::of(name) {
                Some(Kind::Flag(flag)) => *flag(&mut directives) = true,
                Some(Kind::Seconds(seconds)) => {
                    lower(seconds(&mut directives), delta_seconds(argument.unwrap_or_default()));
                }
                Some(Kind::Fields(flag)) => directives.restrict(flag, unquoted(argument.unwrap_or_default())),
                None => {}
            }
        }
        directives
    }

    /// Whether the response is for requests with `Authorization` too (RFC 9111, 3.5).
    pub(crate) fn permit_authorized(&self) -> bool {
        self.public || self.s_maxage.is_some() || self.must_revalidate
    }

    /// Applies a `no-cache` or `private` with these field names (RFC 9111, 5.2.2.4 and 5.2.2.7). Invalid or too many names
    /// are none.
    pub(crate) fn restrict(&mut self, flag: fn(&mut ResponseDirectives) -> &mut bool, names: &[u8]) {
        let most = MAX_RESTRICTED_FIELDS - self.restricted_fields.len();
        let names = list_members(names).take(most + 1).map(HeaderName::from_bytes);
        match names.collect::<Result<Vec<_>, _>>() {
            Ok(names) if !names.is_empty() && names.len() <= most => self.restricted_fields.extend(names),
            _ => *flag(self) = true,
        }
    }
}

/// The directives of a request (RFC 9111, 5.2.1; RFC 5861).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct RequestDirectives {
    pub(crate) no_cache: bool,
    pub(crate) no_store: bool,
    pub(crate) only_if_cached: bool,
    pub(crate) max_age: Option<Duration>,
    /// The longest [`Duration`] if the directive has no argument: any staleness is accepted.
    pub(crate) max_stale: Option<Duration>,
    pub(crate) min_fresh: Option<Duration>,
    pub(crate) stale_if_error: Option<Duration>,
}

impl RequestDirectives {
    /// The directives of all `Cache-Control` lines. An invalid number is zero.
    pub(crate) fn parse(request: &HeaderMap) -> RequestDirectives {
        let mut directives = RequestDirectives::default();
        if !request.contains_key(CACHE_CONTROL) {
            // RFC 9111, 5.4: a cache of HTTP/1.0 knows no other field.
            directives.no_cache =
                directive_members(request, &PRAGMA).any(|(name, _)| name.eq_ignore_ascii_case(b"no-cache"));
        }
        for (name, argument) in directive_members(request, &CACHE_CONTROL) {
            let seconds = argument.map(delta_seconds);
            let is = |directive: &str| name.eq_ignore_ascii_case(directive.as_bytes());
            directives.no_cache |= is("no-cache");
            directives.no_store |= is("no-store");
            directives.only_if_cached |= is("only-if-cached");
            if is("max-age") {
                lower(&mut directives.max_age, seconds.unwrap_or_default());
            } else if is("max-stale") {
                lower(&mut directives.max_stale, seconds.unwrap_or(Duration::MAX));
            } else if is("min-fresh") {
                directives.min_fresh = directives.min_fresh.max(Some(seconds.unwrap_or_default()));
            } else if is("stale-if-error") {
                lower(&mut directives.stale_if_error, seconds.unwrap_or_default());
            }
        }
        directives
    }
}

fn lower(lowest: &mut Option<Duration>, seconds: Duration) {
    *lowest = Some(lowest.map_or(seconds, |lowest| lowest.min(seconds)));
}

/// The text in the quotes of an argument, without its escapes resolved: no field name has any.
fn unquoted(argument: &[u8]) -> &[u8] {
    argument.strip_prefix(b"\"").and_then(|argument| argument.strip_suffix(b"\"")).unwrap_or(argument)
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::HeaderValue;

    fn headers(fields: &[(HeaderName, &'static str)]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for (name, line) in fields {
            headers.append(name, HeaderValue::from_static(line));
        }
        headers
    }

    fn response(lines: &[&'static str]) -> ResponseDirectives {
        let lines: Vec<_> = lines.iter().map(|line| (CACHE_CONTROL, *line)).collect();
        ResponseDirectives::parse(&headers(&lines))
    }

    fn request(line: &'static str) -> RequestDirectives {
        RequestDirectives::parse(&headers(&[(CACHE_CONTROL, line)]))
    }

    fn secs(seconds: u64) -> Option<Duration> {
        Some(Duration::from_secs(seconds))
    }

    #[test]
    fn response_directives_are_read_from_all_lines() {
        let expected = ResponseDirectives {
            max_age: secs(5),
            s_maxage: secs(6),
            stale_while_revalidate: secs(7),
            stale_if_error: secs(8),
            no_store: true,
            no_cache: true,
            private: true,
            public: true,
            must_revalidate: true,
            proxy_revalidate: true,
            must_understand: true,
            immutable: true,
            restricted_fields: vec![],
        };
        let lines = [
            "Max-Age=5, s-maxage=\"6\", foobar, stale-while-revalidate = 7",
            "stale-if-error=8, NO-STORE, no-cache, private, public, must-revalidate",
            "proxy-revalidate, must-understand, immutable",
        ];
        assert_eq!(response(&lines), expected);
        assert_eq!(
            response(&["ext=\"max-age=5, no-store\", 'public', pub lic"]),
            ResponseDirectives::default()
        );
    }

    #[test]
    fn lowest_number_applies_and_invalid_one_is_zero() {
        assert_eq!(response(&["max-age=9, max-age=7", "max-age=8"]).max_age, secs(7));
        assert_eq!(response(&["max-age=003600"]).max_age, secs(3600));
        assert_eq!(response(&["max-age=99999999999"]).max_age, secs(1 << 31));
        for invalid in
            ["max-age", "max-age=-5", "max-age='5'", "max-age=5.0", "max-age=a5", "max-age=5a, max-age=9"]
        {
            assert_eq!(response(&[invalid]).max_age, secs(0), "{invalid}");
        }
    }

    #[test]
    fn named_fields_restrict_only_themselves() {
        let named = response(&["no-cache=\"Set-Cookie, x-a\", private=x-b"]);
        assert_eq!((named.no_cache, named.private), (false, false));
        assert_eq!(named.restricted_fields, ["set-cookie", "x-a", "x-b"].map(HeaderName::from_static));
        for whole in [
            "private",
            "private=",
            "private=\"\"",
            "private=\",\"",
            "private=\"a b\"",
            "private=\"x-a",
            "private=\"x-a\", private",
        ] {
            assert!(response(&[whole]).private, "{whole}");
        }
    }

    #[test]
    fn too_many_named_fields_restrict_the_whole_response() {
        let no_cache = |names: usize, others: &'static str| {
            let line = format!("no-cache=\"{}\"", vec!["a"; names].join(","));
            let lines =
                [line.as_str(), others].map(|line| (CACHE_CONTROL, HeaderValue::from_str(line).unwrap()));
            let mut headers = HeaderMap::new();
            for (name, line) in lines {
                headers.append(name, line);
            }
            ResponseDirectives::parse(&headers)
        };
        assert!(!no_cache(MAX_RESTRICTED_FIELDS, "").no_cache);
        assert!(no_cache(MAX_RESTRICTED_FIELDS + 1, "").no_cache);
        assert!(no_cache(MAX_RESTRICTED_FIELDS, "private=b").private);
    }

    #[test]
    fn request_directives_are_the_stricter_ones() {
        let expected = RequestDirectives {
            no_cache: true,
            no_store: true,
            only_if_cached: true,
            max_age: secs(1),
            max_stale: secs(2),
            min_fresh: secs(5),
            stale_if_error: secs(3),
        };
        let line = "no-cache, No-Store, only-if-cached, max-age=1, max-age=4, max-stale, max-stale=2, min-fresh=5, \
                    min-fresh=4, stale-if-error=3";
        assert_eq!(request(line), expected);
        assert_eq!(request("max-stale").max_stale, Some(Duration::MAX));
        assert_eq!(
            request("max-stale=x, max-age=x"),
            RequestDirectives { max_stale: secs(0), max_age: secs(0), ..Default::default() }
        );
        assert_eq!(request("public, ext=\"no-cache\""), RequestDirectives::default());
    }

    #[test]
    fn pragma_counts_only_without_cache_control() {
        let has_no_cache = |fields: &[_]| RequestDirectives::parse(&headers(fields)).no_cache;
        assert!(has_no_cache(&[(PRAGMA, "foo, No-Cache")]));
        assert!(!has_no_cache(&[(PRAGMA, "no-cache"), (CACHE_CONTROL, "max-age=5")]));
        assert!(!has_no_cache(&[(PRAGMA, "foo=\"no-cache\"")]));
        assert!(!response(&[]).no_cache);
    }
}

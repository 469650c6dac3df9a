//! Which field decides over the caching of a response: a field for this class of caches (RFC 9213), or `Cache-Control`.

use std::time::Duration;

use http::{HeaderMap, HeaderName};

use crate::rfc::directives::{Kind, ResponseDirectives};
use crate::rfc::structured::{Member, Value, field_text, parse_dictionary};

/// For the caches that operate on behalf of an origin (RFC 9213, section 3).
pub(crate) const CDN_CACHE_CONTROL: HeaderName = HeaderName::from_static("cdn-cache-control");

/// The largest number of seconds that `Cache-Control` has (RFC 9111, 1.2.2).
const MAX_SECONDS: i64 = 1 << 31;

/// The directives that apply to a response.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Policy {
    pub(crate) directives: ResponseDirectives,
    /// They are those of a targeted field: `Expires` does not count.
    pub(crate) is_targeted: bool,
}

impl Policy {
    /// The policy of a response, from the first of these fields that is valid and not empty: `own_field`,
    /// `CDN-Cache-Control`, `Cache-Control` (RFC 9213, 2.2).
    pub(crate) fn of(response: &HeaderMap, own_field: Option<&HeaderName>) -> Policy {
        let own = own_field.and_then(|field| targeted_directives(response, field));
        match own.or_else(|| targeted_directives(response, &CDN_CACHE_CONTROL)) {
            Some(directives) => Policy { directives, is_targeted: true },
            None => Policy { directives: ResponseDirectives::parse(response), is_targeted: false },
        }
    }
}

/// The directives of a targeted field; `None` if it is absent, empty or invalid. A known directive whose value has another
/// type makes the whole field invalid: it must not be used (RFC 9213, 2.1), and without it the rest could permit more.
fn targeted_directives(response: &HeaderMap, field: &HeaderName) -> Option<ResponseDirectives> {
    let text = field_text(response, field)?;
    let members = parse_dictionary(&text).filter(|members| !members.is_empty())?;
    let mut directives = ResponseDirectives::default();
    for (name, member) in &members {
        match (Kind::of(name.as_bytes()), member) {
            (None, _) => {}
            (Some(Kind::Flag(flag) | Kind::Fields(flag)), Member::Item(Value::Boolean(true))) => {
                *flag(&mut directives) = true;
            }
            (Some(Kind::Seconds(seconds)), Member::Item(Value::Integer(number))) => {
                let number = (*number).clamp(0, MAX_SECONDS).unsigned_abs();
                *seconds(&mut directives) = Some(Duration::from_secs(number));
            }
            (Some(Kind::Fields(flag)), Member::Item(Value::String(names))) => {
                directives.restrict(flag, names.as_bytes());
            }
            (Some(_), _) => return None,
        }
    }
    Some(directives)
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::HeaderValue;
    use http::header::CACHE_CONTROL;

    const OWN: HeaderName = HeaderName::from_static("x-cache-control");

    fn policy(fields: &[(HeaderName, &'static str)]) -> Policy {
        let mut headers = HeaderMap::new();
        for (name, line) in fields {
            headers.append(name, HeaderValue::from_static(line));
        }
        Policy::of(&headers, Some(&OWN))
    }

    fn max_age(fields: &[(HeaderName, &'static str)]) -> Option<u64> {
        policy(fields).directives.max_age.map(|age| age.as_secs())
    }

    #[test]
    fn first_valid_field_replaces_the_others() {
        let all =
            [(OWN, "max-age=1"), (CDN_CACHE_CONTROL, "max-age=2"), (CACHE_CONTROL, "max-age=3, no-store")];
        for (first, expected) in [(0, 1), (1, 2), (2, 3)] {
            let policy = policy(&all[first..]);
            assert_eq!(policy.directives.max_age, Some(Duration::from_secs(expected)));
            assert_eq!((policy.is_targeted, policy.directives.no_store), (first < 2, first == 2));
        }
    }

    #[test]
    fn invalid_or_empty_field_is_ignored() {
        for invalid in [
            "",
            "  ",
            "max-age=10, &&&&&",
            "max-age=\"10\"",
            "max-age=10.0",
            "max-age=ten",
            "max-age",
            "max-age =10",
            "MaX-aGe=10",
            "max-age=(10)",
            "max-age=10, no-store=?0",
            "max-age=10, no-store=1",
            "max-age=10, private=x",
            "max-age=10,",
            "max-age=9999999999999999",
        ] {
            let fields = [(CDN_CACHE_CONTROL, invalid), (CACHE_CONTROL, "max-age=3")];
            assert_eq!(max_age(&fields), Some(3), "{invalid:?}");
        }
    }

    #[test]
    fn unknown_directives_and_parameters_are_ignored() {
        let fields = [(CDN_CACHE_CONTROL, "foobar, x=(1 2), max-age=10;a=b"), (CACHE_CONTROL, "no-store")];
        assert_eq!(max_age(&fields), Some(10));
        assert!(policy(&[(CDN_CACHE_CONTROL, "foo"), (CACHE_CONTROL, "no-store")]).is_targeted);
    }

    #[test]
    fn targeted_directives_mean_the_same() {
        let directives = policy(&[
            (CDN_CACHE_CONTROL, "max-age=5, s-maxage=99999999999, no-store, no-cache=\"x-a, x-b\""),
            (CDN_CACHE_CONTROL, "private, max-age=-1, public"),
        ]);
        let expected = ResponseDirectives {
            max_age: Some(Duration::ZERO),
            s_maxage: Some(Duration::from_secs(1 << 31)),
            no_store: true,
            private: true,
            public: true,
            restricted_fields: vec![HeaderName::from_static("x-a"), HeaderName::from_static("x-b")],
            ..ResponseDirectives::default()
        };
        assert_eq!(directives, Policy { directives: expected, is_targeted: true });
    }
}

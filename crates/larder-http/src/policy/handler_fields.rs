//! What a handler sees of a request whose response may be stored: a field that is not in the key, and that the handler
//! depends on, would let one client choose the response of all.

use http::header::{AUTHORIZATION, CONTENT_LENGTH, COOKIE, HOST, IF_MODIFIED_SINCE, IF_NONE_MATCH};
use http::header::{PROXY_AUTHORIZATION, TRANSFER_ENCODING};
use http::{HeaderMap, HeaderName, HeaderValue, Method, Request};

use crate::key::CONTENT_FIELDS;
use crate::request::traits::PersonalTraits;

/// The fields that need no permission: those of the key, of the body, of the conditions that the layer obeys, and
/// credentials, with which a response is stored only if its handler gave it a scope.
const ALWAYS_VISIBLE: [HeaderName; 8] = [
    HOST,
    CONTENT_LENGTH,
    TRANSFER_ENCODING,
    IF_NONE_MATCH,
    IF_MODIFIED_SINCE,
    AUTHORIZATION,
    PROXY_AUTHORIZATION,
    COOKIE,
];

/// The fields that a handler sees besides those that are always visible.
#[derive(Debug, Default)]
pub(crate) struct HandlerFields {
    /// `None`: all.
    only: Option<Vec<HeaderName>>,
}

impl HandlerFields {
    pub(crate) fn only(names: impl IntoIterator<Item = HeaderName>) -> HandlerFields {
        HandlerFields { only: Some(names.into_iter().collect()) }
    }

    /// `has_content`: the request has a body, so that its content fields are in the key.
    pub(super) fn restrict(&self, headers: &mut HeaderMap, has_content: bool, personal: &PersonalTraits) {
        if headers.contains_key(COOKIE) {
            remove_ignored_cookies(headers, personal);
        }
        let Some(only) = &self.only else { return };
        let is_visible =
            |name: &HeaderName| only.contains(name) || needs_no_permission(name, has_content, personal);
        let hidden: Vec<HeaderName> = headers.keys().filter(|name| !is_visible(name)).cloned().collect();
        for name in hidden {
            headers.remove(name);
        }
    }
}

/// Whether a handler may always depend on a field.
pub(super) fn needs_no_permission(name: &HeaderName, has_content: bool, personal: &PersonalTraits) -> bool {
    let content_fields = if has_content { &CONTENT_FIELDS[..] } else { &[] };
    let lists = [&ALWAYS_VISIBLE[..], content_fields, &personal.credential_fields];
    lists.iter().any(|names| names.contains(name))
}

/// Whether a request whose response may be stored has a body, so that its content fields are in the key: a GET with a body
/// bypasses.
pub(crate) fn has_content<B>(request: &Request<B>) -> bool {
    !matches!(*request.method(), Method::GET | Method::HEAD)
}

fn remove_ignored_cookies(headers: &mut HeaderMap, personal: &PersonalTraits) {
    let lines = headers.get_all(COOKIE).iter().filter_map(|line| {
        let cookies: Vec<&[u8]> = personal.cookies(line).collect();
        (!cookies.is_empty())
            .then(|| HeaderValue::from_bytes(&cookies.join(&b"; "[..])).expect("parts of a value are valid"))
    });
    let lines: Vec<HeaderValue> = lines.collect();
    headers.remove(COOKIE);
    for line in lines {
        headers.append(COOKIE, line);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn restricted(fields: &HandlerFields, lines: &[(&'static str, &'static str)]) -> Vec<String> {
        restricted_with(fields, false, lines)
    }

    fn restricted_with(
        fields: &HandlerFields,
        has_content: bool,
        lines: &[(&'static str, &'static str)],
    ) -> Vec<String> {
        let personal = PersonalTraits {
            credential_fields: vec![HeaderName::from_static("x-api-key")],
            ignores_all_cookies: false,
            ignored_cookies: vec!["_ga".to_owned()],
            extensions: Vec::new(),
        };
        let mut headers = HeaderMap::new();
        for (name, value) in lines {
            headers.append(*name, HeaderValue::from_static(value));
        }
        fields.restrict(&mut headers, has_content, &personal);
        let mut left: Vec<_> =
            headers.iter().map(|(name, value)| format!("{name}: {}", value.to_str().unwrap())).collect();
        left.sort_unstable();
        left
    }

    #[test]
    fn only_listed_fields_and_those_of_the_key_are_left() {
        let lines = [
            ("host", "h"),
            ("x-forwarded-host", "evil"),
            ("accept", "a"),
            ("x-api-key", "k"),
            ("accept", "b"),
        ];
        let only = HandlerFields::only([http::header::ACCEPT]);
        assert_eq!(restricted(&only, &lines), ["accept: a", "accept: b", "host: h", "x-api-key: k"]);
        assert_eq!(restricted(&HandlerFields::only([]), &lines), ["host: h", "x-api-key: k"]);
        assert_eq!(restricted(&HandlerFields::default(), &lines).len(), 5);
    }

    #[test]
    fn content_fields_are_visible_only_with_content() {
        let lines = [("host", "h"), ("content-language", "evil"), ("content-type", "evil/evil")];
        let only = HandlerFields::only([]);
        assert_eq!(restricted_with(&only, false, &lines), ["host: h"]);
        assert_eq!(restricted_with(&only, true, &lines).len(), 3);
    }

    #[test]
    fn ignored_cookies_are_removed_from_each_line() {
        let lines =
            [("cookie", "_ga=1; a=b;_ga=2"), ("cookie", " _ga = 3;"), ("cookie", "c=d;;malformed; e=\"f\"")];
        let left = restricted(&HandlerFields::default(), &lines);
        assert_eq!(left, ["cookie: a=b", "cookie: c=d; malformed; e=\"f\""]);
    }
}

//! Which of the fields that the cache obeys a request has, found in one pass over its headers. Most requests have hardly
//! any of them, and a lookup in the header map costs about a hundred instructions.

use std::ops::BitOr;

use http::HeaderMap;

/// A set of request fields, or of groups of fields that mean the same to the cache.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct FieldSet(u16);

impl FieldSet {
    /// `Authorization` or `Proxy-Authorization`.
    pub(crate) const AUTHORIZATION: FieldSet = FieldSet(1);
    pub(crate) const COOKIE: FieldSet = FieldSet(1 << 1);
    /// `Cache-Control`, or `Pragma`, which stood for it in HTTP/1.0.
    pub(crate) const CACHE_CONTROL: FieldSet = FieldSet(1 << 2);
    /// `Content-Length` or `Transfer-Encoding`.
    pub(crate) const BODY: FieldSet = FieldSet(1 << 3);
    pub(crate) const UPGRADE: FieldSet = FieldSet(1 << 4);
    pub(crate) const RANGE: FieldSet = FieldSet(1 << 5);
    /// `If-None-Match` or `If-Modified-Since`, which the cache evaluates.
    pub(crate) const VALIDATOR: FieldSet = FieldSet(1 << 6);
    /// `If-Match` or `If-Unmodified-Since`, which only the handler can evaluate.
    pub(crate) const PRECONDITION: FieldSet = FieldSet(1 << 7);
    /// A field that makes some frameworks treat a request as one of another method.
    pub(crate) const METHOD_OVERRIDE: FieldSet = FieldSet(1 << 8);
    /// `Content-Encoding` or `Content-Language`.
    pub(crate) const CONTENT_CODING_OR_LANGUAGE: FieldSet = FieldSet(1 << 9);

    /// The fields of a request.
    pub(crate) fn of(headers: &HeaderMap) -> FieldSet {
        headers.keys().fold(FieldSet::default(), |set, name| set | FieldSet::of_name(name.as_str()))
    }

    fn of_name(name: &str) -> FieldSet {
        match name {
            "authorization" | "proxy-authorization" => FieldSet::AUTHORIZATION,
            "cookie" => FieldSet::COOKIE,
            "cache-control" | "pragma" => FieldSet::CACHE_CONTROL,
            "content-length" | "transfer-encoding" => FieldSet::BODY,
            "upgrade" => FieldSet::UPGRADE,
            "range" => FieldSet::RANGE,
            "if-none-match" | "if-modified-since" => FieldSet::VALIDATOR,
            "if-match" | "if-unmodified-since" => FieldSet::PRECONDITION,
            "x-http-method-override" | "x-http-method" | "x-method-override" => FieldSet::METHOD_OVERRIDE,
            "content-encoding" | "content-language" => FieldSet::CONTENT_CODING_OR_LANGUAGE,
            _ => FieldSet::default(),
        }
    }

    /// Whether it has any of these fields.
    pub(crate) fn has(self, fields: FieldSet) -> bool {
        self.0 & fields.0 != 0
    }
}

impl BitOr for FieldSet {
    type Output = FieldSet;

    fn bitor(self, other: FieldSet) -> FieldSet {
        FieldSet(self.0 | other.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::{HeaderName, HeaderValue};

    #[test]
    fn set_has_exactly_the_groups_of_the_fields() {
        let fields: HeaderMap = ["accept", "if-modified-since", "x-http-method", "transfer-encoding"]
            .into_iter()
            .map(|name| (HeaderName::from_static(name), HeaderValue::from_static("")))
            .collect();
        let expected = FieldSet::VALIDATOR | FieldSet::METHOD_OVERRIDE | FieldSet::BODY;
        assert_eq!(FieldSet::of(&fields), expected);
        assert!(FieldSet::of(&fields).has(FieldSet::BODY | FieldSet::RANGE));
        assert!(!FieldSet::of(&fields).has(FieldSet::RANGE | FieldSet::COOKIE));
        assert_eq!(FieldSet::of(&HeaderMap::new()), FieldSet::default());
    }
}

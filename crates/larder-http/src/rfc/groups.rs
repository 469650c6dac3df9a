//! The groups of responses that are invalidated together (RFC 9875).

use http::{HeaderMap, HeaderName, Method};

use crate::rfc::structured::{Member, Value, field_text, parse_list};

const CACHE_GROUPS: HeaderName = HeaderName::from_static("cache-groups");
const CACHE_GROUP_INVALIDATION: HeaderName = HeaderName::from_static("cache-group-invalidation");

/// Groups of a field. The RFC asks for at least 32.
const MAX_GROUPS: usize = 128;
/// Bytes of a group's name. The RFC asks for at least 32 characters.
const MAX_NAME_BYTES: usize = 256;

/// The groups that a response belongs to, of those of its origin.
pub(crate) fn groups(response: &HeaderMap) -> Vec<String> {
    names(response, &CACHE_GROUPS)
}

/// The groups of its origin that a response invalidates. One to a safe method invalidates none.
pub(crate) fn invalidated_groups(method: &Method, response: &HeaderMap) -> Vec<String> {
    if method.is_safe() { Vec::new() } else { names(response, &CACHE_GROUP_INVALIDATION) }
}

/// The names of a field; none if it is invalid or exceeds a limit. Parameters have no meaning.
fn names(response: &HeaderMap, field: &HeaderName) -> Vec<String> {
    let parse = || {
        let members = parse_list(&field_text(response, field)?)?;
        let name = |member| match member {
            Member::Item(Value::String(name)) if name.len() <= MAX_NAME_BYTES => Some(name),
            _ => None,
        };
        if members.len() > MAX_GROUPS {
            return None;
        }
        members.into_iter().map(name).collect::<Option<Vec<String>>>()
    };
    parse().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::HeaderValue;

    fn groups_of(lines: &[&str]) -> Vec<String> {
        let mut headers = HeaderMap::new();
        for line in lines {
            headers.append(CACHE_GROUPS, HeaderValue::from_str(line).unwrap());
        }
        groups(&headers)
    }

    #[test]
    fn groups_are_the_strings_of_all_lines() {
        assert_eq!(groups_of(&["\"scripts\";x=1, \"A \\\"b\\\"\"", "\"\""]), ["scripts", "A \"b\"", ""]);
        assert!(groups_of(&[]).is_empty());
    }

    #[test]
    fn invalid_field_has_no_groups() {
        for line in ["a", "\"a\", b", "\"a\", (\"b\")", "\"a\" \"b\"", "\"a\",", "\"a\", 1"] {
            assert!(groups_of(&[line]).is_empty(), "{line}");
        }
    }

    #[test]
    fn groups_are_limited() {
        let list = |count| vec!["\"a\""; count].join(",");
        assert_eq!(groups_of(&[&list(MAX_GROUPS)]).len(), MAX_GROUPS);
        assert!(groups_of(&[&list(MAX_GROUPS + 1)]).is_empty());
        let name = |len| format!("\"{}\"", "a".repeat(len));
        assert_eq!(groups_of(&[&name(MAX_NAME_BYTES)]).len(), 1);
        assert!(groups_of(&["\"b\"", &name(MAX_NAME_BYTES + 1)]).is_empty());
    }

    #[test]
    fn only_unsafe_methods_invalidate_groups() {
        let field = HeaderValue::from_static("\"eurovision-results\", \"australia\"");
        let response = HeaderMap::from_iter([(CACHE_GROUP_INVALIDATION, field)]);
        for method in ["POST", "PUT", "DELETE", "PATCH", "M-SEARCH"] {
            let method = Method::from_bytes(method.as_bytes()).unwrap();
            assert_eq!(
                invalidated_groups(&method, &response),
                ["eurovision-results", "australia"],
                "{method}"
            );
        }
        for method in ["GET", "HEAD", "OPTIONS", "TRACE", "QUERY"] {
            let method = Method::from_bytes(method.as_bytes()).unwrap();
            assert!(invalidated_groups(&method, &response).is_empty(), "{method}");
        }
    }
}

//! The parts of a query that do not change the response (draft-ietf-httpbis-no-vary-search-10), and a form of the query
//! that is equal for equivalent ones.

use http::{HeaderMap, HeaderName};

use crate::rfc::structured::{Member, Value, field_text, parse_dictionary};

const NO_VARY_SEARCH: HeaderName = HeaderName::from_static("no-vary-search");

/// What `No-Vary-Search` says of the queries of a path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct NoVarySearch {
    ignores_order: bool,
    /// Sorted; see `names_are_significant`.
    names: Vec<String>,
    /// Whether the parameters with these names are the only ones that count, or the only ones that do not.
    names_are_significant: bool,
}

impl NoVarySearch {
    /// What a response says; `None` if every difference of queries counts, also if its field is invalid (section 4).
    ///
    /// `key-order` alone counts, as the introduction of the draft says; step 5 of its section 4.1 would ignore it.
    pub(crate) fn parse(response: &HeaderMap) -> Option<NoVarySearch> {
        let text = field_text(response, &NO_VARY_SEARCH)?;
        let mut members = parse_dictionary(&text)?;
        let ignores_order = match members.remove("key-order") {
            None => false,
            Some(Member::Item(Value::Boolean(ignores_order))) => ignores_order,
            Some(_) => return None,
        };
        let (list, names_are_significant) = match (members.remove("params"), members.remove("except")) {
            (Some(_), Some(_)) => return None,
            (None, Some(list)) => (list, true),
            (Some(list), None) => (list, false),
            (None, None) => (Member::InnerList(Vec::new()), false),
        };
        let Member::InnerList(values) = list else { return None };
        let name = |value| match value {
            Value::String(name) => Some(decode(&name)),
            _ => None,
        };
        let mut names: Vec<String> = values.into_iter().map(name).collect::<Option<_>>()?;
        names.sort_unstable();
        let is_default = !ignores_order && names.is_empty() && !names_are_significant;
        (!is_default).then_some(NoVarySearch { ignores_order, names, names_are_significant })
    }

    /// Bytes that are equal exactly for equal rules.
    pub(crate) fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = vec![u8::from(self.ignores_order), u8::from(self.names_are_significant)];
        for name in &self.names {
            bytes.extend_from_slice(&(name.len() as u64).to_le_bytes());
            bytes.extend_from_slice(name.as_bytes());
        }
        bytes
    }

    /// The significant parameters of a query without its question mark, in a form that is equal exactly for equivalent
    /// queries (section 5). It is at most four times as long as the query.
    pub(crate) fn canonical_query(&self, query: &str) -> String {
        let mut parameters: Vec<(String, String)> = query
            .split('&')
            .filter(|parameter| !parameter.is_empty())
            .map(|parameter| {
                let (name, value) = parameter.split_once('=').unwrap_or((parameter, ""));
                (decode(name), decode(value))
            })
            .filter(|(name, _)| self.names.binary_search(name).is_ok() == self.names_are_significant)
            .collect();
        if self.ignores_order {
            // Stable: the order of values with one name counts.
            parameters.sort_by(|(one, _), (other, _)| one.cmp(other));
        }
        let mut canonical = String::with_capacity(query.len());
        for (name, value) in &parameters {
            if !canonical.is_empty() {
                canonical.push('&');
            }
            encode(name, &mut canonical);
            canonical.push('=');
            encode(value, &mut canonical);
        }
        canonical
    }
}

/// Decodes a name or value of `application/x-www-form-urlencoded`. Invalid UTF-8 becomes U+FFFD.
fn decode(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let [byte, after @ ..] = rest {
        let escaped = match rest {
            [b'%', high, low, ..] => hex(*high).zip(hex(*low)),
            _ => None,
        };
        rest = if escaped.is_some() { &after[2..] } else { after };
        bytes.push(match (escaped, byte) {
            (Some((high, low)), _) => high << 4 | low,
            (None, b'+') => b' ',
            (None, byte) => *byte,
        });
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

fn hex(digit: u8) -> Option<u8> {
    char::from(digit).to_digit(16).map(|digit| digit as u8)
}

/// Escapes all but unreserved characters (RFC 3986, 2.3).
fn encode(text: &str, into: &mut String) {
    const DIGITS: &[u8; 16] = b"0123456789ABCDEF";
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            into.push(char::from(byte));
        } else {
            into.push('%');
            into.push(char::from(DIGITS[usize::from(byte >> 4)]));
            into.push(char::from(DIGITS[usize::from(byte & 15)]));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::HeaderValue;

    fn parse(line: &str) -> Option<NoVarySearch> {
        NoVarySearch::parse(&HeaderMap::from_iter([(NO_VARY_SEARCH, HeaderValue::from_str(line).unwrap())]))
    }

    #[track_caller]
    fn assert_equivalent(line: &str, one: &str, other: &str, expected: bool) {
        let rules = parse(line).unwrap();
        let (one, other) = (rules.canonical_query(one), rules.canonical_query(other));
        assert_eq!(one == other, expected, "{line}: {one:?} {other:?}");
    }

    #[test]
    fn field_without_effect_or_invalid_one_is_the_default() {
        for line in [
            "",
            "params=()",
            "key-order=?0",
            "x=1",
            "key-order=\"not a boolean\"",
            "params=\"not an inner list\"",
            "params=(not-a-string)",
            "params=?0",
            "params=?1",
            "params",
            "params=?1, except=(\"x\")",
            "params=(\"a\"), except=(\"x\")",
            "params=(), except=()",
            "except=\"not an inner list\"",
            "except=(not-a-string)",
            "except=?1",
            "key-order, params=(",
        ] {
            assert_eq!(parse(line), None, "{line}");
        }
        assert_eq!(NoVarySearch::parse(&HeaderMap::new()), None);
    }

    #[test]
    fn field_has_three_forms() {
        let rules = |ignores_order, names: &[&str], names_are_significant| {
            let names = names.iter().map(|name| (*name).to_owned()).collect();
            Some(NoVarySearch { ignores_order, names, names_are_significant })
        };
        assert_eq!(parse("key-order"), rules(true, &[], false));
        assert_eq!(parse("params=(\"b\" \"a\"), x=1"), rules(false, &["a", "b"], false));
        assert_eq!(parse("except=(\"x\"), key-order=?1;a"), rules(true, &["x"], true));
        assert_eq!(parse("except=()"), rules(false, &[], true));
        assert_eq!(parse("params=(\"%C3%A9+%E6%B0%97\")"), rules(false, &["é 気"], false));
    }

    #[test]
    fn equivalent_queries_parse_to_the_same_parameters() {
        for (one, other) in [
            ("", "&"),
            ("a=x", "%61=%78"),
            ("a=é", "a=%C3%A9"),
            ("a=%f6", "a=%ef%bf%bd"),
            ("a=x&&&&", "a=x"),
            ("a=", "a"),
            ("a=%20", "a= &"),
            ("a=+", "a= &"),
            ("a=%", "a=%25"),
            ("a=%4", "a=%254"),
            ("a=b=c", "a=b%3Dc"),
            ("b=1&a=1&a=2", "a=1&a=2&b=1"),
        ] {
            assert_equivalent("key-order", one, other, true);
        }
    }

    #[test]
    fn different_parameters_are_not_equivalent() {
        for (one, other) in [
            ("a=1&a=2", "a=2&a=1"),
            ("a=1", "a=1&a=1"),
            ("a=1%262", "a=1&2"),
            ("a%3D=1", "a==1"),
            ("a=1", "A=1"),
            ("=", ""),
            ("=a", "a="),
        ] {
            assert_equivalent("key-order", one, other, false);
        }
        assert_equivalent("params=(\"x\")", "a=1&b=2", "b=2&a=1", false);
    }

    #[test]
    fn insignificant_parameters_are_removed() {
        let line = "params=(\"utm_source\" \"%C3%A9+%E6%B0%97\")";
        assert_equivalent(line, "id=1&utm_source=a", "utm%5Fsource&id=1&utm_source=b", true);
        assert_equivalent(line, "é+気=1&%C3%A9%20気=3", "", true);
        assert_equivalent(line, "id=1&UTM_source=a", "id=1", false);
        assert_equivalent("except=(\"id\")", "id=1&x=2", "y=3&id=1", true);
        assert_equivalent("except=(\"id\")", "id=1", "id=2", false);
        assert_equivalent("except=()", "id=1", "", true);
    }
}

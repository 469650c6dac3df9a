//! Structured fields, and the fields of an origin that have them, against the values that each was made from.

use std::collections::HashMap;

use http::{HeaderMap, HeaderName, HeaderValue};

use super::{ITERATIONS, pick, text};
use crate::rfc::no_vary_search::NoVarySearch;
use crate::rfc::structured::{Member, Value, parse_dictionary, parse_list};
use crate::rfc::targeted::{CDN_CACHE_CONTROL, Policy};

/// A value, and its text.
type Written = (&'static str, fn() -> Value);

const VALUES: &[Written] = &[
    ("0", || Value::Integer(0)),
    ("-17", || Value::Integer(-17)),
    ("999999999999999", || Value::Integer(999_999_999_999_999)),
    ("?0", || Value::Boolean(false)),
    ("\"\"", || Value::String(String::new())),
    ("\"a, b; c=(1)\"", || Value::String("a, b; c=(1)".to_owned())),
    ("\"\\\"\\\\\"", || Value::String("\"\\".to_owned())),
    ("1.5", || Value::Other),
    ("tok/en:*", || Value::Other),
    (":aGk=:", || Value::Other),
    ("@1659578233", || Value::Other),
    ("%\"f%c3%bc\"", || Value::Other),
];
const PARAMETERS: &[&str] = &["", "", "", ";a", "; a=1", ";a;b=\"x;y\"", ";*=:aGk=:"];
const SEPARATORS: &[&str] = &[",", ", ", " ,", "\t, \t"];
const KEYS: &[&str] = &["a", "b", "*", "a-b_c.d*9"];

/// Of each member: its key, its values, how many of them it has, its parameters, and the separator before it. One value is an
/// item, and any other number is an inner list.
type Choices = Vec<(u8, [u8; 3], u8, u8, u8)>;

/// More members would only take longer.
const MAX_MEMBERS: usize = 6;

/// The text of a member without its key, and the member.
fn written(values: &[u8; 3], count: u8, parameters: u8) -> (String, Member) {
    let values = values.iter().take(usize::from(count % 4)).map(|choice| pick(VALUES, *choice));
    let (texts, values): (Vec<_>, Vec<_>) = values.map(|(text, value)| (text, value())).unzip();
    let parameters = pick(PARAMETERS, parameters);
    match &values[..] {
        [value] => (format!("{}{parameters}", texts[0]), Member::Item(value.clone())),
        _ => (format!("({}){parameters}", texts.join(" ")), Member::InnerList(values)),
    }
}

#[test]
fn list_has_the_members_that_it_was_made_from() {
    bolero::check!().with_type::<Choices>().with_iterations(ITERATIONS).for_each(|choices| {
        let (mut field, mut expected) = (String::new(), Vec::new());
        for (_, values, count, parameters, separator) in choices.iter().take(MAX_MEMBERS) {
            let (text, member) = written(values, *count, *parameters);
            field += if field.is_empty() { "" } else { pick(SEPARATORS, *separator) };
            field += &text;
            expected.push(member);
        }
        assert_eq!(parse_list(&field), Some(expected), "{field:?}");
    });
}

#[test]
fn dictionary_has_the_last_member_of_each_key() {
    bolero::check!().with_type::<Choices>().with_iterations(ITERATIONS).for_each(|choices| {
        let (mut field, mut expected) = (String::new(), HashMap::new());
        for (key, values, count, parameters, separator) in choices.iter().take(MAX_MEMBERS) {
            let (key, (text, member)) = (pick(KEYS, *key), written(values, *count, *parameters));
            field += if field.is_empty() { "" } else { pick(SEPARATORS, *separator) };
            field += &format!("{key}={text}");
            expected.insert(key, member);
        }
        assert_eq!(parse_dictionary(&field), Some(expected), "{field:?}");
    });
}

#[test]
fn any_text_is_a_structured_field_or_refused() {
    const TOKENS: &[&str] = &[
        "a", "A", "*", "=", ",", ";", " ", "\t", "(", ")", "\"", "\\", "?", "1", "0", "-", ".", ":", "@",
        "%", "c3", "é", "\u{7f}",
    ];
    bolero::check!().with_type::<Vec<u8>>().with_iterations(ITERATIONS).for_each(|choices| {
        let text = text(TOKENS, choices);
        let (list, dictionary) = (parse_list(&text), parse_dictionary(&text));
        if !text.is_ascii() {
            assert_eq!((&list, &dictionary), (&None, &None), "{text:?}");
        }
        // Nothing that is invalid becomes valid with more of it, except in a string.
        if list.is_some() && !text.trim_matches([' ', '\t']).is_empty() && !text.ends_with('\t') {
            assert!(parse_list(&format!("{text}, 1")).is_some(), "{text:?}");
            assert!(parse_list(&format!("{text},")).is_none(), "{text:?}");
        }
        if dictionary.is_some() {
            assert!(parse_dictionary(&format!("{text} &")).is_none(), "{text:?}");
        }
    });
}

#[test]
fn targeted_field_is_used_exactly_if_all_known_directives_have_their_type() {
    const MEMBERS: &[(&str, bool)] = &[
        ("max-age=5", true),
        ("max-age=-5;x", true),
        ("no-store", true),
        ("no-cache=\"x-a\"", true),
        ("private", true),
        ("foo=1.5", true),
        ("bar=(1 2)", true),
        ("s-maxage=\"5\"", false),
        ("public=1", false),
        ("must-revalidate=?0", false),
        ("immutable=(1)", false),
        ("stale-if-error=5.5", false),
        ("proxy-revalidate=x", false),
    ];
    bolero::check!().with_type::<Vec<u8>>().with_iterations(ITERATIONS).for_each(|choices| {
        let members: Vec<_> = choices.iter().take(6).map(|choice| pick(MEMBERS, *choice)).collect();
        let field = members.iter().map(|(text, _)| *text).collect::<Vec<_>>().join(", ");
        let is_used = !members.is_empty() && members.iter().all(|(_, is_valid)| *is_valid);
        let response = HeaderMap::from_iter([(CDN_CACHE_CONTROL, HeaderValue::try_from(&field).unwrap())]);
        assert_eq!(Policy::of(&response, None).is_targeted, is_used, "{field:?}");
    });
}

#[test]
fn canonical_query_keeps_exactly_the_significant_parameters() {
    const NAMES: &[&str] = &["a", "b", "c", "a b", "é", "=", "&", "%"];
    /// A field, whether it ignores the order of keys, and which names count.
    type Field = (&'static str, bool, fn(&str) -> bool);
    const FIELDS: &[Field] = &[
        ("key-order", true, |_| true),
        ("params=(\"a\" \"%C3%A9\")", false, |name| name != "a" && name != "é"),
        ("key-order, params=(\"b\")", true, |name| name != "b"),
        ("except=(\"a+b\")", false, |name| name == "a b"),
        ("key-order, except=(\"a\" \"b\" \"%26\")", true, |name| matches!(name, "a" | "b" | "&")),
    ];
    /// Every byte escaped, or a space as a plus sign.
    fn escaped(text: &str, is_plus: bool) -> String {
        text.bytes()
            .map(|byte| if byte == b' ' && is_plus { "+".to_owned() } else { format!("%{byte:02x}") })
            .collect()
    }
    type Query = Vec<(u8, u8, bool)>;
    bolero::check!().with_type::<(u8, Query, Query)>().with_iterations(ITERATIONS).for_each(
        |(field, one, other)| {
            let (field, ignores_order, is_significant) = pick(FIELDS, *field);
            let line = HeaderValue::from_static(field);
            let name = HeaderName::from_static("no-vary-search");
            let rules = NoVarySearch::parse(&HeaderMap::from_iter([(name, line)])).unwrap();
            let model = |query: &Query| {
                let mut parameters: Vec<(&str, &str)> = query
                    .iter()
                    .take(4)
                    .map(|(name, value, _)| (pick(NAMES, *name), pick(NAMES, *value)))
                    .filter(|(name, _)| is_significant(name))
                    .collect();
                if ignores_order {
                    parameters.sort_by_key(|(name, _)| *name);
                }
                parameters
            };
            let canonical = |query: &Query| {
                let parameter = |(name, value, is_plus): &(u8, u8, bool)| {
                    let (name, value) = (pick(NAMES, *name), pick(NAMES, *value));
                    format!("{}={}", escaped(name, *is_plus), escaped(value, *is_plus))
                };
                let query: Vec<String> = query.iter().take(4).map(parameter).collect();
                rules.canonical_query(&query.join("&"))
            };
            let (query, canonical_other) = (canonical(one), canonical(other));
            assert_eq!(
                query == canonical_other,
                model(one) == model(other),
                "{field}: {query} {canonical_other}"
            );
            assert_eq!(rules.canonical_query(&query), query, "a canonical query is its own canonical form");
        },
    );
}

#[test]
fn canonical_query_is_stable_and_at_most_four_times_as_long() {
    const TOKENS: &[&str] = &["a", "b", "=", "&", "+", "%", "%f", "%ff", "%61", "%C3%A9", "é", "!", "?", " "];
    let name = HeaderName::from_static("no-vary-search");
    let line = HeaderValue::from_static("key-order, params=(\"b\")");
    let rules = NoVarySearch::parse(&HeaderMap::from_iter([(name, line)])).unwrap();
    bolero::check!().with_type::<Vec<u8>>().with_iterations(ITERATIONS).for_each(|choices| {
        let query = text(TOKENS, choices);
        let canonical = rules.canonical_query(&query);
        assert!(canonical.len() <= 4 * query.len(), "{query:?}");
        assert!(canonical.is_ascii() && rules.canonical_query(&canonical) == canonical, "{query:?}");
    });
}

//! Random documents and requests: none with a mutation or a subscription is ever taken for a query. The model is the
//! parser of async-graphql.

use std::collections::BTreeMap;

use async_graphql_parser::parse_query;
use async_graphql_parser::types::{ExecutableDocument, OperationType};
use bytes::Bytes;

use super::Endpoint;
use super::document::Document;
use super::persisted::PersistedQueries;
use super::request::{self, Format};
use crate::fuzz::{pick, text};

/// Random inputs for each target. The model takes most of the time: about a second.
const ITERATIONS: usize = 20_000;

/// Parts of documents, also such as end or begin a token of another one.
const FRAGMENTS: &[&str] = &[
    "query",
    "mutation",
    "subscription",
    "fragment",
    "on",
    "Q",
    "M",
    "T",
    "a",
    "b",
    "true",
    "null",
    "{",
    "}",
    "{",
    "}",
    "{a}",
    "{ a b }",
    "(",
    ")",
    "[",
    "]",
    "$",
    "$a: Int",
    "=",
    ":",
    "@",
    "@skip(if: true)",
    "...",
    "..",
    ".",
    "!",
    "|",
    "&",
    "\"",
    "\"\"\"",
    "\"a\"",
    "\"}\"",
    "\"\"\"{\"\"\"",
    "\\\"",
    "\\\"\"\"",
    "\\",
    "#",
    "# {",
    "#\n",
    "\n",
    "\r",
    "\r\n",
    " ",
    ",",
    "\t",
    "\u{feff}",
    "\u{2028}",
    "\u{85}",
    "\u{b}",
    "0",
    "1",
    "-1",
    "1.5",
    "e5",
    "+",
    ";",
    "query Q{a}",
    "mutation M{a}",
    "fragment F on T{a}",
    "...F",
    "subscription S{a}",
    "query Q($a:S=\"{\"){a(b:$a)}",
    "a(b:{c:[1 2]})",
    "mutation",
    "\u{e9}",
];

/// Parts of definitions that are mostly valid, so that the model understands many of them.
const KEYWORDS: &[&str] = &["query", "mutation", "subscription", ""];
const NAMES: &[&str] = &["", " Q", " M", " mutation", "\u{feff}R", "#c\nS"];
const HEADERS: &[&str] = &["", "($a:S=\"}\")", " @d(a:\"mutation{\")", "(,$a:[I!]!={b:[1]})", "@d"];
const SELECTIONS: &[&str] = &[
    "{a}",
    "{a(b:\"}mutation M{a}\")}",
    "{a #}\n}",
    "{a(b:\"\"\" \" \"\"\")}",
    "{a(b:\"x\")}",
    "{a:b(c:\"\"\"\\\"\"\"}\"\"\"){d}}",
    "{... on T{a}...F}",
    "{a",
];
const GAPS: &[&str] = &["", " ", " #\")}", "\n# mutation M{a}\n", ",", "fragment F on T{a}", "\"text\""];

/// Calls the target with random documents: fragments, fragments with spaces between them, or definitions.
fn for_each_document(target: impl Fn(String) + std::panic::RefUnwindSafe) {
    bolero::check!().with_type::<(u8, Vec<u8>)>().with_iterations(ITERATIONS).for_each(|(form, choices)| {
        target(match form % 6 {
            0 => text(FRAGMENTS, choices),
            1 => choices.iter().map(|choice| pick(FRAGMENTS, *choice)).collect::<Vec<_>>().join(" "),
            // Few of them: the more, the fewer documents are valid.
            _ => choices.chunks_exact(5).take(3).map(definition).collect(),
        });
    });
}

fn definition(choices: &[u8]) -> String {
    let tables = [KEYWORDS, NAMES, HEADERS, SELECTIONS, GAPS];
    let mut parts: Vec<_> = tables.iter().zip(choices).map(|(table, choice)| pick(table, *choice)).collect();
    if parts[0].is_empty() {
        parts.drain(..3);
    }
    parts.concat()
}

/// Members of request bodies, also such as lenient servers take for `query`.
const MEMBERS: &[&str] = &[
    r#""query":"{a}""#,
    r#""query":"query Q{a} query R{b}""#,
    r#""query":"mutation M{a}""#,
    r#""query":"query Q{a} mutation M{a}""#,
    r#""qu\u0065ry":"mutation{a}""#,
    r#""Query":"mutation{a}""#,
    r#""query":null"#,
    r#""operationName":"Q""#,
    r#""operationName":"M""#,
    r#""operationName":null"#,
    r#""variables":{"a":1,"b":{"query":"mutation{a}"}}"#,
    r#""variables":{"a":1,"a":2}"#,
    r#""extensions":{"clientLibrary":{}}"#,
    r#""extensions":{"persistedQuery":{"version":1,"sha256Hash":"00"}}"#,
    r#""x":1"#,
];

const OPENINGS: &[&str] = &["{", "{", "{", " {", "\u{feff}{", "[{", "{{"];
const CLOSINGS: &[&str] = &["}", "}", "}", "}\n", "}]", "}{}", ""];

/// A content that was parsed before is found by its bytes alone.
#[test]
fn alias_is_used_without_parsing() {
    let endpoint = Endpoint::new(1 << 16);
    endpoint.aliases.insert(Format::Json, b"no JSON", Bytes::from("key"));
    assert_eq!(endpoint.key(Format::Json, b"no JSON").unwrap(), "key");
    assert!(endpoint.key(Format::Json, b"no JSON either").is_err());
    let parsed = endpoint.key(Format::Document, b"{a}").unwrap();
    assert_eq!(endpoint.aliases.key(Format::Document, b"{a}"), Some(parsed));
    assert!(endpoint.key(Format::Document, b"mutation{a}").is_err());
    assert_eq!(endpoint.aliases.key(Format::Document, b"mutation{a}"), None);
}

#[test]
fn mutation_is_never_taken_for_a_query() {
    for_each_document(|text| {
        let (Ok(ours), Ok(model)) = (Document::parse(&text), parse_query(&text)) else { return };
        let mut names = Vec::new();
        for (name, operation) in model.operations.iter() {
            assert_eq!(operation.node.ty, OperationType::Query, "{text:?}");
            let name = name.map(|name| name.as_str());
            names.push(name);
            let is_known = ours.check_operation(name).is_ok();
            assert!(is_known || (name.is_none() && names.len() > 1), "{text:?}");
        }
        assert_eq!(ours.check_operation(None).is_ok(), names.len() == 1, "{text:?}");
    });
}

/// The server of a hit would have answered the same: it parses both texts alike.
#[test]
fn canonical_text_is_the_same_document() {
    for_each_document(|text| {
        let Ok(ours) = Document::parse(&text) else { return };
        let again = Document::parse(&ours.canonical);
        assert_eq!(again.map(|document| document.canonical), Ok(ours.canonical.clone()), "{text:?}");
        if let (Ok(original), Ok(canonical)) = (parse_query(&text), parse_query(&ours.canonical)) {
            assert_eq!(definitions(&original), definitions(&canonical), "{text:?}");
        }
    });
}

/// Whichever of several equal or similar names a server reads.
#[test]
fn body_with_a_mutation_is_never_taken_for_a_query() {
    type Input = (u8, Vec<u8>, u8);
    bolero::check!().with_type::<Input>().with_iterations(ITERATIONS).for_each(
        |(opening, choices, closing)| {
            let members: Vec<_> = choices.iter().take(4).map(|choice| pick(MEMBERS, *choice)).collect();
            let body =
                format!("{}{}{}", pick(OPENINGS, *opening), members.join(","), pick(CLOSINGS, *closing));
            let persisted = PersistedQueries::new(1 << 16);
            // Some servers read every content as JSON.
            assert!(request::parse(Format::Document, body.as_bytes(), &persisted).is_err(), "{body}");
            if request::parse(Format::Json, body.as_bytes(), &persisted).is_err() {
                return;
            }
            let members: BTreeMap<String, serde_json::Value> = serde_json::from_str(&body).unwrap();
            assert_eq!(members.len(), body.matches("\":").count() - nested_names(&members), "{body}");
            for (name, value) in members {
                let is_query = name.eq_ignore_ascii_case("query");
                assert!(!is_query || !value.as_str().unwrap_or_default().contains("mutation"), "{body}");
            }
        },
    );
}

#[test]
fn any_content_is_parsed_without_a_panic() {
    bolero::check!().with_type::<Vec<u8>>().with_iterations(ITERATIONS).for_each(|content| {
        let persisted = PersistedQueries::new(1 << 16);
        for content in [content, text(FRAGMENTS, content).as_bytes()] {
            for format in [Format::Json, Format::Document, Format::UriQuery] {
                let _ = request::parse(format, content, &persisted);
            }
            let _ = request::parse(Format::UriQuery, &[&b"query="[..], content].concat(), &persisted);
        }
    });
}

#[test]
fn request_and_its_json_have_the_same_key() {
    for_each_document(|text| {
        let persisted = PersistedQueries::new(1 << 16);
        let plain = request::parse(Format::Document, text.as_bytes(), &persisted);
        let json = serde_json::json!({ "query": text }).to_string();
        assert_eq!(request::parse(Format::Json, json.as_bytes(), &persisted), plain);
    });
}

/// The number of names below the top level.
fn nested_names(members: &BTreeMap<String, serde_json::Value>) -> usize {
    members.values().map(|value| value.to_string().matches("\":").count()).sum()
}

/// The definitions of a parsed document as sorted texts, without positions.
fn definitions(document: &ExecutableDocument) -> Vec<String> {
    let operations = document.operations.iter().map(|definition| format!("{definition:?}"));
    let fragments = document.fragments.iter().map(|definition| format!("{definition:?}"));
    let mut texts: Vec<_> = operations.chain(fragments).map(|text| without_positions(&text)).collect();
    texts.sort();
    texts
}

fn without_positions(text: &str) -> String {
    let mut parts = text.split("Pos(");
    let first = parts.next().unwrap_or_default().to_owned();
    parts.fold(first, |kept, part| kept + part.split_once(')').map_or("", |(_, rest)| rest))
}

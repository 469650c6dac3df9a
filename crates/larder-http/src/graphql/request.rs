//! The GraphQL request in an HTTP request: its document, operation name, variables and extensions, from a JSON body, a
//! body that is the document, or the query of a URI (GraphQL over HTTP, draft of 2025).
//!
//! What two servers may read differently is not understood: repeated names, further fields, a byte order mark, another
//! character set. Then nobody can make a cache see a query where the server sees a mutation.

use std::collections::BTreeMap;

use http::header::{CONTENT_ENCODING, CONTENT_TYPE};
use http::{HeaderMap, Method};
use percent_encoding::percent_decode_str;
use serde_json::value::RawValue;

use crate::headers::control::split_media_type;
use crate::key::write_part;
use crate::status::Reason;

use super::document::Document;
use super::json::{self, Members};
use super::persisted::{Hash, PersistedQueries};

/// Extensions that do not change the response: the first one is resolved to its document, the second one names the client.
const UNKEYED_EXTENSIONS: [&str; 2] = ["persistedQuery", "clientLibrary"];

/// How the GraphQL request is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Format {
    /// In the query of the URI of a GET.
    UriQuery,
    /// `application/json`
    Json,
    /// `application/graphql`: the body is the document.
    Document,
}

impl Format {
    /// The format that the head of a request declares.
    ///
    /// # Errors
    /// `GraphqlRequest` for any other content.
    pub(super) fn of(method: &Method, headers: &HeaderMap) -> Result<Format, Reason> {
        if matches!(*method, Method::GET | Method::HEAD) {
            return Ok(Format::UriQuery);
        }
        let mut content_types = headers.get_all(CONTENT_TYPE).iter();
        let (Some(content_type), None) = (content_types.next(), content_types.next()) else {
            return Err(Reason::GraphqlRequest);
        };
        if headers.contains_key(CONTENT_ENCODING) {
            return Err(Reason::GraphqlRequest);
        }
        // What nearly every client sends.
        if content_type == "application/json" {
            return Ok(Format::Json);
        }
        let (media_type, parameters) = split_media_type(content_type.as_bytes());
        let is_utf8 = parameters.is_empty()
            || parameters.eq_ignore_ascii_case(b"charset=utf-8")
            || parameters.eq_ignore_ascii_case(b"charset=\"utf-8\"");
        match media_type {
            _ if !is_utf8 => Err(Reason::GraphqlRequest),
            _ if media_type.eq_ignore_ascii_case(b"application/json") => Ok(Format::Json),
            _ if media_type.eq_ignore_ascii_case(b"application/graphql") => Ok(Format::Document),
            _ => Err(Reason::GraphqlRequest),
        }
    }
}

/// A request whose operation is a query.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct ParsedRequest {
    /// Its fields, each with its length.
    pub(super) key: Vec<u8>,
    /// Whether the request brought a document with its hash.
    pub(super) registers_hash: bool,
}

/// Parses a request.
///
/// # Errors
/// Why it is forwarded: its operation is not a query, or it is not understood.
pub(super) fn parse(
    format: Format,
    content: &[u8],
    persisted: &PersistedQueries,
) -> Result<ParsedRequest, Reason> {
    let text = std::str::from_utf8(content).map_err(|_| Reason::GraphqlRequest)?;
    match format {
        Format::Json => GraphqlRequest::from_json(text)?.resolve(persisted),
        Format::Document => {
            GraphqlRequest { query: Some(text.to_owned()), ..Default::default() }.resolve(persisted)
        }
        Format::UriQuery => GraphqlRequest::from_parameters(&parse_parameters(text)?)?.resolve(persisted),
    }
}

/// The fields of a request.
#[derive(Debug, Default)]
struct GraphqlRequest<'a> {
    query: Option<String>,
    operation_name: Option<String>,
    variables: Option<Members<'a>>,
    extensions: Option<Members<'a>>,
}

impl<'a> GraphqlRequest<'a> {
    fn from_json(text: &'a str) -> Result<GraphqlRequest<'a>, Reason> {
        // The white space of JSON: a value starts with another byte.
        if text.trim_start_matches([' ', '\t', '\n', '\r']).starts_with('[') {
            return Err(Reason::GraphqlBatch);
        }
        let mut request = GraphqlRequest::default();
        for (name, value) in parse_json::<Members<'_>>(text)?.0 {
            match name.as_str() {
                "query" => request.query = parse_json(value.get())?,
                "operationName" => request.operation_name = parse_json(value.get())?,
                "variables" => request.variables = parse_json(value.get())?,
                "extensions" => request.extensions = parse_json(value.get())?,
                _ => return Err(Reason::GraphqlRequest),
            }
        }
        Ok(request)
    }

    fn from_parameters(parameters: &'a BTreeMap<String, String>) -> Result<GraphqlRequest<'a>, Reason> {
        let mut request = GraphqlRequest::default();
        for (name, value) in parameters {
            match name.as_str() {
                "query" => request.query = Some(value.clone()),
                "operationName" => request.operation_name = Some(value.clone()),
                "variables" => request.variables = parse_json(value)?,
                "extensions" => request.extensions = parse_json(value)?,
                _ => return Err(Reason::GraphqlRequest),
            }
        }
        Ok(request)
    }

    /// Checks the operation and makes the key. The document in it is canonical, also if the request has only its hash.
    fn resolve(&self, persisted: &PersistedQueries) -> Result<ParsedRequest, Reason> {
        let hash = self.persisted_hash()?;
        let stored;
        let text = match (&self.query, &hash) {
            (Some(text), Some(hash)) if !hash.is_of(text) => return Err(Reason::GraphqlPersisted),
            (Some(text), _) => text.as_str(),
            (None, Some(hash)) => {
                stored = persisted.document(hash).ok_or(Reason::GraphqlPersisted)?;
                &stored
            }
            (None, None) => return Err(Reason::GraphqlRequest),
        };
        let document = Document::parse(text)?;
        document.check_operation(self.operation_name.as_deref())?;
        let key = self.write_key(&document.canonical).map_err(|_| Reason::GraphqlRequest)?;
        let registered = hash.filter(|_| self.query.is_some());
        if let Some(hash) = registered {
            persisted.insert(hash, text);
        }
        Ok(ParsedRequest { key, registers_hash: registered.is_some() })
    }

    fn write_key(&self, document: &str) -> Result<Vec<u8>, serde_json::Error> {
        let variables = canonical(self.variables.as_ref(), &[])?;
        let extensions = canonical(self.extensions.as_ref(), &UNKEYED_EXTENSIONS)?;
        let parts =
            [Some(document), self.operation_name.as_deref(), variables.as_deref(), extensions.as_deref()];
        let mut key = Vec::with_capacity(parts.iter().map(|part| 4 + part.map_or(0, str::len)).sum());
        for part in parts {
            write_part(&mut key, part.map(str::as_bytes));
        }
        Ok(key)
    }

    /// The hash of the extension `persistedQuery`.
    fn persisted_hash(&self) -> Result<Option<Hash>, Reason> {
        let extensions = self.extensions.as_ref();
        let Some(value) = extensions.and_then(|extensions| extensions.0.get("persistedQuery")) else {
            return Ok(None);
        };
        let members: Members<'_> = parse_json(value.get())?;
        let get = |name: &str| members.0.get(name).map_or("", |value| value.get());
        let hash = get("sha256Hash").strip_prefix('"').and_then(|hash| hash.strip_suffix('"'));
        match hash.and_then(Hash::from_hex) {
            Some(hash) if members.0.len() == 2 && get("version") == "1" => Ok(Some(hash)),
            _ => Err(Reason::GraphqlRequest),
        }
    }
}

fn parse_json<'a, T: serde::Deserialize<'a>>(json: &'a str) -> Result<T, Reason> {
    serde_json::from_str(json).map_err(|_| Reason::GraphqlRequest)
}

/// The canonical text of the members, without some of them. No text if there are none: an absent object, `null` and an
/// empty one mean the same.
fn canonical(members: Option<&Members<'_>>, omitted: &[&str]) -> Result<Option<String>, serde_json::Error> {
    let kept = |(name, _): &(&String, &&RawValue)| !omitted.contains(&name.as_str());
    let members = members.into_iter().flat_map(|members| &members.0).filter(kept);
    let members = Members(members.map(|(name, value)| (name.clone(), *value)).collect());
    if members.0.is_empty() {
        return Ok(None);
    }
    let mut text = String::new();
    json::write_members(&mut text, &members)?;
    Ok(Some(text))
}

/// The decoded parameters of a URI's query. One that occurs twice is an error.
fn parse_parameters(query: &str) -> Result<BTreeMap<String, String>, Reason> {
    // Some servers take a semicolon for a separator.
    if query.contains(';') {
        return Err(Reason::GraphqlRequest);
    }
    let mut parameters = BTreeMap::new();
    for parameter in query.split('&') {
        let (name, value) = parameter.split_once('=').ok_or(Reason::GraphqlRequest)?;
        if parameters.insert(decode(name)?, decode(value)?).is_some() {
            return Err(Reason::GraphqlRequest);
        }
    }
    Ok(parameters)
}

/// Decodes a name or a value of a URI's query.
///
/// A plus is a space here, and a plus for some servers. That does not change the operations of a document: outside of
/// strings and comments a plus is only in a number, which is none with a space in its place. The key is the raw query.
fn decode(text: &str) -> Result<String, Reason> {
    let text = text.replace('+', " ");
    let decoded = percent_decode_str(&text).decode_utf8().map_err(|_| Reason::GraphqlRequest)?;
    Ok(decoded.into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(format: Format, content: &[u8]) -> Result<Vec<u8>, Reason> {
        parse(format, content, &PersistedQueries::new(1 << 16)).map(|parsed| parsed.key)
    }

    fn json(text: &str) -> Result<Vec<u8>, Reason> {
        key(Format::Json, text.as_bytes())
    }

    fn uri(query: &str) -> Result<Vec<u8>, Reason> {
        key(Format::UriQuery, query.as_bytes())
    }

    #[test]
    fn equal_requests_have_equal_keys() {
        let compact = r#"{"query":"query Q($a:I){b(c:$a)}","operationName":"Q","variables":{"a":{"b":1,"c":2}},"extensions":{"x":1}}"#;
        let spread = r##" { "extensions": {"clientLibrary": {"name": "c"}, "x": 1}, "variables": {"a": {"c": 2, "b": 1}},
            "query": "query Q($a: I) {\n  b(c: $a) # comment\n}", "operationName": "Q" } "##;
        assert_eq!(json(spread), json(compact));
        assert!(json(compact).is_ok());
        let none = json(r#"{"query":"{a}"}"#);
        for text in [
            r#"{"query":"{a}","operationName":null,"variables":null,"extensions":null}"#,
            r#"{"query":"{ a }","variables":{},"extensions":{"clientLibrary":{"version":"1"}}}"#,
            r#"{"qu\u0065ry":"{\u0061}"}"#,
        ] {
            assert_eq!(json(text), none, "{text}");
        }
        assert_eq!(key(Format::Document, b"{ a }"), none);
    }

    #[test]
    fn requests_with_any_different_part_have_different_keys() {
        let requests = [
            r#"{"query":"query A{a}"}"#,
            r#"{"query":"query A{b}"}"#,
            r#"{"query":"query A{a}","operationName":"A"}"#,
            r#"{"query":"query A{a}","variables":{"a":1}}"#,
            r#"{"query":"query A{a}","variables":{"a":1.0}}"#,
            r#"{"query":"query A{a}","variables":{"a":"1"}}"#,
            r#"{"query":"query A{a}","variables":{"b":1}}"#,
            r#"{"query":"query A{a}","variables":{"a":null}}"#,
            r#"{"query":"query A{a}","variables":{"a":[1,2]}}"#,
            r#"{"query":"query A{a}","variables":{"a":[2,1]}}"#,
            r#"{"query":"query A{a}","extensions":{"a":1}}"#,
            r#"{"query":"query A{a} query B{a}","operationName":"A"}"#,
            r#"{"query":"query A{a} query B{a}","operationName":"B"}"#,
        ];
        for (index, one) in requests.iter().enumerate() {
            assert!(json(one).is_ok(), "{one}");
            for other in &requests[index + 1..] {
                assert_ne!(json(one), json(other), "{one} {other}");
            }
        }
    }

    #[test]
    fn json_that_may_be_read_in_two_ways_is_refused() {
        for text in [
            "",
            "{",
            "null",
            "{}",
            r#""{a}""#,
            r#"{"query":null}"#,
            r#"{"query":1}"#,
            r#"{"query":["{a}"]}"#,
            r#"{"query":"{a}"} {}"#,
            "\u{feff}{\"query\":\"{a}\"}",
            r#"{"query":"{a}","query":"mutation{a}"}"#,
            r#"{"query":"{a}","qu\u0065ry":"mutation{a}"}"#,
            r#"{"query":"{a}","Query":"mutation{a}"}"#,
            r#"{"query":"{a}","documentId":"x"}"#,
            r#"{"query":"{a}","operationName":1}"#,
            r#"{"query":"{a}","variables":"{}"}"#,
            r#"{"query":"{a}","variables":[]}"#,
            r#"{"query":"{a}","variables":{"a":1,"a":2}}"#,
            r#"{"query":"{a}","variables":{"a":{"b":1,"b":2}}}"#,
            r#"{"query":"{a}","extensions":{"a":1,"a":2}}"#,
            r#"{"query":"{a}\ud800"}"#,
        ] {
            assert_eq!(json(text), Err(Reason::GraphqlRequest), "{text}");
        }
        let invalid_utf8 = key(Format::Json, b"{\"query\":\"{a} #\xff\"}");
        assert_eq!(invalid_utf8, Err(Reason::GraphqlRequest));
    }

    #[test]
    fn batch_mutation_and_unknown_operation_are_refused() {
        for (text, reason) in [
            ("[]", Reason::GraphqlBatch),
            (" \n[{\"query\":\"{a}\"}]", Reason::GraphqlBatch),
            (r#"{"query":"mutation{a}"}"#, Reason::GraphqlMutation),
            (r#"{"query":"\u006dutation{a}"}"#, Reason::GraphqlMutation),
            (r#"{"query":"query Q{a}","operationName":"R"}"#, Reason::GraphqlOperation),
            (r#"{"query":"query Q{a}","operationName":""}"#, Reason::GraphqlOperation),
            (r#"{"query":"{a","operationName":null}"#, Reason::GraphqlDocument),
        ] {
            assert_eq!(json(text), Err(reason), "{text}");
        }
    }

    #[test]
    fn parameters_are_decoded_before_they_are_parsed() {
        let expected = json(r#"{"query":"query Q{a(b: \"1&2\")}","operationName":"Q","variables":{"a":1}}"#);
        assert!(expected.is_ok());
        let query = "query=query+Q%7Ba(b:%20%221%262%22)%7D&operationName=Q&variables=%7B%22a%22:1%7D";
        assert_eq!(uri(query), expected);
        assert_eq!(uri(&query.replace("query=", "q%75ery=")), expected);
    }

    #[test]
    fn parameters_that_may_be_read_in_two_ways_are_refused() {
        for (query, reason) in [
            ("", Reason::GraphqlRequest),
            ("query", Reason::GraphqlRequest),
            ("query={a}&query=mutation{a}", Reason::GraphqlRequest),
            ("query={a}&qu%65ry=mutation{a}", Reason::GraphqlRequest),
            ("query={a}%20%23;query=mutation{a}", Reason::GraphqlRequest),
            ("query={a}&documentId=x", Reason::GraphqlRequest),
            ("query={a}%20%23%ff", Reason::GraphqlRequest),
            ("query={a}&variables=x", Reason::GraphqlRequest),
            ("query={a(b:1e+1)}", Reason::GraphqlDocument),
            ("query=mutation{a}", Reason::GraphqlMutation),
            ("query=%6dutation%7Ba%7D", Reason::GraphqlMutation),
        ] {
            assert_eq!(uri(query), Err(reason), "{query}");
        }
    }

    #[test]
    fn hash_is_resolved_to_the_document_that_came_with_it() {
        const HASH: &str = "d0bff7bfcf4a1a9fc6c4e1e3d4a4c1a3cf9b1b0bb1b4a7bd5d0f0a4f1f4e9f5c";
        let document = "{ a }";
        let hash = Hash::of(document).to_hex();
        let request = |query: &str, hash: &str| {
            format!(r#"{{{query}"extensions":{{"persistedQuery":{{"version":1,"sha256Hash":"{hash}"}}}}}}"#)
        };
        let persisted = PersistedQueries::new(1 << 16);
        let send = |text: &str| parse(Format::Json, text.as_bytes(), &persisted).map(|parsed| parsed.key);
        assert_eq!(send(&request("", &hash)), Err(Reason::GraphqlPersisted), "not known yet");
        let query = format!(r#""query":"{document}","#);
        assert_eq!(send(&request(&query, HASH)), Err(Reason::GraphqlPersisted), "another hash");
        assert_eq!(send(&request("", HASH)), Err(Reason::GraphqlPersisted), "still not known");
        let expected = json(r#"{"query":"{a}"}"#);
        assert_eq!(send(&request(&query, &hash)), expected);
        assert_eq!(send(&request("", &hash)), expected);
        assert_eq!(send(&request(r#""query":"{b}","#, &hash)), Err(Reason::GraphqlPersisted));
    }

    #[test]
    fn mutation_is_not_persisted() {
        let persisted = PersistedQueries::new(1 << 16);
        let hash = Hash::of("mutation{a}").to_hex();
        let extensions =
            format!(r#""extensions":{{"persistedQuery":{{"version":1,"sha256Hash":"{hash}"}}}}"#);
        let send = |text: String| parse(Format::Json, text.as_bytes(), &persisted).map(|parsed| parsed.key);
        let with_document = format!(r#"{{"query":"mutation{{a}}",{extensions}}}"#);
        assert_eq!(send(with_document), Err(Reason::GraphqlMutation));
        assert_eq!(send(format!("{{{extensions}}}")), Err(Reason::GraphqlPersisted));
    }

    #[test]
    fn malformed_persisted_query_is_refused() {
        for value in [
            "null",
            "{}",
            r#"{"version":1}"#,
            r#"{"version":1,"sha256Hash":"abc"}"#,
            r#""x""#,
            &format!(r#"{{"version":2,"sha256Hash":"{}"}}"#, "a".repeat(64)),
            &format!(r#"{{"version":1,"sha256Hash":"{}"}}"#, "A".repeat(64)),
            &format!(r#"{{"version":1,"sha256Hash":"{0}","md5Hash":"{0}"}}"#, "a".repeat(64)),
        ] {
            let text = format!(r#"{{"query":"{{a}}","extensions":{{"persistedQuery":{value}}}}}"#);
            assert_eq!(json(&text), Err(Reason::GraphqlRequest), "{value}");
        }
    }

    #[test]
    fn content_type_must_be_understood() {
        let post = |lines: &[&'static str]| {
            let mut headers = HeaderMap::new();
            for line in lines {
                headers.append(CONTENT_TYPE, http::HeaderValue::from_static(line));
            }
            Format::of(&Method::POST, &headers)
        };
        for json in
            ["application/json", "Application/JSON; charset=UTF-8", "application/json;charset=\"utf-8\""]
        {
            assert_eq!(post(&[json]), Ok(Format::Json));
        }
        assert_eq!(post(&["application/graphql"]), Ok(Format::Document));
        for lines in [
            &[][..],
            &["application/json", "application/json"],
            &["text/plain"],
            &["multipart/form-data; boundary=x"],
            &["application/json; charset=utf-16"],
            &["application/json; charset=utf-8; x=y"],
            &["application/json, text/plain"],
        ] {
            assert_eq!(post(lines), Err(Reason::GraphqlRequest), "{lines:?}");
        }
        let mut encoded = HeaderMap::new();
        encoded.insert(CONTENT_TYPE, http::HeaderValue::from_static("application/json"));
        encoded.insert(CONTENT_ENCODING, http::HeaderValue::from_static("gzip"));
        assert_eq!(Format::of(&Method::POST, &encoded), Err(Reason::GraphqlRequest));
    }
}

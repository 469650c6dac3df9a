//! Keys of pairs of requests that differ in some parts: they are equal exactly if a model of the requests is.

use std::panic::AssertUnwindSafe;

use bytes::Bytes;
use http::header::{ACCEPT_LANGUAGE, CONTENT_TYPE, HOST};
use http::{HeaderMap, HeaderName, HeaderValue, Request};

use super::{ITERATIONS, pick, text};
use crate::key::{self, KeySpace, RequestKey};
use crate::policy::scope::Scope;
use crate::stored::purge::PurgeStamp;
use crate::stored::record::VaryRecord;

const VIEWS: &[&str] = &["", "", "a", "http"];
const SCHEMES: &[&str] = &["http", "https"];
const METHODS: &[&str] = &["POST", "QUERY"];
const PRINCIPALS: &[Option<&str>] = &[None, Some(""), Some("a"), Some("\0\0\0\u{1}a")];
/// Authorities, with host and port; `None` if the authority is not valid.
const AUTHORITIES: &[(&str, Option<(&str, &str)>)] = &[
    ("h.test", Some(("h.test", ""))),
    ("H.Test", Some(("h.test", ""))),
    ("h.test:80", Some(("h.test", "80"))),
    ("h.test:443", Some(("h.test", "443"))),
    ("h.test:080", Some(("h.test", "080"))),
    ("h.test:8080", Some(("h.test", "8080"))),
    ("h.test.", Some(("h.test.", ""))),
    ("h.tes", Some(("h.tes", ""))),
    ("[::1]", Some(("[::1]", ""))),
    ("[::1]:80", Some(("[::1]", "80"))),
    ("[::1]:443", Some(("[::1]", "443"))),
    ("", Some(("", ""))),
    (":80", None),
    (":443", None),
    ("h.test:80:80", None),
    ("h.test::80", None),
    ("h.test:8x", None),
    ("::1:80", None),
    ("[::1", None),
    ("[::1]80", None),
    ("h[.test", None),
    ("u@h.test", None),
    ("h.test,g.test", None),
    ("h test", None),
];
const PATH: &[&str] = &["a", "A", "/", "//", "..", ".", ";", "%2f", "%2F", "%61", "%3f", "%23", "=", "&"];
const QUERY: &[&str] = &["a", "A", "/", "//", "..", ".", ";", "%2f", "%2F", "%61", "?", "b", "=", "&"];
/// Tokens of fields and bodies: two and two are equal in a list whose members are not case-sensitive.
const LINE: &[&str] = &["a", "A", ",", ", ", ",", " ,", "b", "B", "\"", "\"", "\\", "\\"];

/// Choices for one request. The texts of a request are cut from two sequences of tokens, so that often the same tokens
/// are in different parts.
#[derive(Clone, Debug, bolero::TypeGenerator)]
struct Choices {
    view: u8,
    scheme: u8,
    authority: u8,
    method: u8,
    /// Tokens of path and query, and where the query begins.
    uri: ([u8; 3], u8),
    /// Tokens of the content type, the body, and two lines of each field of a variant.
    lines: [u8; 4],
    /// Where each of these texts begins, but the first one.
    cuts: [u8; 5],
    /// Which of the texts are present.
    present: u8,
}

/// What a key must distinguish.
#[derive(Clone, Debug, PartialEq)]
struct Resource {
    view: &'static str,
    scheme: &'static str,
    host: &'static str,
    port: &'static str,
    path: String,
    query: Option<String>,
    /// With a body rule: method, content type and body.
    body: Option<(&'static str, Option<String>, Vec<u8>)>,
}

/// A request, and what its keys must distinguish: `None` if it must not have a key.
#[derive(Debug)]
struct Sample {
    request: Request<()>,
    body: Option<Bytes>,
    space: KeySpace,
    resource: Option<Resource>,
    variant: [Vec<String>; 2],
    principal: Option<&'static str>,
}

impl Sample {
    fn new(choices: &Choices) -> Sample {
        let (view, method) = (pick(VIEWS, choices.view), pick(METHODS, choices.method));
        let (authority, valid) = pick(AUTHORITIES, choices.authority);
        let is_present = |part: usize| choices.present & (1 << part) != 0;
        let query_start = usize::from(choices.uri.1) % 4;
        let path = format!("/{}", text(PATH, &choices.uri.0[..query_start]));
        let query = is_present(6).then(|| text(QUERY, &choices.uri.0[query_start..]));
        let origin_form = path.clone() + &query.as_ref().map_or(String::new(), |query| format!("?{query}"));
        // Every second target is absolute, if its authority can be in one.
        let scheme = pick(SCHEMES, choices.scheme);
        let target = match valid {
            Some((host, _)) if is_present(7) && !host.is_empty() => {
                format!("{scheme}://{authority}{origin_form}")
            }
            _ => origin_form,
        };
        let mut texts = cut(&choices.lines, choices.cuts).into_iter().enumerate();
        let mut next = || texts.next().filter(|(part, _)| is_present(*part)).map(|(_, text)| text);
        let (content_type, body) = (next(), next().map(String::into_bytes));
        let variant = [(); 2].map(|()| [next(), next()].into_iter().flatten().collect::<Vec<_>>());

        let mut request =
            Request::builder().method(method).uri(&target).header(HOST, authority).body(()).unwrap();
        append(request.headers_mut(), CONTENT_TYPE, content_type.as_slice());
        append(request.headers_mut(), ACCEPT_LANGUAGE, &variant[0]);
        append(request.headers_mut(), HeaderName::from_static("x-a"), &variant[1]);
        let space = KeySpace { view: view.to_owned(), scheme: scheme.to_owned(), query_rules: None };
        let resource = valid.map(|(host, port)| {
            let is_default = (scheme, port) == ("http", "80") || (scheme, port) == ("https", "443");
            let port = if is_default { "" } else { port };
            let body = body.clone().map(|body| (method, content_type, body));
            Resource { view, scheme, host, port, path, query, body }
        });
        let principal = pick(PRINCIPALS, choices.method / 2);
        Sample { request, body: body.map(Bytes::from), space, resource, variant, principal }
    }

    fn resource_key(&self) -> Option<Vec<u8>> {
        let mut key = Vec::new();
        RequestKey::new(&self.request, &self.body).write(&mut key, &self.space).ok()?;
        Some(key)
    }

    fn variant_key(&self, record: &VaryRecord) -> Vec<u8> {
        let mut key = Vec::new();
        record.write_key(&mut key, self.principal, self.request.headers()).unwrap();
        key
    }
}

/// The texts between the cuts.
fn cut(tokens: &[u8; 4], mut cuts: [u8; 5]) -> Vec<String> {
    cuts.iter_mut().for_each(|cut| *cut %= 5);
    cuts.sort_unstable();
    let mut start = 0;
    let ends = cuts.into_iter().map(usize::from).chain([tokens.len()]);
    ends.map(|end| text(LINE, &tokens[std::mem::replace(&mut start, end)..end])).collect()
}

fn append(headers: &mut HeaderMap, name: HeaderName, lines: &[String]) {
    for line in lines {
        headers.append(&name, HeaderValue::try_from(line).unwrap());
    }
}

/// A pair of requests: the second one takes some choices from the first one, each if its bit is not set.
type Pair = (Choices, Choices, u16);

fn samples((one, other, differs): &Pair) -> (Sample, Sample) {
    let mut second = one.clone();
    let is_set = |bit: usize| differs & (1 << bit) != 0 && differs & (1 << (bit + 8)) != 0;
    let small = [
        (&mut second.view, other.view),
        (&mut second.scheme, other.scheme),
        (&mut second.authority, other.authority),
        (&mut second.method, other.method),
        (&mut second.present, other.present),
    ];
    small.into_iter().enumerate().filter(|(bit, _)| is_set(*bit)).for_each(|(_, (own, other))| *own = other);
    if is_set(5) {
        second.uri = (if is_set(7) { other.uri.0 } else { one.uri.0 }, other.uri.1);
    }
    if is_set(6) {
        second.cuts = other.cuts;
    } else if is_set(7) {
        // Each token is replaced by its pair.
        second.lines = one.lines.map(|choice| choice ^ 1);
    }
    (Sample::new(one), Sample::new(&second))
}

#[test]
fn resources_have_equal_keys_exactly_if_they_are_equal() {
    bolero::check!().with_type::<Pair>().with_iterations(ITERATIONS).for_each(|pair| {
        let (one, other) = samples(pair);
        for sample in [&one, &other] {
            assert_eq!(sample.resource_key().is_some(), sample.resource.is_some(), "{sample:?}");
        }
        if let (Some(key), Some(other_key)) = (one.resource_key(), other.resource_key()) {
            assert_eq!(key == other_key, one.resource == other.resource, "{one:?} {other:?}");
        }
    });
}

#[test]
fn purges_name_exactly_their_uri_and_prefix() {
    bolero::check!().with_type::<Pair>().with_iterations(ITERATIONS).for_each(|pair| {
        let (one, other) = samples(pair);
        let (Some(key), Some(resource), Some(purged)) = (one.resource_key(), &one.resource, &other.resource)
        else {
            return;
        };
        let mut uri = Vec::new();
        key::write_uri(&mut uri, other.request.uri(), other.request.headers(), &other.space).unwrap();
        let without_body = |resource: &Resource| Resource { body: None, ..resource.clone() };
        let is_named = without_body(resource) == without_body(purged);
        assert_eq!(key::uri_of(&key) == uri, is_named, "{one:?} {other:?}");

        let mut origin = Vec::new();
        let authority = format!("{}:{}", purged.host, purged.port);
        key::write_origin(&mut origin, &other.space, purged.scheme, authority.trim_end_matches(':')).unwrap();
        let in_origin = (resource.view, resource.scheme, resource.host, resource.port)
            == (purged.view, purged.scheme, purged.host, purged.port);
        let has_prefix = in_origin && resource.path.starts_with(&purged.path);
        assert_eq!(key::has_prefix(&key, &origin, purged.path.as_bytes()), has_prefix, "{one:?} {other:?}");
    });
}

#[test]
fn variants_have_equal_keys_exactly_if_their_lines_are_equal() {
    let new_record = |scope| {
        let fields = [ACCEPT_LANGUAGE, HeaderName::from_static("x-a")];
        AssertUnwindSafe(VaryRecord::new(scope, fields.into(), PurgeStamp::default()))
    };
    let (shared, private) = (new_record(None), new_record(Some(Scope::Private)));
    bolero::check!().with_type::<Pair>().with_iterations(ITERATIONS).for_each(|pair| {
        let (one, other) = samples(pair);
        let languages =
            |sample: &Sample| sample.variant[0].iter().map(|line| members(&line.to_lowercase())).collect();
        let (language, other_language): (Vec<_>, Vec<_>) = (languages(&one), languages(&other));
        let is_equal = language == other_language && one.variant[1] == other.variant[1];
        let is_own = is_equal && one.principal == other.principal;
        assert_eq!(one.variant_key(&shared) == other.variant_key(&shared), is_equal, "{one:?} {other:?}");
        assert_eq!(one.variant_key(&private) == other.variant_key(&private), is_own, "{one:?} {other:?}");
        assert_ne!(one.variant_key(&shared), other.variant_key(&private));
    });
}

/// The members of a list, without the spaces around them.
fn members(line: &str) -> Vec<String> {
    let mut members = vec![String::new()];
    let (mut is_quoted, mut characters) = (false, line.chars());
    while let Some(character) = characters.next() {
        match character {
            ',' if !is_quoted => {
                members.push(String::new());
                continue;
            }
            '"' => is_quoted = !is_quoted,
            _ => {}
        }
        let last = members.last_mut().expect("never empty");
        last.push(character);
        if character == '\\' && is_quoted {
            last.extend(characters.next());
        }
    }
    members.iter().map(|member| member.trim().to_owned()).collect()
}

//! The question to the gate: a GET with the credentials that the rule of a request names, and with what it asks for.

use crate::origin::request_body::RequestBody;
use crate::rules::Rule;
use bytes::Bytes;
use http::header::{HeaderName, VIA};
use http::request::Parts;
use http::uri::PathAndQuery;
use http::{HeaderMap, HeaderValue, Request, Uri};
use std::sync::Arc;

const ORIGINAL_URI: HeaderName = HeaderName::from_static("x-original-uri");
const ORIGINAL_METHOD: HeaderName = HeaderName::from_static("x-original-method");
/// What the origin makes its redirects by. Without them it might redirect the gate to HTTPS.
const FORWARDED: [HeaderName; 2] =
    [HeaderName::from_static("x-forwarded-host"), HeaderName::from_static("x-forwarded-proto")];

/// A question. It has all that the gate can decide by.
#[derive(Debug)]
pub(super) struct Question {
    target: Uri,
    headers: HeaderMap,
}

impl Question {
    /// The question about a request. `None` if its rule has no scope, or if it has no credential that the rule names.
    pub(super) fn about(head: &Parts, gate_path: &PathAndQuery) -> Option<Question> {
        let rule = head.extensions.get::<Arc<Rule>>().filter(|rule| rule.is_gated())?;
        let mut headers = HeaderMap::new();
        rule.credentials.copy(&head.headers, &mut headers);
        if headers.is_empty() {
            return None;
        }
        let path = head.uri.path_and_query().map_or("/", PathAndQuery::as_str);
        headers.insert(ORIGINAL_URI, HeaderValue::from_str(path).ok()?);
        headers.insert(ORIGINAL_METHOD, HeaderValue::from_str(head.method.as_str()).ok()?);
        // With `Via` a gate that is this proxy itself is a loop, and no endless one.
        for name in FORWARDED.iter().chain([&VIA]) {
            for value in head.headers.get_all(name) {
                headers.append(name, value.clone());
            }
        }
        let mut target = head.uri.clone().into_parts();
        target.path_and_query = Some(gate_path.clone());
        Some(Question { target: Uri::from_parts(target).ok()?, headers })
    }

    /// A text that only the same question has. Every part has its length before it, so that no two questions run together.
    pub(super) fn key(&self) -> Box<[u8]> {
        let mut key = Vec::new();
        let mut add = |part: &[u8]| {
            key.extend_from_slice(&(part.len() as u64).to_be_bytes());
            key.extend_from_slice(part);
        };
        add(self.target.to_string().as_bytes());
        for (name, value) in &self.headers {
            add(name.as_str().as_bytes());
            add(value.as_bytes());
        }
        key.into()
    }

    pub(super) fn into_request(self) -> Request<RequestBody> {
        let mut request = Request::new(RequestBody::from(Bytes::new()));
        *request.uri_mut() = self.target;
        *request.headers_mut() = self.headers;
        request
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rules::Rules;
    use crate::rules::config::{GateConfig, RuleConfig, RuleScope};

    /// The question about a GET with these fields.
    fn about(uri: &str, lines: &[(&'static str, &str)]) -> Option<Question> {
        let config = RuleConfig {
            scope: Some(RuleScope::Private),
            cookies: vec!["a".into(), "b".into()],
            headers: vec!["x-one".into(), "x-two".into()],
            ..RuleConfig::default()
        };
        let gate = GateConfig { path: "/check?q".into(), ..GateConfig::default() };
        let rules = Rules::new(&[config], Some(&gate)).unwrap();
        let mut request = Request::new(());
        *request.uri_mut() = uri.parse().unwrap();
        for (name, value) in lines {
            request.headers_mut().append(HeaderName::from_static(name), value.parse().unwrap());
        }
        let rule = rules.find(request.uri()).unwrap().clone();
        request.extensions_mut().insert(rule);
        Question::about(&request.into_parts().0, &PathAndQuery::from_static("/check?q"))
    }

    #[test]
    fn question_has_the_named_credentials_and_the_target() {
        let lines = [
            ("cookie", "theme=dark; b=2; a=1"),
            ("x-one", "1"),
            ("authorization", "secret"),
            ("accept", "*/*"),
            ("x-forwarded-host", "h:1"),
            ("x-forwarded-proto", "https"),
            ("x-forwarded-for", "192.0.2.1"),
            ("via", "1.1 other"),
        ];
        let request = about("https://h:1/page?x=1", &lines).unwrap().into_request();
        assert_eq!(request.uri(), "https://h:1/check?q");
        assert_eq!((request.method(), request.headers().len()), (&http::Method::GET, 7));
        for (name, value) in [
            ("cookie", "b=2; a=1"),
            ("x-one", "1"),
            ("x-original-uri", "/page?x=1"),
            ("x-original-method", "GET"),
            ("x-forwarded-host", "h:1"),
            ("x-forwarded-proto", "https"),
            ("via", "1.1 other"),
        ] {
            assert_eq!(request.headers()[name], value);
        }
        assert!(about("http://h/", &[("cookie", "theme=dark"), ("accept", "*/*")]).is_none());
    }

    #[test]
    fn questions_that_differ_anywhere_have_different_keys() {
        let one = ("x-one", "1");
        let questions = [
            about("http://h/p", &[one]),
            about("http://h/p?q", &[one]),
            about("http://i/p", &[one]),
            about("https://h/p", &[one]),
            about("http://h/p", &[("x-two", "1")]),
            about("http://h/p", &[("x-one", "11")]),
            about("http://h/p", &[one, one]),
            about("http://h/p", &[one, ("x-two", "")]),
            about("http://h/p", &[one, ("x-two", "2")]),
            about("http://h/p", &[("x-one", "1x-two2")]),
            about("http://h/p", &[one, ("cookie", "a=1")]),
            about("http://h/p", &[one, ("cookie", "a=1; b=2")]),
            about("http://h/p", &[one, ("cookie", "b=2")]),
            about("http://h/p", &[one, ("x-forwarded-proto", "https")]),
        ];
        let keys: Vec<_> = questions.iter().map(|question| question.as_ref().unwrap().key()).collect();
        for (index, key) in keys.iter().enumerate() {
            assert!(!keys[..index].contains(key), "{index}");
        }
        let ignored = about("http://h/p", &[one, ("cookie", "theme=dark"), ("accept", "x")]).unwrap();
        assert_eq!(ignored.key(), keys[0]);
    }
}

//! The rules of the operator apply: to the first match, on what is stored, under which key, and for whom.

mod gate;
mod gate_failures;
mod graphql;
mod key;
mod purges;
mod stored;
mod tags;

use crate::support::*;
use http::{HeaderName, HeaderValue, Request, Response, StatusCode};
use hyper::body::Incoming;
use larder_proxy::{Config, GateConfig, RuleConfig};
use std::net::SocketAddr;

/// The options of a proxy with these rules.
fn with_rules(origin: SocketAddr, rules: impl IntoIterator<Item = RuleConfig>) -> Config {
    Config { rules: rules.into_iter().collect(), ..config([origin]) }
}

/// The same with a gate.
fn with_gate(origin: SocketAddr, gate: GateConfig, rules: impl IntoIterator<Item = RuleConfig>) -> Config {
    Config { gate: Some(gate), ..with_rules(origin, rules) }
}

/// A rule for a path that sets nothing yet.
fn rule(path: &str) -> RuleConfig {
    RuleConfig { path: Some(path.into()), ..RuleConfig::default() }
}

/// A response with a status, a text and these fields.
fn reply(status: u16, text: impl Into<String>, fields: &[(&'static str, &str)]) -> Response<TestBody> {
    let mut response = Response::new(full(text.into()));
    *response.status_mut() = StatusCode::from_u16(status).unwrap();
    for (name, value) in fields {
        response.headers_mut().append(HeaderName::from_static(name), HeaderValue::from_str(value).unwrap());
    }
    response
}

/// The value of a field of a request, or nothing.
fn field(request: &Request<Incoming>, name: &str) -> String {
    request.headers().get(name).map_or_else(String::new, |value| value.to_str().unwrap().to_owned())
}

/// A GET with further fields, each with its line break.
fn get_with(path: &str, fields: &str) -> String {
    format!("GET {path} HTTP/1.1\r\nHost: site.example\r\n{fields}Connection: close\r\n\r\n")
}

/// The `Cache-Status` of a response.
#[track_caller]
fn cache_status(response: &str) -> &str {
    match values(response, "cache-status")[..] {
        [one] => one,
        _ => panic!("there is not one Cache-Status: {response}"),
    }
}

#[track_caller]
fn assert_hit(response: &str) {
    assert!(cache_status(response).starts_with("larder; hit; "), "{response}");
}

fn body(response: &str) -> &str {
    response.split_once("\r\n\r\n").unwrap().1
}

#[test]
fn example_of_the_documentation_starts_a_proxy() {
    #[derive(serde::Deserialize)]
    struct File {
        proxy: Config,
    }
    let page = include_str!("../../../../../docs/proxy.md");
    let (_, after) = page.split_once("```toml\n[proxy]\n").expect("the page has an example");
    let (example, _) = after.split_once("```").unwrap();
    let file: File = toml::from_str(&format!("[proxy]\n{example}")).unwrap();
    assert!(file.proxy.rules.len() > 3 && file.proxy.gate.is_some());
    larder_proxy::Proxy::new(file.proxy).unwrap();
}

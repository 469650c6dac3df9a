//! Foreign web pages cannot change anything.

use crate::support::{Fixture, open, open_with};
use axum::body::Body;
use http::{Method, Request, StatusCode};
use larder_links::Scope;

struct Case {
    host: &'static [&'static str],
    origin: Option<&'static str>,
    content_type: Option<&'static str>,
    expected: StatusCode,
}

const fn case(
    host: &'static [&'static str],
    origin: Option<&'static str>,
    content_type: Option<&'static str>,
    expected: StatusCode,
) -> Case {
    Case { host, origin, content_type, expected }
}

const JSON: Option<&str> = Some("application/json");
const LOCAL: &[&str] = &["localhost:8080"];
const PUBLIC: &[&str] = &["s.example"];

const CASES: &[Case] = &[
    case(LOCAL, None, JSON, StatusCode::CREATED),
    case(LOCAL, None, Some("Application/JSON; charset=utf-8"), StatusCode::CREATED),
    case(LOCAL, Some("http://localhost:8080"), JSON, StatusCode::CREATED),
    case(&["127.0.0.1:8080"], Some("http://127.0.0.1:8080"), JSON, StatusCode::CREATED),
    case(&["[::1]:8080"], None, JSON, StatusCode::CREATED),
    case(PUBLIC, Some("https://s.example"), JSON, StatusCode::CREATED),
    case(PUBLIC, Some("http://s.example"), JSON, StatusCode::FORBIDDEN),
    case(LOCAL, Some("https://localhost:8080"), JSON, StatusCode::FORBIDDEN),
    // A page of another origin, by script or by form.
    case(LOCAL, Some("https://evil.example"), JSON, StatusCode::FORBIDDEN),
    case(LOCAL, Some("http://localhost:3000"), JSON, StatusCode::FORBIDDEN),
    case(LOCAL, Some("null"), JSON, StatusCode::FORBIDDEN),
    case(LOCAL, None, Some("text/plain"), StatusCode::UNSUPPORTED_MEDIA_TYPE),
    case(LOCAL, None, Some("application/x-www-form-urlencoded"), StatusCode::UNSUPPORTED_MEDIA_TYPE),
    case(LOCAL, None, Some("application/jsonp"), StatusCode::UNSUPPORTED_MEDIA_TYPE),
    case(LOCAL, None, None, StatusCode::UNSUPPORTED_MEDIA_TYPE),
    // A page whose name was pointed at this machine.
    case(&["evil.example:8080"], Some("http://evil.example:8080"), JSON, StatusCode::FORBIDDEN),
    case(&["evil.example:8080"], None, JSON, StatusCode::FORBIDDEN),
    case(&["192.0.2.1:8080"], None, JSON, StatusCode::FORBIDDEN),
    case(&[], None, JSON, StatusCode::FORBIDDEN),
    case(&["localhost:8080", "evil.example"], None, JSON, StatusCode::BAD_REQUEST),
];

#[tokio::test]
async fn changes_require_own_host_origin_and_json() {
    let fixture = open_with(|config| config.public_url = Some("https://s.example".into()));
    let (_, bearer) = fixture.bearer(Scope::Write).await;
    for (index, case) in CASES.iter().enumerate() {
        let answer = send(&fixture, Method::POST, "/api/links", case, Some(&bearer)).await;
        assert_eq!(answer.0, case.expected, "case {index}: {}", answer.1);
        if !case.expected.is_success() {
            assert!(answer.1.starts_with("{\"error\":{"), "case {index}: {}", answer.1);
        }
    }
}

#[tokio::test]
async fn every_changing_route_checks_the_origin() {
    let fixture = open();
    fixture.link(Some("kept"), "https://kept.example/").await;
    let foreign = case(LOCAL, Some("https://evil.example"), JSON, StatusCode::FORBIDDEN);
    for (method, path) in [
        (Method::POST, "/api/links"),
        (Method::POST, "/api/links/batch"),
        (Method::PATCH, "/api/links/kept"),
        (Method::DELETE, "/api/links/kept"),
    ] {
        assert_eq!(
            send(&fixture, method.clone(), path, &foreign, None).await.0,
            StatusCode::FORBIDDEN,
            "{method} {path}"
        );
    }
    assert_eq!(fixture.get("/kept").await.status, StatusCode::FOUND);
}

#[tokio::test]
async fn api_is_served_under_own_hosts_only() {
    let fixture = open_with(|config| config.allow_hosts = vec!["links.internal".into()]);
    fixture.link_with_token("a", "https://a.example/").await;
    let (_, bearer) = fixture.bearer(Scope::Read).await;
    for path in ["/api/links", "/api/links/a", "/api/session", "/api/nothing"] {
        let status = async |host: &str| {
            let request = Request::builder().uri(path).header("host", host).header("authorization", &bearer);
            fixture.send(request.body(Body::empty()).unwrap()).await.status
        };
        for host in ["evil.example", "evil.example:8080", "192.0.2.1", "localhost.evil.example", ""] {
            assert_eq!(status(host).await, StatusCode::FORBIDDEN, "{path} {host}");
        }
        for host in ["localhost:8080", "127.0.0.1", "[::1]:80", "links.internal:8080", "LINKS.internal"] {
            assert_ne!(status(host).await, StatusCode::FORBIDDEN, "{path} {host}");
        }
    }
    // A short link works under every name that leads here.
    let request = Request::builder().uri("/a").header("host", "go.example").body(Body::empty()).unwrap();
    assert_eq!(fixture.send(request).await.status, StatusCode::FOUND);
}

async fn send(
    fixture: &Fixture,
    method: Method,
    path: &str,
    case: &Case,
    bearer: Option<&str>,
) -> (StatusCode, String) {
    let mut request = Request::builder().method(method).uri(path);
    for host in case.host {
        request = request.header("host", *host);
    }
    for (name, value) in
        [("origin", case.origin), ("content-type", case.content_type), ("authorization", bearer)]
    {
        if let Some(value) = value {
            request = request.header(name, value);
        }
    }
    let body = Body::from(r#"{"url": "https://example.com/"}"#);
    let answer = fixture.send(request.body(body).unwrap()).await;
    (answer.status, answer.text())
}

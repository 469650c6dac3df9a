//! The page works offline under a strict policy.

use crate::support::{open, open_with, request};
use axum::body::Body;
use http::{Method, StatusCode};
use serde_json::json;

#[tokio::test]
async fn page_and_files_are_served_and_revalidated() {
    let fixture = open();
    for (path, content_type) in [
        ("/", "text/html; charset=utf-8"),
        ("/static/app.js", "text/javascript; charset=utf-8"),
        ("/static/options.js", "text/javascript; charset=utf-8"),
        ("/static/visits.js", "text/javascript; charset=utf-8"),
        ("/static/style.css", "text/css; charset=utf-8"),
        ("/static/icon.svg", "image/svg+xml"),
    ] {
        let answer = fixture.get(path).await;
        assert_eq!(answer.status, StatusCode::OK, "{path}");
        assert_eq!(answer.header("content-type"), content_type);
        assert!(!answer.body.is_empty(), "{path}");
        for tag in
            [answer.header("etag").to_owned(), format!("\"x\", W/{}", answer.header("etag")), "*".into()]
        {
            let again = request(Method::GET, path).header("if-none-match", tag).body(Body::empty()).unwrap();
            assert_eq!(fixture.send(again).await.status, StatusCode::NOT_MODIFIED, "{path}");
        }
    }
    assert_eq!(fixture.get("/static/index.html").await.status, StatusCode::NOT_FOUND);
}

#[tokio::test]
async fn pages_allow_no_foreign_or_inline_code() {
    let fixture = open();
    for path in ["/", "/nowhere", "/api/links"] {
        let answer = fixture.get(path).await;
        let policy = answer.header("content-security-policy");
        assert!(policy.contains("default-src 'none'") && !policy.contains("unsafe"), "{path}: {policy}");
        assert_eq!(answer.header("x-content-type-options"), "nosniff");
        assert_eq!(answer.header("x-frame-options"), "DENY");
    }
}

/// The policy would silently block what it does not allow, so the sources are looked at as well.
#[test]
fn sources_comply_with_the_policy() {
    let html = [include_str!("../../static/index.html"), include_str!("../../static/error.html")];
    for page in html {
        for forbidden in ["style=", "<style", "onclick", "javascript:", "src=\"http", "href=\"http"] {
            assert!(!page.contains(forbidden), "{forbidden}");
        }
        assert!(page.matches("<script").count() == page.matches("<script src=\"/static/").count());
    }
    let scripts = [
        include_str!("../../static/app.js"),
        include_str!("../../static/options.js"),
        include_str!("../../static/visits.js"),
    ];
    for script in scripts {
        for forbidden in
            ["innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval(", ".style."]
        {
            assert!(!script.contains(forbidden), "{forbidden}");
        }
    }
    assert!(!include_str!("../../static/style.css").contains("url("));
}

#[tokio::test]
async fn crawlers_are_refused_unless_links_are_crawlable() {
    for (crawlable, rules, tag) in [
        (false, "User-agent: *\nDisallow: /\n", "noindex, nofollow"),
        (true, "User-agent: *\nDisallow: /api/\n", ""),
    ] {
        let fixture = open_with(|config| config.crawlable = crawlable);
        fixture.link(Some("here"), "https://example.com/").await;
        let robots = fixture.get("/robots.txt").await;
        assert_eq!((robots.status, robots.text().as_str()), (StatusCode::OK, rules));
        assert_eq!(robots.header("content-type"), "text/plain; charset=utf-8");
        for path in ["/here", "/nowhere", "/", "/api/links"] {
            assert_eq!(fixture.get(path).await.header("x-robots-tag"), tag, "{path}");
        }
    }
}

#[tokio::test]
async fn crawlable_link_is_allowed_where_the_service_refuses_crawlers() {
    let fixture = open();
    fixture.link(Some("private"), "https://example.com/").await;
    for slug in ["one", "two", "gone"] {
        let link = json!({ "url": "https://example.com/", "slug": slug, "crawlable": true });
        assert_eq!(fixture.post("/api/links", link).await.status, StatusCode::CREATED);
    }
    fixture.send_json(Method::DELETE, "/api/links/gone", json!({})).await;
    let robots = async || fixture.get("/robots.txt").await.text();
    assert_eq!(robots().await, "User-agent: *\nAllow: /two$\nAllow: /one$\nDisallow: /\n");
    let tag = async |slug: &str| fixture.get(&format!("/{slug}")).await.header("x-robots-tag").to_owned();
    assert_eq!((tag("one").await, tag("private").await), ("all".to_owned(), "noindex, nofollow".to_owned()));
    fixture.send_json(Method::PATCH, "/api/links/one", json!({ "crawlable": false })).await;
    assert_eq!((tag("one").await, robots().await.contains("/one$")), ("noindex, nofollow".to_owned(), false));
    assert_eq!(fixture.get("/api/links/two").await.json()["crawlable"], true);
}

//! A slug leads to its target out of the cache, the moment it is made and until it is deleted.

use crate::support::{open, open_with, request};
use axum::body::Body;
use http::{Method, StatusCode};
use serde_json::json;

#[tokio::test]
async fn redirect_is_not_stored_by_browsers() {
    let fixture = open();
    let slug = fixture.link(None, "https://example.com/a?b=c#d").await;
    for _ in 0..2 {
        let answer = fixture.get(&format!("/{slug}")).await;
        assert_eq!(answer.status, StatusCode::FOUND);
        assert_eq!(answer.header("location"), "https://example.com/a?b=c#d");
        assert_eq!(answer.header("cache-control"), "private, no-store");
        assert!(answer.body.is_empty());
    }
    assert_eq!(fixture.links.cache().stats().loads, 1, "the second one came out of the cache");
    assert_eq!(fixture.links.stats().redirects.found, 2);
    assert_eq!(fixture.links.stats().redirect_latency.count(), 2);
}

#[tokio::test]
async fn redirect_status_is_configurable() {
    for status in [301, 302, 307, 308] {
        let fixture = open_with(|config| config.redirect_status = status);
        fixture.link(Some("a"), "https://a.example/").await;
        let answer = fixture.get("/a").await;
        assert_eq!(answer.status, status);
        assert_eq!(answer.header("cache-control"), "private, no-store");
    }
}

#[tokio::test]
async fn non_ascii_address_is_encoded_in_location() {
    let fixture = open();
    fixture.link(Some("u"), "https://bücher.example/straße?q=ä b").await;
    let location = fixture.get("/u").await;
    assert_eq!(location.header("location"), "https://xn--bcher-kva.example/stra%C3%9Fe?q=%C3%A4%20b");
    assert_eq!(
        fixture.get("/api/links/u").await.json()["url"],
        "https://xn--bcher-kva.example/stra%C3%9Fe?q=%C3%A4%20b"
    );
}

#[tokio::test]
async fn unknown_slug_is_404_cached_or_not() {
    let fixture = open();
    for _ in 0..3 {
        let answer = fixture.get("/nowhere").await;
        assert_eq!(answer.status, StatusCode::NOT_FOUND);
        assert!(answer.header("content-type").starts_with("text/html"));
        assert_eq!(answer.header("cache-control"), "no-store");
        assert!(answer.text().contains("There is no link here"));
    }
    assert_eq!(fixture.links.stats().redirects.not_found, 3);
    assert_eq!(fixture.links.cache().stats().loads, 1, "the absence was remembered");
    for path in
        ["/a.b", "/a/b", "/%00", "/%ff", "/static/none.js", "/favicon.ico", &format!("/{}", "x".repeat(65))]
    {
        let answer = fixture.get(path).await;
        assert!(answer.status.is_client_error() && answer.text().contains("There is no link here"), "{path}");
    }
}

#[tokio::test]
async fn error_page_contains_nothing_of_the_request() {
    let fixture = open();
    let answer = fixture.get("/%3Cscript%3Ealert(1)%3C%2Fscript%3E").await;
    assert_eq!(answer.status, StatusCode::NOT_FOUND);
    assert!(!answer.text().contains("alert"));
}

#[tokio::test]
async fn pages_of_the_operator_keep_the_status_and_escape_the_slug() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str, text: &str| {
        let path = folder.path().join(name);
        std::fs::write(&path, text).unwrap();
        Some(path)
    };
    let fixture = open_with(|config| {
        config.unknown_page = path("404.html", "<p title='{slug}'>No {slug}</p>");
        config.expired_page = path("410.html", "<p>Over: {slug}</p>");
    });
    let unknown = fixture.get("/nowhere").await;
    assert_eq!(
        (unknown.status, unknown.text().as_str()),
        (StatusCode::NOT_FOUND, "<p title='nowhere'>No nowhere</p>")
    );
    assert!(unknown.header("content-type").starts_with("text/html"));
    let policy = unknown.header("content-security-policy");
    assert!(policy.contains("style-src 'self' 'unsafe-inline'") && !policy.contains("script"), "{policy}");
    let hostile = fixture.get("/a/'onload=x&y").await;
    assert_eq!(hostile.status, StatusCode::NOT_FOUND);
    assert_eq!(hostile.text(), "<p title='a/&#39;onload=x&amp;y'>No a/&#39;onload=x&amp;y</p>");
    let ended = json!({"url": "https://a.example/", "slug": "over", "expires_at": 1});
    assert_eq!(fixture.post("/api/links", ended).await.status, StatusCode::CREATED);
    fixture.link(Some("gone"), "https://a.example/").await;
    fixture.send_json(Method::DELETE, "/api/links/gone", json!({})).await;
    for slug in ["over", "gone"] {
        let answer = fixture.get(&format!("/{slug}")).await;
        assert_eq!((answer.status, answer.text()), (StatusCode::GONE, format!("<p>Over: {slug}</p>")));
        assert_eq!(answer.header("cache-control"), "no-store");
    }
}

#[tokio::test]
async fn addresses_of_the_operator_get_the_slug_encoded() {
    let fixture = open_with(|config| {
        config.unknown_redirect = Some("https://example.com/search?q={slug}".into());
        config.expired_redirect = Some("https://example.com/over".into());
    });
    for (path, location) in [
        ("/nowhere", "https://example.com/search?q=nowhere"),
        ("/a/b&c=d", "https://example.com/search?q=a%2Fb%26c%3Dd"),
        ("/a%0d%0ab", "https://example.com/search?q=a%250d%250ab"),
    ] {
        let answer = fixture.get(path).await;
        assert_eq!((answer.status, answer.header("location")), (StatusCode::FOUND, location), "{path}");
        assert_eq!(answer.header("cache-control"), "no-store");
    }
    let ended = json!({"url": "https://a.example/", "slug": "over", "expires_at": 1});
    assert_eq!(fixture.post("/api/links", ended).await.status, StatusCode::CREATED);
    assert_eq!(fixture.get("/over").await.header("location"), "https://example.com/over");
    fixture.links.flush_visits().await.unwrap();
    assert_eq!(fixture.written_visits("over").await, 0);
}

#[tokio::test]
async fn wrong_page_or_address_of_the_operator_is_refused_at_the_start() {
    let refused = |change: &dyn Fn(&mut larder_links::Config)| {
        let mut config = larder_links::Config::default();
        change(&mut config);
        config.validate().unwrap_err().to_string()
    };
    for address in
        ["/over", "ftp://a.example/", "https://{slug}.example/", "https://{slug}", "//a.example/", ""]
    {
        let message = refused(&|config| config.unknown_redirect = Some(address.into()));
        assert!(message.starts_with("unknown_redirect is "), "{address}: {message}");
    }
    let both = refused(&|config| {
        config.expired_page = Some("410.html".into());
        config.expired_redirect = Some("https://a.example/".into());
    });
    assert!(both.contains("expected nothing beside the page"), "{both}");

    let folder = tempfile::tempdir().unwrap();
    let mut config = larder_links::Config {
        database: folder.path().join("links.db").display().to_string(),
        unknown_page: Some(folder.path().join("none.html")),
        ..larder_links::Config::default()
    };
    let open = |config: &larder_links::Config| {
        larder_links::Links::open(config.clone(), larder_links::Deps::open(config).unwrap()).err()
    };
    let missing = open(&config).expect("no page").to_string();
    assert!(missing.starts_with("unknown_page is ") && missing.contains("No such file"), "{missing}");
    let large = folder.path().join("large.html");
    std::fs::write(&large, "x".repeat(256 * 1024 + 1)).unwrap();
    config.unknown_page = Some(large);
    assert!(open(&config).expect("too large").to_string().contains("at most 262144 bytes"));
}

#[tokio::test]
async fn negative_entry_ends_when_the_link_is_created() {
    let fixture = open();
    assert_eq!(fixture.get("/later").await.status, StatusCode::NOT_FOUND);
    assert_eq!(fixture.get("/batched").await.status, StatusCode::NOT_FOUND);
    fixture.link(Some("later"), "https://later.example/").await;
    assert_eq!(fixture.get("/later").await.header("location"), "https://later.example/");
    fixture.post("/api/links/batch", json!([{"url": "https://batched.example/", "slug": "batched"}])).await;
    assert_eq!(fixture.get("/batched").await.header("location"), "https://batched.example/");
}

#[tokio::test]
async fn update_and_deletion_take_effect_at_once() {
    let fixture = open();
    fixture.link(Some("moving"), "https://one.example/").await;
    assert_eq!(fixture.get("/moving").await.header("location"), "https://one.example/");
    fixture.send_json(Method::PATCH, "/api/links/moving", json!({"url": "https://two.example/"})).await;
    assert_eq!(fixture.get("/moving").await.header("location"), "https://two.example/");
    fixture.send_json(Method::DELETE, "/api/links/moving", json!({})).await;
    assert_eq!(fixture.get("/moving").await.status, StatusCode::GONE);
}

#[tokio::test]
async fn cached_slug_needs_no_database() {
    let fixture = open();
    fixture.link(Some("known"), "https://known.example/").await;
    assert_eq!(fixture.get("/known").await.status, StatusCode::FOUND);
    assert_eq!(fixture.get("/unknown").await.status, StatusCode::NOT_FOUND);
    fixture.links.store().close().await;

    assert_eq!(fixture.get("/known").await.status, StatusCode::FOUND);
    assert_eq!(fixture.get("/unknown").await.status, StatusCode::NOT_FOUND);
    let answer = fixture.get("/never-asked").await;
    assert_eq!(answer.status, StatusCode::SERVICE_UNAVAILABLE);
    assert_eq!(answer.header("retry-after"), "1");
    assert!(answer.text().contains("Back in a moment"));
    assert_eq!(fixture.links.stats().redirects.error, 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn concurrent_requests_for_a_cold_slug_load_once() {
    let fixture = std::sync::Arc::new(open());
    fixture.link(Some("hot"), "https://hot.example/").await;
    let crowd: Vec<_> = (0..200)
        .map(|_| {
            let fixture = fixture.clone();
            tokio::spawn(async move { fixture.get("/hot").await.status })
        })
        .collect();
    for visitor in crowd {
        assert_eq!(visitor.await.unwrap(), StatusCode::FOUND);
    }
    assert_eq!(fixture.links.cache().stats().loads, 1);
    assert_eq!(fixture.links.stats().visits.queued, 200);
}

#[tokio::test]
async fn other_methods_on_a_short_link_are_405_whatever_they_contain() {
    let fixture = open();
    fixture.link(Some("here"), "https://example.com/").await;
    for method in [Method::POST, Method::PUT, Method::PATCH, Method::DELETE, Method::OPTIONS] {
        for content_type in ["text/plain", "application/json", "multipart/form-data; boundary=x"] {
            for path in ["/here", "/nowhere", "/", "/healthz", "/static/app.js"] {
                let request = request(method.clone(), path).header("content-type", content_type);
                let request = request.header("origin", "https://other.example").body(Body::from("a=b"));
                let answer = fixture.send(request.unwrap()).await;
                assert_eq!(
                    answer.status,
                    StatusCode::METHOD_NOT_ALLOWED,
                    "{method} {path}: {}",
                    answer.text()
                );
                assert_eq!(answer.header("allow"), "GET,HEAD", "{method} {path}");
            }
        }
    }
}

/// What follows a link that nobody has clicked.
const BOTS: [(&str, &str); 7] = [
    ("user-agent", "WhatsApp/2.23.20.0 A"),
    ("user-agent", "Slackbot-LinkExpanding 1.0 (+https://api.slack.com/robots)"),
    ("user-agent", "Mozilla/5.0 (compatible; Googlebot/2.1; +http://www.google.com/bot.html)"),
    ("user-agent", "facebookexternalhit/1.1 (+http://www.facebook.com/externalhit_uatext.php)"),
    ("sec-purpose", "prefetch"),
    ("sec-purpose", "prefetch;prerender"),
    ("purpose", "prefetch"),
];

#[tokio::test]
async fn bots_and_prefetches_redirect_without_a_visit_and_use_up_no_limit() {
    let fixture = open();
    fixture.link(Some("free"), "https://example.com/").await;
    let once = json!({"url": "https://example.com/", "slug": "once", "max_visits": 1});
    assert_eq!(fixture.post("/api/links", once).await.status, StatusCode::CREATED);
    for slug in ["free", "once"] {
        for (name, value) in BOTS {
            let request = request(Method::GET, &format!("/{slug}")).header(name, value);
            let answer = fixture.send(request.body(Body::empty()).unwrap()).await;
            assert_eq!(answer.status, StatusCode::FOUND, "{slug} for {name}: {value}");
        }
        fixture.links.flush_visits().await.unwrap();
        assert_eq!(fixture.written_visits(slug).await, 0, "{slug}");
    }
    // The one visit is left for a person.
    let browser = "Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0";
    for expected in [StatusCode::FOUND, StatusCode::GONE] {
        let request = request(Method::GET, "/once").header("user-agent", browser);
        assert_eq!(fixture.send(request.body(Body::empty()).unwrap()).await.status, expected);
    }
    let bots = fixture.get("/api/links/free").await.json()["dimensions"].to_string();
    assert!(bots.contains("WhatsApp") && bots.contains("Googlebot"), "{bots}");
}

#[tokio::test]
async fn head_redirects_without_a_visit() {
    let fixture = open();
    fixture.link(Some("head"), "https://example.com/").await;
    let answer = fixture.send(request(Method::HEAD, "/head").body(Body::empty()).unwrap()).await;
    assert_eq!(answer.status, StatusCode::FOUND);
    assert_eq!(answer.header("location"), "https://example.com/");
    fixture.links.flush_visits().await.unwrap();
    assert_eq!(fixture.written_visits("head").await, 0);
}

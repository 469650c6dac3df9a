//! A link ends at its date and its limit of visits, forwards the query if it should, and has tags.

use crate::support::{Fixture, open, open_with, request};
use axum::body::Body;
use http::{Method, StatusCode};
use larder_links::{Deps, Links};
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

fn now_ms() -> i64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_millis() as i64
}

async fn create(fixture: &Fixture, slug: &str, options: Value) {
    let mut link = json!({ "url": "https://example.com/", "slug": slug });
    link.as_object_mut().unwrap().extend(options.as_object().unwrap().clone());
    let answer = fixture.post("/api/links", link).await;
    assert_eq!(answer.status, StatusCode::CREATED, "{}", answer.text());
}

async fn status(fixture: &Fixture, path: &str) -> StatusCode {
    fixture.get(path).await.status
}

#[tokio::test]
async fn link_redirects_until_its_date_also_from_the_cache() {
    let fixture = open();
    let end = now_ms() + 400;
    create(&fixture, "a", json!({ "expires_at": end })).await;
    assert_eq!(status(&fixture, "/a").await, StatusCode::FOUND);
    while now_ms() < end {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let gone = fixture.get("/a").await;
    assert_eq!(gone.status, StatusCode::GONE);
    assert_eq!(gone.header("cache-control"), "no-store");
    assert!(gone.text().contains("This link has expired"), "{}", gone.text());
    assert_eq!(fixture.links.cache().stats().loads, 1, "the entry knows the date");
    assert_eq!(fixture.links.stats().redirects.gone, 1);
    fixture.links.flush_visits().await.unwrap();
    assert_eq!(fixture.written_visits("a").await, 1);

    // Without a date it redirects again.
    let answer = fixture.send_json(Method::PATCH, "/api/links/a", json!({ "expires_at": null })).await;
    assert_eq!((answer.status, &answer.json()["expires_at"]), (StatusCode::OK, &Value::Null));
    assert_eq!(status(&fixture, "/a").await, StatusCode::FOUND);
}

#[tokio::test]
async fn date_is_a_time_or_milliseconds_and_wrong_options_are_named() {
    let fixture = open();
    create(&fixture, "a", json!({ "expires_at": "2100-01-01T01:00:00+01:00" })).await;
    assert_eq!(fixture.get("/api/links/a").await.json()["expires_at"], 4_102_444_800_000_i64);
    for (field, value) in [
        ("expires_at", json!("tomorrow")),
        ("expires_at", json!(-1)),
        ("expires_at", json!(1.5)),
        ("max_visits", json!(0)),
        ("max_visits", json!("3")),
        ("forward_query", json!("yes")),
        ("crawlable", json!(1)),
        ("tags", json!("a")),
        ("tags", json!([1])),
        ("tags", json!(["a,b"])),
        ("tags", json!(vec!["a"; 17])),
    ] {
        let mut link = json!({ "url": "https://example.com/" });
        link[field] = value;
        let answer = fixture.post("/api/links", link).await;
        assert_eq!(answer.status, StatusCode::UNPROCESSABLE_ENTITY, "{field}: {}", answer.text());
        assert_eq!(answer.json()["error"]["field"], field);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn limit_of_visits_is_exact_under_concurrent_requests_and_writes() {
    const ROUNDS: u64 = 12;
    let fixture = Arc::new(open_with(|config| config.visit_flush_ms = 10));
    for round in 0..ROUNDS {
        let slug = format!("few{round}");
        create(&fixture, &slug, json!({ "max_visits": 25 })).await;
        let crowd: Vec<_> = (0..8)
            .map(|_| {
                let (fixture, path) = (fixture.clone(), format!("/{slug}"));
                tokio::spawn(async move {
                    let mut redirects = 0;
                    for request in 0..40 {
                        redirects += usize::from(status(&fixture, &path).await == StatusCode::FOUND);
                        // The next visit of the link reads the database, while others are being written.
                        if request % 2 == 0 {
                            fixture.links.flush_visits().await.unwrap();
                        }
                    }
                    redirects
                })
            })
            .collect();
        let mut redirects = 0;
        for visitor in crowd {
            redirects += visitor.await.unwrap();
        }
        assert_eq!(redirects, 25);
        fixture.links.flush_visits().await.unwrap();
        assert_eq!(fixture.written_visits(&slug).await, 25);
    }
    assert_eq!(fixture.links.stats().redirects.gone, ROUNDS * (8 * 40 - 25));
}

#[tokio::test]
async fn limit_of_visits_counts_those_before_it_and_ignores_head() {
    let fixture = open();
    create(&fixture, "a", json!({})).await;
    // One visit is in the database and one in memory.
    status(&fixture, "/a").await;
    fixture.links.flush_visits().await.unwrap();
    status(&fixture, "/a").await;
    fixture.send_json(Method::PATCH, "/api/links/a", json!({ "max_visits": 3 })).await;
    let head = || fixture.send(request(Method::HEAD, "/a").body(Body::empty()).unwrap());
    assert_eq!(head().await.status, StatusCode::FOUND);
    assert_eq!(status(&fixture, "/a").await, StatusCode::FOUND);
    assert_eq!(head().await.status, StatusCode::GONE);
    for _ in 0..2 {
        assert_eq!(status(&fixture, "/a").await, StatusCode::GONE);
        fixture.links.flush_visits().await.unwrap();
    }
    assert_eq!(fixture.written_visits("a").await, 3);
    fixture.send_json(Method::PATCH, "/api/links/a", json!({ "max_visits": 4 })).await;
    assert_eq!(status(&fixture, "/a").await, StatusCode::FOUND);
    assert_eq!(status(&fixture, "/a").await, StatusCode::GONE);
}

#[tokio::test]
async fn limit_of_visits_survives_a_failed_write() {
    let fixture = open();
    create(&fixture, "a", json!({ "max_visits": 2 })).await;
    assert_eq!(status(&fixture, "/a").await, StatusCode::FOUND);
    fixture.links.store().close().await;
    fixture.links.flush_visits().await.unwrap_err();
    assert_eq!(status(&fixture, "/a").await, StatusCode::FOUND);
    assert_eq!(status(&fixture, "/a").await, StatusCode::GONE);
}

#[tokio::test]
async fn other_instance_knows_the_visits_after_one_interval() {
    let fixture = open();
    create(&fixture, "a", json!({ "max_visits": 10 })).await;
    let links = Links::open(fixture.config.clone(), Deps::open(&fixture.config).unwrap()).unwrap();
    let other = Fixture { links, config: fixture.config.clone(), folder: tempfile::tempdir().unwrap() };
    for _ in 0..4 {
        assert_eq!(status(&fixture, "/a").await, StatusCode::FOUND);
        assert_eq!(status(&other, "/a").await, StatusCode::FOUND);
    }
    fixture.links.flush_visits().await.unwrap();
    other.links.flush_visits().await.unwrap();
    let mut redirects = 8;
    for _ in 0..5 {
        for instance in [&fixture, &other] {
            redirects += usize::from(status(instance, "/a").await == StatusCode::FOUND);
        }
    }
    // Two were left. Within the interval, neither can know of the two visits of the other.
    assert_eq!(redirects, 12);
    other.links.stop().await.unwrap();
}

#[tokio::test]
async fn full_table_of_visits_refuses_a_link_with_a_limit() {
    let fixture = open_with(|config| config.visit_queue = 1);
    create(&fixture, "few", json!({ "max_visits": 5 })).await;
    create(&fixture, "many", json!({})).await;
    assert_eq!(status(&fixture, "/many").await, StatusCode::FOUND);
    // A redirect that cannot be counted could be one too many.
    assert_eq!(status(&fixture, "/few").await, StatusCode::SERVICE_UNAVAILABLE);
    fixture.links.flush_visits().await.unwrap();
    assert_eq!(status(&fixture, "/few").await, StatusCode::FOUND);
}

#[tokio::test]
async fn query_is_forwarded_by_choice() {
    let fixture = open();
    create(&fixture, "on", json!({ "url": "https://example.com/p?own=1#top", "forward_query": true })).await;
    create(&fixture, "off", json!({})).await;
    let location = async |path: &str| fixture.get(path).await.header("location").to_owned();
    assert_eq!(location("/on?utm=a%20b&x").await, "https://example.com/p?own=1&utm=a%20b&x#top");
    assert_eq!(location("/on?").await, "https://example.com/p?own=1#top");
    assert_eq!(location("/off?utm=a").await, "https://example.com/");
    // The query neither splits the header nor leads to another host.
    assert_eq!(
        location("/on?//evil.example/%0d%0aSet-Cookie:x").await,
        "https://example.com/p?own=1&//evil.example/%0d%0aSet-Cookie:x#top"
    );
    fixture.send_json(Method::PATCH, "/api/links/on", json!({ "forward_query": false })).await;
    assert_eq!(location("/on?utm=a").await, "https://example.com/p?own=1#top");
}

#[tokio::test]
async fn tags_are_listed_changed_and_removed_with_their_link() {
    let fixture = open();
    create(&fixture, "a", json!({ "tags": ["News", "  spring 2027 ", "news"] })).await;
    create(&fixture, "b", json!({ "tags": ["news"] })).await;
    create(&fixture, "c", json!({})).await;
    let list = async |query: &str| fixture.get(&format!("/api/links?{query}")).await.json();
    let slugs = async |query: &str| -> Vec<String> {
        let links = list(query).await["links"].as_array().unwrap().clone();
        links.iter().map(|link| link["slug"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(fixture.get("/api/links/a").await.json()["tags"], json!(["news", "spring 2027"]));
    assert_eq!(slugs("tag=NEWS").await, ["b", "a"]);
    let first = list("tag=news&limit=1").await;
    assert_eq!(first["links"][0]["slug"], "b");
    let second = list(&format!("tag=news&limit=1&after={}", first["next"].as_str().unwrap())).await;
    assert_eq!((&second["links"][0]["slug"], &second["next"]), (&json!("a"), &Value::Null));
    assert_eq!(slugs("tag=spring+2027&q=example").await, ["a"]);
    assert_eq!(slugs("tag=unknown").await, Vec::<String>::new());

    fixture.send_json(Method::PATCH, "/api/links/a", json!({ "tags": ["old"] })).await;
    assert_eq!(slugs("tag=news").await, ["b"]);
    assert_eq!(slugs("tag=old").await, ["a"]);
    // A change of another field leaves the tags.
    fixture.send_json(Method::PATCH, "/api/links/a", json!({ "title": "A" })).await;
    assert_eq!(slugs("tag=old").await, ["a"]);
    fixture.send_json(Method::DELETE, "/api/links/a", json!({})).await;
    assert_eq!(slugs("tag=old").await, Vec::<String>::new());
    assert_eq!(slugs("tag=old&deleted=true").await, ["a"]);
}

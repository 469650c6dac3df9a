//! Links are created, listed, shown, updated and deleted; invalid input is reported with field and value.

use crate::support::{open, open_with, request};
use axum::body::Body;
use http::header::{CONTENT_LENGTH, CONTENT_TYPE, HOST};
use http::{Method, Request, StatusCode};
use larder_links::Scope;
use serde_json::{Value, json};

#[tokio::test]
async fn created_link_is_shown() {
    let fixture = open();
    let answer =
        fixture.post("/api/links", json!({ "url": " https://example.com/a?b#c ", "title": " A " })).await;
    assert_eq!(answer.status, StatusCode::CREATED);
    let made = answer.json();
    let slug = made["slug"].as_str().unwrap();
    assert_eq!(slug.len(), 6);
    assert_eq!(made["short_url"], format!("http://localhost:8080/{slug}"));
    assert_eq!(made["url"], "https://example.com/a?b#c");
    assert_eq!(made["title"], "A");
    assert_eq!(made["visits"], 0);
    assert!(made["created_at"].as_i64().unwrap() > 1_700_000_000_000);
    assert_eq!(answer.header("location"), format!("/api/links/{slug}"));

    let shown = fixture.get(answer.header("location")).await.json();
    for field in ["slug", "short_url", "url", "title", "visits", "created_at"] {
        assert_eq!(shown[field], made[field], "{field}");
    }
    assert_eq!(shown["days"], json!([]));
}

#[tokio::test]
async fn short_url_starts_with_public_url_if_set() {
    let fixture = open_with(|config| config.public_url = Some("https://s.example".into()));
    let (_, bearer) = fixture.bearer(Scope::Write).await;
    let link = json!({ "url": "https://example.com", "slug": "mine" });
    let answer = fixture.ask(Method::POST, "/api/links", &[("authorization", &bearer)], Some(link)).await;
    assert_eq!(answer.json()["short_url"], "https://s.example/mine");
}

#[tokio::test]
async fn invalid_input_is_reported_with_field_and_value() {
    let fixture = open();
    let long = "x".repeat(600);
    for (input, field, value, message) in [
        (json!({}), "url", "", "is missing: an http or https address is needed"),
        (json!({"url": ""}), "url", "", "is missing: an http or https address is needed"),
        (json!({"url": null}), "url", "", "is missing: an http or https address is needed"),
        (
            json!({"url": "example.com"}),
            "url",
            "example.com",
            "must be absolute, with http:// or https:// and a host",
        ),
        (
            json!({"url": "ftp://a.example"}),
            "url",
            "ftp://a.example",
            "must begin with http:// or https://; ftp: is not allowed",
        ),
        (
            json!({"url": "https://me:pw@a.example/"}),
            "url",
            "https://me:pw@a.example/",
            "must not contain a user name or password",
        ),
        (
            json!({"url": "http://LOCALHOST:8080/x"}),
            "url",
            "http://localhost:8080/x",
            "points to this service",
        ),
        (
            json!({"url": "http:\\\\example.com"}),
            "url",
            "http:\\\\example.com",
            "must have :// after the scheme",
        ),
        (
            json!({"url": "http://0.0.0.0:8080/slug"}),
            "url",
            "http://0.0.0.0:8080/slug",
            "points to this service",
        ),
        (
            json!({"url": "https://a.example", "title": "\u{1b}[2J"}),
            "title",
            "\u{1b}[2J",
            "contains the control character '\\u{1b}'",
        ),
        (
            json!({"url": "https://a.example", "title": "a\0b"}),
            "title",
            "a\0b",
            "contains the control character '\\0'",
        ),
        (json!({"url": 7}), "url", "7", "must be a string, not a number"),
        (
            json!({"url": "https://a.example", "slug": "a b"}),
            "slug",
            "a b",
            "may contain letters, digits, '-' and '_' only, not ' '",
        ),
        (
            json!({"url": "https://a.example", "slug": "API"}),
            "slug",
            "API",
            "is reserved for the service; choose another",
        ),
        (
            json!({"url": "https://a.example", "title": long}),
            "title",
            &format!("{}…", "x".repeat(200)),
            "is 600 bytes long; at most 512 are allowed",
        ),
        (
            json!({"url": "https://a.example", "titel": "x"}),
            "titel",
            "\"x\"",
            "is unknown; expected one of: url, slug, title, tags, expires_at, max_visits, forward_query, crawlable",
        ),
        (json!([]), "body", "an array", "must be an object"),
    ] {
        let answer = fixture.post("/api/links", input.clone()).await;
        assert_eq!(answer.status, StatusCode::UNPROCESSABLE_ENTITY, "{input}");
        assert_eq!(
            answer.json(),
            json!({"error": {"field": field, "value": value, "message": message}}),
            "{input}"
        );
    }
    assert_eq!(fixture.get("/api/links").await.json()["links"], json!([]));
}

#[tokio::test]
async fn malformed_body_has_its_own_status() {
    let fixture = open();
    let send = async |content_type: &str, body: Vec<u8>| {
        let request = request(Method::POST, "/api/links").header(CONTENT_TYPE, content_type);
        fixture.send(request.body(Body::from(body)).unwrap()).await
    };
    for body in ["", "{", "{\"url\": \"https://a.example\"", "nonsense", "{} {}"] {
        let answer = send("application/json", body.into()).await;
        assert_eq!(answer.status, StatusCode::BAD_REQUEST, "{body:?}");
        assert!(answer.json()["error"]["message"].as_str().unwrap().starts_with("the body is not JSON: "));
    }
    let nested = "[".repeat(100_000);
    assert_eq!(send("application/json", nested.clone().into()).await.status, StatusCode::PAYLOAD_TOO_LARGE);
    assert_eq!(send("application/json", nested[..60_000].into()).await.status, StatusCode::BAD_REQUEST);
    assert_eq!(send("application/json", vec![0xff]).await.status, StatusCode::BAD_REQUEST);

    // Refused by what is announced, before a byte of it is read.
    let announced = request(Method::POST, "/api/links")
        .header(CONTENT_TYPE, "application/json")
        .header(CONTENT_LENGTH, "18446744073709551615");
    let answer = fixture.send(announced.body(Body::empty()).unwrap()).await;
    assert_eq!(answer.status, StatusCode::PAYLOAD_TOO_LARGE);
    assert_eq!(answer.json()["error"]["message"], "the body is too large: at most 65536 bytes are allowed");
}

#[tokio::test(start_paused = true)]
async fn missing_body_times_out() {
    let fixture = open();
    let (_sender, body) = http_body_util::channel::Channel::<bytes::Bytes>::new(1);
    let endless = request(Method::POST, "/api/links").header(CONTENT_TYPE, "application/json");
    let answer = fixture.send(endless.body(Body::new(body)).unwrap()).await;
    assert_eq!(answer.status, StatusCode::REQUEST_TIMEOUT);
    assert_eq!(answer.json()["error"]["message"], "the body did not arrive within 30 s");
}

#[tokio::test]
async fn slug_in_use_is_a_conflict() {
    let fixture = open();
    fixture.link(Some("mine"), "https://one.example/").await;
    let answer = fixture.post("/api/links", json!({"url": "https://two.example/", "slug": "mine"})).await;
    assert_eq!(answer.status, StatusCode::CONFLICT);
    let error = json!({"error": {"field": "slug", "value": "mine", "message": "is taken; choose another"}});
    assert_eq!(answer.json(), error);
    // Case counts.
    fixture.link(Some("Mine"), "https://three.example/").await;
    assert_eq!(fixture.get("/mine").await.header("location"), "https://one.example/");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn concurrent_creates_of_one_slug_succeed_once() {
    let fixture = std::sync::Arc::new(open());
    let tasks: Vec<_> = (0..50)
        .map(|n| {
            let fixture = fixture.clone();
            tokio::spawn(async move {
                let input = json!({"url": format!("https://example.com/{n}"), "slug": "wanted"});
                (n, fixture.post("/api/links", input).await.status)
            })
        })
        .collect();
    let mut winners = Vec::new();
    for task in tasks {
        match task.await.unwrap() {
            (n, StatusCode::CREATED) => winners.push(n),
            (_, status) => assert_eq!(status, StatusCode::CONFLICT),
        }
    }
    let [winner] = winners.as_slice() else { panic!("{winners:?} got the slug") };
    assert_eq!(fixture.get("/wanted").await.header("location"), format!("https://example.com/{winner}"));
}

#[tokio::test]
async fn derived_slug_in_use_is_skipped() {
    let fixture = open();
    let next = fixture.links.store().slugs().encode(2).unwrap();
    fixture.link(Some(&next), "https://chosen.example/").await;
    let derived = fixture.link(None, "https://derived.example/").await;
    assert_ne!(derived, next);
    assert_eq!(fixture.get(&format!("/{next}")).await.header("location"), "https://chosen.example/");
    assert_eq!(fixture.get(&format!("/{derived}")).await.header("location"), "https://derived.example/");
}

#[tokio::test]
async fn list_is_paged_from_newest_to_oldest() {
    let fixture = open();
    for n in 0..7 {
        fixture.link(Some(&format!("n{n}")), &format!("https://example.com/{n}")).await;
    }
    let mut seen = Vec::new();
    let mut path = "/api/links?limit=3".to_owned();
    for expected in [3, 3, 1] {
        let page = fixture.get(&path).await.json();
        let links = page["links"].as_array().unwrap().clone();
        assert_eq!(links.len(), expected);
        seen.extend(links.iter().map(slug_of));
        // The cursor works even if the link it was made of is gone.
        let last = fixture
            .send_json(Method::DELETE, &format!("/api/links/{}", seen.last().unwrap()), json!({}))
            .await;
        assert_eq!(last.status, StatusCode::NO_CONTENT);
        path = format!("/api/links?limit=3&after={}", page["next"].as_str().unwrap_or("none"));
    }
    assert_eq!(seen, ["n6", "n5", "n4", "n3", "n2", "n1", "n0"]);
    assert!(path.ends_with("none"), "the last page has no next one");
}

#[tokio::test]
async fn list_contains_a_link_right_after_its_creation() {
    let fixture = open();
    assert_eq!(fixture.get("/api/links").await.json()["links"], json!([]));
    for n in 1..=3 {
        fixture.link(None, "https://example.com/").await;
        assert_eq!(fixture.get("/api/links").await.json()["links"].as_array().unwrap().len(), n);
    }
}

#[tokio::test]
async fn unchanged_list_is_served_from_the_response_cache() {
    let fixture = open();
    fixture.link(Some("a"), "https://a.example/").await;
    let first = fixture.get("/api/links").await;
    let second = fixture.get("/api/links").await;
    assert_eq!(first.body, second.body);
    assert!(second.header("cache-status").contains("; hit"), "{}", second.header("cache-status"));
    // Another host gets short addresses of its own.
    let other = Request::get("/api/links").header(HOST, "127.0.0.1:8080").body(Body::empty()).unwrap();
    assert_eq!(fixture.send(other).await.json()["links"][0]["short_url"], "http://127.0.0.1:8080/a");
    // What is wrong is not kept.
    for _ in 0..2 {
        let wrong = fixture.get("/api/links?limit=0").await;
        assert!(!wrong.header("cache-status").contains("; hit"), "{}", wrong.header("cache-status"));
    }
}

#[tokio::test]
async fn search_matches_slug_title_and_address() {
    let fixture = open();
    for (slug, url, title) in [
        ("first", "https://example.com/aaa", "Quarterly report"),
        ("second", "https://example.org/100%25_done", ""),
        ("third", "https://example.net/", "100 other"),
    ] {
        fixture.post("/api/links", json!({"url": url, "slug": slug, "title": title})).await;
    }
    for (query, expected) in [
        ("SECON", vec!["second"]),
        ("report", vec!["first"]),
        ("example.", vec!["third", "second", "first"]),
        ("100%25", vec!["second"]),
        ("_done", vec!["second"]),
        ("10", vec!["third"]),
        ("nowhere", vec![]),
        ("", vec!["third", "second", "first"]),
    ] {
        let encoded: String = url::form_urlencoded::byte_serialize(query.as_bytes()).collect();
        let page = fixture.get(&format!("/api/links?q={encoded}")).await.json();
        let found: Vec<_> = page["links"].as_array().unwrap().iter().map(slug_of).collect();
        assert_eq!(found, expected, "{query}");
        assert_eq!(page["next"], Value::Null);
    }
}

#[tokio::test]
async fn invalid_query_is_reported_with_its_range() {
    let fixture = open();
    for (query, field, message) in [
        ("limit=0", "limit", "must be a whole number from 1 to 200"),
        ("limit=201", "limit", "must be a whole number from 1 to 200"),
        ("limit=x", "limit", "must be a whole number from 1 to 200"),
        ("after=!", "after", "must be the `next` of an earlier response with the same sort"),
        ("page=2", "page", "is unknown; expected limit, sort, after, q, tag or deleted"),
    ] {
        let answer = fixture.get(&format!("/api/links?{query}")).await;
        assert_eq!(answer.status, StatusCode::UNPROCESSABLE_ENTITY, "{query}");
        assert_eq!(answer.json()["error"]["field"], field);
        assert_eq!(answer.json()["error"]["message"], message);
    }
}

#[tokio::test]
async fn link_is_updated_and_deleted() {
    let fixture = open();
    let slug = fixture.link(None, "https://old.example/").await;
    let path = format!("/api/links/{slug}");
    assert_eq!(fixture.get(&path).await.json()["url"], "https://old.example/");

    let changed =
        fixture.send_json(Method::PATCH, &path, json!({"url": "https://new.example/", "title": "New"})).await;
    assert_eq!(changed.status, StatusCode::OK);
    for answer in [changed, fixture.get(&path).await] {
        assert_eq!(answer.json()["url"], "https://new.example/");
        assert_eq!(answer.json()["title"], "New");
    }
    let listed = fixture.get("/api/links").await.json();
    assert_eq!(listed["links"][0]["url"], "https://new.example/");
    for wrong in [
        json!({}),
        json!({"url": "nonsense"}),
        json!({"slug": "x"}),
        json!({"url": "http://localhost:8080/"}),
    ] {
        let answer = fixture.send_json(Method::PATCH, &path, wrong.clone()).await;
        assert_eq!(answer.status, StatusCode::UNPROCESSABLE_ENTITY, "{wrong}");
    }

    let empty = fixture.send_json(Method::PATCH, &path, json!({"title": null})).await.json();
    assert_eq!(empty["error"]["field"], "body");
    assert!(
        empty["error"]["message"].as_str().is_some_and(|text| text.contains("url, title, tags")),
        "{empty}"
    );

    assert_eq!(fixture.send_json(Method::DELETE, &path, json!({})).await.status, StatusCode::NO_CONTENT);
    assert_eq!(fixture.send_json(Method::DELETE, &path, json!({})).await.status, StatusCode::NOT_FOUND);
    assert_eq!(
        fixture.send_json(Method::PATCH, &path, json!({"title": "x"})).await.status,
        StatusCode::NOT_FOUND
    );
    let gone = fixture.get(&path).await;
    assert_eq!(gone.status, StatusCode::NOT_FOUND);
    assert_eq!(gone.json()["error"]["value"], slug);
    assert_eq!(fixture.get("/api/links").await.json()["links"], json!([]));
    assert_ne!(fixture.link(None, "https://next.example/").await, slug, "a deleted slug came back");
}

#[tokio::test]
async fn batch_creates_valid_items_once() {
    let fixture = open();
    fixture.link(Some("taken"), "https://taken.example/").await;
    let batch = json!([
        {"url": "https://a.example/", "title": "A"},
        {"url": "nonsense"},
        {"url": "https://b.example/", "slug": "taken"},
        {"url": "https://a.example/", "title": "A"},
        {"url": "https://a.example/", "title": "B"},
    ]);
    let answer = fixture.post("/api/links/batch", batch.clone()).await;
    assert_eq!(answer.status, StatusCode::OK, "{}", answer.text());
    let first = answer.json()["results"].clone();
    let statuses = |results: &Value| -> Vec<String> {
        results.as_array().unwrap().iter().map(|item| item["status"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(statuses(&first), ["created", "invalid", "invalid", "existing", "created"]);
    assert_eq!(first[0]["slug"], first[3]["slug"]);
    assert_eq!(first[1]["error"]["field"], "url");
    assert_eq!(first[2]["error"]["message"], "is taken; choose another");

    let again = fixture.post("/api/links/batch", batch).await.json()["results"].clone();
    assert_eq!(statuses(&again), ["existing", "invalid", "invalid", "existing", "existing"]);
    assert_eq!(fixture.get("/api/links").await.json()["links"].as_array().unwrap().len(), 3);

    let many = vec![json!({"url": "https://a.example/"}); 1_001];
    let refused = fixture.post("/api/links/batch", json!(many)).await;
    assert_eq!(refused.status, StatusCode::UNPROCESSABLE_ENTITY);
    assert_eq!(refused.json()["error"]["message"], "at most 1000 links are allowed in a batch");
    assert_eq!(fixture.post("/api/links/batch", json!([])).await.json(), json!({"results": []}));
}

#[tokio::test]
async fn api_errors_are_json() {
    let fixture = open();
    for (method, path, status) in [
        (Method::GET, "/api/nothing", StatusCode::NOT_FOUND),
        (Method::GET, "/api/links/a/b", StatusCode::NOT_FOUND),
        (Method::DELETE, "/api/links/%ff", StatusCode::NOT_FOUND),
        (Method::GET, "/api/links/batch", StatusCode::NOT_FOUND),
        (Method::PUT, "/api/links/batch", StatusCode::METHOD_NOT_ALLOWED),
        (Method::PUT, "/api/links", StatusCode::METHOD_NOT_ALLOWED),
        (Method::POST, "/", StatusCode::METHOD_NOT_ALLOWED),
        (Method::POST, "/slug", StatusCode::METHOD_NOT_ALLOWED),
    ] {
        let answer = fixture.send_json(method.clone(), path, json!({})).await;
        assert_eq!(answer.status, status, "{method} {path}");
        assert!(answer.json()["error"]["message"].is_string(), "{method} {path}");
    }
}

fn slug_of(link: &Value) -> String {
    link["slug"].as_str().unwrap().to_owned()
}

#[tokio::test]
async fn link_with_the_slug_batch_is_shown_changed_and_deleted() {
    let fixture = open();
    fixture.link(Some("batch"), "https://a.example/").await;
    assert_eq!(fixture.get("/api/links/batch").await.json()["url"], "https://a.example/");
    let changed = fixture.send_json(Method::PATCH, "/api/links/batch", json!({ "title": "A" })).await;
    assert_eq!((changed.status, changed.json()["title"].as_str()), (StatusCode::OK, Some("A")));
    // The cached response was purged.
    assert_eq!(fixture.get("/api/links/batch").await.json()["title"], "A");
    let deleted = fixture.send_json(Method::DELETE, "/api/links/batch", json!({})).await;
    assert_eq!(deleted.status, StatusCode::NO_CONTENT);
    assert_eq!(fixture.get("/batch").await.status, StatusCode::GONE);

    let restored = fixture.post("/api/links/batch/restore", json!({})).await;
    assert_eq!((restored.status, restored.json()["title"].as_str()), (StatusCode::OK, Some("A")));

    // Its path still takes batches, and no other link's does.
    let batch = json!([{ "url": "https://b.example/" }]);
    assert_eq!(fixture.post("/api/links/batch", batch.clone()).await.status, StatusCode::OK);
    assert_eq!(fixture.post("/api/links/other", batch).await.status, StatusCode::METHOD_NOT_ALLOWED);
}

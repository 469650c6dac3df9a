//! A deleted link answers 410 and can be restored with its slug and its visits for 30 days.

use crate::support::{Fixture, open};
use http::{Method, StatusCode};
use serde_json::{Value, json};

const DAY_MS: i64 = 86_400_000;

async fn delete(fixture: &Fixture, slug: &str) -> StatusCode {
    fixture.send_json(Method::DELETE, &format!("/api/links/{slug}"), json!({})).await.status
}

async fn restore(fixture: &Fixture, slug: &str) -> StatusCode {
    fixture.post(&format!("/api/links/{slug}/restore"), json!({})).await.status
}

/// Moves the deletion of a link into the past.
fn set_age(fixture: &Fixture, slug: &str, days: i64) {
    let update =
        format!("UPDATE links SET deleted_at = deleted_at - {} WHERE slug = '{slug}'", days * DAY_MS);
    assert_eq!(fixture.execute(&format!("{update} RETURNING slug")), slug);
}

#[tokio::test]
async fn deleted_link_is_gone_and_its_slug_is_kept() {
    let fixture = open();
    fixture.link(Some("a"), "https://a.example/").await;
    assert_eq!(fixture.get("/a").await.status, StatusCode::FOUND);
    assert_eq!(delete(&fixture, "a").await, StatusCode::NO_CONTENT);

    let gone = fixture.get("/a").await;
    assert_eq!(gone.status, StatusCode::GONE);
    assert!(gone.text().contains("This link was deleted") && gone.header("location").is_empty());
    assert_eq!(fixture.get("/api/links/a").await.status, StatusCode::NOT_FOUND);
    assert_eq!(fixture.get("/api/links").await.json()["links"], json!([]));
    assert_eq!(delete(&fixture, "a").await, StatusCode::NOT_FOUND);
    let change = fixture.send_json(Method::PATCH, "/api/links/a", json!({ "title": "x" })).await;
    assert_eq!(change.status, StatusCode::NOT_FOUND);
    let taken = fixture.post("/api/links", json!({ "url": "https://b.example/", "slug": "a" })).await;
    assert_eq!(taken.status, StatusCode::CONFLICT);
    let listed = fixture.get("/api/links?deleted=true").await.json();
    assert_eq!(listed["links"][0]["slug"], "a");
    assert!(listed["links"][0]["deleted_at"].as_i64().unwrap() > 0);
}

#[tokio::test]
async fn restored_link_has_its_slug_tags_and_visits() {
    let fixture = open();
    let link = json!({ "url": "https://a.example/", "slug": "a", "title": "A", "tags": ["x"] });
    fixture.post("/api/links", link).await;
    fixture.get("/a").await;
    fixture.links.flush_visits().await.unwrap();
    // This one is still in memory when the link is deleted.
    fixture.get("/a").await;
    let before = fixture.get("/api/links/a").await.json();
    delete(&fixture, "a").await;
    assert_eq!(fixture.get("/a").await.status, StatusCode::GONE);
    fixture.links.flush_visits().await.unwrap();

    assert_eq!(restore(&fixture, "a").await, StatusCode::OK);
    assert_eq!(fixture.get("/a").await.header("location"), "https://a.example/");
    let after = fixture.get("/api/links/a").await.json();
    for field in ["slug", "url", "title", "tags", "created_at"] {
        assert_eq!(after[field], before[field], "{field}");
    }
    assert_eq!(after["visits"], 2);
    assert_eq!(after["days"][0]["visits"], 2);
    assert_eq!(fixture.get("/api/links").await.json()["links"][0]["slug"], "a");
    assert_eq!(restore(&fixture, "a").await, StatusCode::NOT_FOUND);
    assert_eq!(restore(&fixture, "never").await, StatusCode::NOT_FOUND);
}

#[tokio::test]
async fn after_30_days_the_link_is_dropped_and_its_slug_is_free() {
    let fixture = open();
    for slug in ["young", "old"] {
        fixture.link(Some(slug), "https://a.example/").await;
        delete(&fixture, slug).await;
        assert_eq!(fixture.get(&format!("/{slug}")).await.status, StatusCode::GONE);
    }
    set_age(&fixture, "young", 29);
    set_age(&fixture, "old", 30);
    // It cannot be restored even before it is dropped.
    assert_eq!(restore(&fixture, "old").await, StatusCode::NOT_FOUND);
    assert_eq!(fixture.links.drop_deleted().await.unwrap(), 1);
    assert_eq!(fixture.get("/old").await.status, StatusCode::NOT_FOUND);
    fixture.link(Some("old"), "https://b.example/").await;
    assert_eq!(fixture.get("/old").await.header("location"), "https://b.example/");
    assert_eq!(restore(&fixture, "young").await, StatusCode::OK);
}

#[tokio::test]
async fn visits_of_dropped_links_go_with_them_and_those_of_others_stay() {
    let fixture = open();
    for slug in ["old", "young", "stays"] {
        fixture.link(Some(slug), "https://a.example/").await;
        for _ in 0..3 {
            fixture.get(&format!("/{slug}")).await;
        }
    }
    fixture.links.flush_visits().await.unwrap();
    for slug in ["old", "young"] {
        delete(&fixture, slug).await;
    }
    set_age(&fixture, "old", 30);
    let rows = || fixture.execute("SELECT count(DISTINCT link_id) FROM visits_quarterly");
    assert_eq!(rows(), "3");
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
    let until = now.as_millis() as i64 - 30 * DAY_MS;
    assert!(fixture.links.store().drop_visits_of_deleted(until).await.unwrap() > 0);
    assert_eq!(
        (rows(), fixture.links.store().drop_visits_of_deleted(until).await.unwrap()),
        ("2".to_owned(), 0)
    );
    assert_eq!(fixture.links.drop_deleted().await.unwrap(), 1);
}

#[tokio::test]
async fn import_returns_an_expired_link_only_for_one_that_expires_too() {
    let fixture = open();
    let create = async |link: Value| {
        fixture.post("/api/links/batch", json!([link])).await.json()["results"][0]["status"].clone()
    };
    let expired = json!({ "url": "https://a.example/", "expires_at": "2020-01-01T00:00:00Z" });
    assert_eq!(create(expired.clone()).await, "created");
    assert_eq!(create(expired).await, "existing");
    assert_eq!(create(json!({ "url": "https://a.example/" })).await, "created");
    assert_eq!(create(json!({ "url": "https://a.example/" })).await, "existing");
}

/// A form sends all fields, also those that nobody has changed.
#[tokio::test]
async fn import_returns_a_link_whose_address_and_title_were_saved_unchanged() {
    let fixture = open();
    let row = json!({ "url": "https://a.example/", "title": "A" });
    let batch = json!([row]);
    let create = async || fixture.post("/api/links/batch", batch.clone()).await.json()["results"][0].clone();
    let path = format!("/api/links/{}", create().await["slug"].as_str().unwrap());
    let mut form = row.clone();
    form["tags"] = json!(["x"]);
    fixture.send_json(Method::PATCH, &path, form.clone()).await;
    assert_eq!(create().await["status"], "existing");
    form["title"] = json!("B");
    fixture.send_json(Method::PATCH, &path, form).await;
    assert_eq!(create().await["status"], "created");
}

#[tokio::test]
async fn import_does_not_return_a_deleted_link() {
    let fixture = open();
    let batch = json!([{ "url": "https://a.example/", "title": "A" }]);
    let create = async || fixture.post("/api/links/batch", batch.clone()).await.json()["results"][0].clone();
    let first = create().await;
    assert_eq!(create().await, json!({ "status": "existing", "slug": first["slug"] }));
    delete(&fixture, first["slug"].as_str().unwrap()).await;
    assert_eq!(create().await["status"], "created");
}

//! Every counted visit is written, also when the service stops.

use crate::support::{open, open_with};
use larder_links::{Deps, Links, LinksError, StoreError};
use larder_testkit::eventually;
use serde_json::json;

#[tokio::test]
async fn visits_are_counted_and_listed() {
    let fixture = open();
    fixture.link(Some("a"), "https://a.example/").await;
    fixture.link(Some("b"), "https://b.example/").await;
    for path in ["/a", "/b", "/a", "/nowhere"] {
        fixture.get(path).await;
    }
    assert_eq!(fixture.links.stats().visits.queued, 3);
    fixture.links.flush_visits().await.unwrap();
    let visits = fixture.links.stats().visits;
    assert_eq!((visits.queued, visits.written, visits.dropped), (0, 3, 0));

    let listed = fixture.get("/api/links?limit=2").await.json();
    assert_eq!((&listed["links"][0]["visits"], &listed["links"][1]["visits"]), (&json!(1), &json!(2)));
    let days = fixture.get("/api/links/a").await.json()["days"].clone();
    assert_eq!(days.as_array().unwrap().len(), 1);
    assert_eq!(days[0]["visits"], 2);
}

#[tokio::test]
async fn clean_stop_loses_no_visit() {
    let fixture = open();
    let slug = fixture.link(None, "https://a.example/").await;
    for _ in 0..1_234 {
        fixture.get(&format!("/{slug}")).await;
    }
    fixture.links.stop().await.unwrap();
    assert!(matches!(
        fixture.links.flush_visits().await,
        Ok(()) | Err(LinksError::Store(StoreError::Closed))
    ));
    // The log was folded in: the database is one file again.
    assert!(!fixture.folder.path().join("links.db-wal").exists());

    let again = Links::open(fixture.config.clone(), Deps::open(&fixture.config).unwrap()).unwrap();
    assert_eq!(again.store().find(&slug).await.unwrap().unwrap().visits, 1_234);
    again.stop().await.unwrap();
    again.stop().await.unwrap();
}

#[tokio::test]
async fn full_visit_table_drops_visits_and_redirects() {
    let fixture = open_with(|config| config.visit_queue = 1);
    fixture.link(Some("a"), "https://a.example/").await;
    fixture.link(Some("b"), "https://b.example/").await;
    fixture.get("/a").await;
    assert_eq!(fixture.get("/b").await.header("location"), "https://b.example/");
    assert_eq!(fixture.links.stats().visits.dropped, 1);
}

#[tokio::test]
async fn full_batch_of_visits_is_written_without_a_flush() {
    let fixture = open_with(|config| config.visit_batch = 5);
    fixture.link(Some("a"), "https://a.example/").await;
    for _ in 0..5 {
        fixture.get("/a").await;
    }
    // The full batch starts the write; the clock would take a minute.
    eventually("the batch is written", async || fixture.links.stats().visits.written == 5).await;
    assert_eq!(fixture.written_visits("a").await, 5);
}

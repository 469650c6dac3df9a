//! A full, locked or closed database is a clear error, and no acknowledged write is lost.

use crate::support::{open, open_with};
use http::{Method, StatusCode};
use serde_json::json;

#[tokio::test]
async fn unreachable_redis_stops_nothing() {
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let fixture = open_with(|config| config.redis = Some(format!("redis://{free}")));
    assert_eq!(fixture.get("/a").await.status, StatusCode::NOT_FOUND);
    fixture.link(Some("a"), "https://a.example/").await;
    assert_eq!(fixture.get("/a").await.header("location"), "https://a.example/");
    fixture.send_json(Method::DELETE, "/api/links/a", json!({})).await;
    assert_eq!(fixture.get("/a").await.status, StatusCode::GONE);
    assert!(fixture.links.cache().stats().redis.unwrap().errors > 0);
}

#[tokio::test]
async fn closed_database_is_a_clear_error() {
    let fixture = open();
    assert_eq!(fixture.get("/healthz").await.status, StatusCode::OK);
    fixture.links.store().close().await;
    let refused = fixture.post("/api/links", json!({"url": "https://a.example/"})).await;
    assert_eq!(refused.status, StatusCode::SERVICE_UNAVAILABLE);
    assert_eq!(refused.json()["error"]["message"], "the database is closed");
    assert_eq!(fixture.get("/healthz").await.status, StatusCode::SERVICE_UNAVAILABLE);
}

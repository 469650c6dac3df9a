//! What is not a query is forwarded with its body intact, uncached, and with its reason.

use axum::body::Body;
use http::StatusCode;
use larder_http::BodyRule;
use tokio::sync::mpsc;
use tower::ServiceExt;

use crate::api::{JSON, Reply, Site, Streamed, request};

#[tokio::test]
async fn anything_but_a_query_is_forwarded_with_its_reason() {
    let site = Site::new();
    for (body, reason) in [
        (r#"{"query":"mutation{rename(id:1,name:\"a\"){name}}"}"#, "graphql-mutation"),
        (
            r#"{"query":"query Q{stock} mutation M{rename(id:1,name:\"a\"){name}}","operationName":"Q"}"#,
            "graphql-mutation",
        ),
        (r#"{"query":"subscription{a}"}"#, "graphql-mutation"),
        (r#"[{"query":"{stock}"},{"query":"{stock}"}]"#, "graphql-batch"),
        (r#"{"query":"query Q{stock}","operationName":"R"}"#, "graphql-operation"),
        (r#"{"query":"query Q{stock} query R{stock}"}"#, "graphql-operation"),
        (r#"{"query":"{stock"}"#, "graphql-document"),
        (r#"{"query":"{...@defer{stock}}"}"#, "graphql-incremental"),
        (r#"{"query":"{stock}","query":"{stock}"}"#, "graphql-request"),
        (r#"{"query":"{stock}","id":"1"}"#, "graphql-request"),
        (r#"{}"#, "graphql-request"),
        ("", "graphql-request"),
    ] {
        for _ in 0..2 {
            let reply = site.post(body).await;
            assert_eq!(reply.cache_status, format!("fwd=bypass; detail={reason}"), "{body}");
            assert_eq!(site.shop.received.lock().unwrap().pop().unwrap().1, body);
        }
    }
    assert_eq!(site.cache.stats().entries, 0);
}

#[tokio::test]
async fn content_that_is_not_json_is_forwarded_unread() {
    let site = Site::with_rule(BodyRule::graphql().max_bytes(10));
    let body = "longer than ten bytes";
    for fields in [
        &[][..],
        &[("content-type", "multipart/form-data; boundary=x")],
        &[("content-type", "text/plain")],
        &[JSON, ("content-encoding", "gzip")],
        &[JSON, JSON],
    ] {
        let reply = site.send("POST", "/graphql", fields, body).await;
        assert_eq!(reply.cache_status, "fwd=bypass; detail=graphql-request", "{fields:?}");
        assert_eq!(site.shop.received.lock().unwrap().pop().unwrap().1, body);
    }
}

#[tokio::test]
async fn request_that_declares_a_longer_body_is_forwarded() {
    let site = Site::with_rule(BodyRule::graphql().max_bytes(18));
    assert!(site.query("{stock}").await.cache_status.contains("detail=request-body-too-large"));
    assert_eq!(site.resolved(), 1);
    let site = Site::with_rule(BodyRule::graphql().max_bytes(19));
    assert!(site.query("{stock}").await.is_stored());
}

/// Its first bytes were read, so it cannot be forwarded any more.
#[tokio::test]
async fn longer_body_of_undeclared_length_is_413() {
    let site = Site::with_rule(BodyRule::graphql().max_bytes(18));
    let (sender, receiver) = mpsc::unbounded_channel();
    sender.send(r#"{"query":"{stock}"}"#).unwrap();
    let request = request("POST", "/graphql", &[JSON], "").map(|_| Body::new(Streamed(receiver)));
    let reply = Reply::read(site.router.clone().oneshot(request).await.unwrap()).await;
    assert_eq!((reply.status, site.resolved()), (StatusCode::PAYLOAD_TOO_LARGE, 0));
}

#[tokio::test]
async fn get_without_a_query_is_forwarded() {
    let site = Site::new();
    for target in ["/graphql", "/graphql?", "/graphql?query", "/graphql?query=%7Bstock%7D&id=1"] {
        let reply = site.send("GET", target, &[], "").await;
        assert_eq!(reply.cache_status, "fwd=bypass; detail=graphql-request", "{target}");
    }
    let reply =
        site.send("GET", "/graphql?query=mutation%7Brename(id:1,name:%22a%22)%7Bname%7D%7D", &[], "").await;
    assert_eq!(reply.cache_status, "fwd=bypass; detail=graphql-mutation");
    assert_eq!(site.cache.stats().entries, 0);
}

#[tokio::test]
async fn get_with_a_body_is_forwarded() {
    let site = Site::new();
    let reply = site.send("GET", "/graphql?query=%7Bstock%7D", &[JSON], r#"{"query":"{unhinted}"}"#).await;
    assert_eq!(reply.cache_status, "fwd=bypass; detail=request-body");
}

#[tokio::test]
async fn personal_query_is_forwarded() {
    let site = Site::new();
    assert!(site.query("{stock}").await.is_stored());
    let body = r#"{"query":"{stock}"}"#;
    let reply = site.send("POST", "/graphql", &[JSON, ("authorization", "Bearer x")], body).await;
    assert_eq!(reply.cache_status, "fwd=bypass; detail=authorization");
    let reply = site.send("POST", "/graphql", &[JSON, ("cookie", "session=x")], body).await;
    assert_eq!(reply.cache_status, "fwd=bypass; detail=cookie");
}

#[tokio::test]
async fn other_methods_are_forwarded() {
    let site = Site::new();
    let reply = site.send("DELETE", "/graphql", &[], "").await;
    assert_eq!((reply.status, reply.cache_status.as_str()), (StatusCode::METHOD_NOT_ALLOWED, "fwd=method"));
}

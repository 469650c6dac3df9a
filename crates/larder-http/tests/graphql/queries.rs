//! Equal queries share a response, and different ones do not.

use larder_http::BodyRule;
use tower::ServiceExt;

use crate::api::{JSON, Reply, Site, request};

#[tokio::test]
async fn equal_queries_share_a_response_whatever_their_form() {
    let site = Site::new();
    let first = site.post(
        r#"{"query":"query Q($id:Int!){product(id:$id){name}}","operationName":"Q","variables":{"id":1}}"#,
    );
    let first = first.await;
    assert!(first.is_stored(), "{first:?}");
    assert_eq!(first.body, r#"{"data":{"product":{"name":"product 1"}}}"#);
    for body in [
        r#"{"query":"query Q($id:Int!){product(id:$id){name}}","operationName":"Q","variables":{"id":1}}"#,
        r##" {"variables":{"id":1}, "operationName":"Q", "query":"# a comment\nquery Q ($id: Int!) {\n  product(id: $id) { name }\n}"} "##,
        r#"{"query":"query Q($id:Int!){product(id:$id){name}}","operationName":"Q","variables":{"id":1},"extensions":{"clientLibrary":{"name":"c"}}}"#,
    ] {
        for _ in 0..2 {
            let reply = site.post(body).await;
            assert!(reply.is_hit(), "{reply:?} {body}");
            assert_eq!(reply.body, first.body);
        }
    }
    assert_eq!(site.resolved(), 1);
}

#[tokio::test]
async fn different_queries_do_not_share_a_response() {
    let site = Site::new();
    let bodies = [
        r#"{"query":"query A($t:String){echo(text:$t)} query B{stock}","operationName":"A"}"#,
        r#"{"query":"query A($t:String){echo(text:$t)} query B{stock}","operationName":"B"}"#,
        r#"{"query":"query A($t:String){echo(text:$t)} query B{stock}","operationName":"A","variables":{"t":"1"}}"#,
        r#"{"query":"query A($t:String){echo(text:$t)} query B{stock}","operationName":"A","variables":{"t":"1 "}}"#,
        r#"{"query":"{echo(text:\"a  b\")}"}"#,
        r#"{"query":"{echo(text:\"a b\")}"}"#,
        r#"{"query":"{echo(text:\"a # b\")}"}"#,
        r#"{"query":"{echo(text:\"\"\"a b\"\"\")}"}"#,
        r#"{"query":"{echo(text:\"a b\")}","extensions":{"tenant":1}}"#,
        r#"{"query":"{echo(text:\"a b\")}","extensions":{"tenant":2}}"#,
    ];
    let mut replies = Vec::new();
    for body in bodies {
        let reply = site.post(body).await;
        assert!(reply.is_stored(), "{reply:?} {body}");
        replies.push(reply.body);
    }
    for (body, first) in bodies.iter().zip(&replies) {
        let reply = site.post(*body).await;
        assert!(reply.is_hit() && reply.body == *first, "{reply:?} {body}");
    }
    assert_eq!(replies[0], r#"{"data":{"echo":""}}"#);
    assert_eq!(replies[4], r#"{"data":{"echo":"a  b"}}"#);
}

#[tokio::test]
async fn methods_content_types_and_endpoints_have_their_own_responses() {
    let site = Site::new();
    let body = r#"{"query":"{stock}"}"#;
    let requests = [
        ("POST", "/graphql", &[JSON][..], body),
        ("QUERY", "/graphql", &[JSON], body),
        ("GET", "/graphql?query=%7Bstock%7D", &[], ""),
        ("GET", "/graphql?query=%7B+stock+%7D", &[], ""),
        ("POST", "/graphql", &[("content-type", "application/json; charset=utf-8")], body),
    ];
    for (n, (method, target, fields, body)) in requests.iter().enumerate() {
        assert!(site.send(method, target, fields, *body).await.is_stored(), "{method} {target}");
        assert!(site.send(method, target, fields, *body).await.is_hit(), "{method} {target}");
        assert_eq!(site.resolved(), n + 1);
    }
    assert!(site.send("HEAD", "/graphql?query=%7Bstock%7D", &[], "").await.is_hit());
}

#[tokio::test]
async fn endpoints_share_nothing() {
    let site = Site::new();
    assert!(site.query("{stock}").await.is_stored());
    let mut other = request("POST", "/graphql", &[JSON], r#"{"query":"{stock}"}"#);
    other.headers_mut().insert("host", "other.example".parse().unwrap());
    assert!(Reply::read(site.router.clone().oneshot(other).await.unwrap()).await.is_stored());
}

/// The parser is not needed for a hit, so neither are its tables.
#[tokio::test]
async fn tables_without_memory_change_no_response() {
    let site = Site::with_rule(BodyRule::graphql().table_bytes(0));
    assert!(site.query("{stock}").await.is_stored());
    assert!(site.query("{stock}").await.is_hit());
    assert!(site.query("{ stock }").await.is_hit());
}

#[tokio::test]
async fn concurrent_equal_queries_run_once() {
    let site = std::sync::Arc::new(Site::new());
    let tasks: Vec<_> = (0..20)
        .map(|n| {
            let site = site.clone();
            // Each has its own form.
            tokio::spawn(async move { site.query(&format!("{{{}stock}}", " ".repeat(n))).await.body })
        })
        .collect();
    for task in tasks {
        assert_eq!(task.await.unwrap(), r#"{"data":{"stock":3}}"#);
    }
    assert_eq!(site.resolved(), 1);
}

#[tokio::test]
async fn purge_of_the_endpoint_covers_every_query() {
    let site = Site::new();
    for _ in 0..2 {
        assert!(site.query("{stock}").await.is_stored());
        assert!(site.query("{stock}").await.is_hit());
        site.cache.purge_uri("http://shop.example/graphql").unwrap();
    }
}

#[tokio::test]
async fn get_is_purged_by_its_uri() {
    let site = Site::new();
    let target = "/graphql?query=%7Bstock%7D";
    for _ in 0..2 {
        assert!(site.send("GET", target, &[], "").await.is_stored());
        assert!(site.send("GET", target, &[], "").await.is_hit());
        assert!(site.cache.purge_uri(&format!("http://shop.example{target}")).unwrap());
    }
}

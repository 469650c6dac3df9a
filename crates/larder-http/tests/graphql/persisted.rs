//! A hash stands for the document that came with it, and for no other.

use larder_http::BodyRule;

use crate::api::{JSON, Reply, Site, sha256};

const DOCUMENT: &str = "{ product(id: 1) { name } }";

async fn send(site: &Site, document: Option<&str>, hash: &str) -> Reply {
    let mut request =
        serde_json::json!({ "extensions": { "persistedQuery": { "version": 1, "sha256Hash": hash } } });
    if let Some(document) = document {
        request["query"] = document.into();
    }
    site.post(request.to_string()).await
}

#[tokio::test]
async fn hash_is_answered_after_its_document_came_with_it() {
    let site = Site::new();
    let hash = sha256(DOCUMENT);
    let unknown = send(&site, None, &hash).await;
    assert_eq!(unknown.cache_status, "fwd=bypass; detail=graphql-persisted");
    assert!(unknown.body.contains("PersistedQueryNotFound"));
    assert!(send(&site, Some(DOCUMENT), &hash).await.is_stored());
    let known = send(&site, None, &hash).await;
    assert!(known.is_hit() && known.body.contains("product 1"), "{known:?}");
    assert!(site.query("{product(id:1){name}}").await.is_hit(), "the document alone has the same key");
    assert_eq!(site.resolved(), 1);
}

#[tokio::test]
async fn document_with_another_hash_is_forwarded_and_registers_nothing() {
    let site = Site::new();
    let hash = sha256(DOCUMENT);
    let forged = send(&site, Some("{product(id:2){name}}"), &hash).await;
    assert_eq!(forged.cache_status, "fwd=bypass; detail=graphql-persisted");
    assert!(!send(&site, None, &hash).await.is_hit());
    assert!(send(&site, Some(DOCUMENT), &hash).await.is_stored());
    assert!(send(&site, None, &hash).await.body.contains("product 1"));
}

#[tokio::test]
async fn hash_of_a_mutation_is_forwarded() {
    let site = Site::new();
    let mutation = "mutation{rename(id:1,name:\"a\"){name}}";
    let hash = sha256(mutation);
    assert!(send(&site, Some(mutation), &hash).await.cache_status.contains("graphql-mutation"));
    let reply = send(&site, None, &hash).await;
    assert_eq!(reply.cache_status, "fwd=bypass; detail=graphql-persisted");
    assert!(reply.body.contains("\"name\":\"a\""), "the server knows the hash: {reply:?}");
}

#[tokio::test]
async fn get_with_a_hash_is_answered() {
    let site = Site::new();
    let hash = sha256(DOCUMENT);
    let extensions =
        format!("extensions=%7B%22persistedQuery%22:%7B%22version%22:1,%22sha256Hash%22:%22{hash}%22%7D%7D");
    let with_hash = format!("/graphql?{extensions}");
    let with_document = format!("/graphql?query=%7B+product(id:+1)+%7B+name+%7D+%7D&{extensions}");
    assert!(site.send("GET", &with_hash, &[], "").await.cache_status.contains("graphql-persisted"));
    for target in [with_document, with_hash] {
        assert!(site.send("GET", &target, &[], "").await.is_stored(), "{target}");
        assert!(site.send("GET", &target, &[], "").await.is_hit(), "{target}");
    }
}

#[tokio::test]
async fn documents_are_evicted_and_registered_again() {
    let site = Site::with_rule(BodyRule::graphql().table_bytes(200));
    let documents: Vec<_> = (0..10).map(|id| format!("{{product(id:{id}){{name}}}}")).collect();
    for _ in 0..2 {
        for document in &documents {
            assert!(!send(&site, Some(document), &sha256(document)).await.body.contains("errors"));
        }
    }
    let mut known = 0;
    for (id, document) in documents.iter().enumerate() {
        let reply = send(&site, None, &sha256(document)).await;
        assert!(reply.body.contains(&format!("product {id}")), "{reply:?}");
        known += usize::from(reply.is_hit());
    }
    assert!((1..10).contains(&known), "{known} of ten documents fit");
}

#[tokio::test]
async fn malformed_hash_is_forwarded() {
    let site = Site::new();
    for extension in [r#"{"version":1,"sha256Hash":"x"}"#, "null", r#"{"version":1}"#] {
        let body = format!(r#"{{"query":"{{stock}}","extensions":{{"persistedQuery":{extension}}}}}"#);
        let reply = site.send("POST", "/graphql", &[JSON], body).await;
        assert_eq!(reply.cache_status, "fwd=bypass; detail=graphql-request", "{extension}");
    }
}

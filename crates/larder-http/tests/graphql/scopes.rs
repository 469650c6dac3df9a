//! Who may have the response to a query: everyone, whom the gate allows now, or one principal.

use crate::api::{JSON, Reply, Site};

async fn query(site: &Site, token: &str, document: &str) -> Reply {
    let body = serde_json::json!({ "query": document }).to_string();
    site.send("POST", "/graphql", &[JSON, ("authorization", token)], body).await
}

#[tokio::test]
async fn gated_response_is_shared_by_those_whom_the_gate_allows() {
    let site = Site::with_sessions(&[("one", "ann"), ("two", "bob")]);
    assert!(query(&site, "one", "{prices}").await.is_stored());
    assert!(query(&site, "two", "{ prices }").await.is_hit());
    assert_eq!(site.resolved(), 1);
}

#[tokio::test]
async fn revoked_session_gets_nothing_from_the_cache() {
    for document in ["{prices}", "{basket}"] {
        let site = Site::with_sessions(&[("one", "ann")]);
        assert!(query(&site, "one", document).await.is_stored());
        assert!(query(&site, "one", document).await.is_hit());
        site.shop.sessions.lock().unwrap().remove("one");
        let revoked = query(&site, "one", document).await;
        assert_eq!(revoked.cache_status, "fwd=bypass; detail=gate", "{document}");
        assert!(!revoked.body.contains("ann"), "{revoked:?}");
        assert_eq!(site.resolved(), 2, "the handler has answered");
    }
}

#[tokio::test]
async fn private_response_has_one_principal() {
    let site = Site::with_sessions(&[("one", "ann"), ("again", "ann"), ("two", "bob")]);
    let first = query(&site, "one", "{basket}").await;
    assert!(first.is_stored() && first.body.contains("ann 1"), "{first:?}");
    let other = query(&site, "two", "{basket}").await;
    assert!(!other.is_hit() && other.body.contains("bob 2"), "{other:?}");
    let again = query(&site, "again", "{basket}").await;
    assert!(again.is_hit() && again.body.contains("ann 1"), "{again:?}");
    assert_eq!(site.query("{basket}").await.cache_status, "fwd=bypass; detail=gate");
}

/// The scope is that of a query, not of the endpoint.
#[tokio::test]
async fn queries_have_scopes_of_their_own() {
    let site = Site::with_sessions(&[("one", "ann")]);
    assert!(query(&site, "one", "{basket}").await.is_stored());
    assert!(site.query("{stock}").await.is_stored());
    assert!(site.query("{stock}").await.is_hit());
    let status = query(&site, "one", "{stock}").await.cache_status;
    assert_eq!(status, "fwd=bypass; detail=authorization");
}

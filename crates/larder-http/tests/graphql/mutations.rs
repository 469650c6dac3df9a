//! A mutation purges what its resolvers name, and nothing else.

use std::sync::Arc;

use tokio::task::JoinHandle;

use crate::api::{JSON, Reply, Site};

const FIRST: &str = "{product(id:1){name}}";
const SECOND: &str = "{product(id:2){name}}";

#[tokio::test]
async fn mutation_purges_the_tags_of_its_resolvers_only() {
    let site = Site::new();
    site.query(FIRST).await;
    site.query(SECOND).await;
    let reply = site.query("mutation{rename(id:1,name:\"jam\"){name}}").await;
    assert_eq!(reply.cache_status, "fwd=bypass; detail=graphql-mutation");
    let renamed = site.query(FIRST).await;
    assert!(renamed.is_stored() && renamed.body.contains("jam"), "{renamed:?}");
    assert!(site.query(SECOND).await.is_hit());
}

#[tokio::test]
async fn mutation_with_credentials_purges_too() {
    let site = Site::new();
    site.query(FIRST).await;
    let body = r#"{"query":"mutation{rename(id:1,name:\"jam\"){name}}"}"#;
    let reply = site.send("POST", "/graphql", &[JSON, ("authorization", "Bearer x")], body).await;
    assert_eq!(reply.cache_status, "fwd=bypass; detail=graphql-mutation");
    assert!(site.query(FIRST).await.body.contains("jam"));
}

/// A mutation that has called `purge_tag` and not yet committed.
async fn start_rename(site: &Arc<Site>, fail: bool) -> JoinHandle<Reply> {
    let task = tokio::spawn({
        let site = site.clone();
        async move { site.query(&format!("mutation{{renameSlowly(id:1,name:\"jam\",fail:{fail})}}")).await }
    });
    site.shop.steps.started.acquire().await.unwrap().forget();
    task
}

/// The response to a query that has read the old name after the mutation called `purge_tag`.
async fn store_old_name(site: &Site) {
    let old = site.query(FIRST).await;
    assert!(old.is_stored() && old.body.contains("product 1"), "{old:?}");
}

async fn commit(site: &Site) {
    site.shop.steps.commit.add_permits(1);
    site.shop.steps.committed.acquire().await.unwrap().forget();
}

#[tokio::test]
async fn query_that_reads_before_the_commit_is_purged_with_the_end_of_the_mutation() {
    for fail in [false, true] {
        let site = Arc::new(Site::new());
        let mutation = start_rename(&site, fail).await;
        store_old_name(&site).await;
        commit(&site).await;
        site.shop.steps.end.add_permits(1);
        let reply = mutation.await.unwrap();
        assert_eq!(reply.body.contains("errors"), fail);
        let renamed = site.query(FIRST).await;
        assert!(renamed.body.contains("jam"), "fail: {fail}, {renamed:?}");
    }
}

#[tokio::test]
async fn query_that_reads_before_the_commit_is_purged_if_the_client_disconnects() {
    let site = Arc::new(Site::new());
    let mutation = start_rename(&site, false).await;
    store_old_name(&site).await;
    commit(&site).await;
    mutation.abort();
    assert!(mutation.await.unwrap_err().is_cancelled());
    assert!(site.query(FIRST).await.body.contains("jam"));
}

/// The purge of the resolver is effective before the mutation ends, too.
#[tokio::test]
async fn purge_is_effective_at_once() {
    let site = Arc::new(Site::new());
    assert!(site.query(FIRST).await.is_stored());
    let mutation = start_rename(&site, false).await;
    assert!(!site.query(FIRST).await.is_hit());
    mutation.abort();
}

//! The response cache of the API: which responses it stores, for how long, and by which tags.
//!
//! | response | tags | TTL |
//! |---|---|---|
//! | a page of the list | `links` | 1 s |
//! | one link | `link:SLUG` | 1 s |
//! | a GraphQL query | those of all its lists and links; `links` for a link that does not exist | 1 s |
//!
//! A change purges its tags before its own response is sent, so its author sees the new state. Visits do not purge: a
//! purge for every redirect would leave nothing in the cache, so visit counts may be as old as the TTL. A visit takes about
//! as long to reach the database, and a page that polls every two seconds still sees the counts grow. One second is
//! enough to be useful: however many clients poll the list, the database runs one query a second.

use crate::service::responses::{LIST_TAG, Responses, link_tag};
use crate::web::input::MAX_BODY_BYTES;
use axum::Router;
use axum::response::{IntoResponse, Response};
use larder_http::{BodyRule, BodyRules, CacheCtx, Cached, Scope};
use std::time::Duration;

const TTL: Duration = Duration::from_secs(1);
/// For each of two tables of parsed queries. A client has few different queries, of about 1 KiB.
const GRAPHQL_TABLE_BYTES: u64 = 512 << 10;

impl Responses {
    /// Puts the cache in front of routes.
    pub(crate) fn wrap(&self, router: Router) -> Router {
        router.layer(self.cache().layer())
    }

    /// Puts the cache in front of a GraphQL endpoint.
    pub(crate) fn wrap_graphql(&self, path: &str, router: Router) -> Router {
        let rule = BodyRule::graphql().max_bytes(MAX_BODY_BYTES).table_bytes(GRAPHQL_TABLE_BYTES);
        router.layer(self.cache().layer().body_rules(BodyRules::new().route(path, rule)))
    }

    /// Marks a page of the list to be stored.
    pub(crate) fn list(&self, response: impl IntoResponse) -> Response {
        (storage_policy().tag(LIST_TAG), response).into_response()
    }

    /// Marks the response about one link to be stored.
    pub(crate) fn link(&self, slug: &str, response: impl IntoResponse) -> Response {
        (storage_policy().tag(link_tag(slug)), response).into_response()
    }

    /// Marks a response that contains a page of the list, or depends on the absence of a link, to be stored.
    pub(crate) fn contains_list(&self, ctx: &CacheCtx) {
        opt_in(ctx, LIST_TAG.into());
    }

    /// Marks a response that contains a link to be stored.
    pub(crate) fn contains_link(&self, ctx: &CacheCtx, slug: &str) {
        opt_in(ctx, link_tag(slug));
    }
}

/// Browsers send cookies of other services on the same host too; no response here depends on a cookie.
fn storage_policy() -> Cached {
    Cached::ttl(TTL).scope(Scope::Public)
}

fn opt_in(ctx: &CacheCtx, tag: String) {
    ctx.ttl(TTL);
    ctx.scope(Scope::Public);
    ctx.tag(tag);
}

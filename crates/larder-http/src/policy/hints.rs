//! An extension for schemas of async-graphql: the `cache_control` hints of types and fields become the settings of the
//! response.

use std::sync::Arc;
use std::time::Duration;

use async_graphql::Response;
use async_graphql::async_trait::async_trait;
use async_graphql::extensions::{Extension, ExtensionContext, ExtensionFactory, NextExecute};

use crate::policy::ctx::CacheCtx;
use crate::policy::scope::Scope;

/// Forwards the cache hints of a schema to the [`CacheCtx`] in the data of a request: the lowest `max_age` of the types
/// and fields in the query is its TTL, `private` is the scope [`Scope::Private`], and `no_cache` forbids storing the response.
///
/// As in async-graphql, a field without a hint does not lower the TTL, and a query without any hint is not cached
/// unless a resolver opts in. Resolvers find the same [`CacheCtx`] in their context and add tags:
///
/// ```
/// use async_graphql::{Context, EmptyMutation, EmptySubscription, Object, Request, Result, Schema};
/// use larder_http::{CacheCtx, CacheHints};
///
/// struct Query;
///
/// #[Object]
/// impl Query {
///     #[graphql(cache_control(max_age = 60))]
///     async fn link(&self, ctx: &Context<'_>, id: u32) -> Result<String> {
///         ctx.data::<CacheCtx>()?.tag(format!("link:{id}"));
///         Ok(format!("https://site.example/{id}"))
///     }
/// }
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() {
/// let schema = Schema::build(Query, EmptyMutation, EmptySubscription).extension(CacheHints).finish();
/// // The handler gets the `CacheCtx` as an argument (feature `axum`) or from the extensions of the request.
/// let cache_ctx = CacheCtx::default();
/// let response = schema.execute(Request::new("{ link(id: 1) }").data(cache_ctx)).await;
/// assert!(response.is_ok());
/// # }
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct CacheHints;

impl ExtensionFactory for CacheHints {
    fn create(&self) -> Arc<dyn Extension> {
        Arc::new(CacheHints)
    }
}

#[async_trait]
impl Extension for CacheHints {
    async fn execute(
        &self,
        ctx: &ExtensionContext<'_>,
        operation_name: Option<&str>,
        next: NextExecute<'_>,
    ) -> Response {
        let response = next.run(ctx, operation_name).await;
        if let Some(cache) = ctx.data_opt::<CacheCtx>() {
            apply(cache, response.cache_control.public, response.cache_control.max_age);
        }
        response
    }
}

/// Applies a merged hint; `max_age` is -1 for `no_cache` and 0 without a hint.
fn apply(cache: &CacheCtx, is_public: bool, max_age: i32) {
    if !is_public {
        cache.scope(Scope::Private);
    }
    match u64::try_from(max_age) {
        Ok(0) => {}
        Ok(seconds) => cache.ttl(Duration::from_secs(seconds)),
        Err(_) => cache.forbid("a cache hint says no-cache"),
    }
}

//! The call of the handler whose response a fill may store.

use std::future::{Future, poll_fn};
use std::pin::pin;

use http::{Request, Response};
use tower_service::Service;

use crate::fill::forward;
use crate::graphql::GraphqlQuery;
use crate::policy::ctx::{CacheCtx, HandlerGuard};
use crate::policy::handler_fields::has_content;
use crate::store::HttpCache;

/// A handler call that has not started. It starts when its future is polled.
pub(super) struct HandlerCall<F> {
    pub(super) future: F,
    pub(super) ctx: CacheCtx,
    pub(super) guard: HandlerGuard,
    /// The response may be stored only if it is one of GraphQL without errors.
    pub(super) is_graphql: bool,
    /// The content fields of the request are in its key.
    pub(super) has_content: bool,
}

/// Prepares the call of `inner` with a request.
pub(super) fn prepare<S, ReqBody, B>(
    cache: &HttpCache,
    inner: S,
    mut request: Request<ReqBody>,
) -> HandlerCall<impl Future<Output = Result<Response<B>, S::Error>> + use<S, ReqBody, B>>
where
    S: Service<Request<ReqBody>, Response = Response<B>>,
{
    let (ctx, guard) = cache.handler_ctx();
    let is_graphql = request.extensions().get::<GraphqlQuery>().is_some();
    let has_content = has_content(&request);
    request.extensions_mut().insert(ctx.clone());
    cache.core().rules.restrict(&mut request);
    let future = observed(cache, ctx.clone(), forward::call(inner, request));
    HandlerCall { future, ctx, guard, is_graphql, has_content }
}

/// The same call, which notes at its end how fresh the values are that it has got.
fn observed<F: Future>(
    cache: &HttpCache,
    ctx: CacheCtx,
    call: F,
) -> impl Future<Output = F::Output> + use<F> {
    let (mut values, clock) =
        (cache.core().rules.value_freshness(), cache.core().store.entries.clock().clone());
    async move {
        let mut call = pin!(call);
        let result = poll_fn(|cx| values.poll(&clock, || call.as_mut().poll(cx))).await;
        ctx.note_values(values.remaining(&clock));
        result
    }
}

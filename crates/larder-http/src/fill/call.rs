//! The call of the handler whose response a fill may store.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::task::Poll;
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response, StatusCode};
use tokio::time::{Instant, timeout_at};
use tower_service::Service;

use super::{Fill, FillRole};
use crate::graphql::GraphqlQuery;
use crate::policy::ctx::{CacheCtx, HandlerGuard};
use crate::policy::handler_fields::has_content;
use crate::status::Reason;
use crate::store::HttpCache;
use crate::stored::body::BoxError;
use crate::stored::entry::OriginFailure;

/// A handler call that has not started. It starts when its future is polled.
struct HandlerCall<F> {
    future: F,
    ctx: CacheCtx,
    guard: HandlerGuard,
    is_graphql: bool,
    has_content: bool,
}

/// The response of a handler, and what tells whether it may be stored.
pub(super) struct HandlerReply<B> {
    pub(super) response: Response<B>,
    pub(super) ctx: CacheCtx,
    /// The response may be stored only if it is one of GraphQL without errors.
    pub(super) is_graphql: bool,
    /// The content fields of the request are in its key.
    pub(super) has_content: bool,
    /// It came after the deadline of the fill.
    pub(super) is_late: bool,
    /// In milliseconds of the engine's clock.
    pub(super) replied_at: u64,
    /// How long the handler took.
    pub(super) delay: Duration,
}

impl<B, E> Fill<B, E>
where
    B: http_body::Body<Data = Bytes>,
    B::Error: Into<BoxError>,
{
    /// Calls the handler. `None` if it has failed, and the client has its answer, or if it is too slow and its client has left.
    pub(super) async fn call<S, ReqBody>(
        &mut self,
        inner: S,
        request: Request<ReqBody>,
        deadline: Instant,
    ) -> Option<HandlerReply<B>>
    where
        S: Service<Request<ReqBody>, Response = Response<B>, Error = E>,
    {
        let begun_ms = self.core().store.entries.now_ms();
        let HandlerCall { future, ctx, guard, is_graphql, has_content } =
            prepare(&self.cache, inner, request);
        let mut call = pin!(future);
        let (result, is_late) = match timeout_at(deadline, &mut call).await {
            Ok(result) => (result, false),
            Err(_) => {
                self.release_followers_of_slow_fill();
                (self.wait_for_client(call).await?, true)
            }
        };
        drop(guard);
        let replied_at = self.core().store.entries.now_ms();
        let delay = Duration::from_millis(replied_at.saturating_sub(begun_ms));
        match result {
            Ok(response) => {
                Some(HandlerReply { response, ctx, is_graphql, has_content, is_late, replied_at, delay })
            }
            Err(_) if self.serve_stale_on(OriginFailure::Unreachable) => None,
            Err(error) => {
                self.abandon_store(Reason::HandlerError, StatusCode::INTERNAL_SERVER_ERROR);
                self.count(self.miss_outcome(Some(Reason::HandlerError)));
                if let Some(client) = self.client.take() {
                    let _ = client.send(Err(error));
                }
                None
            }
        }
    }

    /// Waits for a handler that is too slow. Only its client does: without one the fill ends.
    async fn wait_for_client<T>(&mut self, handler: impl Future<Output = T>) -> Option<T> {
        let mut handler = pin!(handler);
        let result = poll_fn(|cx| match (handler.as_mut().poll(cx), &mut self.client) {
            (Poll::Ready(result), _) => Poll::Ready(Some(result)),
            (Poll::Pending, Some(client)) => client.poll_closed(cx).map(|()| None),
            (Poll::Pending, None) => Poll::Ready(None),
        });
        let result = result.await;
        if result.is_none() {
            self.count(self.miss_outcome(Some(Reason::FillTimeout)));
        }
        result
    }

    /// Ends the wait for a handler that is too slow. Marks the key first: followers that return must not wait again.
    fn release_followers_of_slow_fill(&mut self) {
        if matches!(self.role, FillRole::Leader(_)) {
            self.mark_hit_for_miss();
        }
        self.role.release_followers();
        self.shared.release();
    }
}

/// Prepares the call of `inner` with a request.
fn prepare<S, ReqBody, B>(
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
    let future = observed(cache, ctx.clone(), once_ready(inner, request));
    HandlerCall { future, ctx, guard, is_graphql, has_content }
}

/// Waits until the service is ready, then calls it.
async fn once_ready<S: Service<R>, R>(mut inner: S, request: R) -> Result<S::Response, S::Error> {
    poll_fn(|cx| inner.poll_ready(cx)).await?;
    inner.call(request).await
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

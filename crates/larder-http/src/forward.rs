//! Passing a request to the inner service, which is readied first: the layer itself is always ready, so that a
//! busy handler never holds up an answer from the store.

use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Instant;

use http::{Request, Response};
use pin_project_lite::pin_project;
use tower_service::Service;

use crate::body::Body;
use crate::cache::HttpCache;
use crate::entry;
use crate::key::Key;
use crate::policy::{self, CacheCtx};
use crate::purge::Mark;
use crate::status::Outcome;

/// Readies the service, then calls it.
pub(crate) async fn call<S: Service<R>, R>(mut inner: S, request: R) -> Result<S::Response, S::Error> {
    poll_fn(|cx| inner.poll_ready(cx)).await?;
    inner.call(request).await
}

/// What is left to do with the response of a request that went by the cache.
pub(crate) enum After {
    Nothing,
    /// The method was unsafe: a success invalidates the resource (RFC 9111, 4.4).
    Invalidate(Key),
    /// The key was hit-for-miss: a response that could be stored ends that. The moment is that of the request.
    Learn(CacheCtx, Mark, Instant),
}

pin_project! {
    /// A request on its way by the cache.
    pub(crate) struct Forward<S, ReqBody>
    where
        S: Service<Request<ReqBody>>,
    {
        #[pin]
        step: Step<S, ReqBody, S::Future>,
        cache: HttpCache,
        outcome: Outcome,
        after: After,
    }
}

pin_project! {
    #[project = StepProjection]
    enum Step<S, ReqBody, F> {
        Readying { inner: S, request: Option<Request<ReqBody>> },
        Called { #[pin] future: F },
    }
}

impl<S, ReqBody> Forward<S, ReqBody>
where
    S: Service<Request<ReqBody>>,
{
    pub(crate) fn new(
        cache: HttpCache,
        inner: S,
        request: Request<ReqBody>,
        outcome: Outcome,
        after: After,
    ) -> Forward<S, ReqBody> {
        let step = Step::Readying { inner, request: Some(request) };
        Forward { step, cache, outcome, after }
    }
}

impl<S, ReqBody, B> Future for Forward<S, ReqBody>
where
    S: Service<Request<ReqBody>, Response = Response<B>>,
    B: http_body::Body,
{
    type Output = Result<Response<Body<B>>, S::Error>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let mut this = self.project();
        let result = loop {
            let future = match this.step.as_mut().project() {
                StepProjection::Called { future } => break ready!(future.poll(cx)),
                StepProjection::Readying { inner, request } => {
                    if let Err(error) = ready!(inner.poll_ready(cx)) {
                        break Err(error);
                    }
                    inner.call(request.take().expect("a request is sent once"))
                }
            };
            this.step.set(Step::Called { future });
        };
        let parts = this.cache.parts();
        parts.counters.count(*this.outcome);
        let mut response = result?;
        match this.after {
            After::Nothing => {}
            After::Invalidate(key) => {
                if response.status().is_success() || response.status().is_redirection() {
                    this.cache.invalidate(key.as_bytes());
                }
            }
            After::Learn(ctx, mark, started) => {
                parts.counters.miss_time.record(started.elapsed());
                if policy::plan(&mut response, ctx, &parts.cached_errors, false).is_ok() {
                    parts.hit_for_miss.remove(mark);
                }
            }
        }
        let mut response = response.map(Body::inner);
        entry::sign(&mut response, *this.outcome);
        Poll::Ready(Ok(response))
    }
}

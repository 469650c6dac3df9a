//! The service: what a request is in for, decided before anything behind the layer runs.
//!
//! ```text
//! request ─ admit ─┬─ not eligible ─────────────────► Forward (bypass)
//!                  └─ look up ─┬─ fresh ────────────► answer at once
//!                              ├─ stale, in grace ──► answer at once, one refresh in the background
//!                              └─ missing ─┬─ cookie ──────────► fill alone
//!                                          ├─ hit-for-miss ────► Forward
//!                                          └─ load ticket ─┬ lead ───► fill
//!                                                          └ follow ─► wait
//! ```

use std::cell::Cell;
use std::future::Future;
use std::panic;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Instant;

use bytes::Bytes;
use http::header::{
    AUTHORIZATION, CONTENT_LENGTH, COOKIE, HOST, IF_MATCH, IF_MODIFIED_SINCE, IF_NONE_MATCH,
    IF_UNMODIFIED_SINCE, PROXY_AUTHORIZATION, RANGE, TRANSFER_ENCODING, UPGRADE,
};
use http::{HeaderMap, HeaderName, Method, Request, Response, StatusCode};
use larder_engine::stats::Histogram;
use larder_engine::{FollowOutcome, Load, Ticket};
use pin_project_lite::pin_project;
use tokio::sync::oneshot;
use tokio::time::timeout;
use tower_service::Service;

use crate::body::Body;
use crate::cache::{HttpCache, Lookup, Place};
use crate::conditional;
use crate::control::Directives;
use crate::entry::{self, Slot, Stored};
use crate::fill::{Answer, Fill, Flight, Lone};
use crate::forward::{After, Forward};
use crate::key::{self, Key};
use crate::policy::CacheCtx;
use crate::status::{Outcome, Reason};

/// Fields that make some frameworks treat a GET as something else.
const METHOD_OVERRIDES: [HeaderName; 3] = [
    HeaderName::from_static("x-http-method-override"),
    HeaderName::from_static("x-http-method"),
    HeaderName::from_static("x-method-override"),
];

/// Times that a request looks again after a fill it waited for told it to look elsewhere.
const MAX_ROUNDS: usize = 4;

/// A service behind a cache; made by [`HttpCacheLayer`](crate::HttpCacheLayer).
///
/// It is always ready. The inner service is cloned for each request that reaches it and readied then; its errors
/// pass through unchanged. Fills run in tasks of their own, so calls need a tokio runtime, and tracing spans and
/// task locals of the caller do not reach the handler on a miss.
///
/// # Panics
/// Its future panics when the handler does, with the same payload.
#[derive(Clone, Debug)]
pub struct HttpCacheService<S> {
    cache: HttpCache,
    inner: S,
}

impl<S> HttpCacheService<S> {
    pub(crate) fn new(cache: HttpCache, inner: S) -> HttpCacheService<S> {
        HttpCacheService { cache, inner }
    }
}

impl<S, ReqBody, B> Service<Request<ReqBody>> for HttpCacheService<S>
where
    S: Service<Request<ReqBody>, Response = Response<B>> + Clone + Send + 'static,
    S::Future: Send + 'static,
    S::Error: Send + 'static,
    ReqBody: Send + 'static,
    B: http_body::Body<Data = Bytes> + Send + 'static,
    B::Error: Send + 'static,
{
    type Response = Response<Body<B>>;
    type Error = S::Error;
    type Future = ResponseFuture<S, ReqBody, B>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<ReqBody>) -> Self::Future {
        let timer = HitTimer::start();
        let parts = self.cache.parts();
        let asked = match Asked::of(&request, &parts.credential_fields) {
            Ok(asked) => asked,
            Err(reason) => return self.bypass(request, reason),
        };
        match parts.look_up(request.uri(), request.headers()) {
            Err(reason) => self.bypass(request, reason),
            Ok(Lookup::Found(stored)) if asked.cookie && !stored.ignores_cookies => {
                self.bypass(request, Reason::Cookie)
            }
            Ok(Lookup::Found(stored)) => {
                let now = parts.store.now_ms();
                let outcome = stored.outcome(now);
                let response = answer(&self.cache, &stored, request.headers(), asked.head, outcome, now);
                timer.record(&parts.counters.hit_time);
                if matches!(outcome, Outcome::Stale { .. }) && stored.claim_refresh(now) {
                    self.refresh(request, stored);
                }
                ResponseFuture::done(response)
            }
            Ok(Lookup::Missing(place)) => self.miss(request, place, asked),
        }
    }
}

/// Times one hit in sixteen of each thread: two reads of the clock cost about as much as the lookup.
struct HitTimer(Option<Instant>);

impl HitTimer {
    const EVERY: u64 = 16;

    fn start() -> HitTimer {
        thread_local! {
            static CALLS: Cell<u64> = const { Cell::new(0) };
        }
        let call = CALLS.replace(CALLS.get().wrapping_add(1));
        HitTimer(call.is_multiple_of(HitTimer::EVERY).then(Instant::now))
    }

    fn record(self, histogram: &Histogram) {
        if let Some(started) = self.0 {
            histogram.record_n(started.elapsed(), HitTimer::EVERY);
        }
    }
}

/// What a request asks for, as far as the cache is concerned.
#[derive(Clone, Copy)]
struct Asked {
    head: bool,
    cookie: bool,
    range: bool,
    only_if_cached: bool,
}

impl Asked {
    /// # Errors
    /// Why the request may neither be answered from the store nor fill it.
    fn of<B>(request: &Request<B>, credentials: &[HeaderName]) -> Result<Asked, Reason> {
        let headers = request.headers();
        let head = match *request.method() {
            Method::GET => false,
            Method::HEAD => true,
            _ => return Err(Reason::Method),
        };
        let has = |name: &HeaderName| headers.contains_key(name);
        if METHOD_OVERRIDES.iter().any(has) {
            return Err(Reason::MethodOverride);
        }
        let empty = headers.get_all(CONTENT_LENGTH).iter().all(|length| length == "0");
        if !empty || has(&TRANSFER_ENCODING) {
            return Err(Reason::RequestBody);
        }
        if has(&AUTHORIZATION) || has(&PROXY_AUTHORIZATION) || credentials.iter().any(has) {
            return Err(Reason::Authorization);
        }
        if has(&UPGRADE) {
            return Err(Reason::Upgrade);
        }
        if has(&IF_MATCH) || has(&IF_UNMODIFIED_SINCE) {
            return Err(Reason::Precondition);
        }
        let directives = Directives::of(headers);
        if directives.no_store {
            return Err(Reason::RequestNoStore);
        }
        Ok(Asked {
            head,
            cookie: has(&COOKIE),
            range: has(&RANGE),
            only_if_cached: directives.only_if_cached,
        })
    }
}

/// Answers from the store, with a 304 if the client's copy is current and with a part if only that is wanted.
fn answer<B: http_body::Body>(
    cache: &HttpCache,
    stored: &Stored,
    request: &HeaderMap,
    head_only: bool,
    outcome: Outcome,
    now_ms: u64,
) -> Response<Body<B>> {
    let counters = &cache.parts().counters;
    counters.count(outcome);
    let whole = || stored.replay(now_ms, head_only);
    let mut response = if stored.status() != StatusCode::OK {
        whole()
    } else if conditional::not_modified(request, stored.headers()) {
        counters.not_modified.add(1);
        stored.not_modified(now_ms)
    } else if head_only {
        whole()
    } else {
        stored.replay_part(request, now_ms).unwrap_or_else(whole)
    };
    entry::sign(&mut response, outcome);
    response
}

impl<S: Clone> HttpCacheService<S> {
    fn bypass<ReqBody, B>(&self, request: Request<ReqBody>, reason: Reason) -> ResponseFuture<S, ReqBody, B>
    where
        S: Service<Request<ReqBody>, Response = Response<B>>,
        B: http_body::Body,
    {
        let after = match reason == Reason::Method && !request.method().is_safe() {
            true => self.invalidation(&request),
            false => After::Nothing,
        };
        self.forward(request, Outcome::Bypass(reason), after)
    }

    fn invalidation<ReqBody>(&self, request: &Request<ReqBody>) -> After {
        key::with_scratch(|key| {
            let scheme = &self.cache.parts().scheme;
            match key::write_resource(key, request.uri(), request.headers(), scheme) {
                Ok(()) => After::Invalidate(Key::new(key)),
                Err(_) => After::Nothing,
            }
        })
    }

    fn forward<ReqBody, B>(
        &self,
        request: Request<ReqBody>,
        outcome: Outcome,
        after: After,
    ) -> ResponseFuture<S, ReqBody, B>
    where
        S: Service<Request<ReqBody>, Response = Response<B>>,
        B: http_body::Body,
    {
        let future = Forward::new(self.cache.clone(), self.inner.clone(), request, outcome, after);
        ResponseFuture { kind: Kind::Forward { future } }
    }

    fn miss<ReqBody, B>(
        &self,
        mut request: Request<ReqBody>,
        place: Place,
        asked: Asked,
    ) -> ResponseFuture<S, ReqBody, B>
    where
        S: Service<Request<ReqBody>, Response = Response<B>> + Send + 'static,
        S::Future: Send + 'static,
        S::Error: Send + 'static,
        ReqBody: Send + 'static,
        B: http_body::Body<Data = Bytes> + Send + 'static,
        B::Error: Send + 'static,
    {
        let parts = self.cache.parts();
        if asked.only_if_cached {
            let mut response = Response::new(Body::empty());
            *response.status_mut() = StatusCode::GATEWAY_TIMEOUT;
            let outcome = Outcome::Bypass(Reason::OnlyIfCached);
            parts.counters.count(outcome);
            entry::sign(&mut response, outcome);
            return ResponseFuture::done(response);
        }
        if asked.head {
            return self.bypass(request, Reason::Head);
        }
        if asked.range {
            return self.bypass(request, Reason::Range);
        }
        let mark = parts.purges.mark(place.resource.as_bytes());
        if parts.hit_for_miss.contains(&mark) {
            let ctx = CacheCtx::default();
            request.extensions_mut().insert(ctx.clone());
            let outcome = uncollapsed(&place, Reason::HitForMiss);
            return self.forward(request, outcome, After::Learn(ctx, mark, Instant::now()));
        }
        let started = Instant::now();
        let (cache, inner) = (self.cache.clone(), self.inner.clone());
        let future = async move {
            let response = if asked.cookie {
                fill(
                    cache.clone(),
                    inner,
                    request,
                    place,
                    Flight::Alone { _counted: Lone::new(cache.clone()) },
                    true,
                )
                .await
            } else {
                join(cache.clone(), inner, request, place).await
            };
            cache.parts().counters.miss_time.record(started.elapsed());
            response
        };
        ResponseFuture { kind: Kind::Slow { future: Box::pin(future) } }
    }

    /// Fetches a stale entry anew, with what its key was made of and no more: no credentials, no conditions.
    fn refresh<ReqBody, B>(&self, mut request: Request<ReqBody>, stale: std::sync::Arc<Stored>)
    where
        S: Service<Request<ReqBody>, Response = Response<B>> + Send + 'static,
        S::Future: Send + 'static,
        S::Error: Send + 'static,
        ReqBody: Send + 'static,
        B: http_body::Body<Data = Bytes> + Send + 'static,
        B::Error: Send + 'static,
    {
        let parts = self.cache.parts();
        let Ok(place) = parts.place_of(request.uri(), request.headers()) else { return };
        let varied = place.variant.as_ref().map_or(&[][..], |(record, _)| record.fields());
        let mut keyed = HeaderMap::new();
        for name in varied.iter().chain([&HOST]) {
            for value in request.headers().get_all(name) {
                keyed.append(name, value.clone());
            }
        }
        *request.method_mut() = Method::GET;
        *request.headers_mut() = keyed.clone();
        parts.counters.refreshes.add(1);
        let fill = Fill {
            cache: self.cache.clone(),
            place,
            flight: Flight::Refreshes(Slot::Response(stale)),
            asked: keyed,
            has_cookie: false,
            client: None,
        };
        tokio::spawn(fill.run(self.inner.clone(), request));
    }
}

fn uncollapsed(place: &Place, reason: Reason) -> Outcome {
    Outcome::Miss { variant: place.variant.is_some(), collapsed: false, unstored: Some(reason) }
}

/// Leads the fill of a missing response, or waits for the one that does.
async fn join<S, ReqBody, B>(
    cache: HttpCache,
    inner: S,
    request: Request<ReqBody>,
    mut place: Place,
) -> Answer<B, S::Error>
where
    S: Service<Request<ReqBody>, Response = Response<B>> + Send + 'static,
    S::Future: Send + 'static,
    S::Error: Send + 'static,
    ReqBody: Send + 'static,
    B: http_body::Body<Data = Bytes> + Send + 'static,
    B::Error: Send + 'static,
{
    let mut reason = Reason::Released;
    for _ in 0..MAX_ROUNDS {
        let slot = match cache.parts().store.load(place.key()) {
            Load::Hit(slot) => slot,
            Load::Lead(ticket) => return lead(cache, inner, request, place, ticket).await,
            Load::Follow(follower) => match timeout(cache.parts().wait_timeout, follower).await {
                Ok(FollowOutcome::Value(slot)) => slot,
                Ok(FollowOutcome::Lead(ticket)) => return lead(cache, inner, request, place, ticket).await,
                Ok(FollowOutcome::Failed(_)) => break,
                Err(_) => {
                    reason = Reason::WaitTimeout;
                    break;
                }
            },
        };
        if let Some(stored) = cache.parts().usable(&place, slot) {
            let now = cache.parts().store.now_ms();
            let outcome = Outcome::Miss { variant: place.variant.is_some(), collapsed: true, unstored: None };
            return Ok(answer(&cache, &stored, request.headers(), false, outcome, now));
        }
        // The fill found out that the resource varies, or its result was purged on the way here.
        match cache.parts().look_up(request.uri(), request.headers()) {
            Ok(Lookup::Found(stored)) => {
                let now = cache.parts().store.now_ms();
                let outcome = Outcome::Miss { variant: true, collapsed: true, unstored: None };
                return Ok(answer(&cache, &stored, request.headers(), false, outcome, now));
            }
            Ok(Lookup::Missing(elsewhere)) => place = elsewhere,
            Err(_) => break,
        }
    }
    let outcome = uncollapsed(&place, reason);
    Forward::new(cache, inner, request, outcome, After::Nothing).await
}

fn lead<S, ReqBody, B>(
    cache: HttpCache,
    inner: S,
    request: Request<ReqBody>,
    place: Place,
    ticket: Ticket<Key, Slot>,
) -> impl Future<Output = Answer<B, S::Error>> + Send
where
    S: Service<Request<ReqBody>, Response = Response<B>> + Send + 'static,
    S::Future: Send + 'static,
    S::Error: Send + 'static,
    ReqBody: Send + 'static,
    B: http_body::Body<Data = Bytes> + Send + 'static,
    B::Error: Send + 'static,
{
    fill(cache, inner, request, place, Flight::Leads(Some(ticket)), false)
}

/// Runs a fill in its own task and waits for the head of the response.
async fn fill<S, ReqBody, B>(
    cache: HttpCache,
    inner: S,
    mut request: Request<ReqBody>,
    place: Place,
    flight: Flight,
    has_cookie: bool,
) -> Answer<B, S::Error>
where
    S: Service<Request<ReqBody>, Response = Response<B>> + Send + 'static,
    S::Future: Send + 'static,
    S::Error: Send + 'static,
    ReqBody: Send + 'static,
    B: http_body::Body<Data = Bytes> + Send + 'static,
    B::Error: Send + 'static,
{
    let (client, answer) = oneshot::channel();
    let asked = request.headers().clone();
    // The store needs the whole response, whatever the client has; its conditions are judged afterwards.
    request.headers_mut().remove(IF_NONE_MATCH);
    request.headers_mut().remove(IF_MODIFIED_SINCE);
    let died = uncollapsed(&place, Reason::HandlerPanic);
    let fill = Fill { cache: cache.clone(), place, flight, asked, has_cookie, client: Some(client) };
    let task = tokio::spawn(fill.run(inner, request));
    if let Ok(answer) = answer.await {
        return answer;
    }
    cache.parts().counters.count(died);
    match task.await {
        Err(error) if error.is_panic() => panic::resume_unwind(error.into_panic()),
        _ => {
            // The runtime shuts down.
            let mut response = Response::new(Body::empty());
            *response.status_mut() = StatusCode::INTERNAL_SERVER_ERROR;
            entry::sign(&mut response, died);
            Ok(response)
        }
    }
}

pin_project! {
    /// The response to come: at once from the store, from the inner service, or from a fill.
    pub struct ResponseFuture<S, ReqBody, B>
    where
        S: Service<Request<ReqBody>>,
        B: http_body::Body,
    {
        #[pin]
        kind: Kind<S, ReqBody, B>,
    }
}

pin_project! {
    #[project = KindProjection]
    enum Kind<S, ReqBody, B>
    where
        S: Service<Request<ReqBody>>,
        B: http_body::Body,
    {
        Done { response: Option<Response<Body<B>>> },
        Forward { #[pin] future: Forward<S, ReqBody> },
        Slow { future: Pin<Box<dyn Future<Output = Answer<B, S::Error>> + Send>> },
    }
}

impl<S, ReqBody, B> ResponseFuture<S, ReqBody, B>
where
    S: Service<Request<ReqBody>>,
    B: http_body::Body,
{
    fn done(response: Response<Body<B>>) -> Self {
        ResponseFuture { kind: Kind::Done { response: Some(response) } }
    }
}

impl<S, ReqBody, B> Future for ResponseFuture<S, ReqBody, B>
where
    S: Service<Request<ReqBody>, Response = Response<B>>,
    B: http_body::Body,
{
    type Output = Answer<B, S::Error>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        match self.project().kind.project() {
            KindProjection::Done { response } => {
                Poll::Ready(Ok(response.take().expect("a future is not polled after its end")))
            }
            KindProjection::Forward { future } => future.poll(cx),
            KindProjection::Slow { future } => future.as_mut().poll(cx),
        }
    }
}

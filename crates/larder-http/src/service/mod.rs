//! The service: decides how each request is answered before anything behind the layer runs.
//!
//! ```text
//! request ─ traits ─┬─ not eligible ─────────────────► Forward (bypass)
//!                   ├─ body rule: read the body ─┬─ too long, too slow ──► 413, 408
//!                   │                            │
//!                   └─ look up ◄─────────────────┘
//!                        ├─ guarded ──► gate ─┬─ denied ──► Forward (bypass)
//!                        │                    └─ look up again, with the principal
//!                        ├─ fresh ────────────► stored response
//!                        ├─ stale ────────────► stored response, one refresh in the background
//!                        ├─ not fresh enough for this client ──► validate it for this client
//!                        └─ missing ─┬─ credentials ─────► fill without a ticket
//!                                    ├─ hit-for-miss ────► Forward
//!                                    └─ load ticket ─┬ lead ───► fill
//!                                                    └ follow ─► wait
//! ```

mod directives;
#[cfg(feature = "axum")]
mod extract;
pub(crate) mod layer;
pub(crate) mod response_future;
mod route;
mod unfilled;

use std::cell::Cell;
use std::convert::identity;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use bytes::Bytes;
use http::header::{CONTENT_LENGTH, CONTENT_TYPE, HOST, HeaderName, VARY};
use http::{HeaderMap, HeaderValue, Method, Request, Response, StatusCode};
use larder_engine::stats::{Histogram, Sampled};
use tower_service::Service;

use crate::fill::forward::{FollowUp, Forward, Handler, HandlerBody, HitForMissCheck};
use crate::fill::invalidation::Invalidation;
use crate::fill::miss::{self, miss_outcome};
use crate::fill::{Fill, FillRole, RunningFill, UnticketedFill};
use crate::headers::control::Directives;
use crate::headers::fields::FieldSet;
use crate::key::{self, RequestKey};
use crate::policy::gate::Requester;
use crate::request::body_key::{BodyKey, BodyRejection, NoBodyKey};
use crate::request::traits::RequestTraits;
use crate::rfc::requesting::Use;
use crate::service::response_future::{AnswerFuture, ResponseFuture};
use crate::service::route::route_of;
use crate::shared::Asked;
use crate::status::{Outcome, Reason};
use crate::store::HttpCache;
use crate::store::location::StoreLocation;
use crate::store::lookup::{self, Guarded, Lookup};
#[cfg(feature = "compression")]
use crate::store::siblings;
use crate::stored::body::{Body, BoxError};
use crate::stored::entry::{self, ReplayRequest, StoreValue, StoredResponse};

/// The shortest pause after which nobody joins a body any more.
const MIN_STALL: Duration = Duration::from_secs(1);

/// A service behind a cache; made by [`HttpCacheLayer`](crate::HttpCacheLayer).
///
/// It is always ready. Each request that reaches the inner service clones it and waits until the clone is ready. Errors
/// of the inner service are returned unchanged. Calls need a tokio runtime with time. On a miss a handler
/// that waits continues in a task of its own, where it does not see the tracing span and the task locals of the caller.
///
/// # Panics
/// If the handler panics, the future of the service panics with the same payload.
#[derive(Debug)]
pub struct HttpCacheService<S, K = NoBodyKey>(Arc<Parts<S, K>>);

/// One allocation, because frameworks clone a service for every request: a count of references that all threads change is
/// among the most expensive parts of a hit.
#[derive(Debug)]
struct Parts<S, K> {
    cache: HttpCache,
    /// Locked to clone it, for requests that need it.
    inner: Mutex<S>,
    body_key: K,
}

impl<S, K> HttpCacheService<S, K> {
    pub(crate) fn new(cache: HttpCache, inner: S, body_key: K) -> HttpCacheService<S, K> {
        HttpCacheService(Arc::new(Parts { cache, inner: Mutex::new(inner), body_key }))
    }

    pub(crate) fn cache(&self) -> &HttpCache {
        &self.0.cache
    }

    pub(crate) fn body_key(&self) -> &K {
        &self.0.body_key
    }
}

impl<S: Clone, K> HttpCacheService<S, K> {
    fn inner(&self) -> S {
        self.0.inner.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl<S, K> Clone for HttpCacheService<S, K> {
    fn clone(&self) -> Self {
        HttpCacheService(self.0.clone())
    }
}

impl<S, K, ReqBody, B> Service<Request<ReqBody>> for HttpCacheService<S, K>
where
    S: Service<Request<ReqBody>, Response = Response<B>> + Clone + Send + 'static,
    S::Future: Send + 'static,
    S::Error: Send + 'static,
    K: BodyKey<ReqBody>,
    ReqBody: http_body::Body + Send + 'static,
    B: http_body::Body<Data = Bytes> + Send + 'static,
    B::Error: Into<BoxError> + Send + 'static,
{
    type Response = Response<Body<B>>;
    type Error = S::Error;
    type Future = ResponseFuture<S, ReqBody, B, K>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<ReqBody>) -> Self::Future {
        // Before any lock: who held it at the fork does not exist here, nor do the tasks that fill bodies.
        if self.cache().core().process.has_forked() {
            return ResponseFuture::answering(self.pass(request, Reason::Forked, false));
        }
        let rule = self.body_key().rule(request.method(), request.uri());
        let mut traits =
            match RequestTraits::parse(&request, &self.cache().core().rules.personal, rule.is_some()) {
                Ok(traits) => traits,
                Err(reason) if wants_only_stored(&request, reason) => {
                    return ResponseFuture::answering(self.only_if_cached());
                }
                Err(reason) => {
                    let invalidates_uri = self.body_key().has_rule_for(request.uri());
                    return ResponseFuture::answering(self.pass(request, reason, invalidates_uri));
                }
            };
        let Some(mut rule) = rule else {
            return ResponseFuture::answering(self.answer(request, identity, None, traits));
        };
        traits.graphql = self.body_key().is_graphql(&rule);
        match self.body_key().has_body_key(&mut rule, &request) {
            Ok(true) => ResponseFuture::reading(self.clone(), request, rule, traits),
            Ok(false) => ResponseFuture::answering(self.answer(request, identity, None, traits)),
            Err(reason) => ResponseFuture::answering(self.pass(request, reason, false)),
        }
    }
}

/// Whether a request that is not eligible wants a response from the cache or none, and no change.
fn wants_only_stored<B>(request: &Request<B>, reason: Reason) -> bool {
    matches!(*request.method(), Method::GET | Method::HEAD)
        && reason != Reason::MethodOverride
        && Directives::parse(request.headers()).only_if_cached
}

/// Times every sixteenth call of each thread: two reads of the clock cost about as much as the lookup.
struct HitTimer(Option<Instant>);

impl HitTimer {
    const SAMPLE_INTERVAL: u64 = 16;

    fn start() -> HitTimer {
        thread_local! {
            static CALLS: Cell<u64> = const { Cell::new(0) };
        }
        let call = CALLS.replace(CALLS.get().wrapping_add(1));
        HitTimer(call.is_multiple_of(HitTimer::SAMPLE_INTERVAL).then(Instant::now))
    }

    fn record(self, histogram: &Histogram) {
        if let Some(started) = self.0 {
            histogram.record_n(started.elapsed(), HitTimer::SAMPLE_INTERVAL);
        }
    }
}

/// An eligible request on its way to its answer.
struct Call<ReqBody> {
    request: Request<ReqBody>,
    /// What its body contributes to the key, if it has a rule.
    body_key: Option<Bytes>,
    requester: Requester,
    traits: RequestTraits,
}

impl<S: Clone, K: Send + Sync + 'static> HttpCacheService<S, K> {
    /// Forwards a request past the cache, because a rule of the caller says so; it is counted and reported as [`Reason::Rule`].
    /// What the request changes is not invalidated: use it for safe methods.
    pub fn bypass<ReqBody, B>(&self, request: Request<ReqBody>) -> ResponseFuture<S, ReqBody, B, K>
    where
        S: Service<Request<ReqBody>, Response = Response<B>>,
        K: BodyKey<ReqBody>,
        B: http_body::Body,
    {
        ResponseFuture::answering(self.pass(request, Reason::Rule, false))
    }
}

impl<S: Clone, K: Send + Sync + 'static> HttpCacheService<S, K> {
    /// Answers an eligible request. `body_key` is what its body contributes to the key, if it has a rule. A hit needs no body,
    /// so `into_body` makes that of the inner service only for others.
    pub(crate) fn answer<T, ReqBody, B>(
        &self,
        request: Request<T>,
        into_body: impl FnOnce(T) -> ReqBody,
        body_key: Option<Bytes>,
        traits: RequestTraits,
    ) -> AnswerFuture<S, ReqBody, B>
    where
        S: Handler<ReqBody, B>,
        ReqBody: Send + 'static,
        B: HandlerBody,
    {
        let timer = HitTimer::start();
        let requester = Requester { credentials: traits.credentials, access: None };
        let key = RequestKey::new(&request, &body_key).with_fields(traits.fields);
        let found = self.cache().core().look_up(key);
        if let Ok(Lookup::Found(stored)) = &found
            && requester.check(stored.scope).is_ok()
            && !stored.is_filling()
            && !self.has_terms(traits)
        {
            let now = self.cache().core().store.entries.now_ms();
            if let outcome @ Outcome::Hit { .. } = stored.outcome(now) {
                let response = self.replay(&request, &body_key, traits, stored, (outcome, now), timer);
                return AnswerFuture::ready(response);
            }
        }
        let call = Call { request: request.map(into_body), body_key, requester, traits };
        match found {
            Err(reason) => self.decline(call, reason),
            Ok(found) => self.reply(call, found, timer),
        }
    }

    /// Answers a call after its lookup.
    fn reply<ReqBody, B>(
        &self,
        mut call: Call<ReqBody>,
        found: Lookup,
        timer: HitTimer,
    ) -> AnswerFuture<S, ReqBody, B>
    where
        S: Handler<ReqBody, B>,
        ReqBody: Send + 'static,
        B: HandlerBody,
    {
        let core = self.cache().core();
        match found {
            Lookup::Guarded(guarded) => self.ask_gate(call, guarded),
            Lookup::Missing(location) => match self.stale_for(&call, &location) {
                Some((stored, now)) => {
                    let Call { request, body_key, traits, .. } = &call;
                    let outcome = stored.stale_outcome(now);
                    AnswerFuture::ready(self.replay(
                        request,
                        body_key,
                        *traits,
                        &stored,
                        (outcome, now),
                        timer,
                    ))
                }
                None => self.miss(call, location),
            },
            Lookup::Unverified(_) => self.verify(call),
            Lookup::Found(stored) => {
                if let Err(reason) = call.requester.check(stored.scope) {
                    return self.decline(call, reason);
                }
                if stored.is_filling() {
                    return self.join_fill(call, &stored);
                }
                let now = core.store.entries.now_ms();
                if self.has_terms(call.traits) {
                    match self.use_of(&call.request, &stored, now) {
                        Use::Serve | Use::ServeAndValidate => {}
                        Use::Validate => return self.validate(call, stored),
                        Use::Unavailable => return self.only_if_cached(),
                    }
                }
                let outcome = stored.outcome(now);
                let Call { request, body_key, traits, .. } = &call;
                let response = self.replay(request, body_key, *traits, &stored, (outcome, now), timer);
                if matches!(outcome, Outcome::Stale { .. }) && stored.claim_refresh(now) {
                    call.traits.mark(&mut call.request);
                    self.refresh(call.request, call.body_key, stored);
                }
                AnswerFuture::ready(response)
            }
        }
    }

    /// The response from the store, counted. `now` is in milliseconds of the engine's clock.
    #[cfg_attr(not(feature = "compression"), expect(unused_variables, reason = "the key is for siblings"))]
    fn replay<T, B: http_body::Body>(
        &self,
        request: &Request<T>,
        body_key: &Option<Bytes>,
        traits: RequestTraits,
        stored: &Arc<StoredResponse>,
        (outcome, now): (Outcome, u64),
        timer: HitTimer,
    ) -> Response<Body<B>> {
        let core = self.cache().core();
        #[cfg(feature = "compression")]
        let encoded = match traits.fields.has(FieldSet::RANGE) {
            // Also for a HEAD: it tells the length of what the ranges are of.
            true => siblings::select_for_range(self.cache(), stored, request.headers()),
            false => self.encoded_sibling(request, body_key, stored),
        };
        #[cfg(not(feature = "compression"))]
        let encoded = None;
        let replayed = encoded.as_ref().unwrap_or(stored);
        let replay =
            ReplayRequest { headers: request.headers(), fields: traits.fields, head_only: traits.head };
        let response = entry::answer(&core.counters, replayed, replay, outcome, now);
        timer.record(&core.counters.hit_time);
        if let Some(sampled) = Sampled::draw() {
            let route = route_of(request.extensions(), stored);
            core.counters.record_use(
                sampled,
                key::target(request).path(),
                route,
                stored.tag_names(|tag| core.store.is_of_handler(tag)),
            );
        }
        response
    }

    /// Answers a call after the gate has judged its request.
    fn ask_gate<ReqBody, B>(&self, mut call: Call<ReqBody>, guarded: Guarded) -> AnswerFuture<S, ReqBody, B>
    where
        S: Handler<ReqBody, B>,
        ReqBody: Send + 'static,
        B: HandlerBody,
    {
        let service = self.clone();
        let future = async move {
            let (request, found) = lookup::ask_gate(
                service.cache(),
                call.request,
                guarded,
                &mut call.requester,
                Asked::default(),
            )
            .await;
            service.reply_again(Call { request, ..call }, found).await
        };
        AnswerFuture::boxed(future)
    }

    /// Answers a call after its entry was compared with Redis.
    fn verify<ReqBody, B>(&self, call: Call<ReqBody>) -> AnswerFuture<S, ReqBody, B>
    where
        S: Handler<ReqBody, B>,
        ReqBody: Send + 'static,
        B: HandlerBody,
    {
        let service = self.clone();
        let future = async move {
            let (core, key) = (service.cache().core(), RequestKey::new(&call.request, &call.body_key));
            let found =
                core.look_up_verified(Asked::default(), |permits| core.look_up_with(key, permits)).await;
            service.reply_again(call, found).await
        };
        AnswerFuture::boxed(future)
    }

    /// Answers a call after a second lookup.
    fn reply_again<ReqBody, B>(
        &self,
        call: Call<ReqBody>,
        found: Result<Lookup, Reason>,
    ) -> AnswerFuture<S, ReqBody, B>
    where
        S: Handler<ReqBody, B>,
        ReqBody: Send + 'static,
        B: HandlerBody,
    {
        match found {
            Err(reason) => self.decline(call, reason),
            Ok(found) => self.reply(call, found, HitTimer::start()),
        }
    }

    #[cfg(feature = "compression")]
    fn encoded_sibling<ReqBody>(
        &self,
        request: &Request<ReqBody>,
        body_key: &Option<Bytes>,
        stored: &Arc<StoredResponse>,
    ) -> Option<Arc<StoredResponse>> {
        siblings::select(self.cache(), stored, request.headers(), || {
            let location = self.cache().core().location_of(RequestKey::new(request, body_key)).ok()?;
            Some(location.key().clone())
        })
    }

    /// Answers with a response whose body is still being filled.
    fn join_fill<ReqBody, B>(
        &self,
        call: Call<ReqBody>,
        filling: &StoredResponse,
    ) -> AnswerFuture<S, ReqBody, B>
    where
        S: Service<Request<ReqBody>, Response = Response<B>>,
        B: http_body::Body,
    {
        if call.traits.head {
            return self.decline(call, Reason::Head);
        }
        if call.traits.fields.has(FieldSet::RANGE) {
            return self.decline(call, Reason::Range);
        }
        if filling.is_stalled(self.cache().core().limits.wait_timeout.max(MIN_STALL)) {
            return self.decline(call, Reason::WaitTimeout);
        }
        let is_variant = filling.headers().contains_key(VARY);
        let headers = call.request.headers();
        AnswerFuture::ready(self.cache().core().answer_collapsed(filling, headers, is_variant))
    }

    /// Forwards an eligible request that gets nothing from the cache, unless its client wants nothing else.
    fn decline<ReqBody, B>(&self, call: Call<ReqBody>, reason: Reason) -> AnswerFuture<S, ReqBody, B>
    where
        S: Service<Request<ReqBody>, Response = Response<B>>,
        B: http_body::Body,
    {
        match call.traits.only_if_cached {
            true => self.only_if_cached(),
            false => self.pass(call.request, reason, false),
        }
    }

    /// The 504 for a client that wants a response from the cache or none (RFC 9111, 5.2.1.7).
    pub(crate) fn only_if_cached<ReqBody, B>(&self) -> AnswerFuture<S, ReqBody, B>
    where
        S: Service<Request<ReqBody>, Response = Response<B>>,
        B: http_body::Body,
    {
        let mut response = Response::new(Body::empty());
        *response.status_mut() = StatusCode::GATEWAY_TIMEOUT;
        let outcome = Outcome::Bypass(Reason::OnlyIfCached);
        self.cache().core().counters.count(outcome);
        entry::add_cache_status(&mut response, outcome);
        AnswerFuture::ready(response)
    }

    /// The layer's own answer to a request whose body could not be read.
    pub(crate) fn reject<B: http_body::Body>(&self, rejection: BodyRejection) -> Response<Body<B>> {
        let mut response = Response::new(Body::full(rejection.message().into()));
        *response.status_mut() = rejection.status();
        response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=utf-8"));
        let outcome = Outcome::Rejected(rejection.reason);
        self.cache().core().counters.count(outcome);
        entry::add_cache_status(&mut response, outcome);
        response
    }

    /// `has_body_keys`: responses to requests with a body may be stored for the URI.
    pub(crate) fn pass<ReqBody, B>(
        &self,
        request: Request<ReqBody>,
        reason: Reason,
        has_body_keys: bool,
    ) -> AnswerFuture<S, ReqBody, B>
    where
        S: Service<Request<ReqBody>, Response = Response<B>>,
        B: http_body::Body,
    {
        let may_change = match reason {
            Reason::Method => !request.method().is_safe(),
            Reason::MethodOverride => true,
            _ => false,
        };
        let follow_up =
            if may_change { self.invalidation(&request, has_body_keys) } else { FollowUp::Nothing };
        self.forward(request, Outcome::Bypass(reason), follow_up)
    }

    fn invalidation<ReqBody>(&self, request: &Request<ReqBody>, has_body_keys: bool) -> FollowUp {
        Invalidation::new(self.cache().clone(), request, has_body_keys)
            .map_or(FollowUp::Nothing, FollowUp::Invalidate)
    }

    pub(crate) fn forward<ReqBody, B>(
        &self,
        request: Request<ReqBody>,
        outcome: Outcome,
        follow_up: FollowUp,
    ) -> AnswerFuture<S, ReqBody, B>
    where
        S: Service<Request<ReqBody>, Response = Response<B>>,
        B: http_body::Body,
    {
        let future = Forward::new(self.cache().clone(), self.inner(), request, outcome, follow_up);
        AnswerFuture::forward(future)
    }

    fn miss<ReqBody, B>(&self, call: Call<ReqBody>, location: StoreLocation) -> AnswerFuture<S, ReqBody, B>
    where
        S: Handler<ReqBody, B>,
        ReqBody: Send + 'static,
        B: HandlerBody,
    {
        let Call { mut request, body_key, requester, traits } = call;
        let core = self.cache().core();
        let hit_for_miss_key = core.store.hit_for_miss_key(&location);
        let is_hit_for_miss = core.store.hit_for_miss.contains(&hit_for_miss_key);
        if let Some(reason) = core.why_unfilled(traits, &requester, &location, is_hit_for_miss) {
            if core.store.may_have_elsewhere(&location) && !is_hit_for_miss {
                return self.find_elsewhere(request, location, requester, reason);
            }
            return self.answer_unfilled(request, &location, reason);
        }
        if is_hit_for_miss {
            let outcome = miss_outcome(&location, Reason::HitForMiss);
            let follow_up = FollowUp::CheckHitForMiss(HitForMissCheck::new(
                core,
                hit_for_miss_key,
                &request,
                traits.graphql,
            ));
            return self.forward(request, outcome, follow_up);
        }
        traits.mark(&mut request);
        let started = Instant::now();
        let (cache, inner) = (self.cache().clone(), self.inner());
        let future = async move {
            // A response to credentials may be shared only once the resource is known to have a scope, one to long fields may
            // have no key, and a guarded one may be for this requester alone: others must not wait for it.
            let (core, is_known) = (cache.core(), location.variant.is_some());
            let response = if (requester.credentials.is_some() && !core.store.is_shared(&location))
                || (!is_known && !key::fits_variant(request.headers()))
                || core.store.is_marked_guarded(&location)
            {
                let role = FillRole::Unticketed { _counted: UnticketedFill::new(core) };
                miss::run_fill(cache.clone(), inner, request, location, role, requester).await
            } else {
                miss::lead_or_follow(cache.clone(), inner, request, body_key, location, requester).await
            };
            cache.core().counters.miss_time.record(started.elapsed());
            response
        };
        AnswerFuture::boxed(future)
    }

    /// Starts a refresh of a stale entry. Its request has only the headers that the key was made from, and no personal
    /// extensions: no credentials and no conditions.
    fn refresh<ReqBody, B>(
        &self,
        mut request: Request<ReqBody>,
        body_key: Option<Bytes>,
        stale: Arc<StoredResponse>,
    ) where
        S: Handler<ReqBody, B>,
        ReqBody: Send + 'static,
        B: HandlerBody,
    {
        let core = self.cache().core();
        let Some(running) = RunningFill::new(core) else { return };
        let Ok(mut location) = core.location_of(RequestKey::new(&request, &body_key)) else { return };
        location.expired = Some(stale.clone());
        let vary_fields = location.variant.as_ref().map_or(&[][..], |(record, _)| record.fields());
        let mut key_headers = HeaderMap::new();
        let is_content_field = |name: &&HeaderName| body_key.is_some() && !vary_fields.contains(name);
        let content_fields = key::CONTENT_FIELDS.iter().chain([&CONTENT_LENGTH]).filter(is_content_field);
        for name in vary_fields.iter().chain([&HOST]).chain(content_fields) {
            for value in request.headers().get_all(name) {
                key_headers.append(name, value.clone());
            }
        }
        if *request.method() == Method::HEAD {
            *request.method_mut() = Method::GET;
        }
        *request.headers_mut() = key_headers.clone();
        core.rules.personal.remove_extensions(request.extensions_mut());
        core.counters.refreshes.add(1);
        let fill = Fill {
            cache: self.cache().clone(),
            location,
            role: FillRole::Refresh(StoreValue::Response(stale)),
            request_headers: key_headers,
            requester: Requester::default(),
            head_only: false,
            _running: running,
            client: None,
            first_variant: Default::default(),
            shared: Default::default(),
            disk: Default::default(),
        };
        tokio::spawn(fill.run(self.inner(), request));
    }
}

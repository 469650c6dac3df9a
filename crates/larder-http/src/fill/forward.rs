//! Forwards a request to the inner service, after waiting until it is ready. The layer itself is always ready, so that
//! a busy handler never delays a response from the store.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};

use bytes::Bytes;
use http::{Request, Response, StatusCode};
use larder_engine::Ttl;
use pin_project_lite::pin_project;
use tower_service::Service;

use crate::fill::declared_length;
use crate::fill::head::HeadUpdate;
use crate::fill::invalidation::Invalidation;
use crate::headers::range;
use crate::policy::ctx::{CacheCtx, HandlerGuard};
use crate::policy::decide;
use crate::policy::handler_fields::has_content;
use crate::policy::plan::KNOWN_AFTER_END;
use crate::policy::scope::Scope;
use crate::policy::value_freshness::ValueFreshness;
use crate::rfc::storing::Asked;
use crate::status::Outcome;
use crate::store::HttpCache;
use crate::store::core::CacheCore;
use crate::store::location::StoreLocation;
use crate::stored::body::{Body, BoxError};
use crate::stored::entry;
use crate::stored::purge::PurgeKey;

/// The inner service of a fill, which may continue in its own task, and call it twice.
pub(crate) trait Handler<ReqBody, B>:
    Service<Request<ReqBody>, Response = Response<B>, Future: Send + 'static, Error: Send + 'static>
    + Clone
    + Send
    + 'static
{
}

impl<S, ReqBody, B> Handler<ReqBody, B> for S where
    S: Service<Request<ReqBody>, Response = Response<B>, Future: Send + 'static, Error: Send + 'static>
        + Clone
        + Send
        + 'static
{
}

/// The body of a handler's response.
pub(crate) trait HandlerBody:
    http_body::Body<Data = Bytes, Error: Into<BoxError> + Send + 'static> + Send + 'static
{
}

impl<B> HandlerBody for B where
    B: http_body::Body<Data = Bytes, Error: Into<BoxError> + Send + 'static> + Send + 'static
{
}

/// What to do with the response to a forwarded request.
pub(crate) enum FollowUp {
    Nothing,
    /// The method is unsafe: a success invalidates the URI (RFC 9111, 4.4).
    Invalidate(Invalidation),
    /// The key is hit-for-miss: a response that can surely be stored ends that, one that can surely not prolongs it.
    CheckHitForMiss(HitForMissCheck),
    /// The request has a range: the response tells whether a complete body could be stored.
    LearnRange(RangeCheck),
    /// The method is HEAD: the response tells whether a stored one is outdated.
    UpdateStored(Box<HeadUpdate>),
}

/// What is learnt from the response to a range.
pub(crate) struct RangeCheck {
    asked: Asked,
    range_key: PurgeKey,
    public_key: PurgeKey,
    has_content: bool,
}

impl RangeCheck {
    pub(crate) fn new<B>(core: &CacheCore, location: &StoreLocation, request: &Request<B>) -> RangeCheck {
        RangeCheck {
            asked: core.rules.asked(request.headers()),
            range_key: core.store.range_key(location),
            public_key: core.store.purges.purge_key(location.resource.as_bytes()),
            has_content: has_content(request),
        }
    }

    /// Remembers that the next request for a range may fill the complete body. Only the gate knows who may have a guarded
    /// one.
    fn learn<B: http_body::Body>(&self, core: &CacheCore, response: &mut Response<B>, ctx: &CacheCtx) {
        let length = match response.status() {
            StatusCode::OK => declared_length(response.headers(), &response.body().size_hint()),
            StatusCode::PARTIAL_CONTENT => range::complete_length(response.headers()),
            _ => None,
        };
        if length.is_none_or(|length| length > core.limits.max_body_bytes as u64) {
            return;
        }
        let status = std::mem::replace(response.status_mut(), StatusCode::OK);
        let plan = decide::plan(response, ctx, &core.rules, self.asked, Duration::ZERO)
            .and_then(|plan| core.rules.check_fields_read(response, plan, self.has_content));
        *response.status_mut() = status;
        if let Ok(plan) = plan.as_ref()
            && !plan.is_guarded()
        {
            let known_for = || Ttl::After(plan.stored_for() + KNOWN_AFTER_END);
            core.store.known_resources.insert_with_ttl(self.range_key, (), known_for());
            if plan.scope == Some(Scope::Public) && plan.vary.is_empty() {
                core.store.known_resources.insert_with_ttl(self.public_key, (), known_for());
            }
        }
    }
}

/// What a response must fulfil to end hit-for-miss.
pub(crate) struct HitForMissCheck {
    key: PurgeKey,
    asked: Asked,
    started: Instant,
    has_content: bool,
    is_graphql: bool,
}

impl HitForMissCheck {
    /// Of a request that starts now.
    pub(crate) fn new<B>(
        core: &CacheCore,
        key: PurgeKey,
        request: &Request<B>,
        is_graphql: bool,
    ) -> HitForMissCheck {
        let (asked, has_content) = (core.rules.asked(request.headers()), has_content(request));
        HitForMissCheck { key, asked, started: Instant::now(), has_content, is_graphql }
    }

    /// Ends it if the response can surely be stored, and prolongs it if it can surely not.
    fn follow_response<B: http_body::Body>(
        &self,
        core: &CacheCore,
        response: &mut Response<B>,
        ctx: &CacheCtx,
    ) {
        let hint = response.body().size_hint();
        let is_too_long = hint.lower() > core.limits.max_body_bytes as u64;
        let is_refused = decide::plan(response, ctx, &core.rules, self.asked, Duration::ZERO)
            .and_then(|plan| core.rules.check_fields_read(response, plan, self.has_content))
            .is_err();
        if is_refused || is_too_long {
            core.store.hit_for_miss.insert(self.key, ());
        } else if hint.exact().is_some() && !self.is_graphql {
            // Only the end of a GraphQL response shows whether it has errors, and that of others how long they are.
            core.store.hit_for_miss.remove(&self.key);
        }
    }
}

pin_project! {
    /// The future of a forwarded request.
    pub(crate) struct Forward<S, ReqBody>
    where
        S: Service<Request<ReqBody>>,
    {
        #[pin]
        state: ForwardState<S, ReqBody, S::Future>,
        cache: HttpCache,
        outcome: Outcome,
        follow_up: FollowUp,
        handler: Option<HandlerGuard>,
        values: ValueFreshness,
    }
}

pin_project! {
    #[project = ForwardStateProjection]
    enum ForwardState<S, ReqBody, F> {
        WaitingForReady { inner: S, request: Option<Request<ReqBody>> },
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
        mut request: Request<ReqBody>,
        outcome: Outcome,
        follow_up: FollowUp,
    ) -> Forward<S, ReqBody> {
        let (ctx, handler) = cache.handler_ctx();
        request.extensions_mut().insert(ctx);
        if matches!(outcome, Outcome::Miss { .. }) || matches!(follow_up, FollowUp::UpdateStored(_)) {
            // The handler must not see more than in a fill.
            cache.core().rules.restrict(&mut request);
        }
        let state = ForwardState::WaitingForReady { inner, request: Some(request) };
        let values = match follow_up {
            FollowUp::CheckHitForMiss(_) | FollowUp::LearnRange(_) | FollowUp::UpdateStored(_) => {
                cache.core().rules.value_freshness()
            }
            FollowUp::Nothing | FollowUp::Invalidate(_) => ValueFreshness::new(false),
        };
        Forward { state, cache, outcome, follow_up, handler: Some(handler), values }
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
        let clock = this.cache.core().store.entries.clock();
        let result = loop {
            let future = match this.state.as_mut().project() {
                ForwardStateProjection::Called { future } => {
                    break ready!(this.values.poll(clock, || future.poll(cx)));
                }
                ForwardStateProjection::WaitingForReady { inner, request } => {
                    if let Err(error) = ready!(inner.poll_ready(cx)) {
                        break Err(error);
                    }
                    if let FollowUp::Invalidate(invalidation) = this.follow_up {
                        invalidation.is_due = true;
                    }
                    inner.call(request.take().expect("the request is sent once"))
                }
            };
            this.state.set(ForwardState::Called { future });
        };
        // Dropped before the client gets the response.
        let handler = this.handler.take().expect("a completed future is not polled again");
        let core = this.cache.core();
        handler.ctx().note_values(this.values.remaining(clock));
        core.counters.count(*this.outcome);
        if let (Err(_), FollowUp::CheckHitForMiss(check)) = (&result, &*this.follow_up) {
            core.store.hit_for_miss.insert(check.key, ());
        }
        let mut response = result?;
        decide::add_labels(&mut response, handler.ctx());
        match this.follow_up {
            FollowUp::Nothing => {}
            FollowUp::Invalidate(invalidation) => {
                invalidation.is_due = response.status().is_success() || response.status().is_redirection();
                if invalidation.is_due {
                    invalidation.add_named(response.headers());
                }
                // Before the client gets the response.
                *this.follow_up = FollowUp::Nothing;
            }
            FollowUp::LearnRange(check) => check.learn(core, &mut response, handler.ctx()),
            FollowUp::UpdateStored(update) => update.follow(&response, handler.ctx()),
            FollowUp::CheckHitForMiss(check) => {
                core.counters.miss_time.record(check.started.elapsed());
                check.follow_response(core, &mut response, handler.ctx());
            }
        }
        let mut response = response.map(Body::inner);
        entry::add_cache_status(&mut response, *this.outcome);
        Poll::Ready(Ok(response))
    }
}

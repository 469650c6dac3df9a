//! What is stored but expired: the handler validates it with a 304, or it is served stale because the handler fails, or it
//! goes back into the store (RFC 9111, 4.3 and 4.2.4).

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::header::ETAG;
use http::{HeaderMap, Request, Response, StatusCode, response};
use larder_engine::Ttl;
use tokio::time::Instant;
use tower_service::Service;

use super::{Fill, FillRole};
use crate::fill::call::HandlerReply;
use crate::policy::ctx::CacheCtx;
use crate::policy::handler_fields::has_content;
use crate::policy::plan::Plan;
use crate::rfc::directives::RequestDirectives;
use crate::rfc::validation;
use crate::shared::Verdict;
use crate::status::{Outcome, Reason};
use crate::stored::body::{Body, BoxError};
use crate::stored::entry::{OriginFailure, ReplayRequest, StoreValue, StoredBody, StoredResponse};
use crate::stored::purge::PurgeStamp;

/// A stored response with the fields of the one that has validated it.
pub(super) struct Merged {
    pub(super) stored: StoredResponse,
    pub(super) plan: Plan,
    /// All fields, for a client.
    head: response::Parts,
    /// Why it may not be stored any more.
    pub(super) unstored: Option<Reason>,
}

/// Whether a status stands for a failure of the origin, for which a stale response may be served (RFC 5861, 4).
pub(super) fn is_failure(status: StatusCode) -> bool {
    matches!(status.as_u16(), 500 | 502 | 503 | 504)
}

impl<B, E> Fill<B, E>
where
    B: http_body::Body<Data = Bytes>,
    B::Error: Into<BoxError>,
{
    /// Makes the request of this fill conditional, if the handler can validate what is stored. Returns whether it can.
    pub(super) fn add_conditions(&self, request: &mut HeaderMap) -> bool {
        let Some(expired) = self.location.expired.as_ref().filter(|expired| expired.is_of_origin()) else {
            return false;
        };
        validation::add_conditions(request, expired.own_etag(), expired.headers())
    }

    /// The handler and the request before it has conditions, for a second call. `None` if nothing is stored to be validated, or the
    /// request cannot be made twice.
    pub(super) fn unconditional<S: Clone, ReqBody: 'static>(
        &self,
        inner: &S,
        request: &Request<ReqBody>,
    ) -> Option<Box<(S, Request<ReqBody>)>> {
        self.location.expired.as_ref().filter(|_| !has_content(request))?;
        let mut copy = Request::new(self.core().rules.empty_body.make()?);
        *copy.method_mut() = request.method().clone();
        *copy.uri_mut() = request.uri().clone();
        *copy.version_mut() = request.version();
        *copy.headers_mut() = request.headers().clone();
        *copy.extensions_mut() = request.extensions().clone();
        Some(Box::new((inner.clone(), copy)))
    }

    /// Whether a 304 is about the stored response.
    pub(super) fn is_selected_by(&self, response: &Response<B>) -> bool {
        self.location.expired.as_ref().is_some_and(|expired| expired.is_selected(response.headers()))
    }

    /// Calls the handler once more, because its 304 was about another response than the stored one (RFC 9111, 4.3.4). `None` if the
    /// client has its answer: the handler has failed, or cannot be called again, or has sent a 304 that nobody asked for.
    pub(super) async fn repeat<S, ReqBody>(
        &mut self,
        unconditional: Option<Box<(S, Request<ReqBody>)>>,
        deadline: Instant,
    ) -> Option<HandlerReply<B>>
    where
        S: Service<Request<ReqBody>, Response = Response<B>, Error = E>,
    {
        if let Some(unconditional) = unconditional {
            let (inner, request) = *unconditional;
            let reply = self.call(inner, request, deadline).await?;
            if reply.response.status() != StatusCode::NOT_MODIFIED {
                return Some(reply);
            }
        }
        self.refuse_validation();
        None
    }

    /// Stores what the handler has validated as new, with the fields of its 304, and sends it.
    pub(super) async fn complete_validation(&mut self, reply: HandlerReply<B>, stamp: PurgeStamp) {
        let HandlerReply { response, ctx, has_content, replied_at, delay, .. } = reply;
        let expired = self.location.expired.take().expect("it was compared");
        let (head, _) = response.into_parts();
        let times = (replied_at, delay);
        let Merged { stored, plan, head, unstored } =
            self.merge(&expired, head, &ctx, has_content, stamp, times);
        match unstored {
            Some(reason) => {
                self.abandon_store(reason, head.status);
                self.send_stored(&stored, &plan, head, replied_at, self.miss_outcome(Some(reason)));
            }
            None => {
                let stored = match self.shared.has_lease() {
                    true => self.shared(stored, &plan, true).await,
                    false => stored,
                };
                let stored = Arc::new(self.with_siblings(stored, &plan));
                let result = self.store(&stored, &plan).map(drop);
                let outcome = match self.settle(result) {
                    Ok(()) => Outcome::Validated,
                    Err(reason) => self.miss_outcome(Some(reason)),
                };
                self.send_stored(&stored, &plan, head, replied_at, outcome);
            }
        }
    }

    /// What is stored with the fields of a response that has validated it.
    pub(super) fn merge(
        &self,
        validated: &StoredResponse,
        mut head: response::Parts,
        ctx: &CacheCtx,
        has_content: bool,
        stamp: PurgeStamp,
        (replied_at, delay): (u64, Duration),
    ) -> Merged {
        let has_own_etag = validated.own_etag().is_some() || head.headers.contains_key(ETAG);
        head.status = validated.status();
        head.headers = validation::merge(&validated.headers_without_siblings(), &head.headers);
        let mut merged = Response::from_parts(head, ());
        // A response that names no tags leaves those of what it validates: they still purge it.
        if ctx.has_no_tags() {
            let store = &self.core().store;
            validated.tag_names(|tag| store.is_kept_tag(tag)).for_each(|tag| ctx.tag(tag));
        }
        let plan = self.plan(&mut merged, ctx, has_content, delay);
        let (head, ()) = merged.into_parts();
        let (mut plan, unstored) =
            plan.map_or_else(|reason| (Plan::default(), Some(reason)), |plan| (plan, None));
        if let Some(later) = &mut plan.later {
            later.has_own_etag = has_own_etag;
        }
        let body = validated.complete_body().expect("only a complete response is validated").clone();
        let stored = StoredResponse::new(
            head.status,
            &head.headers,
            StoredBody::Complete(body),
            &plan,
            self.tags(&plan),
            stamp,
            replied_at,
        );
        Merged { stored, plan, head, unstored }
    }

    /// Sends a 502, because there is only a 304 about another response than the stored one. That is of no use then: the next request
    /// gets a new one.
    fn refuse_validation(&mut self) {
        self.location.expired = None;
        self.abandon_store(Reason::Validation, StatusCode::OK);
        let outcome = self.miss_outcome(Some(Reason::Validation));
        self.count(outcome);
        let mut response = Response::new(Body::empty());
        *response.status_mut() = StatusCode::BAD_GATEWAY;
        self.send(response, outcome);
    }

    /// Serves what is expired, to the client and to all who follow, because the origin has failed so. Returns whether that is
    /// allowed.
    pub(super) fn serve_stale_on(&mut self, failure: OriginFailure) -> bool {
        let now = self.core().store.entries.now_ms();
        let Some(expired) = self.location.expired.clone() else { return false };
        let directives = RequestDirectives::parse(&self.request_headers);
        // A purge meanwhile is final, and one of another replica may be missing while Redis is lost.
        let is_allowed = self.verdict(&expired) == Verdict::Usable;
        if !is_allowed || !expired.serve_stale_on(failure, &directives, now) {
            return false;
        }
        self.restore_expired();
        let outcome = expired.outcome(now);
        self.count(outcome);
        let response = expired.respond(ReplayRequest::get(&self.request_headers), now);
        self.send(response, outcome);
        true
    }

    /// Stores again what this fill has taken out of the store, unless its key was removed meanwhile. A fill that has taken
    /// nothing out changes nothing.
    pub(super) fn restore_expired(&mut self) {
        let Some(expired) = self.location.expired.take() else { return };
        let kept_ms = expired.kept_ms(self.core().store.entries.now_ms());
        if matches!(self.role, FillRole::Leader(_)) && kept_ms > 0 {
            let (cache, key) = (self.cache.clone(), self.location.key().clone());
            let ttl = Ttl::After(Duration::from_millis(kept_ms));
            // If it is refused, the next fill validates nothing.
            _ = self.role.store(cache.core(), &key, StoreValue::Response(expired), ttl);
        }
    }
}

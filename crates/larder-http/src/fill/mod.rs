//! A fill: runs the handler for a response that may be stored. If the handler waits, it continues in its own task, so
//! that a client that disconnects does not cancel a fill that other requests follow.
//!
//! ```text
//! client ── request ──► fill task ──► handler
//!        ◄── head ─────    │  ◄── body, frame by frame
//!        ◄── buffer ───────┤
//! followers ◄── buffer ────┤  found through the store
//!                          └─ complete body ──► store
//! ```
//!
//! If the body is not ready at once, the client receives the head immediately, and the response is stored with a body
//! that is being filled. A long body without an `ETag` is sent before one is made, and stored afterwards. The fill collects
//! the body up to the limit; the client and all followers read the same buffer, each at its own speed. If the body cannot be
//! stored, the client gets the rest of it from the handler, and the bodies of the followers end with an error.
//!
//! This file is the course of a fill.
//!
//! - [`miss`]: requests whose response is not stored lead a fill or follow one; [`forward`]: those that fill nothing.
//! - [`invalidation`]: what a request with an unsafe method invalidates. [`head`]: what a HEAD updates.
//! - [`role`]: how a fill may store its response. [`call`]: the call of its handler.
//! - [`read`], [`collect`]: reading the body. [`send`], [`stream`]: what the client and the followers get.
//! - [`validation`]: what is expired is validated by the handler, or answers if that fails.
//! - `elsewhere`: a response that is found on disk, by `disk`, or in Redis.
//! - [`commit`]: what becomes of the response. `share`, or `unshared` without that feature: what other replicas get of it.

mod call;
mod collect;
mod commit;
#[cfg(feature = "disk")]
pub(crate) mod disk;
#[cfg(any(feature = "disk", feature = "shared"))]
mod elsewhere;
pub(crate) mod forward;
pub(crate) mod head;
pub(crate) mod invalidation;
pub(crate) mod miss;
mod read;
mod role;
mod send;
#[cfg(feature = "shared")]
pub(crate) mod share;
mod stream;
#[cfg(not(feature = "shared"))]
pub(crate) mod unshared;
mod validation;

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use bytes::Bytes;
use http::header::AGE;
use http::{HeaderMap, Request, Response, StatusCode, response};
use tokio::sync::oneshot;
use tokio::time::Instant;
use tower_service::Service;

use self::call::HandlerReply;
pub(crate) use self::read::declared_length;
pub(crate) use self::role::{FillRole, PurgedFill, RunningFill, UnticketedFill};
#[cfg(feature = "shared")]
pub(crate) use self::share::{self as replicas, FillShare};
#[cfg(not(feature = "shared"))]
pub(crate) use self::unshared::{self as replicas, FillShare};
use crate::graphql::ResponseScan;
use crate::key::{self, Key};
use crate::policy::ctx::CacheCtx;
use crate::policy::decide;
use crate::policy::gate::Requester;
use crate::policy::plan::Plan;
use crate::policy::profile::Profile;
use crate::rfc::groups;
use crate::shared::Verdict;
use crate::status::{Outcome, Reason};
use crate::store::HttpCache;
use crate::store::core::CacheCore;
use crate::store::entries::Store;
use crate::store::location::StoreLocation;
use crate::stored::body::{Body, BoxError};
use crate::stored::entry::{OriginFailure, ReplayRequest, StoreValue, StoredResponse};
use crate::stored::record::VaryRecord;

/// The result that a fill sends to its client.
pub(crate) type ServiceResult<B, E> = Result<Response<Body<B>>, E>;

/// One fill, and the destinations of its response.
pub(crate) struct Fill<B: http_body::Body, E> {
    pub(crate) cache: HttpCache,
    pub(crate) location: StoreLocation,
    pub(crate) role: FillRole,
    /// The headers of the request: they select the variant and contain the client's conditions.
    pub(crate) request_headers: HeaderMap,
    pub(crate) requester: Requester,
    /// The client gets no body.
    #[cfg_attr(
        not(any(feature = "disk", feature = "shared")),
        expect(dead_code, reason = "a HEAD fills nothing, but may find a response elsewhere")
    )]
    pub(crate) head_only: bool,
    pub(crate) _running: RunningFill,
    /// `None` for a background refresh.
    pub(crate) client: Option<oneshot::Sender<ServiceResult<B, E>>>,
    /// The record and the key of the first variant, once the response says that the resource varies.
    pub(crate) first_variant: OnceLock<(Arc<VaryRecord>, Key)>,
    pub(crate) shared: FillShare,
    pub(crate) disk: FillDisk,
}

/// The part of a fill that concerns the disk.
#[derive(Debug, Default)]
pub(crate) struct FillDisk {
    /// The key of the entry that the fill has found there, and the version of its file.
    #[cfg(feature = "disk")]
    found: Option<(Key, u32)>,
}

impl FillDisk {
    /// Does `put`, which makes this value of a resource visible under its key. What the disk has of the key is the value itself,
    /// or is replaced by it.
    ///
    /// # Errors
    /// Those of `put`; `Replaced` if the value comes from the disk, which has it no longer.
    fn put(
        &self,
        store: &Store,
        (resource, key): (&Key, &Key),
        value: &StoreValue,
        put: impl FnOnce() -> Result<(), Reason>,
    ) -> Result<(), Reason> {
        #[cfg(feature = "disk")]
        if let (Some((found, version)), Some(disk)) = (&self.found, &store.disk)
            && found == key
        {
            return disk.restore(key, *version, put).unwrap_or(Err(Reason::Replaced));
        }
        store.replace(resource, key, value, put)
    }
}

/// Looks elsewhere for the response of a request that calls no handler for it, or not as a fill: on disk, or in Redis. Returns the
/// request unless it was answered.
pub(crate) async fn find<B, E, ReqBody>(
    fill: &mut Fill<B, E>,
    request: Request<ReqBody>,
) -> Option<Request<ReqBody>>
where
    B: http_body::Body<Data = Bytes>,
    B::Error: Into<BoxError>,
{
    // What a replica has on disk is only for a validation.
    #[cfg(feature = "disk")]
    let request = match fill.core().store.shared {
        None => disk::find(fill, request).await?,
        Some(_) => request,
    };
    replicas::find(fill, request).await
}

impl<B, E> Fill<B, E>
where
    B: http_body::Body<Data = Bytes>,
    B::Error: Into<BoxError>,
{
    /// Runs the handler, sends the response to the client, and stores it or releases the followers. In a shared cache
    /// another replica may have the response.
    pub(crate) async fn run<S, ReqBody>(mut self, inner: S, mut request: Request<ReqBody>)
    where
        S: Service<Request<ReqBody>, Response = Response<B>, Error = E> + Clone,
        ReqBody: 'static,
    {
        // Boxed, as the other futures of a shared cache: they would make each fill larger, and slower to move.
        if self.core().store.shared.is_some() {
            let Some(unanswered) = Box::pin(replicas::begin(&mut self, request)).await else { return };
            request = unanswered;
        }
        // Taken before the handler starts: every later purge covers its response.
        let stamp = self.core().store.purges.stamp(key::uri_of(self.location.resource.as_bytes()));
        // An earlier one covers what was stored: a 304 must not make that good again.
        if self.location.expired.as_ref().is_some_and(|expired| self.verdict(expired) != Verdict::Usable) {
            self.location.expired = None;
        }
        #[cfg(feature = "disk")]
        if self.core().store.disk.is_some() {
            let Some(unanswered) = Box::pin(disk::begin(&mut self, request)).await else { return };
            request = unanswered;
        }
        let deadline = Instant::now() + self.core().limits.fill_timeout;
        let unconditional = self.unconditional(&inner, &request);
        let is_validation = self.add_conditions(request.headers_mut());
        let Some(mut reply) = self.call(inner, request, deadline).await else { return };
        if is_validation && reply.response.status() == StatusCode::NOT_MODIFIED {
            // Boxed, both: they would make each fill larger.
            if self.is_selected_by(&reply.response) {
                return Box::pin(self.complete_validation(reply, stamp)).await;
            }
            // Before the second call: the first one may have a place among the requests of its origin.
            drop(reply);
            let Some(second) = Box::pin(self.repeat(unconditional, deadline)).await else { return };
            reply = second;
        }
        let HandlerReply { mut response, ctx, is_graphql, has_content, is_late, replied_at, delay } = reply;
        if validation::is_failure(response.status()) && self.serve_stale_on(OriginFailure::ErrorStatus) {
            return;
        }
        let plan = self.plan(&mut response, &ctx, has_content, delay);
        let scan = if is_graphql { ResponseScan::start(&response).map(Some) } else { Ok(None) };
        match plan.and_then(|plan| Ok((plan, scan?))) {
            Ok(_) if is_late => self.send_unstored(response, Reason::FillTimeout),
            Ok(_) if response.body().size_hint().lower() > self.core().limits.max_body_bytes as u64 => {
                self.send_unstored(response, Reason::BodyTooLarge);
            }
            Ok((plan, scan)) => self.collect_body(response, plan, scan, stamp, (replied_at, deadline)).await,
            Err(reason) => self.send_unstored(response, reason),
        }
    }

    /// How to store a response by its head.
    ///
    /// # Errors
    /// The first reason against storing it.
    fn plan<T>(
        &self,
        response: &mut Response<T>,
        ctx: &CacheCtx,
        has_content: bool,
        delay: Duration,
    ) -> Result<Plan, Reason> {
        let (core, resource) = (self.core(), &self.location.resource);
        let plan = decide::plan(response, ctx, &core.rules, core.rules.asked(&self.request_headers), delay)?;
        self.requester.check(plan.scope)?;
        let mut plan = core.rules.check_fields_read(response, plan, has_content)?;
        if core.rules.profile == Profile::Rfc {
            let learnt = core.key_space.learn_query_rule(resource, response.headers());
            if learnt.replaces_rule {
                core.purge_ruled(resource);
            }
            if !learnt.is_storable {
                return Err(Reason::QueryRule);
            }
            let groups = groups::groups(response.headers()).into_iter();
            plan.tags.extend(groups.map(|group| key::group_tag(resource.as_bytes(), &group).into()));
        }
        Ok(plan)
    }

    /// Stores the response, which answers the followers, and sends it to the client.
    fn store_and_send(&mut self, stored: Arc<StoredResponse>, plan: &Plan, head: response::Parts, now: u64) {
        let result = self.store(&stored, plan).map(drop);
        let result = self.settle(result);
        let outcome = self.miss_outcome(result.err());
        self.send_stored(&stored, plan, head, now, outcome);
    }

    /// Sends what this fill has stored or could not store to its client, who gets all of its fields.
    fn send_stored(
        &mut self,
        stored: &StoredResponse,
        plan: &Plan,
        head: response::Parts,
        now: u64,
        outcome: Outcome,
    ) {
        self.count(outcome);
        let mut response = stored.respond(ReplayRequest::get(&self.request_headers), now);
        if plan.age < Duration::from_secs(1) {
            // `Age` would say that the response was not made for this request (RFC 9111, 5.1).
            response.headers_mut().remove(AGE);
        }
        for name in &*plan.unstored_fields {
            for value in head.headers.get_all(name) {
                response.headers_mut().append(name, value.clone());
            }
        }
        *response.version_mut() = head.version;
        response.extensions_mut().extend(head.extensions);
        self.send(response, outcome);
    }

    /// A complete response as Redis has it too, if it holds it there: what is fresh or within its grace period. Not what one client
    /// has had validated for itself: the others keep what they have.
    async fn shared(&mut self, stored: StoredResponse, plan: &Plan, is_validated: bool) -> StoredResponse {
        if (plan.ttl + plan.grace).is_zero() || (is_validated && self.shared.is_alone()) {
            let copy = self.running_copy(plan);
            self.shared.release();
            return stored.with_copy(copy);
        }
        self.share(stored, plan).await
    }

    #[cfg_attr(
        not(feature = "compression"),
        expect(clippy::unused_self, unused_variables, reason = "no codings")
    )]
    pub(crate) fn with_siblings(&self, stored: StoredResponse, plan: &Plan) -> StoredResponse {
        #[cfg(feature = "compression")]
        if !self.core().codings.offered.is_empty() {
            return stored.with_siblings(plan);
        }
        stored
    }

    pub(crate) fn core(&self) -> &CacheCore {
        self.cache.core()
    }
}

//! Requests whose response is not stored: each leads a fill, follows the one that is running, or calls the handler.

use std::future::{Future, poll_fn};
use std::panic::{self, AssertUnwindSafe};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};

use bytes::Bytes;
use http::header::{COOKIE, IF_MODIFIED_SINCE, IF_NONE_MATCH, IF_RANGE, RANGE};
use http::{HeaderMap, Request, Response, StatusCode};
use larder_engine::{FollowOutcome, Follower, Load, Ticket};
use tokio::sync::oneshot;
use tokio::time::timeout;

use crate::fill::forward::{FollowUp, Forward, Handler, HandlerBody};
use crate::fill::{Fill, FillRole, PurgedFill, RunningFill, ServiceResult};
use crate::key::{Key, RequestKey};
use crate::policy::gate::Requester;
use crate::policy::profile::Profile;
use crate::status::{Outcome, Reason};
use crate::store::HttpCache;
use crate::store::core::CacheCore;
use crate::store::location::StoreLocation;
use crate::store::lookup::{self, Lookup};
use crate::stored::body::Body;
use crate::stored::entry::{self, ReplayRequest, StoreValue, StoredResponse};

/// How often a request looks up its response: the fill that it follows may find that the resource varies.
const MAX_LOOKUPS: usize = 4;
/// How many fills of one key a request follows whose responses it may not have, because a purge came before their end. Where
/// purges are more frequent than that, it would wait for ever.
const MAX_PURGED_FILLS: usize = 1;

pub(crate) fn miss_outcome(location: &StoreLocation, reason: Reason) -> Outcome {
    Outcome::Miss { variant: location.variant.is_some(), collapsed: false, unstored: Some(reason) }
}

/// Leads the fill of a missing response, or follows the one that is running.
pub(crate) async fn lead_or_follow<S, ReqBody, B>(
    cache: HttpCache,
    inner: S,
    mut request: Request<ReqBody>,
    body_key: Option<Bytes>,
    mut location: StoreLocation,
    mut requester: Requester,
) -> ServiceResult<B, S::Error>
where
    S: Handler<ReqBody, B>,
    ReqBody: Send + 'static,
    B: HandlerBody,
{
    let mut outcome = miss_outcome(&location, Reason::Released);
    let mut purged_fills = 0;
    let asked = cache.core().store.asked();
    for _ in 0..MAX_LOOKUPS {
        let mut guarded = None;
        let since = cache.core().store.entries.now_ms();
        if let Some(expired) = &location.expired {
            // Whoever comes now follows the fill that validates or replaces it.
            let expired = StoreValue::Response(expired.clone());
            cache.core().store.remove_if_same(location.key().clone(), &expired);
        }
        let value = match cache.core().store.entries.load_after_miss(location.key()) {
            Load::Hit(value) => Some(value),
            Load::Lead(ticket) => return lead(cache, inner, request, location, requester, ticket).await,
            Load::Follow(follower) if !cache.core().store.may_follow(&follower, asked) => {
                // The next fill is for those who ask from now on. The older one still answers its own followers.
                cache.core().store.entries.remove(location.key());
                continue;
            }
            Load::Follow(follower) => match wait(&cache, &location, follower).await {
                Ok(FollowOutcome::Value(StoreValue::Response(stored)))
                    if !cache.core().may_share(&stored, request.headers(), since) =>
                {
                    break;
                }
                // The gate may deny now what it has allowed before the wait.
                Ok(FollowOutcome::Value(value)) if location.is_guarded() => {
                    guarded = Some(value);
                    None
                }
                Ok(FollowOutcome::Value(value)) => Some(value),
                Ok(FollowOutcome::Lead(ticket)) => {
                    return lead(cache, inner, request, location, requester, ticket).await;
                }
                Ok(FollowOutcome::Failed(why)) if why.is::<PurgedFill>() => None,
                Ok(FollowOutcome::Failed(_)) => break,
                Err(reason) => {
                    outcome = miss_outcome(&location, reason);
                    break;
                }
            },
        };
        if let Some(stored) = value.and_then(|value| cache.core().valid_response(&location, value, asked)) {
            if let Err(reason) = check_follower(&stored, &request, &requester) {
                outcome = Outcome::Bypass(reason);
                break;
            }
            return Ok(cache.core().answer_collapsed(&stored, request.headers(), location.variant.is_some()));
        }
        // The fill has found that the resource varies or is guarded, or its response was purged meanwhile.
        let key = RequestKey::new(&request, &body_key);
        let core = cache.core();
        let mut found = core.look_up_verified(asked, |permits| core.look_up_with(key, permits)).await;
        if let Ok(Lookup::Guarded(guarded)) = found {
            (request, found) = lookup::ask_gate(&cache, request, guarded, &mut requester, asked).await;
        }
        match found {
            Ok(Lookup::Found(stored)) => match check_follower(&stored, &request, &requester) {
                Ok(()) => return Ok(cache.core().answer_collapsed(&stored, request.headers(), true)),
                Err(reason) => {
                    outcome = Outcome::Bypass(reason);
                    break;
                }
            },
            Ok(Lookup::Missing(other_location)) => {
                let is_same = other_location.key() == location.key();
                // The gate allows it still. While Redis is lost the next request, which may not have it, has removed it already.
                let waited_for = guarded.filter(|_| is_same);
                if let Some(stored) =
                    waited_for.and_then(|value| cache.core().valid_response(&location, value, asked))
                    && check_follower(&stored, &request, &requester).is_ok()
                {
                    return Ok(cache.core().answer_collapsed(&stored, request.headers(), true));
                }
                purged_fills += usize::from(is_same);
                if purged_fills > MAX_PURGED_FILLS {
                    outcome = miss_outcome(&location, Reason::Purged);
                    break;
                }
                location = other_location;
                if let Some(reason) =
                    requester.credentials.filter(|_| !cache.core().store.is_shared(&location))
                {
                    outcome = Outcome::Bypass(reason);
                    break;
                }
            }
            Ok(Lookup::Guarded(_)) => unreachable!("the gate was asked"),
            Ok(Lookup::Unverified(_)) => unreachable!("it was compared"),
            Err(reason) => {
                outcome = Outcome::Bypass(reason);
                break;
            }
        }
    }
    Forward::new(cache, inner, request, outcome, FollowUp::Nothing).await
}

impl CacheCore {
    /// Whether a request that has waited since then may have the response at all, where the origin's fields decide. Not if the
    /// fill could neither validate nor replace it, and put it back. And not if each use must be validated, or its freshness is an
    /// estimate, and the request has cookies: for them the origin may have another response.
    fn may_share(&self, stored: &StoredResponse, request: &HeaderMap, since_ms: u64) -> bool {
        let now_ms = self.store.entries.now_ms();
        let says_nothing = || stored.is_expired(now_ms) || stored.is_estimated();
        let is_for_others =
            self.rules.profile == Profile::Rfc && request.contains_key(COOKIE) && says_nothing();
        !is_for_others && !stored.is_leftover(since_ms, now_ms)
    }
}

/// Whether a request gets this response of another one's fill.
///
/// # Errors
/// Why it does not: it is for others, or the request wants a range, and the body has not arrived.
fn check_follower<B>(
    stored: &StoredResponse,
    request: &Request<B>,
    requester: &Requester,
) -> Result<(), Reason> {
    requester.check(stored.scope)?;
    match stored.is_filling() && request.headers().contains_key(RANGE) {
        true => Err(Reason::Range),
        false => Ok(()),
    }
}

/// Waits for the fill of another request.
///
/// # Errors
/// `TooManyWaiters`, or `WaitTimeout`: then the next requests do not wait for this fill too.
async fn wait(
    cache: &HttpCache,
    location: &StoreLocation,
    follower: Follower<Key, StoreValue>,
) -> Result<FollowOutcome<Key, StoreValue>, Reason> {
    let core = cache.core();
    let _waiter = Waiter::new(core).ok_or(Reason::TooManyWaiters)?;
    // A timer of zero would still wait for its next tick.
    let waited = if core.limits.wait_timeout.is_zero() {
        None
    } else {
        timeout(core.limits.wait_timeout, follower).await.ok()
    };
    waited.ok_or_else(|| {
        core.store.hit_for_miss.insert(core.store.hit_for_miss_key(location), ());
        Reason::WaitTimeout
    })
}

/// Counts a request that waits for the fill of another one.
struct Waiter<'a>(&'a AtomicUsize);

impl<'a> Waiter<'a> {
    fn new(core: &'a CacheCore) -> Option<Waiter<'a>> {
        let waiter = Waiter(&core.store.running.waiters);
        (waiter.0.fetch_add(1, Ordering::Relaxed) < core.limits.max_waiters).then_some(waiter)
    }
}

impl Drop for Waiter<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl CacheCore {
    /// Answers with a response that the fill of another request stores or has stored.
    pub(crate) fn answer_collapsed<B: http_body::Body>(
        &self,
        stored: &StoredResponse,
        request: &HeaderMap,
        variant: bool,
    ) -> Response<Body<B>> {
        let outcome = Outcome::Miss { variant, collapsed: true, unstored: None };
        entry::answer(
            &self.counters,
            stored,
            ReplayRequest::get(request),
            outcome,
            self.store.entries.now_ms(),
        )
    }
}

fn lead<S, ReqBody, B>(
    cache: HttpCache,
    inner: S,
    request: Request<ReqBody>,
    location: StoreLocation,
    requester: Requester,
    ticket: Ticket<Key, StoreValue>,
) -> impl Future<Output = ServiceResult<B, S::Error>> + Send
where
    S: Handler<ReqBody, B>,
    ReqBody: Send + 'static,
    B: HandlerBody,
{
    run_fill(cache, inner, request, location, FillRole::Leader(Some(ticket)), requester)
}

/// Runs a fill and waits for the head of the response. A handler that replies at once needs no task; another continues in
/// a task of its own, so that a client that disconnects does not cancel a fill that others follow.
pub(crate) async fn run_fill<S, ReqBody, B>(
    cache: HttpCache,
    inner: S,
    mut request: Request<ReqBody>,
    location: StoreLocation,
    role: FillRole,
    mut requester: Requester,
) -> ServiceResult<B, S::Error>
where
    S: Handler<ReqBody, B>,
    ReqBody: Send + 'static,
    B: HandlerBody,
{
    let Some(running) = RunningFill::new(cache.core()) else {
        // Those who follow it call their handlers too.
        drop(role);
        let outcome = miss_outcome(&location, Reason::TooManyFills);
        return Forward::new(cache, inner, request, outcome, FollowUp::Nothing).await;
    };
    let (client, mut response) = oneshot::channel();
    let aborted = miss_outcome(&location, Reason::HandlerPanic);
    let fill_cache = cache.clone();
    let mut fill = Box::pin(async move {
        let cache = fill_cache;
        // The gate says of a resource that is not known yet whether this client may fill it, if it turns out to be guarded.
        if requester.access.is_none() {
            request = requester.ask(&cache.core().gate, request).await;
        }
        let request_headers = request.headers().clone();
        // The store needs the complete response; the client's conditions and range are evaluated afterwards.
        for field in [IF_NONE_MATCH, IF_MODIFIED_SINCE, RANGE, IF_RANGE] {
            request.headers_mut().remove(field);
        }
        let fill = Fill {
            cache,
            location,
            role,
            request_headers,
            requester,
            head_only: false,
            _running: running,
            client: Some(client),
            first_variant: Default::default(),
            shared: Default::default(),
            disk: Default::default(),
        };
        fill.run(inner, request).await;
    });
    let first_poll = |cx: &mut Context<'_>| {
        Poll::Ready(panic::catch_unwind(AssertUnwindSafe(|| fill.as_mut().poll(cx).is_ready())))
    };
    let ended = match poll_fn(first_poll).await {
        Ok(true) => response.await.map_err(|_| None),
        Ok(false) => {
            let task = tokio::spawn(fill);
            match response.await {
                Ok(response) => Ok(response),
                Err(_) => Err(task.await.err().and_then(|error| error.try_into_panic().ok())),
            }
        }
        // A body that panics after its head was sent ends with an error.
        Err(payload) => response.try_recv().map_err(|_| Some(payload)),
    };
    ended.unwrap_or_else(|payload| {
        cache.core().counters.count(aborted);
        if let Some(payload) = payload {
            panic::resume_unwind(payload);
        }
        // The runtime is shutting down.
        let mut response = Response::new(Body::empty());
        *response.status_mut() = StatusCode::INTERNAL_SERVER_ERROR;
        entry::add_cache_status(&mut response, aborted);
        Ok(response)
    })
}

//! Requests whose response is not stored: each leads a fill, follows the one that is running, or calls the handler.

use std::future::Future;
use std::panic;
use std::sync::atomic::{AtomicUsize, Ordering};

use bytes::Bytes;
use http::header::{IF_MODIFIED_SINCE, IF_NONE_MATCH};
use http::{Request, Response, StatusCode};
use larder_engine::{FollowOutcome, Follower, Load, Ticket};
use tokio::sync::oneshot;
use tokio::time::timeout;
use tower_service::Service;

use crate::body::{Body, BoxError};
use crate::cache::{CacheCore, HttpCache, Lookup, StoreLocation};
use crate::entry::{self, StoreValue};
use crate::fill::{Fill, FillRole, ServiceResult};
use crate::forward::{FollowUp, Forward};
use crate::key::{Key, RequestKey};
use crate::status::{Outcome, Reason};

/// How often a request looks up its response: the fill that it follows may find that the resource varies.
const MAX_LOOKUPS: usize = 4;

pub(crate) fn miss_outcome(location: &StoreLocation, reason: Reason) -> Outcome {
    Outcome::Miss { variant: location.variant.is_some(), collapsed: false, unstored: Some(reason) }
}

/// Leads the fill of a missing response, or follows the one that is running.
pub(crate) async fn lead_or_follow<S, ReqBody, B>(
    cache: HttpCache,
    inner: S,
    request: Request<ReqBody>,
    body_key: Option<Bytes>,
    mut location: StoreLocation,
) -> ServiceResult<B, S::Error>
where
    S: Service<Request<ReqBody>, Response = Response<B>> + Send + 'static,
    S::Future: Send + 'static,
    S::Error: Send + 'static,
    ReqBody: Send + 'static,
    B: http_body::Body<Data = Bytes> + Send + 'static,
    B::Error: Into<BoxError> + Send + 'static,
{
    let mut reason = Reason::Released;
    for _ in 0..MAX_LOOKUPS {
        let value = match cache.core().store.load(location.key()) {
            Load::Hit(value) => value,
            Load::Lead(ticket) => return lead(cache, inner, request, location, ticket).await,
            Load::Follow(follower) => match wait(&cache, &location, follower).await {
                Ok(FollowOutcome::Value(value)) => value,
                Ok(FollowOutcome::Lead(ticket)) => {
                    return lead(cache, inner, request, location, ticket).await;
                }
                Ok(FollowOutcome::Failed(_)) => break,
                Err(wait_error) => {
                    reason = wait_error;
                    break;
                }
            },
        };
        if let Some(stored) = cache.core().valid_response(&location, value) {
            let now = cache.core().store.now_ms();
            let outcome =
                Outcome::Miss { variant: location.variant.is_some(), collapsed: true, unstored: None };
            return Ok(entry::answer(
                &cache.core().counters,
                &stored,
                request.headers(),
                false,
                outcome,
                now,
            ));
        }
        // The fill has found that the resource varies, or its response was purged meanwhile.
        match look_up_verified(&cache, RequestKey::new(&request, &body_key)).await {
            Ok(Lookup::Found(stored)) => {
                let now = cache.core().store.now_ms();
                let outcome = Outcome::Miss { variant: true, collapsed: true, unstored: None };
                return Ok(entry::answer(
                    &cache.core().counters,
                    &stored,
                    request.headers(),
                    false,
                    outcome,
                    now,
                ));
            }
            Ok(Lookup::Missing(other_location)) => location = other_location,
            #[cfg(feature = "shared")]
            Ok(Lookup::Unverified(_)) => break,
            Err(_) => break,
        }
    }
    let outcome = miss_outcome(&location, reason);
    Forward::new(cache, inner, request, outcome, FollowUp::Nothing).await
}

/// Looks up the response to a request. In a shared cache the entries that must be compared with Redis are.
async fn look_up_verified(cache: &HttpCache, request: RequestKey<'_>) -> Result<Lookup, Reason> {
    #[cfg(feature = "shared")]
    for _ in 0..MAX_LOOKUPS {
        match cache.core().look_up(request)? {
            Lookup::Unverified(entry) => cache.core().verify(entry).await,
            known => return Ok(known),
        }
    }
    cache.core().look_up(request)
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
    timeout(core.wait_timeout, follower).await.map_err(|_| {
        core.hit_for_miss.insert(core.hit_for_miss_key(location), ());
        Reason::WaitTimeout
    })
}

/// Counts a request that waits for the fill of another one.
struct Waiter<'a>(&'a AtomicUsize);

impl<'a> Waiter<'a> {
    fn new(core: &'a CacheCore) -> Option<Waiter<'a>> {
        let waiter = Waiter(&core.waiters);
        (waiter.0.fetch_add(1, Ordering::Relaxed) < core.max_waiters).then_some(waiter)
    }
}

impl Drop for Waiter<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

fn lead<S, ReqBody, B>(
    cache: HttpCache,
    inner: S,
    request: Request<ReqBody>,
    location: StoreLocation,
    ticket: Ticket<Key, StoreValue>,
) -> impl Future<Output = ServiceResult<B, S::Error>> + Send
where
    S: Service<Request<ReqBody>, Response = Response<B>> + Send + 'static,
    S::Future: Send + 'static,
    S::Error: Send + 'static,
    ReqBody: Send + 'static,
    B: http_body::Body<Data = Bytes> + Send + 'static,
    B::Error: Into<BoxError> + Send + 'static,
{
    run_fill(cache, inner, request, location, FillRole::Leader(Some(ticket)), false)
}

/// Runs a fill in its own task and waits for the head of the response.
pub(crate) async fn run_fill<S, ReqBody, B>(
    cache: HttpCache,
    inner: S,
    mut request: Request<ReqBody>,
    location: StoreLocation,
    role: FillRole,
    has_cookie: bool,
) -> ServiceResult<B, S::Error>
where
    S: Service<Request<ReqBody>, Response = Response<B>> + Send + 'static,
    S::Future: Send + 'static,
    S::Error: Send + 'static,
    ReqBody: Send + 'static,
    B: http_body::Body<Data = Bytes> + Send + 'static,
    B::Error: Into<BoxError> + Send + 'static,
{
    let (client, response) = oneshot::channel();
    let request_headers = request.headers().clone();
    // The store needs the complete response; the client's conditions are evaluated afterwards.
    request.headers_mut().remove(IF_NONE_MATCH);
    request.headers_mut().remove(IF_MODIFIED_SINCE);
    let aborted = miss_outcome(&location, Reason::HandlerPanic);
    let fill = Fill {
        cache: cache.clone(),
        location,
        role,
        request_headers,
        has_cookie,
        client: Some(client),
        first_variant: Default::default(),
        #[cfg(feature = "shared")]
        shared: Default::default(),
    };
    let task = tokio::spawn(fill.run(inner, request));
    if let Ok(response) = response.await {
        return response;
    }
    cache.core().counters.count(aborted);
    match task.await {
        Err(error) if error.is_panic() => panic::resume_unwind(error.into_panic()),
        _ => {
            // The runtime is shutting down.
            let mut response = Response::new(Body::empty());
            *response.status_mut() = StatusCode::INTERNAL_SERVER_ERROR;
            entry::add_cache_status(&mut response, aborted);
            Ok(response)
        }
    }
}

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
//! that is being filled. A long body without an `ETag` is sent before one is made, and stored afterwards. The fill collects the body up to the limit; the client and all followers read the same buffer,
//! each at its own speed. If the body cannot be stored, the client gets the rest of it from the handler, and the bodies
//! of the followers end with an error.

mod call;
mod role;

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::{Arc, OnceLock};
use std::task::Poll;
use std::time::Duration;

use bytes::Bytes;
use http::header::{CONTENT_LENGTH, CONTENT_TYPE, ETAG, IF_NONE_MATCH, TRANSFER_ENCODING};
use http::{HeaderMap, Response, StatusCode, response};
use http_body::SizeHint;
use larder_engine::{Op, Ttl};
use tokio::sync::oneshot;
use tokio::task::yield_now;
use tokio::time::{Instant, timeout_at};

pub(crate) use self::call::{HandlerCall, prepare};
pub(crate) use self::role::{FillRole, RunningFill, UnticketedFill};
use crate::body::{Body, BoxError, Rest};
use crate::buffer::FillBuffer;
use crate::cache::{CacheCore, HttpCache, StoreLocation};
use crate::collect::{CollectStep, CollectedBody};
use crate::conditional;
use crate::entry::{self, StoreValue, StoredBody, StoredResponse};
use crate::gate::{Requester, Scope};
use crate::graphql::ResponseScan;
use crate::key::{self, Key};
use crate::policy::{self, Plan};
use crate::purge::{PurgeKey, PurgeStamp};
#[cfg(feature = "shared")]
use crate::shared::{self, FillShare};
use crate::status::{Outcome, Reason};
use crate::stream::{Published, Stream};
use crate::vary::VaryRecord;

/// The longest body whose generated `ETag` is made before the body is sent.
const MAX_HASHED_BEFORE_SENDING: usize = 4 << 20;

/// How much longer than its responses the scope of a resource is known.
const SCOPE_GRACE: Duration = Duration::from_secs(600);

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
    pub(crate) _running: RunningFill,
    /// `None` for a background refresh.
    pub(crate) client: Option<oneshot::Sender<ServiceResult<B, E>>>,
    /// The record and the key of the first variant, once the response says that the resource varies.
    pub(crate) first_variant: OnceLock<(Arc<VaryRecord>, Key)>,
    #[cfg(feature = "shared")]
    pub(crate) shared: FillShare,
}

impl<B, E> Fill<B, E>
where
    B: http_body::Body<Data = Bytes>,
    B::Error: Into<BoxError>,
{
    /// Runs the handler, sends the response to the client, and stores it or releases the followers. In a shared cache
    /// another replica may have the response.
    pub(crate) async fn run<F>(mut self, call: HandlerCall<F>)
    where
        F: Future<Output = Result<Response<B>, E>>,
    {
        // Boxed, as the other futures of a shared cache: they would make each fill larger, and slower to move.
        #[cfg(feature = "shared")]
        if self.core().shared.is_some() && !Box::pin(shared::begin(&mut self)).await {
            return;
        }
        // Taken before the handler starts: every later purge covers its response.
        let stamp = self.core().purges.stamp(key::uri_of(self.location.resource.as_bytes()));
        let deadline = Instant::now() + self.core().fill_timeout;
        let HandlerCall { future, ctx, guard, is_graphql, has_content } = call;
        let mut call = pin!(future);
        let (result, is_late) = match timeout_at(deadline, &mut call).await {
            Ok(result) => (result, false),
            Err(_) => {
                self.release_followers_of_slow_fill();
                (call.await, true)
            }
        };
        drop(guard);
        let replied_at = self.core().store.now_ms();
        let mut response = match result {
            Ok(response) => response,
            Err(error) => {
                self.role.release_followers();
                self.count(self.miss_outcome(Some(Reason::HandlerError)));
                if let Some(client) = self.client.take() {
                    let _ = client.send(Err(error));
                }
                return;
            }
        };
        let plan = policy::plan(&mut response, &ctx, &self.core().cached_errors)
            .and_then(|plan| self.requester.check(plan.scope).map(|()| plan))
            .and_then(|plan| self.core().check_fields_read(&mut response, plan, has_content));
        let scan = if is_graphql { ResponseScan::start(&response).map(Some) } else { Ok(None) };
        match plan.and_then(|plan| Ok((plan, scan?))) {
            Ok(_) if is_late => self.send_unstored(response, Reason::FillTimeout),
            Ok(_) if response.body().size_hint().lower() > self.core().max_body_bytes as u64 => {
                self.send_unstored(response, Reason::BodyTooLarge);
            }
            Ok((plan, scan)) => self.collect_body(response, plan, scan, stamp, (replied_at, deadline)).await,
            Err(reason) => self.send_unstored(response, reason),
        }
    }

    /// Sends a response that may not be stored to the client, and releases the followers.
    fn send_unstored(&mut self, response: Response<B>, reason: Reason) {
        #[cfg(feature = "shared")]
        self.note_unscoped(reason);
        self.abandon_store(reason, response.status());
        let outcome = self.miss_outcome(Some(reason));
        self.count(outcome);
        let (head, body) = response.into_parts();
        let response = match self.client_copy_is_current(head.status, &head.headers) {
            true => unstored_304(head),
            false => Response::from_parts(head, Body::inner(body)),
        };
        self.send(response, outcome);
    }

    /// Reads the body to its end, or until it is clear that it cannot be stored. The handler has replied at `replied_at`, in
    /// milliseconds of the engine's clock.
    async fn collect_body(
        &mut self,
        response: Response<B>,
        plan: Plan,
        scan: Option<ResponseScan>,
        stamp: PurgeStamp,
        (replied_at, deadline): (u64, Instant),
    ) {
        let (head, body) = response.into_parts();
        let status = head.status;
        let hint = body.size_hint();
        let mut body = Box::pin(body);
        let mut unsent_head = Some(head);
        let mut sent_headers = HeaderMap::new();
        let mut stream: Option<Stream<B>> = None;
        let mut collected = CollectedBody::new(self.core().memory.clone(), scan);
        let end = loop {
            let frame = match poll_fn(|cx| Poll::Ready(body.as_mut().poll_frame(cx))).await {
                Poll::Ready(frame) => frame,
                Poll::Pending => {
                    // Send the head now: nobody must wait for the end of a slow body.
                    if self.client.is_some()
                        && let Some(head) = unsent_head.take()
                    {
                        sent_headers = head.headers.clone();
                        let length = declared_length(&sent_headers, &hint);
                        let buffer = FillBuffer::new(collected.chunks.clone(), length);
                        // Only its end shows whether a GraphQL response may be read by others.
                        let published = match collected.has_scan() {
                            false => self.publish(status, &sent_headers, &buffer, &plan, &stamp),
                            true => None,
                        };
                        stream = Some(self.open_stream(head, buffer, &hint, published));
                    }
                    match timeout_at(deadline, poll_fn(|cx| body.as_mut().poll_frame(cx))).await {
                        Ok(frame) => frame,
                        Err(_) => break Err((Reason::FillTimeout, None)),
                    }
                }
            };
            match collected.push(frame, self.core().max_body_bytes) {
                CollectStep::Kept(chunks) => {
                    if let Some(stream) = &stream {
                        stream.append(&collected.chunks[chunks]);
                    }
                }
                CollectStep::End => break Ok(()),
                CollectStep::Stop(reason, frame) => break Err((reason, Some(frame))),
            }
        };
        let headers = unsent_head.as_ref().map_or(&sent_headers, |head| &head.headers);
        let end = end.and_then(|()| collected.check_end(headers).map_err(|reason| (reason, None)));
        if end.is_ok()
            && self.may_send_before_hash(headers, collected.len())
            && let Some(head) = unsent_head.take()
        {
            sent_headers = head.headers.clone();
            let length = collected.len() as u64;
            let buffer = FillBuffer::new(collected.chunks.clone(), Some(length));
            stream = Some(self.open_stream(head, buffer, &SizeHint::with_exact(length), None));
            // The fill continues in its own task, and the connection sends meanwhile.
            yield_now().await;
        }
        let headers = unsent_head.as_ref().map_or(&sent_headers, |head| &head.headers);
        match end {
            Ok(()) => {
                let now = self.core().store.now_ms();
                // The response has aged while its body arrived.
                let plan = plan.after(Duration::from_millis(now.saturating_sub(replied_at)));
                let body = StoredBody::Complete(collected.into_chunks());
                let stored = StoredResponse::new(status, headers, body, &plan, self.tags(&plan), stamp, now);
                #[cfg(feature = "shared")]
                let stored = match self.shared.has_lease() && !plan.is_over() {
                    true => Box::pin(self.share(stored, &plan)).await,
                    false => stored,
                };
                #[cfg(feature = "compression")]
                let stored = self.with_siblings(stored, &plan);
                let stored = Arc::new(stored);
                match (stream, unsent_head) {
                    (Some(stream), _) => self.store_streamed(stored, &plan, stream),
                    (None, Some(head)) => self.store_and_send(stored, &plan, head, now),
                    (None, None) => unreachable!("the head is sent with a stream"),
                }
            }
            Err((reason, last)) => {
                self.abandon_store(reason, status);
                let stream = match (stream, unsent_head) {
                    (Some(stream), _) => {
                        self.core().counters.count_unstored(reason);
                        stream
                    }
                    (None, Some(head)) => {
                        let buffer = FillBuffer::new(collected.chunks, None);
                        let outcome = self.miss_outcome(Some(reason));
                        self.open_stream_as(outcome, head, buffer, &hint, None)
                    }
                    (None, None) => unreachable!("the head is sent with a stream"),
                };
                stream.fail(reason, Rest::Inner(last, body));
            }
        }
    }

    /// Stores the response with a body that is being filled, so that other requests follow it. Only for a leader: other
    /// fills may not be seen by others before their end.
    fn publish(
        &mut self,
        status: StatusCode,
        headers: &HeaderMap,
        buffer: &Arc<FillBuffer>,
        plan: &Plan,
        stamp: &PurgeStamp,
    ) -> Option<Published> {
        // The follower of a body that is declared as empty would not wait for its end.
        if !matches!(self.role, FillRole::Leader(_)) || buffer.declared() == Some(0) {
            return None;
        }
        let (body, now) = (StoredBody::Filling(buffer.clone()), self.core().store.now_ms());
        let filling = StoredResponse::new(status, headers, body, plan, self.tags(plan), stamp.copy(), now);
        #[cfg(feature = "shared")]
        let filling = filling.with_copy(self.running_copy(plan));
        let filling = Arc::new(filling);
        let key = self.store(&filling, plan).ok()?;
        Some(Published { key, value: StoreValue::Response(filling) })
    }

    /// Whether a complete body is sent before its generated `ETag` is made, which reads all of it. A client that has such an
    /// `ETag` waits for it: it may need no body.
    fn may_send_before_hash(&self, headers: &HeaderMap, body_bytes: usize) -> bool {
        body_bytes > MAX_HASHED_BEFORE_SENDING
            && self.client.is_some()
            && !headers.contains_key(ETAG)
            && !self.request_headers.contains_key(IF_NONE_MATCH)
    }

    /// Sends the head to the client before it is known whether the response is stored, with a body that reads from the buffer
    /// of the fill.
    fn open_stream(
        &mut self,
        head: response::Parts,
        buffer: Arc<FillBuffer>,
        hint: &SizeHint,
        published: Option<Published>,
    ) -> Stream<B> {
        let outcome = self.miss_outcome(Some(Reason::Streaming));
        self.open_stream_as(outcome, head, buffer, hint, published)
    }

    fn open_stream_as(
        &mut self,
        outcome: Outcome,
        head: response::Parts,
        buffer: Arc<FillBuffer>,
        hint: &SizeHint,
        published: Option<Published>,
    ) -> Stream<B> {
        self.count(outcome);
        let client = if self.client_copy_is_current(head.status, &head.headers) {
            self.send(unstored_304(head), outcome);
            None
        } else {
            let (body, continuation) = Body::client(&buffer, *hint);
            self.send(Response::from_parts(head, body), outcome);
            Some(continuation)
        };
        Stream::new(self.cache.clone(), buffer, client, published)
    }

    /// Stores the response, whose head its client has already.
    fn store_streamed(&mut self, stored: Arc<StoredResponse>, plan: &Plan, stream: Stream<B>) {
        let result = match stream.published() {
            Some(published) => self.replace_published(&stored, plan, published),
            None => self.store(&stored, plan).map(drop),
        };
        self.settle(result);
        if let Err(reason) = result {
            self.core().counters.count_unstored(reason);
        }
        match result {
            Ok(()) => stream.complete(),
            Err(Reason::Purged) => stream.fail(Reason::Purged, Rest::Nothing),
            // Not stored, but whole.
            Err(_) => {
                stream.withdraw();
                stream.complete();
            }
        }
    }

    /// Replaces the entry whose body was being filled by the complete one, also if it was evicted meanwhile.
    fn replace_published(
        &self,
        stored: &Arc<StoredResponse>,
        plan: &Plan,
        published: &Published,
    ) -> Result<(), Reason> {
        self.check_unpurged(stored)?;
        self.take_share(stored, &published.key)?;
        let ttl = Ttl::After(plan.ttl + plan.grace);
        let replaced = self.core().store.compute(published.key.clone(), |present| match present {
            Some(entry) if !entry.value().is_same(&published.value) => (Op::Keep, false),
            _ => (Op::Put(StoreValue::Response(stored.clone()), ttl), true),
        });
        if replaced.result && replaced.refused.is_none() { Ok(()) } else { Err(Reason::Refused) }
    }

    /// Stores the response, which answers the followers, and sends it to the client.
    fn store_and_send(&mut self, stored: Arc<StoredResponse>, plan: &Plan, head: response::Parts, now: u64) {
        let result = self.store(&stored, plan).map(drop);
        self.settle(result);
        let outcome = self.miss_outcome(result.err());
        self.count(outcome);
        let mut response = match self.client_copy_is_current(head.status, stored.headers()) {
            true => stored.not_modified(now),
            false => stored.replay(now, false),
        };
        *response.version_mut() = head.version;
        response.extensions_mut().extend(head.extensions);
        self.send(response, outcome);
    }

    /// Counts a stored response and ends hit-for-miss, or releases the followers.
    fn settle(&mut self, result: Result<(), Reason>) {
        match result {
            Ok(()) => {
                let core = self.core();
                core.counters.stores.add(1);
                core.hit_for_miss.remove(&core.hit_for_miss_key(&self.location));
            }
            Err(reason) => self.abandon_store(reason, StatusCode::OK),
        }
    }

    fn check_unpurged(&self, stored: &Arc<StoredResponse>) -> Result<(), Reason> {
        #[cfg(feature = "shared")]
        if self.shared.is_refused
            || self.core().shared_validity(&StoreValue::Response(stored.clone()), &[])
                == larder::Validity::Dead
        {
            return Err(Reason::Purged);
        }
        let purges = &self.core().purges;
        let is_unpurged = purges.is_unpurged(&stored.stamp, self.location.resource.as_bytes())
            && stored.tags_are_unpurged(purges);
        if is_unpurged { Ok(()) } else { Err(Reason::Purged) }
    }

    /// What purges the response beside its URI: the handler's tags, and its principal.
    pub(crate) fn tags(&self, plan: &Plan) -> Box<[PurgeKey]> {
        let core = self.core();
        let principal = self.requester.principal().filter(|_| plan.scope == Some(Scope::Private));
        let tags = plan.tags.iter().map(|tag| core.purges.purge_key(tag.as_bytes()));
        tags.chain(principal.map(|principal| core.principal_key(principal))).collect()
    }

    /// Returns the key under which the response is stored.
    pub(crate) fn store(&mut self, stored: &Arc<StoredResponse>, plan: &Plan) -> Result<Key, Reason> {
        let cache = self.cache.clone();
        let cache = cache.core();
        if let Err(reason) = self.check_unpurged(stored) {
            self.role.promote_follower();
            return Err(reason);
        }
        let ttl = Ttl::After(plan.ttl + plan.grace);
        let value = StoreValue::Response(stored.clone());
        let StoreLocation { resource, variant } = &self.location;
        match variant {
            None if plan.vary.is_empty() && !plan.is_guarded() => {
                self.role.store(cache, resource, value, ttl)?;
                self.remember_scope(plan);
                Ok(resource.clone())
            }
            None => {
                let (record, key) = self.new_variant(stored, plan)?;
                cache.store.insert_with_ttl(key.clone(), value, ttl);
                let result = self.role.store(
                    cache,
                    resource,
                    StoreValue::Varies(record),
                    Ttl::After(record_ttl(plan)),
                );
                if result.is_err() {
                    cache.store.remove(&key);
                }
                result.map(|()| key)
            }
            Some((record, key)) if *record.fields() == *plan.vary && record.scope() == plan.scope => {
                self.take_share(stored, key)?;
                self.role.store(cache, key, value, ttl)?;
                if let Some(evicted) = record.add_variant(key) {
                    cache.store.remove(&evicted);
                }
                cache.update_record(resource, record, record_ttl(plan));
                Ok(key.clone())
            }
            Some((record, _)) => {
                // The resource varies by other fields now, or its scope is another: lookups must not find its old
                // variants.
                self.role.release_followers();
                let (replacement, ttl, entry) = if plan.vary.is_empty() && !plan.is_guarded() {
                    (value, ttl, resource.clone())
                } else {
                    let (record, key) = self.new_variant(stored, plan)?;
                    cache.store.insert_with_ttl(key.clone(), value, ttl);
                    (StoreValue::Varies(record), Ttl::After(record_ttl(plan)), key)
                };
                let mut replaced = FillRole::Refresh(StoreValue::Varies(record.clone()));
                replaced.store(cache, resource, replacement, ttl).map(|()| entry)
            }
        }
    }

    /// Remembers that the resource is public, or forgets it. One that varies has a record, which tells it.
    fn remember_scope(&self, plan: &Plan) {
        let (known, key) = (&self.core().known_public, self.core().hit_for_miss_key(&self.location));
        match plan.scope {
            Some(Scope::Public) => {
                known.insert_with_ttl(key, (), Ttl::After(plan.ttl + plan.grace + SCOPE_GRACE));
            }
            _ => drop(known.remove(&key)),
        }
    }

    /// A record with one variant: the response to this request. The same at each call.
    pub(crate) fn new_variant(
        &self,
        stored: &StoredResponse,
        plan: &Plan,
    ) -> Result<(Arc<VaryRecord>, Key), Reason> {
        if let Some(first) = self.first_variant.get() {
            return Ok(first.clone());
        }
        let record = VaryRecord::new(plan.scope, plan.vary.clone(), stored.stamp.copy());
        let key = key::with_key_buffer(|key| {
            record.write_key(key, self.requester.principal(), &self.request_headers)?;
            Ok(Key::new(key))
        })?;
        self.take_share(stored, &key)?;
        record.add_variant(&key);
        Ok(self.first_variant.get_or_init(|| (Arc::new(record), key)).clone())
    }

    /// Takes a part of its principal's share for a private response, and removes those that must go for it.
    fn take_share(&self, stored: &StoredResponse, key: &Key) -> Result<(), Reason> {
        let Some(principal) = self.requester.principal().filter(|_| stored.scope == Some(Scope::Private))
        else {
            return Ok(());
        };
        let core = self.core();
        let (share, displaced) =
            core.private_shares.take(core.principal_key(principal), key, stored.bytes())?;
        let _ = stored.share.set(share);
        for key in &displaced {
            core.store.remove(key);
        }
        Ok(())
    }

    /// Releases the followers of a response that is not stored, and marks its key as hit-for-miss if the reason is likely
    /// to apply to the next response too.
    fn abandon_store(&mut self, reason: Reason, status: StatusCode) {
        self.role.release_followers();
        let is_lasting = !matches!(reason, Reason::BodyError | Reason::BodyMemory | Reason::Purged)
            && !is_of_requester(reason);
        if is_lasting && !matches!(self.role, FillRole::Refresh(_)) {
            self.mark_hit_for_miss();
        }
        if is_of_requester(reason) {
            // The scope is another one now: requests with credentials do not wait for each other in vain again.
            let core = self.core();
            core.known_public.remove(&core.hit_for_miss_key(&self.location));
        }
        // The handler no longer opts in, so the stale entry must go. If it failed or was too slow, the entry stays.
        if is_lasting
            && reason != Reason::FillTimeout
            && !status.is_server_error()
            && let FillRole::Refresh(old) = &self.role
        {
            self.core().remove_if_same(self.location.key().clone(), old);
        }
    }

    /// Ends the wait for a handler that is too slow. Marks the key first: followers that return must not wait again.
    fn release_followers_of_slow_fill(&mut self) {
        if !matches!(self.role, FillRole::Refresh(_)) {
            self.mark_hit_for_miss();
        }
        self.role.release_followers();
        #[cfg(feature = "shared")]
        self.shared.release();
    }

    fn mark_hit_for_miss(&self) {
        let core = self.core();
        core.hit_for_miss.insert(core.hit_for_miss_key(&self.location), ());
    }

    /// Whether the client's copy is current. The handler did not see the client's conditions.
    fn client_copy_is_current(&self, status: StatusCode, headers: &HeaderMap) -> bool {
        status == StatusCode::OK && conditional::not_modified(&self.request_headers, headers)
    }

    fn miss_outcome(&self, unstored: Option<Reason>) -> Outcome {
        Outcome::Miss { variant: self.location.variant.is_some(), collapsed: false, unstored }
    }

    /// Counts the client's request. A refresh has no client.
    fn count(&self, outcome: Outcome) {
        let counters = &self.core().counters;
        match (&self.client, outcome) {
            (Some(_), _) => counters.count(outcome),
            (None, Outcome::Miss { unstored: Some(reason), .. }) => counters.count_unstored(reason),
            (None, _) => {}
        }
    }

    fn send(&mut self, mut response: Response<Body<B>>, outcome: Outcome) {
        if let Some(client) = self.client.take() {
            if response.status() == StatusCode::NOT_MODIFIED {
                self.core().counters.not_modified.add(1);
            }
            entry::add_cache_status(&mut response, outcome);
            // It is not an error if the client has disconnected.
            let _ = client.send(Ok(response));
        }
    }

    #[cfg(feature = "compression")]
    pub(crate) fn with_siblings(&self, stored: StoredResponse, plan: &Plan) -> StoredResponse {
        match self.core().codings.offered.is_empty() {
            true => stored,
            false => stored.with_siblings(plan),
        }
    }

    pub(crate) fn core(&self) -> &CacheCore {
        self.cache.core()
    }
}

/// Whether the response is not stored because of who asked, or how: that of another client may be.
fn is_of_requester(reason: Reason) -> bool {
    matches!(
        reason,
        Reason::Authorization
            | Reason::Cookie
            | Reason::PersonalExtension
            | Reason::Gate
            | Reason::Scope
            | Reason::VariantTooLong
    )
}

/// How long the record of a resource is kept. That of one with a scope stays longer than its responses: once it is gone,
/// requests with credentials do not follow each other.
pub(crate) fn record_ttl(plan: &Plan) -> Duration {
    let after = if plan.scope.is_some() { SCOPE_GRACE } else { Duration::ZERO };
    plan.ttl + plan.grace + after
}

/// The 304 for a response that is not stored: all its fields except those of the body.
fn unstored_304<B: http_body::Body>(mut head: response::Parts) -> Response<Body<B>> {
    head.status = StatusCode::NOT_MODIFIED;
    for field in [CONTENT_LENGTH, CONTENT_TYPE, TRANSFER_ENCODING] {
        head.headers.remove(field);
    }
    Response::from_parts(head, Body::empty())
}

/// The length that the head of a response declares.
fn declared_length(headers: &HeaderMap, hint: &SizeHint) -> Option<u64> {
    let in_headers = headers.get(CONTENT_LENGTH).and_then(|length| length.to_str().ok()?.parse().ok());
    in_headers.or(hint.exact())
}

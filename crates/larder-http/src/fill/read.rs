//! The body of a response: read to its end or until it is clear that it cannot be stored, then stored or handed on.

use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http::header::{CONTENT_LENGTH, ETAG};
use http::{HeaderMap, Response, StatusCode, response};
use http_body::{Frame, SizeHint};
use tokio::time::{Instant, timeout_at};

use super::send::is_hashed_elsewhere;
use super::{Fill, FillRole, UnticketedFill};
use crate::fill::collect::{CollectStep, CollectedBody};
use crate::fill::stream::{Published, Stream};
use crate::graphql::ResponseScan;
use crate::headers::control::split_list;
use crate::policy::plan::Plan;
use crate::policy::value_freshness::ValueFreshness;
use crate::status::Reason;
use crate::stored::body::{BoxError, Rest};
use crate::stored::buffer::FillBuffer;
use crate::stored::entry::{self, StoreValue, StoredBody, StoredResponse};
use crate::stored::purge::PurgeStamp;

/// What the client has of the response so far.
enum Reply<B: http_body::Body> {
    /// Nothing.
    Unsent(response::Parts),
    /// The head, whose fields stay here for the store, and a body that it reads while it arrives.
    Streaming(HeaderMap, Stream<B>),
}

impl<B: http_body::Body> Reply<B> {
    fn headers(&self) -> &HeaderMap {
        match self {
            Reply::Unsent(head) => &head.headers,
            Reply::Streaming(headers, _) => headers,
        }
    }

    /// # Errors
    /// The response is made from a stale value, and nobody has a part of it.
    fn check_ttl(&self, plan: &Plan) -> Result<(), Reason> {
        match self {
            Reply::Unsent(_) if plan.is_useless() => Err(Reason::ZeroTtl),
            _ => Ok(()),
        }
    }

    fn headers_mut(&mut self) -> &mut HeaderMap {
        match self {
            Reply::Unsent(head) => &mut head.headers,
            Reply::Streaming(headers, _) => headers,
        }
    }
}

/// What a response may become, as far as its head tells.
struct Storable<'a> {
    status: StatusCode,
    hint: SizeHint,
    plan: &'a Plan,
    stamp: &'a PurgeStamp,
}

/// Why a body was not read to its end, and the frame that was read last.
type Stopped<E> = (Reason, Option<Result<Frame<Bytes>, E>>);

impl<B, E> Fill<B, E>
where
    B: http_body::Body<Data = Bytes>,
    B::Error: Into<BoxError>,
{
    /// Reads the body, and stores the response or hands on what is left of it. The handler has replied at `replied_at`, in
    /// milliseconds of the engine's clock.
    pub(super) async fn collect_body(
        &mut self,
        response: Response<B>,
        plan: Plan,
        scan: Option<ResponseScan>,
        stamp: PurgeStamp,
        (replied_at, deadline): (u64, Instant),
    ) {
        let (head, body) = response.into_parts();
        let (status, hint) = (head.status, body.size_hint());
        let mut body = Box::pin(body);
        let mut collected = CollectedBody::new(self.core().store.memory.clone(), hint.exact(), scan);
        let storable = Storable { status, hint, plan: &plan, stamp: &stamp };
        let mut values = self.core().rules.value_freshness();
        let read = self.read_body(body.as_mut(), &mut collected, &mut values, (head, storable), deadline);
        let (reply, read) = read.await;
        let plan = plan.limited_by_values(self.fresh_for(&values, replied_at));
        let failed = match read {
            // A body must not be read again after its end.
            Ok(()) => {
                let checked = collected.check_end(reply.headers()).and_then(|()| reply.check_ttl(&plan));
                checked.err().map(|reason| (reason, Rest::Nothing))
            }
            Err((reason, last)) => Some((reason, Rest::Inner(last, body))),
        };
        match failed {
            None => self.store_body(status, collected, reply, plan, stamp, replied_at).await,
            Some((reason, rest)) => {
                self.abandon_store(reason, status);
                self.hand_on(reason, reply, collected, &hint).fail(reason, rest);
            }
        }
    }

    /// How long the values are fresh that the body is made from, from the moment when the handler replied; zero if one is stale
    /// now.
    fn fresh_for(&self, values: &ValueFreshness, replied_at: u64) -> Option<Duration> {
        let remaining = values.remaining(self.core().store.entries.clock())?;
        let elapsed = self.core().store.entries.now_ms().saturating_sub(replied_at);
        Some(if remaining.is_zero() { remaining } else { remaining + Duration::from_millis(elapsed) })
    }

    /// Reads the body to its end. If it is not ready at once, sends the head: nobody must wait for the end of a slow body.
    async fn read_body(
        &mut self,
        mut body: Pin<&mut B>,
        collected: &mut CollectedBody,
        values: &mut ValueFreshness,
        (head, storable): (response::Parts, Storable<'_>),
        deadline: Instant,
    ) -> (Reply<B>, Result<(), Stopped<B::Error>>) {
        let clock = self.core().store.entries.clock().clone();
        let mut poll_frame = |cx: &mut Context<'_>| values.poll(&clock, || body.as_mut().poll_frame(cx));
        let mut reply = Reply::Unsent(head);
        let end = loop {
            let frame = match poll_fn(|cx| Poll::Ready(poll_frame(cx))).await {
                Poll::Ready(frame) => frame,
                Poll::Pending => {
                    if let Reply::Unsent(head) = reply {
                        reply = self.start_streaming(head, collected, &storable);
                    }
                    match timeout_at(deadline, poll_fn(&mut poll_frame)).await {
                        Ok(frame) => frame,
                        Err(_) => break Err((Reason::FillTimeout, None)),
                    }
                }
            };
            match collected.push(frame, self.core().limits.max_body_bytes) {
                CollectStep::Kept(chunks) => {
                    if let Reply::Streaming(_, stream) = &reply {
                        stream.append(&collected.chunks[chunks]);
                    }
                    // A body that is always ready is never timed out above.
                    if Instant::now() >= deadline {
                        break Err((Reason::FillTimeout, None));
                    }
                }
                CollectStep::End => break Ok(()),
                CollectStep::Stop(reason, frame) => break Err((reason, Some(frame))),
            }
        };
        (reply, end)
    }

    /// Sends the head to the client, if there is one, and lets others follow the body.
    fn start_streaming(
        &mut self,
        head: response::Parts,
        collected: &CollectedBody,
        Storable { status, hint, plan, stamp }: &Storable<'_>,
    ) -> Reply<B> {
        if self.client.is_none() || self.wants_part() {
            return Reply::Unsent(head);
        }
        let headers = head.headers.clone();
        let buffer = FillBuffer::new(collected.chunks.clone(), declared_length(&headers, hint));
        // Only its end shows whether a GraphQL response may be read by others.
        let published = match collected.has_scan() {
            false => self.publish(*status, &headers, &buffer, plan, stamp),
            true => None,
        };
        Reply::Streaming(headers, self.open_stream(head, buffer, hint, published))
    }

    /// Stores a response whose body is complete, and sends it unless its client reads it already.
    async fn store_body(
        &mut self,
        status: StatusCode,
        collected: CollectedBody,
        mut reply: Reply<B>,
        plan: Plan,
        stamp: PurgeStamp,
        replied_at: u64,
    ) {
        let length = collected.len();
        reply = match reply {
            Reply::Unsent(head) if self.may_send_before_hash(&head.headers, length) => {
                let (headers, length) = (head.headers.clone(), length as u64);
                let buffer = FillBuffer::new(collected.chunks.clone(), Some(length));
                let stream = self.open_stream(head, buffer, &SizeHint::with_exact(length), None);
                Reply::Streaming(headers, stream)
            }
            reply => reply,
        };
        if let Reply::Streaming(_, stream) = &reply {
            stream.end_for_client();
        }
        let body = collected.into_chunks();
        if is_hashed_elsewhere(reply.headers(), body.len()) {
            // The fill continues in its own task then, and the connection sends meanwhile.
            let etag = entry::etag_made_elsewhere(&body).await;
            reply.headers_mut().insert(ETAG, etag);
        }
        let now = self.core().store.entries.now_ms();
        let elapsed = Duration::from_millis(now.saturating_sub(replied_at));
        // Its followers get it all the same, unless it was purged.
        let copy_for_followers = if plan.is_over_after(elapsed) { self.running_copy(&plan) } else { None };
        // The response has aged while its body arrived.
        let plan = plan.after(elapsed);
        let (body, tags) = (StoredBody::Complete(body), self.tags(&plan));
        let stored = StoredResponse::new(status, reply.headers(), body, &plan, tags, stamp, now);
        let stored = match copy_for_followers {
            Some(copy) => stored.with_copy(Some(copy)),
            None if self.shared.has_lease() => Box::pin(self.shared(stored, &plan, false)).await,
            None => stored,
        };
        let stored = Arc::new(self.with_siblings(stored, &plan));
        match reply {
            Reply::Streaming(_, stream) => self.store_streamed(stored, &plan, stream),
            Reply::Unsent(head) => self.store_and_send(stored, &plan, head, now),
        }
    }

    /// The stream through which the client gets what is left of a response that is not stored.
    fn hand_on(
        &mut self,
        reason: Reason,
        reply: Reply<B>,
        collected: CollectedBody,
        hint: &SizeHint,
    ) -> Stream<B> {
        match reply {
            Reply::Streaming(_, stream) => {
                self.core().counters.count_unstored(reason);
                stream
            }
            Reply::Unsent(head) => {
                let buffer = FillBuffer::new(collected.chunks, None);
                self.open_stream_as(self.miss_outcome(Some(reason)), head, buffer, hint, None)
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
        let (body, now) = (StoredBody::Filling(buffer.clone()), self.core().store.entries.now_ms());
        let filling = StoredResponse::new(status, headers, body, plan, self.tags(plan), stamp.copy(), now);
        let filling = filling.with_copy(self.running_copy(plan));
        let filling = Arc::new(filling);
        // Before the ticket is spent.
        let _counted = UnticketedFill::new(self.core());
        let key = self.store(&filling, plan).ok()?;
        Some(Published { key, value: StoreValue::Response(filling), _counted })
    }
}

/// The length that the head of a response declares.
pub(crate) fn declared_length(headers: &HeaderMap, hint: &SizeHint) -> Option<u64> {
    let first = headers.get(CONTENT_LENGTH).and_then(|line| split_list(line.as_bytes()).next());
    let in_headers = first.and_then(|length| std::str::from_utf8(length).ok()?.parse().ok());
    in_headers.or(hint.exact())
}

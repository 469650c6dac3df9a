//! A fill: running the handler for a response that may be stored, in a task of its own, so that a client that goes
//! away does not cancel what others wait for.
//!
//! ```text
//! client ── request ──► fill task ──► handler
//!        ◄── head ─────    │  ◄── body, frame by frame
//!        ◄── shared buffer ┤
//!                          └─ whole body ──► store, waiters
//! ```
//!
//! The head goes to the client at once. The body is collected up to the limit; the client reads the same buffer at
//! its own pace, and gets the rest of the body itself when the fill gives up.

use std::future::poll_fn;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::Poll;

use bytes::{Bytes, BytesMut};
use http::header::{CONTENT_LENGTH, CONTENT_TYPE, TRANSFER_ENCODING};
use http::{HeaderMap, Request, Response, StatusCode, response};
use http_body::{Frame, SizeHint};
use larder_engine::{CommitOutcome, Op, Ticket, Ttl};
use tokio::sync::oneshot;
use tower_service::Service;

use crate::body::{Body, Writer};
use crate::cache::{HttpCache, Parts, Place};
use crate::conditional;
use crate::entry::{self, Slot, Stored};
use crate::forward;
use crate::key::{self, Key};
use crate::policy::{self, CacheCtx, Plan};
use crate::purge::Birth;
use crate::status::{Outcome, Reason};
use crate::vary::VaryRecord;

/// What the client of a fill gets.
pub(crate) type Answer<B, E> = Result<Response<Body<B>>, E>;

/// One fill: where its result goes.
pub(crate) struct Fill<B: http_body::Body, E> {
    pub(crate) cache: HttpCache,
    pub(crate) place: Place,
    pub(crate) flight: Flight,
    /// The request's own fields: they select the variant and hold the client's conditions.
    pub(crate) asked: HeaderMap,
    pub(crate) has_cookie: bool,
    /// `None` for a background refresh; the receiver may be gone, too.
    pub(crate) client: Option<oneshot::Sender<Answer<B, E>>>,
}

/// On what grounds a fill may store its result.
pub(crate) enum Flight {
    /// It leads: others wait for it. `None` once that is settled.
    Leads(Option<Ticket<Key, Slot>>),
    /// Nobody waits, and it waits for nobody.
    Alone { _counted: Lone },
    /// It replaces this stale slot, and nothing else.
    Refreshes(Slot),
}

/// A fill without a ticket, counted as long as it may store something.
pub(crate) struct Lone(HttpCache);

impl Lone {
    pub(crate) fn new(cache: HttpCache) -> Lone {
        cache.parts().lone_fills.fetch_add(1, Ordering::SeqCst);
        Lone(cache)
    }
}

impl Drop for Lone {
    fn drop(&mut self) {
        self.0.parts().lone_fills.fetch_sub(1, Ordering::SeqCst);
    }
}

/// What the followers of a fill without a value are told.
#[derive(Debug)]
struct Released;

impl Flight {
    /// Lets all followers go at once, each to the handler.
    fn release(&mut self) {
        if let Flight::Leads(ticket) = self
            && let Some(ticket) = ticket.take()
        {
            ticket.fail(Arc::new(Released));
        }
    }

    /// Lets one follower lead in place of this fill, whose result was purged before it came.
    fn pass_on(&mut self) {
        if let Flight::Leads(ticket) = self {
            drop(ticket.take());
        }
    }

    fn store(&mut self, cache: &Parts, key: &Key, slot: Slot, ttl: Ttl) -> Result<(), Reason> {
        let stored = match self {
            Flight::Leads(ticket) => {
                ticket.take().is_some_and(|ticket| ticket.commit_with_ttl(slot, ttl) == CommitOutcome::Stored)
            }
            Flight::Alone { .. } => !cache.store.insert_with_ttl(key.clone(), slot, ttl).is_refused(),
            Flight::Refreshes(old) => {
                let replaced = cache.store.compute(key.clone(), |present| match present {
                    Some(entry) if entry.value().is(old) => (Op::Put(slot, ttl), true),
                    _ => (Op::Keep, false),
                });
                replaced.result && replaced.refused.is_none()
            }
        };
        if stored { Ok(()) } else { Err(Reason::Refused) }
    }
}

/// A handler that panics, or a runtime that shuts down, must not leave anybody waiting.
impl Drop for Flight {
    fn drop(&mut self) {
        self.release();
    }
}

impl<B, E> Fill<B, E>
where
    B: http_body::Body<Data = Bytes>,
{
    /// Runs the handler and settles everything that hangs on it.
    pub(crate) async fn run<S, ReqBody>(mut self, inner: S, mut request: Request<ReqBody>)
    where
        S: Service<Request<ReqBody>, Response = Response<B>, Error = E>,
    {
        let ctx = CacheCtx::default();
        request.extensions_mut().insert(ctx.clone());
        // Before the handler starts: whatever is purged from here on covers its response.
        let birth = self.parts().purges.birth(self.place.resource.as_bytes());
        let mut response = match forward::call(inner, request).await {
            Ok(response) => response,
            Err(error) => {
                self.flight.release();
                self.count(self.missed(Some(Reason::HandlerError)));
                if let Some(client) = self.client.take() {
                    let _ = client.send(Err(error));
                }
                return;
            }
        };
        let plan = policy::plan(&mut response, &ctx, &self.parts().cached_errors, self.has_cookie);
        match plan {
            Ok(_) if response.body().size_hint().lower() > self.parts().max_body_bytes as u64 => {
                self.pass(response, Reason::BodyTooLarge);
            }
            Ok(plan) => self.collect(response, plan, birth).await,
            Err(reason) => self.pass(response, reason),
        }
    }

    /// The response is not for the store: it goes to the client as it is, and the waiters go their own ways.
    fn pass(mut self, response: Response<B>, reason: Reason) {
        self.refuse(reason, response.status());
        let outcome = self.missed(Some(reason));
        self.count(outcome);
        let (head, body) = response.into_parts();
        let response = match self.is_current(head.status, &head.headers) {
            true => unstored_304(head),
            false => Response::from_parts(head, Body::inner(body)),
        };
        self.send(response, outcome);
    }

    /// Reads the body to its end, or to where it turns out not to be for the store.
    async fn collect(mut self, response: Response<B>, plan: Plan, birth: Birth) {
        let (head, body) = response.into_parts();
        let (status, headers) = (head.status, head.headers.clone());
        let hint = body.size_hint();
        let mut body = Box::pin(body);
        let mut unsent = Some(head);
        let mut streaming = None;
        let mut read = Read::default();
        let end = loop {
            let frame = match poll_fn(|cx| Poll::Ready(body.as_mut().poll_frame(cx))).await {
                Poll::Ready(frame) => frame,
                Poll::Pending => {
                    // The client need not wait for the end of a body that takes its time.
                    if let Some(head) = unsent.take() {
                        let outcome = self.missed(None);
                        streaming = self.stream(head, &read, hint, outcome);
                    }
                    poll_fn(|cx| body.as_mut().poll_frame(cx)).await
                }
            };
            match read.take(frame, self.parts().max_body_bytes) {
                Step::More(chunk) => {
                    if let Some(writer) = &streaming {
                        writer.push(chunk);
                    }
                }
                Step::End => break read.check_length(&headers).map_err(|reason| (reason, None)),
                Step::Stop(reason, last) => break Err((reason, Some(last))),
            }
        };
        match end {
            Ok(()) => {
                let now = self.parts().store.now_ms();
                let whole = read.join();
                let stored = Stored::new(status, &headers, whole, &plan, birth, &self.parts().purges, now);
                self.publish(Arc::new(stored), &plan, unsent, now);
                if let Some(writer) = streaming {
                    writer.complete();
                }
            }
            Err((reason, last)) => {
                self.refuse(reason, status);
                match unsent {
                    Some(head) => {
                        let outcome = self.missed(Some(reason));
                        streaming = self.stream(head, &read, hint, outcome);
                    }
                    None => self.parts().counters.count_unstored(reason),
                }
                if let Some(writer) = streaming {
                    writer.hand_over(last, body);
                }
            }
        }
    }

    /// Sends the head to the client with a body that reads what the fill has read and goes on to read.
    fn stream(
        &mut self,
        head: response::Parts,
        read: &Read,
        hint: SizeHint,
        outcome: Outcome,
    ) -> Option<Writer<B>> {
        self.count(outcome);
        self.client.as_ref()?;
        if self.is_current(head.status, &head.headers) {
            self.send(unstored_304(head), outcome);
            return None;
        }
        let (writer, body) = Writer::open(read.chunks.clone(), hint);
        self.send(Response::from_parts(head, body), outcome);
        Some(writer)
    }

    /// Stores the response and answers those who still wait: the followers, and the client unless it streams.
    fn publish(&mut self, stored: Arc<Stored>, plan: &Plan, unsent: Option<response::Parts>, now: u64) {
        let result = self.store(&stored, plan);
        match result {
            Ok(()) => {
                let parts = self.parts();
                parts.counters.stores.add(1);
                parts.hit_for_miss.remove(&parts.purges.mark(self.place.resource.as_bytes()));
            }
            Err(reason) => self.refuse(reason, StatusCode::OK),
        }
        let Some(head) = unsent else {
            if let Err(reason) = result {
                self.parts().counters.count_unstored(reason);
            }
            return;
        };
        let outcome = self.missed(result.err());
        self.count(outcome);
        let mut response = match self.is_current(head.status, stored.headers()) {
            true => stored.not_modified(now),
            false => stored.replay(now, false),
        };
        *response.version_mut() = head.version;
        response.extensions_mut().extend(head.extensions);
        self.send(response, outcome);
    }

    fn store(&mut self, stored: &Arc<Stored>, plan: &Plan) -> Result<(), Reason> {
        let cache = self.cache.clone();
        let cache = cache.parts();
        if !cache.purges.holds(&stored.birth, self.place.resource.as_bytes())
            || !stored.tags_hold(&cache.purges)
        {
            self.flight.pass_on();
            return Err(Reason::Purged);
        }
        let ttl = Ttl::After(plan.ttl + plan.grace);
        let slot = Slot::Response(stored.clone());
        let Place { resource, variant } = &self.place;
        match variant {
            None if plan.vary.is_empty() => self.flight.store(cache, resource, slot, ttl),
            None => {
                let (record, key) = self.new_variant(stored, plan);
                cache.store.insert_with_ttl(key.clone(), slot, ttl);
                let result = self.flight.store(cache, resource, Slot::Varies(record), ttl);
                if result.is_err() {
                    cache.store.remove(&key);
                }
                result
            }
            Some((record, key)) if *record.fields() == *plan.vary => {
                self.flight.store(cache, key, slot, ttl)?;
                if let Some(oldest) = record.admit(key) {
                    cache.store.remove(&oldest);
                }
                cache.keep_record(resource, record, plan.ttl + plan.grace);
                Ok(())
            }
            Some((record, _)) => {
                // The resource varies by other fields now: its old variants must not be found any more.
                self.flight.release();
                let replacement = if plan.vary.is_empty() {
                    slot
                } else {
                    let (record, key) = self.new_variant(stored, plan);
                    cache.store.insert_with_ttl(key, slot, ttl);
                    Slot::Varies(record)
                };
                Flight::Refreshes(Slot::Varies(record.clone())).store(cache, resource, replacement, ttl)
            }
        }
    }

    fn new_variant(&self, stored: &Stored, plan: &Plan) -> (Arc<VaryRecord>, Key) {
        let record = VaryRecord::new(plan.vary.clone(), stored.birth.copy());
        let key = key::with_scratch(|key| {
            record.write_key(key, &self.asked);
            Key::new(key)
        });
        record.admit(&key);
        (Arc::new(record), key)
    }

    /// Nothing will be stored: followers are released, and what the reason says about the key is remembered.
    fn refuse(&mut self, reason: Reason, status: StatusCode) {
        self.flight.release();
        let lasting = !matches!(reason, Reason::BodyError | Reason::Purged | Reason::Cookie);
        if lasting && self.client.is_some() {
            let parts = self.parts();
            parts.hit_for_miss.insert(parts.purges.mark(self.place.resource.as_bytes()), ());
        }
        // The handler says that it is not to be cached any more; a failure says nothing.
        if lasting
            && !status.is_server_error()
            && let Flight::Refreshes(old) = &self.flight
        {
            self.parts().drop_slot(self.place.key().clone(), old);
        }
    }

    /// Whether the client's copy is current; its conditions were kept from the handler.
    fn is_current(&self, status: StatusCode, headers: &HeaderMap) -> bool {
        status == StatusCode::OK && conditional::not_modified(&self.asked, headers)
    }

    fn missed(&self, unstored: Option<Reason>) -> Outcome {
        Outcome::Miss { variant: self.place.variant.is_some(), collapsed: false, unstored }
    }

    /// Counts the client's request; a refresh has none.
    fn count(&self, outcome: Outcome) {
        let counters = &self.parts().counters;
        match (&self.client, outcome) {
            (Some(_), _) => counters.count(outcome),
            (None, Outcome::Miss { unstored: Some(reason), .. }) => counters.count_unstored(reason),
            (None, _) => {}
        }
    }

    fn send(&mut self, mut response: Response<Body<B>>, outcome: Outcome) {
        if let Some(client) = self.client.take() {
            if response.status() == StatusCode::NOT_MODIFIED {
                self.parts().counters.not_modified.add(1);
            }
            entry::sign(&mut response, outcome);
            // A client that went away is no error: the fill was for the others, too.
            let _ = client.send(Ok(response));
        }
    }

    fn parts(&self) -> &Parts {
        self.cache.parts()
    }
}

/// The 304 for a response that is not stored: it keeps every field but those of the body.
fn unstored_304<B: http_body::Body>(mut head: response::Parts) -> Response<Body<B>> {
    head.status = StatusCode::NOT_MODIFIED;
    for field in [CONTENT_LENGTH, CONTENT_TYPE, TRANSFER_ENCODING] {
        head.headers.remove(field);
    }
    Response::from_parts(head, Body::empty())
}

/// What has been read of a body.
#[derive(Default)]
struct Read {
    chunks: Vec<Bytes>,
    size: usize,
}

enum Step<E> {
    More(Bytes),
    End,
    Stop(Reason, Result<Frame<Bytes>, E>),
}

impl Read {
    fn take<E>(&mut self, frame: Option<Result<Frame<Bytes>, E>>, limit: usize) -> Step<E> {
        match frame {
            None => Step::End,
            Some(Err(error)) => Step::Stop(Reason::BodyError, Err(error)),
            Some(Ok(frame)) => match frame.into_data() {
                Ok(data) if data.len() > limit - self.size => {
                    Step::Stop(Reason::BodyTooLarge, Ok(Frame::data(data)))
                }
                Ok(data) => {
                    self.size += data.len();
                    self.chunks.push(data.clone());
                    Step::More(data)
                }
                Err(trailers) => Step::Stop(Reason::Trailers, Ok(trailers)),
            },
        }
    }

    /// A body that ended before, or after, the length its head promised is not whole.
    fn check_length(&self, headers: &HeaderMap) -> Result<(), Reason> {
        let whole = headers.get_all(CONTENT_LENGTH).iter().all(|length| *length == *self.size.to_string());
        if whole { Ok(()) } else { Err(Reason::BodyLength) }
    }

    /// The body in one piece; of a single chunk, without a copy.
    fn join(mut self) -> Bytes {
        match self.chunks.len() {
            0 => Bytes::new(),
            1 => self.chunks.swap_remove(0),
            _ => {
                let mut whole = BytesMut::with_capacity(self.size);
                self.chunks.iter().for_each(|chunk| whole.extend_from_slice(chunk));
                whole.freeze()
            }
        }
    }
}

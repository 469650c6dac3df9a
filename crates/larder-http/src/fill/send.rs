//! What the client of a fill gets: the response with its outcome, a body that reads from the buffer of the fill, or 304.

use std::sync::Arc;

use bytes::Bytes;
use http::header::{CONTENT_LENGTH, CONTENT_TYPE, ETAG, IF_NONE_MATCH, RANGE, TRANSFER_ENCODING};
use http::{HeaderMap, Response, StatusCode, response};
use http_body::SizeHint;

use super::Fill;
use crate::fill::stream::{Published, Stream};
use crate::headers::conditional;
use crate::status::{Outcome, Reason};
use crate::stored::body::{Body, BoxError};
use crate::stored::buffer::FillBuffer;
use crate::stored::entry;

/// The longest body whose generated `ETag` is made at once, before the body is sent.
const MAX_HASHED_AT_ONCE: usize = 4 << 20;

/// Whether the generated `ETag` of a complete body is made on a thread for such work.
pub(super) fn is_hashed_elsewhere(headers: &HeaderMap, body_bytes: usize) -> bool {
    body_bytes > MAX_HASHED_AT_ONCE && !headers.contains_key(ETAG)
}

impl<B, E> Fill<B, E>
where
    B: http_body::Body<Data = Bytes>,
    B::Error: Into<BoxError>,
{
    /// Sends a response that may not be stored to the client, and releases the followers.
    pub(super) fn send_unstored(&mut self, response: Response<B>, reason: Reason) {
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

    /// Whether a complete body is sent before its generated `ETag` is made. A client that has such an `ETag` waits for it: it
    /// may need no body.
    pub(super) fn may_send_before_hash(&self, headers: &HeaderMap, body_bytes: usize) -> bool {
        is_hashed_elsewhere(headers, body_bytes)
            && self.client.is_some()
            && !self.wants_part()
            && !self.request_headers.contains_key(IF_NONE_MATCH)
    }

    /// Whether the client wants a range of the body: it waits for the end of the body, which is known to be short enough.
    pub(super) fn wants_part(&self) -> bool {
        self.request_headers.contains_key(RANGE)
    }

    /// Sends the head to the client before it is known whether the response is stored, with a body that reads from the buffer
    /// of the fill.
    pub(super) fn open_stream(
        &mut self,
        head: response::Parts,
        buffer: Arc<FillBuffer>,
        hint: &SizeHint,
        published: Option<Published>,
    ) -> Stream<B> {
        let outcome = self.miss_outcome(Some(Reason::Streaming));
        self.open_stream_as(outcome, head, buffer, hint, published)
    }

    pub(super) fn open_stream_as(
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

    /// Whether the client's copy is current. The handler did not see the client's conditions.
    pub(super) fn client_copy_is_current(&self, status: StatusCode, headers: &HeaderMap) -> bool {
        status == StatusCode::OK && conditional::not_modified(&self.request_headers, headers)
    }

    pub(super) fn miss_outcome(&self, unstored: Option<Reason>) -> Outcome {
        Outcome::Miss { variant: self.location.variant.is_some(), collapsed: false, unstored }
    }

    /// Counts the client's request. A refresh has no client.
    pub(super) fn count(&self, outcome: Outcome) {
        let counters = &self.core().counters;
        match (&self.client, outcome) {
            (Some(_), _) => counters.count(outcome),
            (None, Outcome::Miss { unstored: Some(reason), .. }) => counters.count_unstored(reason),
            (None, _) => {}
        }
    }

    pub(super) fn send(&mut self, mut response: Response<Body<B>>, outcome: Outcome) {
        if let Some(client) = self.client.take() {
            if response.status() == StatusCode::NOT_MODIFIED {
                self.core().counters.not_modified.add(1);
            }
            entry::add_cache_status(&mut response, outcome);
            // It is not an error if the client has disconnected.
            let _ = client.send(Ok(response));
        }
    }
}

/// The 304 for a response that is not stored: all its fields except those of the body.
fn unstored_304<B: http_body::Body>(mut head: response::Parts) -> Response<Body<B>> {
    head.status = StatusCode::NOT_MODIFIED;
    for field in [CONTENT_LENGTH, CONTENT_TYPE, TRANSFER_ENCODING] {
        head.headers.remove(field);
    }
    Response::from_parts(head, Body::empty())
}

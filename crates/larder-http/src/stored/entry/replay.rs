//! The replay of a stored response: complete, in part, or as a 304, with its age and its outcome.

use std::ops::Range;

use http::header::{AGE, CONTENT_LENGTH, CONTENT_RANGE};
use http::{HeaderMap, HeaderName, HeaderValue, Response, StatusCode};

use super::replayed_fields::GeneratedValues;
use super::{StoredBody, StoredResponse};
use crate::headers::conditional::{self, REPEATED_IN_304};
use crate::headers::fields::FieldSet;
use crate::headers::range::{self, BodyRange};
use crate::status::seconds::SecondsValues;
use crate::status::stats::Counters;
use crate::status::{CACHE_STATUS, Outcome};
use crate::stored::body::Body;
use crate::stored::chunks::Chunks;

static AGES: SecondsValues = SecondsValues::new("");

impl StoredResponse {
    /// The response without the outcome: a 304 if the client's copy is current, a part of the body if the request has a range,
    /// else the complete response.
    pub(crate) fn respond<B: http_body::Body>(
        &self,
        ReplayRequest { headers, fields, head_only }: ReplayRequest<'_>,
        now_ms: u64,
    ) -> Response<Body<B>> {
        let complete = || self.replay(now_ms, head_only);
        if self.status != StatusCode::OK {
            complete()
        } else if fields.has(FieldSet::VALIDATOR) && conditional::not_modified(headers, &self.headers) {
            self.not_modified(now_ms)
        } else if fields.has(FieldSet::RANGE) && !head_only {
            self.replay_part(headers, now_ms).unwrap_or_else(complete)
        } else {
            complete()
        }
    }

    /// The complete response, without the outcome. The body is shared, not copied; a HEAD gets none.
    fn replay<B: http_body::Body>(&self, now_ms: u64, head_only: bool) -> Response<Body<B>> {
        let body = match &self.body {
            _ if head_only => Body::empty(),
            StoredBody::Complete(chunks) => complete_body(chunks, 0..chunks.len()),
            StoredBody::Filling(buffer) => Body::follower(buffer),
        };
        let mut response = Response::new(body);
        *response.status_mut() = self.status;
        *response.headers_mut() = self.headers.clone();
        if let Some(placeholder) = find_field(response.headers_mut(), &AGE) {
            *placeholder = self.age(now_ms);
        }
        response
    }

    /// The part of the body in the request's range, or a 416 if the range is not satisfiable. `None` if the request
    /// gets the complete body.
    fn replay_part<B: http_body::Body>(&self, request: &HeaderMap, now_ms: u64) -> Option<Response<Body<B>>> {
        let StoredBody::Complete(chunks) = &self.body else { return None };
        let (len, mut values) = (chunks.len(), GeneratedValues::new());
        let part = match range::requested_range(request, &self.headers, len) {
            BodyRange::Whole => return None,
            BodyRange::Unsatisfiable => {
                let mut response = self.bodiless(StatusCode::RANGE_NOT_SATISFIABLE, &range::REPEATED_IN_416);
                response.headers_mut().insert(CONTENT_LENGTH, HeaderValue::from(0));
                response.headers_mut().insert(CONTENT_RANGE, values.add(format_args!("bytes */{len}")));
                return Some(response);
            }
            BodyRange::Part(part) => part,
        };
        let mut response = self.replay(now_ms, false);
        *response.status_mut() = StatusCode::PARTIAL_CONTENT;
        let headers = response.headers_mut();
        headers.insert(CONTENT_LENGTH, HeaderValue::from(part.len()));
        let range = format_args!("bytes {}-{}/{len}", part.start, part.end - 1);
        headers.insert(CONTENT_RANGE, values.add(range));
        for name in &range::DIGESTS_OF_CONTENT {
            headers.remove(name);
        }
        *response.body_mut() = complete_body(chunks, part);
        Some(response)
    }

    /// The 304 for a client whose copy is current, without the outcome.
    fn not_modified<B: http_body::Body>(&self, now_ms: u64) -> Response<Body<B>> {
        let mut response = self.bodiless(StatusCode::NOT_MODIFIED, &REPEATED_IN_304);
        response.headers_mut().insert(AGE, self.age(now_ms));
        response
    }

    /// A response without a body that repeats these fields.
    fn bodiless<B: http_body::Body>(&self, status: StatusCode, repeated: &[HeaderName]) -> Response<Body<B>> {
        let mut response = Response::new(Body::empty());
        *response.status_mut() = status;
        for name in repeated {
            for value in self.headers.get_all(name) {
                response.headers_mut().append(name, value.clone());
            }
        }
        response
    }

    fn age(&self, now_ms: u64) -> HeaderValue {
        AGES.value(self.age_ms(now_ms) / 1000)
    }
}

/// What a replay depends on in its request.
#[derive(Clone, Copy)]
pub(crate) struct ReplayRequest<'a> {
    pub(crate) headers: &'a HeaderMap,
    pub(crate) fields: FieldSet,
    pub(crate) head_only: bool,
}

impl ReplayRequest<'_> {
    /// A request for the body too.
    pub(crate) fn get(headers: &HeaderMap) -> ReplayRequest<'_> {
        ReplayRequest { headers, fields: FieldSet::of(headers), head_only: false }
    }
}

/// The response from the store, counted and with its outcome.
pub(crate) fn answer<B: http_body::Body>(
    counters: &Counters,
    stored: &StoredResponse,
    request: ReplayRequest<'_>,
    outcome: Outcome,
    now_ms: u64,
) -> Response<Body<B>> {
    counters.count(outcome);
    let mut response = stored.respond(request, now_ms);
    if response.status() == StatusCode::NOT_MODIFIED {
        counters.not_modified.add(1);
    }
    stored.labels.add_to(response.extensions_mut());
    add_cache_status(&mut response, outcome);
    response
}

fn complete_body<B: http_body::Body>(chunks: &Chunks, range: Range<usize>) -> Body<B> {
    match chunks.as_one() {
        Some(bytes) => Body::full(bytes.slice(range)),
        None => Body::chunks(chunks.reader(range)),
    }
}

/// Adds the outcome to the headers, for the client, and to the body, for loggers outside of the layer.
pub(crate) fn add_cache_status<B: http_body::Body>(response: &mut Response<Body<B>>, outcome: Outcome) {
    response.body_mut().set_outcome(outcome);
    let headers = response.headers_mut();
    match find_field(headers, &CACHE_STATUS) {
        Some(placeholder) if placeholder.is_empty() => *placeholder = outcome.header(),
        _ => drop(headers.append(CACHE_STATUS, outcome.header())),
    }
}

/// The first line of a field. The placeholders of a stored response are the first fields, so no hash is needed for them.
fn find_field<'a>(headers: &'a mut HeaderMap, name: &HeaderName) -> Option<&'a mut HeaderValue> {
    headers.iter_mut().find(|(other, _)| *other == name).map(|(_, value)| value)
}

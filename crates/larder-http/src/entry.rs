//! A stored response: status, the header fields that may be replayed, and the body's bytes as they were written.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::SystemTime;

use bytes::Bytes;
use http::header::{
    ACCEPT_RANGES, AGE, CONNECTION, CONTENT_LENGTH, CONTENT_RANGE, DATE, ETAG, TE, TRAILER,
    TRANSFER_ENCODING, UPGRADE,
};
use http::{HeaderMap, HeaderName, HeaderValue, Response, StatusCode};
use xxhash_rust::xxh3::xxh3_128;

use crate::body::Body;
use crate::conditional::REPEATED_IN_304;
use crate::control::list_members;
use crate::policy::Plan;
use crate::purge::{Birth, Mark, Purges};
use crate::range::{self, Wanted};
use crate::status::{CACHE_STATUS, Outcome};
use crate::vary::VaryRecord;

/// A refresh that has not ended after this long is taken for lost, and another may start.
const REFRESH_LEASE_MS: u64 = 10_000;

/// Fields that belong to one connection and are not stored (RFC 9110, 7.6.1; RFC 9111, 3.1).
const HOP_BY_HOP: [HeaderName; 9] = [
    CONNECTION,
    HeaderName::from_static("keep-alive"),
    HeaderName::from_static("proxy-connection"),
    HeaderName::from_static("proxy-authenticate"),
    HeaderName::from_static("proxy-authentication-info"),
    TE,
    TRAILER,
    TRANSFER_ENCODING,
    UPGRADE,
];

/// What stands under a key.
#[derive(Clone, Debug)]
pub(crate) enum Slot {
    /// The response of a resource that does not vary, or one variant.
    Response(Arc<Stored>),
    /// The resource varies: look for a variant.
    Varies(Arc<VaryRecord>),
}

impl Slot {
    /// Whether both are one and the same object, and not merely equal.
    pub(crate) fn is(&self, other: &Slot) -> bool {
        match (self, other) {
            (Slot::Response(one), Slot::Response(other)) => Arc::ptr_eq(one, other),
            (Slot::Varies(one), Slot::Varies(other)) => Arc::ptr_eq(one, other),
            _ => false,
        }
    }

    pub(crate) fn birth(&self) -> &Birth {
        match self {
            Slot::Response(stored) => &stored.birth,
            Slot::Varies(record) => &record.birth,
        }
    }

    /// Bytes that the slot holds, for the budget.
    pub(crate) fn bytes(&self) -> usize {
        match self {
            Slot::Response(stored) => stored.bytes,
            Slot::Varies(record) => record.bytes(),
        }
    }
}

/// One response, ready to be replayed any number of times.
#[derive(Debug)]
pub(crate) struct Stored {
    status: StatusCode,
    /// Holds `Age` and `Cache-Status` too, to be overwritten in the copy: so a copy never has to grow.
    headers: HeaderMap,
    body: Bytes,
    tags: Box<[Mark]>,
    pub(crate) ignores_cookies: bool,
    pub(crate) birth: Birth,
    /// Moments on the engine's clock, in milliseconds.
    made_at: u64,
    fresh_until: u64,
    next_refresh: AtomicU64,
    bytes: usize,
}

impl Stored {
    pub(crate) fn new(
        status: StatusCode,
        headers: &HeaderMap,
        body: Bytes,
        plan: &Plan,
        birth: Birth,
        purges: &Purges,
        now_ms: u64,
    ) -> Stored {
        let headers = stored_headers(headers, &body);
        let tags: Box<[Mark]> = plan.tags.iter().map(|tag| purges.mark(tag.as_bytes())).collect();
        let fields: usize = headers.iter().map(|(name, value)| name.as_str().len() + value.len() + 96).sum();
        Stored {
            status,
            bytes: size_of::<Self>() + fields + body.len() + size_of_val(&*tags),
            headers,
            body,
            tags,
            ignores_cookies: plan.ignores_cookies,
            birth,
            made_at: now_ms,
            fresh_until: now_ms + plan.ttl.as_millis() as u64,
            next_refresh: AtomicU64::new(0),
        }
    }

    pub(crate) fn tags_hold(&self, purges: &Purges) -> bool {
        purges.tags_hold(&self.birth, &self.tags)
    }

    /// The outcome of a request that is answered with this entry.
    pub(crate) fn outcome(&self, now_ms: u64) -> Outcome {
        match self.fresh_until.checked_sub(now_ms) {
            None | Some(0) => Outcome::Stale { over: (now_ms - self.fresh_until) / 1000 },
            Some(left) => Outcome::Hit { ttl: left / 1000 },
        }
    }

    /// Whether the caller is the one to refresh this stale entry.
    pub(crate) fn claim_refresh(&self, now_ms: u64) -> bool {
        let due = self.next_refresh.load(Ordering::Acquire);
        due <= now_ms
            && self
                .next_refresh
                .compare_exchange(due, now_ms + REFRESH_LEASE_MS, Ordering::AcqRel, Ordering::Acquire)
                .is_ok()
    }

    /// The headers as they were stored; they hold the validators.
    pub(crate) fn headers(&self) -> &HeaderMap {
        &self.headers
    }

    /// The whole response, but for the outcome; the body is shared, not copied. For a HEAD the body is left out.
    pub(crate) fn replay<B: http_body::Body>(&self, now_ms: u64, head_only: bool) -> Response<Body<B>> {
        let body = if head_only { Body::empty() } else { Body::full(self.body.clone()) };
        let mut response = Response::new(body);
        *response.status_mut() = self.status;
        *response.headers_mut() = self.headers.clone();
        response.headers_mut().insert(AGE, self.age(now_ms));
        response
    }

    /// The part of the body that the request asks for, or the 416 that says that there is none; `None` when it asks
    /// for the whole.
    pub(crate) fn replay_part<B: http_body::Body>(
        &self,
        request: &HeaderMap,
        now_ms: u64,
    ) -> Option<Response<Body<B>>> {
        let len = self.body.len();
        let (status, body, range) = match range::wanted(request, &self.headers, len) {
            Wanted::Whole => return None,
            Wanted::Nothing => (StatusCode::RANGE_NOT_SATISFIABLE, Bytes::new(), format!("bytes */{len}")),
            Wanted::Part(part) => {
                let range = format!("bytes {}-{}/{len}", part.start, part.end - 1);
                (StatusCode::PARTIAL_CONTENT, self.body.slice(part), range)
            }
        };
        let mut response = self.replay(now_ms, false);
        *response.status_mut() = status;
        response.headers_mut().insert(CONTENT_LENGTH, HeaderValue::from(body.len()));
        response.headers_mut().insert(CONTENT_RANGE, text(range));
        *response.body_mut() = Body::full(body);
        Some(response)
    }

    /// The 304 that says that the client's copy is current, but for the outcome.
    pub(crate) fn not_modified<B: http_body::Body>(&self, now_ms: u64) -> Response<Body<B>> {
        let mut response = Response::new(Body::empty());
        *response.status_mut() = StatusCode::NOT_MODIFIED;
        for name in &REPEATED_IN_304 {
            for value in self.headers.get_all(name) {
                response.headers_mut().append(name, value.clone());
            }
        }
        response.headers_mut().insert(AGE, self.age(now_ms));
        response
    }

    pub(crate) fn status(&self) -> StatusCode {
        self.status
    }

    fn age(&self, now_ms: u64) -> HeaderValue {
        let age = now_ms.saturating_sub(self.made_at) / 1000;
        // Most hits are on young entries, and a static value costs no allocation.
        match age {
            0 => HeaderValue::from_static("0"),
            _ => HeaderValue::from(age),
        }
    }
}

/// Tells the outcome to the client, and to loggers outside of the layer.
pub(crate) fn sign<B: http_body::Body>(response: &mut Response<Body<B>>, outcome: Outcome) {
    response.body_mut().set_outcome(outcome);
    let headers = response.headers_mut();
    match headers.get_mut(CACHE_STATUS) {
        Some(placeholder) if placeholder.is_empty() => *placeholder = outcome.header(),
        _ => drop(headers.append(CACHE_STATUS, outcome.header())),
    }
}

/// The fields to replay, with what a stored response must have: length, date and validator.
fn stored_headers(from: &HeaderMap, body: &Bytes) -> HeaderMap {
    let named: Vec<&[u8]> =
        from.get_all(CONNECTION).iter().flat_map(|line| list_members(line.as_bytes())).collect();
    let mut headers = HeaderMap::with_capacity(from.len() + 6);
    for (name, value) in from {
        let listed = named.iter().any(|other| other.eq_ignore_ascii_case(name.as_str().as_bytes()));
        if !listed && !HOP_BY_HOP.contains(name) && name != CACHE_STATUS {
            headers.append(name, value.clone());
        }
    }
    headers.insert(CONTENT_LENGTH, HeaderValue::from(body.len()));
    if !headers.contains_key(DATE) {
        headers.insert(DATE, text(httpdate::fmt_http_date(SystemTime::now())));
    }
    if !headers.contains_key(ETAG) {
        headers.insert(ETAG, text(format!("\"{:032x}\"", xxh3_128(body))));
    }
    if !headers.contains_key(ACCEPT_RANGES) {
        headers.insert(ACCEPT_RANGES, HeaderValue::from_static("bytes"));
    }
    headers.insert(AGE, HeaderValue::from(0));
    headers.insert(CACHE_STATUS, HeaderValue::from_static(""));
    headers
}

fn text(value: String) -> HeaderValue {
    HeaderValue::try_from(value).expect("dates and hashes are visible ASCII")
}

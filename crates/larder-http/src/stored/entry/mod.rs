//! A stored response: its status, the header fields that may be replayed, and its body, which may still be filled.

use std::fmt::{self, Write as _};
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, SystemTime};

#[cfg(feature = "axum")]
use axum::extract::MatchedPath;
use bytes::BytesMut;
#[cfg(feature = "compression")]
use http::header::{ACCEPT_ENCODING, CONTENT_ENCODING, VARY};
use http::header::{
    ACCEPT_RANGES, AGE, CONNECTION, CONTENT_LENGTH, CONTENT_RANGE, DATE, ETAG, TE, TRAILER,
    TRANSFER_ENCODING, UPGRADE,
};
use http::{HeaderMap, HeaderName, HeaderValue, Response, StatusCode};
use httpdate::HttpDate;
use tokio::task::spawn_blocking;
use tokio::time::timeout;

use crate::headers::conditional::{self, REPEATED_IN_304};
#[cfg(feature = "shared")]
use crate::headers::control::Directives;
use crate::headers::control::list_members;
use crate::headers::fields::FieldSet;
use crate::headers::range::{self, BodyRange};
use crate::policy::labels::Labels;
use crate::policy::plan::Plan;
use crate::policy::scope::Scope;
use crate::stats::Counters;
use crate::status::seconds::SecondsValues;
use crate::status::{CACHE_STATUS, Outcome};
use crate::stored::body::Body;
use crate::stored::buffer::FillBuffer;
use crate::stored::chunks::Chunks;
use crate::stored::copy::EntryCopy;
#[cfg(feature = "compression")]
use crate::stored::encoding::{self, Siblings};
use crate::stored::private::Share;
use crate::stored::purge::{PurgeKey, PurgeStamp, Purges};
use crate::stored::record::VaryRecord;

/// If a refresh has not completed after this time, another one may start.
const REFRESH_TIMEOUT_MS: u64 = 10_000;

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

static AGES: SecondsValues = SecondsValues::new("");

/// The value of an entry in the store.
#[derive(Clone, Debug)]
pub(crate) enum StoreValue {
    /// The response of a resource that does not vary, or one variant.
    Response(Arc<StoredResponse>),
    /// The resource varies: look up the variant.
    Varies(Arc<VaryRecord>),
}

impl StoreValue {
    /// Whether both are the same object.
    pub(crate) fn is_same(&self, other: &StoreValue) -> bool {
        match (self, other) {
            (StoreValue::Response(one), StoreValue::Response(other)) => Arc::ptr_eq(one, other),
            (StoreValue::Varies(one), StoreValue::Varies(other)) => Arc::ptr_eq(one, other),
            _ => false,
        }
    }

    pub(crate) fn stamp(&self) -> &PurgeStamp {
        match self {
            StoreValue::Response(stored) => &stored.stamp,
            StoreValue::Varies(record) => &record.stamp,
        }
    }

    /// The size in bytes, for the weight of the entry.
    pub(crate) fn bytes(&self) -> usize {
        match self {
            StoreValue::Response(stored) => stored.bytes(),
            StoreValue::Varies(record) => record.bytes(),
        }
    }
}

/// A response that can be replayed any number of times.
#[derive(Debug)]
pub(crate) struct StoredResponse {
    status: StatusCode,
    /// Includes placeholders for `Age` and `Cache-Status`. A replay overwrites them, so the copied map never grows.
    headers: HeaderMap,
    body: StoredBody,
    tags: Box<[PurgeKey]>,
    /// The tags as the handler named them; empty if the copy has them.
    tag_names: Box<[Box<str>]>,
    pub(crate) scope: Option<Scope>,
    labels: Labels,
    #[cfg(feature = "axum")]
    route: Option<MatchedPath>,
    /// For a private response.
    pub(crate) share: OnceLock<Share>,
    pub(crate) stamp: PurgeStamp,
    // Times of the engine's clock, in milliseconds.
    created_at_ms: u64,
    initial_age_ms: u64,
    fresh_until_ms: AtomicU64,
    /// Whether it may be served stale after that.
    serves_stale: AtomicBool,
    next_refresh_ms: AtomicU64,
    bytes: usize,
    /// What tells whether other replicas still allow the response.
    copy: Option<Box<EntryCopy>>,
    #[cfg(feature = "compression")]
    siblings: Option<Box<Siblings<StoredResponse>>>,
}

/// The body of a stored response.
#[derive(Debug)]
pub(crate) enum StoredBody {
    Complete(Chunks),
    /// The fill is running: requests follow it. The bytes are not charged to the entry yet.
    Filling(Arc<FillBuffer>),
}

impl StoredBody {
    fn bytes(&self) -> usize {
        match self {
            StoredBody::Complete(chunks) => chunks.len() + chunks.overhead(),
            StoredBody::Filling(_) => 0,
        }
    }
}

impl StoredResponse {
    /// `now_ms` is the time at which the handler has replied.
    pub(crate) fn new(
        status: StatusCode,
        headers: &HeaderMap,
        body: StoredBody,
        plan: &Plan,
        tags: Box<[PurgeKey]>,
        stamp: PurgeStamp,
        now_ms: u64,
    ) -> StoredResponse {
        let headers = stored_headers(headers, &body);
        StoredResponse {
            status,
            bytes: size_of::<Self>()
                + headers_bytes(&headers)
                + body.bytes()
                + size_of_val(&*tags)
                + names_bytes(&plan.tags)
                + plan.labels.bytes(),
            headers,
            body,
            tags,
            tag_names: plan.tags.as_slice().into(),
            scope: plan.scope,
            labels: plan.labels.clone(),
            #[cfg(feature = "axum")]
            route: plan.route.clone(),
            share: OnceLock::new(),
            stamp,
            created_at_ms: now_ms,
            initial_age_ms: plan.age.as_millis() as u64,
            fresh_until_ms: AtomicU64::new(now_ms + plan.ttl.as_millis() as u64),
            serves_stale: AtomicBool::new(!plan.grace.is_zero()),
            next_refresh_ms: AtomicU64::new(0),
            copy: None,
            #[cfg(feature = "compression")]
            siblings: None,
        }
    }

    /// The size in bytes, with that of its encoded siblings, which are added later.
    pub(crate) fn bytes(&self) -> usize {
        #[cfg(feature = "compression")]
        let in_siblings = self
            .siblings
            .iter()
            .flat_map(|siblings| siblings.ready())
            .map(StoredResponse::bytes)
            .sum::<usize>();
        #[cfg(not(feature = "compression"))]
        let in_siblings = 0;
        self.bytes + in_siblings
    }

    pub(crate) fn tags_are_unpurged(&self, purges: &Purges) -> bool {
        purges.tags_are_unpurged(&self.stamp, &self.tags)
    }

    /// The tags that its handler has named.
    pub(crate) fn tag_names<'a>(
        &'a self,
        is_of_handler: impl Fn(&str) -> bool + 'a,
    ) -> impl Iterator<Item = &'a str> {
        let of_copy = self.copy().into_iter().flat_map(EntryCopy::tags).filter(move |tag| is_of_handler(tag));
        self.tag_names.iter().map(|tag| &**tag).chain(of_copy)
    }

    pub(crate) fn copy(&self) -> Option<&EntryCopy> {
        self.copy.as_deref()
    }

    pub(crate) fn with_copy(mut self, copy: Option<EntryCopy>) -> StoredResponse {
        self.copy = copy.map(Box::new);
        if let Some(copy) = &self.copy {
            self.bytes += size_of_val(&**copy) + copy.heap_bytes();
            self.bytes -= names_bytes(&std::mem::take(&mut self.tag_names));
        }
        self
    }

    /// The route that made it, as axum has matched it.
    #[cfg(feature = "axum")]
    pub(crate) fn route(&self) -> Option<&MatchedPath> {
        self.route.as_ref()
    }

    pub(crate) fn labels(&self) -> &Labels {
        &self.labels
    }

    /// The rest of its time to live in milliseconds; 0 if it is stale.
    pub(crate) fn ttl_ms(&self, now_ms: u64) -> u64 {
        self.fresh_until_ms.load(Ordering::Relaxed).saturating_sub(now_ms)
    }

    /// Whether it may not be served any more. The engine keeps it a little longer: it counts from when it was stored, and
    /// its clock advances in steps.
    pub(crate) fn is_expired(&self, now_ms: impl FnOnce() -> u64) -> bool {
        !self.serves_stale() && self.ttl_ms(now_ms()) == 0
    }

    fn serves_stale(&self) -> bool {
        self.serves_stale.load(Ordering::Relaxed)
    }

    /// The outcome of a request that is answered with this response, after a lookup that found it not expired: if
    /// it is never served stale, it is a hit also if its time has ended since.
    pub(crate) fn outcome(&self, now_ms: u64) -> Outcome {
        match self.ttl_ms(now_ms) {
            0 if self.serves_stale() => {
                let fresh_until_ms = self.fresh_until_ms.load(Ordering::Relaxed);
                Outcome::Stale { over: now_ms.saturating_sub(fresh_until_ms) / 1000 }
            }
            remaining => Outcome::Hit { ttl: remaining / 1000 },
        }
    }

    /// Whether the caller must refresh this stale response. Only one caller per [`REFRESH_TIMEOUT_MS`] gets `true`.
    pub(crate) fn claim_refresh(&self, now_ms: u64) -> bool {
        let due_at = self.next_refresh_ms.load(Ordering::Acquire);
        due_at <= now_ms
            && self
                .next_refresh_ms
                .compare_exchange(due_at, now_ms + REFRESH_TIMEOUT_MS, Ordering::AcqRel, Ordering::Acquire)
                .is_ok()
    }

    /// Whether the fill is still running.
    pub(crate) fn is_filling(&self) -> bool {
        matches!(self.body, StoredBody::Filling(_))
    }

    /// Whether the fill runs, and nothing has come for so long.
    pub(crate) fn is_stalled(&self, limit: Duration) -> bool {
        matches!(&self.body, StoredBody::Filling(buffer) if buffer.is_stalled(limit))
    }

    /// The stored headers, which include the validators.
    pub(crate) fn headers(&self) -> &HeaderMap {
        &self.headers
    }

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

    #[cfg(any(feature = "compression", feature = "shared"))]
    pub(crate) fn complete_body(&self) -> Option<&Chunks> {
        match &self.body {
            StoredBody::Complete(chunks) => Some(chunks),
            StoredBody::Filling(_) => None,
        }
    }

    pub(crate) fn status(&self) -> StatusCode {
        self.status
    }

    /// The time since the origin made the response, in milliseconds.
    pub(crate) fn age_ms(&self, now_ms: u64) -> u64 {
        self.initial_age_ms + now_ms.saturating_sub(self.created_at_ms)
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

/// Responses that replicas share.
#[cfg(feature = "shared")]
impl StoredResponse {
    pub(crate) fn initial_age_ms(&self) -> u64 {
        self.initial_age_ms
    }

    /// Whether the response may be served stale at all: a refresh of a guarded one would have no credentials.
    pub(crate) fn may_be_stale(&self) -> bool {
        self.scope < Some(Scope::Gated) && !Directives::parse(&self.headers).must_revalidate
    }

    /// The response is served stale from now on: it was softly invalidated, or other replicas cannot say that it was not.
    pub(crate) fn mark_stale(&self, now_ms: u64) {
        self.serves_stale.store(true, Ordering::Relaxed);
        self.fresh_until_ms.fetch_min(now_ms, Ordering::Relaxed);
    }
}

/// Encoded siblings: responses that differ in the body, and in the fields that describe its bytes.
#[cfg(feature = "compression")]
impl StoredResponse {
    /// Allows siblings, if the body is worth it and not private (BREACH). All representations then vary by `Accept-Encoding`.
    pub(crate) fn with_siblings(mut self, plan: &Plan) -> StoredResponse {
        let varies = plan.vary.contains(&ACCEPT_ENCODING);
        let len = self.complete_body().map_or(0, Chunks::len);
        let is_private = self.scope == Some(Scope::Private);
        if self.status == StatusCode::OK && !is_private && encoding::is_encodable(&self.headers, len, varies)
        {
            self.headers.append(VARY, HeaderValue::from_static("accept-encoding"));
            self.siblings = Some(Box::default());
            self.bytes += size_of::<Siblings<StoredResponse>>();
        }
        self
    }

    pub(crate) fn siblings(&self) -> Option<&Siblings<StoredResponse>> {
        self.siblings.as_deref()
    }

    /// The sibling with this body.
    pub(crate) fn encoded(&self, coding: &'static str, body: Chunks) -> StoredResponse {
        let mut headers = self.headers.clone();
        headers.insert(CONTENT_ENCODING, HeaderValue::from_static(coding));
        headers.insert(CONTENT_LENGTH, HeaderValue::from(body.len()));
        if let Some(etag) = headers.get(ETAG).and_then(|etag| encoding::sibling_etag(etag, coding)) {
            headers.insert(ETAG, etag);
        }
        for name in &encoding::DIGESTS {
            headers.remove(name);
        }
        let body = StoredBody::Complete(body);
        StoredResponse {
            status: self.status,
            bytes: size_of::<Self>() + headers_bytes(&headers) + body.bytes(),
            headers,
            body,
            tags: Box::default(),
            tag_names: Box::default(),
            scope: self.scope,
            labels: self.labels.clone(),
            #[cfg(feature = "axum")]
            route: None,
            share: OnceLock::new(),
            stamp: self.stamp.copy(),
            created_at_ms: self.created_at_ms,
            initial_age_ms: self.initial_age_ms,
            fresh_until_ms: AtomicU64::new(self.fresh_until_ms.load(Ordering::Relaxed)),
            serves_stale: AtomicBool::new(self.serves_stale()),
            next_refresh_ms: AtomicU64::new(0),
            copy: None,
            siblings: None,
        }
    }
}

fn names_bytes(names: &[Box<str>]) -> usize {
    size_of_val(names) + names.iter().map(|name| name.len()).sum::<usize>()
}

fn headers_bytes(headers: &HeaderMap) -> usize {
    headers.iter().map(|(name, value)| name.as_str().len() + value.len() + 96).sum()
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

/// The fields to replay. Adds those that every stored response must have: date, and those of a complete body: its
/// length, a validator, and that ranges are supported.
fn stored_headers(from: &HeaderMap, body: &StoredBody) -> HeaderMap {
    let connection_options: Vec<&[u8]> =
        from.get_all(CONNECTION).iter().flat_map(|line| list_members(line.as_bytes())).collect();
    let mut headers = HeaderMap::with_capacity(from.len() + 6);
    headers.insert(AGE, HeaderValue::from_static("0"));
    // The members of caches nearer to the origin stay, before this one (RFC 9211, section 2).
    if from.get(CACHE_STATUS).is_none_or(HeaderValue::is_empty) {
        headers.insert(CACHE_STATUS, HeaderValue::from_static(""));
    }
    for (name, value) in from {
        let is_connection_option =
            connection_options.iter().any(|other| other.eq_ignore_ascii_case(name.as_str().as_bytes()));
        let is_placeholder = name == AGE || (name == CACHE_STATUS && value.is_empty());
        if !is_connection_option && !HOP_BY_HOP.contains(name) && !is_placeholder {
            headers.append(name, value.clone());
        }
    }
    let mut values = GeneratedValues::new();
    if !headers.contains_key(DATE) {
        headers.insert(DATE, values.add(format_args!("{}", HttpDate::from(SystemTime::now()))));
    }
    if let StoredBody::Complete(chunks) = body {
        headers.insert(CONTENT_LENGTH, values.add(format_args!("{}", chunks.len())));
        if !headers.contains_key(ETAG) {
            headers.insert(ETAG, values.add_etag(chunks.hash()));
        }
        if !headers.contains_key(ACCEPT_RANGES) {
            headers.insert(ACCEPT_RANGES, HeaderValue::from_static("bytes"));
        }
    }
    headers
}

/// Field values in one allocation: each copy of the header map shares it.
struct GeneratedValues(BytesMut);

impl GeneratedValues {
    /// With room for a date, an `ETag` and a length.
    fn new() -> GeneratedValues {
        GeneratedValues(BytesMut::with_capacity(96))
    }

    fn add(&mut self, value: fmt::Arguments<'_>) -> HeaderValue {
        self.0.write_fmt(value).expect("a buffer in memory grows");
        HeaderValue::from_maybe_shared(self.0.split().freeze())
            .expect("dates, hashes and numbers are visible ASCII")
    }

    fn add_etag(&mut self, hash: u128) -> HeaderValue {
        let (high, low) = ((hash >> 64) as u64, hash as u64);
        self.add(format_args!("\"{high:016x}{low:016x}\""))
    }
}

/// How long a hash may wait for a thread and take there.
const MAX_HASH_WAIT: Duration = Duration::from_millis(250);

/// The generated `ETag` of a long body: to hash it takes milliseconds, in which others need this thread. If there is no
/// other thread soon, it is made here.
pub(crate) async fn etag_made_elsewhere(body: &Chunks) -> HeaderValue {
    let elsewhere = body.clone();
    let mut hashing = spawn_blocking(move || elsewhere.hash());
    let hash = match timeout(MAX_HASH_WAIT, &mut hashing).await {
        Ok(Ok(hash)) => hash,
        // All threads are busy, or the runtime is shutting down.
        Ok(Err(_)) | Err(_) => {
            hashing.abort();
            body.hash()
        }
    };
    GeneratedValues::new().add_etag(hash)
}

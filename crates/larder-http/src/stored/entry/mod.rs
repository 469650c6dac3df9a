//! A stored response: its status, its header fields, and its body, which may still be filled. How long it is fresh, and when it
//! must be refreshed.
//!
//! - [`replay`]: what a request gets of it. [`replayed_fields`]: the header fields that it has.
//! - [`later_use`]: what it is good for once it may not be served as it is.

mod later_use;
mod replay;
mod replayed_fields;

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

#[cfg(feature = "axum")]
use axum::extract::MatchedPath;
#[cfg(feature = "compression")]
use http::HeaderValue;
#[cfg(feature = "compression")]
use http::header::{ACCEPT_ENCODING, CONTENT_ENCODING, CONTENT_LENGTH, ETAG, VARY};
use http::{HeaderMap, StatusCode};

#[cfg(feature = "shared")]
use crate::headers::control::Directives;
use crate::policy::labels::Labels;
use crate::policy::plan::{LaterUse, Plan};
use crate::policy::scope::Scope;
use crate::status::Outcome;
use crate::stored::buffer::FillBuffer;
use crate::stored::chunks::Chunks;
use crate::stored::copy::EntryCopy;
#[cfg(feature = "compression")]
use crate::stored::encoding::{self, Siblings};
use crate::stored::private::Share;
use crate::stored::purge::{PurgeKey, PurgeStamp, Purges};
use crate::stored::record::VaryRecord;
pub(crate) use later_use::OriginFailure;
pub(crate) use replay::{ReplayRequest, add_cache_status, answer};
pub(crate) use replayed_fields::etag_made_elsewhere;
use replayed_fields::{headers_bytes, stored_headers};

/// If a refresh has not completed after this time, another one may start.
const REFRESH_TIMEOUT_MS: u64 = 10_000;

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

    /// It was softly purged then. A record only selects variants, which are checked each.
    pub(crate) fn mark_stale_since(&self, since_ms: u64) {
        if let StoreValue::Response(stored) = self {
            stored.mark_stale_since(since_ms);
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
    /// Until when it may be served stale after that.
    stale_until_ms: AtomicU64,
    /// How long it may be served stale after its time to live, or after a soft purge.
    grace_ms: u64,
    is_softly_purged: AtomicBool,
    later: Option<Box<LaterUse>>,
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
        let (ttl_ms, grace_ms) = (plan.ttl.as_millis() as u64, plan.grace.as_millis() as u64);
        let fresh_until_ms = now_ms + ttl_ms;
        let later = plan.later.clone();
        let headers = stored_headers(headers, &plan.unstored_fields, &body);
        StoredResponse {
            status,
            bytes: size_of::<Self>()
                + later.as_deref().map_or(0, size_of_val)
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
            fresh_until_ms: AtomicU64::new(fresh_until_ms),
            stale_until_ms: AtomicU64::new(fresh_until_ms + grace_ms),
            grace_ms,
            is_softly_purged: AtomicBool::new(false),
            later,
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

    /// Whether no hard purge of its tags covers it. A soft one marks it as stale.
    pub(crate) fn tags_are_unpurged(&self, purges: &Purges) -> bool {
        purges.tags_are_unpurged(&self.stamp, &self.tags, |since_ms| self.mark_stale_since(since_ms))
    }

    /// Whether no hard purge covers it, as the response of `resource`. A soft one marks it as stale.
    pub(crate) fn is_unpurged(&self, purges: &Purges, resource: &[u8]) -> bool {
        let mark = |since_ms| self.mark_stale_since(since_ms);
        purges.is_unpurged(&self.stamp, resource, mark) && self.tags_are_unpurged(purges)
    }

    /// It was softly purged then: it is stale from that moment on, and its grace period begins there.
    pub(crate) fn mark_stale_since(&self, since_ms: u64) {
        self.end_freshness(since_ms);
        self.is_softly_purged.store(true, Ordering::Relaxed);
    }

    fn end_freshness(&self, at_ms: u64) {
        self.fresh_until_ms.fetch_min(at_ms, Ordering::Relaxed);
        self.stale_until_ms.fetch_min(at_ms + self.grace_ms, Ordering::Relaxed);
    }

    /// Whether a soft purge has left it nothing for which it may be served as it is.
    pub(crate) fn is_ended_by_purge(&self, now_ms: u64) -> bool {
        self.is_softly_purged.load(Ordering::Relaxed) && self.is_expired(now_ms)
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

    /// How long it may still be served stale after its time to live, in milliseconds.
    pub(crate) fn stale_ms(&self, now_ms: u64) -> u64 {
        let begins_at = self.fresh_until_ms.load(Ordering::Relaxed).max(now_ms);
        self.stale_until_ms.load(Ordering::Relaxed).saturating_sub(begins_at)
    }

    /// Whether it may not be served any more as it is. The engine keeps it longer: for its later use, and because it counts from
    /// when it was stored, and its clock advances in steps.
    pub(crate) fn is_expired(&self, now_ms: u64) -> bool {
        self.ttl_ms(now_ms) == 0 && self.stale_until_ms.load(Ordering::Relaxed) <= now_ms
    }

    /// Whether it may be served after its TTL at all.
    fn serves_stale(&self) -> bool {
        self.stale_until_ms.load(Ordering::Relaxed) > self.fresh_until_ms.load(Ordering::Relaxed)
    }

    /// The outcome of a request that is answered with this response, after a lookup that found it not expired: if
    /// it is never served stale, it is a hit also if its time has ended since.
    pub(crate) fn outcome(&self, now_ms: u64) -> Outcome {
        match self.ttl_ms(now_ms) {
            0 if self.serves_stale() => self.stale_outcome(now_ms),
            remaining => Outcome::Hit { ttl: remaining / 1000 },
        }
    }

    /// The outcome of a request that gets this response although it is stale.
    pub(crate) fn stale_outcome(&self, now_ms: u64) -> Outcome {
        let fresh_until_ms = self.fresh_until_ms.load(Ordering::Relaxed);
        Outcome::Stale { over: now_ms.saturating_sub(fresh_until_ms) / 1000 }
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

    /// The stored headers, without what encoded siblings have added: who stores them again adds it again.
    pub(crate) fn headers_without_siblings(&self) -> HeaderMap {
        #[cfg_attr(not(feature = "compression"), expect(unused_mut, reason = "there are no siblings"))]
        let mut headers = self.headers.clone();
        #[cfg(feature = "compression")]
        if self.siblings.is_some() {
            let mut lines: Vec<_> = headers.get_all(VARY).iter().cloned().collect();
            lines.pop();
            headers.remove(VARY);
            lines.into_iter().for_each(|line| _ = headers.append(VARY, line));
        }
        headers
    }

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
}

/// Responses as bytes.
#[cfg(any(feature = "disk", feature = "shared"))]
impl StoredResponse {
    pub(crate) fn initial_age_ms(&self) -> u64 {
        self.initial_age_ms
    }
}

/// Responses on disk.
#[cfg(feature = "disk")]
impl StoredResponse {
    /// When its handler has replied, in milliseconds.
    pub(crate) fn created_at_ms(&self) -> u64 {
        self.created_at_ms
    }

    /// Its time to live and its grace period, from the reply of its handler on, and its use after that.
    pub(crate) fn times(&self) -> (Duration, Duration, Option<LaterUse>) {
        let fresh_until_ms = self.fresh_until_ms.load(Ordering::Relaxed);
        let grace_ms = self.stale_until_ms.load(Ordering::Relaxed).saturating_sub(fresh_until_ms);
        let ttl_ms = fresh_until_ms.saturating_sub(self.created_at_ms);
        (Duration::from_millis(ttl_ms), Duration::from_millis(grace_ms), self.later.as_deref().copied())
    }

    /// How much longer it may be of use, in milliseconds.
    pub(crate) fn useful_ms(&self, now_ms: u64) -> u64 {
        let served_ms = self.stale_until_ms.load(Ordering::Relaxed).saturating_sub(now_ms);
        self.ttl_ms(now_ms).max(served_ms).max(self.kept_ms(now_ms))
    }
}

/// Responses that replicas share.
#[cfg(feature = "shared")]
impl StoredResponse {
    /// Whether the response may be served stale at all: a refresh of a guarded one would have no credentials.
    pub(crate) fn may_be_stale(&self) -> bool {
        self.scope < Some(Scope::Gated) && !Directives::parse(&self.headers).must_revalidate
    }

    /// Other replicas allow the response only as a stale one.
    pub(crate) fn mark_stale(&self, now_ms: u64, purges: &Purges) {
        /// The clock of the copy is not quite that of the store.
        const CLOCKS_DIFFER_MS: u64 = 1_000;
        let ttl_ms = self.ttl_ms(now_ms);
        if ttl_ms == 0 {
            return;
        }
        let tags = self.copy().into_iter().flat_map(EntryCopy::tags);
        let keys = tags.map(|tag| purges.purge_key(tag.as_bytes()));
        match purges.soft_purge_since(keys, self.created_at_ms) {
            Some(since_ms) => self.mark_stale_since(since_ms.min(now_ms)),
            None if ttl_ms <= CLOCKS_DIFFER_MS => self.end_freshness(now_ms),
            // Its copy ends with its grace period, which has begun at the purge.
            None if !self.is_of_origin() => _ = self.fresh_until_ms.fetch_min(now_ms, Ordering::Relaxed),
            // Nobody knows how much of its grace period is left.
            None => {
                self.stale_until_ms.fetch_min(now_ms, Ordering::Relaxed);
                self.mark_stale_since(now_ms);
            }
        }
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
            stale_until_ms: AtomicU64::new(self.stale_until_ms.load(Ordering::Relaxed)),
            grace_ms: self.grace_ms,
            is_softly_purged: AtomicBool::new(false),
            later: None,
            next_refresh_ms: AtomicU64::new(0),
            copy: None,
            siblings: None,
        }
    }
}

fn names_bytes(names: &[Box<str>]) -> usize {
    size_of_val(names) + names.iter().map(|name| name.len()).sum::<usize>()
}

//! What a response is good for after its grace period: the origin may validate it, and it may be served if the origin fails
//! (RFC 9111, 4.2.4 and 4.3; RFC 5861, 4). And what it is good for to a client that states its own terms.

use std::sync::atomic::Ordering;
use std::time::Duration;

use http::header::{COOKIE, ETAG};
use http::{HeaderMap, HeaderValue, StatusCode};

use super::StoredResponse;
use crate::policy::scope::Scope;
use crate::rfc::directives::RequestDirectives;
use crate::rfc::requesting::{Stored, Use};
use crate::rfc::validation::{self, HeadMatch};

/// How long a response is served stale without asking the origin again, once that has failed.
const PAUSE_MS: u64 = 1_000;

/// How an origin failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OriginFailure {
    /// It replied with a status that stands for a failure.
    ErrorStatus,
    /// It could not be reached, or its reply ended early.
    Unreachable,
}

impl StoredResponse {
    /// How much longer a fill can use it, in milliseconds.
    pub(crate) fn kept_ms(&self, now_ms: u64) -> u64 {
        let kept_ms = self.later.as_ref().map_or(0, |later| later.kept.as_millis() as u64);
        (self.fresh_until_ms.load(Ordering::Relaxed) + kept_ms).saturating_sub(now_ms)
    }

    /// Whether a fill has put it back after this time, because it could neither validate nor replace it.
    pub(crate) fn is_leftover(&self, since_ms: u64, now_ms: u64) -> bool {
        self.is_expired(now_ms) && self.created_at_ms < since_ms
    }

    /// Whether each use needs a validation, from the beginning.
    #[cfg(feature = "shared")]
    pub(crate) fn is_never_fresh(&self) -> bool {
        !self.is_softly_purged.load(Ordering::Relaxed)
            && self.fresh_until_ms.load(Ordering::Relaxed) <= self.created_at_ms
    }

    /// Whether its origin decides, and not its handler, who is asked for complete responses only.
    pub(crate) fn is_of_origin(&self) -> bool {
        self.later.is_some()
    }

    /// The `ETag` by which the origin can validate the response; not one that the cache has made.
    pub(crate) fn own_etag(&self) -> Option<&HeaderValue> {
        let is_own = self.later.as_ref().is_some_and(|later| later.has_own_etag);
        self.headers.get(ETAG).filter(|_| is_own)
    }

    /// Whether a 304 is about this response.
    pub(crate) fn is_selected(&self, from_304: &HeaderMap) -> bool {
        validation::is_selected(self.own_etag(), &self.headers, from_304)
    }

    /// What the response to a HEAD, a 200, is about.
    pub(crate) fn match_head(&self, head: &HeaderMap) -> HeadMatch {
        match self.complete_body() {
            Some(body) if self.status() == StatusCode::OK => {
                validation::match_head(self.own_etag(), &self.headers, body.len(), head)
            }
            _ => HeadMatch::Other,
        }
    }

    /// Whether its freshness is an estimate. What an origin says nothing about may be another thing for a request with cookies.
    pub(crate) fn is_estimated(&self) -> bool {
        self.later.as_ref().is_some_and(|later| later.is_heuristic)
    }

    /// What to do with the response for a client with these directives.
    pub(crate) fn use_for(&self, directives: &RequestDirectives, now_ms: u64) -> Use {
        self.at(now_ms).use_for(directives)
    }

    /// What to do with the response for a client with these fields, under the profile `rfc`.
    pub(crate) fn use_for_request(&self, request: &HeaderMap, now_ms: u64) -> Use {
        if self.scope >= Some(Scope::Gated) {
            // Its validation would not have the credentials that the gate has judged.
            return Use::Serve;
        }
        match self.use_for(&RequestDirectives::parse(request), now_ms) {
            Use::Serve | Use::ServeAndValidate if self.is_estimated() && request.contains_key(COOKIE) => {
                Use::Validate
            }
            usable => usable,
        }
    }

    /// Whether the response may be served because its origin has failed so. If it may, it is served stale for a moment from now
    /// on: not every request must wait for an origin that is down.
    pub(crate) fn serve_stale_on(
        &self,
        failure: OriginFailure,
        directives: &RequestDirectives,
        now_ms: u64,
    ) -> bool {
        let stored = self.at(now_ms);
        let staleness = stored.age.saturating_sub(stored.lifetime);
        let if_unreachable = self.later.as_ref().map_or(Duration::ZERO, |later| later.if_unreachable);
        let may_serve = stored.is_served_on_error(directives)
            || (failure == OriginFailure::Unreachable && !directives.no_cache && staleness < if_unreachable);
        if may_serve {
            self.stale_until_ms.fetch_max(now_ms + PAUSE_MS, Ordering::Relaxed);
        }
        may_serve
    }

    fn at(&self, now_ms: u64) -> Stored {
        let (age, fresh_until_ms) = (self.age_ms(now_ms), self.fresh_until_ms.load(Ordering::Relaxed));
        let stale_until_ms = self.stale_until_ms.load(Ordering::Relaxed);
        let lifetime = (age + fresh_until_ms.saturating_sub(now_ms))
            .saturating_sub(now_ms.saturating_sub(fresh_until_ms));
        let later = self.later.as_deref().copied().unwrap_or_default();
        Stored {
            age: Duration::from_millis(age),
            lifetime: Duration::from_millis(lifetime),
            stale_while_revalidate: Duration::from_millis(stale_until_ms.saturating_sub(fresh_until_ms)),
            stale_if_error: later.on_error,
            may_be_stale: !later.if_unreachable.is_zero(),
            // It was stored with no lifetime then.
            must_validate: false,
            is_immutable: later.is_immutable,
        }
    }
}

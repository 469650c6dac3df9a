//! What the cache would do with a request, for tools that explain it. Nothing is served, loaded or counted.

use std::sync::Arc;
use std::time::Duration;

use http::{HeaderName, Request, StatusCode};

use crate::key::{self, Key, RequestKey};
use crate::policy::scope::Scope;
use crate::request::traits::RequestTraits;
use crate::shared::{Permits, Verdict};
use crate::status::Reason;
use crate::store::HttpCache;
use crate::store::core::CacheCore;
use crate::stored::entry::{StoreValue, StoredResponse};

/// The entry that the cache has for a request at one moment; see [`HttpCache::inspect`].
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Inspection {
    /// The reason why the request bypasses the cache. Nothing else is known then.
    pub bypass: Option<Reason>,
    /// The header fields that select a variant; empty if the resource is not known to vary.
    pub vary: Vec<HeaderName>,
    /// The scope of the resource, if it is known. From [`Scope::Gated`] on the gate judges each request.
    pub scope: Option<Scope>,
    /// The stored response. That of a principal is not looked up.
    pub response: Option<ResponseInspection>,
    /// Whether a response is still in memory that was purged, and is not served any more.
    pub is_purged: bool,
    /// Whether the last response could not be stored or was too slow, so that requests do not wait for each other.
    pub is_hit_for_miss: bool,
}

/// A stored response at one moment.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ResponseInspection {
    /// Its status.
    pub status: StatusCode,
    /// The time since the origin made it.
    pub age: Duration,
    /// The rest of its time to live; zero once it is stale.
    pub ttl: Duration,
    /// The rest of the time after that in which it may still be served stale.
    pub grace: Duration,
    /// Whether it may not be served any more as it is: a request lets the origin validate it.
    pub is_expired: bool,
    /// Its tags.
    pub tags: Vec<String>,
    /// Its bytes.
    pub bytes: usize,
    /// Whether its body is still being received; requests follow it.
    pub is_filling: bool,
}

impl HttpCache {
    /// The present answer of the cache to this request, without a body rule. It asks no Redis, runs no handler, and changes
    /// neither policy nor counters.
    ///
    /// Cost: up to two lookups in memory.
    pub fn inspect<B: http_body::Body>(&self, request: &Request<B>) -> Inspection {
        let core = self.core();
        let bypass = |reason| Inspection { bypass: Some(reason), ..Inspection::default() };
        let traits = match RequestTraits::parse(request, &core.rules.personal, false) {
            Ok(traits) => traits,
            Err(reason) => return bypass(reason),
        };
        let inspection = core.inspect(RequestKey::new(request, &None)).unwrap_or_else(bypass);
        match traits.credentials.filter(|_| inspection.response.is_some() && inspection.scope.is_none()) {
            Some(reason) => bypass(reason),
            None => inspection,
        }
    }
}

impl CacheCore {
    fn inspect(&self, request: RequestKey<'_>) -> Result<Inspection, Reason> {
        let resource = key::with_key_buffer(|key| {
            request.write(key, &self.key_space)?;
            Ok(Key::new(key))
        })?;
        let mut inspection = Inspection::default();
        let location = self.location_of(request)?;
        inspection.is_hit_for_miss =
            self.store.hit_for_miss.contains(&self.store.hit_for_miss_key(&location));
        let Some(found) = self.peek(&resource) else { return Ok(inspection) };
        let mark = |since_ms| found.mark_stale_since(since_ms);
        if !self.store.purges.is_unpurged(found.stamp(), resource.as_bytes(), mark) {
            inspection.is_purged = true;
            return Ok(inspection);
        }
        let response = match found {
            StoreValue::Varies(record) => {
                inspection.vary = record.fields().to_vec();
                inspection.scope = record.scope();
                self.peek(location.key())
            }
            response => Some(response),
        };
        if let Some(StoreValue::Response(stored)) = response {
            inspection.scope = stored.scope.or(inspection.scope);
            inspection.is_purged = !stored.is_unpurged(&self.store.purges, resource.as_bytes());
            inspection.response = (!inspection.is_purged).then(|| self.response_inspection(&stored));
        }
        Ok(inspection)
    }

    /// An entry without an effect on the policy; none that another replica has invalidated.
    fn peek(&self, key: &Key) -> Option<StoreValue> {
        let found = self.store.entries.peek_with(key.as_bytes(), |entry| entry.value().clone())?;
        if self.store.verdict(&found, Permits::default()) == Verdict::Dead {
            return None;
        }
        Some(found)
    }

    fn response_inspection(&self, stored: &Arc<StoredResponse>) -> ResponseInspection {
        let now = self.store.entries.now_ms();
        let ttl = Duration::from_millis(stored.ttl_ms(now));
        ResponseInspection {
            status: stored.status(),
            age: Duration::from_millis(stored.age_ms(now)),
            ttl,
            grace: Duration::from_millis(stored.stale_ms(now)),
            is_expired: stored.is_expired(now),
            tags: stored.tag_names(|tag| self.store.is_of_handler(tag)).map(str::to_owned).collect(),
            bytes: stored.bytes(),
            is_filling: stored.is_filling(),
        }
    }
}

//! The lookup of a response: by the key of its resource, then by that of its variant, after the gate has judged the request if
//! the resource is guarded.
//!
//! ```text
//! key ──► record: scope, Vary ──► gate ──► key with the principal and the values of Vary ──► response
//! ```

use std::sync::Arc;
use std::sync::atomic::Ordering;

use http::{HeaderMap, Request};

use crate::key::{self, Key, RequestKey};
use crate::policy::gate::Requester;
use crate::shared::{Asked, Permits, Unverified, Verdict};
use crate::status::Reason;
use crate::store::HttpCache;
use crate::store::core::CacheCore;
use crate::store::location::StoreLocation;
use crate::stored::entry::{StoreValue, StoredResponse};
use crate::stored::record::VaryRecord;

/// The result of a lookup.
pub(crate) enum Lookup {
    Found(Arc<StoredResponse>),
    /// The gate must be asked first.
    Guarded(Guarded),
    Missing(StoreLocation),
    /// The entry must be compared with Redis before it is used.
    Unverified(Unverified),
}

/// A resource whose responses are guarded: only the gate tells which of them a request may have.
#[derive(Debug)]
pub(crate) struct Guarded {
    pub(crate) resource: Key,
    pub(crate) record: Arc<VaryRecord>,
}

impl CacheCore {
    /// Looks up the response to a request. Removes it if it was purged.
    ///
    /// # Errors
    /// Why the request has no key.
    pub(crate) fn look_up(&self, request: RequestKey<'_>) -> Result<Lookup, Reason> {
        self.look_up_with(request, Permits::default())
    }

    /// The same, for a request that may get more.
    pub(crate) fn look_up_with(
        &self,
        request: RequestKey<'_>,
        permits: Permits<'_>,
    ) -> Result<Lookup, Reason> {
        // Before its handler runs.
        if request.is_rewritten() && !self.has_seen_rewritten.load(Ordering::Relaxed) {
            self.has_seen_rewritten.store(true, Ordering::SeqCst);
        }
        key::with_key_buffer(|key| {
            request.write(key, &self.key_space)?;
            self.look_up_key(key, request.headers, permits)
        })
    }

    fn look_up_key(
        &self,
        key: &mut Vec<u8>,
        headers: &HeaderMap,
        permits: Permits<'_>,
    ) -> Result<Lookup, Reason> {
        let missing_but = |key: &[u8], expired| {
            Ok(Lookup::Missing(StoreLocation { resource: Key::new(key), variant: None, expired }))
        };
        let missing = |key: &[u8]| missing_but(key, None);
        let Some(value) = self.store.entries.get(key.as_slice()) else { return missing(key) };
        let mark = |since_ms| value.mark_stale_since(since_ms);
        if !self.store.purges.is_unpurged(value.stamp(), key, mark) {
            self.remove_purged(Key::new(key), &value);
            return missing(key);
        }
        match self.store.verdict(&value, permits) {
            Verdict::Unknown if self.store.serves_waiting_requests_only() => {
                self.store.remove_if_same(Key::new(key), &value);
                return missing(key);
            }
            Verdict::Unknown => return Ok(Lookup::Unverified(Unverified { key: Key::new(key), value })),
            Verdict::Dead => {
                self.remove_purged(Key::new(key), &value);
                return missing(key);
            }
            Verdict::Usable => {}
        }
        let record = match value {
            StoreValue::Response(stored) if !stored.tags_are_unpurged(&self.store.purges) => {
                self.remove_purged(Key::new(key), &StoreValue::Response(stored));
                return missing(key);
            }
            StoreValue::Response(stored) if stored.is_expired(self.store.entries.now_ms()) => {
                let expired = self.keep_expired(key, stored);
                return missing_but(key, expired);
            }
            StoreValue::Response(stored) => return Ok(Lookup::Found(stored)),
            StoreValue::Varies(record) => record,
        };
        if record.is_guarded() {
            return Ok(Lookup::Guarded(Guarded { resource: Key::new(key), record }));
        }
        self.look_up_variant(key, &record, None, headers, permits)
    }

    /// Looks up the response to a request that the gate has judged, from its resource again: that may have been purged
    /// meanwhile.
    ///
    /// # Errors
    /// Why this client gets nothing from the cache; `VariantTooLong`.
    pub(crate) fn look_up_guarded(
        &self,
        guarded: &Guarded,
        requester: &Requester,
        headers: &HeaderMap,
        permits: Permits<'_>,
    ) -> Result<Lookup, Reason> {
        key::with_key_buffer(|key| {
            key.extend_from_slice(guarded.resource.as_bytes());
            match self.look_up_key(key, headers, permits)? {
                Lookup::Guarded(Guarded { record, .. }) => {
                    requester.check(record.scope())?;
                    self.look_up_variant(key, &record, requester.principal(), headers, permits)
                }
                found => Ok(found),
            }
        })
    }

    /// `key` is that of the resource.
    fn look_up_variant(
        &self,
        key: &mut Vec<u8>,
        record: &Arc<VaryRecord>,
        principal: Option<&str>,
        headers: &HeaderMap,
        permits: Permits<'_>,
    ) -> Result<Lookup, Reason> {
        let end = key.len();
        record.write_key(key, principal, headers)?;
        let (resource, variant) = key.split_at(end);
        let found = self.store.entries.get(variant);
        let found = match found.map(|value| (self.store.verdict(&value, permits), value)) {
            Some((Verdict::Unknown, value)) if self.store.serves_waiting_requests_only() => {
                self.store.remove_if_same(Key::new(variant), &value);
                None
            }
            Some((Verdict::Unknown, value)) => {
                return Ok(Lookup::Unverified(Unverified { key: Key::new(variant), value }));
            }
            Some((Verdict::Dead, value)) => {
                self.remove_purged(Key::new(variant), &value);
                None
            }
            found => found.map(|(_, value)| value),
        };
        let expired = match found {
            // A purge of its resource that was soft has left the record, which was checked before.
            Some(StoreValue::Response(stored)) if stored.is_unpurged(&self.store.purges, resource) => {
                if !stored.is_expired(self.store.entries.now_ms()) {
                    return Ok(Lookup::Found(stored));
                }
                self.keep_expired(variant, stored)
            }
            Some(value) => {
                self.remove_purged(Key::new(variant), &value);
                None
            }
            None => None,
        };
        let variant = Some((record.clone(), Key::new(variant)));
        Ok(Lookup::Missing(StoreLocation { resource: Key::new(resource), variant, expired }))
    }

    /// A response that may not be served as it is, if a fill can use it. Removes it otherwise.
    fn keep_expired(&self, key: &[u8], stored: Arc<StoredResponse>) -> Option<Arc<StoredResponse>> {
        if !stored.is_filling() && stored.kept_ms(self.store.entries.now_ms()) > 0 {
            return Some(stored);
        }
        self.store.remove_if_same(Key::new(key), &StoreValue::Response(stored));
        None
    }

    /// Does a lookup, again and again in a shared cache, until every entry that must be compared with Redis was.
    ///
    /// # Errors
    /// Those of the lookup.
    pub(crate) async fn look_up_verified(
        &self,
        asked: Asked,
        look_up: impl Fn(Permits<'_>) -> Result<Lookup, Reason>,
    ) -> Result<Lookup, Reason> {
        let mut verified = Vec::new();
        loop {
            match look_up(Permits { verified: &verified, asked })? {
                // What was compared is valid for this request, also while this replica hears of no purges.
                Lookup::Unverified(entry) if self.store.verify(&entry).await => verified.push(entry.value),
                Lookup::Unverified(Unverified { key, value }) => self.store.remove_if_same(key, &value),
                known => return Ok(known),
            }
        }
    }

    /// The response of a fill at this location, for a request that has followed it; none that was purged meanwhile.
    pub(crate) fn valid_response(
        &self,
        location: &StoreLocation,
        value: StoreValue,
        asked: Asked,
    ) -> Option<Arc<StoredResponse>> {
        if self.store.verdict(&value, Permits { verified: &[], asked }) != Verdict::Usable {
            return None;
        }
        match value {
            StoreValue::Response(stored) => {
                let is_unpurged = stored.is_unpurged(&self.store.purges, location.resource.as_bytes());
                let is_of_use = is_unpurged && !stored.is_ended_by_purge(self.store.entries.now_ms());
                is_of_use.then_some(stored)
            }
            StoreValue::Varies(_) => None,
        }
    }

    /// Where the response to a request is stored now, if it is not private. A refresh needs it, a hit does not.
    pub(crate) fn location_of(&self, request: RequestKey<'_>) -> Result<StoreLocation, Reason> {
        key::with_key_buffer(|key| {
            request.write(key, &self.key_space)?;
            let resource = Key::new(key);
            let variant = match self.store.entries.peek(key.as_slice()) {
                Some(StoreValue::Varies(record)) => {
                    key.clear();
                    record.write_key(key, None, request.headers)?;
                    Some((record, Key::new(key)))
                }
                _ => None,
            };
            Ok(StoreLocation { resource, variant, expired: None })
        })
    }
}

/// Asks the gate, then looks up the response that the request may have. Returns the request.
///
/// # Errors
/// Why the request gets nothing from the cache.
pub(crate) async fn ask_gate<B>(
    cache: &HttpCache,
    request: Request<B>,
    guarded: Guarded,
    requester: &mut Requester,
    asked: Asked,
) -> (Request<B>, Result<Lookup, Reason>) {
    let core = cache.core();
    let request = requester.ask(&core.gate, request).await;
    let headers = request.headers();
    let look_up = |permits: Permits<'_>| core.look_up_guarded(&guarded, requester, headers, permits);
    let found = core.look_up_verified(asked, look_up).await;
    (request, found)
}

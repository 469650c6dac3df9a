//! The handle of a cache: its state, lookups and purges.

pub(crate) mod gate;
pub(crate) mod inspect;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use http::{HeaderMap, StatusCode, Uri};
#[cfg(feature = "shared")]
use larder::Validity;
use larder_engine::fork::Process;
use larder_engine::{Cache, Op, Ttl};

use crate::key::{self, Key, KeySpace, RequestKey};
use crate::policy::handler_fields::HandlerFields;
use crate::request::traits::PersonalTraits;
#[cfg(feature = "shared")]
use crate::shared::{SharedStore, Unverified};
use crate::stats::{Counters, Stats};
use crate::status::Reason;
use crate::store::gate::{Gate, Guarded, Requester, Scope};
#[cfg(feature = "compression")]
use crate::stored::encoding::Codings;
use crate::stored::entry::{StoreValue, StoredResponse};
use crate::stored::memory::BodyMemory;
use crate::stored::private::PrivateShares;
use crate::stored::purge::{PurgeKey, Purges};
use crate::stored::vary::VaryRecord;

/// A cache of HTTP responses. Clones share the same cache.
///
/// Make the [`layer`](HttpCache::layer) the outermost around a whole router, and keep a clone for purging:
///
/// ```
/// use larder_http::HttpCache;
///
/// let cache = HttpCache::builder().max_bytes(256 << 20).build()?;
/// let layer = cache.layer();
/// cache.purge_tag("products");
/// cache.purge_uri("http://shop.example/products?page=2")?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct HttpCache(Arc<CacheCore>);

/// One cache: its own options and counters, and handles of what it shares with the other views of its store.
#[derive(Debug)]
pub(crate) struct CacheCore {
    pub(crate) store: Cache<Key, StoreValue>,
    /// The hit-for-miss keys: their last response could not be stored or was too slow, so for a few seconds their
    /// requests do not wait for each other.
    pub(crate) hit_for_miss: Cache<PurgeKey, ()>,
    /// What is known of resources without a stored response: that the last one was public, if they have no record that tells
    /// it, and that a complete body may be stored for a range.
    pub(crate) known_resources: Cache<PurgeKey, ()>,
    pub(crate) purges: Arc<Purges>,
    /// The number of running fills without a ticket.
    pub(crate) unticketed_fills: Arc<AtomicUsize>,
    /// Whether a request was rewritten: its response is stored under another key than that of its URI.
    pub(crate) has_seen_rewritten: AtomicBool,
    pub(crate) counters: Counters,
    pub(crate) max_body_bytes: usize,
    pub(crate) memory: Arc<BodyMemory>,
    /// The number of requests that wait for the fill of another one.
    pub(crate) waiters: Arc<AtomicUsize>,
    pub(crate) max_waiters: usize,
    /// The number of running fills.
    pub(crate) running_fills: Arc<AtomicUsize>,
    pub(crate) max_fills: usize,
    /// The process that built the cache.
    pub(crate) process: Process,
    pub(crate) cached_errors: Vec<StatusCode>,
    /// A response may be fresh for longer than the values that its handler has got.
    pub(crate) outlives_values: bool,
    pub(crate) personal: PersonalTraits,
    pub(crate) handler_fields: HandlerFields,
    pub(crate) gate: Option<Gate>,
    pub(crate) gate_timeout: Duration,
    pub(crate) private_shares: Arc<PrivateShares>,
    #[cfg(feature = "compression")]
    pub(crate) codings: Codings,
    pub(crate) key_space: KeySpace,
    pub(crate) wait_timeout: Duration,
    pub(crate) fill_timeout: Duration,
    /// What it shares with other replicas.
    #[cfg(feature = "shared")]
    pub(crate) shared: Option<Arc<SharedStore>>,
}

/// The result of a lookup.
pub(crate) enum Lookup {
    Found(Arc<StoredResponse>),
    /// The gate must be asked first.
    Guarded(Guarded),
    Missing(StoreLocation),
    /// The entry must be compared with Redis before it is used.
    #[cfg(feature = "shared")]
    Unverified(Unverified),
}

/// Where the response to a request is stored, or will be.
#[derive(Clone, Debug)]
pub(crate) struct StoreLocation {
    pub(crate) resource: Key,
    /// For a resource that varies or is guarded: its record, and the key of the variant that this request selects.
    pub(crate) variant: Option<(Arc<VaryRecord>, Key)>,
}

impl StoreLocation {
    pub(crate) fn key(&self) -> &Key {
        self.variant.as_ref().map_or(&self.resource, |(_, key)| key)
    }

    /// The scope of the resource, if its record tells.
    pub(crate) fn scope(&self) -> Option<Scope> {
        self.variant.as_ref().and_then(|(record, _)| record.scope())
    }

    /// Whether the gate must be asked before a response from here is served.
    pub(crate) fn is_guarded(&self) -> bool {
        self.scope() >= Some(Scope::Gated)
    }
}

/// When a request has asked that has waited since for the fill of another one. The default: it has not waited.
#[derive(Clone, Copy, Default)]
pub(crate) struct Asked {
    /// By what other replicas know, and on the clock of the store.
    #[cfg(feature = "shared")]
    pub(crate) at: Option<(larder::SharedMoment, Duration)>,
}

/// Entries that a request may get although this replica cannot prove now that they are valid.
#[derive(Clone, Copy, Default)]
#[cfg_attr(not(feature = "shared"), expect(dead_code, reason = "a cache that shares nothing needs no proof"))]
pub(crate) struct Permits<'a> {
    /// They were compared with Redis for it.
    pub(crate) verified: &'a [StoreValue],
    /// Those of fills that it could have followed.
    pub(crate) asked: Asked,
}

impl HttpCache {
    /// Purges one URI with all its variants, for every method and body; `uri` is absolute and includes the query.
    /// Returns whether a response to GET was stored.
    ///
    /// After any purge has returned, no response whose handler started before the purge is served or stored.
    ///
    /// # Errors
    /// [`PurgeError`] when `uri` is not an absolute HTTP URI.
    pub fn purge_uri(&self, uri: &str) -> Result<bool, PurgeError> {
        let uri = parse_absolute(uri)?;
        key::with_key_buffer(|key| {
            key::write_uri(key, &uri, &HeaderMap::new(), &self.0.key_space)
                .map_err(|reason| PurgeError::new(&uri.to_string(), reason.as_str()))?;
            Ok(self.purge_uri_key(key))
        })
    }

    /// Purges the responses with this tag, in all views of the store. Cost: one lock and a few writes, independent of the
    /// number of entries. The memory of a purged entry is freed when it is next looked up, expires or is evicted.
    pub fn purge_tag(&self, tag: &str) {
        self.0.counters.purges.add(1);
        self.0.purges.purge_by_key(self.0.purges.purge_key(tag.as_bytes()));
        #[cfg(feature = "shared")]
        if let Some(shared) = &self.0.shared {
            shared.spawn_purge_of_tag(tag);
        }
    }

    /// Purges the responses that are private to a principal, in all views of the store; for the end of a session or a
    /// changed role. The cost is that of [`HttpCache::purge_tag`].
    pub fn purge_principal(&self, principal: &str) {
        self.0.counters.purges.add(1);
        self.0.purges.purge_by_key(self.0.principal_key(principal));
    }

    /// Purges the resources whose URI starts with `prefix`, an absolute URI without a query; its path is compared
    /// by bytes, so `http://h/shop` covers `/shopping` too. The cost is that of [`HttpCache::purge_tag`].
    ///
    /// # Errors
    /// [`PurgeError`] when `prefix` is not an absolute HTTP URI, or has a query.
    pub fn purge_prefix(&self, prefix: &str) -> Result<(), PurgeError> {
        let uri = parse_absolute(prefix)?;
        if uri.query().is_some() {
            return Err(PurgeError::new(prefix, "a prefix has no query"));
        }
        let mut origin = Vec::new();
        let (scheme, authority) = (uri.scheme_str().unwrap_or_default(), uri.authority());
        let space = &self.0.key_space;
        key::write_origin(&mut origin, space, scheme, authority.map_or("", |authority| authority.as_str()))
            .map_err(|reason| PurgeError::new(prefix, reason.as_str()))?;
        self.0.counters.purges.add(1);
        self.0.purges.purge_prefix(&origin, uri.path().as_bytes());
        Ok(())
    }

    /// Purges everything, in all views of the store. Cost: proportional to the number of entries; locks one shard after another.
    pub fn purge_all(&self) {
        self.0.counters.purges.add(1);
        self.0.purges.purge_all();
        self.0.store.clear();
    }

    /// The counters of the cache, and its current size.
    pub fn stats(&self) -> Stats {
        self.0.counters.snapshot(&self.0.store.stats(), self.0.memory.charged())
    }

    pub(crate) fn from_core(core: CacheCore) -> HttpCache {
        HttpCache(Arc::new(core))
    }

    pub(crate) fn core(&self) -> &CacheCore {
        &self.0
    }

    fn purge_uri_key(&self, uri: &[u8]) -> bool {
        self.0.counters.purges.add(1);
        self.0.purges.purge_by_key(self.0.purges.purge_key(uri));
        self.0.store.remove(uri).is_some()
    }

    /// Invalidates the URI of an unsafe method. Unlike a purge, this is logged only if there may be something to
    /// invalidate: most targets of POST requests were never cached, and would fill the purge log.
    pub(crate) fn invalidate(&self, uri: &[u8], has_body_keys: bool) {
        // The removal also voids the ticket of a running fill. A fill without a ticket checks the purge log instead, and
        // so do responses that are stored under other keys: to requests with a body, or rewritten ones.
        let stored = self.0.store.remove(uri).is_some();
        let has_other_keys = has_body_keys || self.0.has_seen_rewritten.load(Ordering::SeqCst);
        if stored || has_other_keys || self.0.unticketed_fills.load(Ordering::SeqCst) > 0 {
            self.0.counters.purges.add(1);
            self.0.purges.purge_by_key(self.0.purges.purge_key(uri));
        }
        #[cfg(feature = "shared")]
        if let Some(shared) = &self.0.shared {
            shared.invalidate_uri(uri);
        }
    }
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
        let missing =
            |key: &[u8]| Ok(Lookup::Missing(StoreLocation { resource: Key::new(key), variant: None }));
        let Some(value) = self.store.get(key.as_slice()) else { return missing(key) };
        if !self.purges.is_unpurged(value.stamp(), key) {
            self.remove_purged(Key::new(key), &value);
            return missing(key);
        }
        #[cfg(feature = "shared")]
        match self.shared_validity(&value, permits) {
            Validity::Unknown if self.serves_waiting_requests_only() => {
                self.remove_if_same(Key::new(key), &value);
                return missing(key);
            }
            Validity::Unknown => return Ok(Lookup::Unverified(Unverified { key: Key::new(key), value })),
            Validity::Dead => {
                self.remove_purged(Key::new(key), &value);
                return missing(key);
            }
            Validity::Valid | Validity::Stale => {}
        }
        let record = match value {
            StoreValue::Response(stored) if !stored.tags_are_unpurged(&self.purges) => {
                self.remove_purged(Key::new(key), &StoreValue::Response(stored));
                return missing(key);
            }
            StoreValue::Response(stored) if stored.is_expired(|| self.store.now_ms()) => {
                self.remove_if_same(Key::new(key), &StoreValue::Response(stored));
                return missing(key);
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
    #[cfg_attr(not(feature = "shared"), expect(unused_variables, reason = "nothing is compared"))]
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
        let found = self.store.get(variant);
        #[cfg(feature = "shared")]
        let found = match found.map(|value| (self.shared_validity(&value, permits), value)) {
            Some((Validity::Unknown, value)) if self.serves_waiting_requests_only() => {
                self.remove_if_same(Key::new(variant), &value);
                None
            }
            Some((Validity::Unknown, value)) => {
                return Ok(Lookup::Unverified(Unverified { key: Key::new(variant), value }));
            }
            Some((Validity::Dead, value)) => {
                self.remove_purged(Key::new(variant), &value);
                None
            }
            found => found.map(|(_, value)| value),
        };
        match found {
            Some(StoreValue::Response(stored)) if stored.tags_are_unpurged(&self.purges) => {
                if !stored.is_expired(|| self.store.now_ms()) {
                    return Ok(Lookup::Found(stored));
                }
                self.remove_if_same(Key::new(variant), &StoreValue::Response(stored));
            }
            Some(value) => self.remove_purged(Key::new(variant), &value),
            None => {}
        }
        let variant = Some((record.clone(), Key::new(variant)));
        Ok(Lookup::Missing(StoreLocation { resource: Key::new(resource), variant }))
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
        #[cfg(feature = "shared")]
        {
            let mut verified = Vec::new();
            loop {
                match look_up(Permits { verified: &verified, asked })? {
                    // What was compared is valid for this request, also while this replica hears of no purges.
                    Lookup::Unverified(entry) if self.verify(&entry).await => verified.push(entry.value),
                    Lookup::Unverified(Unverified { key, value }) => self.remove_if_same(key, &value),
                    known => return Ok(known),
                }
            }
        }
        #[cfg(not(feature = "shared"))]
        look_up(Permits { verified: &[], asked })
    }

    /// The response of a fill at this location, for a request that has followed it; none that was purged meanwhile.
    #[cfg_attr(not(feature = "shared"), expect(unused_variables, reason = "every fill is of this replica"))]
    pub(crate) fn valid_response(
        &self,
        location: &StoreLocation,
        value: StoreValue,
        asked: Asked,
    ) -> Option<Arc<StoredResponse>> {
        #[cfg(feature = "shared")]
        let validity = self.shared_validity(&value, Permits { verified: &[], asked });
        #[cfg(feature = "shared")]
        if !matches!(validity, Validity::Valid | Validity::Stale) {
            return None;
        }
        match value {
            StoreValue::Response(stored) => {
                let is_unpurged = self.purges.is_unpurged(&stored.stamp, location.resource.as_bytes());
                (is_unpurged && stored.tags_are_unpurged(&self.purges)).then_some(stored)
            }
            StoreValue::Varies(_) => None,
        }
    }

    /// Where the response to a request is stored now, if it is not private. A refresh needs it, a hit does not.
    pub(crate) fn location_of(&self, request: RequestKey<'_>) -> Result<StoreLocation, Reason> {
        key::with_key_buffer(|key| {
            request.write(key, &self.key_space)?;
            let resource = Key::new(key);
            let variant = match self.store.peek(key.as_slice()) {
                Some(StoreValue::Varies(record)) => {
                    key.clear();
                    record.write_key(key, None, request.headers)?;
                    Some((record, Key::new(key)))
                }
                _ => None,
            };
            Ok(StoreLocation { resource, variant })
        })
    }

    /// The key of a location among those that are hit-for-miss. It is a hash: keys may be long, and if two are mistaken
    /// for each other, their requests only do not wait.
    pub(crate) fn hit_for_miss_key(&self, location: &StoreLocation) -> PurgeKey {
        self.purges.purge_key(location.key().as_bytes())
    }

    /// Remembers for a while that the response of a resource was guarded, and not stored for its requester.
    pub(crate) fn mark_guarded(&self, location: &StoreLocation) {
        self.hit_for_miss.insert(self.guarded_key(location), ());
    }

    /// Whether requests for this location should not wait for each other although each may store its response: the last
    /// one was guarded, and not stored for its requester. Its scope is unknown as long as it has no record.
    pub(crate) fn is_marked_guarded(&self, location: &StoreLocation) -> bool {
        location.variant.is_none() && self.hit_for_miss.contains(&self.guarded_key(location))
    }

    fn guarded_key(&self, location: &StoreLocation) -> PurgeKey {
        self.purges.purge_key(&[b"\xffguarded:", location.key().as_bytes()].concat())
    }

    /// Whether requests with credentials may lead and follow fills of this location: its last response had a scope.
    pub(crate) fn is_shared(&self, location: &StoreLocation) -> bool {
        location.scope().is_some()
            || (location.variant.is_none() && self.known_resources.contains(&self.hit_for_miss_key(location)))
    }

    /// Whether the handler may be asked for a complete body, because a request wants a range of it: such a body may be stored,
    /// and is not too long.
    pub(crate) fn may_fill_for_range(&self, location: &StoreLocation) -> bool {
        self.known_resources.contains(&self.range_key(location))
    }

    pub(crate) fn range_key(&self, location: &StoreLocation) -> PurgeKey {
        self.purges.purge_key(&[b"\xffranges:", location.resource.as_bytes()].concat())
    }

    /// The purge key of the private responses of a principal. No tag that is text has it.
    pub(crate) fn principal_key(&self, principal: &str) -> PurgeKey {
        self.purges.purge_key(&[b"\xffprincipal:", principal.as_bytes()].concat())
    }

    /// Stores a vary record again after a variant was added: with its new weight, and with a TTL that is no shorter than
    /// that of the variant.
    pub(crate) fn update_record(&self, resource: &Key, record: &Arc<VaryRecord>, ttl: Duration) {
        self.store.compute(resource.clone(), |present| match present {
            Some(entry) if matches!(entry.value(), StoreValue::Varies(current) if Arc::ptr_eq(current, record)) => {
                let ttl = entry.expires_in().map_or(ttl, |remaining| remaining.max(ttl));
                (Op::Put(StoreValue::Varies(record.clone()), Ttl::After(ttl)), ())
            }
            _ => (Op::Keep, ()),
        });
    }

    /// Stores an entry again because its weight has changed, unless its value was replaced meanwhile.
    #[cfg(feature = "compression")]
    pub(crate) fn update_weight(&self, key: &Key, value: &StoreValue) {
        self.store.compute(key.clone(), |present| match present {
            Some(entry) if entry.value().is_same(value) => (Op::Put(value.clone(), Ttl::Keep), ()),
            _ => (Op::Keep, ()),
        });
    }

    /// Removes an entry that a lookup found and must not serve.
    fn remove_purged(&self, key: Key, value: &StoreValue) {
        self.counters.purged_lookups.add(1);
        self.remove_if_same(key, value);
    }

    /// Removes the entry, unless its value was replaced meanwhile.
    pub(crate) fn remove_if_same(&self, key: Key, value: &StoreValue) {
        self.store.compute(key, |present| match present {
            Some(entry) if entry.value().is_same(value) => (Op::Remove, ()),
            _ => (Op::Keep, ()),
        });
    }
}

pub(crate) fn parse_absolute(uri: &str) -> Result<Uri, PurgeError> {
    let parsed: Uri = uri.parse().map_err(|_| PurgeError::new(uri, "not a URI"))?;
    match parsed.scheme_str() {
        Some("http" | "https") => Ok(parsed),
        _ => Err(PurgeError::new(uri, "not an absolute URI of http or https")),
    }
}

/// A URI that cannot be purged.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("cannot purge {uri:?}: {reason}")]
pub struct PurgeError {
    uri: String,
    reason: &'static str,
}

impl PurgeError {
    pub(crate) fn new(uri: &str, reason: &'static str) -> PurgeError {
        PurgeError { uri: uri.chars().take(200).collect(), reason }
    }
}

//! The handle of a cache: what it holds, looking something up in it, and purging it.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use http::{HeaderMap, HeaderName, StatusCode, Uri};
use larder_engine::{Cache, Op, Ttl};

use crate::entry::{Slot, Stored};
use crate::key::{self, Key};
use crate::purge::{Mark, Purges};
use crate::stats::{Counters, Stats};
use crate::status::Reason;
use crate::vary::VaryRecord;

/// A cache of HTTP responses. Clones share it.
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
pub struct HttpCache(Arc<Parts>);

#[derive(Debug)]
pub(crate) struct Parts {
    pub(crate) store: Cache<Key, Slot>,
    /// Resources whose last response could not be stored, for a few seconds.
    pub(crate) hit_for_miss: Cache<Mark, ()>,
    pub(crate) purges: Purges,
    /// Fills under way that hold no ticket.
    pub(crate) lone_fills: AtomicUsize,
    pub(crate) counters: Counters,
    pub(crate) max_body_bytes: usize,
    pub(crate) cached_errors: Vec<StatusCode>,
    pub(crate) credential_fields: Vec<HeaderName>,
    pub(crate) scheme: String,
    pub(crate) wait_timeout: Duration,
}

/// What a lookup found.
pub(crate) enum Lookup {
    Found(Arc<Stored>),
    Missing(Place),
}

/// Where the response to a request is, or would be, stored.
#[derive(Clone, Debug)]
pub(crate) struct Place {
    pub(crate) resource: Key,
    /// The record of a resource that varies, and the key of this request's variant.
    pub(crate) variant: Option<(Arc<VaryRecord>, Key)>,
}

impl Place {
    pub(crate) fn key(&self) -> &Key {
        self.variant.as_ref().map_or(&self.resource, |(_, key)| key)
    }
}

impl HttpCache {
    /// Purges one resource with all its variants, for GET and HEAD; `uri` is absolute, and the query counts.
    /// Returns whether something was stored.
    ///
    /// When this returns, no response whose handler started before the call is served or stored any more; so it is
    /// with all purges.
    ///
    /// # Errors
    /// [`PurgeError`] when `uri` is not an absolute HTTP URI.
    pub fn purge_uri(&self, uri: &str) -> Result<bool, PurgeError> {
        let uri = absolute(uri)?;
        key::with_scratch(|key| {
            key::write_resource(key, &uri, &HeaderMap::new(), &self.0.scheme)
                .map_err(|reason| PurgeError::new(&uri.to_string(), reason.as_str()))?;
            Ok(self.purge_resource(key))
        })
    }

    /// Purges the responses that carry a tag. Cost: a short lock and a few writes, whatever the number of
    /// entries; their memory is freed when they are next met, expire, or make room.
    pub fn purge_tag(&self, tag: &str) {
        self.0.counters.purges.add(1);
        self.0.purges.purge_mark(self.0.purges.mark(tag.as_bytes()));
    }

    /// Purges the resources whose URI begins with `prefix`, an absolute URI without a query; its path is compared
    /// by bytes, so `http://h/shop` covers `/shopping` too. Cost as of [`HttpCache::purge_tag`].
    ///
    /// # Errors
    /// [`PurgeError`] when `prefix` is not an absolute HTTP URI, or has a query.
    pub fn purge_prefix(&self, prefix: &str) -> Result<(), PurgeError> {
        let uri = absolute(prefix)?;
        if uri.query().is_some() {
            return Err(PurgeError::new(prefix, "a prefix has no query"));
        }
        let mut origin = Vec::new();
        let (scheme, authority) = (uri.scheme_str().unwrap_or_default(), uri.authority());
        key::write_origin(&mut origin, scheme, authority.map_or("", |authority| authority.as_str()))
            .map_err(|reason| PurgeError::new(prefix, reason.as_str()))?;
        self.0.counters.purges.add(1);
        self.0.purges.purge_prefix(&origin, uri.path().as_bytes());
        Ok(())
    }

    /// Purges everything. Cost: proportional to the entries, a lock for each shard in turn.
    pub fn purge_all(&self) {
        self.0.counters.purges.add(1);
        self.0.purges.purge_all();
        self.0.store.clear();
    }

    /// What the cache did so far, and what it holds.
    pub fn stats(&self) -> Stats {
        let store = &self.0.store;
        self.0.counters.snapshot(store.len() as u64, store.weight(), store.capacity())
    }

    pub(crate) fn from_parts(parts: Parts) -> HttpCache {
        HttpCache(Arc::new(parts))
    }

    pub(crate) fn parts(&self) -> &Parts {
        &self.0
    }

    fn purge_resource(&self, resource: &[u8]) -> bool {
        self.0.counters.purges.add(1);
        self.0.purges.purge_mark(self.0.purges.mark(resource));
        self.0.store.remove(resource).is_some()
    }

    /// What an unsafe method does to its resource. Unlike a purge it leaves no trace where there is nothing to
    /// invalidate: most of what is posted to was never cached, and would only crowd the log of purges.
    pub(crate) fn invalidate(&self, resource: &[u8]) {
        // Removing voids a fill that leads, too; one that runs alone has no ticket and asks the log.
        let stored = self.0.store.remove(resource).is_some();
        if stored || self.0.lone_fills.load(Ordering::SeqCst) > 0 {
            self.0.counters.purges.add(1);
            self.0.purges.purge_mark(self.0.purges.mark(resource));
        }
    }
}

impl Parts {
    /// Looks a request up. What was purged is dropped here.
    ///
    /// # Errors
    /// Why the request has no key.
    pub(crate) fn look_up(&self, uri: &Uri, headers: &HeaderMap) -> Result<Lookup, Reason> {
        key::with_scratch(|key| {
            key::write_resource(key, uri, headers, &self.scheme)?;
            Ok(self.look_up_key(key, headers))
        })
    }

    fn look_up_key(&self, key: &mut Vec<u8>, headers: &HeaderMap) -> Lookup {
        let missing = |key: &[u8]| Lookup::Missing(Place { resource: Key::new(key), variant: None });
        let Some(slot) = self.store.get(key.as_slice()) else { return missing(key) };
        if !self.purges.holds(slot.birth(), key) {
            self.drop_slot(Key::new(key), &slot);
            return missing(key);
        }
        let record = match slot {
            Slot::Response(stored) if stored.tags_hold(&self.purges) => {
                return Lookup::Found(stored);
            }
            Slot::Response(_) => {
                self.drop_slot(Key::new(key), &slot);
                return missing(key);
            }
            Slot::Varies(record) => record,
        };
        let end = key.len();
        record.write_key(key, headers);
        let (resource, variant) = key.split_at(end);
        match self.store.get(variant) {
            Some(Slot::Response(stored)) if stored.tags_hold(&self.purges) => return Lookup::Found(stored),
            Some(slot) => self.drop_slot(Key::new(variant), &slot),
            None => {}
        }
        let variant = Some((record, Key::new(variant)));
        Lookup::Missing(Place { resource: Key::new(resource), variant })
    }

    /// The response in a slot that a fill left for this place, if it has not been purged since.
    pub(crate) fn usable(&self, place: &Place, slot: Slot) -> Option<Arc<Stored>> {
        match slot {
            Slot::Response(stored) => {
                let holds = self.purges.holds(&stored.birth, place.resource.as_bytes());
                (holds && stored.tags_hold(&self.purges)).then_some(stored)
            }
            Slot::Varies(_) => None,
        }
    }

    /// Where the response to a request is stored now; a hit does not need to know, a refresh does.
    pub(crate) fn place_of(&self, uri: &Uri, headers: &HeaderMap) -> Result<Place, Reason> {
        key::with_scratch(|key| {
            key::write_resource(key, uri, headers, &self.scheme)?;
            let resource = Key::new(key);
            let variant = match self.store.peek(key.as_slice()) {
                Some(Slot::Varies(record)) => {
                    key.clear();
                    record.write_key(key, headers);
                    Some((record, Key::new(key)))
                }
                _ => None,
            };
            Ok(Place { resource, variant })
        })
    }

    /// Lets a vary record live at least as long as its youngest variant.
    pub(crate) fn keep_record(&self, resource: &Key, record: &Arc<VaryRecord>, life: Duration) {
        self.store.compute(resource.clone(), |present| match present {
            Some(entry) if matches!(entry.value(), Slot::Varies(own) if Arc::ptr_eq(own, record)) => {
                let short = entry.expires_in().is_some_and(|left| left < life);
                (if short { Op::SetTtl(Ttl::After(life)) } else { Op::Keep }, ())
            }
            _ => (Op::Keep, ()),
        });
    }

    /// Removes a slot unless another has taken its place meanwhile.
    pub(crate) fn drop_slot(&self, key: Key, slot: &Slot) {
        self.store.compute(key, |present| match present {
            Some(entry) if entry.value().is(slot) => (Op::Remove, ()),
            _ => (Op::Keep, ()),
        });
    }
}

fn absolute(uri: &str) -> Result<Uri, PurgeError> {
    let parsed: Uri = uri.parse().map_err(|_| PurgeError::new(uri, "not a URI"))?;
    match parsed.scheme_str() {
        Some("http" | "https") => Ok(parsed),
        _ => Err(PurgeError::new(uri, "not an absolute URI of http or https")),
    }
}

/// A URI that cannot be purged.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("cannot purge {uri:?}: {why}")]
pub struct PurgeError {
    uri: String,
    why: &'static str,
}

impl PurgeError {
    fn new(uri: &str, why: &'static str) -> PurgeError {
        PurgeError { uri: uri.chars().take(200).collect(), why }
    }
}

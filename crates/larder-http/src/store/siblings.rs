//! The encoded siblings of stored responses: each is made once, in the background, after the first request that accepts it.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use bytes::Bytes;
use http::HeaderMap;
use http::header::IF_RANGE;

use crate::headers::range;
use crate::key::Key;
use crate::store::HttpCache;
use crate::stored::chunks::Chunks;
use crate::stored::encoding::{Coding, preferred, quality_of};
use crate::stored::entry::{StoreValue, StoredResponse};

/// The sibling that answers a request, if it exists already. If it does not, it is made in the background. `key` returns
/// the key of the entry.
pub(crate) fn select(
    cache: &HttpCache,
    stored: &Arc<StoredResponse>,
    request: &HeaderMap,
    key: impl FnOnce() -> Option<Key>,
) -> Option<Arc<StoredResponse>> {
    let coding = preferred(request, &cache.core().codings.offered)?;
    let sibling = stored.siblings()?.of(coding);
    if let Some(ready) = sibling.response.get() {
        return ready.clone();
    }
    if !sibling.is_started.load(Ordering::Relaxed)
        && let Some(running) = cache.core().codings.start()
        && !sibling.is_started.swap(true, Ordering::Relaxed)
        && let Some(key) = key()
    {
        let (cache, stored) = (cache.clone(), stored.clone());
        tokio::task::spawn_blocking(move || {
            let _running = running;
            make(&cache, &stored, coding, key);
        });
    }
    None
}

/// The sibling that a range is of: that of which the client has a part already. Any other range is of the body as it is: a
/// client that asks for one part after the other must not get parts of two representations, of which one is made meanwhile.
pub(crate) fn select_for_range(
    cache: &HttpCache,
    stored: &Arc<StoredResponse>,
    request: &HeaderMap,
) -> Option<Arc<StoredResponse>> {
    if !request.contains_key(IF_RANGE) {
        return None;
    }
    let accepted = cache.core().codings.offered.iter().filter(|coding| {
        let quality = quality_of(request, coding.as_str());
        quality.is_some_and(|quality| quality > 0)
    });
    let siblings = stored.siblings()?;
    let ready = accepted.filter_map(|coding| siblings.of(*coding).response.get()?.as_ref());
    ready.into_iter().find(|sibling| range::if_range_matches(request, sibling.headers())).cloned()
}

/// Encodes the body, and charges the result to the entry.
fn make(cache: &HttpCache, stored: &Arc<StoredResponse>, coding: Coding, key: Key) {
    let core = cache.core();
    let (Some(siblings), Some(body)) = (stored.siblings(), stored.complete_body()) else { return };
    let encoded = coding.encode(body).ok().filter(|encoded| encoded.len() <= body.len() / 10 * 9);
    let sibling = encoded.and_then(|mut encoded| {
        encoded.shrink_to_fit();
        let mut chunks = Vec::new();
        core.store.memory.keep(Bytes::from(encoded), &mut chunks).ok()?;
        Some(Arc::new(stored.encoded(coding.as_str(), Chunks::new(chunks))))
    });
    let is_made = sibling.is_some();
    if siblings.of(coding).response.set(sibling).is_ok() && is_made {
        core.store.update_weight(&key, &StoreValue::Response(stored.clone()));
    }
}

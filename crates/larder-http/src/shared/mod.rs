//! Responses that replicas share through Redis. Each replica holds a body once, in its own store, with a copy that tells
//! whether other replicas still allow it; crate `larder` has the protocol.
//!
//! ```text
//! hit:  store ─► entry ─► its copy: valid ─► answer                  unknown ─► compare with Redis first
//! miss: ticket of this replica ─► Redis: found ─► store, answer all
//!                                   └ lease ─► handler ─► Redis ─► store, answer all
//! ```
//!
//! - [`codec`]: entries as bytes. [`tags`]: the tags by which entries are purged.
//! - [`crate::fill::share`]: what a fill asks Redis, and stores there. [`crate::shared_cache`]: the handle and its options.

pub(crate) mod codec;
pub(crate) mod tags;

use std::sync::Arc;

use larder::{Listening, RemoteInvalidation, SharedCopy, SharedMoment, SharedView, Validity};
use larder_engine::{Cache, Follower};
use tokio::runtime::{EnterGuard, Handle};
use twox_hash::XxHash3_128;

use crate::key::Key;
use crate::store::{Asked, CacheCore, Permits};
use crate::stored::entry::StoreValue;

/// What a cache shares with other replicas, and how.
#[derive(Debug)]
pub(crate) struct SharedStore {
    pub(crate) view: SharedView,
    /// Longer bodies stay on their replica.
    pub(crate) max_body_bytes: usize,
    /// Frees the memory of a store whose entries another replica has purged.
    _listening: Listening,
}

impl SharedStore {
    pub(crate) fn new(
        view: SharedView,
        max_body_bytes: usize,
        store: Cache<Key, StoreValue>,
    ) -> Arc<SharedStore> {
        let listening = view.listen(move |remote| {
            if let RemoteInvalidation::Everything(larder::Invalidation::Hard) = remote {
                store.clear();
            }
        });
        Arc::new(SharedStore { view, max_body_bytes, _listening: listening })
    }

    pub(crate) fn moment(&self) -> SharedMoment {
        self.view.moment()
    }

    /// Invalidates a URI whose method was unsafe: on this replica at once, on the others without waiting for Redis.
    pub(crate) fn invalidate_uri(&self, uri: &[u8]) {
        self.spawn_invalidation(tags::of_uri(uri));
    }

    /// The same for a tag that a handler purges.
    pub(crate) fn spawn_purge_of_tag(&self, tag: &str) {
        self.spawn_invalidation(tags::of_tag(tag));
    }

    fn spawn_invalidation(&self, tag: Box<str>) {
        // Outside of a runtime nobody can be told: see `HomeRuntime`.
        if Handle::try_current().is_ok() {
            let invalidated = self.view.spawn_invalidation([tag], larder::Invalidation::Hard);
            invalidated.expect("one short tag is never refused");
        }
    }

    /// Invalidates the entries with one tag, on every replica.
    pub(crate) async fn invalidate(&self, tag: Box<str>) -> larder::Reach {
        reach_of(self.view.invalidate_tags([tag], larder::Invalidation::Hard).await)
    }
}

/// The runtime of a request, to which its purges go also from a thread that has none: a handler may purge elsewhere, and the
/// future of a request may be dropped anywhere.
#[derive(Clone, Debug)]
pub(crate) struct HomeRuntime(Option<Handle>);

impl HomeRuntime {
    /// That of the caller, if the cache has other replicas to tell.
    pub(crate) fn of(core: &CacheCore) -> HomeRuntime {
        HomeRuntime(core.shared.as_ref().and_then(|_| Handle::try_current().ok()))
    }

    pub(crate) fn enter(&self) -> Option<EnterGuard<'_>> {
        self.0.as_ref().map(Handle::enter)
    }
}

/// The reach of a purge. One short tag is never refused: the only error is that of a runtime that shuts down, and nobody
/// knows then whether Redis has confirmed.
pub(crate) fn reach_of(purged: Result<larder::Reach, larder::CacheError>) -> larder::Reach {
    purged.unwrap_or(larder::Reach::HereAndQueued)
}

/// The key of an entry in Redis. It is a hash, because keys may be long and contain bodies; the entry has the whole key,
/// which is compared. Another version of the codec has other keys, so that two versions can run side by side.
pub(crate) fn redis_key(key: &Key) -> Vec<u8> {
    format!("{}:{:032x}", codec::VERSION, XxHash3_128::oneshot(key.as_bytes())).into_bytes()
}

/// An entry that must be compared with Redis before its next use.
#[derive(Debug)]
pub(crate) struct Unverified {
    pub(crate) key: Key,
    pub(crate) value: StoreValue,
}

impl StoreValue {
    fn copy(&self) -> Option<&SharedCopy> {
        match self {
            StoreValue::Response(stored) => stored.copy(),
            StoreValue::Varies(record) => record.copy.get(),
        }
    }
}

impl CacheCore {
    /// Whether other replicas still allow an entry, for a request that may get more than is proved. A softly invalidated
    /// response is stale from now on.
    pub(crate) fn shared_validity(&self, value: &StoreValue, permits: Permits<'_>) -> Validity {
        let (Some(store), Some(copy)) = (&self.shared, value.copy()) else { return Validity::Valid };
        let validity = match (permits.asked.at, value) {
            (Some((moment, _)), _) => store.view.validity_for(copy, moment),
            // Whoever finds a running fill follows it from now on.
            (None, StoreValue::Response(stored)) if stored.is_filling() => {
                store.view.validity_for(copy, store.view.moment())
            }
            (None, _) => store.view.validity(copy),
        };
        let validity = match (validity, value) {
            (Validity::Unknown, _) if permits.verified.iter().any(|other| other.is_same(value)) => {
                Validity::Valid
            }
            // It only selects variants, each of which is judged itself.
            (Validity::Unknown, StoreValue::Varies(_)) if !store.view.serves_copies() => Validity::Valid,
            (judged, _) => judged,
        };
        self.allow_stale(validity, value)
    }

    /// Whether the fill of another request began late enough for one that has asked then. While Redis is lost nobody knows
    /// what was invalidated before.
    pub(crate) fn may_follow(&self, follower: &Follower<Key, StoreValue>, asked: Asked) -> bool {
        let (Some(store), Some((_, at))) = (&self.shared, asked.at) else { return true };
        store.view.serves_copies() || at.saturating_sub(follower.began()) <= store.view.max_lag()
    }

    /// Whether only those who wait for a response get it: Redis is lost.
    pub(crate) fn serves_waiting_requests_only(&self) -> bool {
        self.shared.as_ref().is_some_and(|store| !store.view.serves_copies())
    }

    /// Whether a tag of a shared entry is one of its handler.
    pub(crate) fn is_of_handler(&self, tag: &str) -> bool {
        tags::is_named(tag) && self.shared.as_ref().is_none_or(|store| !store.view.has_tag(tag))
    }

    /// Marks a response that other replicas allow only as a stale one; it is dead if it is never served stale.
    fn allow_stale(&self, validity: Validity, value: &StoreValue) -> Validity {
        if let (Validity::Stale, StoreValue::Response(stored)) = (validity, value) {
            if !stored.may_be_stale() {
                return Validity::Dead;
            }
            stored.mark_stale(self.store.now_ms());
        }
        validity
    }

    /// Compares an entry with Redis. Returns whether it may be served.
    pub(crate) async fn verify(&self, Unverified { key, value }: &Unverified) -> bool {
        let (Some(store), Some(copy)) = (&self.shared, value.copy()) else { return true };
        let validity = store.view.revalidate(&redis_key(key), copy).await;
        matches!(self.allow_stale(validity, value), Validity::Valid | Validity::Stale)
    }
}

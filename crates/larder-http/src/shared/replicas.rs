//! What a cache shares with other replicas, which judge its entries too.

use std::sync::Arc;
use std::time::Duration;

use larder::{Invalidation, Listening, RemoteInvalidation, SharedCopy, SharedMoment, SharedView, Validity};
use larder_engine::{Cache, Follower};
use tokio::runtime::Handle;
use twox_hash::XxHash3_128;

use crate::key::Key;
use crate::shared::{Asked, Permits, Unverified, Verdict, tags, times};
use crate::stored::entry::StoreValue;
use crate::stored::purge::{PurgeKind, Purges};

/// When a request has asked, by what other replicas know, and on the clock of the store.
#[derive(Clone, Copy)]
pub(crate) struct AskedAt {
    moment: SharedMoment,
    now: Duration,
}

/// What a cache shares with other replicas, and how.
#[derive(Debug)]
pub(crate) struct SharedStore {
    pub(crate) view: SharedView,
    /// Longer bodies stay on their replica.
    pub(crate) max_body_bytes: usize,
    /// The purges of the store. The soft ones of other replicas are in it too, each with its time.
    purges: Arc<Purges>,
    /// Frees the memory of a store whose entries another replica has purged.
    _listening: Listening,
}

impl SharedStore {
    pub(crate) fn new(
        view: SharedView,
        max_body_bytes: usize,
        store: Cache<Key, StoreValue>,
        purges: Arc<Purges>,
    ) -> Arc<SharedStore> {
        let noted = purges.clone();
        let listening = view.listen(move |remote| {
            let soft = || PurgeKind::Soft { at_ms: store.now_ms() };
            match remote {
                RemoteInvalidation::Everything(Invalidation::Hard) => store.clear(),
                RemoteInvalidation::Everything(Invalidation::Soft) => noted.purge_all(soft()),
                RemoteInvalidation::Tag(tag, Invalidation::Soft) => {
                    noted.purge_by_key(noted.purge_key(tag.as_bytes()), soft());
                }
                _ => {}
            }
        });
        Arc::new(SharedStore { view, max_body_bytes, purges, _listening: listening })
    }

    /// Invalidates a URI whose method was unsafe: on this replica at once, on the others without waiting for Redis.
    pub(crate) fn invalidate_uri(&self, uri: &[u8], has_query_rules: bool) {
        self.spawn_invalidation(tags::of_purged_uri(uri, has_query_rules));
    }

    /// The same for a tag that a handler purges.
    pub(crate) fn spawn_purge_of_tag(&self, tag: &str) {
        self.spawn_invalidation([tags::of_tag(tag)]);
    }

    /// The same for what was stored by a rule for the queries of a path that applies no more.
    pub(crate) fn spawn_purge_of_ruled_path(&self, path: &[u8]) {
        self.spawn_invalidation([tags::of_ruled_path(path)]);
    }

    fn spawn_invalidation(&self, tags: impl IntoIterator<Item = Box<str>>) {
        // Outside of a runtime nobody can be told: see `HomeRuntime`.
        if Handle::try_current().is_ok() {
            let invalidated = self.view.spawn_invalidation(tags, Invalidation::Hard);
            invalidated.expect("a few short tags are never refused");
        }
    }

    /// Invalidates the entries with one of a few tags, on every replica.
    pub(crate) async fn invalidate(&self, tags: &[Box<str>], kind: PurgeKind) -> larder::Reach {
        let how = match kind {
            PurgeKind::Hard => Invalidation::Hard,
            PurgeKind::Soft { .. } => {
                let keys = tags.iter().map(|tag| self.purges.purge_key(tag.as_bytes()));
                keys.for_each(|key| self.purges.purge_by_key(key, kind));
                Invalidation::Soft
            }
        };
        reach_of(self.view.invalidate_tags(tags, how).await)
    }
}

/// The reach of a purge. A few short tags are never refused. The errors that are left are those of a runtime that shuts down, where
/// nobody knows whether Redis has confirmed, of a process that inherited the cache, and of a server that lacks what is needed: in
/// the last two, replicas share no responses.
pub(crate) fn reach_of(purged: Result<larder::Reach, larder::CacheError>) -> larder::Reach {
    purged.unwrap_or(larder::Reach::HereAndQueued)
}

/// The key of an entry in Redis. It is a hash, because keys may be long and contain bodies; the entry has the whole key,
/// which is compared. Another format has other keys, so that two versions can run side by side.
pub(crate) fn redis_key(key: &Key) -> Vec<u8> {
    format!("{}:{:032x}", times::FORMAT, XxHash3_128::oneshot(key.as_bytes())).into_bytes()
}

impl StoreValue {
    fn copy(&self) -> Option<&SharedCopy> {
        match self {
            StoreValue::Response(stored) => stored.copy(),
            StoreValue::Varies(record) => record.copy.get(),
        }
    }
}

impl SharedStore {
    /// Whether other replicas still allow an entry, for a request that may get more than is proved. A softly invalidated
    /// response is stale from now on.
    pub(crate) fn verdict(
        &self,
        value: &StoreValue,
        permits: Permits<'_>,
        now_ms: impl FnOnce() -> u64,
    ) -> Verdict {
        let Some(copy) = value.copy() else { return Verdict::Usable };
        let validity = match (permits.asked.at, value) {
            (Some(AskedAt { moment, .. }), _) => self.view.validity_for(copy, moment),
            // Whoever finds a running fill follows it from now on.
            (None, StoreValue::Response(stored)) if stored.is_filling() => {
                self.view.validity_for(copy, self.view.moment())
            }
            (None, _) => self.view.validity(copy),
        };
        match (validity, value) {
            (Validity::Unknown, _) if permits.verified.iter().any(|other| other.is_same(value)) => {
                Verdict::Usable
            }
            // It only selects variants, each of which is judged itself.
            (Validity::Unknown, StoreValue::Varies(_)) if !self.view.serves_copies() => Verdict::Usable,
            (Validity::Unknown, _) => Verdict::Unknown,
            (validity, _) => self.verdict_of(validity, value, now_ms),
        }
    }

    /// Marks a response that other replicas allow only as a stale one. It is dead if it is neither served stale nor validated.
    fn verdict_of(&self, validity: Validity, value: &StoreValue, now_ms: impl FnOnce() -> u64) -> Verdict {
        match (validity, value) {
            (Validity::Valid, _) | (Validity::Stale, StoreValue::Varies(_)) => Verdict::Usable,
            (Validity::Stale, StoreValue::Response(stored))
                if stored.is_of_origin() || stored.may_be_stale() =>
            {
                stored.mark_stale(now_ms(), &self.purges);
                Verdict::Usable
            }
            (Validity::Stale | Validity::Dead, _) => Verdict::Dead,
            (Validity::Unknown, _) => Verdict::Unknown,
        }
    }

    /// The moment at which a request begins to wait for the fill of another one; `now` is that of the clock of the store.
    pub(crate) fn asked_at(&self, now: Duration) -> AskedAt {
        AskedAt { moment: self.view.moment(), now }
    }

    /// Whether the fill of another request began late enough for one that has asked then. While Redis is lost nobody knows
    /// what was invalidated before.
    pub(crate) fn may_follow(&self, follower: &Follower<Key, StoreValue>, asked: Asked) -> bool {
        let Some(AskedAt { now, .. }) = asked.at else { return true };
        self.view.serves_copies() || now.saturating_sub(follower.began()) <= self.view.max_lag()
    }

    /// Whether only those who wait for a response get it: Redis is lost.
    pub(crate) fn serves_waiting_requests_only(&self) -> bool {
        !self.view.serves_copies()
    }

    /// Whether a tag of a shared entry is one of its handler.
    pub(crate) fn is_of_handler(&self, tag: &str) -> bool {
        tags::is_named(tag) && !self.view.has_tag(tag)
    }

    /// Whether a tag of a shared entry stands for one of its handler that is too long.
    pub(crate) fn is_hashed_tag(&self, tag: &str) -> bool {
        tags::is_hashed_tag(tag)
    }

    /// Compares an entry with Redis. Returns whether it may be served.
    pub(crate) async fn verify(
        &self,
        Unverified { key, value }: &Unverified,
        now_ms: impl FnOnce() -> u64,
    ) -> bool {
        let Some(copy) = value.copy() else { return true };
        let validity = self.view.revalidate(&redis_key(key), copy).await;
        self.verdict_of(validity, value, now_ms) == Verdict::Usable
    }
}

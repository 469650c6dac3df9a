//! What all views of one store share: its entries, what is known of resources without one, and what says that entries are valid.

use std::sync::Arc;
use std::time::Duration;

use larder_engine::{BuildError, Cache, Clock, Follower, Op, Ttl};

use crate::disk::Disk;
use crate::key::Key;
use crate::policy::home_runtime::HomeRuntime;
use crate::shared::{Asked, Permits, SharedStore, Unverified, Verdict};
use crate::store::limits::Running;
use crate::store::location::StoreLocation;
use crate::stored::entry::StoreValue;
use crate::stored::memory::BodyMemory;
use crate::stored::private::PrivateShares;
use crate::stored::purge::{PurgeKey, Purges};
use crate::stored::record::VaryRecord;

/// How long a key is hit-for-miss after its response could not be stored.
const HIT_FOR_MISS_TTL: Duration = Duration::from_secs(10);
/// The maximum number of hit-for-miss keys.
const HIT_FOR_MISS_KEYS: u64 = 65_536;
/// The maximum number of resources of which something is known without a stored response.
const KNOWN_RESOURCES: u64 = 65_536;

/// What all views of one store share. Clones share the same store.
#[derive(Clone, Debug)]
pub(crate) struct Store {
    pub(crate) entries: Cache<Key, StoreValue>,
    /// The hit-for-miss keys: their last response could not be stored or was too slow, so for a few seconds their
    /// requests do not wait for each other.
    pub(crate) hit_for_miss: Cache<PurgeKey, ()>,
    /// What is known of resources without a stored response: that the last one was public, if they have no record that tells
    /// it, and that a complete body may be stored for a range.
    pub(crate) known_resources: Cache<PurgeKey, ()>,
    pub(crate) purges: Arc<Purges>,
    pub(crate) memory: Arc<BodyMemory>,
    pub(crate) private_shares: Arc<PrivateShares>,
    pub(crate) running: Arc<Running>,
    /// What it shares with other replicas.
    pub(crate) shared: Option<Arc<SharedStore>>,
    /// The entries that it has on disk.
    pub(crate) disk: Option<Arc<Disk>>,
}

impl Store {
    pub(crate) fn new(max_bytes: u64, max_fill_bytes: u64, clock: Clock) -> Result<Store, BuildError> {
        let weigh = |key: &Key, value: &StoreValue| (key.as_bytes().len() + value.bytes()) as u64;
        let hit_for_miss = Cache::builder().entries(HIT_FOR_MISS_KEYS).ttl(HIT_FOR_MISS_TTL);
        let known_resources = Cache::builder().entries(KNOWN_RESOURCES);
        Ok(Store {
            entries: Cache::builder().weight(max_bytes, weigh).clock(clock.clone()).build()?,
            hit_for_miss: hit_for_miss.clock(clock.clone()).build()?,
            known_resources: known_resources.clock(clock).build()?,
            purges: Arc::new(Purges::new()),
            memory: BodyMemory::new(max_bytes.saturating_add(max_fill_bytes)),
            private_shares: PrivateShares::new(max_bytes),
            running: Arc::default(),
            shared: None,
            disk: None,
        })
    }

    /// What other replicas say of an entry, for a request that may get more than is proved.
    pub(crate) fn verdict(&self, value: &StoreValue, permits: Permits<'_>) -> Verdict {
        let now_ms = || self.entries.now_ms();
        self.shared.as_ref().map_or(Verdict::Usable, |shared| shared.verdict(value, permits, now_ms))
    }

    /// The moment at which a request begins to wait for the fill of another one.
    pub(crate) fn asked(&self) -> Asked {
        Asked { at: self.shared.as_ref().map(|shared| shared.asked_at(self.entries.clock().now())) }
    }

    /// Whether the fill of another request began late enough for one that has asked then.
    pub(crate) fn may_follow(&self, follower: &Follower<Key, StoreValue>, asked: Asked) -> bool {
        self.shared.as_ref().is_none_or(|shared| shared.may_follow(follower, asked))
    }

    /// Whether only those who wait for a response get it: Redis is lost.
    pub(crate) fn serves_waiting_requests_only(&self) -> bool {
        self.shared.as_ref().is_some_and(|shared| shared.serves_waiting_requests_only())
    }

    /// Whether a tag of an entry is one of its handler.
    pub(crate) fn is_of_handler(&self, tag: &str) -> bool {
        self.shared.as_ref().is_none_or(|shared| shared.is_of_handler(tag))
    }

    /// Whether a response keeps this tag when its validation names none: its handler has named it.
    pub(crate) fn is_kept_tag(&self, tag: &str) -> bool {
        self.is_of_handler(tag) || self.shared.as_ref().is_some_and(|shared| shared.is_hashed_tag(tag))
    }

    /// Compares an entry with Redis. Returns whether it may be served.
    pub(crate) async fn verify(&self, entry: &Unverified) -> bool {
        match &self.shared {
            Some(shared) => shared.verify(entry, || self.entries.now_ms()).await,
            None => true,
        }
    }

    /// The runtime of the caller, if its purges must reach other replicas.
    pub(crate) fn home_runtime(&self) -> HomeRuntime {
        HomeRuntime::of_caller(self.shared.is_some())
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

    /// The purge key of the responses of a path whose queries were made by a rule of that path.
    pub(crate) fn ruled_path_key(&self, path: &[u8]) -> PurgeKey {
        self.purges.purge_key(&[b"\xffruled:", path].concat())
    }

    /// Stores a vary record again after a variant was added: with its new weight, and with a TTL that is no shorter than
    /// that of the variant.
    pub(crate) fn update_record(&self, resource: &Key, record: &Arc<VaryRecord>, ttl: Duration) {
        self.entries.compute(resource.clone(), |present| match present {
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
        self.entries.compute(key.clone(), |present| match present {
            Some(entry) if entry.value().is_same(value) => (Op::Put(value.clone(), Ttl::Keep), ()),
            _ => (Op::Keep, ()),
        });
    }

    /// Removes the entry, unless its value was replaced meanwhile.
    pub(crate) fn remove_if_same(&self, key: Key, value: &StoreValue) {
        self.entries.compute(key, |present| match present {
            Some(entry) if entry.value().is_same(value) => (Op::Remove, ()),
            _ => (Op::Keep, ()),
        });
    }
}

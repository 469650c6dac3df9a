//! The state of one cache: its options and counters, over a store that it may share with other views.

use std::sync::atomic::AtomicBool;

use larder_engine::fork::Process;

use crate::key::{self, Key, KeySpace};
use crate::policy::gate::Gate;
use crate::policy::handler_purges::PurgeTag;
use crate::policy::rules::Rules;
use crate::status::stats::Counters;
use crate::store::entries::Store;
use crate::store::limits::Limits;
#[cfg(feature = "compression")]
use crate::stored::encoding::Codings;
use crate::stored::entry::StoreValue;
use crate::stored::purge::PurgeKind;

/// One cache.
#[derive(Debug)]
pub(crate) struct CacheCore {
    pub(crate) store: Store,
    pub(crate) limits: Limits,
    pub(crate) rules: Rules,
    pub(crate) gate: Option<Gate>,
    pub(crate) key_space: KeySpace,
    #[cfg(feature = "compression")]
    pub(crate) codings: Codings,
    pub(crate) counters: Counters,
    /// Whether a request was rewritten: its response is stored under another key than that of its URI.
    pub(crate) has_seen_rewritten: AtomicBool,
    /// The process that built the cache.
    pub(crate) process: Process,
}

impl CacheCore {
    /// Removes an entry that a lookup found and must not serve.
    pub(super) fn remove_purged(&self, key: Key, value: &StoreValue) {
        self.counters.purged_lookups.add(1);
        self.store.remove_if_same(key, value);
    }

    /// Purges what was stored by the former rule for the queries of a path.
    pub(crate) fn purge_ruled(&self, resource: &Key) {
        let path = key::path_of(key::uri_of(resource.as_bytes()));
        self.store.purges.purge_by_key(self.store.ruled_path_key(path), PurgeKind::Hard);
        if let Some(shared) = &self.store.shared {
            shared.spawn_purge_of_ruled_path(path);
        }
    }
}

impl PurgeTag for CacheCore {
    fn purge_tag(&self, tag: &str) {
        self.counters.purges.add(1);
        self.store.purges.purge_by_key(self.store.purges.purge_key(tag.as_bytes()), PurgeKind::Hard);
        if let Some(shared) = &self.store.shared {
            shared.spawn_purge_of_tag(tag);
        }
    }
}

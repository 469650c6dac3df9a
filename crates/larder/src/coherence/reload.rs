//! Loading a value again: by one node at a time.
//!
//! The value stays under its key until it is replaced. So the lease of such a load has a key of its own, which is named
//! after the id of the value:
//!
//! ```text
//! ns:view:key          value 1 ──────────────────────────► value 2      store: still value 1?
//! ns::reload:1         (absent) ─► lease 2 ─────────────── expires
//! ```
//! The lease saves loads and decides nothing: the store compares the value. A mutation removes the value or gives the key
//! another id. Then nobody looks for the lease of the old value, and the load is refused as any other.
//!
//! A refresh that has waited too long for the load that has the lease loads beside it. Its store replaces the old value, and
//! also the one that the other load has stored meanwhile, which is known by its id: the id of the lease.
//!
//! A load that has stored leaves its lease to expire: another node may have found the old value just before, and must
//! not load it once more. A load that failed, or whose value may not be stored, removes it.

use super::Coordinator;
use super::lease::{LEASE_TTL, StoreCondition};
use crate::tier::{CasAction, CompareAndSet, Expiry};
use crate::value::envelope::Head;
use crate::value::format::Id;

/// Who loads a value again.
#[derive(Clone, Debug, Default)]
pub(crate) enum Reload {
    /// This load, without a lease: there is no value, or Redis did not reply.
    #[default]
    Unleased,
    /// This load, which has the lease under this key.
    Leased { key: Vec<u8>, lease: StoreCondition },
    /// Another load, which has the lease of the value with this id.
    Elsewhere(Id),
}

/// What has become of a value that another node loads again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ReloadProgress {
    /// It is still loaded. The new value will have this id.
    Loading(Id),
    /// The value was replaced or removed, or its load ended without one. The id is that of the lease, if it is there.
    Ended(Option<Id>),
}

impl Coordinator {
    /// Puts a lease for each value that this node wants to load again: one round trip. Returns who loads each, with the
    /// condition of a load of this node. The values are those with these ids.
    pub(crate) async fn lease_reloads(&self, replaced: &[Id]) -> Vec<(Reload, StoreCondition)> {
        let leases: Vec<_> = replaced.iter().map(|id| self.reload_lease(*id)).collect();
        let unleased = |(_, condition)| (Reload::Unleased, condition);
        let Some(redis) = &self.node.redis else { return leases.into_iter().map(unleased).collect() };
        let puts: Vec<_> = leases.iter().filter_map(|(reload, _)| reload.put()).collect();
        match redis.call(redis.tier.compare_and_set(&puts, None)).await {
            Ok(granted) => leases
                .into_iter()
                .zip(replaced)
                .zip(granted)
                .map(|(((lease, condition), id), granted)| {
                    (if granted { lease } else { Reload::Elsewhere(*id) }, condition)
                })
                .collect(),
            // A server that is full stores no lease.
            Err(_) => leases.into_iter().map(unleased).collect(),
        }
    }

    /// How far the loads are that replace the values with these ids: one round trip, of a few bytes for each. `None` if
    /// Redis does not reply.
    pub(crate) async fn reload_progress(&self, values: &[(Vec<u8>, Id)]) -> Option<Vec<ReloadProgress>> {
        let redis = self.node.redis.as_ref()?;
        let pair = |(key, id): &(Vec<u8>, Id)| [key.clone(), self.node.keyspace.reload_lease(*id)];
        let keys: Vec<_> = values.iter().flat_map(pair).collect();
        let heads = redis.call(redis.tier.read_heads(&keys, None)).await.ok()?.heads;
        let progress = |((_, id), heads): (&(Vec<u8>, Id), &[Vec<u8>])| {
            let lease = match Head::parse(&heads[1]) {
                Ok(Head::Lease(lease)) => Some(lease),
                _ => None,
            };
            match lease {
                Some(lease) if Head::parse(&heads[0]) == Ok(Head::Value(*id)) => {
                    ReloadProgress::Loading(lease)
                }
                lease => ReloadProgress::Ended(lease),
            }
        };
        Some(values.iter().zip(heads.chunks_exact(2)).map(progress).collect())
    }

    /// A new lease of the load that replaces the value with this id, and the condition of that load.
    fn reload_lease(&self, replaced: Id) -> (Reload, StoreCondition) {
        let id = self.node.random.id();
        let lease = StoreCondition::lease(id);
        let condition = StoreCondition::replacing(&Head::Value(replaced).to_bytes(), id);
        (Reload::Leased { key: self.node.keyspace.reload_lease(replaced), lease }, condition)
    }
}

impl Reload {
    /// The request that puts the lease.
    fn put(&self) -> Option<CompareAndSet> {
        let Reload::Leased { key, lease } = self else { return None };
        let bytes = Head::Lease(lease.id()?).to_bytes().to_vec();
        let action = CasAction::Put(bytes, Expiry::After(LEASE_TTL));
        Some(CompareAndSet { key: key.clone(), expected: Vec::new(), action })
    }

    /// The request that renews the lease.
    pub(crate) fn renewal(&self) -> Option<CompareAndSet> {
        match self {
            Reload::Leased { key, lease } => lease.renewals(key).next(),
            Reload::Unleased | Reload::Elsewhere(_) => None,
        }
    }
}

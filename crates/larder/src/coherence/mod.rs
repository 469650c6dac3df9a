//! How several nodes over one Redis stay coherent.
//!
//! ```text
//!  node A                              Redis                               node B
//!  fetch: miss in memory
//!    lookup ─────── SET NX GET ──────► absent: lease 1 granted
//!    the loader runs                                   ◄── UNLINK, PUBLISH ────── delete
//!    store ──────── script ──────────► lease 1 is gone: refused
//!    deliver to followers, store nowhere
//!    ◄────────────────────────── announcement ─────────
//!  memory drops the key
//!    heartbeat ─────────────────────►
//!    ◄──────── reply: every announcement before it was received; memory is trusted for max_lag more
//! ```
//!
//! - [`leased_lookup`]: lookups in Redis, with leases; [`lease`]: storing a loaded value under a condition; [`lost_leases`]:
//!   leases of lookups that failed; [`reload`]: the leases of loads that replace a value.
//! - [`mutation`]: writes and invalidations; [`pattern`]: those of all keys that match a glob; [`key_turns`]: the order of those
//!   that replace what they read; [`announcement`]: what nodes tell each other.
//! - [`replay_log`]: invalidations that Redis has not confirmed, or may have lost; [`replay`]: doing them again.
//! - [`task`]: the coherence task, which keeps the subscription; [`marker`]: how old the data of another server are;
//!   [`status`]: what users see of all this.
//!
//! # Counters
//!
//! Every decision of the protocol compares one of these. They are independent: no two are compared with each other.
//!
//! | counter | kept in | advances | compared |
//! |---|---|---|---|
//! | mutation sequence number, `MutationSeq` | [`replay_log`] | when a mutation of this node starts, and when an invalidation is queued | a confirmation by Redis ends only what was queued, or is pending in the ledger, up to its own number. A mutation that started before the last requeue is queued again although it was confirmed: another server may have confirmed it |
//! | replay epoch | [`replay_log`] | when another server was found, and recent invalidations were queued again | taken before a lookup, a comparison and a take. A reply counts only if it is still the same |
//! | ledger epoch | [`Ledger`], `EntryState::epoch`, `EntryState::checked_in` | with each invalidation that this node does or receives, each newer stamp that it reads, and each gap | a hit: the entry was checked in this epoch. A stamp without a ledger clock: the entry's load started in this epoch or later. A follower: the load that it joined knew every invalidation that the follower knew |
//! | ledger clock | Redis, `Ledger::clock`, `EntryState::clock`, the envelope | with each invalidation of a tag or of everything, in Redis | an entry is valid if its clock is at least that of each stamp of its tags. A write whose clock is older than a stamp in the reply is written once more |
//! | generation | [`Trust`], `EntryState::validated_in` | when a gap in the announcements ends | a hit: the entry was stored or compared with Redis in this generation. A loaded value: no gap ended during the load |
//! | gaps | [`Ledger`] | when announcements may have been missed | taken before stamps are read. They are certain only if it is still the same |
//! | invalidations of a key | [`KeyCounts`], `Node::key_invalidations` | with each deletion, replay and tracked write of a key, by this node or another one | a copy outside of memory: no invalidation since its load started or it was last compared. If there was one it is compared with Redis |
//! | tracked writes of a key | [`KeyCounts`], `Node::tracked_writes` | with each write that `CLIENT TRACKING` reports | taken before a load, a lookup or a comparison. If it has advanced when the entry is stored, the entry is suspect |
//! | server run id and replication ID, `ServerId` | the Redis tier | when another server, or one that was restarted or was a replica in between, answers at the address | each connection: requests go only to the accepted server. A new subscription: another id than the accepted one starts a replay |
//! | marker | Redis, one for each server | with each heartbeat, to the server's clock at an earlier one | a new subscription to another server: if its copy of the former server's marker is older than the recent invalidations in [`replay_log`], everything is invalidated |
//!
//! # Locks held across an await
//!
//! `Coordinator::mutation_gate` is shared while a mutation of keys awaits Redis, and exclusive while a batch is
//! replayed: a value that is written meanwhile must not be what an older invalidation removes.
//!
//! `Coordinator::key_turns` has a lock that a call holds while it reads and replaces a value. It is taken before the gate.

pub(crate) mod announcement;
mod key_turns;
pub(crate) mod lease;
pub(crate) mod leased_lookup;
mod lost_leases;
mod marker;
pub(crate) mod mutation;
mod pattern;
pub(crate) mod problem;
pub(crate) mod reload;
mod replay;
pub(crate) mod replay_log;
pub(crate) mod status;
pub(crate) mod task;

use crate::node::Node;
#[cfg(doc)]
use crate::node::{key_counts::KeyCounts, ledger::Ledger, trust::Trust};

use announcement::Origin;
use key_turns::KeyTurns;
use lost_leases::LostLeases;
use replay_log::ReplayLog;
use std::time::Duration;
use task::Connection;
use tokio::sync::RwLock;

/// A node, and the state by which it takes part in the protocol.
pub(crate) struct Coordinator {
    pub(crate) node: Node,
    pub(crate) replay_log: ReplayLog,
    pub(crate) origin: Origin,
    pub(crate) options: CoherenceOptions,
    connection: Connection,
    /// Shared by mutations of keys, exclusive for a replay.
    mutation_gate: RwLock<()>,
    pub(crate) key_turns: KeyTurns,
    lost_leases: LostLeases,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct CoherenceOptions {
    /// Whether other programs write to the keys of this namespace.
    pub(crate) foreign_writers: bool,
    /// How long a fetch waits for a lease of another node.
    pub(crate) lease_wait: Duration,
}

impl Coordinator {
    pub(crate) fn new(node: Node, options: CoherenceOptions) -> Self {
        Coordinator {
            replay_log: ReplayLog::new(node.memory.clock().clone()),
            origin: node.random.bytes(),
            options,
            connection: Connection::new(),
            mutation_gate: RwLock::new(()),
            key_turns: KeyTurns::new(),
            lost_leases: LostLeases::default(),
            node,
        }
    }
}

/// In a process that inherited the cache, what belongs to the parent stays as it is.
impl Drop for Coordinator {
    fn drop(&mut self) {
        if self.node.process.has_forked() {
            self.leave_to_parent();
        }
    }
}

impl std::fmt::Debug for Coordinator {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Cache").field("namespace", &self.node.keyspace.namespace()).finish_non_exhaustive()
    }
}

//! Which server was reached: its run, and what it was told in a row.
//!
//! A server that was demoted and promoted again has the run that it had, and the data of the server that was the primary in
//! between. Only its replication ID tells: it is another one after each promotion.

use super::values::{info_field, text};
use crate::tier::ServerId;
use redis::Value;

/// How many digits of a replication ID tell them apart.
const HISTORY_DIGITS: usize = 11;

/// What a server tells of itself.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Identity {
    /// Client ids are unique in it.
    pub(super) run: String,
    /// The start of the replication ID; empty if the server tells none.
    history: String,
    /// The one that it had as a replica, which is that of the primary whose place it took.
    former_history: String,
}

impl Identity {
    /// That in the sections `server` and `replication` of `INFO`.
    pub(super) fn of(server: &str, replication: &str) -> Self {
        let history = |field| info_field(replication, field).chars().take(HISTORY_DIGITS).collect();
        Identity {
            run: info_field(server, "run_id").to_owned(),
            history: history("master_replid"),
            former_history: history("master_replid2"),
        }
    }

    pub(super) fn id(&self) -> ServerId {
        ServerId(format!("{}-{}", self.run, self.history))
    }

    /// Whether a server with this id has told anything of itself. Those that have not cannot be told apart.
    pub(super) fn is_known(server: &ServerId) -> bool {
        server.0 != "-"
    }

    /// Whether this is still the history of the server, by its reply to `INFO replication`. Yes if it does not tell.
    pub(super) fn has_history(&self, reply: Value) -> bool {
        let now = Identity::of("", &text(reply).unwrap_or_default()).history;
        now.is_empty() || now == self.history
    }

    /// Whether this server was a replica of the other one, and took its place.
    pub(super) fn succeeds(&self, other: &Identity) -> bool {
        !other.history.is_empty() && self.former_history == other.history
    }
}

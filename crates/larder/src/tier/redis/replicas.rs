//! The fence of replicas: how many of them must acknowledge a write before a heartbeat or a mutation counts.
//!
//! A primary that another one has replaced has lost at least the replica that was promoted. It may go on and answer, but fewer
//! replicas acknowledge its writes than before. Who has promoted it, and whether anybody was asked, does not matter: this is the
//! fence for services that decide by themselves.

use super::RedisOptions;
use super::values::{checked, int};
use crate::tier::TierError;
use redis::{Pipeline, Value};
use std::time::Duration;

/// How long the keys are kept to which confirmations are written.
const KEPT_SECONDS: u64 = 60;

/// How many replicas must acknowledge, and how long the server waits for them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ReplicaFence {
    replicas: u32,
    limit: Duration,
}

impl ReplicaFence {
    /// `None` if no replica must acknowledge.
    pub(super) fn new(options: &RedisOptions) -> Option<Self> {
        let fence = ReplicaFence {
            replicas: options.replica_fence,
            // The server replies before its client gives up, also if no replica does.
            limit: options.timeout / 2,
        };
        (fence.replicas > 0).then_some(fence)
    }
}

/// The key of the write that confirms what was announced on this channel.
pub(super) fn confirmation_key(channel: &[u8]) -> Vec<u8> {
    [channel, b":confirmed"].concat()
}

/// A write that replicas must acknowledge, and so all that the server has executed before it.
pub(super) struct Acknowledged {
    pub(super) fence: ReplicaFence,
    /// A key of the cache's own. Every replica gets a write to it, whatever it has there.
    pub(super) key: Vec<u8>,
}

impl Acknowledged {
    /// Adds the write, and the command that waits for it.
    pub(super) fn add_to(&self, pipeline: &mut Pipeline) {
        let ReplicaFence { replicas, limit } = self.fence;
        pipeline.cmd("SET").arg(&self.key).arg(1).arg("EX").arg(KEPT_SECONDS);
        // 0 is without limit.
        pipeline.cmd("WAIT").arg(replicas).arg(limit.as_millis().max(1) as u64);
    }

    /// Takes the replies to both, which are the last ones, and checks them.
    ///
    /// # Errors
    /// Why the write does not count. The server itself is well.
    pub(super) fn check(&self, replies: &mut Vec<Value>) -> Result<(), TierError> {
        let mut last = || replies.pop().unwrap_or_default();
        let (waited, written) = (last(), last());
        let acknowledged = checked(written).and_then(|_| int(waited));
        let acknowledged = acknowledged.map_err(|error| TierError::PartLost(error.to_string()))?;
        let needed = self.fence.replicas;
        if acknowledged >= i64::from(needed) {
            return Ok(());
        }
        let reason = format!("replicas that acknowledge a write: {acknowledged}; the fence needs {needed}");
        Err(TierError::PartLost(reason))
    }
}

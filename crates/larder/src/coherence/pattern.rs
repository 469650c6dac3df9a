//! Invalidation of all keys that match a glob.
//!
//! ```text
//! drop matching memory ─► PUBLISH the glob ─► SCAN, UNLINK ─► PUBLISH the glob ─► drop matching memory ─► Ok
//!                         the nodes drop what matches    again: a lookup may have read
//!                         and void their loads           the old value from Redis in between
//! ```
//! The scan also removes the leases of loads, so no load that began before it stores its value: a key that is there
//! during the whole scan is found at least once.

use super::mutation::removed_value;
use super::replay_log::Invalidated;
use super::{Coordinator, announcement};
use crate::key::glob::Glob;
use crate::node::guarded_tier::GuardedTier;
use crate::report::error::CacheError;
use crate::tier::{BATCH, Mutation, Operation};
use std::sync::Arc;

impl Coordinator {
    /// Deletes every key whose name without the namespace matches a pattern. Returns how many values there were in
    /// Redis, or in memory if Redis did not confirm or there is none, and the error if it did not confirm.
    pub(crate) async fn delete_matched(self: &Arc<Self>, pattern: &str) -> (u64, Result<(), CacheError>) {
        let glob = self.node.keyspace.glob(pattern);
        let in_memory = self.node.invalidate_matching(&glob);
        let Some(redis) = &self.node.redis else { return (in_memory, Ok(())) };
        self.ensure_connected().await;
        let seq = self.replay_log.next_seq();
        let removed = match redis.check_breaker() {
            Ok(()) => self.remove_matching(redis, &glob).await,
            Err(error) => Err(error),
        };
        let removed = self.record_outcome([Invalidated::Matching(glob.clone())], seq, removed);
        self.node.invalidate_matching(&glob);
        match removed {
            Ok(removed) => (removed, Ok(())),
            Err(error) => (in_memory, Err(error)),
        }
    }

    /// Removes matching keys from Redis, and announces the glob before and after it. Returns how many values there were.
    pub(super) async fn remove_matching(&self, redis: &GuardedTier, glob: &Glob) -> Result<u64, CacheError> {
        let keyspace = &self.node.keyspace;
        let announcement = announcement::matching(&keyspace.channel, self.origin, glob.as_bytes());
        let announce = Mutation { operations: &[], ledger: None, announce: Some(&announcement) };
        redis.call_ignoring_breaker(redis.tier.mutate(&announce)).await?;
        let (mut scan, mut removed) = (redis.tier.scan(glob.as_bytes()), 0);
        while let Some(mut keys) = redis.call_ignoring_breaker(scan.next()).await? {
            keys.retain(|key| !keyspace.is_own(key));
            for batch in keys.chunks(BATCH) {
                let operations: Vec<_> = batch.iter().cloned().map(Operation::Remove).collect();
                let removal = Mutation { operations: &operations, ledger: None, announce: None };
                let reply = redis.call_ignoring_breaker(redis.tier.mutate(&removal)).await?;
                removed += reply.results.iter().filter(|result| removed_value(result)).count() as u64;
            }
        }
        redis.call_ignoring_breaker(redis.tier.mutate(&announce)).await?;
        Ok(removed)
    }
}

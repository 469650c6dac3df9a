//! A clear where Redis has no ledger: every entry of the namespace is deleted, and what has no envelope stays.

use super::Coordinator;
use super::replay::BATCH;
use crate::envelope;
use crate::error::CacheError;
use crate::tier::Operation;
use std::sync::Arc;

impl Coordinator {
    /// Deletes every value of every view of the namespace. Counters and raw values have no envelope.
    pub(super) async fn delete_entries(self: &Arc<Self>) -> Result<(), CacheError> {
        let Some(redis) = &self.node.redis else { return Ok(()) };
        let prefix = self.node.keyspace.prefix();
        let mut cursor = 0;
        loop {
            let (next, keys) = redis.call(redis.tier.scan(cursor, &prefix, "*")).await?;
            for batch in keys.chunks(BATCH) {
                let heads = redis.call(redis.tier.read_heads(batch, None)).await?.heads;
                let entries = batch.iter().zip(&heads).filter(|(_, head)| envelope::has_magic(head));
                let removals: Vec<_> = entries.map(|(key, _)| Operation::Remove(key.clone())).collect();
                if !removals.is_empty() {
                    self.remove(removals).await?;
                }
            }
            if next == 0 {
                return Ok(());
            }
            cursor = next;
        }
    }
}

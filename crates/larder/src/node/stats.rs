//! The counters of a node, collected from where they are counted.

use super::Node;
use crate::report::stats::{CacheStats, MAX_TOP_TAGS, TierStats};

impl Node {
    pub(crate) fn stats(&self) -> CacheStats {
        let memory = self.memory.stats();
        let counts = &self.observers.counts;
        let weighs_bytes = self.settings.weighs_bytes;
        let load_latency = counts.load_latency.snapshot();
        // What was served late was unservable before.
        let served_late = counts.served_late.get();
        let unservable = counts.unservable.get().saturating_sub(served_late);
        CacheStats {
            memory: TierStats {
                // The engine counts each entry that it finds as a hit.
                hits: memory.hits.saturating_sub(unservable),
                misses: memory.misses + unservable,
                unservable,
                miss_causes: memory.miss_causes,
                too_heavy: memory.refused,
                evicted: memory.evicted,
                expired: memory.expired,
                entries: Some(memory.entries),
                bytes: Some(memory.weight).filter(|_| weighs_bytes),
                capacity: Some(memory.capacity).filter(|_| weighs_bytes),
                max_entries: Some(memory.capacity).filter(|_| !weighs_bytes),
                latency: counts.memory_latency.snapshot(),
                ..TierStats::default()
            },
            redis: self.redis_stats(),
            loads: load_latency.count(),
            load_failures: counts.load_failures.get(),
            coalesced: counts.coalesced.get(),
            refused: counts.refused.get(),
            stale: counts.stale.get(),
            load_latency,
            top_tags: counts.tags.top(MAX_TOP_TAGS),
        }
    }

    fn redis_stats(&self) -> Option<TierStats> {
        self.redis.as_ref().map(|redis| TierStats {
            hits: redis.counts.hits.get(),
            misses: redis.counts.misses.get(),
            errors: redis.counts.errors.get(),
            skipped: redis.counts.skipped.get(),
            unreadable: redis.counts.unreadable.get(),
            latency: redis.latency.snapshot(),
            ..TierStats::default()
        })
    }
}

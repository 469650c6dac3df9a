//! What a cache counts, by the names of its fields, for hosts that make an object of their own of it.

use larder::{CacheStats, TierStats};

/// The counters of a cache beside those of its tiers.
pub fn cache_counters(stats: &CacheStats) -> [(&'static str, u64); 5] {
    [
        ("loads", stats.loads),
        ("load_failures", stats.load_failures),
        ("coalesced", stats.coalesced),
        ("refused", stats.refused),
        ("stale", stats.stale),
    ]
}

/// The counters of a tier. `None` for what it does not know.
pub fn tier_counters(stats: &TierStats) -> [(&'static str, Option<u64>); 9] {
    [
        ("hits", Some(stats.hits)),
        ("misses", Some(stats.misses)),
        ("errors", Some(stats.errors)),
        ("unreadable", Some(stats.unreadable)),
        ("evicted", Some(stats.evicted)),
        ("expired", Some(stats.expired)),
        ("entries", stats.entries),
        ("bytes", stats.bytes),
        ("capacity", stats.capacity),
    ]
}

//! A cache of the crate `larder` as a part of the dashboard.

use larder::{Cache, CoherenceMode, Invalidation, Reach, TierStats};

use crate::purge::{PurgeFuture, Purger, Target, TargetKind};
use crate::registry::Registry;
use crate::sample::{Figure, Sample, Tier, Unit};

impl Registry {
    /// Adds a cache, with its tiers, its loads, and its coherence with other nodes. It can be purged by tag and as a
    /// whole.
    ///
    /// ```
    /// use larder::Cache;
    /// use larder_admin::Registry;
    /// use std::time::Duration;
    ///
    /// let cache = Cache::builder("shop").ttl(Duration::from_secs(60)).build()?;
    /// let registry = Registry::new();
    /// registry.register_cache("shop", &cache);
    /// let router = larder_admin::router(registry);
    /// # let _: axum::Router = router;
    /// # Ok::<(), larder::BuildError>(())
    /// ```
    pub fn register_cache(&self, name: impl Into<String>, cache: &Cache) {
        let (source, purger) = (cache.clone(), CachePurger(cache.clone()));
        self.register_with_purger(name, "cache", move || Sample::running().with_cache(&source), purger);
    }
}

impl Sample {
    /// Adds the tiers and figures of a cache.
    #[must_use]
    pub fn with_cache(self, cache: &Cache) -> Sample {
        let stats = cache.stats();
        let too_heavy = stats.memory.too_heavy;
        let mut sample = self.tier(tier("memory", stats.memory));
        if let Some(redis) = stats.redis {
            sample = sample.tier(tier("redis", redis));
        }
        let origin = Tier::new("origin")
            .operations([("load", stats.loads), ("failure", stats.load_failures)])
            .latency(stats.load_latency);
        let total = |name, value, help| Figure::total(name, Unit::Count, value, help);
        if let Some(sentence) = coherence_in_words(cache) {
            sample = sample.note("coherence", sentence);
        }
        let tags = stats
            .top_tags
            .iter()
            .map(|top| (String::from_utf8_lossy(&top.key).into_owned(), top.count, top.error));
        coherence(cache)
            .into_iter()
            .fold(sample.tier(origin).top("tags", tags), Sample::figure)
            .figure(total(
                "coalesced",
                stats.coalesced,
                "Fetches that waited for the load of another caller.",
            ))
            .figure(total(
                "refused_loads",
                stats.refused,
                "Loads whose result was not stored because of an invalidation.",
            ))
            .figure(total(
                "too_heavy",
                too_heavy,
                "Values that memory did not store, because they weigh more than its capacity.",
            ))
            .figure(total(
                "stale_answers",
                stats.stale,
                "Stale values served because a load failed or was slow.",
            ))
    }
}

/// The figures of coherence with other nodes; empty without Redis, and before it was reached: a node that nobody has used yet
/// has lost nothing.
fn coherence(cache: &Cache) -> Vec<Figure> {
    let coherence = cache.coherence();
    if matches!(coherence.mode, CoherenceMode::Memory | CoherenceMode::Unknown) {
        return Vec::new();
    }
    let is_full = f64::from(u8::from(coherence.mode == CoherenceMode::Full));
    let proof_age = coherence.proof_age.as_secs_f64();
    let pending = coherence.pending_invalidations as f64;
    vec![
        Figure::current(
            "coherent",
            Unit::Count,
            is_full,
            "1 if this node receives the invalidations of other nodes. Missing until Redis was reached.",
        ),
        Figure::current(
            "proof_age",
            Unit::Seconds,
            proof_age,
            "Time since the last proof that no invalidation was missed.",
        ),
        Figure::current(
            "pending_invalidations",
            Unit::Count,
            pending,
            "Invalidations that are done on this node and not yet confirmed by Redis.",
        ),
    ]
}

/// What the coherence mode means; `None` without Redis.
fn coherence_in_words(cache: &Cache) -> Option<&'static str> {
    Some(match cache.coherence().mode {
        CoherenceMode::Memory => return None,
        CoherenceMode::Unknown => "unknown: the shared server was not needed or not reached yet",
        CoherenceMode::Full => {
            "full: a change by any node is in effect there at once, and on all others within max_lag"
        }
        CoherenceMode::OneNode => {
            "one node: the shared server cannot announce changes, so those of other nodes are not seen"
        }
        CoherenceMode::Lost => {
            "lost: the shared server does not answer; memory is served for a while, then every fetch loads"
        }
        _ => return None,
    })
}

fn tier(name: &'static str, stats: TierStats) -> Tier {
    let mut tier = Tier::new(name)
        .lookups([
            ("hit", stats.hits),
            ("miss", stats.misses),
            ("error", stats.errors),
            ("skipped", stats.skipped),
            ("unreadable", stats.unreadable),
        ])
        .miss_causes(stats.miss_causes.counts())
        .latency(stats.latency);
    tier.entries = stats.entries;
    (tier.bytes, tier.capacity_bytes) = (stats.bytes, stats.capacity);
    tier
}

/// Purges a cache for the admin port.
struct CachePurger(Cache);

impl Purger for CachePurger {
    fn purge(&self, target: Target) -> PurgeFuture<'_> {
        Box::pin(async move {
            let purged = match target {
                Target::Tag(tag) => self.0.invalidate_tags([tag], Invalidation::Hard).await,
                Target::All => self.0.clear().await,
                other => return Err(format!("a cache cannot purge {other}; expected a tag, or all: true")),
            };
            match purged {
                Ok(Reach::Everywhere) => Ok(()),
                Ok(Reach::HereAndQueued) => {
                    Err("purged on this node and queued: Redis did not confirm it, so other nodes do not know yet".into())
                }
                Err(error) => Err(error.to_string()),
            }
        })
    }

    fn targets(&self) -> &[TargetKind] {
        &[TargetKind::Tag, TargetKind::All]
    }
}

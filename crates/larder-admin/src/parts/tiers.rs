//! A cache of the crate `larder` as a part of the dashboard.

use std::time::Duration;

use larder::{Cache, Coherence, CoherenceMode, CoherenceProblem, Invalidation, Primary, Reach, TierStats};

use crate::parts::degradation::Degradation;
use crate::parts::purge::{PurgeFuture, Purger, Target, TargetKind};
use crate::parts::registry::Registry;
use crate::parts::sample::{Figure, Sample, Tier, Unit};

/// Heartbeats to the primaries of a cluster are sent together: the proofs of those that answer differ by less.
const PROOF_SPREAD: Duration = Duration::from_secs(1);

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
        let TierStats { too_heavy, evicted, expired, .. } = stats.memory;
        let coherence = cache.coherence();
        let degradation = degradation(&coherence, stats.redis.as_ref());
        let causes = stats.memory.miss_causes.counts().into_iter();
        let causes = causes.chain([("unservable", stats.memory.unservable)]);
        let mut sample = self.tier(tier("memory", stats.memory).miss_causes(causes));
        if let Some(redis) = stats.redis {
            sample = sample.tier(tier("redis", redis));
        }
        let origin = Tier::new("origin")
            .operations([("load", stats.loads), ("failure", stats.load_failures)])
            .latency(stats.load_latency);
        let total = |name, value, help| Figure::total(name, Unit::Count, value, help);
        match &degradation {
            Some(degradation) => sample = sample.degraded(degradation.clone()),
            None => sample
                .notes
                .extend(coherence_in_words(&coherence).map(|words| ("coherence", words.to_owned()))),
        }
        sample.notes.extend(primaries_in_words(&coherence.primaries).map(|words| ("primaries", words)));
        sample.servers.extend(coherence.primaries.iter().map(|primary| primary.address.clone()));
        let tags = stats
            .top_tags
            .iter()
            .map(|top| (String::from_utf8_lossy(&top.key).into_owned(), top.count, top.error));
        coherence_figures(&coherence, degradation.is_some())
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
            .figure(total("evicted", evicted, "Entries evicted to make room."))
            .figure(total("expired", expired, "Entries removed after their TTL."))
            .figure(total(
                "stale_answers",
                stats.stale,
                "Stale values served because a load failed or was slow.",
            ))
    }
}

/// The figures of coherence with other nodes; empty without Redis.
fn coherence_figures(coherence: &Coherence, is_degraded: bool) -> Vec<Figure> {
    if coherence.mode == CoherenceMode::Memory {
        return Vec::new();
    }
    // A node that has not needed Redis yet has lost nothing.
    let is_coherent = match coherence.mode {
        CoherenceMode::Unknown => !is_degraded,
        mode => mode == CoherenceMode::Full,
    };
    let mut figures = vec![
        Figure::current(
            "coherent",
            Unit::Count,
            f64::from(u8::from(is_coherent)),
            "1 if this node has what other nodes invalidated, or has not needed Redis yet; 0 if it may miss some.",
        ),
        Figure::current(
            "proof_age",
            Unit::Seconds,
            coherence.proof_age.as_secs_f64(),
            "Time since the last proof that no invalidation was missed.",
        ),
        Figure::current(
            "unsupported",
            Unit::Count,
            f64::from(u8::from(matches!(coherence.mode, CoherenceMode::Unsupported(_)))),
            "1 if the server lacks what coherent nodes require: nothing is sent to it; 0 otherwise.",
        ),
        Figure::current(
            "pending_invalidations",
            Unit::Count,
            coherence.pending_invalidations as f64,
            "Invalidations that are done on this node and not yet confirmed by Redis.",
        ),
    ];
    if !coherence.primaries.is_empty() {
        figures.extend([
            Figure::current(
                "primaries",
                Unit::Count,
                coherence.primaries.len() as f64,
                "Primaries of the cluster that this node listens to.",
            ),
            Figure::total(
                "redirects",
                Unit::Count,
                coherence.primaries.iter().map(|primary| primary.redirects).sum(),
                "Requests that a primary has sent to another one, because a slot moves or has moved.",
            ),
        ]);
    }
    figures
}

/// What a cache lacks: a Redis that answers, and that is supported. One that was needed and never reached is lost too.
fn degradation(coherence: &Coherence, redis: Option<&TierStats>) -> Option<Degradation> {
    let has_failed =
        coherence.problem.is_some() || redis.is_some_and(|redis| redis.errors + redis.skipped > 0);
    let (state, lasting) = match coherence.mode {
        CoherenceMode::Unsupported(requirement) => {
            let reads = match coherence.memory_trusted {
                true => "memory alone answers, without the changes of other nodes",
                false => "every fetch loads from the origin",
            };
            let meaning =
                format!("the server is not supported: {requirement}: {reads}, and mutations are errors");
            return Some(Degradation::new("redis", meaning));
        }
        CoherenceMode::Lost if !coherence.primaries.is_empty() => return Some(lost_primaries(coherence)),
        CoherenceMode::Lost => ("Redis does not answer", coherence.proof_age),
        // Nobody knows since when: the proof is as old as the cache.
        CoherenceMode::Unknown if has_failed => ("Redis was never reached", Duration::ZERO),
        _ => return None,
    };
    let left = coherence.disconnected.checked_sub(coherence.proof_age).filter(|left| !left.is_zero());
    let memory = match left {
        Some(left) => format!(
            "memory is served for {} s more, then every fetch loads from the origin",
            left.as_secs_f64().ceil()
        ),
        None => "memory is not served any more: every fetch loads from the origin".to_owned(),
    };
    let problem = match &coherence.problem {
        Some(CoherenceProblem::Refused(reason)) => format!("Redis cannot be used ({reason})"),
        Some(reason) => format!("{state} ({reason})"),
        None => state.to_owned(),
    };
    let meaning = format!("{problem}: {memory}{}", pending(coherence));
    Some(Degradation::new("redis", meaning).lasting(lasting))
}

fn pending(coherence: &Coherence) -> String {
    match coherence.pending_invalidations {
        0 => String::new(),
        1 => "; 1 invalidation of this node waits for it".to_owned(),
        pending => format!("; {pending} invalidations of this node wait for it"),
    }
}

/// Some primaries of a cluster are lost: the others answer.
fn lost_primaries(coherence: &Coherence) -> Degradation {
    let primary = |own: &Primary| (own.address.clone(), own.proof_age);
    let primaries: Vec<_> = coherence.primaries.iter().map(primary).collect();
    let meaning = lost_in_words(&primaries, coherence.proof_age);
    Degradation::new("redis", meaning + &pending(coherence)).lasting(coherence.proof_age)
}

/// Which primaries are lost, from their addresses and the times since their last proofs, and the time since all were proved.
fn lost_in_words(primaries: &[(String, Option<Duration>)], proof_age: Duration) -> String {
    let age = |primary: &(_, Option<Duration>)| primary.1.unwrap_or(Duration::MAX);
    let count = primaries.len();
    // One that replaces another is proved, and its announcements are not.
    if primaries.iter().all(|primary| age(primary).saturating_add(PROOF_SPREAD) < proof_age) {
        return format!(
            "all {count} primaries answer again: memory is compared with them until nothing can be missed"
        );
    }
    // The others were proved later.
    let latest = primaries.iter().map(age).min().unwrap_or_default();
    let is_lost = |primary: &&_| age(primary) > latest.saturating_add(PROOF_SPREAD);
    let lost: Vec<_> = primaries.iter().filter(is_lost).collect();
    let who = match &lost[..] {
        // All are: none was proved later.
        [] => "the primaries of the cluster do not answer".to_owned(),
        [(address, _)] => format!("1 of {count} primaries does not answer, {address}"),
        some => format!("{} of {count} primaries do not answer", some.len()),
    };
    format!(
        "{who}: memory is compared with the others before it is served, and keys of a lost primary load from the origin"
    )
}

/// The primaries of a cluster, with their slots.
fn primaries_in_words(primaries: &[Primary]) -> Option<String> {
    let word = |primary: &Primary| format!("{} with {} slots", primary.address, primary.slots);
    let words: Vec<_> = primaries.iter().map(word).collect();
    (!words.is_empty()).then(|| words.join(", "))
}

/// What the coherence mode means; `None` without Redis, and where a degradation says it.
fn coherence_in_words(coherence: &Coherence) -> Option<&'static str> {
    Some(match coherence.mode {
        CoherenceMode::Unknown => "unknown: Redis was not needed or not reached yet",
        CoherenceMode::Full => {
            "full: a change by any node is in effect there at once, and on all others within max_lag"
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
        .latency(stats.latency);
    tier.entries = stats.entries;
    (tier.bytes, tier.capacity_bytes) = (stats.bytes, stats.capacity);
    tier
}

/// The outcome of a purge that other nodes must hear of.
pub(crate) fn confirmed(reach: Reach) -> Result<(), String> {
    match reach {
        Reach::Everywhere => Ok(()),
        Reach::HereAndQueued => {
            Err("purged on this node and queued: Redis did not confirm it, so other nodes do not know yet"
                .into())
        }
    }
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
            confirmed(purged.map_err(|error| error.to_string())?)
        })
    }

    fn soft_purge(&self, target: Target) -> PurgeFuture<'_> {
        Box::pin(async move {
            let Target::Tag(tag) = target else {
                return Err(format!("a cache cannot purge {target} softly; expected a tag"));
            };
            let purged = self.0.invalidate_tags([tag], Invalidation::Soft).await;
            confirmed(purged.map_err(|error| error.to_string())?)
        })
    }

    fn has_soft_purges(&self) -> bool {
        true
    }

    fn targets(&self) -> &[TargetKind] {
        &[TargetKind::Tag, TargetKind::All]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn meaning(ages: [u64; 3], proof_age: u64) -> String {
        let primary = |age: u64, port: u16| (format!("127.0.0.1:{port}"), Some(Duration::from_millis(age)));
        let primaries: Vec<_> = ages.into_iter().zip(1..).map(|(age, port)| primary(age, port)).collect();
        lost_in_words(&primaries, Duration::from_millis(proof_age))
    }

    /// While another primary took over, the page said for a moment that none answers.
    #[test]
    fn primaries_that_answer_again_are_not_said_to_be_lost() {
        assert!(
            meaning([2_300, 100, 120], 2_300).starts_with("1 of 3 primaries does not answer, 127.0.0.1:1: ")
        );
        assert!(
            meaning([2_300, 2_250, 2_280], 2_300).starts_with("the primaries of the cluster do not answer: ")
        );
        assert!(meaning([100, 120, 90], 2_300).starts_with("all 3 primaries answer again: "));
    }
}

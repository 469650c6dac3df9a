//! Why lookups missed, of which engines estimate the counts from some of their keys: an estimate may exceed what it is a part of.
//! Here the causes of a tier are together at most its misses, and no count falls, so that a rate can be computed from it.

use std::sync::{Mutex, PoisonError};

use crate::parts::sample::PartSample;
use crate::parts::sample::Tier;

/// The counts that were shown last, by tier.
#[derive(Default)]
pub(crate) struct Estimates(Mutex<Vec<Shown>>);

struct Shown {
    part: String,
    tier: &'static str,
    misses: u64,
    causes: Vec<(&'static str, u64)>,
}

impl Estimates {
    /// Bounds the causes in new samples.
    pub(crate) fn bound(&self, parts: &mut [PartSample]) {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let mut current = Vec::new();
        for part in parts {
            for tier in &mut part.sample.tiers {
                if tier.miss_causes.is_empty() {
                    continue;
                }
                let shown = known.iter().find(|shown| shown.part == part.name && shown.tier == tier.name);
                let misses = tier.hits_and_misses().1;
                // A part that was restarted counts from zero.
                let shown =
                    shown.filter(|shown| shown.misses <= misses).map_or(&[][..], |shown| &shown.causes);
                bound_causes(tier, misses, shown);
                let causes = tier.miss_causes.clone();
                current.push(Shown { part: part.name.clone(), tier: tier.name, misses, causes });
            }
        }
        *known = current;
    }
}

/// Lets each cause grow towards its estimate, as far as there are misses that no cause explains yet.
fn bound_causes(tier: &mut Tier, misses: u64, shown: &[(&'static str, u64)]) {
    let before = |cause: &str| shown.iter().find(|(known, _)| *known == cause).map_or(0, |(_, count)| *count);
    let explained: u64 = shown.iter().map(|(_, count)| count).sum();
    let left = u128::from(misses.saturating_sub(explained));
    let wanted: u128 =
        tier.miss_causes.iter().map(|(cause, count)| u128::from(count.saturating_sub(before(cause)))).sum();
    for (cause, count) in &mut tier.miss_causes {
        let before = before(cause);
        let more = u128::from(count.saturating_sub(before));
        let share = if wanted <= left { more } else { more * left / wanted };
        *count = before + share as u64;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parts::sample::Sample;

    fn causes(estimates: &Estimates, misses: u64, causes: &[(&'static str, u64)]) -> Vec<u64> {
        let tier = Tier::new("memory").lookups([("miss", misses)]).miss_causes(causes.iter().copied());
        let sample = Sample::running().tier(tier);
        let mut parts = [PartSample {
            name: "shop".to_owned(),
            kind: "cache",
            purge_targets: Vec::new(),
            has_soft_purges: false,
            sample,
        }];
        estimates.bound(&mut parts);
        parts[0].sample.tiers[0].miss_causes.iter().map(|(_, count)| *count).collect()
    }

    #[test]
    fn causes_are_at_most_the_misses_and_never_fall() {
        let estimates = Estimates::default();
        let all = |first, evicted| [("first", first), ("evicted", evicted)];
        assert_eq!(causes(&estimates, 5, &all(16, 0)), [5, 0]);
        assert_eq!(causes(&estimates, 6, &all(16, 16)), [5, 0]);
        assert_eq!(causes(&estimates, 20, &all(16, 16)), [11, 8]);
        assert_eq!(causes(&estimates, 40, &all(16, 16)), [16, 16]);
        assert_eq!(causes(&estimates, 33, &all(32, 0)), [32, 0], "a restarted part counts from zero");
        assert_eq!(causes(&estimates, 33, &all(48, 0)), [33, 0]);
    }
}

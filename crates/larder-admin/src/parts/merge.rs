//! Names that repeat within a part. The metrics would have a series twice, for which Prometheus refuses the whole page, and
//! the other pages would show one of two. So tiers, counts and lists of one name are one, with their values added.

use crate::parts::degradation::Degradation;
use crate::parts::sample::{Reasons, Sample, Tier, TopList};

impl Sample {
    /// The sample with each tier, outcome, list, note and degradation once. Figures stay as they are: nobody knows whether two current
    /// values of a name can be added.
    pub(crate) fn merged(self) -> Sample {
        let tiers = merged(self.tiers, |one, other| one.name == other.name, Tier::add);
        let reasons = merged(self.reasons, |one, other| one.outcome == other.outcome, Reasons::add);
        Sample {
            tiers: tiers.into_iter().map(Tier::with_counts_merged).collect(),
            reasons: reasons.into_iter().map(Reasons::with_counts_merged).collect(),
            top: merged(self.top, |one, other| one.title == other.title, TopList::add),
            notes: merged(self.notes, |one, other| one.0 == other.0, add_note),
            degradations: merged(self.degradations, |one, other| one.name == other.name, Degradation::add),
            ..self
        }
    }
}

impl Tier {
    fn add(&mut self, other: Tier) {
        self.lookups.extend(other.lookups);
        self.miss_causes.extend(other.miss_causes);
        self.operations.extend(other.operations);
        match (&mut self.latency, other.latency) {
            (Some(own), Some(other)) => own.merge(&other),
            (own, other) => *own = own.take().or(other),
        }
        let sum =
            |one: Option<u64>, other: Option<u64>| one.into_iter().chain(other).reduce(u64::saturating_add);
        self.entries = sum(self.entries, other.entries);
        self.bytes = sum(self.bytes, other.bytes);
        self.capacity_bytes = sum(self.capacity_bytes, other.capacity_bytes);
    }

    fn with_counts_merged(mut self) -> Tier {
        for counts in [&mut self.lookups, &mut self.miss_causes, &mut self.operations] {
            *counts = counts_merged(std::mem::take(counts));
        }
        self
    }
}

impl Reasons {
    fn add(&mut self, other: Reasons) {
        self.counts.extend(other.counts);
    }

    fn with_counts_merged(self) -> Reasons {
        Reasons { counts: counts_merged(self.counts), ..self }
    }
}

impl TopList {
    /// Entries of one name stay apart: different keys may have the same text.
    fn add(&mut self, other: TopList) {
        self.entries.extend(other.entries);
        self.entries.sort_by_key(|entry| std::cmp::Reverse(entry.count));
    }
}

impl Degradation {
    /// Together they began with the first, and are ready if both are.
    fn add(&mut self, other: Degradation) {
        add_sentence(&mut self.meaning, &other.meaning);
        self.lasting = self.lasting.max(other.lasting);
        self.is_ready &= other.is_ready;
    }
}

fn add_note(own: &mut (&'static str, String), (_, sentence): (&'static str, String)) {
    add_sentence(&mut own.1, &sentence);
}

fn add_sentence(own: &mut String, other: &str) {
    if own != other {
        *own += "; ";
        *own += other;
    }
}

fn counts_merged(counts: Vec<(&'static str, u64)>) -> Vec<(&'static str, u64)> {
    merged(counts, |one, other| one.0 == other.0, |own, other| own.1 = own.1.saturating_add(other.1))
}

/// The items with each name once, at the place of the first.
fn merged<T>(items: Vec<T>, have_one_name: impl Fn(&T, &T) -> bool, add: impl Fn(&mut T, T)) -> Vec<T> {
    let mut merged: Vec<T> = Vec::with_capacity(items.len());
    for item in items {
        match merged.iter_mut().find(|own| have_one_name(own, &item)) {
            Some(own) => add(own, item),
            None => merged.push(item),
        }
    }
    merged
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_and_notes_of_one_name_are_joined() {
        let sample = Sample::running()
            .top("tags", [("a".to_owned(), 5, 1)])
            .top("slugs", [("x".to_owned(), 2, 1)])
            .top("tags", [("b".to_owned(), 9, 1), ("a".to_owned(), 2, 1)])
            .note("coherence", "full")
            .note("coherence", "full")
            .note("coherence", "lost")
            .merged();
        let tops: Vec<_> = sample
            .top
            .iter()
            .map(|list| (list.title, list.entries.iter().map(|entry| entry.count).collect::<Vec<_>>()))
            .collect();
        assert_eq!(tops, [("tags", vec![9, 5, 2]), ("slugs", vec![2])]);
        assert_eq!(sample.notes, [("coherence", "full; lost".to_owned())]);
    }
}

//! Whether memory and descriptors grow: the slopes of each process over all runs, and their limits.

use super::samples::Samples;
use super::slope::{Segment, Slope};
use crate::soak::fleet::Figures;
use std::collections::BTreeMap;

/// Seconds after the start of a process that are not judged: its caches fill.
pub(super) const WARM_UP: f64 = 600.0;
/// A slope over less time than this, in hours, is printed and not judged.
pub(super) const MIN_HOURS: f64 = 0.5;
/// The accepted slope of the anonymous memory of a process, in bytes per hour.
pub(super) const MEMORY_LIMIT: f64 = (4 << 20) as f64;
/// The accepted slope of its descriptors, per hour.
pub(super) const DESCRIPTOR_LIMIT: f64 = 2.0;

/// The slopes of one process, of whatever pids.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Growth {
    pub(crate) name: String,
    pub(super) memory: Option<Slope>,
    pub(super) descriptors: Option<Slope>,
}

/// The figures of one process by hours, from its first sample on.
type Points<'a> = Vec<(f64, &'a Figures)>;

/// The slopes of all processes.
pub(crate) fn growth(samples: &Samples) -> Vec<Growth> {
    // By name, then by run and pid.
    let mut all: BTreeMap<&str, BTreeMap<(u64, u32), Points<'_>>> = BTreeMap::new();
    for (sample, hour) in samples.all.iter().zip(samples.hours()) {
        for (name, figures) in &sample.processes {
            let points = all.entry(name).or_default().entry((sample.run, figures.pid)).or_default();
            points.push((hour, figures));
        }
    }
    let growth = |(name, processes): (&str, BTreeMap<_, Points<'_>>)| Growth {
        name: name.to_owned(),
        memory: slope(processes.values(), |figures| figures.anonymous_bytes),
        descriptors: slope(processes.values(), |figures| figures.descriptors),
    };
    all.into_iter().map(growth).collect()
}

/// The common slope of a figure of processes, each without its warm-up.
fn slope<'a>(processes: impl Iterator<Item = &'a Points<'a>>, value: fn(&Figures) -> u64) -> Option<Slope> {
    let segment = |points: &'a Points<'a>| -> Segment {
        let judged = points.iter().filter(|(hour, _)| *hour >= points[0].0 + WARM_UP / 3_600.0);
        judged.map(|(hour, figures)| (*hour, value(figures) as f64)).collect()
    };
    Slope::of(&processes.map(segment).collect::<Vec<_>>())
}

impl Growth {
    /// The figures of the others are for comparison.
    pub(crate) fn is_of_larder(&self) -> bool {
        !["redis", "origin"].contains(&self.name.as_str())
    }

    /// What grows beyond its limit and the noise.
    pub(crate) fn faults(&self) -> Vec<String> {
        let mut faults = Vec::new();
        let beyond = |slope: Option<Slope>, limit: f64| {
            slope.filter(|slope| slope.hours >= MIN_HOURS && slope.least() > limit)
        };
        if let Some(slope) = beyond(self.memory, MEMORY_LIMIT) {
            let [grows, limit] = [slope.per_hour, MEMORY_LIMIT].map(|bytes| bytes / f64::from(1 << 20));
            faults.push(format!(
                "the memory of {} grows by {grows:.1} MiB an hour, accepted are {limit:.0}",
                self.name
            ));
        }
        if let Some(slope) = beyond(self.descriptors, DESCRIPTOR_LIMIT) {
            let grows = slope.per_hour;
            faults.push(format!("the descriptors of {} grow by {grows:.1} an hour", self.name));
        }
        faults
    }
}

#[cfg(test)]
mod tests {
    use super::super::samples::tests::sample;
    use super::*;

    fn samples(all: impl IntoIterator<Item = super::super::samples::Sample>) -> Samples {
        let path = std::env::temp_dir().join(format!(
            "larder-soak-{:?}-{}",
            std::thread::current().id(),
            std::process::id()
        ));
        let mut samples = Samples::open(&path).unwrap();
        std::fs::remove_file(&path).unwrap();
        samples.all.extend(all);
        samples
    }

    #[test]
    fn growth_after_the_warm_up_is_found_and_before_it_is_not() {
        let at = |minute: u64, bytes: u64| sample(1, minute as f64 * 60.0, 1, bytes);
        let steady = samples((0..60).map(|minute| at(minute, minute.min(10) << 23)));
        let [steady] = &growth(&steady)[..] else { panic!("one process") };
        assert!(steady.memory.unwrap().per_hour.abs() < 1.0 && steady.faults().is_empty(), "{steady:?}");
        let growing = samples((0..60).map(|minute| at(minute, minute << 20)));
        let [growing] = &growth(&growing)[..] else { panic!("one process") };
        assert_eq!(growing.faults(), ["the memory of up-1 grows by 60.0 MiB an hour, accepted are 4"]);
    }

    #[test]
    fn another_pid_begins_another_segment_and_too_little_time_is_not_judged() {
        // Each process grows for ten minutes of its twelve.
        let restarted = (0..60).map(|minute: u64| {
            let age = minute % 12;
            sample(1, minute as f64 * 60.0, 1 + (minute / 12) as u32, age.min(10) << 23)
        });
        let restarted = samples(restarted);
        let [restarted] = &growth(&restarted)[..] else { panic!("one process") };
        let slope = restarted.memory.unwrap();
        assert!(slope.per_hour.abs() < 1.0 && slope.hours < MIN_HOURS, "{slope:?}");
        let short = samples((0..15).map(|minute| sample(1, minute as f64 * 60.0, 1, minute << 30)));
        assert!(growth(&short)[0].faults().is_empty());
    }
}

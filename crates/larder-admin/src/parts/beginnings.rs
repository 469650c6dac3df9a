//! Since when the parts lack something.

use std::sync::{Mutex, PoisonError};

use crate::moment::Moment;
use crate::parts::sample::{PartSample, State};

/// When the degradations of all parts began.
#[derive(Default)]
pub(crate) struct Beginnings(Mutex<Vec<Beginning>>);

struct Beginning {
    part: String,
    name: &'static str,
    at: Moment,
}

impl Beginnings {
    /// Sets for how long each degradation has lasted, from the first sample that had it, and forgets those that are over.
    /// A part that runs and lacks something is degraded.
    pub(crate) fn follow(&self, parts: &mut [PartSample], now: Moment) {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let mut current = Vec::new();
        for part in parts {
            let sample = &mut part.sample;
            if sample.state == State::Running && !sample.degradations.is_empty() {
                sample.state = State::Degraded;
            }
            for own in &mut sample.degradations {
                let began = known.iter().find(|begun| begun.part == part.name && begun.name == own.name);
                let at = began.map_or_else(|| now.before(own.lasting), |begun| begun.at);
                own.lasting = now.instant.saturating_duration_since(at.instant).max(own.lasting);
                current.push(Beginning { part: part.name.clone(), name: own.name, at });
            }
        }
        *known = current;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parts::degradation::Degradation;
    use crate::parts::sample::Sample;
    use std::time::Duration;

    fn parts(degradations: Vec<Degradation>) -> [PartSample; 1] {
        let sample = Sample { degradations, ..Sample::running() };
        [PartSample {
            name: "shop".to_owned(),
            kind: "cache",
            purge_targets: Vec::new(),
            has_soft_purges: false,
            sample,
        }]
    }

    #[test]
    fn degradation_lasts_from_its_first_sample_until_it_is_over() {
        let (beginnings, start) = (Beginnings::default(), Moment::now());
        let second = Duration::from_secs(1);
        let lasting = |degradation: Option<Degradation>, seconds: u32| {
            let mut parts = parts(degradation.into_iter().collect());
            let now = Moment { instant: start.instant + seconds * second, wall: start.wall };
            beginnings.follow(&mut parts, now);
            let [part] = parts;
            (part.sample.state, part.sample.degradations.first().map(|own| own.lasting.as_secs()))
        };
        let full = || Some(Degradation::new("disk", "the disk is full"));
        assert_eq!(lasting(full(), 10), (State::Degraded, Some(0)));
        assert_eq!(lasting(full(), 40), (State::Degraded, Some(30)));
        assert_eq!(lasting(None, 50), (State::Running, None));
        assert_eq!(lasting(full(), 60), (State::Degraded, Some(0)));
        assert_eq!(lasting(full().map(|own| own.lasting(45 * second)), 70), (State::Degraded, Some(45)));
    }

    #[test]
    fn part_that_does_not_run_keeps_its_state() {
        let mut parts = parts(vec![Degradation::new("disk", "the disk is full")]);
        parts[0].sample.state = State::Stopped;
        Beginnings::default().follow(&mut parts, Moment::now());
        assert_eq!(parts[0].sample.state, State::Stopped);
    }
}

//! What a part needs and lacks while it goes on: since when, and what that means for its requests.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use crate::parts::registry::PartSample;
use crate::parts::sample::State;
use crate::routes::state::Moment;

/// Something that a part needs and does not have now, while the part goes on with less.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Degradation {
    /// What is lacking: `redis`, `database`, `disk`, `connections`.
    pub name: &'static str,
    /// What that means for requests now, in words.
    pub meaning: String,
    /// For how long, as far as the source knows. Otherwise since a sample had it first.
    pub lasting: Duration,
    /// Whether requests are answered all the same, if more slowly. If not, `/readyz` answers 503.
    pub is_ready: bool,
}

impl Degradation {
    /// A part that is still ready lacks this from now on.
    pub fn new(name: &'static str, meaning: impl Into<String>) -> Degradation {
        Degradation { name, meaning: meaning.into(), lasting: Duration::ZERO, is_ready: true }
    }

    /// Sets for how long the part has lacked it.
    pub fn lasting(mut self, time: Duration) -> Degradation {
        self.lasting = time;
        self
    }

    /// The part does not answer its requests as it should: send it none.
    pub fn not_ready(mut self) -> Degradation {
        self.is_ready = false;
        self
    }
}

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
    use crate::parts::sample::Sample;

    fn parts(degradations: Vec<Degradation>) -> [PartSample; 1] {
        let sample = Sample { degradations, ..Sample::running() };
        [PartSample { name: "shop".to_owned(), kind: "cache", purge_targets: Vec::new(), sample }]
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

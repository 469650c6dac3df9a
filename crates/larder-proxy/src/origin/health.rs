//! Which of the origins gets a request: each in turn, without those that do not answer; and how often they failed.
//!
//! ```text
//! in ── three failures in a row ──► out, for 1 s ── time is over ──► one request probes it
//! ▲                                  ▲                                  │
//! │                                  └── failure: for twice as long ────┤
//! └────────────────────────────────────────── success ────────────────┘
//! ```

use parking_lot::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// Failures in a row after which an origin is left out.
const FAILURES: u32 = 3;
const FIRST_PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_secs(30);

/// The health of all origins.
#[derive(Debug)]
pub(super) struct Health {
    origins: Mutex<Vec<State>>,
    next: AtomicUsize,
}

#[derive(Clone, Copy, Debug, Default)]
struct State {
    /// In a row.
    failures: u32,
    /// Since the start.
    total: u64,
    out: Option<Out>,
}

#[derive(Clone, Copy, Debug)]
struct Out {
    since: Instant,
    until: Instant,
    pause: Duration,
}

impl Health {
    /// That of a number of origins, all of them in.
    pub(super) fn new(origins: usize) -> Health {
        Health { origins: Mutex::new(vec![State::default(); origins]), next: AtomicUsize::new(0) }
    }

    /// The origins in the order in which a request tries them: first those that are in, each request beginning with another
    /// one. If an origin is out and its time is over, it is the first, for this request alone. If all are out, it is the one
    /// whose time ends first.
    pub(super) fn order(&self, now: Instant) -> Vec<usize> {
        let mut origins = self.origins.lock();
        if origins.len() == 1 {
            return vec![0];
        }
        let first = self.next.fetch_add(1, Ordering::Relaxed) % origins.len();
        let turn = (0..origins.len()).map(|index| (first + index) % origins.len());
        let (ins, mut outs): (Vec<usize>, Vec<usize>) = turn.partition(|index| origins[*index].out.is_none());
        let until = |origins: &[State], index: usize| origins[index].out.map(|out| out.until);
        outs.sort_by_key(|index| until(&origins, *index));
        let Some(candidate) = outs.first().copied() else { return ins };
        let is_over = until(&origins, candidate).is_some_and(|until| until <= now);
        if !is_over && !ins.is_empty() {
            return ins;
        }
        if let Some(out) = &mut origins[candidate].out {
            // Others do not probe it meanwhile.
            out.until = now + out.pause;
        }
        std::iter::once(candidate).chain(ins).collect()
    }

    /// An origin has answered. Returns whether it was out.
    pub(super) fn succeeded(&self, origin: usize) -> bool {
        let state = &mut self.origins.lock()[origin];
        state.failures = 0;
        state.out.take().is_some()
    }

    /// An origin did not answer. Returns how often in a row, and for how long it is left out if it was in until now.
    pub(super) fn failed(&self, origin: usize, now: Instant) -> (u32, Option<Duration>) {
        let state = &mut self.origins.lock()[origin];
        state.failures = state.failures.saturating_add(1);
        state.total += 1;
        match &mut state.out {
            Some(out) => {
                out.pause = (out.pause * 2).min(LONGEST_PAUSE);
                out.until = now + out.pause;
                (state.failures, None)
            }
            None if state.failures >= FAILURES => {
                state.out = Some(Out { since: now, until: now + FIRST_PAUSE, pause: FIRST_PAUSE });
                (state.failures, Some(FIRST_PAUSE))
            }
            None => (state.failures, None),
        }
    }

    /// How often each origin failed since the start, and for how long it has been out, if it is.
    pub(super) fn figures(&self, now: Instant) -> Vec<(u64, Option<Duration>)> {
        let down_for = |out: Out| now.saturating_duration_since(out.since);
        self.origins.lock().iter().map(|state| (state.total, state.out.map(down_for))).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn requests_begin_with_each_origin_in_turn() {
        let (health, now) = (Health::new(3), Instant::now());
        let firsts: Vec<usize> = (0..4).map(|_| health.order(now)[0]).collect();
        assert_eq!(firsts, [0, 1, 2, 0]);
        assert_eq!(health.order(now), [1, 2, 0]);
    }

    #[test]
    fn origin_that_fails_is_out_until_a_probe_succeeds() {
        let (health, now) = (Health::new(2), Instant::now());
        assert_eq!(health.failed(0, now), (1, None));
        assert_eq!(health.failed(0, now), (2, None));
        assert_eq!(health.failed(0, now), (3, Some(SECOND)));
        assert_eq!((health.order(now), health.order(now)), (vec![1], vec![1]));
        assert_eq!(health.figures(now + SECOND), [(3, Some(SECOND)), (0, None)]);
        // One request probes it, and has the other one to go on to.
        let later = now + SECOND;
        assert_eq!((health.order(later), health.order(later)), (vec![0, 1], vec![1]));
        assert_eq!(health.failed(0, later), (4, None));
        assert_eq!(health.order(later + SECOND), [1]);
        assert_eq!(health.order(later + 2 * SECOND), [0, 1]);
        assert!(health.succeeded(0) && !health.succeeded(0));
        assert_eq!(health.figures(later)[0], (4, None));
        assert_eq!(health.order(now).len(), 2);
    }

    #[test]
    fn success_between_failures_keeps_an_origin_in() {
        let (health, now) = (Health::new(2), Instant::now());
        for _ in 0..9 {
            assert_eq!(health.failed(0, now), (1, None));
            health.succeeded(0);
        }
    }

    #[test]
    fn if_all_are_out_the_one_whose_time_ends_first_is_tried() {
        let (health, now) = (Health::new(2), Instant::now());
        for _ in 0..3 {
            health.failed(1, now);
            health.failed(0, now + SECOND / 2);
        }
        assert_eq!(health.order(now + SECOND / 2), [1]);
    }

    #[test]
    fn only_origin_is_always_tried() {
        let (health, now) = (Health::new(1), Instant::now());
        for _ in 0..9 {
            health.failed(0, now);
            assert_eq!(health.order(now), [0]);
        }
    }
}

//! What the threads of a soak share: its end, its failures, the times of faults, and what was counted.

use super::judge::{Answer, History, Read, Verdict};
use super::tally::{Answers, Kind, Tally};
use super::windows::{Tier, Windows};
use super::{lock, stop};
use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// How often a thread that waits looks whether the soak is over.
const LOOK: Duration = Duration::from_millis(50);
/// More failures say nothing new.
const MAX_FAILURES: usize = 100;

/// Something that changes, and is read elsewhere: a link or a page.
#[derive(Debug)]
pub(super) struct Resource {
    /// The slug, or the path.
    pub(super) name: String,
    pub(super) history: Mutex<History>,
}

impl Resource {
    pub(super) fn new(name: String, answer: Answer) -> Arc<Self> {
        Arc::new(Resource { name, history: Mutex::new(History::new(answer)) })
    }
}

/// Reads that are due: of what has changed, at the moment from which the old state is wrong.
#[derive(Debug, Default)]
pub(super) struct Probes(Mutex<VecDeque<(Instant, Arc<Resource>)>>);

impl Probes {
    pub(super) fn add(&self, due: Instant, resource: Arc<Resource>) {
        lock(&self.0).push_back((due, resource));
    }

    pub(super) fn next(&self, now: Instant) -> Option<Arc<Resource>> {
        let mut queue = lock(&self.0);
        if queue.front().is_some_and(|(due, _)| *due <= now) {
            return queue.pop_front().map(|(_, resource)| resource);
        }
        None
    }
}

/// The beginning of a request.
#[derive(Clone, Copy, Debug)]
pub(super) struct Begun {
    pub(super) at: Instant,
    is_calm: bool,
}

/// See the head of the file.
#[derive(Debug, Default)]
pub(super) struct Shared {
    is_over: AtomicBool,
    failures: Mutex<Vec<String>>,
    /// Errors that were not expected.
    noted: AtomicUsize,
    pub(super) windows: Windows,
    pub(super) tally: Tally,
    /// Rounds of the tests that passed and that failed.
    pub(super) rounds: Mutex<(u64, u64)>,
}

impl Shared {
    pub(super) fn is_over(&self) -> bool {
        self.is_over.load(Ordering::SeqCst) || stop::is_requested()
    }

    pub(super) fn end(&self) {
        self.is_over.store(true, Ordering::SeqCst);
    }

    /// Waits until a time, or returns false if the soak is over.
    pub(super) fn wait_until(&self, time: Instant) -> bool {
        loop {
            let left = time.saturating_duration_since(Instant::now());
            if self.is_over() || left.is_zero() {
                return !self.is_over();
            }
            std::thread::sleep(left.min(LOOK));
        }
    }

    pub(super) fn wait(&self, time: Duration) -> bool {
        self.wait_until(Instant::now() + time)
    }

    /// The soak goes on, and fails at its end.
    pub(super) fn fail(&self, failure: String) {
        let mut failures = lock(&self.failures);
        if failures.len() < MAX_FAILURES {
            println!("FAILURE: {failure}");
            failures.push(failure);
        }
    }

    pub(super) fn failures(&self) -> Vec<String> {
        lock(&self.failures).clone()
    }

    pub(super) fn begin(&self) -> Begun {
        let at = Instant::now();
        Begun { at, is_calm: self.windows.is_calm(at) }
    }

    /// Counts a request with its error, if it had one, and returns when it ended.
    pub(super) fn record(&self, kind: Kind, begun: Begun, error: Option<String>) -> Instant {
        let now = Instant::now();
        let is_calm = begun.is_calm && self.windows.is_calm(now);
        self.tally.record(kind, now - begun.at, error.is_none(), is_calm);
        if let Some(error) = error.filter(|_| is_calm) {
            self.note(&format!("{} without a fault: {error}", kind.name()));
        }
        now
    }

    /// Prints an error that was not expected, unless there were many.
    fn note(&self, error: &str) {
        if self.noted.fetch_add(1, Ordering::SeqCst) < MAX_FAILURES {
            println!("error: {error}");
        }
    }

    /// Judges what an instance has answered, and counts it.
    pub(super) fn judge(&self, resource: &Resource, tier: Tier, read: Read) {
        let is_excused = |from, to, at| self.windows.excuse(tier, from, to, at);
        let verdict = lock(&resource.history).judge(read, is_excused);
        let Some(verdict) = verdict else { return };
        let answers = Answers {
            judged: 1,
            excused: u64::from(verdict == Verdict::Excused),
            stale: u64::from(matches!(verdict, Verdict::Stale(_))),
        };
        self.tally.judged(answers);
        if let Verdict::Stale(text) = verdict {
            self.fail(format!("stale: {} over {tier:?}: {text}", resource.name));
        }
    }
}

/// Requests at a steady rate, as long as the server keeps up.
#[derive(Debug)]
pub(super) struct Pace {
    next: Instant,
    interval: Duration,
}

impl Pace {
    pub(super) fn per_second(rate: f64) -> Self {
        Pace { next: Instant::now(), interval: Duration::from_secs_f64(1.0 / rate) }
    }

    /// Waits for the time of the next request, or returns false if the soak is over. What was missed in more than a second is not
    /// made up for.
    pub(super) fn wait(&mut self, shared: &Shared) -> bool {
        self.next += self.interval;
        let now = Instant::now();
        if self.next + Duration::from_secs(1) < now {
            self.next = now;
        }
        shared.wait_until(self.next)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn probe_is_returned_once_it_is_due() {
        let (probes, now) = (Probes::default(), Instant::now());
        probes.add(now + Duration::from_secs(1), Resource::new("a".to_owned(), Answer::Absent));
        assert!(probes.next(now).is_none());
        assert_eq!(probes.next(now + Duration::from_secs(1)).unwrap().name, "a");
        assert!(probes.next(now + Duration::from_secs(9)).is_none());
    }

    #[test]
    fn waiting_ends_with_the_soak() {
        let shared = Shared::default();
        assert!(shared.wait(Duration::from_millis(1)));
        shared.end();
        assert!(!shared.wait(Duration::from_secs(3_600)));
    }

    #[test]
    fn stale_answer_is_counted_and_is_a_failure() {
        let shared = Shared::default();
        let resource = Resource::new("a".to_owned(), Answer::Version(1));
        let begun = Instant::now();
        let read = |answer| Read { instance: 0, begun, ended: begun, answer };
        shared.judge(&resource, Tier::Redis, read(Answer::Version(1)));
        shared.judge(&resource, Tier::Redis, read(Answer::Gone));
        let (_, answers) = shared.tally.take();
        assert_eq!((answers.judged, answers.stale, shared.failures().len()), (2, 1, 1));
    }
}

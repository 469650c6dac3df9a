//! Requests, errors and latencies by kind of request, since the last sample.

use super::histogram::Histogram;
use super::lock;
use std::sync::Mutex;
use std::time::Duration;

/// A kind of request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// A short link is followed.
    Redirect,
    /// A link is created.
    Create,
    /// A link gets another target.
    Update,
    /// A link is deleted, or restored.
    Delete,
    Get,
    Set,
    Incr,
    List,
    Hash,
    /// A page through a proxy.
    Page,
    /// A page is purged.
    Purge,
    /// The metrics of a process.
    Metrics,
}

impl Kind {
    pub(super) const ALL: [Kind; 12] = [
        Kind::Redirect,
        Kind::Create,
        Kind::Update,
        Kind::Delete,
        Kind::Get,
        Kind::Set,
        Kind::Incr,
        Kind::List,
        Kind::Hash,
        Kind::Page,
        Kind::Purge,
        Kind::Metrics,
    ];

    pub(super) fn name(self) -> &'static str {
        match self {
            Kind::Redirect => "redirect",
            Kind::Create => "create",
            Kind::Update => "update",
            Kind::Delete => "delete, restore",
            Kind::Get => "GET",
            Kind::Set => "SET",
            Kind::Incr => "INCR",
            Kind::List => "list",
            Kind::Hash => "hash",
            Kind::Page => "page",
            Kind::Purge => "purge",
            Kind::Metrics => "metrics",
        }
    }
}

/// The requests of one kind.
#[derive(Clone, Debug, Default)]
pub(super) struct Requests {
    /// All of them.
    pub(super) count: u64,
    /// Those that failed while there was no fault.
    pub(super) errors: u64,
    /// Those that failed during a fault, as is expected.
    pub(super) fault_errors: u64,
    /// Of those that succeeded while there was no fault.
    pub(super) latencies: Histogram,
}

/// What reads of things that change have returned.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Answers {
    pub(super) judged: u64,
    /// Of them, old ones that a fault excuses.
    pub(super) excused: u64,
    pub(super) stale: u64,
}

impl Answers {
    pub(super) fn add(&mut self, other: Answers) {
        self.judged += other.judged;
        self.excused += other.excused;
        self.stale += other.stale;
    }
}

/// All kinds, and all answers.
#[derive(Debug, Default)]
pub(super) struct Tally {
    requests: Mutex<[Requests; Kind::ALL.len()]>,
    answers: Mutex<Answers>,
}

impl Tally {
    /// A request that took so long. `is_calm` tells whether there was no fault meanwhile.
    pub(super) fn record(&self, kind: Kind, latency: Duration, is_success: bool, is_calm: bool) {
        let requests = &mut lock(&self.requests)[kind as usize];
        requests.count += 1;
        match (is_success, is_calm) {
            (true, true) => requests.latencies.record(latency),
            (true, false) => {}
            (false, true) => requests.errors += 1,
            (false, false) => requests.fault_errors += 1,
        }
    }

    pub(super) fn judged(&self, answers: Answers) {
        lock(&self.answers).add(answers);
    }

    /// What was counted since the last call.
    pub(super) fn take(&self) -> (Vec<(Kind, Requests)>, Answers) {
        let requests = std::mem::take(&mut *lock(&self.requests));
        (Kind::ALL.into_iter().zip(requests).collect(), std::mem::take(&mut *lock(&self.answers)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sample_has_what_was_counted_since_the_last_one() {
        let tally = Tally::default();
        let ms = Duration::from_millis(1);
        tally.record(Kind::Page, ms, true, true);
        tally.record(Kind::Page, ms, true, false);
        tally.record(Kind::Page, ms, false, true);
        tally.judged(Answers { judged: 2, excused: 1, stale: 0 });
        let counts = |requests: &[(Kind, Requests)]| {
            let (_, page) = requests.iter().find(|(kind, _)| *kind == Kind::Page).unwrap();
            (page.count, page.errors, page.fault_errors, page.latencies.count())
        };
        let (requests, answers) = tally.take();
        assert_eq!((counts(&requests), answers.judged), ((3, 1, 0, 1), 2));
        tally.record(Kind::Page, ms, false, false);
        let (requests, answers) = tally.take();
        assert_eq!((counts(&requests), answers), ((1, 0, 1, 0), Answers::default()));
    }
}

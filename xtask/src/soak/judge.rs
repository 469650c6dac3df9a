//! What an answer may be: the judgement of each read of something that changes, by the promise of `docs/coherence.md`.
//!
//! A change is *in effect* on the instance that confirmed it at once, on the others `max_lag` later. A change whose announcement
//! met a fault of the second tier is only queued: on the other instances it is in effect when that fault and the time to recover
//! from it are over. A read may return what the last change before it that is in effect has set, or any later change that had
//! begun before the read ended.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

/// How long after its confirmation a change is in effect on other instances: the default of `max_lag`.
pub(super) const MAX_LAG: Duration = Duration::from_secs(1);
/// More changes than are made to one resource in any time that is judged.
const KEPT: usize = 64;

/// What a resource answers, or a change sets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Answer {
    /// Nothing was ever there.
    Absent,
    /// It was deleted.
    Gone,
    Version(u64),
}

/// How a read is judged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    Fresh,
    /// Old, and only allowed because of a fault.
    Excused,
    /// Old, or what nobody has set: how the resource changed.
    Stale(String),
}

#[derive(Clone, Copy, Debug)]
struct Change {
    answer: Answer,
    /// The instance that was asked; `None` for what was there at the beginning.
    by: Option<usize>,
    begun: Instant,
    /// `None` while it is not known whether it took effect, which may be for ever.
    confirmed: Option<Instant>,
}

/// One read.
#[derive(Clone, Copy, Debug)]
pub(super) struct Read {
    pub(super) instance: usize,
    pub(super) begun: Instant,
    pub(super) ended: Instant,
    pub(super) answer: Answer,
}

/// The last changes of a resource. One thread makes them, one after the other.
#[derive(Debug)]
pub(super) struct History {
    changes: VecDeque<Change>,
    /// Nothing is judged any more: a request without a response may take effect at any later time.
    is_retired: bool,
}

impl History {
    pub(super) fn new(answer: Answer) -> Self {
        let now = Instant::now();
        let first = Change { answer, by: None, begun: now, confirmed: Some(now) };
        History { changes: VecDeque::from([first]), is_retired: false }
    }

    /// A change is about to be requested from this instance.
    pub(super) fn begin(&mut self, by: usize, answer: Answer, now: Instant) {
        self.changes.push_back(Change { answer, by: Some(by), begun: now, confirmed: None });
        if self.changes.len() > KEPT {
            self.changes.pop_front();
        }
    }

    /// The last change was confirmed.
    pub(super) fn confirm(&mut self, now: Instant) {
        if let Some(last) = self.changes.back_mut() {
            last.confirmed = Some(now);
        }
    }

    /// The last change was refused: nothing has changed.
    pub(super) fn refuse(&mut self) {
        self.changes.pop_back();
    }

    pub(super) fn retire(&mut self) {
        self.is_retired = true;
    }

    pub(super) fn is_retired(&self) -> bool {
        self.is_retired
    }

    /// Judges a read; `None` if it cannot be judged. `is_excused` tells whether a fault excuses that a change which was announced
    /// between two times is not known at a third one.
    pub(super) fn judge(
        &self,
        read: Read,
        is_excused: impl Fn(Instant, Instant, Instant) -> bool,
    ) -> Option<Verdict> {
        if self.is_retired {
            return None;
        }
        let in_effect = |change: &Change, excuses: bool| {
            let Some(confirmed) = change.confirmed else { return false };
            match change.by {
                None => true,
                Some(by) if by == read.instance => confirmed <= read.begun,
                Some(_) => {
                    let is_due = confirmed + MAX_LAG < read.begun;
                    is_due && !(excuses && is_excused(change.begun, confirmed + MAX_LAG, read.begun))
                }
            }
        };
        let is_allowed = |excuses| {
            let first = self.changes.iter().rposition(|change| in_effect(change, excuses)).unwrap_or(0);
            let mut later = self.changes.range(first..);
            later.any(|change| change.answer == read.answer && change.begun <= read.ended)
        };
        Some(if is_allowed(false) {
            Verdict::Fresh
        } else if is_allowed(true) {
            Verdict::Excused
        } else {
            Verdict::Stale(self.describe(read))
        })
    }

    /// The last changes, with their times before the beginning of the read.
    fn describe(&self, read: Read) -> String {
        let before = |time: Instant| match read.begun.checked_duration_since(time) {
            Some(before) => format!("{:.3} s before", before.as_secs_f64()),
            None => format!("{:.3} s after", (time - read.begun).as_secs_f64()),
        };
        let last = self.changes.iter().rev().take(5).rev();
        let changes: Vec<String> = last
            .map(|change| {
                let by = change.by.map_or("the beginning".to_owned(), |by| format!("instance {}", by + 1));
                let confirmed = change.confirmed.map_or("never".to_owned(), before);
                let (answer, begun) = (change.answer, before(change.begun));
                format!("{answer:?} by {by}, begun {begun}, confirmed {confirmed}")
            })
            .collect();
        format!("instance {} answered {:?}; changes: {}", read.instance + 1, read.answer, changes.join("; "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use Answer::{Absent, Gone, Version};

    const NEVER: fn(Instant, Instant, Instant) -> bool = |_, _, _| false;

    fn ms(start: Instant, ms: u64) -> Instant {
        start + Duration::from_millis(ms)
    }

    fn read(start: Instant, instance: usize, at_ms: u64, answer: Answer) -> Read {
        Read { instance, begun: ms(start, at_ms), ended: ms(start, at_ms + 10), answer }
    }

    /// Version 1, and version 2 by instance 0 from 1,000 to 1,100 ms.
    fn history() -> (History, Instant) {
        let mut history = History::new(Version(1));
        let start = history.changes[0].begun;
        history.begin(0, Version(2), ms(start, 1_000));
        history.confirm(ms(start, 1_100));
        (history, start)
    }

    #[test]
    fn change_is_in_effect_at_once_where_it_was_confirmed_and_later_elsewhere() {
        let (history, start) = history();
        let is_fresh = |instance, at_ms, answer| {
            history.judge(read(start, instance, at_ms, answer), NEVER) == Some(Verdict::Fresh)
        };
        assert!(is_fresh(0, 1_099, Version(1)) && !is_fresh(0, 1_100, Version(1)));
        assert!(is_fresh(1, 2_100, Version(1)) && !is_fresh(1, 2_101, Version(1)));
        assert!(is_fresh(1, 2_101, Version(2)));
        assert!(!is_fresh(1, 980, Version(2)), "the change had not begun when the read ended");
        assert!(is_fresh(1, 995, Version(2)), "it began during the read");
        assert!(!is_fresh(1, 1_500, Absent) && !is_fresh(1, 1_500, Gone));
    }

    #[test]
    fn unconfirmed_change_may_be_read_until_the_next_one_is_in_effect() {
        let (mut history, start) = history();
        history.begin(1, Gone, ms(start, 3_000));
        let judged = |history: &History, at_ms, answer| {
            history.judge(read(start, 0, at_ms, answer), NEVER).unwrap() == Verdict::Fresh
        };
        assert!(judged(&history, 60_000, Version(2)) && judged(&history, 60_000, Gone));
        history.begin(1, Version(3), ms(start, 61_000));
        history.confirm(ms(start, 61_100));
        assert!(judged(&history, 62_000, Gone));
        assert!(!judged(&history, 62_200, Gone) && judged(&history, 62_200, Version(3)));
    }

    #[test]
    fn refused_change_was_none() {
        let (mut history, start) = history();
        history.begin(1, Gone, ms(start, 3_000));
        history.refuse();
        assert_ne!(history.judge(read(start, 1, 4_000, Gone), NEVER), Some(Verdict::Fresh));
    }

    #[test]
    fn fault_excuses_other_instances_alone() {
        let (history, start) = history();
        let always = |_, _, _| true;
        assert_eq!(history.judge(read(start, 1, 9_000, Version(1)), always), Some(Verdict::Excused));
        let judged = history.judge(read(start, 0, 9_000, Version(1)), always);
        assert!(matches!(judged, Some(Verdict::Stale(text)) if text.contains("Version(2) by instance 1")));
    }

    #[test]
    fn retired_resource_is_not_judged() {
        let (mut history, start) = history();
        history.retire();
        assert_eq!(history.judge(read(start, 0, 9_000, Gone), NEVER), None);
    }
}

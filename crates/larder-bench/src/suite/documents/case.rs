//! Runs of programs in interleaved rounds: each starts its servers anew, may fail or stall without an end of the suite, and
//! tells how long it takes.

use crate::measure::interrupt;
use crate::measure::rounds::{Value, record};
use crate::result::Remark;
use crate::suite::Findings;
use anyhow::Result;
use indicatif::ProgressBar;
use std::time::{Duration, Instant};

/// One subject under one load.
pub(crate) struct Case<'a> {
    /// Cases of one group take turns within a round.
    pub(crate) group: String,
    pub(crate) subject: &'static str,
    /// How long a run takes, with the start of its server.
    pub(crate) estimate: Duration,
    pub(crate) run: Run<'a>,
}

pub(crate) type Run<'a> = Box<dyn FnMut() -> Result<Vec<Outcome>> + 'a>;

/// The figures of a case in one workload.
pub(crate) struct Outcome {
    pub(crate) workload: String,
    pub(crate) values: Vec<Value>,
    pub(crate) remark: Option<String>,
}

/// Runs all cases `rounds` times, group by group. A run that fails becomes a remark, so that one program that does not work
/// does not end a run of an hour. After Ctrl-C the rest is left out.
pub(crate) fn run(cases: Vec<Case<'_>>, rounds: usize, bar: &ProgressBar, findings: &mut Findings) {
    let mut progress = Progress::new(&cases, rounds);
    bar.suspend(|| {
        larder_terminal::remark(&format!("{} runs in about {}", cases.len() * rounds, minutes(progress.left)))
    });
    for mut group in groups(cases) {
        for round in 0..rounds {
            let count = group.len();
            for turn in 0..count {
                if interrupt::is_requested() {
                    return interrupted(findings);
                }
                let case = &mut group[(turn + round) % count];
                bar.set_message(progress.message(case, round, rounds));
                let start = Instant::now();
                match (case.run)() {
                    Ok(outcomes) => outcomes.into_iter().for_each(|outcome| keep(case, outcome, findings)),
                    Err(_) if interrupt::is_requested() => return interrupted(findings),
                    Err(error) => remark(findings, &case.group, case.subject, format!("failed: {error:#}")),
                }
                progress.advance(case, start.elapsed());
            }
        }
    }
}

fn interrupted(findings: &mut Findings) {
    findings.notes.push("Interrupted: the rest was not measured.".to_owned());
}

fn keep(case: &Case<'_>, outcome: Outcome, findings: &mut Findings) {
    for value in outcome.values {
        record(&mut findings.figures, &outcome.workload, case.subject, value);
    }
    if let Some(text) = outcome.remark {
        remark(findings, &outcome.workload, case.subject, text);
    }
}

/// Adds a remark unless an earlier round has left one.
pub(super) fn remark(findings: &mut Findings, workload: &str, subject: &str, text: String) {
    let is_known = |known: &Remark| known.workload == workload && known.subject == subject;
    if !findings.remarks.iter().any(is_known) {
        let (workload, subject) = (workload.to_owned(), subject.to_owned());
        findings.remarks.push(Remark { workload, subject, text });
    }
}

fn groups(cases: Vec<Case<'_>>) -> Vec<Vec<Case<'_>>> {
    let mut groups: Vec<Vec<Case<'_>>> = Vec::new();
    for case in cases {
        match groups.iter_mut().find(|group| group[0].group == case.group) {
            Some(group) => group.push(case),
            None => groups.push(vec![case]),
        }
    }
    groups
}

/// The time that is left, from the estimates and from how well they have held so far.
struct Progress {
    left: Duration,
    estimated: Duration,
    taken: Duration,
}

impl Progress {
    fn new(cases: &[Case<'_>], rounds: usize) -> Self {
        let left = cases.iter().map(|case| case.estimate).sum::<Duration>() * rounds as u32;
        Progress { left, estimated: Duration::ZERO, taken: Duration::ZERO }
    }

    fn advance(&mut self, case: &Case<'_>, taken: Duration) {
        self.left = self.left.saturating_sub(case.estimate);
        self.estimated += case.estimate;
        self.taken += taken;
    }

    fn message(&self, case: &Case<'_>, round: usize, rounds: usize) -> String {
        let factor = match self.estimated.as_secs_f64() {
            0.0 => 1.0,
            estimated => self.taken.as_secs_f64() / estimated,
        };
        let left = minutes(self.left.mul_f64(factor));
        format!("{}: {}, round {} of {rounds}, about {left} left", case.group, case.subject, round + 1)
    }
}

fn minutes(time: Duration) -> String {
    match time.as_secs() {
        seconds @ 0..100 => format!("{seconds} s"),
        seconds => format!("{} min", seconds.div_ceil(60)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::RefCell;

    #[test]
    fn run_takes_turns_and_survives_a_failure() {
        let log = &RefCell::new(Vec::new());
        let case = |group: &str, subject: &'static str, works: bool| {
            let run = move || {
                log.borrow_mut().push(subject);
                anyhow::ensure!(works, "no such program");
                let values = vec![Value::low("n", "1", log.borrow().len() as f64)];
                Ok(vec![Outcome { workload: "w".to_owned(), values, remark: Some("stalled".to_owned()) }])
            };
            let (group, estimate) = (group.to_owned(), Duration::from_secs(60));
            Case { group, subject, estimate, run: Box::new(run) }
        };
        let cases = vec![case("g", "a", true), case("h", "c", true), case("g", "b", false)];
        let mut findings = Findings::default();
        run(cases, 2, &ProgressBar::hidden(), &mut findings);
        assert_eq!(*log.borrow(), ["a", "b", "b", "a", "c", "c"]);
        let rounds: Vec<_> = findings.figures.iter().map(|figure| &figure.rounds[..]).collect();
        assert_eq!(rounds, [[1.0, 4.0], [5.0, 6.0]]);
        let texts: Vec<_> = findings.remarks.iter().map(|remark| (&*remark.subject, &*remark.text)).collect();
        assert_eq!(texts, [("a", "stalled"), ("b", "failed: no such program"), ("c", "stalled")]);
    }

    #[test]
    fn time_left_follows_the_time_that_was_taken() {
        let run = || Ok(Vec::new());
        let case = Case {
            group: "g".to_owned(),
            subject: "a",
            estimate: Duration::from_secs(60),
            run: Box::new(run),
        };
        let mut progress = Progress::new(std::slice::from_ref(&case), 3);
        assert_eq!(progress.message(&case, 0, 3), "g: a, round 1 of 3, about 3 min left");
        progress.advance(&case, Duration::from_secs(120));
        assert_eq!(progress.message(&case, 1, 3), "g: a, round 2 of 3, about 4 min left");
    }
}

//! Runs workloads in rounds. The subjects take turns, so that disturbances of the machine affect all of them.

use crate::measure::clock::Timing;
use crate::result::{Better, Figure};
use anyhow::{Result, ensure};
use indicatif::ProgressBar;

/// Runs the rounds of one subject in one workload.
pub(crate) struct Runner {
    pub(crate) subject: &'static str,
    /// Runs one round.
    pub(crate) round: Box<dyn FnMut() -> Sample>,
}

/// The result of one round of one subject.
pub(crate) struct Sample {
    pub(crate) values: Vec<Value>,
    /// The number of operations that succeeded.
    pub(crate) succeeded: u64,
    /// The number of operations in the round.
    pub(crate) expected: u64,
}

/// One measured value of a round.
pub(crate) struct Value {
    pub(crate) measure: &'static str,
    pub(crate) unit: &'static str,
    pub(crate) better: Better,
    pub(crate) value: f64,
}

impl Value {
    pub(crate) fn low(measure: &'static str, unit: &'static str, value: f64) -> Self {
        Value { measure, unit, better: Better::Lower, value }
    }

    pub(crate) fn high(measure: &'static str, unit: &'static str, value: f64) -> Self {
        Value { measure, unit, better: Better::Higher, value }
    }

    /// The figure of a workload that has one round.
    pub(crate) fn figure(self, workload: &str, subject: &str) -> Figure {
        Figure {
            workload: workload.to_owned(),
            subject: subject.to_owned(),
            measure: self.measure.to_owned(),
            unit: self.unit.to_owned(),
            better: self.better,
            rounds: vec![self.value],
        }
    }
}

impl Sample {
    /// Wall time and processor time per operation, on one thread.
    pub(crate) fn time_per_operation(timing: Timing, operations: usize, succeeded: u64) -> Self {
        let each = |nanos: u128| nanos as f64 / operations as f64;
        let values = vec![
            Value::low("time", "ns", each(timing.wall().as_nanos())),
            Value::low("cpu", "ns", each(timing.cpu.as_nanos())),
        ];
        Sample { values, succeeded, expected: operations as u64 }
    }

    /// Throughput of all threads together, and processor time per operation.
    pub(crate) fn throughput(timing: Timing, operations: usize, succeeded: u64) -> Self {
        let values = vec![
            Value::high("throughput", "M/s", operations as f64 / timing.wall().as_secs_f64() / 1e6),
            Value::low("cpu", "ns", timing.cpu.as_nanos() as f64 / operations as f64),
        ];
        Sample { values, succeeded, expected: operations as u64 }
    }
}

/// Runs a workload: one round to warm up, whose values are dropped, then `rounds` that count. Each round starts with
/// another subject.
///
/// # Errors
/// If an operation failed, for example if a get missed in a workload of hits: the times would not be comparable.
pub(crate) fn run(
    workload: &str,
    runners: &mut [Runner],
    rounds: usize,
    bar: &ProgressBar,
) -> Result<Vec<Figure>> {
    bar.set_message(workload.to_owned());
    let mut figures: Vec<Figure> = Vec::new();
    let subjects = runners.len();
    for round in 0..=rounds {
        for turn in 0..subjects {
            let runner = &mut runners[(turn + round) % subjects];
            let sample = (runner.round)();
            ensure!(
                sample.succeeded == sample.expected,
                "{workload}: {} of {} operations of {} succeeded",
                sample.succeeded,
                sample.expected,
                runner.subject
            );
            if round > 0 {
                sample
                    .values
                    .into_iter()
                    .for_each(|value| record(&mut figures, workload, runner.subject, value));
            }
        }
        bar.tick();
    }
    let position = |figure: &Figure| runners.iter().position(|runner| runner.subject == figure.subject);
    figures.sort_by_key(position);
    Ok(figures)
}

pub(crate) fn record(figures: &mut Vec<Figure>, workload: &str, subject: &str, value: Value) {
    match figures.iter_mut().find(|figure| figure.id() == (workload, value.measure, subject)) {
        Some(figure) => figure.rounds.push(value.value),
        None => figures.push(value.figure(workload, subject)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::RefCell;
    use std::rc::Rc;

    fn runner(subject: &'static str, log: &Rc<RefCell<Vec<&'static str>>>, succeeded: u64) -> Runner {
        let log = log.clone();
        let round = move || {
            log.borrow_mut().push(subject);
            Sample { values: vec![Value::low("n", "1", log.borrow().len() as f64)], succeeded, expected: 2 }
        };
        Runner { subject, round: Box::new(round) }
    }

    #[test]
    fn run_rotates_subjects_and_drops_the_first_round() {
        let log = Rc::default();
        let mut runners = [runner("a", &log, 2), runner("b", &log, 2)];
        let figures = run("w", &mut runners, 2, &ProgressBar::hidden()).unwrap();
        assert_eq!(*log.borrow(), ["a", "b", "b", "a", "a", "b"]);
        let rounds: Vec<_> = figures.iter().map(|f| (f.subject.as_str(), f.rounds.clone())).collect();
        assert_eq!(rounds, [("a", vec![4.0, 5.0]), ("b", vec![3.0, 6.0])]);
    }

    #[test]
    fn run_with_failed_operations_is_an_error() {
        let log = Rc::default();
        let error = run("w", &mut [runner("a", &log, 1)], 1, &ProgressBar::hidden()).unwrap_err();
        assert_eq!(error.to_string(), "w: 1 of 2 operations of a succeeded");
    }
}

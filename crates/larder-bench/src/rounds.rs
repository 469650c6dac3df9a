//! Rounds: subjects in turn, again and again, so that whatever else the machine does falls on all of them.

use crate::clock::Took;
use crate::result::{Better, Figure};
use anyhow::{Result, ensure};
use indicatif::ProgressBar;

/// One subject of a workload.
pub(crate) struct Entrant {
    pub(crate) subject: &'static str,
    /// Does the work of one round.
    pub(crate) round: Box<dyn FnMut() -> Sample>,
}

/// What one round of one subject gave.
pub(crate) struct Sample {
    pub(crate) values: Vec<Value>,
    /// How many operations did what they should.
    pub(crate) succeeded: u64,
    /// How many should have.
    pub(crate) expected: u64,
}

/// One of the measures of a round.
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
}

impl Sample {
    /// Time and processor time of each of `operations` on one thread.
    pub(crate) fn time_per_operation(took: Took, operations: usize, succeeded: u64) -> Self {
        let each = |nanos: u128| nanos as f64 / operations as f64;
        let values = vec![
            Value::low("time", "ns", each(took.wall().as_nanos())),
            Value::low("cpu", "ns", each(took.cpu.as_nanos())),
        ];
        Sample { values, succeeded, expected: operations as u64 }
    }

    /// Throughput of several threads together, and the processor time of each operation.
    pub(crate) fn throughput(took: Took, operations: usize, succeeded: u64) -> Self {
        let values = vec![
            Value::high("throughput", "M/s", operations as f64 / took.wall().as_secs_f64() / 1e6),
            Value::low("cpu", "ns", took.cpu.as_nanos() as f64 / operations as f64),
        ];
        Sample { values, succeeded, expected: operations as u64 }
    }
}

/// Runs a workload: a round that does not count, then `rounds` that do. Each begins with another subject.
///
/// # Errors
/// If operations did not do what they should, such as a get that missed where everything hits: the times would not be
/// comparable.
pub(crate) fn run(
    workload: &str,
    entrants: &mut [Entrant],
    rounds: usize,
    bar: &ProgressBar,
) -> Result<Vec<Figure>> {
    bar.set_message(workload.to_owned());
    let mut figures: Vec<Figure> = Vec::new();
    let subjects = entrants.len();
    for round in 0..=rounds {
        for turn in 0..subjects {
            let entrant = &mut entrants[(turn + round) % subjects];
            let sample = (entrant.round)();
            ensure!(
                sample.succeeded == sample.expected,
                "{workload}: {} of {} operations of {} succeeded",
                sample.succeeded,
                sample.expected,
                entrant.subject
            );
            if round > 0 {
                sample
                    .values
                    .into_iter()
                    .for_each(|value| record(&mut figures, workload, entrant.subject, value));
            }
        }
        bar.tick();
    }
    let place = |figure: &Figure| entrants.iter().position(|entrant| entrant.subject == figure.subject);
    figures.sort_by_key(place);
    Ok(figures)
}

fn record(figures: &mut Vec<Figure>, workload: &str, subject: &str, value: Value) {
    match figures.iter_mut().find(|figure| figure.id() == (workload, value.measure, subject)) {
        Some(figure) => figure.rounds.push(value.value),
        None => figures.push(Figure {
            workload: workload.to_owned(),
            subject: subject.to_owned(),
            measure: value.measure.to_owned(),
            unit: value.unit.to_owned(),
            better: value.better,
            rounds: vec![value.value],
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::RefCell;
    use std::rc::Rc;

    fn entrant(subject: &'static str, log: &Rc<RefCell<Vec<&'static str>>>, succeeded: u64) -> Entrant {
        let log = log.clone();
        let round = move || {
            log.borrow_mut().push(subject);
            Sample { values: vec![Value::low("n", "1", log.borrow().len() as f64)], succeeded, expected: 2 }
        };
        Entrant { subject, round: Box::new(round) }
    }

    #[test]
    fn subjects_take_turns_and_the_first_round_is_dropped() {
        let log = Rc::default();
        let mut entrants = [entrant("a", &log, 2), entrant("b", &log, 2)];
        let figures = run("w", &mut entrants, 2, &ProgressBar::hidden()).unwrap();
        assert_eq!(*log.borrow(), ["a", "b", "b", "a", "a", "b"]);
        let rounds: Vec<_> = figures.iter().map(|f| (f.subject.as_str(), f.rounds.clone())).collect();
        assert_eq!(rounds, [("a", vec![4.0, 5.0]), ("b", vec![3.0, 6.0])]);
    }

    #[test]
    fn counts_must_match() {
        let log = Rc::default();
        let error = run("w", &mut [entrant("a", &log, 1)], 1, &ProgressBar::hidden()).unwrap_err();
        assert_eq!(error.to_string(), "w: 1 of 2 operations of a succeeded");
    }
}

//! The figures of a workload as rows of text, for the terminal and the report.

use crate::result::text::format_spread;
use crate::result::{Figure, OCCURRED, ResultFile, with_unit};

/// The text of a cell without a figure: the subject has no API for the experiment.
const NOT_EXPRESSIBLE: &str = "–";

/// Headings, then a row for each subject; for a workload of events, a row for each event.
pub(crate) fn rows(file: &ResultFile, workload: &str) -> Vec<Vec<String>> {
    if counts_events(file, workload) { events(file, workload) } else { measures(file, workload) }
}

/// Whether the figures of a workload are events instead of amounts.
pub(crate) fn counts_events(file: &ResultFile, workload: &str) -> bool {
    file.measures(workload).iter().all(|(_, unit)| *unit == OCCURRED)
}

/// One row per subject, one column per measure.
fn measures(file: &ResultFile, workload: &str) -> Vec<Vec<String>> {
    let measures = file.measures(workload);
    let headings = measures.iter().map(|(measure, unit)| with_unit(measure, unit));
    let mut rows = vec![std::iter::once(workload.to_owned()).chain(headings).collect()];
    for subject in file.subjects(workload) {
        let cell = |(measure, _): &(&str, &str)| {
            let figure = file.find(workload, measure, subject);
            figure.map_or(String::new(), |figure| format_spread(figure.spread()))
        };
        rows.push(std::iter::once(subject.to_owned()).chain(measures.iter().map(cell)).collect());
    }
    rows
}

/// One row per event, one column per subject.
fn events(file: &ResultFile, workload: &str) -> Vec<Vec<String>> {
    let subjects = file.subjects(workload);
    let headings = std::iter::once(workload).chain(subjects.iter().copied());
    let mut rows = vec![headings.map(str::to_owned).collect()];
    for (event, _) in file.measures(workload) {
        let cell = |subject: &&str| {
            file.find(workload, event, subject).map_or(NOT_EXPRESSIBLE.to_owned(), frequency)
        };
        rows.push(std::iter::once(event.to_owned()).chain(subjects.iter().map(cell)).collect());
    }
    rows
}

/// How often an event occurred: in how many of the rounds or, if some had it for a part of the keys, for how many of these.
pub(crate) fn frequency(figure: &Figure) -> String {
    let (count, sum) = (figure.rounds.len(), figure.rounds.iter().sum::<f64>());
    match sum {
        0.0 => "never".to_owned(),
        sum if sum == count as f64 => "always".to_owned(),
        sum if figure.rounds.iter().all(|share| share.fract() == 0.0) => format!("{sum} of {count}"),
        sum => format!("for {:.0} % of the keys", 100.0 * sum / count as f64),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::result::Better;
    use crate::result::tests::{figure, file};

    #[test]
    fn rows_of_measures_are_subjects() {
        let file = file(vec![
            figure("get", "larder", "time", Better::Lower, &[10.0]),
            figure("get", "moka", "cpu", Better::Lower, &[20.0]),
        ]);
        assert!(!counts_events(&file, "get"));
        let rows = [["get", "time, ns", "cpu, ns"], ["larder", "10.0", ""], ["moka", "", "20.0"]];
        assert_eq!(super::rows(&file, "get"), rows);
    }

    #[test]
    fn rows_of_events_are_events() {
        let event = |subject, event, rounds: &[f64]| Figure {
            unit: OCCURRED.to_owned(),
            ..figure("stale", subject, event, Better::Lower, rounds)
        };
        let file = file(vec![
            event("larder", "a", &[0.0, 0.0]),
            event("larder", "b", &[0.0, 0.0]),
            event("moka", "a", &[1.0, 1.0]),
            event("foyer", "b", &[0.0, 1.0]),
        ]);
        let rows = [
            ["stale", "larder", "moka", "foyer"],
            ["a", "never", "always", "–"],
            ["b", "never", "–", "1 of 2"],
        ];
        assert_eq!(super::rows(&file, "stale"), rows);
    }
}

//! The tables of the suite `scale`: what a node and an announcement cost, and what that comes to with many nodes.

use super::super::model::{Cost, Manner, Model};
use crate::result::ResultFile;
use crate::result::text::{format_number, format_spread};
use anyhow::{Context, Result};
use std::fmt::Write;

const SUITE: &str = "scale";
const NODES: [f64; 4] = [10.0, 100.0, 1_000.0, 10_000.0];
/// The deletions in a second of all nodes together.
const RATES: [f64; 2] = [100.0, 1_000.0];

/// The measured constants: workload, measure, the symbol in the formulas, and what it is.
const CONSTANTS: [(&str, &str, &str, &str); 14] = [
    ("heartbeat", "server cpu", "h", "a heartbeat, on the primary"),
    ("heartbeat", "client cpu", "", "a heartbeat, on the node"),
    ("heartbeat", "cpu of the sentinels", "", "a heartbeat, on the sentinels together"),
    ("delete alone", "server cpu", "x", "a deletion alone, on the primaries"),
    ("delete alone", "server cpu for each node", "δ", "its announcement, for each node"),
    ("delete alone", "client cpu for each node", "", "the same, on the node"),
    ("delete in bursts", "server cpu", "x", "a deletion in a burst of 100, on the primaries"),
    ("delete in bursts", "server cpu for each node", "δ", "its announcement, for each node"),
    ("delete in bursts", "client cpu for each node", "", "the same, on the node"),
    ("delete of 100 keys", "server cpu", "x", "a call that deletes 100 keys, on the primaries"),
    ("delete of 100 keys", "server cpu for each node", "δ", "its announcements, for each node"),
    ("delete alone", "sent to each node", "m", "the announcement of one key"),
    ("memory", "connections of a node", "c", "connections of a node to a primary"),
    ("memory", "for each connection", "", "memory of the server for each of them"),
];

pub(super) fn constants(files: &[ResultFile]) -> Result<String> {
    let file = super::result_of(files, SUITE)?;
    let subjects = file.subjects("heartbeat");
    let mut table =
        format!("| | what | {} |\n|---|---|{}\n", subjects.join(" | "), "---|".repeat(subjects.len()));
    for (workload, measure, symbol, what) in CONSTANTS {
        let cells = subjects.iter().map(|subject| {
            let Some(figure) = file.find(workload, measure, subject) else { return "–".to_owned() };
            let spread = figure.spread();
            // A line through points may say nothing: its noise is above its value.
            match spread.low > 0.0 {
                true => format!("{} {}", format_spread(spread), figure.unit).trim_end().to_owned(),
                false => "–".to_owned(),
            }
        });
        writeln!(table, "| {symbol} | {what} | {} |", cells.collect::<Vec<_>>().join(" | "))?;
    }
    Ok(table)
}

pub(super) fn model(files: &[ResultFile]) -> Result<String> {
    let file = super::result_of(files, SUITE)?;
    let mut table = String::from("| nodes | heartbeats alone |");
    let columns: Vec<(&str, Manner, f64)> =
        RATES.into_iter().flat_map(|rate| Manner::ALL.map(|manner| (manner.words(), manner, rate))).collect();
    for (words, _, rate) in &columns {
        write!(table, " {} deletions/s {words} |", format_number(*rate))?;
    }
    table += " connections of a primary |\n";
    writeln!(table, "|---|---|{}---|", "---|".repeat(columns.len()))?;
    for (name, primaries) in [("one server", 1.0), ("cluster of 3", 3.0)] {
        let models = Manner::ALL.map(|manner| Model::of(file, name, primaries, manner));
        let models: Vec<Model> =
            models.into_iter().collect::<Option<_>>().with_context(|| format!("no constants of {name}"))?;
        let of = |manner: Manner| models[manner as usize];
        for nodes in NODES {
            let share = |cost: Cost| {
                let percent = format!("{} %", format_number(cost.share * 100.0));
                if cost.share > 1.0 { format!("**{percent}**") } else { percent }
            };
            write!(
                table,
                "| {} on {name} | {} |",
                format_number(nodes),
                share(of(Manner::Alone).at(nodes, 0.0))
            )?;
            for (_, manner, rate) in &columns {
                write!(table, " {} |", share(of(*manner).at(nodes, *rate)))?;
            }
            writeln!(table, " {} |", format_number(of(Manner::Alone).at(nodes, 0.0).connections))?;
        }
        write!(
            table,
            "| a core is full on {name} | {} |",
            format_number(of(Manner::Alone).nodes_at_full_core(0.0))
        )?;
        for (_, manner, rate) in &columns {
            write!(table, " {} |", format_number(of(*manner).nodes_at_full_core(*rate)))?;
        }
        writeln!(table, " {} with 10,000 |", format_number(10_000.0 / of(Manner::Alone).connections))?;
    }
    Ok(table)
}

/// The measured shares of a core beside those of the model.
pub(super) fn measured(files: &[ResultFile]) -> Result<String> {
    let file = super::result_of(files, SUITE)?;
    let mut table = String::from(
        "| nodes | 0 deletions/s, measured | by the formula | 100 deletions/s, measured | by the formula |\n|---|---|---|---|---|\n",
    );
    for (name, primaries) in [("one server", 1.0), ("cluster of 3", 3.0)] {
        let model = Model::of(file, name, primaries, Manner::Alone)
            .with_context(|| format!("no constants of {name}"))?;
        let workload = format!("share, {name}");
        for subject in file.subjects(&workload) {
            let nodes: f64 = subject
                .split(' ')
                .next()
                .and_then(|count| count.parse().ok())
                .context("no number of nodes")?;
            write!(table, "| {} on {name} |", format_number(nodes))?;
            for (measure, rate) in [("0/s", 0.0), ("100/s", 100.0)] {
                let figure = file.find(&workload, measure, subject).context("no share of a core")?;
                let expected = model.at(nodes, rate).share * 100.0;
                write!(table, " {} % | {} % |", format_spread(figure.spread()), format_number(expected))?;
            }
            table.push('\n');
        }
    }
    Ok(table)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::result::Better;
    use crate::result::tests::{figure, file};

    fn results() -> Vec<ResultFile> {
        let mut figures = Vec::new();
        for subject in ["one server", "cluster of 3"] {
            let mut add = |workload: &str, subject: &str, measure: &str, rounds: &[f64]| {
                figures.push(figure(workload, subject, measure, Better::Lower, rounds));
            };
            add("heartbeat", subject, "server cpu", &[10.0, 12.0, 11.0]);
            add("heartbeat", subject, "client cpu", &[-1.0, 30.0, 20.0]);
            for workload in ["delete alone", "delete in bursts"] {
                add(workload, subject, "server cpu", &[20.0]);
                add(workload, subject, "server cpu for each node", &[3.0]);
            }
            add("memory", subject, "connections of a node", &[6.0]);
            add(&format!("share, {subject}"), "51 nodes", "0/s", &[0.25]);
            add(&format!("share, {subject}"), "51 nodes", "100/s", &[2.0]);
        }
        vec![ResultFile { suite: SUITE.to_owned(), ..file(figures) }]
    }

    #[test]
    fn constant_whose_noise_is_above_its_value_is_a_dash() {
        let table = constants(&results()).unwrap();
        assert!(table.contains("| h | a heartbeat, on the primary | 11.0 (10.0–12.0) ns |"), "{table}");
        assert!(table.contains("|  | a heartbeat, on the node | – | – |"), "{table}");
    }

    #[test]
    fn model_marks_what_no_server_bears() {
        let table = model(&results()).unwrap();
        // 1,000 deletions that 10,000 nodes hear, and 40,000 heartbeats.
        assert!(
            table.contains("**3,046 %**") && table.contains("| 10.0 on one server | 0.0440 % |"),
            "{table}"
        );
        assert_eq!(table.lines().count(), 2 + 2 * (NODES.len() + 1), "{table}");
        let columns = |line: &str| line.matches('|').count();
        assert!(table.lines().all(|line| columns(line) == columns(table.lines().next().unwrap())), "{table}");
    }

    #[test]
    fn measured_shares_are_beside_those_of_the_formula() {
        let table = measured(&results()).unwrap();
        assert!(table.contains("| 51.0 on one server | 0.250 % | 0.224 % | 2.00 % | 1.95 % |"), "{table}");
    }
}

//! The command `quick`: measures one crate beside its peers in some ten seconds, and prints a table with a ratio in each row.

use crate::measure::interrupt;
use crate::result::text::{format_number, range};
use crate::result::{Figure, Relation, Spread, with_unit};
use crate::suite::Length;
use crate::suite::quick::{Part, measure};
use anyhow::Result;
use clap::Args;
use indicatif::ProgressBar;
use larder_terminal::Table;

/// The subject whose figures are compared.
const OURS: &str = "larder";

/// The measures that other processes change least. Lower is better.
const MEASURES: [&str; 2] = ["cpu", "allocations"];

/// Flags of `quick`.
#[derive(Debug, Args)]
pub struct QuickArgs {
    /// The part of Larder that was changed.
    #[arg(value_name = "PART")]
    part: Part,
}

/// Measures a part and prints the table.
pub(crate) fn run(args: &QuickArgs) -> Result<()> {
    let temporary = interrupt::listen(None)?;
    let bar = ProgressBar::new_spinner();
    let mut notes = Vec::new();
    let figures = measure(args.part, Length::USUAL, &bar, &mut notes);
    interrupt::await_exit();
    drop(temporary);
    bar.finish_and_clear();
    let mut text = Table::of(rows(&figures?)).to_string();
    text += "Medians of rounds in turns. A ratio below 1: larder is cheaper.\n";
    if cfg!(debug_assertions) {
        text += "Built without optimisation: the figures are meaningless.\n";
    }
    notes.iter().for_each(|note| text += &format!("{note}\n"));
    larder_terminal::print(&text)
}

/// Headings, then a row for each figure of ours and each peer that has it too.
fn rows(figures: &[Figure]) -> Vec<Vec<String>> {
    let headings = ["workload", "figure", OURS, "peer", "its figure", "ratio", "of the rounds"];
    let mut rows = vec![headings.map(str::to_owned).to_vec()];
    for ours in figures.iter().filter(|figure| figure.subject == OURS && is_shown(figure)) {
        let is_peer = |figure: &&Figure| {
            figure.subject != OURS && (&figure.workload, &figure.measure) == (&ours.workload, &ours.measure)
        };
        for theirs in figures.iter().filter(is_peer) {
            let ratio = Spread::of(ours.related(theirs, Relation::Ratio));
            rows.push(vec![
                ours.workload.clone(),
                with_unit(&ours.measure, &ours.unit),
                format_number(ours.spread().median),
                theirs.subject.clone(),
                format_number(theirs.spread().median),
                format_number(ratio.median),
                range(ratio),
            ]);
        }
    }
    rows
}

fn is_shown(figure: &Figure) -> bool {
    MEASURES.contains(&figure.measure.as_str())
}

#[cfg(test)]
mod tests {
    use super::*;

    const PEERS: [&str; 2] = ["moka", "quick_cache"];

    /// The workload, the measure and the peer of each row, in the order of their names. Each row has a ratio.
    fn measured(part: Part) -> Vec<[String; 3]> {
        let length = Length { rounds: 1, divisor: 100 };
        let figures = measure(part, length, &ProgressBar::hidden(), &mut Vec::new()).unwrap();
        let row = |row: Vec<String>| {
            let [workload, measure, ours, peer, theirs, ratio, _] = row.try_into().unwrap();
            for number in [ours, theirs, ratio] {
                assert!(number.replace(',', "").parse::<f64>().unwrap() > 0.0, "{workload} {peer}: {number}");
            }
            [workload, measure, peer]
        };
        let mut rows: Vec<_> = rows(&figures).into_iter().skip(1).map(row).collect();
        rows.sort();
        rows
    }

    fn expected(measure: &str, rows: &[(&str, &[&str])]) -> Vec<[String; 3]> {
        let row = |workload: &str, peer: &str| [workload, measure, peer].map(str::to_owned);
        let rows = rows.iter().flat_map(|(workload, peers)| peers.iter().map(|peer| row(workload, peer)));
        let mut rows: Vec<_> = rows.collect();
        rows.sort();
        rows
    }

    #[test]
    fn quick_has_a_row_for_each_workload_and_peer() {
        let engine = ["get-zipf", "get-absent", "insert-evict", "fetch-absent"];
        assert_eq!(
            measured(Part::Engine),
            expected("cpu, ns", &engine.map(|workload| (workload, &PEERS[..])))
        );
        let tiers = ["memory-hit", "read-absent", "write-absent", "fetch-absent"];
        assert_eq!(
            measured(Part::Larder),
            expected("cpu, ns", &tiers.map(|workload| (workload, &PEERS[..])))
        );
        let (both, one): (&[&str], &[&str]) = (&["no cache", "axum"], &["no cache"]);
        let http = [("hit-1kb", both), ("miss-1kb", one), ("hit-1kb-50", both), ("hit-graphql-1kb-50", both)];
        assert_eq!(measured(Part::Http), expected("cpu, µs", &http));
    }
}

//! The suite `hit-ratio`: all policies and peers with published traces, in forty cells of trace and capacity.
//!
//! The traces are not part of the project. If their folder has the file `REFERENCE-HIT-RATIOS.txt`, with lines of the
//! form `web07 size=1024: opt=63.72 lru=50.56 s3=54.11`, the suite also computes the gap to the best policy of each
//! line.

use super::{Findings, Plan, Suite, Target};
use crate::hit_ratio::{HitRatioArgs, replay_file};
use crate::result::{Better, Figure, Spread};
use crate::trace::Format;
use anyhow::{Context, Result};
use indicatif::ProgressBar;
use std::collections::HashMap;
use std::path::Path;

/// Replays of each cell: the hash seed differs between them, and with it the distribution to shards.
const ROUNDS: usize = 3;
const MEASURE: &str = "hit ratio";
const REFERENCE_FILE: &str = "REFERENCE-HIT-RATIOS.txt";
/// The optimum, which is not a policy.
const OPTIMUM: &str = "opt";

/// The trace whose hit ratio depends only on how a policy treats one scan.
const SCAN_ALONE: &str = "corda";

struct Trace {
    name: &'static str,
    file: &'static str,
    format: Format,
    capacities: &'static [u64],
    /// Too long for a quick run.
    long: bool,
}

const fn trace(name: &'static str, file: &'static str, format: Format, capacities: &'static [u64]) -> Trace {
    Trace { name, file, format, capacities, long: false }
}

const fn long(trace: Trace) -> Trace {
    Trace { long: true, ..trace }
}

const TRACES: &[Trace] = &[
    trace("loop", "lirs/loop.trace.gz", Format::Lirs, &[256, 512, 1000]),
    trace("gli", "lirs/gli.trace.gz", Format::Lirs, &[250, 500, 1000, 1500, 2000]),
    trace("multi1", "lirs/multi1.trace.gz", Format::Lirs, &[500, 1000, 1800]),
    trace("cpp", "lirs/cpp.trace.gz", Format::Lirs, &[50, 100, 400]),
    trace("cs", "lirs/cs.trace.gz", Format::Lirs, &[200, 600, 1000]),
    trace("zigzag", "lirs/zigzag.trace.gz", Format::Lirs, &[400, 800, 1600]),
    trace("scan", "lirs/scan.trace.gz", Format::Lirs, &[400, 1600]),
    trace("OLTP", "arc/OLTP.lis.zst", Format::Arc, &[250, 500, 1000, 2000, 8192]),
    trace("web07", "cache2k/web07.trace.xz", Format::I32be, &[1024, 4096, 16384]),
    trace(SCAN_ALONE, "corda/trace_vaultservice.gz", Format::U64be, &[512, 1024, 8192]),
    trace(
        "cloudPhysicsIO-unit",
        "cloudphysics/cloudPhysicsIO.oracleGeneral.bin.xz",
        Format::Oracle,
        &[1000, 4096, 16384],
    ),
    long(trace("P3", "arc/P3.lis.zst", Format::Arc, &[20_000, 65_536, 160_000])),
    long(trace("orm-night", "cache2k/orm-night.trace.xz", Format::I32be, &[1024])),
];

pub(crate) struct HitRatio;

impl Suite for HitRatio {
    fn name(&self) -> &'static str {
        "hit-ratio"
    }

    fn description(&self) -> &'static str {
        "hit ratios of all policies and peers, with the traces in the folder of --traces"
    }

    fn crates(&self) -> &'static [&'static str] {
        super::engine::CRATES
    }

    fn targets(&self) -> Vec<Target> {
        vec![
            Target::lead("mean", MEASURE, "quick_cache", 2.0),
            Target::lead("mean without corda", MEASURE, "quick_cache", 1.2),
            Target::lead("mean", MEASURE, "moka", 1.0),
            Target::lead("mean without corda", MEASURE, "moka", 0.0),
            Target::value("mean gap", "to the best known", 1.8),
        ]
    }

    fn measure(&self, plan: &Plan, bar: &ProgressBar) -> Result<Findings> {
        let mut findings = Findings::default();
        let Some(folder) = &plan.traces else {
            findings
                .notes
                .push("Nothing was measured: set the folder of the traces with --traces.".to_owned());
            return Ok(findings);
        };
        let mut cells = Vec::new();
        for trace in TRACES.iter().filter(|trace| !(plan.quick && trace.long)) {
            for &capacity in trace.capacities {
                bar.set_message(format!("{} at {capacity}", trace.name));
                cells.push(Cell::measure(folder, trace, capacity, if plan.quick { 1 } else { ROUNDS })?);
            }
        }
        findings.figures = means(&cells);
        findings.figures.extend(gaps(&cells, &best_known(folder)?));
        for peer in ["quick_cache", "moka"] {
            findings.notes.push(lead_note(&cells, peer));
        }
        findings.notes.push(format!("{} cells.", cells.len()));
        findings.figures.extend(cells.into_iter().flat_map(|cell| cell.figures));
        Ok(findings)
    }
}

/// The hit ratios of all subjects with one trace and one capacity.
struct Cell {
    trace: &'static str,
    capacity: u64,
    figures: Vec<Figure>,
}

impl Cell {
    fn measure(folder: &Path, trace: &Trace, capacity: u64, rounds: usize) -> Result<Self> {
        let mut cell = Cell { trace: trace.name, capacity, figures: Vec::new() };
        let args = HitRatioArgs::all(folder.join(trace.file), trace.format, capacity);
        for _ in 0..rounds {
            for row in replay_file(&args)? {
                cell.record(row.subject(), 100.0 * row.hit_ratio);
            }
        }
        Ok(cell)
    }

    fn record(&mut self, subject: String, percent: f64) {
        match self.figures.iter_mut().find(|figure| figure.subject == subject) {
            Some(figure) => figure.rounds.push(percent),
            None => {
                let workload = format!("{} at {}", self.trace, self.capacity);
                self.figures.push(figure(&workload, MEASURE, "%", &subject, Better::Higher, vec![percent]));
            }
        }
    }

    fn median(&self, subject: &str) -> Option<f64> {
        self.figures.iter().find(|figure| figure.subject == subject).map(|figure| figure.spread().median)
    }
}

fn figure(
    workload: &str,
    measure: &str,
    unit: &str,
    subject: &str,
    better: Better,
    rounds: Vec<f64>,
) -> Figure {
    let [workload, measure, unit, subject] = [workload, measure, unit, subject].map(str::to_owned);
    Figure { workload, subject, measure, unit, better, rounds }
}

/// The mean of each subject over all cells, and over all but those of one trace.
fn means(cells: &[Cell]) -> Vec<Figure> {
    let Some(first) = cells.first() else { return Vec::new() };
    let mut figures = Vec::new();
    for (workload, without) in [("mean", None), ("mean without corda", Some(SCAN_ALONE))] {
        for subject in first.figures.iter().map(|figure| &figure.subject) {
            let cells = cells.iter().filter(|cell| Some(cell.trace) != without);
            let values: Vec<f64> = cells.filter_map(|cell| cell.median(subject)).collect();
            figures.push(figure(workload, MEASURE, "%", subject, Better::Higher, vec![mean(&values)]));
        }
    }
    figures
}

/// The mean distance of each subject from the best known hit ratio of each cell.
fn gaps(cells: &[Cell], known: &HashMap<(String, u64), f64>) -> Vec<Figure> {
    let Some(first) = cells.first().filter(|_| !known.is_empty()) else { return Vec::new() };
    let gap = |cell: &Cell, subject: &str| {
        let known = known.get(&(cell.trace.to_owned(), cell.capacity));
        Some((known? - cell.median(subject)?).max(0.0))
    };
    let subjects = first.figures.iter().map(|figure| &figure.subject);
    subjects
        .map(|subject| {
            let gaps: Vec<f64> = cells.iter().filter_map(|cell| gap(cell, subject)).collect();
            figure("mean gap", "to the best known", "points", subject, Better::Lower, vec![mean(&gaps)])
        })
        .collect()
}

/// The lead over a peer by cell, as a note.
fn lead_note(cells: &[Cell], peer: &str) -> String {
    let leads = cells.iter().filter_map(|cell| Some(cell.median("larder")? - cell.median(peer)?));
    let spread = Spread::of(leads);
    format!(
        "Lead over {peer} by cell: median {:+.2} points, from {:+.2} to {:+.2}.",
        spread.median, spread.low, spread.high
    )
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len().max(1) as f64
}

/// The best hit ratio of any policy by trace and capacity; empty if the folder has no reference file.
fn best_known(folder: &Path) -> Result<HashMap<(String, u64), f64>> {
    let path = folder.join(REFERENCE_FILE);
    if !path.exists() {
        return Ok(HashMap::new());
    }
    let text = std::fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
    Ok(text.lines().filter_map(parse_reference).collect())
}

/// `web07 size=1024: opt=63.72 lru=50.56 s3=54.11`
fn parse_reference(line: &str) -> Option<((String, u64), f64)> {
    let (head, ratios) = line.split_once(": ")?;
    let (name, capacity) = head.split_once(" size=")?;
    let policies = ratios.split_ascii_whitespace().filter_map(|ratio| ratio.split_once('='));
    let best =
        policies.filter(|(policy, _)| *policy != OPTIMUM).filter_map(|(_, percent)| percent.parse().ok());
    Some(((name.to_owned(), capacity.parse().ok()?), best.fold(0.0, f64::max)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn traces_have_forty_cells() {
        assert_eq!(TRACES.iter().map(|trace| trace.capacities.len()).sum::<usize>(), 40);
    }

    #[test]
    fn reference_line_ignores_the_optimum() {
        let parsed = parse_reference("web07 size=1024: opt=63.72 lru=50.56 s3=54.11").unwrap();
        assert_eq!(parsed, (("web07".to_owned(), 1024), 54.11));
        assert_eq!(parse_reference("# a comment: with a colon"), None);
    }

    #[test]
    fn measure_without_traces_returns_a_note_and_no_figures() {
        let plan = Plan { quick: true, seed: 1, pairs: None, traces: None };
        let findings = HitRatio.measure(&plan, &ProgressBar::hidden()).unwrap();
        assert!(findings.figures.is_empty() && findings.notes[0].contains("--traces"));
    }

    #[test]
    fn means_and_gaps_average_over_cells() {
        let cell = |trace, capacity, ours, theirs| {
            let mut cell = Cell { trace, capacity, figures: Vec::new() };
            cell.record("larder".to_owned(), ours);
            cell.record("moka".to_owned(), theirs);
            cell
        };
        let cells = [cell("a", 1, 50.0, 40.0), cell(SCAN_ALONE, 2, 30.0, 10.0)];
        let value = |figures: &[Figure], workload: &str, subject: &str| {
            figures.iter().find(|f| f.workload == workload && f.subject == subject).unwrap().rounds[0]
        };
        let means = means(&cells);
        assert_eq!((value(&means, "mean", "larder"), value(&means, "mean", "moka")), (40.0, 25.0));
        assert_eq!(value(&means, "mean without corda", "moka"), 40.0);
        let known = HashMap::from([(("a".to_owned(), 1), 52.0), ((SCAN_ALONE.to_owned(), 2), 20.0)]);
        assert_eq!(value(&gaps(&cells, &known), "mean gap", "larder"), 1.0);
        assert_eq!(
            lead_note(&cells, "moka"),
            "Lead over moka by cell: median +15.00 points, from +10.00 to +20.00."
        );
    }
}

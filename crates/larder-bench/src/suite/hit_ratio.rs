//! The suite `hit-ratio`: all policies and peers, in forty cells of published trace and capacity, and in 32 cells of
//! generated workload and capacity.
//!
//! The generated workloads are for the traffic that the traces lack: they favour recency, or change. Their seed is that
//! of the run, so that another seed tests what was tuned on the first. Fifteen more cells are of values that expire.
//!
//! The traces are not part of the project. If their folder has the file `REFERENCE-HIT-RATIOS.txt`, with lines of the
//! form `web07 size=1024: opt=63.72 lru=50.56 s3=54.11`, the suite also computes the gap to the best policy of each
//! line.

use super::{Findings, Plan, Suite, Target};
use crate::hit_ratio::{HitRatioArgs, Source, replay_source};
use crate::result::{Better, Figure, Spread};
use crate::trace::Format;
use crate::workload::Synthetic;
use anyhow::{Context, Result};
use indicatif::ProgressBar;
use std::collections::HashMap;
use std::path::Path;

/// Replays of each cell: the hash seed differs between them, and with it the distribution to shards.
const ROUNDS: usize = 3;
const MEASURE: &str = "hit ratio";
const GENERATED_MEAN: &str = "mean of generated";
const EXPIRING_MEAN: &str = "mean of expiring";
const WORST_EXPIRING: &str = "worst of expiring";
const BEHIND: &str = "behind lru or s3fifo";
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

/// Generated workloads and their capacities; the number of requests and the seed are set by the run.
const WORKLOADS: &[(&str, &[u64])] = &[
    ("stack:keys=50000,skew=0.8", &[1000, 4000, 16_000]),
    ("stack:keys=50000,skew=1.2", &[250, 2000, 16_000]),
    ("zipf:keys=100000,skew=0.9", &[1000, 5000, 25_000]),
    ("zipf:keys=100000,skew=0.8,drift=0.1", &[1000, 5000, 25_000]),
    ("zipf:keys=100000,skew=1,drift=0.5", &[1000, 5000, 25_000]),
    ("loop:keys=2000", &[500, 1800]),
    ("loop:keys=20000", &[10_000]),
    ("window:keys=3000,drift=0.1", &[1500, 3000]),
    ("window:keys=20000,drift=0.3", &[5000, 20_000]),
    ("scan:keys=20000,skew=0.9,length=2000,share=0.3", &[500, 4000]),
    ("scan:keys=50000,skew=0.7,length=20000,share=0.5", &[5000, 15_000]),
    ("phases:keys=2000,skew=0.6,length=20000", &[500, 1500]),
    ("phases:keys=10000,skew=0.9,length=100000", &[1000, 4000]),
    ("phases:keys=20000,skew=0,length=100000", &[5000, 15_000]),
];
const WORKLOAD_REQUESTS: u32 = 400_000;

/// Generated workloads whose values expire.
const EXPIRING: &[(&str, &[u64])] = &[
    ("expiry:keys=50000,skew=0.9,ttl=5000", &[1000, 5000, 20_000]),
    ("expiry:keys=50000,skew=0.9,ttl=50000", &[1000, 5000, 20_000]),
    ("expiry:keys=50000,skew=0.9,ttl=300000", &[1000, 5000, 20_000]),
    ("expiry:keys=50000,skew=0.9,ttl=50000,bound=1", &[1000, 5000, 20_000]),
    ("expiry:keys=50000,skew=0.9,ttl=50000,bound=-1", &[1000, 5000, 20_000]),
];

pub(crate) struct HitRatio;

impl Suite for HitRatio {
    fn name(&self) -> &'static str {
        "hit-ratio"
    }

    fn description(&self) -> &'static str {
        "hit ratios of all policies and peers: generated workloads, and the traces in the folder of --traces"
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
            Target::lead(GENERATED_MEAN, MEASURE, "quick_cache", 2.5),
            Target::lead(GENERATED_MEAN, MEASURE, "moka", 9.0),
            Target::lead(GENERATED_MEAN, MEASURE, "larder lru", 6.0),
            Target::lead(GENERATED_MEAN, MEASURE, "larder s3fifo", 2.0),
            Target::lead(EXPIRING_MEAN, MEASURE, "quick_cache", 0.0),
            Target::value(WORST_EXPIRING, BEHIND, 1.0),
        ]
    }

    fn measure(&self, plan: &Plan, bar: &ProgressBar) -> Result<Findings> {
        let mut findings = Findings::default();
        measure_traces(plan, bar, &mut findings)?;
        measure_workloads(plan, bar, &mut findings)?;
        measure_expiring(plan, bar, &mut findings)?;
        Ok(findings)
    }
}

fn measure_traces(plan: &Plan, bar: &ProgressBar, findings: &mut Findings) -> Result<()> {
    let Some(folder) = &plan.traces else {
        findings.notes.push("No traces were measured: set their folder with --traces.".to_owned());
        return Ok(());
    };
    let mut cells = Vec::new();
    for trace in TRACES.iter().filter(|trace| !(plan.quick && trace.long)) {
        let source = Source::Trace { path: folder.join(trace.file), format: trace.format };
        for &capacity in trace.capacities {
            cells.push(Cell::measure(trace.name, &source, capacity, plan, bar)?);
        }
    }
    findings.figures.extend(means(&cells, "mean", None));
    findings.figures.extend(means(&cells, "mean without corda", Some(SCAN_ALONE)));
    findings.figures.extend(gaps(&cells, &best_known(folder)?));
    findings.record(cells, "traces");
    Ok(())
}

fn measure_workloads(plan: &Plan, bar: &ProgressBar, findings: &mut Findings) -> Result<()> {
    let mut cells = Vec::new();
    for &(name, capacities) in WORKLOADS {
        for &capacity in capacities {
            cells.push(Cell::measure(name, &generated(name, plan.seed), capacity, plan, bar)?);
        }
    }
    findings.figures.extend(means(&cells, GENERATED_MEAN, None));
    findings.record(cells, "generated workloads");
    Ok(())
}

fn measure_expiring(plan: &Plan, bar: &ProgressBar, findings: &mut Findings) -> Result<()> {
    let mut cells = Vec::new();
    for &(name, capacities) in EXPIRING {
        for &capacity in capacities {
            cells.push(Cell::measure(name, &generated(name, plan.seed), capacity, plan, bar)?);
        }
    }
    findings.figures.extend(means(&cells, EXPIRING_MEAN, None));
    findings.figures.push(farthest_behind(&cells));
    findings.record(cells, "workloads whose values expire");
    Ok(())
}

/// How far the default policy is behind the better of two simple ones, where it is farthest.
fn farthest_behind(cells: &[Cell]) -> Figure {
    let behind = |cell: &Cell| {
        let simple = ["larder lru", "larder s3fifo"].map(|policy| cell.median(policy).unwrap_or(0.0));
        simple[0].max(simple[1]) - cell.median("larder").unwrap_or(0.0)
    };
    let farthest = cells.iter().map(behind).fold(f64::MIN, f64::max);
    figure(WORST_EXPIRING, BEHIND, "points", "larder", Better::Lower, vec![farthest])
}

/// Each trace with the largest of its capacities; without a folder of traces, a generated workload.
pub(super) fn largest_cells(plan: &Plan) -> Vec<(&'static str, Source, u64)> {
    let Some(folder) = &plan.traces else {
        let (name, capacities) = WORKLOADS[2];
        return vec![(name, generated(name, plan.seed), capacities[1])];
    };
    let traces = TRACES.iter().filter(|trace| !(plan.quick && trace.long));
    let cell = |trace: &Trace| {
        let source = Source::Trace { path: folder.join(trace.file), format: trace.format };
        (trace.name, source, trace.capacities.iter().copied().max().unwrap_or(0))
    };
    traces.map(cell).collect()
}

/// The requests of a generated workload.
fn generated(workload: &str, seed: u64) -> Source {
    let text = format!("{workload},requests={WORKLOAD_REQUESTS}");
    let workload: Synthetic = text.parse().expect("the workloads of the suite are well formed");
    Source::Synthetic(workload.with_seed(seed))
}

impl Findings {
    fn record(&mut self, cells: Vec<Cell>, set: &str) {
        let leads = ["quick_cache", "moka"].map(|peer| lead_note(&cells, peer));
        self.notes.push(format!("{} cells of {set}. {}", cells.len(), leads.join(" ")));
        self.figures.extend(cells.into_iter().flat_map(|cell| cell.figures));
    }
}

/// The hit ratios of all subjects with one trace or generated workload and one capacity.
struct Cell {
    trace: &'static str,
    capacity: u64,
    figures: Vec<Figure>,
}

impl Cell {
    fn measure(
        trace: &'static str,
        source: &Source,
        capacity: u64,
        plan: &Plan,
        bar: &ProgressBar,
    ) -> Result<Self> {
        bar.set_message(format!("{trace} at {capacity}"));
        let mut cell = Cell { trace, capacity, figures: Vec::new() };
        let args = HitRatioArgs::all(source.clone(), capacity);
        for _ in 0..if plan.quick { 1 } else { ROUNDS } {
            for row in replay_source(&args)? {
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

/// The mean of each subject over all cells but those of one trace.
fn means(cells: &[Cell], workload: &str, without: Option<&str>) -> Vec<Figure> {
    let Some(first) = cells.first() else { return Vec::new() };
    let mean_of = |subject: &str| {
        let cells = cells.iter().filter(|cell| Some(cell.trace) != without);
        mean(&cells.filter_map(|cell| cell.median(subject)).collect::<Vec<f64>>())
    };
    let subjects = first.figures.iter().map(|figure| &figure.subject);
    subjects
        .map(|subject| figure(workload, MEASURE, "%", subject, Better::Higher, vec![mean_of(subject)]))
        .collect()
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
    fn generated_workloads_have_32_cells_and_the_seed_of_the_run() {
        assert_eq!(WORKLOADS.iter().map(|(_, capacities)| capacities.len()).sum::<usize>(), 32);
        for (workload, _) in WORKLOADS {
            let text = generated(workload, 77).to_string();
            assert!(text.ends_with(",requests=400000,seed=77"), "{text}");
        }
    }

    #[test]
    fn measure_traces_without_a_folder_returns_a_note_and_no_figures() {
        let plan = Plan { quick: true, seed: 1, pairs: None, traces: None };
        let mut findings = Findings::default();
        measure_traces(&plan, &ProgressBar::hidden(), &mut findings).unwrap();
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
        let all = means(&cells, "mean", None);
        assert_eq!((value(&all, "mean", "larder"), value(&all, "mean", "moka")), (40.0, 25.0));
        assert_eq!(value(&means(&cells, "mean", Some(SCAN_ALONE)), "mean", "moka"), 40.0);
        let known = HashMap::from([(("a".to_owned(), 1), 52.0), ((SCAN_ALONE.to_owned(), 2), 20.0)]);
        assert_eq!(value(&gaps(&cells, &known), "mean gap", "larder"), 1.0);
        let simple = [("larder", 50.0), ("larder lru", 49.0), ("larder s3fifo", 51.5)];
        let mut cell = Cell { trace: "a", capacity: 1, figures: Vec::new() };
        for (subject, percent) in simple {
            cell.record(subject.to_owned(), percent);
        }
        assert_eq!(farthest_behind(&[cell]).rounds, [1.5]);
        assert_eq!(
            lead_note(&cells, "moka"),
            "Lead over moka by cell: median +15.00 points, from +10.00 to +20.00."
        );
    }
}

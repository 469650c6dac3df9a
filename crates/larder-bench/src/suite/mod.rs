//! Suites: what `run` can measure, and what becomes of it.
//!
//! A suite turns a plan into figures. Everything around that is here and the same for all: the table, the targets, the
//! result file.

mod args;
mod engine;
pub(crate) mod grid;
mod hit_ratio;
mod target;
mod tiers;

pub use args::RunArgs;
pub(crate) use target::Target;

use crate::machine;
use crate::result::{Figure, ResultFile, Spread};
use crate::table::{self, Table};
use anyhow::{Context, Result};
use indicatif::{ProgressBar, ProgressStyle};
use std::path::PathBuf;
use std::time::{Duration, SystemTime};

/// What the flags ask of a suite.
#[derive(Debug)]
pub(crate) struct Plan {
    /// Shorter workloads, for a first look.
    pub(crate) quick: bool,
    pub(crate) seed: u64,
    /// A CSV file of addresses to use in place of made ones.
    pub(crate) pairs: Option<PathBuf>,
    /// A folder of published traces.
    pub(crate) traces: Option<PathBuf>,
}

/// What a suite found out.
#[derive(Default)]
pub(crate) struct Findings {
    pub(crate) figures: Vec<Figure>,
    /// What a reader must know besides the figures.
    pub(crate) notes: Vec<String>,
}

/// Something that can be measured by its name.
pub(crate) trait Suite: Sync {
    fn name(&self) -> &'static str;
    /// What it measures, in a line.
    fn about(&self) -> &'static str;
    /// The crates whose versions belong to its results.
    fn crates(&self) -> &'static [&'static str];
    fn targets(&self) -> Vec<Target>;
    fn measure(&self, plan: &Plan, bar: &ProgressBar) -> Result<Findings>;
}

/// All suites, in the order in which they are run.
pub(crate) const SUITES: &[&dyn Suite] = &[&engine::Engine, &hit_ratio::HitRatio, &tiers::Tiers];

/// Prints the suites.
pub(crate) fn list() -> Result<()> {
    let mut table = Table::new(&["suite"]);
    for suite in SUITES {
        table.row([format!("{:<10}  {}", suite.name(), suite.about())]);
    }
    table::print(&table.to_string())
}

/// Measures the suites that the flags name, prints what came of it and writes it to files.
pub(crate) fn run(args: &RunArgs) -> Result<()> {
    let folder = args.folder();
    for suite in args.suites() {
        let bar = ProgressBar::new_spinner();
        bar.set_style(ProgressStyle::with_template("{spinner} {elapsed} {msg}").expect("it is well formed"));
        bar.enable_steady_tick(Duration::from_millis(200));
        let file = measure(suite, &args.plan(), &bar);
        bar.finish_and_clear();
        let file = file.with_context(|| format!("suite {}", suite.name()))?;
        let path = file.write(&folder)?;
        table::print(&format!("{}written to {}\n\n", text(&file), path.display()))?;
    }
    table::print(&format!("`larder bench report {}` makes a page of it\n", folder.display()))
}

fn measure(suite: &dyn Suite, plan: &Plan, bar: &ProgressBar) -> Result<ResultFile> {
    // Before: afterwards the load is our own.
    let machine = machine::machine();
    let date = httpdate::fmt_http_date(SystemTime::now());
    let findings = suite.measure(plan, bar)?;
    let mut file = ResultFile {
        form: ResultFile::form(),
        suite: suite.name().to_owned(),
        quick: plan.quick,
        seed: plan.seed,
        date,
        commit: machine::commit(),
        debug_build: cfg!(debug_assertions),
        machine,
        versions: machine::versions(suite.crates()),
        notes: findings.notes,
        figures: findings.figures,
        verdicts: Vec::new(),
    };
    file.verdicts = suite.targets().iter().filter_map(|target| target.judge(&file)).collect();
    Ok(file)
}

/// The results as tables.
fn text(file: &ResultFile) -> String {
    let ResultFile { suite, seed, date, machine, .. } = file;
    let mut text =
        format!("suite {suite}, seed {seed}, {date}\n{}, {} threads\n", machine.processor, machine.threads);
    for workload in file.workloads() {
        text += &format!("\n{}\n", Table::of(grid::of(file, workload)));
    }
    if !file.verdicts.is_empty() {
        let mut table = Table::new(&["target", "value", "spread", "limit", ""]);
        for verdict in &file.verdicts {
            table.row([
                verdict.label(),
                short(verdict.value.median),
                span(verdict.value),
                verdict.limit_text(),
                if verdict.met { "met" } else { "NOT MET" }.to_owned(),
            ]);
        }
        text += &format!("\n{table}\n");
    }
    for note in file.caveats() {
        text += &format!("{note}\n");
    }
    text
}

pub(crate) fn spread(spread: Spread) -> String {
    if spread.low == spread.high {
        short(spread.median)
    } else {
        format!("{} ({})", short(spread.median), span(spread))
    }
}

fn span(spread: Spread) -> String {
    format!("{}–{}", short(spread.low), short(spread.high))
}

/// Three digits or so.
pub(crate) fn short(value: f64) -> String {
    match value.abs() {
        0.0..0.1 => format!("{value:.4}"),
        0.1..1.0 => format!("{value:.3}"),
        1.0..10.0 => format!("{value:.2}"),
        10.0..100.0 => format!("{value:.1}"),
        _ if value < 0.0 => format!("{value:.0}"),
        _ => crate::table::grouped(value.round() as u64),
    }
}

//! The suites of `run`, and the output of their results.
//!
//! A suite turns a plan into figures. The rest is the same for all suites and is here: the table, the targets, the
//! result file.

mod args;
pub(crate) mod documents;
mod engine;
pub(crate) mod grid;
mod hit_ratio;
mod http;
mod interrupt;
mod links;
mod output;
mod server;
mod target;
mod tiers;

pub use args::RunArgs;
pub use server::BareLoopArgs;
pub(crate) use server::run_bare_loop;
pub(crate) use target::Target;

use crate::result::{Figure, Remark, ResultFile, Spread};
use crate::{machine, report};
use anyhow::{Context, Result, ensure};
use indicatif::{ProgressBar, ProgressStyle};
use larder_process::debian;
use larder_terminal::{self, Table};
use output::OutputFolder;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

/// The options of a suite, from the flags.
#[derive(Debug)]
pub(crate) struct Plan {
    /// Whether to run shorter workloads, for a first impression.
    pub(crate) quick: bool,
    pub(crate) seed: u64,
    /// A CSV file of addresses to use instead of generated ones.
    pub(crate) pairs: Option<PathBuf>,
    /// A folder of published traces.
    pub(crate) traces: Option<PathBuf>,
}

/// The results of a suite.
#[derive(Default)]
pub(crate) struct Findings {
    pub(crate) figures: Vec<Figure>,
    /// What a number alone would not tell, for single figures.
    pub(crate) remarks: Vec<Remark>,
    /// The commands that measured.
    pub(crate) commands: Vec<String>,
    /// The versions of the programs that were measured, beside those of the crates.
    pub(crate) versions: BTreeMap<String, String>,
    /// Facts that a reader needs to judge the figures.
    pub(crate) notes: Vec<String>,
}

/// A set of workloads that runs under one name.
pub(crate) trait Suite: Sync {
    fn name(&self) -> &'static str;
    /// What it measures, in one line.
    fn description(&self) -> &'static str;
    /// The crates whose versions are recorded in its results.
    fn crates(&self) -> &'static [&'static str];
    fn targets(&self) -> Vec<Target>;
    /// The name of the suites that it belongs to. These run only if they or their group are named.
    fn group(&self) -> Option<&'static str> {
        None
    }
    /// The programs that it runs, and their Debian packages. What is missing is left out of the results.
    fn programs(&self) -> &'static [(&'static str, &'static str)] {
        &[]
    }
    /// Whether the first signal ends it after its current measurement, and what was measured is kept.
    fn keeps_measurements(&self) -> bool {
        false
    }
    fn measure(&self, plan: &Plan, bar: &ProgressBar) -> Result<Findings>;
}

/// All suites, in the order in which they are run.
pub(crate) const SUITES: &[&dyn Suite] = &[
    &engine::Engine,
    &hit_ratio::HitRatio,
    &tiers::Tiers,
    &http::Http,
    &server::Server,
    &server::Stalls,
    &links::Links,
    &documents::DOCUMENT_0,
    &documents::DOCUMENT_1,
    &documents::DOCUMENT_2,
    &documents::DOCUMENT_3,
    &documents::DOCUMENT_4,
];

/// Prints the suites.
pub(crate) fn list() -> Result<()> {
    let mut table = Table::new(&["suite"]);
    for suite in SUITES {
        table.row([format!("{:<10}  {}", suite.name(), suite.description())]);
    }
    larder_terminal::print(&table.to_string())
}

/// Runs the suites that the flags select, prints their results and writes them to files.
pub(crate) fn run(args: &RunArgs) -> Result<()> {
    let output = OutputFolder::create(args.folder())?;
    let temporary = interrupt::listen(&output)?;
    let result = run_into(output.path(), args);
    interrupt::await_exit();
    drop(temporary);
    output.remove_if_empty();
    result
}

fn run_into(folder: &Path, args: &RunArgs) -> Result<()> {
    if args.install {
        let programs = args.suites().into_iter().flat_map(|suite| suite.programs());
        debian::install(programs).context("cannot install what the suites run")?;
    }
    for suite in args.suites() {
        let bar = ProgressBar::new_spinner();
        bar.set_style(
            ProgressStyle::with_template("{spinner} {elapsed} {msg}").expect("the template is well formed"),
        );
        bar.enable_steady_tick(Duration::from_millis(200));
        interrupt::wait_for_measurement(suite.keeps_measurements());
        let file = measure(suite, &args.plan(), &bar);
        interrupt::await_exit();
        bar.finish_and_clear();
        let file = file.with_context(|| format!("suite {}", suite.name()))?;
        let path = file.write(folder)?;
        larder_terminal::print(&format!("{}wrote {}\n\n", text(&file), path.display()))?;
        let has_measured = !file.figures.is_empty() || interrupt::is_requested();
        ensure!(has_measured, "suite {}: nothing was measured, for the reasons above", suite.name());
        if interrupt::is_requested() {
            break;
        }
    }
    if args.suites().iter().any(|suite| suite.group().is_some()) {
        report::write(folder)?;
    } else {
        let folder = folder.display();
        larder_terminal::print(&format!(
            "`larder-bench report {folder}` writes a report of these results\n"
        ))?;
    }
    ensure!(!interrupt::is_requested(), "interrupted: the rest was not measured");
    Ok(())
}

fn measure(suite: &dyn Suite, plan: &Plan, bar: &ProgressBar) -> Result<ResultFile> {
    // Before the measurement, which raises the load average itself, and during which files may be edited.
    let (machine, commit) = (machine::machine(), machine::commit());
    let date = httpdate::fmt_http_date(SystemTime::now());
    let findings = suite.measure(plan, bar)?;
    let mut file = ResultFile {
        form: ResultFile::form(),
        suite: suite.name().to_owned(),
        quick: plan.quick,
        seed: plan.seed,
        date,
        commit,
        debug_build: cfg!(debug_assertions),
        machine,
        versions: machine::versions(suite.crates()).into_iter().chain(findings.versions).collect(),
        notes: findings.notes,
        figures: findings.figures,
        remarks: findings.remarks,
        commands: findings.commands,
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
        text += &format!("\n{}\n", Table::of(grid::rows(file, workload)));
    }
    if !file.verdicts.is_empty() {
        let mut table = Table::new(&["target", "value", "spread", "limit", ""]);
        for verdict in &file.verdicts {
            table.row([
                verdict.label(),
                format_number(verdict.value.median),
                range(verdict.value),
                verdict.limit_text(),
                if verdict.met { "met" } else { "NOT MET" }.to_owned(),
            ]);
        }
        text += &format!("\n{table}\n");
    }
    for note in file.caveats() {
        text += &format!("{note}\n");
    }
    for Remark { workload, subject, text: remark } in &file.remarks {
        text += &format!("{workload}, {subject}: {remark}\n");
    }
    text
}

/// The median, followed by the range of the rounds if they differ.
pub(crate) fn format_spread(spread: Spread) -> String {
    if spread.low == spread.high {
        format_number(spread.median)
    } else {
        format!("{} ({})", format_number(spread.median), range(spread))
    }
}

/// The range of the rounds.
fn range(spread: Spread) -> String {
    format!("{}–{}", format_number(spread.low), format_number(spread.high))
}

/// A number with about three digits; "–" if it is none, such as a ratio to zero.
pub(crate) fn format_number(value: f64) -> String {
    if !value.is_finite() {
        return "–".to_owned();
    }
    match value.abs() {
        0.0 => "0".to_owned(),
        // A `u64` would saturate, and nobody counts that many digits.
        1e15.. => format!("{value:.2e}"),
        // It would be shown as zero.
        0.0..0.000_05 => format!("{value:.2e}"),
        0.0..0.1 => format!("{value:.4}"),
        0.1..1.0 => format!("{value:.3}"),
        1.0..10.0 => format!("{value:.2}"),
        10.0..100.0 => format!("{value:.1}"),
        _ if value < 0.0 => format!("{value:.0}"),
        _ => larder_terminal::grouped(value.round() as u64),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn number_without_a_finite_value_is_a_dash_and_a_huge_one_has_an_exponent() {
        let shown =
            [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, 2e19, -2e19, 1e15, 999_999_999_999_999.0, 7.0];
        let expected = ["–", "–", "–", "2.00e19", "-2.00e19", "1.00e15", "999,999,999,999,999", "7.00"];
        assert_eq!(shown.map(format_number), expected);
    }

    #[test]
    fn number_that_is_almost_zero_has_an_exponent() {
        let shown = [0.0, 0.000_049, -0.000_049, 0.000_05, 0.01].map(format_number);
        assert_eq!(shown, ["0", "4.90e-5", "-4.90e-5", "0.0001", "0.0100"]);
    }

    #[test]
    fn text_says_why_a_subject_has_no_figures() {
        let mut file = crate::result::tests::file(Vec::new());
        let (workload, subject) = ("get-50".to_owned(), "larder".to_owned());
        file.remarks = vec![Remark { workload, subject, text: "failed: no such program".to_owned() }];
        assert!(text(&file).ends_with("get-50, larder: failed: no such program\n"));
    }
}

//! The commands `run` and `list`: runs the suites that are named, prints their tables and writes their result files.

use crate::measure::interrupt;
use crate::measure::machine;
use crate::measure::output_folder::OutputFolder;
use crate::report;
use crate::result::grid;
use crate::result::text::{format_number, range};
use crate::result::{Remark, ResultFile};
use crate::suite::{Plan, RunArgs, SUITES, Suite};
use anyhow::{Context, Result, ensure};
use indicatif::{ProgressBar, ProgressStyle};
use larder_process::debian;
use larder_terminal::Table;
use std::path::Path;
use std::time::{Duration, SystemTime};

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
    let temporary = interrupt::listen(Some(&output))?;
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_says_why_a_subject_has_no_figures() {
        let mut file = crate::result::tests::file(Vec::new());
        let (workload, subject) = ("get-50".to_owned(), "larder".to_owned());
        file.remarks = vec![Remark { workload, subject, text: "failed: no such program".to_owned() }];
        assert!(text(&file).ends_with("get-50, larder: failed: no such program\n"));
    }
}

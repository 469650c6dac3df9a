//! The tables "who serves what was invalidated" and "who serves what another process changed".

use crate::result::ResultFile;
use crate::result::grid::frequency;
use anyhow::Result;
use std::fmt::Write;

/// The name of the suite and of its first workload.
const STALE: &str = "stale";

pub(super) fn table(files: &[ResultFile]) -> Result<String> {
    table_of(files, STALE, "who serves what was invalidated")
}

pub(super) fn of_processes(files: &[ResultFile]) -> Result<String> {
    table_of(files, "stale-processes", "who serves what another process changed")
}

fn table_of(files: &[ResultFile], workload: &str, title: &str) -> Result<String> {
    let file = super::result_of(files, STALE)?;
    let subjects = file.subjects(workload);
    let mut table = format!("| {title} | {} |\n", subjects.join(" | "));
    writeln!(table, "|---|{}", "---|".repeat(subjects.len()))?;
    for (experiment, _) in file.measures(workload) {
        let cells = subjects.iter().map(|subject| {
            let found = file.find(workload, experiment, subject);
            found.map_or("–".to_owned(), frequency)
        });
        writeln!(table, "| {experiment} | {} |", cells.collect::<Vec<_>>().join(" | "))?;
    }
    Ok(table)
}

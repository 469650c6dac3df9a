//! The table "who serves what was invalidated".

use crate::result::ResultFile;
use crate::result::grid::frequency;
use anyhow::Result;
use std::fmt::Write;

/// The name of the suite and of its workload.
const STALE: &str = "stale";

pub(super) fn table(files: &[ResultFile]) -> Result<String> {
    let file = super::result_of(files, STALE)?;
    let subjects = file.subjects(STALE);
    let mut table = format!("| who serves what was invalidated | {} |\n", subjects.join(" | "));
    writeln!(table, "|---|{}", "---|".repeat(subjects.len()))?;
    for (experiment, _) in file.measures(STALE) {
        let cells = subjects.iter().map(|subject| {
            let found = file.find(STALE, experiment, subject);
            found.map_or("–".to_owned(), frequency)
        });
        writeln!(table, "| {experiment} | {} |", cells.collect::<Vec<_>>().join(" | "))?;
    }
    Ok(table)
}

//! The table "who serves what was invalidated".

use crate::result::ResultFile;
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
            found.map_or("–".to_owned(), |figure| frequency(&figure.rounds))
        });
        writeln!(table, "| {experiment} | {} |", cells.collect::<Vec<_>>().join(" | "))?;
    }
    Ok(table)
}

/// The number of rounds in which the stale value was served.
fn frequency(rounds: &[f64]) -> String {
    match rounds.iter().filter(|stale| **stale > 0.0).count() {
        0 => "never".to_owned(),
        count if count == rounds.len() => "always".to_owned(),
        count => format!("{count} of {}", rounds.len()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frequency_is_never_always_or_a_count_of_rounds() {
        assert_eq!(frequency(&[0.0, 0.0]), "never");
        assert_eq!(frequency(&[1.0, 1.0]), "always");
        assert_eq!(frequency(&[1.0, 0.0, 0.0]), "1 of 3");
    }
}

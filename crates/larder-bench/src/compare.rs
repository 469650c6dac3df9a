//! `compare`: the same figures of two runs, side by side.

use crate::result::{Better, Figure, ResultFile, Spread};
use crate::suite::{short, spread};
use crate::table::{self, Table};
use anyhow::{Result, ensure};
use clap::Args;
use std::path::PathBuf;

/// Flags of `compare`.
#[derive(Debug, Args)]
pub struct CompareArgs {
    /// A result file, or a folder of them: what was before.
    #[arg(value_name = "A")]
    pub(crate) before: PathBuf,
    /// A result file, or a folder of them: what is now.
    #[arg(value_name = "B")]
    pub(crate) after: PathBuf,
}

/// Prints the ratio of each figure that both have.
pub(crate) fn run(args: &CompareArgs) -> Result<()> {
    let (before, after) = (ResultFile::read_all(&args.before)?, ResultFile::read_all(&args.after)?);
    let mut compared = 0;
    for after in &after {
        for before in before.iter().filter(|before| before.suite == after.suite) {
            let (table, rows) = compare(before, after);
            compared += rows;
            table::print(&format!("{}\n\n{table}\n", heading(before, after)))?;
        }
    }
    let (a, b) = (args.before.display(), args.after.display());
    ensure!(compared > 0, "{a} and {b} have no figure in common");
    table::print("A ratio is B divided by A; its spread is that of the rounds of both.\n")
}

fn heading(before: &ResultFile, after: &ResultFile) -> String {
    let describe = |file: &ResultFile| {
        let commit = file.commit.as_deref().unwrap_or("unknown commit");
        let kind = if file.quick { ", quick" } else { "" };
        format!("{} ({commit}{kind}, {})", file.date, file.machine.processor)
    };
    format!("suite {}\nA: {}\nB: {}", after.suite, describe(before), describe(after))
}

fn compare(before: &ResultFile, after: &ResultFile) -> (Table, usize) {
    let mut table = Table::new(&["figure", "A", "B", "B ÷ A", "spread", ""]);
    let mut rows = 0;
    for figure in &after.figures {
        let (workload, measure, subject) = figure.id();
        let Some(old) = before.find(workload, measure, subject) else { continue };
        let ratio = ratio(old, figure);
        table.row([
            format!("{workload} {measure}, {}: {subject}", figure.unit),
            spread(old.spread()),
            spread(figure.spread()),
            short(ratio.median),
            format!("{}–{}", short(ratio.low), short(ratio.high)),
            trend(ratio, figure.better).to_owned(),
        ]);
        rows += 1;
    }
    (table, rows)
}

/// The medians divided, and the least and the most that the rounds allow.
fn ratio(before: &Figure, after: &Figure) -> Spread {
    let (before, after) = (before.spread(), after.spread());
    Spread {
        low: after.low / before.high,
        median: after.median / before.median,
        high: after.high / before.low,
    }
}

/// What can be said for sure: nothing while the rounds of both overlap.
fn trend(ratio: Spread, better: Better) -> &'static str {
    match better {
        _ if ratio.low <= 1.0 && ratio.high >= 1.0 => "",
        Better::Lower if ratio.high < 1.0 => "better",
        Better::Higher if ratio.low > 1.0 => "better",
        _ => "worse",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::result::tests::{figure, file};

    #[test]
    fn only_what_does_not_overlap_is_called_better_or_worse() {
        let before = figure("get", "larder", "time", Better::Lower, &[10.0, 11.0, 12.0]);
        let trend_to = |rounds: &[f64], better| {
            let after = figure("get", "larder", "time", better, rounds);
            trend(ratio(&before, &after), better)
        };
        assert_eq!(trend_to(&[8.0, 9.0, 9.5], Better::Lower), "better");
        assert_eq!(trend_to(&[8.0, 9.0, 11.0], Better::Lower), "");
        assert_eq!(trend_to(&[13.0, 14.0], Better::Lower), "worse");
        assert_eq!(trend_to(&[13.0, 14.0], Better::Higher), "better");
    }

    #[test]
    fn figures_are_matched_by_name() {
        let of = |subject: &str, value: f64| figure("get", subject, "time", Better::Lower, &[value]);
        let before = file(vec![of("larder", 10.0), of("gone", 1.0)]);
        let after = file(vec![of("new", 1.0), of("larder", 5.0)]);
        let (table, rows) = compare(&before, &after);
        assert_eq!(rows, 1);
        let line = table.to_string().lines().nth(1).unwrap().split_whitespace().collect::<Vec<_>>().join(" ");
        assert_eq!(line, "get time, ns: larder 10.0 5.00 0.500 0.500–0.500 better");
    }
}

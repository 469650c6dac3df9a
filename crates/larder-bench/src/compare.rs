//! `compare`: the figures that two runs have in common, and their ratios.

use crate::result::text::{format_number, format_spread};
use crate::result::{Better, Figure, ResultFile, Spread, with_unit};
use anyhow::{Result, ensure};
use clap::Args;
use larder_terminal::{self, Table};
use std::path::PathBuf;

/// Flags of `compare`.
#[derive(Debug, Args)]
pub struct CompareArgs {
    /// The baseline: a result file, or a folder of result files.
    #[arg(value_name = "A")]
    pub(crate) before: PathBuf,
    /// The run to compare with it: a result file, or a folder of result files.
    #[arg(value_name = "B")]
    pub(crate) after: PathBuf,
}

/// Prints the ratio of each figure that both runs have.
pub(crate) fn run(args: &CompareArgs) -> Result<()> {
    let (before, after) = (ResultFile::read_all(&args.before)?, ResultFile::read_all(&args.after)?);
    let mut compared = 0;
    for after in &after {
        for before in before.iter().filter(|before| before.suite == after.suite) {
            let (table, rows) = compare(before, after);
            compared += rows;
            let remarks = remarks(before, after);
            larder_terminal::print(&format!("{}\n{remarks}\n{table}\n", heading(before, after)))?;
        }
    }
    let (a, b) = (args.before.display(), args.after.display());
    ensure!(compared > 0, "{a} and {b} have no figure in common");
    larder_terminal::print(
        "The ratio is the median of B divided by the median of A. The spread covers all pairs of rounds.\n",
    )
}

fn heading(before: &ResultFile, after: &ResultFile) -> String {
    let describe = |file: &ResultFile| {
        let commit = file.commit.as_deref().unwrap_or("unknown commit");
        let kind = if file.quick { ", quick" } else { "" };
        let ResultFile { date, seed, machine, .. } = file;
        format!("{date} ({commit}{kind}, seed {seed}, {}, {} threads)", machine.processor, machine.threads)
    };
    format!("suite {}\nA: {}\nB: {}\n", after.suite, describe(before), describe(after))
}

/// What two runs must have in common so that a ratio says something of the program: the work and the machine.
fn differences(before: &ResultFile, after: &ResultFile) -> Vec<&'static str> {
    let differences = [
        ("quick", before.quick != after.quick),
        ("seed", before.seed != after.seed),
        ("processor", before.machine.processor != after.machine.processor),
        ("threads", before.machine.threads != after.machine.threads),
        ("optimisation", before.debug_build != after.debug_build),
    ];
    differences.into_iter().filter(|(_, differs)| *differs).map(|(name, _)| name).collect()
}

/// Lines on what is not judged, and why.
fn remarks(before: &ResultFile, after: &ResultFile) -> String {
    let mut remarks = String::new();
    let differences = differences(before, after);
    if !differences.is_empty() {
        let differences = differences.join(", ");
        remarks += &format!("A and B are not comparable and not judged: they differ in {differences}.\n");
    }
    for (old, figure) in common(before, after).filter(|(old, figure)| old.unit != figure.unit) {
        remarks +=
            &format!("{} is in {} in A and in {} in B: no ratio.\n", figure.label(), old.unit, figure.unit);
    }
    remarks
}

/// The figures of both files, that of `before` first.
fn common<'a>(
    before: &'a ResultFile,
    after: &'a ResultFile,
) -> impl Iterator<Item = (&'a Figure, &'a Figure)> {
    after.figures.iter().filter_map(|figure| {
        let (workload, measure, subject) = figure.id();
        Some((before.find(workload, measure, subject)?, figure))
    })
}

fn compare(before: &ResultFile, after: &ResultFile) -> (Table, usize) {
    let mut table = Table::new(&["figure", "A", "B", "B ÷ A", "spread", ""]);
    let mut rows = 0;
    let is_judged = differences(before, after).is_empty();
    for (old, figure) in common(before, after).filter(|(old, figure)| old.unit == figure.unit) {
        let ratio = ratio(old, figure);
        let trend = if is_judged { trend(ratio, figure.better) } else { "" };
        table.row([
            format!("{} {}: {}", figure.workload, with_unit(&figure.measure, &figure.unit), figure.subject),
            format_spread(old.spread()),
            format_spread(figure.spread()),
            format_number(ratio.median),
            format_range(ratio),
            trend.to_owned(),
        ]);
        rows += 1;
    }
    (table, rows)
}

/// The lowest and the highest ratio; a dash if one of them has a zero in A, so that there is no such ratio.
fn format_range(ratio: Spread) -> String {
    if ratio.low.is_finite() && ratio.high.is_finite() {
        format!("{}–{}", format_number(ratio.low), format_number(ratio.high))
    } else {
        "–".to_owned()
    }
}

/// The ratio of the medians, and the lowest and highest ratio of any two rounds. It is infinite if A is zero and B is not:
/// that is not shown as a number, but is better or worse as any other ratio is.
fn ratio(before: &Figure, after: &Figure) -> Spread {
    let (before, after) = (before.spread(), after.spread());
    // Two zeros are equal.
    let divide = |after: f64, before: f64| if after == before { 1.0 } else { after / before };
    Spread {
        low: divide(after.low, before.high),
        median: divide(after.median, before.median),
        high: divide(after.high, before.low),
    }
}

/// `better` or `worse`; empty if the rounds of both runs overlap, or if the ratio is shown as 1.
fn trend(ratio: Spread, better: Better) -> &'static str {
    let is_shown_as_one = format_number(ratio.median).parse() == Ok(1.0);
    match better {
        _ if is_shown_as_one => "",
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
    fn trend_of_overlapping_rounds_is_empty() {
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
    fn figures_that_are_zero_in_both_runs_are_equal() {
        let zero = figure("get", "larder", "allocations", Better::Lower, &[0.0, 0.0]);
        let equal = ratio(&zero, &zero);
        assert_eq!((equal.median, trend(equal, Better::Lower)), (1.0, ""));
        let more = figure("get", "larder", "allocations", Better::Lower, &[1.0, 1.0]);
        assert_eq!(trend(ratio(&zero, &more), Better::Lower), "worse");
    }

    #[test]
    fn compare_matches_figures_by_name() {
        let of = |subject: &str, value: f64| figure("get", subject, "time", Better::Lower, &[value]);
        let before = file(vec![of("larder", 10.0), of("gone", 1.0)]);
        let after = file(vec![of("new", 1.0), of("larder", 5.0)]);
        let (table, rows) = compare(&before, &after);
        assert_eq!(rows, 1);
        let line = table.to_string().lines().nth(1).unwrap().split_whitespace().collect::<Vec<_>>().join(" ");
        assert_eq!(line, "get time, ns: larder 10.0 5.00 0.500 0.500–0.500 better");
    }
}

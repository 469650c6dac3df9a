//! The tables at the end of a soak: the processes and the kinds of requests, in the terminal and on the page.

use super::judgement::{Growth, MIN_HOURS};
use super::plot::number;
use super::samples::{KindFigures, Sample, Samples};
use super::slope::Slope;
use std::fmt::Write;

/// Rows of texts below a head.
#[derive(Clone, Debug)]
pub(super) struct Table {
    head: Vec<&'static str>,
    rows: Vec<Vec<String>>,
}

impl Table {
    /// The first column begins at the left, the others end at the right.
    fn text(&self) -> String {
        let head = self.head.iter().map(|word| (*word).to_owned()).collect();
        let rows: Vec<&Vec<String>> = std::iter::once(&head).chain(&self.rows).collect();
        let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
        let widths: Vec<usize> = (0..self.head.len()).map(width).collect();
        let mut text = String::new();
        for row in rows {
            for (column, (word, width)) in row.iter().zip(widths.iter().copied()).enumerate() {
                _ = if column == 0 {
                    write!(text, "{word:<width$}")
                } else {
                    write!(text, "  {word:>width$}")
                };
            }
            text.push('\n');
        }
        text
    }

    pub(super) fn html(&self) -> String {
        let cells = |name: &str, row: &[String]| {
            let cells: String = row.iter().map(|cell| format!("<{name}>{cell}</{name}>")).collect();
            format!("<tr>{cells}</tr>\n")
        };
        let head: Vec<String> = self.head.iter().map(|word| (*word).to_owned()).collect();
        let rows: String = self.rows.iter().map(|row| cells("td", row)).collect();
        format!("<table>\n{}{rows}</table>\n", cells("th", &head))
    }
}

/// Each process, with its last figures and its slopes.
pub(super) fn processes(samples: &Samples, growth: &[Growth]) -> Table {
    let rows = growth.iter().map(|growth| {
        let has_name = |sample: &&Sample| sample.processes.iter().any(|(name, _)| *name == growth.name);
        let last = samples.all.iter().rev().find(has_name);
        let last = last.and_then(|sample| sample.processes.iter().find(|(name, _)| *name == growth.name));
        let mut row = vec![growth.name.clone()];
        if let Some((_, figures)) = last {
            row.extend([figures.rss_bytes, figures.anonymous_bytes].map(|bytes| number(mib(bytes as f64))));
            row.push(slope(growth.memory, mib));
            row.extend([figures.descriptors.to_string(), slope(growth.descriptors, |number| number)]);
            row.push(figures.threads.to_string());
        }
        let hours = growth.memory.map_or(0.0, |slope| slope.hours);
        let is_judged = if hours >= MIN_HOURS { "" } else { ", not judged" };
        row.push(format!("{hours:.2} h{is_judged}"));
        row
    });
    let head = vec![
        "process",
        "RSS MiB",
        "anonymous MiB",
        "MiB/h",
        "descriptors",
        "per hour",
        "threads",
        "time for slopes",
    ];
    Table { head, rows: rows.collect() }
}

/// Each kind of requests over all samples.
pub(super) fn kinds(samples: &Samples) -> Table {
    let mut names: Vec<&str> = Vec::new();
    for (name, _) in samples.all.iter().flat_map(|sample| &sample.kinds) {
        if !names.contains(&name.as_str()) {
            names.push(name);
        }
    }
    let rows = names.into_iter().map(|name| {
        let all = || samples.all.iter().flat_map(|sample| &sample.kinds).filter(|(own, _)| own == name);
        let sum =
            |value: fn(&KindFigures) -> u64| all().map(|(_, kind)| value(kind)).sum::<u64>().to_string();
        let sorted = |value: fn(&KindFigures) -> Option<u64>| {
            let mut values: Vec<u64> = all().filter_map(|(_, kind)| value(kind)).collect();
            values.sort_unstable();
            values
        };
        let median = |values: &[u64]| ms(values.get(values.len() / 2).copied());
        let (p50, p99) = (sorted(|kind| kind.p50_us), sorted(|kind| kind.p99_us));
        vec![
            name.to_owned(),
            sum(|kind| kind.count),
            sum(|kind| kind.errors),
            sum(|kind| kind.fault_errors),
            median(&p50),
            median(&p99),
            ms(p99.last().copied()),
            ms(sorted(|kind| kind.max_us).last().copied()),
        ]
    });
    let head = vec!["request", "count", "errors", "in faults", "p50 ms", "p99 ms", "highest p99", "highest"];
    Table { head, rows: rows.collect() }
}

fn mib(bytes: f64) -> f64 {
    bytes / f64::from(1 << 20)
}

/// Microseconds as milliseconds.
fn ms(us: Option<u64>) -> String {
    us.map_or("–".to_owned(), |us| number(us as f64 / 1e3))
}

fn slope(slope: Option<Slope>, unit: fn(f64) -> f64) -> String {
    slope.map_or("–".to_owned(), |slope| {
        format!("{:+.2} ± {:.2}", unit(slope.per_hour), unit(3.0 * slope.error))
    })
}

/// What all runs have counted, in one line, and the line of one run.
pub(super) fn sums(samples: &Samples, run: u64) -> [String; 2] {
    let line = |all: &[&Sample]| {
        let sum = |value: fn(&Sample) -> u64| all.iter().map(|sample| value(sample)).sum::<u64>();
        format!(
            "{} answers judged, {} of them old because of a fault, {} stale; {} rounds of tests passed, {} failed",
            sum(|sample| sample.answers.judged),
            sum(|sample| sample.answers.excused),
            sum(|sample| sample.answers.stale),
            sum(|sample| sample.rounds.0),
            sum(|sample| sample.rounds.1),
        )
    };
    let all: Vec<&Sample> = samples.all.iter().collect();
    let own: Vec<&Sample> = all.iter().copied().filter(|sample| sample.run == run).collect();
    let hours = samples.hours().last().copied().unwrap_or(0.0);
    let own_hours = own.last().map_or(0.0, |sample| sample.seconds / 3_600.0);
    [
        format!("this run, {own_hours:.2} h: {}", line(&own)),
        format!("all {run} runs, {hours:.2} h: {}", line(&all)),
    ]
}

/// Prints all of it.
pub(crate) fn print(samples: &Samples, growth: &[Growth], run: u64) {
    println!("\n{}", processes(samples, growth).text());
    println!("{}", kinds(samples).text());
    println!("{}", sums(samples, run).join("\n"));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_aligned() {
        let rows = [["a", "1"], ["long", "100"]].map(|row| row.map(str::to_owned).to_vec()).to_vec();
        let table = Table { head: vec!["name", "n"], rows };
        assert_eq!(table.text(), "name    n\na       1\nlong  100\n");
        assert!(table.html().contains("<tr><td>a</td><td>1</td></tr>"));
    }

    #[test]
    fn slope_has_its_noise() {
        let slope_of = Slope { per_hour: 1.5, error: 0.1, hours: 1.0 };
        assert_eq!(slope(Some(slope_of), |value| value), "+1.50 ± 0.30");
        assert_eq!((slope(None, mib), ms(None), ms(Some(1_500))), ("–".into(), "–".into(), "1.5".into()));
    }
}

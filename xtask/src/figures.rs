//! The figures in the documentation: generates tables from the result files in `docs/results`, and checks them.

use crate::workspace::{array, root, text};
use anyhow::{Context, Result, bail};
use serde_json::Value;
use std::fmt::Write;

const RESULTS: &str = "docs/results";
const OURS: &str = "larder";

/// The relation of our figure to that of a peer.
#[derive(Clone, Copy)]
enum Relation {
    /// Our figure alone.
    Value,
    /// Our figure divided by the peer's, round by round.
    Ratio(&'static str),
    /// Our figure minus the peer's, round by round, in percentage points.
    Lead(&'static str),
}

/// One row of the table of figures.
struct Row {
    suite: &'static str,
    workload: &'static str,
    measure: &'static str,
    relation: Relation,
    text: &'static str,
}

const ROWS: [Row; 14] = [
    Row {
        suite: "engine",
        workload: "get-zipf",
        measure: "time",
        relation: Relation::Ratio("quick_cache"),
        text: "time of a hit ÷ quick_cache's (engine, 1 M pairs, Zipf 0.99)",
    },
    Row {
        suite: "engine",
        workload: "memory",
        measure: "filled",
        relation: Relation::Value,
        text: "bytes per entry in addition to key and value (engine, filled)",
    },
    Row {
        suite: "hit-ratio",
        workload: "mean",
        measure: "hit ratio",
        relation: Relation::Lead("quick_cache"),
        text: "mean hit ratio over public traces, points above quick_cache",
    },
    Row {
        suite: "hit-ratio",
        workload: "mean",
        measure: "hit ratio",
        relation: Relation::Lead("moka"),
        text: "mean hit ratio over public traces, points above moka",
    },
    Row {
        suite: "tiers",
        workload: "memory-hit",
        measure: "time",
        relation: Relation::Ratio("moka"),
        text: "time of a fetch that memory answers ÷ a get of moka (tiers)",
    },
    Row {
        suite: "tiers",
        workload: "read-multi",
        measure: "time",
        relation: Relation::Ratio("redis-rs"),
        text: "time to read 26 values of 1 KiB from Redis ÷ a bare MGET by redis-rs (tiers)",
    },
    Row {
        suite: "http",
        workload: "hit-1kb-50",
        measure: "cpu",
        relation: Relation::Ratio("axum"),
        text: "processor time of a cached response of 1 KB ÷ an axum handler that returns the same bytes (http)",
    },
    Row {
        suite: "http",
        workload: "hit-1kb-50",
        measure: "cpu",
        relation: Relation::Ratio("nginx"),
        text: "processor time of a cached response of 1 KB ÷ nginx's proxy_cache (http)",
    },
    Row {
        suite: "http",
        workload: "hit-graphql-1kb-50",
        measure: "cpu",
        relation: Relation::Ratio("axum"),
        text: "processor time of a cached GraphQL answer of 1 KB ÷ an axum handler that reads the query (http)",
    },
    Row {
        suite: "server",
        workload: "get-50",
        measure: "cpu",
        relation: Relation::Ratio("redis"),
        text: "processor time of a GET, 50 connections ÷ Redis's (server)",
    },
    Row {
        suite: "server",
        workload: "get-50-p100",
        measure: "cpu",
        relation: Relation::Ratio("redis"),
        text: "processor time of a GET in pipelines of 100 ÷ Redis's (server)",
    },
    Row {
        suite: "server",
        workload: "memory",
        measure: "over 16+16",
        relation: Relation::Value,
        text: "bytes per entry in addition to key and value of 16 bytes each, 2 million under 1 GB (server)",
    },
    Row {
        suite: "stalls",
        workload: "set",
        measure: "longest",
        relation: Relation::Value,
        text: "milliseconds that other clients wait at most while a value of 512 MB is stored (stalls)",
    },
    Row {
        suite: "links",
        workload: "zipf",
        measure: "cpu",
        relation: Relation::Ratio("axum"),
        text: "processor time of a counted redirect ÷ an axum handler that answers 302 (links)",
    },
];

/// The documents with generated tables, and the names of the tables.
const TABLES: &[(&str, &[&str])] = &[("README.md", &["figures", "stale"]), ("docs/bench.md", &["stale"])];

/// Writes all tables into the documents.
pub(crate) fn write() -> Result<()> {
    for (document, names) in TABLES {
        let path = root().join(document);
        let mut content =
            std::fs::read_to_string(&path).with_context(|| format!("cannot read {document}"))?;
        for name in *names {
            content =
                replace_table(&content, name, &table(name)?).with_context(|| format!("in {document}"))?;
        }
        std::fs::write(&path, content).with_context(|| format!("cannot write {document}"))?;
    }
    Ok(())
}

/// The tables that differ from the result files.
pub(crate) fn check() -> Result<Vec<String>> {
    let mut faults = Vec::new();
    for (document, names) in TABLES {
        let content = std::fs::read_to_string(root().join(document))
            .with_context(|| format!("cannot read {document}"))?;
        for name in *names {
            if replace_table(&content, name, &table(name)?).with_context(|| format!("in {document}"))?
                != content
            {
                faults.push(format!(
                    "{document}: the table {name:?} differs from {RESULTS}; run `cargo xtask docs`"
                ));
            }
        }
    }
    Ok(faults)
}

/// Replaces the text between the markers of a table.
fn replace_table(content: &str, name: &str, table: &str) -> Result<String> {
    let (begin, end) = (format!("<!-- {name}: begin -->\n"), format!("<!-- {name}: end -->"));
    let (Some(start), Some(stop)) = (content.find(&begin), content.find(&end)) else {
        bail!("there are no markers {} and {end}", begin.trim_end());
    };
    Ok([&content[..start + begin.len()], table, &content[stop..]].concat())
}

fn table(name: &str) -> Result<String> {
    match name {
        "figures" => figures(),
        _ => stale(),
    }
}

fn figures() -> Result<String> {
    let mut table =
        String::from("| figure | median | range of rounds | command | result |\n|---|---|---|---|---|\n");
    for row in &ROWS {
        let file = result(row.suite)?;
        let (low, median, high) = spread(row.values(&file)?);
        let commit = text(&file["commit"]);
        let changed = if commit.ends_with("-dirty") { ", with changes" } else { "" };
        let commit = commit.get(..12).unwrap_or("unknown");
        // `Sun, 22 Nov 2026 …`
        let date = text(&file["date"]).get(5..16).unwrap_or("unknown");
        let quick = if file["quick"] == true { " --quick" } else { "" };
        let traces = if row.suite == "hit-ratio" { " --traces DIR" } else { "" };
        writeln!(
            table,
            "| {} | **{}** | {} to {} | `larder-bench run {}{quick}{traces}` | [{date}, {commit}{changed}]({RESULTS}/{}.json) |",
            row.text,
            format_number(median),
            format_number(low),
            format_number(high),
            row.suite,
            row.suite,
        )?;
    }
    Ok(table)
}

impl Row {
    /// The value of each round.
    fn values(&self, file: &Value) -> Result<Vec<f64>> {
        let of = |subject: &str| rounds(file, self.workload, self.measure, subject);
        let ours = of(OURS)?;
        Ok(match self.relation {
            Relation::Value => ours,
            Relation::Ratio(peer) => ours.iter().zip(of(peer)?).map(|(ours, theirs)| ours / theirs).collect(),
            Relation::Lead(peer) => ours.iter().zip(of(peer)?).map(|(ours, theirs)| ours - theirs).collect(),
        })
    }
}

/// The table "who serves what was invalidated".
fn stale() -> Result<String> {
    let file = result("tiers")?;
    let of_stale: Vec<&Value> =
        array(&file["figures"]).filter(|figure| figure["workload"] == "stale").collect();
    let (mut experiments, mut subjects) = (Vec::new(), Vec::new());
    for figure in &of_stale {
        for (list, name) in [(&mut experiments, &figure["measure"]), (&mut subjects, &figure["subject"])] {
            if !list.contains(&text(name)) {
                list.push(text(name));
            }
        }
    }
    let mut table = format!("| who serves what was invalidated | {} |\n", subjects.join(" | "));
    writeln!(table, "|---|{}", "---|".repeat(subjects.len()))?;
    for experiment in experiments {
        let cells = subjects.iter().map(|subject| {
            let found = of_stale.iter().find(|of| of["measure"] == experiment && of["subject"] == *subject);
            found.map_or("–".to_owned(), |figure| frequency(&numbers(&figure["rounds"])))
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

fn result(suite: &str) -> Result<Value> {
    let path = root().join(RESULTS).join(format!("{suite}.json"));
    let json = std::fs::read(&path).with_context(|| format!("cannot read {}", path.display()))?;
    serde_json::from_slice(&json).with_context(|| format!("{} is not JSON", path.display()))
}

fn rounds(file: &Value, workload: &str, measure: &str, subject: &str) -> Result<Vec<f64>> {
    array(&file["figures"])
        .find(|figure| {
            figure["workload"] == workload && figure["measure"] == measure && figure["subject"] == subject
        })
        .map(|figure| numbers(&figure["rounds"]))
        .filter(|rounds| !rounds.is_empty())
        .with_context(|| format!("no figure {workload} / {measure} / {subject}"))
}

fn numbers(values: &Value) -> Vec<f64> {
    array(values).filter_map(Value::as_f64).collect()
}

/// The lowest, the median and the highest value.
fn spread(mut values: Vec<f64>) -> (f64, f64, f64) {
    values.sort_by(f64::total_cmp);
    let (low, high) = (values[(values.len() - 1) / 2], values[values.len() / 2]);
    (values[0], (low + high) / 2.0, values[values.len() - 1])
}

fn format_number(value: f64) -> String {
    if value.abs() >= 10.0 { format!("{value:.1}") } else { format!("{value:.2}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn replace_table_replaces_the_text_between_markers() {
        let document = "a\n<!-- t: begin -->\nold\n<!-- t: end -->\nb";
        assert_eq!(
            replace_table(document, "t", "new\n").unwrap(),
            "a\n<!-- t: begin -->\nnew\n<!-- t: end -->\nb"
        );
        assert!(replace_table("no markers", "t", "").is_err());
    }

    #[test]
    fn spread_of_an_even_count_has_the_mean_of_the_middle_as_median() {
        assert_eq!(spread(vec![4.0, 1.0, 2.0, 3.0]), (1.0, 2.5, 4.0));
    }

    #[test]
    fn frequency_is_never_always_or_a_count_of_rounds() {
        assert_eq!(frequency(&[0.0, 0.0]), "never");
        assert_eq!(frequency(&[1.0, 1.0]), "always");
        assert_eq!(frequency(&[1.0, 0.0, 0.0]), "1 of 3");
    }
}

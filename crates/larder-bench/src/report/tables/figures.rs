//! The tables of figures: ours beside those of peers, with the run that each is from. The README has five of one commit,
//! docs/bench.md all of them.

use crate::result::{Relation, ResultFile, Spread};
use anyhow::{Context, Result};
use std::fmt::Write;

const OURS: &str = "larder";

/// One row of the table of figures.
struct Row {
    suite: &'static str,
    workload: &'static str,
    measure: &'static str,
    relation: Relation,
    /// The peer; empty if our figure stands alone.
    versus: &'static str,
    text: &'static str,
}

const ROWS: [Row; 26] = [
    Row {
        suite: "engine",
        workload: "get-zipf",
        measure: "time",
        relation: Relation::Ratio,
        versus: "quick_cache",
        text: "time of a hit ÷ quick_cache's (engine, 1 M pairs, Zipf 0.99)",
    },
    Row {
        suite: "engine",
        workload: "memory",
        measure: "filled",
        relation: Relation::None,
        versus: "",
        text: "bytes per entry in addition to key and value (engine, filled)",
    },
    Row {
        suite: "hit-ratio",
        workload: "mean",
        measure: "hit ratio",
        relation: Relation::Lead,
        versus: "quick_cache",
        text: "mean hit ratio over public traces, points above quick_cache",
    },
    Row {
        suite: "tiers",
        workload: "memory-hit",
        measure: "time",
        relation: Relation::Ratio,
        versus: "moka",
        text: "time of a fetch that memory answers ÷ a get of moka (tiers)",
    },
    Row {
        suite: "tiers",
        workload: "read-multi",
        measure: "time",
        relation: Relation::Ratio,
        versus: "redis-rs",
        text: "time to read 26 values of 1 KiB from Redis ÷ a bare MGET by redis-rs (tiers)",
    },
    Row {
        suite: "hit-ratio",
        workload: "mean",
        measure: "hit ratio",
        relation: Relation::Lead,
        versus: "moka",
        text: "mean hit ratio over public traces, points above moka",
    },
    Row {
        suite: "http",
        workload: "hit-1kb-50",
        measure: "cpu",
        relation: Relation::Ratio,
        versus: "axum",
        text: "processor time of a cached response of 1 KB ÷ an axum handler that returns the same bytes (http)",
    },
    Row {
        suite: "http",
        workload: "hit-1kb-50",
        measure: "cpu",
        relation: Relation::Ratio,
        versus: "nginx",
        text: "processor time of a cached response of 1 KB ÷ nginx's proxy_cache (http)",
    },
    Row {
        suite: "http",
        workload: "hit-graphql-1kb-50",
        measure: "cpu",
        relation: Relation::Ratio,
        versus: "axum",
        text: "processor time of a cached GraphQL answer of 1 KB ÷ an axum handler that reads the query (http)",
    },
    Row {
        suite: "server",
        workload: "get-50",
        measure: "cpu",
        relation: Relation::Ratio,
        versus: "redis",
        text: "processor time of a GET, 50 connections ÷ Redis's (server)",
    },
    Row {
        suite: "server",
        workload: "get-50-p100",
        measure: "cpu",
        relation: Relation::Ratio,
        versus: "redis",
        text: "processor time of a GET in pipelines of 100 ÷ Redis's (server)",
    },
    Row {
        suite: "server",
        workload: "memory",
        measure: "over 16+16",
        relation: Relation::None,
        versus: "",
        text: "bytes per entry in addition to key and value of 16 bytes each, 2 million under 1 GB (server)",
    },
    Row {
        suite: "stalls",
        workload: "set",
        measure: "longest",
        relation: Relation::None,
        versus: "",
        text: "milliseconds that other clients wait at most while a value of 512 MB is stored (stalls)",
    },
    Row {
        suite: "links",
        workload: "zipf",
        measure: "cpu",
        relation: Relation::Ratio,
        versus: "axum",
        text: "processor time of a counted redirect ÷ an axum handler that answers 302 (links)",
    },
    Row {
        suite: "languages",
        workload: "python-shared",
        measure: "cpu",
        relation: Relation::Ratio,
        versus: "cachebox",
        text: "processor time of a hit from Python, object shared ÷ cachebox's TTLCache (languages)",
    },
    Row {
        suite: "languages",
        workload: "python-shared",
        measure: "cpu",
        relation: Relation::Ratio,
        versus: "cachetools",
        text: "processor time of a hit from Python, object shared ÷ cachetools' TTLCache (languages)",
    },
    Row {
        suite: "languages",
        workload: "python-django",
        measure: "cpu",
        relation: Relation::Ratio,
        versus: "LocMemCache",
        text: "processor time of a get by Django's backend, object copied ÷ LocMemCache's (languages)",
    },
    Row {
        suite: "languages",
        workload: "node-hit",
        measure: "cpu",
        relation: Relation::Ratio,
        versus: "lru-cache",
        text: "processor time of a hit from Node.js, object shared ÷ lru-cache's with a TTL (languages)",
    },
    Row {
        suite: "languages",
        workload: "node-fetch",
        measure: "cpu",
        relation: Relation::Ratio,
        versus: "cache-manager",
        text: "processor time of an awaited fetch from Node.js ÷ cache-manager's wrap (languages)",
    },
    Row {
        suite: "languages",
        workload: "node-fetch",
        measure: "cpu",
        relation: Relation::Ratio,
        versus: "bentocache",
        text: "processor time of an awaited fetch from Node.js ÷ bentocache's getOrSet (languages)",
    },
    Row {
        suite: "languages",
        workload: "python-cold",
        measure: "time",
        relation: Relation::Ratio,
        versus: "core",
        text: "time of a load over Redis from Python ÷ one in Rust (languages)",
    },
    Row {
        suite: "languages",
        workload: "node-cold",
        measure: "time",
        relation: Relation::Ratio,
        versus: "core",
        text: "time of a load over Redis from Node.js ÷ one in Rust (languages)",
    },
    Row {
        suite: "languages",
        workload: "ruby-cold",
        measure: "time",
        relation: Relation::Ratio,
        versus: "core",
        text: "time of a load over Redis from Ruby ÷ one in Rust (languages)",
    },
    Row {
        suite: "languages",
        workload: "elixir-cold",
        measure: "time",
        relation: Relation::Ratio,
        versus: "core",
        text: "time of a load over Redis from Elixir ÷ one in Rust (languages)",
    },
    Row {
        suite: "languages",
        workload: "ruby-rails",
        measure: "cpu",
        relation: Relation::Ratio,
        versus: "MemoryStore",
        text: "processor time of a read of Rails' store, object copied ÷ MemoryStore's (languages)",
    },
    Row {
        suite: "languages",
        workload: "elixir-map",
        measure: "time",
        relation: Relation::Ratio,
        versus: "ets",
        text: "time of a hit from Elixir, map ÷ ets:lookup's (languages)",
    },
];

/// How many of the first rows the README has.
const HEADLINE: usize = 5;

/// The table of the README.
pub(super) fn headline(files: &[ResultFile]) -> Result<String> {
    table(files, &ROWS[..HEADLINE], "docs/results")
}

/// The table of docs/bench.md.
pub(super) fn all(files: &[ResultFile]) -> Result<String> {
    table(files, &ROWS, "results")
}

/// `results` is the folder of the result files, as the page sees it.
fn table(files: &[ResultFile], rows: &[Row], results: &str) -> Result<String> {
    let mut table =
        String::from("| figure | median | range of rounds | command | result |\n|---|---|---|---|---|\n");
    for row in rows {
        let file = super::result_of(files, row.suite)?;
        let Spread { low, median, high } = Spread::of(row.values(file)?);
        let commit = file.commit.as_deref().unwrap_or("unknown");
        let changed = if commit.ends_with("-dirty") { ", with changes" } else { "" };
        let commit = commit.get(..12).unwrap_or(commit);
        // `Sun, 22 Nov 2026 …`
        let date = file.date.get(5..16).unwrap_or("unknown");
        let quick = if file.quick { " --quick" } else { "" };
        let traces = if row.suite == "hit-ratio" { " --traces DIR" } else { "" };
        writeln!(
            table,
            "| {} | **{}** | {} to {} | `larder-bench run {}{quick}{traces}` | [{date}, {commit}{changed}]({results}/{}.json) |",
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
    fn values(&self, file: &ResultFile) -> Result<Vec<f64>> {
        let of = |subject: &str| {
            let figure =
                file.find(self.workload, self.measure, subject).filter(|found| !found.rounds.is_empty());
            let name = || format!("no figure {} / {} / {subject}", self.workload, self.measure);
            figure.map(|figure| figure.rounds.as_slice()).with_context(name)
        };
        let pairs = || Ok::<_, anyhow::Error>(of(OURS)?.iter().zip(of(self.versus)?));
        Ok(match self.relation {
            Relation::None => of(OURS)?.to_vec(),
            Relation::Ratio => pairs()?.map(|(ours, theirs)| ours / theirs).collect(),
            Relation::Lead => pairs()?.map(|(ours, theirs)| ours - theirs).collect(),
        })
    }
}

fn format_number(value: f64) -> String {
    if value.abs() >= 10.0 { format!("{value:.1}") } else { format!("{value:.2}") }
}

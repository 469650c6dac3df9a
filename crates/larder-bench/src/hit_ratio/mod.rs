//! `hit-ratio`: replays one trace through several caches.
//!
//! A request is a `get`, and after a miss an `insert`. The weight of all live values is counted outside of the
//! caches. For our own policies two things are verified: after each request the weight is at most the capacity, and
//! the hit ratio is at most that of the optimum.

mod args;
mod cache;
mod optimum;
mod ours;
mod peers;
mod replay;
#[cfg(test)]
mod tests;

pub use args::HitRatioArgs;

use crate::table::{self, Table, grouped};
use crate::trace::{self, Request};
use anyhow::{Result, bail, ensure};
use cache::Setup;
use indicatif::{ProgressBar, ProgressStyle};
use optimum::Optimum;
use replay::Row;
use std::path::Path;

/// The number of requests that each cache gets before the next one takes its turn.
const CHUNK: usize = 1 << 14;

/// Replays the trace and prints the results.
pub(crate) fn run(args: &HitRatioArgs) -> Result<()> {
    args.check()?;
    let bar = progress(&args.trace);
    let requests = trace::open(&args.trace, args.format, |raw| bar.wrap_read(raw))?;
    let outcome = replay_all(requests, args, &bar)?;
    bar.finish_and_clear();
    table::print(&if args.json { outcome.json()? } else { outcome.text(args) })?;
    outcome.check()
}

/// Replays the trace, verifies our guarantees, and returns the results.
pub(crate) fn replay_file(args: &HitRatioArgs) -> Result<Vec<Row>> {
    let requests = trace::open(&args.trace, args.format, std::convert::identity)?;
    let outcome = replay_all(requests, args, &ProgressBar::hidden())?;
    outcome.check()?;
    Ok(outcome.rows)
}

/// The results of all caches on one trace, the best first.
pub(crate) struct Outcome {
    pub(crate) rows: Vec<Row>,
    requests: u64,
    bound: f64,
}

/// Replays all requests through the caches that the flags select.
pub(crate) fn replay_all(
    requests: impl Iterator<Item = Result<Request>>,
    args: &HitRatioArgs,
    bar: &ProgressBar,
) -> Result<Outcome> {
    let mut requests = requests.map(|request| request.map(|r| args.weighed(r)));
    let mut chunk = next_chunk(&mut requests)?;
    ensure!(!chunk.is_empty(), "{} has no requests", args.trace.display());

    let setup = Setup { capacity: args.capacity, weighed: args.bytes, mean_weight: mean_weight(&chunk) };
    let mut replays = args.replays(&setup)?;
    let mut optimum = Optimum::new(args.capacity);
    let mut total = 0;
    while !chunk.is_empty() {
        for replay in &mut replays {
            replay.run(&chunk);
        }
        optimum.record(&chunk)?;
        total += chunk.len() as u64;
        chunk = next_chunk(&mut requests)?;
    }
    bar.set_message("computing the optimum");
    let bound = optimum.max_hits(args.bytes) as f64 / total as f64;

    let mut rows: Vec<Row> = replays.into_iter().map(|replay| replay.finish(args, total, bound)).collect();
    rows.sort_by_key(|row| std::cmp::Reverse(row.hits));
    Ok(Outcome { rows, requests: total, bound })
}

fn next_chunk(requests: &mut impl Iterator<Item = Result<Request>>) -> Result<Vec<Request>> {
    requests.take(CHUNK).collect()
}

fn mean_weight(requests: &[Request]) -> u64 {
    let sum: u64 = requests.iter().map(|request| u64::from(request.bytes)).sum();
    (sum / requests.len() as u64).max(1)
}

impl Outcome {
    /// One JSON object per line and row.
    fn json(&self) -> Result<String> {
        let mut lines = String::new();
        for row in &self.rows {
            lines += &serde_json::to_string(row)?;
            lines.push('\n');
        }
        Ok(lines)
    }

    /// The results as a table.
    fn text(&self, args: &HitRatioArgs) -> String {
        let mut table = Table::new(&["cache", "policy", "hits", "hit ratio", "to optimum", "max weight", ""]);
        for row in &self.rows {
            table.row([
                row.source.clone(),
                row.policy.clone(),
                grouped(row.hits),
                percent(row.hit_ratio),
                format!("{:.2}", 100.0 * (row.hit_ratio - self.bound)),
                grouped(row.max_weight_seen),
                if row.within_capacity { String::new() } else { "!".to_owned() },
            ]);
        }
        let unit = if args.bytes { "bytes" } else { "entries" };
        let mut text = format!(
            "{}: {} requests, capacity {} {unit}\n{} {}\n\n{table}",
            args.trace.display(),
            grouped(self.requests),
            grouped(args.capacity),
            if args.bytes { "The upper bound of the hit ratio is" } else { "Bélády's optimum is" },
            percent(self.bound),
        );
        if self.rows.iter().any(|row| !row.within_capacity) {
            text += "\n! exceeded its capacity: its hit ratio is that of a larger cache\n";
        }
        text
    }

    /// Verifies the guarantees of our own policies.
    fn check(&self) -> Result<()> {
        for row in self.rows.iter().filter(|row| row.source == cache::OURS) {
            let name = &row.policy;
            if !row.within_capacity {
                bail!(
                    "{name} reached a weight of {} with a capacity of {}",
                    row.max_weight_seen,
                    row.capacity
                );
            }
            if row.hit_ratio > self.bound {
                bail!("{name} has a hit ratio of {}, above the optimum of {}", row.hit_ratio, self.bound);
            }
        }
        Ok(())
    }
}

fn percent(ratio: f64) -> String {
    format!("{:.2} %", 100.0 * ratio)
}

/// A bar over the bytes of the file; drawn only on a terminal.
fn progress(trace: &Path) -> ProgressBar {
    let file_bytes = std::fs::metadata(trace).ok().filter(std::fs::Metadata::is_file).map(|file| file.len());
    let (bar, template) = match file_bytes {
        Some(bytes) => (ProgressBar::new(bytes), "{bar:40} {percent:>3} % {eta} {msg}"),
        None => (ProgressBar::new_spinner(), "{spinner} {bytes} {msg}"),
    };
    bar.with_style(ProgressStyle::with_template(template).expect("the template is well formed"))
}

//! `hit-ratio`: replays the same requests, of a trace or a generated workload, through several caches.
//!
//! A request is a `get`, and after a miss an `insert`, of a value that some workloads let expire: time is counted in requests. The weight of all live values is counted outside of the
//! caches. For our own policies two things are verified: after each request the weight is at most the capacity, and
//! the hit ratio is at most that of the optimum.

mod args;
mod cache;
mod optimum;
mod ours;
mod peers;
mod replay;
mod source;
#[cfg(test)]
mod tests;

pub use args::HitRatioArgs;
pub(crate) use source::Source;

use crate::trace::Request;
use anyhow::{Result, bail, ensure};
use cache::Setup;
use indicatif::ProgressBar;
use larder_terminal::{self, Table, grouped};
use optimum::Optimum;
use replay::{Replay, Row};

/// The number of requests that each cache gets before the next one takes its turn.
const CHUNK: usize = 1 << 14;

/// Replays the requests and prints the results.
pub(crate) fn run(args: &HitRatioArgs) -> Result<()> {
    args.check()?;
    let source = args.source();
    let bar = source.progress();
    let outcome = replay_all(source.open(&bar)?, args, &bar)?;
    bar.finish_and_clear();
    larder_terminal::print(&if args.json { outcome.json()? } else { outcome.text(args) })?;
    outcome.check()
}

/// Replays the requests, verifies our guarantees, and returns the results.
pub(crate) fn replay_source(args: &HitRatioArgs) -> Result<Vec<Row>> {
    let bar = ProgressBar::hidden();
    let outcome = replay_all(args.source().open(&bar)?, args, &bar)?;
    outcome.check()?;
    Ok(outcome.rows)
}

/// The results of all caches on the same requests, the best first.
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
    ensure!(!chunk.is_empty(), "{} has no requests", args.source());

    let setup = Setup {
        capacity: args.capacity,
        weighed: args.bytes,
        mean_weight: mean_weight(&chunk),
        expires: chunk.iter().any(|request| request.ttl.is_some()),
    };
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

    let row = |replay: Replay| replay.finish(args.source().to_string(), args.capacity, total, bound);
    let mut rows: Vec<Row> = replays.into_iter().map(row).collect();
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
            args.source(),
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

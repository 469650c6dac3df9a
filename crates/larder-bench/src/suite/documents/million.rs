//! Document 0: a million pairs, as whole records and as slug and address.

use super::case::{Case, Outcome};
use crate::measure::alloc;
use crate::measure::rounds::Value;
use crate::tool::output_within;
use anyhow::{Context, Result, ensure};
use larder_engine::Cache;
use larder_process::find_program;
use std::process::Command;
use std::time::{Duration, Instant};

const DEADLINE: Duration = Duration::from_secs(180);
const MILLION: &str = include_str!("elixir/million.exs");
const ADDRESS: &str = "http://www.example.com";

/// A link, as the database has it.
#[derive(Clone)]
#[expect(dead_code, reason = "stored, and never read: the size and the time are measured")]
struct Record {
    id: u64,
    slug: Box<str>,
    address: Box<str>,
    visits: u64,
    inserted_at: i64,
    updated_at: i64,
}

/// What is stored under a slug.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stored {
    Record,
    Address,
}

impl Stored {
    fn workload(self) -> &'static str {
        match self {
            Stored::Record => "million-records",
            Stored::Address => "million-addresses",
        }
    }
}

pub(super) fn cases(count: u64) -> Vec<Case<'static>> {
    let elixir = find_program("elixir").is_some();
    let of = |stored: Stored| {
        let case = |subject, per_second: f64, run: Box<dyn FnMut() -> Result<Outcome>>| {
            let mut run = run;
            Case {
                group: stored.workload().to_owned(),
                subject,
                estimate: Duration::from_secs_f64(1.0 + count as f64 / per_second),
                run: Box::new(move || Ok(vec![run()?])),
            }
        };
        let mut cases = vec![case("larder", 2e6, Box::new(move || fill_ours(stored, count)))];
        if elixir {
            let public = Box::new(move || fill_elixir("public", stored, count));
            let genserver = Box::new(move || fill_elixir("genserver", stored, count));
            cases.push(case("ETS behind a GenServer", 1e5, genserver));
            cases.push(case("public ETS", 5e5, public));
        }
        cases
    };
    [Stored::Record, Stored::Address].into_iter().flat_map(of).collect()
}

fn fill_ours(stored: Stored, count: u64) -> Result<Outcome> {
    let (time, bytes) = match stored {
        Stored::Record => fill(count, |id, slug| Record {
            id,
            slug: slug.into(),
            address: ADDRESS.into(),
            visits: 0,
            inserted_at: 0,
            updated_at: 0,
        })?,
        Stored::Address => fill(count, |_, _| Box::<str>::from(ADDRESS))?,
    };
    Ok(outcome(stored, count, time.as_secs_f64(), bytes))
}

/// Looks each key up and stores it, as the `fetch` of the document does. The allocator counts the bytes; without one that
/// counts there are none.
fn fill<V: Clone + Send + Sync + 'static>(
    count: u64,
    value: impl Fn(u64, &str) -> V,
) -> Result<(Duration, Option<u64>)> {
    let work = || {
        let cache = Cache::<Box<str>, V>::builder().entries(count + count / 10).build()?;
        let start = Instant::now();
        for id in 1..=count {
            let slug = id.to_string();
            if cache.get(slug.as_str()).is_none() {
                cache.insert(slug.as_str().into(), value(id, &slug));
            }
        }
        anyhow::Ok((start.elapsed(), cache))
    };
    let (filled, bytes) = match alloc::measure_growth(work) {
        Some((filled, bytes)) => (filled?, Some(bytes as u64)),
        None => (work()?, None),
    };
    let (time, cache) = filled;
    ensure!(cache.len() as u64 == count, "{} of {count} pairs are stored", cache.len());
    Ok((time, bytes))
}

fn fill_elixir(owner: &str, stored: Stored, count: u64) -> Result<Outcome> {
    let program = find_program("elixir").context("elixir is not installed")?;
    let folder = tempfile::tempdir()?;
    let script = folder.path().join("million.exs");
    std::fs::write(&script, MILLION)?;
    let value = if stored == Stored::Record { "record" } else { "address" };
    let mut command = Command::new(program);
    let output = output_within(command.arg(script).args([owner, value, &count.to_string()]), DEADLINE)?;
    let numbers = output
        .trim()
        .split_once(' ')
        .and_then(|(seconds, bytes)| Some((seconds.parse::<f64>().ok()?, bytes.parse::<u64>().ok()?)));
    let (seconds, bytes) = numbers.with_context(|| format!("no figures: {}", output.trim()))?;
    Ok(outcome(stored, count, seconds, Some(bytes)))
}

fn outcome(stored: Stored, count: u64, seconds: f64, bytes: Option<u64>) -> Outcome {
    let mut values =
        vec![Value::low("time", "s", seconds), Value::high("rate", "/s", count as f64 / seconds)];
    if let Some(bytes) = bytes {
        values.push(Value::low("memory", "MB", bytes as f64 / 1e6));
        values.push(Value::low("per pair", "B", bytes as f64 / count as f64));
    }
    Outcome { workload: stored.workload().to_owned(), values, remark: None }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_pair_is_stored() {
        for stored in [Stored::Record, Stored::Address] {
            let outcome = fill_ours(stored, 1_000).unwrap();
            assert!(outcome.values.iter().any(|value| value.measure == "rate" && value.value > 0.0));
        }
    }
}

//! The stores of Ruby, each in a process of its own.

use super::{PROGRAMS, Servers};
use crate::measure::rounds::Value;
use crate::suite::documents::case::{Case, Outcome};
use crate::suite::documents::is_installed as is_present;
use crate::tool::output_within;
use anyhow::{Context, Result};
use larder_process::find_program;
use std::process::Command;
use std::time::Duration;

const SCRIPT: &str = include_str!("stores.rb");
const DEADLINE: Duration = Duration::from_secs(60);

/// The subjects, their names in the script, and the workload that groups them.
const STORES: [(&str, &str, &str); 10] = [
    ("MemoryStore", "memory", "multi"),
    ("Readthis' design", "readthis", "multi"),
    ("MemCacheStore, dalli", "memcached", "multi"),
    ("RedisCacheStore", "redis", "multi"),
    ("Readthis' design, pure Ruby", "driver-ruby", "driver"),
    ("Readthis' design, hiredis", "driver-hiredis", "driver"),
    ("Readthis' design, passthrough", "marshal-passthrough", "marshal"),
    ("Readthis' design, Oj", "marshal-oj", "marshal"),
    ("Readthis' design, JSON", "marshal-json", "marshal"),
    ("Readthis' design, Marshal", "marshal-marshal", "marshal"),
];

pub(super) fn is_installed() -> bool {
    PROGRAMS.iter().all(|(program, _)| is_present(program))
}

pub(super) fn cases(servers: &Servers, limit: Duration) -> Vec<Case<'_>> {
    let case = |(subject, store, group): (&'static str, &'static str, &str)| Case {
        group: group.to_owned(),
        subject,
        // Two measures, each with its warm-up.
        estimate: Duration::from_millis(800) + limit * 5 / 2,
        run: Box::new(move || outcomes(&run(store, servers, limit)?)) as Box<dyn FnMut() -> Result<_> + '_>,
    };
    STORES.into_iter().map(case).collect()
}

/// The versions of the libraries.
pub(super) fn versions(servers: &Servers) -> Result<Vec<(String, String)>> {
    let output = run("versions", servers, Duration::ZERO)?;
    let version =
        |line: &str| line.split_once('\t').map(|(name, version)| (name.to_owned(), version.to_owned()));
    Ok(output.lines().filter_map(version).collect())
}

fn run(store: &str, servers: &Servers, limit: Duration) -> Result<String> {
    let program = find_program("ruby").context("ruby is not installed")?;
    let memcached = servers.memcached.as_ref().context("memcached is not installed")?;
    let folder = tempfile::tempdir()?;
    let script = folder.path().join("stores.rb");
    std::fs::write(&script, SCRIPT)?;
    let mut command = Command::new(program);
    command.arg(script).args([store, &limit.as_millis().to_string()]);
    command.arg(servers.redis.socket()).arg(memcached.socket());
    output_within(&mut command, DEADLINE)
}

/// Reads lines of workload, measure and number.
fn outcomes(output: &str) -> Result<Vec<Outcome>> {
    let mut outcomes: Vec<Outcome> = Vec::new();
    for line in output.lines() {
        let fields: Vec<&str> = line.split('\t').collect();
        let [workload, measure, number] = fields[..] else { anyhow::bail!("no figure: {line}") };
        let number = number.parse().with_context(|| format!("no figure: {line}"))?;
        let value = match measure {
            "read-multi" => Value::high("read-multi", "/s", number),
            "fetch-multi" => Value::high("fetch-multi", "/s", number),
            "load" => Value::high("load", "/s", number),
            "dump" => Value::high("dump", "/s", number),
            "allocations" => Value::low("allocations", "per value", number),
            _ => anyhow::bail!("no such measure: {line}"),
        };
        match outcomes.iter_mut().find(|outcome| outcome.workload == workload) {
            Some(outcome) => outcome.values.push(value),
            None => {
                let workload = workload.to_owned();
                outcomes.push(Outcome { workload, values: vec![value], remark: None });
            }
        }
    }
    Ok(outcomes)
}

//! Runs the examples of the library crates, which must be built already.

use crate::workspace::{array, members, metadata, target, text};
use anyhow::{Context, Result, bail};
use larder_process::{RedisServer, Running, find_program};
use std::process::{Command, Stdio};
use std::time::Duration;

/// The crates whose examples run.
const CRATES: &[&str] = &["larder", "larder-admin", "larder-engine"];
/// Examples that run until they are stopped. With `--check` they end as soon as they listen.
const SERVICES: &[&str] = &["axum_service", "both_layers", "dashboard", "with_dashboard"];
/// The example that requires Redis.
const NEEDS_REDIS: &str = "two_nodes";
const DEADLINE: Duration = Duration::from_secs(30);

/// Runs every example to its end. Returns the number of examples that ran, and those skipped because of a missing
/// program.
pub(crate) fn run() -> Result<(u64, Vec<String>)> {
    let (mut ran, mut skipped) = (0, Vec::new());
    for name in examples()? {
        let mut command = Command::new(target().join("debug/examples").join(&name));
        let redis = match name.as_str() {
            NEEDS_REDIS => match find_program("redis-server") {
                Some(program) => Some(RedisServer::start(program)?),
                None => {
                    skipped.push(format!("example {name}: redis-server is not installed"));
                    continue;
                }
            },
            _ => None,
        };
        command
            .args(redis.as_ref().map(RedisServer::url))
            .args(SERVICES.contains(&&*name).then_some("--check"));
        let example = Running::start(command.stdin(Stdio::null()).stdout(Stdio::null()));
        wait(example.with_context(|| format!("cannot run example {name}"))?, &name)?;
        println!("example {name} ... ok");
        ran += 1;
    }
    Ok((ran, skipped))
}

/// The names of the examples, sorted.
fn examples() -> Result<Vec<String>> {
    let metadata = metadata()?;
    let selected = members(&metadata).filter(|package| CRATES.contains(&text(&package["name"])));
    let targets = selected.flat_map(|package| array(&package["targets"]));
    let mut names: Vec<String> = targets
        .filter(|target| array(&target["kind"]).any(|kind| kind == "example"))
        .map(|target| text(&target["name"]).to_owned())
        .collect();
    names.sort();
    Ok(names)
}

fn wait(mut example: Running, name: &str) -> Result<()> {
    match example.wait_within(DEADLINE)? {
        Some(status) if status.success() => Ok(()),
        Some(status) => bail!("example {name} failed: {status}"),
        None => bail!("example {name} did not end within {DEADLINE:?}"),
    }
}

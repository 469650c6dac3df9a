//! What the project costs to build: the processor time of the default program from nothing, and the size of the test build.

use crate::graph::Graph;
use crate::workspace::{root, target};
use anyhow::{Context, Result, bail};
use serde_json::Value;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Stdio;

/// The recorded size of the test build.
const RECORD: &str = "xtask/cost.json";
/// The largest accepted ratio of a size of the test build to the recorded one.
const LIMIT: f64 = 1.10;

/// The processor time of the child processes that have ended so far, with their children, in seconds.
pub(crate) fn cpu_seconds() -> Result<f64> {
    // See proc_pid_stat(5): the fields after the name of the program, which is in parentheses, begin with the third.
    let stat = std::fs::read_to_string("/proc/self/stat").context("cannot read /proc/self/stat")?;
    let fields = stat.rsplit(')').next().unwrap_or_default();
    let fields: Vec<&str> = fields.split_whitespace().collect();
    let ticks = |number: usize| fields.get(number - 3).and_then(|field| field.parse::<f64>().ok());
    let (user, system) = ticks(16).zip(ticks(17)).context("/proc/self/stat has no times of children")?;
    // `USER_HZ` is 100 on every architecture that we build for.
    Ok((user + system) / 100.0)
}

/// The size of the test build, which is the dearest part of the test command. Processor time would depend on the machine and
/// on what else runs there: the same test command took 50 minutes of it on one day, and 126 on another.
#[derive(Debug, PartialEq)]
struct TestBuild {
    /// The packages that were compiled, those of the workspace too.
    crates: BTreeSet<String>,
    programs: BTreeSet<PathBuf>,
}

/// Fails if the test build, which exists, is larger than the record allows.
pub(crate) fn check_test_build() -> Result<()> {
    let arguments = [crate::stages::TEST_BUILD, &["--message-format=json", "--quiet"]].concat();
    let output = crate::stages::command(&arguments)
        .stderr(Stdio::inherit())
        .output()
        .context("cannot run cargo build")?;
    let build = TestBuild::parse(&String::from_utf8_lossy(&output.stdout))?;
    let sizes = build.sizes()?;
    let words: Vec<String> = sizes.iter().map(|(name, size)| format!("{name} {size:.0}")).collect();
    println!("the test build: {}", words.join(", "));
    let faults = faults(&sizes, &recorded()?);
    if !faults.is_empty() {
        bail!(
            "{}: find what has grown, or write the new size to {RECORD}, with its reason in the commit",
            faults.join(", ")
        );
    }
    Ok(())
}

impl TestBuild {
    /// From the messages of cargo, one in each line.
    fn parse(messages: &str) -> Result<Self> {
        let mut build = TestBuild { crates: BTreeSet::new(), programs: BTreeSet::new() };
        for line in messages.lines().filter(|line| line.starts_with('{')) {
            let message: Value = serde_json::from_str(line).context("a message of cargo is not JSON")?;
            if message["reason"] == "compiler-artifact" {
                build.crates.extend(message["package_id"].as_str().map(str::to_owned));
                build.programs.extend(message["executable"].as_str().map(PathBuf::from));
            }
        }
        Ok(build)
    }

    fn sizes(&self) -> Result<[(&'static str, f64); 3]> {
        let bytes = self.programs.iter().map(|path| {
            let file = std::fs::metadata(path).with_context(|| format!("there is no {}", path.display()))?;
            Ok(file.len() as f64)
        });
        let bytes: f64 = bytes.sum::<Result<f64>>()?;
        let (crates, programs) = (self.crates.len() as f64, self.programs.len() as f64);
        Ok([("crates", crates), ("programs", programs), ("megabytes", bytes / 1e6)])
    }
}

/// What has grown beyond the limit.
fn faults(sizes: &[(&'static str, f64)], recorded: &Value) -> Vec<String> {
    let mut faults = Vec::new();
    for (name, size) in sizes {
        match recorded[name].as_f64() {
            Some(record) if *size <= record * LIMIT => {}
            Some(record) => {
                faults.push(format!("the test build has {size:.0} {name}, recorded are {record:.0}"))
            }
            None => faults.push(format!("{RECORD} has no number {name}")),
        }
    }
    faults
}

fn recorded() -> Result<Value> {
    let json =
        std::fs::read_to_string(root().join(RECORD)).with_context(|| format!("cannot read {RECORD}"))?;
    serde_json::from_str(&json).with_context(|| format!("{RECORD} is not JSON"))
}

/// The most crates that the in-process cache alone may bring: whoever only wants a map pays for them.
const MAX_ENGINE_DEPENDENCIES: usize = 12;

/// What is wrong with the number of crates that `larder-engine` alone brings, without its dev-dependencies.
pub(crate) fn engine_faults() -> Result<Option<String>> {
    let graph = Graph::read("larder-engine")?;
    let brought = graph.reached(None).len() - 1;
    Ok((brought > MAX_ENGINE_DEPENDENCIES).then(|| {
        format!("larder-engine brings {brought} crates; at most {MAX_ENGINE_DEPENDENCIES} are accepted")
    }))
}

/// Builds the default program from nothing, and prints what that costs, and what each direct dependency alone brings.
pub(crate) fn print() -> Result<()> {
    let folder = target().join("cost");
    _ = std::fs::remove_dir_all(&folder);
    let before = cpu_seconds()?;
    let mut build = crate::stages::command(&["build", "--release", "--locked", "--quiet"]);
    let built = build.env("CARGO_TARGET_DIR", &folder).stdout(Stdio::null()).status()?;
    if !built.success() {
        bail!("the build failed");
    }
    let minutes = (cpu_seconds()? - before) / 60.0;
    let program = std::fs::metadata(folder.join("release/larder")).context("there is no program larder")?;
    let graph = Graph::read("larder-cli")?;
    let crates = graph.reached(None).len();
    println!("cargo build --release from nothing: {minutes:.1} CPU minutes, {crates} crates");
    println!("the program larder: {:.1} MB", program.len() as f64 / 1e6);
    println!("\ncrates that each direct dependency alone brings, with those that it shares:");
    for (name, alone, all) in graph.costs() {
        println!("  {name:<20} {alone:>4} {all:>4}");
    }
    remove(&folder)
}

fn remove(folder: &Path) -> Result<()> {
    std::fs::remove_dir_all(folder).with_context(|| format!("cannot remove {}", folder.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn test_build_counts_each_crate_and_program_once() {
        let messages = r#"{"reason":"compiler-artifact","package_id":"a","executable":null}
{"reason":"compiler-artifact","package_id":"a","executable":"/b/a-1"}
{"reason":"compiler-artifact","package_id":"c","executable":"/b/a-1"}
{"reason":"build-finished","success":true}"#;
        let build = TestBuild::parse(messages).unwrap();
        assert_eq!((build.crates.len(), build.programs.len()), (2, 1));
    }

    #[test]
    fn test_build_beyond_its_record_is_a_fault() {
        let recorded = serde_json::json!({ "crates": 100, "programs": 10 });
        assert!(faults(&[("crates", 110.0), ("programs", 10.0)], &recorded).is_empty());
        assert_eq!(
            faults(&[("crates", 111.0), ("megabytes", 1.0)], &recorded),
            ["the test build has 111 crates, recorded are 100", "xtask/cost.json has no number megabytes"]
        );
    }

    #[test]
    fn children_cost_processor_time() {
        let before = cpu_seconds().unwrap();
        let busy = "i=0; while [ $i -lt 100000 ]; do i=$((i+1)); done";
        assert!(std::process::Command::new("sh").args(["-c", busy]).status().unwrap().success());
        assert!(cpu_seconds().unwrap() > before);
    }
}

//! Counts the instructions of the hot paths with callgrind, and compares them with the counts that are committed.
//!
//! Instructions do not depend on the load of the machine, so a change of a few percent shows in one run. They depend on the
//! compiler: with another rustc or valgrind than those of the committed counts the comparison is a report and no check.

use crate::workspace::{root, target, text};
use anyhow::{Context, Result, bail};
use larder_process::find_program;
use serde_json::{Map, Value, json};
use std::num::NonZero;
use std::path::PathBuf;
use std::process::Command;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::available_parallelism;

/// The committed counts.
const BASELINE: &str = "xtask/guard.json";
/// The largest accepted ratio of a count to the committed one.
const LIMIT: f64 = 1.02;

/// Instructions per operation of each path, and the tools that they depend on.
#[derive(Debug, PartialEq)]
struct Counts {
    rustc: String,
    valgrind: String,
    paths: Vec<(String, f64)>,
}

/// Compares the counts of the built example `guard` with the committed ones. Returns what was skipped.
///
/// # Errors
/// If a path needs more than 2 % more instructions, with the tools of the committed counts.
pub(crate) fn check() -> Result<Option<String>> {
    if find_program("valgrind").is_none() {
        return Ok(Some("guard: valgrind is not installed".to_owned()));
    }
    let (baseline, now) = (Counts::read()?, Counts::measure()?);
    print!("{}", baseline.table(&now));
    let faults = baseline.faults(&now);
    if !baseline.is_comparable(&now) {
        println!(
            "reported only: {}, {}; committed with {}, {}",
            now.rustc, now.valgrind, baseline.rustc, baseline.valgrind
        );
    } else if !faults.is_empty() {
        bail!("{}\nif that is intended: cargo xtask guard --accept", faults.join("\n"));
    }
    Ok(None)
}

/// Replaces the committed counts.
pub(crate) fn accept() -> Result<()> {
    let counts = Counts::measure()?;
    let path = root().join(BASELINE);
    std::fs::write(&path, counts.to_json()).with_context(|| format!("cannot write {BASELINE}"))?;
    println!("wrote {BASELINE}: commit it with the change that needs it");
    Ok(())
}

impl Counts {
    fn measure() -> Result<Self> {
        let paths = output(&mut Command::new(example()))?.0;
        let count = |path: &str| -> Result<(String, f64)> {
            let (name, operations) = path.split_once(' ').context("a path has a number of operations")?;
            let operations: u64 = operations.parse().context("it is a number")?;
            let difference = instructions(name, 2 * operations)? - instructions(name, operations)?;
            Ok((name.to_owned(), (difference / operations as f64 * 10.0).round() / 10.0))
        };
        let paths: Vec<&str> = paths.lines().collect();
        Ok(Counts {
            rustc: version("rustc")?,
            valgrind: version("valgrind")?,
            paths: on_all_processors(&paths, |path| count(path)).into_iter().collect::<Result<_>>()?,
        })
    }

    fn read() -> Result<Self> {
        let json = std::fs::read(root().join(BASELINE)).with_context(|| format!("cannot read {BASELINE}"))?;
        let json: Value = serde_json::from_slice(&json).with_context(|| format!("{BASELINE} is not JSON"))?;
        let counts = json["instructions_per_operation"].as_object().into_iter().flatten();
        Ok(Counts {
            rustc: text(&json["rustc"]).to_owned(),
            valgrind: text(&json["valgrind"]).to_owned(),
            paths: counts.filter_map(|(name, count)| Some((name.clone(), count.as_f64()?))).collect(),
        })
    }

    fn to_json(&self) -> String {
        let counts: Map<String, Value> =
            self.paths.iter().map(|(name, count)| (name.clone(), json!(count))).collect();
        let json = json!({
            "rustc": self.rustc, "valgrind": self.valgrind, "instructions_per_operation": counts,
        });
        format!("{json:#}\n")
    }

    fn of(&self, name: &str) -> Option<f64> {
        self.paths.iter().find(|(known, _)| known == name).map(|(_, count)| *count)
    }

    fn is_comparable(&self, now: &Counts) -> bool {
        self.rustc == now.rustc && self.valgrind == now.valgrind
    }

    /// The paths that need too many instructions, and those that only one side has.
    fn faults(&self, now: &Counts) -> Vec<String> {
        let fault = |(name, count): &(String, f64)| match self.of(name) {
            None => Some(format!("{name} has no committed count")),
            Some(before) if *count > LIMIT * before => Some(format!(
                "{name} needs {count} instructions, {:.1} % more than {before}",
                100.0 * (count / before - 1.0)
            )),
            Some(_) => None,
        };
        let removed = self.paths.iter().filter(|(name, _)| now.of(name).is_none());
        let removed = removed.map(|(name, _)| format!("{name} is committed and does not exist"));
        now.paths.iter().filter_map(fault).chain(removed).collect()
    }

    fn table(&self, now: &Counts) -> String {
        let row = |(name, count): &(String, f64)| match self.of(name) {
            Some(before) => format!("  {name:<17} {before:>9.1} {count:>9.1}  {:>6.3}\n", count / before),
            None => format!("  {name:<17} {:>9} {count:>9.1}\n", "–"),
        };
        let rows: String = now.paths.iter().map(row).collect();
        format!("instructions per operation: path, committed, now, ratio\n{rows}")
    }
}

/// Applies `work` to each item, as many at a time as there are processors. The results are in the order of the items.
fn on_all_processors<T: Sync, R: Send>(items: &[T], work: impl Fn(&T) -> R + Sync) -> Vec<R> {
    let (next, results) = (AtomicUsize::new(0), Mutex::new(Vec::with_capacity(items.len())));
    std::thread::scope(|scope| {
        for _ in 0..available_parallelism().map_or(1, NonZero::get) {
            scope.spawn(|| {
                while let at = next.fetch_add(1, Ordering::Relaxed)
                    && let Some(item) = items.get(at)
                {
                    let result = work(item);
                    results.lock().expect("no thread panics with the lock").push((at, result));
                }
            });
        }
    });
    let mut results = results.into_inner().expect("no thread panics with the lock");
    results.sort_by_key(|(at, _)| *at);
    results.into_iter().map(|(_, result)| result).collect()
}

/// The instructions of the example from its start to its end.
fn instructions(name: &str, operations: u64) -> Result<f64> {
    let mut command = Command::new("valgrind");
    command.args(["--tool=callgrind", "--callgrind-out-file=/dev/null"]).arg(example());
    let (_, report) = output(command.args([name, &operations.to_string()]))?;
    let count = report.lines().find_map(|line| line.split_once("Collected :")?.1.trim().parse().ok());
    count.with_context(|| format!("callgrind has counted nothing: {report}"))
}

fn version(program: &str) -> Result<String> {
    Ok(output(Command::new(program).arg("--version").current_dir(root()))?.0.trim().to_owned())
}

/// The example, as the build of the tests leaves it.
fn example() -> PathBuf {
    target().join("debug/examples/guard")
}

/// What a command writes to its standard output and its standard error.
fn output(command: &mut Command) -> Result<(String, String)> {
    let output = command.output().with_context(|| format!("cannot run {command:?}"))?;
    let [out, errors] =
        [output.stdout, output.stderr].map(|text| String::from_utf8_lossy(&text).into_owned());
    if !output.status.success() {
        bail!("{command:?} failed: {}", errors.trim());
    }
    Ok((out, errors))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counts(paths: &[(&str, f64)]) -> Counts {
        let paths = paths.iter().map(|(name, count)| ((*name).to_owned(), *count)).collect();
        Counts { rustc: "rustc 1".to_owned(), valgrind: "valgrind 2".to_owned(), paths }
    }

    #[test]
    fn path_above_the_limit_is_a_fault_and_one_below_is_not() {
        let baseline = counts(&[("get", 100.0), ("set", 200.0)]);
        assert_eq!(baseline.faults(&counts(&[("get", 101.9), ("set", 100.0)])), [""; 0]);
        let slower = baseline.faults(&counts(&[("get", 102.1), ("set", 200.0)]));
        assert_eq!(slower, ["get needs 102.1 instructions, 2.1 % more than 100"]);
    }

    #[test]
    fn path_on_one_side_only_is_a_fault() {
        let faults = counts(&[("get", 1.0)]).faults(&counts(&[("set", 1.0)]));
        assert_eq!(faults, ["set has no committed count", "get is committed and does not exist"]);
    }

    #[test]
    fn results_are_in_the_order_of_the_items() {
        let items: Vec<u64> = (0..50).rev().collect();
        let slow = |item: &u64| {
            std::thread::sleep(std::time::Duration::from_micros(*item));
            2 * item
        };
        assert_eq!(on_all_processors(&items, slow), items.iter().map(|item| 2 * item).collect::<Vec<_>>());
        assert!(on_all_processors(&[] as &[u64], slow).is_empty());
    }

    #[test]
    fn counts_of_another_compiler_are_not_comparable() {
        let baseline = counts(&[]);
        assert!(baseline.is_comparable(&counts(&[])));
        assert!(!baseline.is_comparable(&Counts { rustc: "rustc 2".to_owned(), ..counts(&[]) }));
    }

    #[test]
    fn committed_counts_are_readable() {
        let baseline = Counts::read().unwrap();
        assert!(!baseline.paths.is_empty() && baseline.paths.iter().all(|(_, count)| *count > 0.0));
        assert_eq!(std::fs::read_to_string(root().join(BASELINE)).unwrap(), baseline.to_json());
    }
}

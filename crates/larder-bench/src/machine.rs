//! The machine, the commit of the source, and the versions of the crates.

use crate::result::Machine;
use std::collections::BTreeMap;
use std::process::Command;

/// Has the versions with which this program was built.
const LOCK_FILE: &str = include_str!("../../../Cargo.lock");

pub(crate) fn machine() -> Machine {
    let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
    let after_colon = |text: &str, field: &str| {
        let line = text.lines().find(|line| line.starts_with(field))?;
        Some(line.split_once(':')?.1.trim().to_owned())
    };
    let kibibytes = after_colon(&read("/proc/meminfo"), "MemTotal")
        .and_then(|total| total.split_ascii_whitespace().next()?.parse::<u64>().ok());
    Machine {
        processor: after_colon(&read("/proc/cpuinfo"), "model name").unwrap_or_else(|| "unknown".to_owned()),
        threads: std::thread::available_parallelism().map_or(1, usize::from),
        memory_bytes: kibibytes.unwrap_or(0) * 1024,
        kernel: read("/proc/sys/kernel/osrelease").trim().to_owned(),
        load_average: read("/proc/loadavg")
            .split_ascii_whitespace()
            .next()
            .and_then(|load| load.parse().ok())
            .unwrap_or(0.0),
    }
}

/// The commit of the source, with a suffix if files differ from it; `None` outside of a repository.
pub(crate) fn commit() -> Option<String> {
    let mut git = Command::new("git");
    git.args(["-C", env!("CARGO_MANIFEST_DIR"), "describe", "--always", "--dirty", "--abbrev=12"]);
    let output = git.output().ok().filter(|output| output.status.success())?;
    Some(String::from_utf8(output.stdout).ok()?.trim().to_owned())
}

/// The versions of the compiler and of those of `crates` that this program contains. Of several versions, the newest: its own crates use
/// that.
pub(crate) fn versions(crates: &[&str]) -> BTreeMap<String, String> {
    let mut versions = BTreeMap::from([("rustc".to_owned(), env!("LARDER_RUSTC").to_owned())]);
    for name in crates {
        let heading = format!("name = \"{name}\"\nversion = \"");
        // The lock file lists the versions of one crate in ascending order.
        let newest = LOCK_FILE.rfind(&heading).map(|at| &LOCK_FILE[at + heading.len()..]);
        if let Some(version) = newest.and_then(|text| text.split('"').next()) {
            versions.insert((*name).to_owned(), version.to_owned());
        }
    }
    versions
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_come_from_the_lock_file() {
        let versions = versions(&["quick_cache", "no-such-crate"]);
        assert_eq!(versions.keys().collect::<Vec<_>>(), ["quick_cache", "rustc"]);
        assert!(versions["quick_cache"].starts_with("0.7") && versions["rustc"].starts_with("1."));
    }

    #[test]
    fn machine_has_threads_memory_and_kernel() {
        let machine = machine();
        assert!(machine.threads >= 1 && machine.memory_bytes > 0 && !machine.kernel.is_empty());
    }
}

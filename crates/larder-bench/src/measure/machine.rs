//! The machine, the commit of the source, and the versions of the crates.

use crate::result::Machine;
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use std::collections::BTreeMap;
use std::process::Command;

/// Has the versions with which this program was built.
const LOCK_FILE: &str = include_str!("../../../../Cargo.lock");

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

/// The versions of the compiler and of those of `crates` that this program contains. Of several versions, the newest: its
/// own crates use that.
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

/// Runs `work` on one processor, with the threads and the programs that it starts; on any if the system does not allow that.
/// Where a client and a server take turns, whether the system puts them on one processor or on two changes the time of a turn
/// threefold, and it decides anew in each round.
pub(crate) fn on_one_processor<T>(work: impl FnOnce() -> T) -> T {
    let before = sched_getaffinity(None);
    if let Ok(all) = &before
        && let Some(first) = (0..CpuSet::MAX_CPU).find(|number| all.is_set(*number))
    {
        let mut one = CpuSet::new();
        one.set(first);
        _ = sched_setaffinity(None, &one);
    }
    let result = work();
    if let Ok(all) = before {
        _ = sched_setaffinity(None, &all);
    }
    result
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

    #[test]
    fn threads_of_the_work_are_on_one_processor() {
        let processors = || {
            let allowed = sched_getaffinity(None).unwrap();
            (0..CpuSet::MAX_CPU).filter(|number| allowed.is_set(*number)).count()
        };
        let before = processors();
        let inside = on_one_processor(|| std::thread::spawn(processors).join().unwrap());
        assert_eq!((inside, processors()), (1, before));
    }
}

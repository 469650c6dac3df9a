//! What tests need of the machine, and what they do where it is missing.

use crate::wait::PATIENCE;
use larder_process::{Running, find_program};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use std::fs::OpenOptions;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus};

/// Where a program is, or `None` and a note for the caller to return early, see [`needs`].
///
/// # Panics
/// If the program is missing and `CI` is `true`.
pub fn program(name: &str) -> Option<PathBuf> {
    let found = find_program(name);
    needs(name, found.is_some())?;
    found
}

/// `None` and a note for the caller to return early if what a test needs is not there. The note goes to stderr, and to
/// the file that `LARDER_SKIP_LOG` names, because test runners hide what a passing test prints.
///
/// # Panics
/// If it is missing and `CI` is `true`.
pub fn needs(what: &str, is_there: bool) -> Option<()> {
    if is_there {
        return Some(());
    }
    let test = test_name();
    assert!(std::env::var("CI").as_deref() != Ok("true"), "{test} needs {what}, which is not installed");
    note_skip(&format!("{test}: {what} is not installed"));
    None
}

/// The name of the test that runs on this thread, without that of its binary.
pub(crate) fn test_name() -> String {
    std::thread::current().name().unwrap_or("a test").to_owned()
}

pub(crate) fn note_skip(note: &str) {
    eprintln!("skipped {note}");
    if let Some(log) = std::env::var_os("LARDER_SKIP_LOG") {
        append_line(Path::new(&log), note).expect("the log of skips can be written");
    }
}

/// Appends a line in one write: tests of several threads and processes append to one file.
fn append_line(path: &Path, line: &str) -> io::Result<()> {
    OpenOptions::new().create(true).append(true).open(path)?.write_all(format!("{line}\n").as_bytes())
}

/// Starts a program that ends with the test.
///
/// # Panics
/// If it cannot be started.
pub fn start(command: &mut Command) -> Running {
    Running::start(command).unwrap_or_else(|error| panic!("cannot start {command:?}: {error}"))
}

/// The memory of a process in bytes, as the system counts it.
///
/// # Panics
///
/// If the process has ended.
pub fn resident_bytes(process: &Running) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{}/status", process.id())).expect("the process runs");
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).expect("a line for its memory");
    line.trim().trim_end_matches(" kB").parse::<u64>().expect("a number") << 10
}

/// Waits for the end of a process.
///
/// # Panics
/// If it does not end within [`PATIENCE`](crate::PATIENCE).
pub fn wait_for_end(process: &mut Running) -> ExitStatus {
    let status = process.wait_within(PATIENCE).expect("a child can be waited for");
    status.unwrap_or_else(|| panic!("a process did not end within {PATIENCE:?}"))
}

/// Lets this process have so many files and sockets open; returns whether the system allows it.
pub fn may_open(files: u64) -> bool {
    let limit = getrlimit(Resource::Nofile);
    let wanted = limit.current.map(|current| current.max(files));
    limit.current.is_none_or(|current| current >= files)
        || setrlimit(Resource::Nofile, Rlimit { current: wanted, maximum: limit.maximum }).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The end of a line was a write of its own, so two notes could be one line and an empty one.
    #[test]
    fn lines_of_several_threads_stay_whole() {
        let folder = tempfile::tempdir().unwrap();
        let log = folder.path().join("log");
        std::thread::scope(|threads| {
            for _ in 0..4 {
                threads.spawn(|| (0..1_000).for_each(|_| append_line(&log, "a note").unwrap()));
            }
        });
        let lines = std::fs::read_to_string(&log).unwrap();
        assert_eq!((lines.lines().count(), lines.lines().find(|line| *line != "a note")), (4_000, None));
    }
}

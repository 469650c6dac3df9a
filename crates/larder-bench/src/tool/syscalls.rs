//! Counts the system calls of a process while a command runs, with `perf stat`.

use anyhow::{Context, Result};
use larder_process::find_program;
use std::ffi::OsStr;
use std::fs;
use std::path::PathBuf;
use std::process::{Command, Stdio};

const EVENT: &str = "raw_syscalls:sys_enter";

/// Counts system calls. The process is slowed down by a few percent, so count in a round of its own.
pub(crate) struct SyscallCounter {
    perf: PathBuf,
    folder: tempfile::TempDir,
}

impl SyscallCounter {
    /// `None` if `perf` is not installed or may not count here: it needs root, or `kernel.perf_event_paranoid` of -1.
    pub(crate) fn new() -> Result<Option<Self>> {
        let Some(perf) = find_program("perf") else { return Ok(None) };
        let mut probe = Command::new(&perf);
        probe.args(["stat", "-e", EVENT, "true"]).stdout(Stdio::null()).stderr(Stdio::null());
        if !probe.status().is_ok_and(|status| status.success()) {
            return Ok(None);
        }
        Ok(Some(SyscallCounter { perf, folder: tempfile::tempdir()? }))
    }

    /// The same command, which also counts the system calls of the process `id` while it runs. If it is asked to
    /// terminate, so is `command`.
    pub(crate) fn wrap(&self, id: u32, command: &Command) -> Command {
        let mut perf = Command::new(&self.perf);
        perf.args(["stat", "-x", ",", "-e", EVENT, "-p", &id.to_string(), "-o"])
            .arg(self.file())
            .arg("--")
            .arg(command.get_program())
            .args(command.get_args().map(OsStr::to_owned));
        perf
    }

    /// The system calls while the last wrapped command ran.
    pub(crate) fn count(&self) -> Result<u64> {
        let text = fs::read_to_string(self.file()).context("perf has counted nothing")?;
        parse(&text).with_context(|| format!("perf has counted nothing: {}", text.trim()))
    }

    fn file(&self) -> PathBuf {
        self.folder.path().join("count")
    }
}

/// The count in the output of `perf stat -x ,`: the first field of the event's line.
fn parse(text: &str) -> Option<u64> {
    match text.lines().find(|line| line.contains(EVENT))?.split(',').next()? {
        // The process did not run meanwhile.
        "<not counted>" => Some(0),
        count => count.parse().ok(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use larder_process::Running;

    #[test]
    fn count_is_that_of_the_process_and_not_of_the_command() {
        let Some(counter) = SyscallCounter::new().unwrap() else {
            return eprintln!("perf cannot count system calls here: the suite leaves them out");
        };
        let mut sleeping = Command::new("sleep");
        let sleeping = Running::start(sleeping.arg("60")).unwrap();
        let mut command = Command::new("ls");
        command.arg("/");
        assert!(counter.wrap(sleeping.id(), &command).stdout(Stdio::null()).status().unwrap().success());
        assert_eq!(counter.count().unwrap(), 0, "a sleeping process calls nothing");
    }

    #[test]
    fn parse_reads_the_line_of_the_event() {
        assert_eq!(parse("# started on today\n\n12345,,raw_syscalls:sys_enter,99,100.00,,\n"), Some(12_345));
        assert_eq!(parse("<not counted>,,raw_syscalls:sys_enter,0,100.00,,\n"), Some(0));
        assert_eq!(parse("<not supported>,,raw_syscalls:sys_enter,0,100.00,,\n"), None);
        assert_eq!(parse(""), None);
    }
}

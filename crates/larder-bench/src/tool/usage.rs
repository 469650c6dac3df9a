//! What another process has used, as the system counts it: processor time, context switches, memory.

use anyhow::{Context, Result};
use rustix::param::clock_ticks_per_second;
use std::fs;
use std::ops::{Add, Sub};
use std::path::Path;
use std::time::Duration;

/// What a process, its threads and its children have used since they started. Threads and children that have ended are
/// not included, so a difference is meaningful only if none ended meanwhile.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Usage {
    /// The time on a processor, to the nanosecond for a thread that sleeps and to a timer tick for one that runs.
    pub(crate) cpu: Duration,
    /// How often a thread was replaced on its processor, because it waited or because its time was over.
    pub(crate) context_switches: u64,
}

impl Usage {
    /// The usage of the process `id`; zero if there is no such process.
    pub(crate) fn of(id: u32) -> Self {
        let threads = fs::read_dir(format!("/proc/{id}/task")).into_iter().flatten().flatten();
        threads.map(|thread| Usage::of_thread(&thread.path())).fold(Usage::default(), Usage::add)
    }

    fn of_thread(folder: &Path) -> Self {
        let read = |file: &str| fs::read_to_string(folder.join(file)).unwrap_or_default();
        // The first number is the time on a processor, in nanoseconds.
        let nanos = read("schedstat").split_ascii_whitespace().next().and_then(|nanos| nanos.parse().ok());
        let status = read("status");
        let own = Usage {
            cpu: Duration::from_nanos(nanos.unwrap_or(0)),
            context_switches: field(&status, "voluntary_ctxt_switches")
                + field(&status, "nonvoluntary_ctxt_switches"),
        };
        children_of_thread(folder).map(Usage::of).fold(own, Usage::add)
    }
}

/// The processes that a thread has started and that run.
fn children_of_thread(folder: &Path) -> impl Iterator<Item = u32> + use<> {
    let children = fs::read_to_string(folder.join("children")).unwrap_or_default();
    children.split_ascii_whitespace().filter_map(|child| child.parse().ok()).collect::<Vec<_>>().into_iter()
}

impl Add for Usage {
    type Output = Usage;

    fn add(self, other: Usage) -> Usage {
        Usage { cpu: self.cpu + other.cpu, context_switches: self.context_switches + other.context_switches }
    }
}

impl Sub for Usage {
    type Output = Usage;

    /// The usage between two readings, of which `earlier` is the first.
    fn sub(self, earlier: Usage) -> Usage {
        Usage {
            cpu: self.cpu.saturating_sub(earlier.cpu),
            context_switches: self.context_switches.saturating_sub(earlier.context_switches),
        }
    }
}

/// The time on a processor that the process `id` has used, with that of its threads that have ended, to a timer tick.
///
/// # Errors
/// If there is no such process.
pub(crate) fn process_cpu(id: u32) -> Result<Duration> {
    let stat = fs::read_to_string(format!("/proc/{id}/stat")).with_context(|| format!("no process {id}"))?;
    // The name of the program, in parentheses, may contain anything. After it the times are the 12th and the 13th field.
    let fields = stat.rsplit_once(')').map_or("", |(_, fields)| fields).split_ascii_whitespace();
    let times: Vec<u64> = fields.skip(11).take(2).filter_map(|ticks| ticks.parse().ok()).collect();
    Ok(Duration::from_secs_f64(times.iter().sum::<u64>() as f64 / clock_ticks_per_second() as f64))
}

/// The bytes of the process `id` that are in memory; 0 if there is no such process. They are counted page by page: the
/// sum in `/proc/ID/status` lags behind.
pub(crate) fn resident_bytes(id: u32) -> u64 {
    field(&fs::read_to_string(format!("/proc/{id}/smaps_rollup")).unwrap_or_default(), "Rss") << 10
}

/// The bytes in memory that the process `id` and its children have written, where what several of them share counts once.
/// Pages of files are left out: each program that starts and maps the same library takes a share of them.
pub(crate) fn written_bytes(id: u32) -> u64 {
    let rollup = fs::read_to_string(format!("/proc/{id}/smaps_rollup")).unwrap_or_default();
    let own = (field(&rollup, "Pss_Anon") + field(&rollup, "Pss_Shmem")) << 10;
    let threads = fs::read_dir(format!("/proc/{id}/task")).into_iter().flatten().flatten();
    own + threads.flat_map(|thread| children_of_thread(&thread.path())).map(written_bytes).sum::<u64>()
}

/// The most bytes of the process `id` that were in memory at once; 0 if there is no such process.
pub(crate) fn peak_resident_bytes(id: u32) -> u64 {
    field(&fs::read_to_string(format!("/proc/{id}/status")).unwrap_or_default(), "VmHWM") << 10
}

/// The number in the line `name: number`; 0 if there is none.
fn field(text: &str, name: &str) -> u64 {
    let value = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
    value.and_then(|value| value.split_ascii_whitespace().next()?.parse().ok()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use larder_process::Running;
    use std::io::{Read, Write};
    use std::process::{Command, Stdio};

    #[test]
    fn usage_has_the_children_of_a_process() {
        // The shell waits for a child, which computes, says so, and waits for the end of its input.
        let script =
            "exec 3<&0; sh -c 'i=0; while [ $i -lt 100000 ]; do i=$((i+1)); done; echo; read end <&3' & wait";
        let mut shell = Command::new("sh");
        shell.args(["-c", script]).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut shell = Running::start(&mut shell).unwrap();
        let mut line = [0];
        shell.child().stdout.as_mut().unwrap().read_exact(&mut line).unwrap();
        let usage = Usage::of(shell.id());
        assert!(usage.cpu > Duration::from_millis(1), "{usage:?} lacks the loop of the child");
        assert!(usage.context_switches >= 1);
        assert!(resident_bytes(shell.id()) > 100_000);
        assert!(peak_resident_bytes(shell.id()) > 100_000);
        // A shell and its child, each with pages that it has written.
        assert!(written_bytes(shell.id()) > 100_000);
        assert_eq!(usage - usage, Usage::default());
    }

    #[test]
    fn programs_that_start_take_no_share_of_written_bytes() {
        // `cat` writes a line when it has started, and waits for more input.
        let start = || {
            let mut cat =
                Running::start(Command::new("cat").stdin(Stdio::piped()).stdout(Stdio::piped())).unwrap();
            cat.child().stdin.as_mut().unwrap().write_all(b"\n").unwrap();
            cat.child().stdout.as_mut().unwrap().read_exact(&mut [0]).unwrap();
            cat
        };
        let cat = start();
        let before = written_bytes(cat.id());
        let _others: Vec<Running> = (0..20).map(|_| start()).collect();
        assert_eq!(written_bytes(cat.id()), before);
    }

    #[test]
    fn processor_time_of_ended_threads_counts() {
        let id = std::process::id();
        let before = process_cpu(id).unwrap();
        let spin = || {
            let start = crate::measure::clock::thread_cpu();
            while crate::measure::clock::thread_cpu() - start < Duration::from_millis(100) {}
        };
        std::thread::spawn(spin).join().unwrap();
        let spent = process_cpu(id).unwrap() - before;
        assert!(spent >= Duration::from_millis(80), "{spent:?}");
        assert!(process_cpu(u32::MAX).is_err());
    }

    #[test]
    fn usage_of_no_process_is_zero() {
        assert_eq!(Usage::of(u32::MAX), Usage::default());
        assert_eq!((resident_bytes(u32::MAX), written_bytes(u32::MAX)), (0, 0));
    }
}

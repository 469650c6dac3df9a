//! Information from the operating system: memory, processor time, limits, and the clock.

mod moment;

use std::fs;
use std::time::Duration;

pub(crate) use moment::Moment;

/// The assumed memory if the system does not report it.
const DEFAULT_MEMORY_BYTES: u64 = 1 << 30;
/// Ticks per second in `/proc`, the same on every architecture.
const TICKS_PER_SECOND: f64 = 100.0;

/// Bytes that this process may use: the memory of the machine, or the limit of its cgroup (version 2 or 1) if lower.
pub(crate) fn available_bytes() -> u64 {
    let cgroup = ["/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"];
    let limits = cgroup.iter().filter_map(|path| fs::read_to_string(path).ok()?.trim().parse().ok());
    limits.chain(total_bytes()).min().unwrap_or(DEFAULT_MEMORY_BYTES)
}

/// Memory of the machine in bytes, if the system reports it.
pub(crate) fn total_bytes() -> Option<u64> {
    let meminfo = fs::read_to_string("/proc/meminfo").ok()?;
    let line = meminfo.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    let kibibytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kibibytes << 10)
}

/// Resident memory of this process in bytes, if the system reports it.
pub(crate) fn resident_bytes() -> Option<u64> {
    let status = fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    let kibibytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kibibytes << 10)
}

/// Open files that are not client connections.
const NON_CLIENT_FILES: u64 = 64;

/// The limit on open files is too low for a number of clients.
pub(crate) struct TooFewFiles {
    pub(crate) allowed: u64,
    pub(crate) required: u64,
}

/// Raises the limit on open files for so many clients.
pub(crate) fn raise_open_files_for(clients: usize) -> Result<(), TooFewFiles> {
    let required = clients as u64 + NON_CLIENT_FILES;
    let allowed = raise_open_files(required);
    if allowed < required { Err(TooFewFiles { allowed, required }) } else { Ok(()) }
}

/// Raises the limit on the open files of this process to `required`, or as far as the system allows; never lowers it.
/// Returns the new limit. [`Server::bind`](crate::Server::bind) does so for itself; a process with further parts raises
/// it for all of them first.
pub fn raise_open_files(required: u64) -> u64 {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let limit = getrlimit(Resource::Nofile);
    let current = limit.current.unwrap_or(u64::MAX);
    let new_limit = required.min(limit.maximum.unwrap_or(u64::MAX));
    if new_limit <= current {
        return current;
    }
    match setrlimit(Resource::Nofile, Rlimit { current: Some(new_limit), maximum: limit.maximum }) {
        Ok(()) => new_limit,
        Err(_) => current,
    }
}

/// Seconds of processor time that this process has used: in user mode, and in the kernel.
pub(crate) fn cpu_seconds() -> Option<(f64, f64)> {
    let stat = fs::read_to_string("/proc/self/stat").ok()?;
    // The name in parentheses may contain spaces; the fields after it do not.
    let mut fields = stat.rsplit_once(") ")?.1.split(' ').skip(11);
    let mut next = || fields.next()?.parse::<f64>().ok();
    Some((next()? / TICKS_PER_SECOND, next()? / TICKS_PER_SECOND))
}

/// The processor time that the calling thread has used.
pub(crate) fn thread_cpu_time() -> Duration {
    use rustix::time::{ClockId, clock_gettime};
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

/// The idle time of all cores together since the start of the machine, if the system reports it.
pub(crate) fn idle_time() -> Option<Duration> {
    let stat = fs::read_to_string("/proc/stat").ok()?;
    // The first line is the sum of all cores: user, nice, system, idle, waiting for a disk, …
    let mut fields = stat.lines().next()?.split_ascii_whitespace().skip(4);
    let mut next = || fields.next()?.parse::<u64>().ok();
    Some(Duration::from_millis((next()? + next()?) * 1_000 / TICKS_PER_SECOND as u64))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn idle_time_is_less_than_that_of_all_cores() {
        let uptime: f64 =
            fs::read_to_string("/proc/uptime").unwrap().split(' ').next().unwrap().parse().unwrap();
        let cores = fs::read_to_string("/proc/stat").unwrap().matches("\ncpu").count();
        let idle = idle_time().unwrap().as_secs_f64();
        assert!(idle > 0.0 && idle <= uptime * cores as f64 * 1.01, "{idle} of {uptime} on {cores} cores");
    }

    #[test]
    fn resident_memory_is_below_available_memory() {
        let (resident, available) = (resident_bytes().unwrap(), available_bytes());
        assert!(resident > 0 && resident < available, "{resident} of {available}");
    }
}

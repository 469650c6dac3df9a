//! What the system says of itself and of this process: memory and processor time.

use std::fs;

/// Taken where neither the machine nor the cgroup says how much memory it has.
const UNKNOWN_MEMORY_BYTES: u64 = 1 << 30;

/// Bytes that this process may use: what the machine has, or what its cgroup (version 2 or 1) allows if that is less.
pub(crate) fn available_bytes() -> u64 {
    let cgroup = ["/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"];
    let limits = cgroup.iter().filter_map(|path| fs::read_to_string(path).ok()?.trim().parse().ok());
    limits.chain(total_bytes()).min().unwrap_or(UNKNOWN_MEMORY_BYTES)
}

/// Bytes of memory in the machine, if the system says.
pub(crate) fn total_bytes() -> Option<u64> {
    let meminfo = fs::read_to_string("/proc/meminfo").ok()?;
    let line = meminfo.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    let kibibytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kibibytes << 10)
}

/// Bytes of this process that are resident, if the system says.
pub(crate) fn resident_bytes() -> Option<u64> {
    let status = fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    let kibibytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kibibytes << 10)
}

/// Raises the number of files that this process may have open to `wanted`, or as far as the system allows; returns what
/// it is then.
pub(crate) fn raise_open_files(wanted: u64) -> u64 {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let limit = getrlimit(Resource::Nofile);
    let current = limit.current.unwrap_or(u64::MAX);
    let reachable = wanted.min(limit.maximum.unwrap_or(u64::MAX));
    if reachable <= current {
        return current;
    }
    match setrlimit(Resource::Nofile, Rlimit { current: Some(reachable), maximum: limit.maximum }) {
        Ok(()) => reachable,
        Err(_) => current,
    }
}

/// Seconds of processor time that this process has used: in its own code, and in the system's.
pub(crate) fn cpu_seconds() -> Option<(f64, f64)> {
    /// Ticks per second that Linux reports to programs, on every architecture.
    const TICKS: f64 = 100.0;
    let stat = fs::read_to_string("/proc/self/stat").ok()?;
    // The name in parentheses may hold spaces; the fields behind it are plain.
    let mut fields = stat.rsplit_once(") ")?.1.split(' ').skip(11);
    let mut next = || fields.next()?.parse::<f64>().ok();
    Some((next()? / TICKS, next()? / TICKS))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_fits_into_its_machine() {
        let (resident, available) = (resident_bytes().unwrap(), available_bytes());
        assert!(resident > 0 && resident < available, "{resident} of {available}");
    }
}

//! File descriptors, shared out between the parts of a process: connections of one part cannot take those of another,
//! nor those that the database and the logs need.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Connections of the dashboard's port.
pub(crate) const ADMIN_CONNECTIONS: usize = 64;

/// Kept back for the database, Redis, listeners and event queues; and more for each thread.
const KEPT_BACK: u64 = 64;
const PER_THREAD: u64 = 4;

/// Connections that each part may have open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Shares {
    pub(crate) server: usize,
    pub(crate) links: usize,
    pub(crate) admin: usize,
}

impl Shares {
    /// Raises the limit on open files as far as these connections need it and the system allows, and shares out what
    /// there is.
    pub(crate) fn of_process(wanted: Shares) -> Shares {
        let threads = std::thread::available_parallelism().map_or(1, |count| count.get() as u64);
        let kept_back = KEPT_BACK + PER_THREAD * threads;
        let shares = wanted.within(raise_limit(kept_back + wanted.total()), kept_back);
        if shares != wanted {
            tracing::warn!(
                server = shares.server,
                links = shares.links,
                admin = shares.admin,
                "the limit on open files is too low for the connections configured; each part gets a share"
            );
        }
        shares
    }

    fn total(&self) -> u64 {
        (self.server + self.links + self.admin) as u64
    }

    /// These shares, reduced to a limit: the dashboard gets at most an eighth, the shortener half of the rest.
    fn within(self, limit: u64, kept_back: u64) -> Shares {
        let kept_back = kept_back.min(limit / 2);
        let free = usize::try_from(limit - kept_back).unwrap_or(usize::MAX);
        let admin = self.admin.min(free / 8);
        let rest = free - admin;
        // What one of the two does not want is the other's.
        let links = self.links.min((rest / 2).max(rest.saturating_sub(self.server)));
        let server = self.server.min(rest - links);
        Shares { server, links, admin }
    }
}

/// Raises the limit on open files to `wanted`, or as far as the system allows; gives what it is then.
fn raise_limit(wanted: u64) -> u64 {
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

#[cfg(test)]
mod tests {
    use super::*;

    const WANTED: Shares = Shares { server: 10_000, links: 4_096, admin: 64 };

    #[test]
    fn enough_files_give_every_part_what_it_wants() {
        assert_eq!(WANTED.within(72 + WANTED.total(), 72), WANTED);
        assert_eq!(WANTED.within(u64::MAX, 72), WANTED);
    }

    #[test]
    fn few_files_are_shared_out_and_some_kept_back() {
        for limit in [0, 16, 64, 512, 1_024, 8_192] {
            let shares = WANTED.within(limit, 72);
            assert!(shares.total() + 72.min(limit / 2) <= limit, "{limit}: {shares:?}");
            if limit >= 512 {
                assert!(
                    shares.server >= 128 && shares.links >= 128 && shares.admin >= 32,
                    "{limit}: {shares:?}"
                );
            }
        }
        let alone = Shares { server: 0, links: 4_096, admin: 0 };
        assert_eq!(alone.within(1_024, 72).links, 952);
    }
}

//! Divides the file descriptors among the parts of a process, so that connections of one part cannot exhaust those of
//! another, of the database or of the logs.

use larder_server::raise_open_files;

/// The maximum number of connections to the dashboard.
pub(crate) const ADMIN_CONNECTIONS: usize = 64;

/// Descriptors reserved for the database, Redis, listeners and event queues, in addition to those per thread.
const RESERVED: u64 = 64;
const PER_THREAD: u64 = 4;

/// The maximum number of connections of each part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Shares {
    pub(crate) server: usize,
    pub(crate) links: usize,
    pub(crate) admin: usize,
}

impl Shares {
    /// Raises the limit on open files as far as these connections require and the system allows, and divides the
    /// descriptors among the parts.
    pub(crate) fn of_process(requested: Shares) -> Shares {
        let threads = std::thread::available_parallelism().map_or(1, |count| count.get() as u64);
        let reserved = RESERVED + PER_THREAD * threads;
        let shares = requested.within(raise_open_files(reserved + requested.total()), reserved);
        if shares != requested {
            tracing::warn!(
                server = shares.server,
                links = shares.links,
                admin = shares.admin,
                "the limit on open files is too low for the configured number of connections; it was reduced for each part"
            );
        }
        shares
    }

    fn total(&self) -> u64 {
        (self.server + self.links + self.admin) as u64
    }

    /// These shares, reduced to a limit: the dashboard gets at most an eighth, the shortener at most half of the rest.
    fn within(self, limit: u64, reserved: u64) -> Shares {
        let reserved = reserved.min(limit / 2);
        let free = usize::try_from(limit - reserved).unwrap_or(usize::MAX);
        let admin = self.admin.min(free / 8);
        let rest = free - admin;
        // Either of the two gets what the other does not need.
        let links = self.links.min((rest / 2).max(rest.saturating_sub(self.server)));
        let server = self.server.min(rest - links);
        Shares { server, links, admin }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const REQUESTED: Shares = Shares { server: 10_000, links: 4_096, admin: 64 };

    #[test]
    fn within_a_high_limit_keeps_all_shares() {
        assert_eq!(REQUESTED.within(72 + REQUESTED.total(), 72), REQUESTED);
        assert_eq!(REQUESTED.within(u64::MAX, 72), REQUESTED);
    }

    #[test]
    fn within_a_low_limit_reduces_shares_and_reserves_some() {
        for limit in [0, 16, 64, 512, 1_024, 8_192] {
            let shares = REQUESTED.within(limit, 72);
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

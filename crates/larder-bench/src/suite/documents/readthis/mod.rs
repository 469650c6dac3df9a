//! Document 2: what a cache library costs on top of Redis, in Ruby and here.
//!
//! | workload | meaning |
//! |---|---|
//! | `multi` | reads and fetches of 26 values of 1 KiB at once, all of them hits |
//! | `allocations` | objects in Ruby, allocations here, for each value of such a read |
//! | `driver` | the same read from Redis: who parses the replies, and how many connections and round trips there are |
//! | `marshal` | a map of 26 pairs under one key of Redis: reads and writes, by serializer |
//!
//! The stores of Ruby are those of ActiveSupport, and Readthis' design over the same packages of Debian. In `multi` and
//! `allocations` the subject `larder` answers from memory, as the document's MemoryStore; in the others memory has no room.

mod ours;
mod ruby;

use super::case::{self, Case};
use super::rounds;
use crate::suite::{Findings, Plan};
use crate::tool::Memcached;
use anyhow::{Context, Result};
use indicatif::ProgressBar;
use larder_process::{RedisServer, find_program};
use std::time::Duration;

/// The programs, the folders that the packages of the libraries leave, and the packages of Debian.
pub(super) const PROGRAMS: [(&str, &str); 9] = [
    ("redis-server", "redis-server"),
    ("memcached", "memcached"),
    ("ruby", "ruby"),
    ("/usr/share/doc/ruby-activesupport", "ruby-activesupport"),
    ("/usr/share/doc/ruby-connection-pool", "ruby-connection-pool"),
    ("/usr/share/doc/ruby-dalli", "ruby-dalli"),
    ("/usr/share/doc/ruby-hiredis", "ruby-hiredis"),
    ("/usr/share/doc/ruby-oj", "ruby-oj"),
    ("/usr/share/doc/ruby-redis", "ruby-redis"),
];

/// The servers on which the stores are.
struct Servers {
    redis: RedisServer,
    /// Only for Ruby.
    memcached: Option<Memcached>,
}

impl Servers {
    fn start() -> Result<Self> {
        let redis = find_program("redis-server").context("redis-server is not installed")?;
        let memcached = find_program("memcached").map(|_| Memcached::start()).transpose()?;
        Ok(Servers { redis: RedisServer::start(redis)?, memcached })
    }
}

pub(super) fn measure(plan: &Plan, bar: &ProgressBar, findings: &mut Findings) -> Result<()> {
    if find_program("redis-server").is_none() {
        return Ok(());
    }
    let limit = Duration::from_millis(if plan.quick { 300 } else { 2_000 });
    let servers = Servers::start()?;
    if ruby::is_installed() {
        findings.versions.extend(ruby::versions(&servers)?);
        findings.commands.push(format!("ruby stores.rb STORE {} REDIS MEMCACHED", limit.as_millis()));
    }
    findings.notes.push(
        "Gems cannot be fetched here: the stores of Ruby are those of ActiveSupport 6.1 with the libraries of Debian, and Readthis \
         is its design in 40 lines over ruby-redis, ruby-hiredis and ruby-connection-pool. RedisActiveSupport is represented by \
         its successor RedisCacheStore."
            .to_owned(),
    );
    case::run(cases(&servers, limit), rounds(plan), bar, findings);
    Ok(())
}

fn cases(servers: &Servers, limit: Duration) -> Vec<Case<'_>> {
    let mut cases = ours::cases(servers, limit);
    if ruby::is_installed() {
        cases.extend(ruby::cases(servers, limit));
    }
    cases
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::suite::documents::Document;
    use larder_testkit::{needs, program};

    /// Every store returns the right values and a figure, and the document's figures have counterparts.
    #[test]
    fn counterparts_of_the_document_are_measured() {
        let has_servers = ["redis-server", "memcached"].map(program).iter().all(Option::is_some);
        if !has_servers || needs("Ruby with its cache libraries", ruby::is_installed()).is_none() {
            return;
        }
        let servers = Servers::start().unwrap();
        let mut measured = Vec::new();
        for mut case in cases(&servers, Duration::from_millis(10)) {
            for outcome in (case.run)().unwrap_or_else(|error| panic!("{}: {error:#}", case.subject)) {
                assert!(outcome.values.iter().all(|value| value.value.is_finite()), "{}", case.subject);
                measured.push((outcome.workload, case.subject));
            }
        }
        for (workload, subjects) in Document::read(2).unwrap().counterparts() {
            let is_measured =
                measured.iter().any(|(known, subject)| known == workload && subjects.contains(subject));
            assert!(is_measured, "{workload}, {subjects:?}");
        }
    }
}

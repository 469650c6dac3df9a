//! `larder server --check`: which commands a running Redis has executed, and which of them the cache server lacks.

use crate::commands::ask_redis::AskedRedis;
use crate::output::print;
use crate::parts::redis_source::RedisSource;
use anyhow::{Result, bail};
use larder_server::commands;
use larder_terminal::{Table, grouped};

pub(crate) fn run(source: &RedisSource) -> Result<()> {
    let mut redis = AskedRedis::connect(source)?;
    let (server, statistics) = (redis.info("server")?, redis.info("commandstats")?);
    let report = Report::new(&server, &statistics);
    print(&report.text())?;
    match report.missing() {
        missing if missing.is_empty() => Ok(()),
        missing => bail!("missing here: {}", missing.join(", ")),
    }
}

/// How the cache server has a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Support {
    Missing,
    /// With what it has.
    InPart(&'static str),
    Whole,
}

impl Support {
    /// `name` may have a subcommand: `config|get`.
    fn of(name: &str) -> Support {
        let (container, subcommand) = name.split_once('|').unzip();
        let container = container.unwrap_or(name);
        let spec = commands().iter().find(|spec| spec.name == container);
        match spec {
            Some(spec) if subcommand.is_none_or(|name| spec.has_subcommand(name)) => {
                spec.in_part.map_or(Support::Whole, Support::InPart)
            }
            _ => Support::Missing,
        }
    }

    fn text(self) -> String {
        match self {
            Support::Missing => "missing".to_owned(),
            Support::InPart(note) => format!("in part: {note}"),
            Support::Whole => "yes".to_owned(),
        }
    }
}

/// A command that was executed.
struct Seen<'a> {
    support: Support,
    calls: u64,
    name: &'a str,
}

struct Report<'a> {
    /// Its name and version.
    server: String,
    uptime_secs: u64,
    /// What is missing first, then what is called most.
    seen: Vec<Seen<'a>>,
}

impl<'a> Report<'a> {
    fn new(server: &str, statistics: &'a str) -> Self {
        let field = |name: &str| server.lines().find_map(|line| line.trim_end().strip_prefix(name));
        let version = match (field("valkey_version:"), field("redis_version:")) {
            (Some(version), _) => format!("Valkey {version}"),
            (None, version) => format!("Redis {}", version.unwrap_or("of an unknown version")),
        };
        let mut seen: Vec<Seen<'_>> = statistics.lines().filter_map(parse).collect();
        seen.sort_by_key(|seen| (seen.support.rank(), std::cmp::Reverse(seen.calls), seen.name));
        let uptime_secs = field("uptime_in_seconds:").and_then(|secs| secs.parse().ok()).unwrap_or(0);
        Report { server: version, uptime_secs, seen }
    }

    fn missing(&self) -> Vec<&str> {
        let missing = self.seen.iter().filter(|seen| seen.support == Support::Missing);
        missing.map(|seen| seen.name).collect()
    }

    /// For people.
    fn text(&self) -> String {
        let mut table = Table::new(&["command", "calls", "here"]);
        for Seen { support, calls, name } in &self.seen {
            table.row([(*name).to_owned(), grouped(*calls), support.text()]);
        }
        let count = |rank| self.seen.iter().filter(|seen| seen.support.rank() == rank).count();
        format!(
            "{}, up for {} s, has executed {} commands since its start or its last CONFIG RESETSTAT\n\n{table}\n\
             {} missing here, {} in part, {} whole\n",
            self.server,
            grouped(self.uptime_secs),
            self.seen.len(),
            count(Support::Missing.rank()),
            count(Support::InPart("").rank()),
            count(Support::Whole.rank()),
        )
    }
}

impl Support {
    /// The order in the table.
    fn rank(self) -> u8 {
        match self {
            Support::Missing => 0,
            Support::InPart(_) => 1,
            Support::Whole => 2,
        }
    }
}

/// A line such as `cmdstat_get:calls=3,usec=9,…`. A command that was only refused was not executed.
fn parse(line: &str) -> Option<Seen<'_>> {
    let (name, fields) = line.trim_end().strip_prefix("cmdstat_")?.split_once(':')?;
    let calls = fields.split(',').find_map(|field| field.strip_prefix("calls="))?.parse().ok()?;
    (calls > 0).then(|| Seen { support: Support::of(name), calls, name })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn report_has_what_is_missing_first() {
        let server = "# Server\r\nredis_version:7.0.15\r\nuptime_in_seconds:86400\r\n";
        let statistics = "# Commandstats\r\ncmdstat_get:calls=1000,usec=9,usec_per_call=0.01\r\n\
                          cmdstat_lcs:calls=2,usec=9\r\ncmdstat_json.get:calls=30,usec=9\r\n\
                          cmdstat_config|rewrite:calls=1,usec=1\r\ncmdstat_config|get:calls=7,usec=1\r\n\
                          cmdstat_wait:calls=4,usec=1\r\ncmdstat_psync:calls=0,rejected_calls=1\r\n";
        let report = Report::new(server, statistics);
        assert_eq!(report.missing(), ["json.get", "lcs", "config|rewrite"]);
        let text = report.text();
        let rows: Vec<Vec<&str>> =
            text.lines().map(|line| line.split_whitespace().take(3).collect()).collect();
        assert_eq!(rows[0][..3], ["Redis", "7.0.15,", "up"]);
        assert_eq!(
            rows[3..6],
            [["json.get", "30", "missing"], ["lcs", "2", "missing"], ["config|rewrite", "1", "missing"]]
        );
        assert!(
            rows.contains(&vec!["get", "1,000", "yes"]) && rows.contains(&vec!["wait", "4", "in"]),
            "{text}"
        );
        assert!(text.ends_with("\n3 missing here, 2 in part, 1 whole\n"), "{text}");
    }
}

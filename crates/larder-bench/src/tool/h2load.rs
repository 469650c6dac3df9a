//! Runs `h2load`, the benchmark of nghttp2, over TLS, and reads its report.

use super::run::output_within;
use anyhow::{Context, Result, ensure};
use larder_process::find_program;
use std::net::SocketAddr;
use std::process::Command;
use std::time::Duration;

/// The program.
const PROGRAM: &str = "h2load";
/// Of which each has at least one connection.
const THREADS: u32 = 2;
/// How long a run may take in addition to its time.
const PATIENCE: Duration = Duration::from_secs(30);

/// The protocol over TLS.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Protocol {
    Http1,
    Http2,
}

/// One run: as many GETs of one path as fit into `time`, over connections that stay open, one request under way on each.
#[derive(Clone, Copy, Debug)]
pub(crate) struct H2load<'a> {
    pub(crate) address: SocketAddr,
    pub(crate) path: &'a str,
    pub(crate) protocol: Protocol,
    pub(crate) connections: u32,
    pub(crate) time: Duration,
}

/// The report of a run.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct H2loadReport {
    /// The requests with a response of status 2xx.
    pub(crate) requests: u64,
    /// The requests with another response or with none.
    pub(crate) failed: u64,
    pub(crate) requests_per_second: f64,
}

impl H2load<'_> {
    /// Runs it. The name in the certificate of the server is not checked.
    ///
    /// # Errors
    /// If `h2load` is not installed, fails, or does not end in time.
    pub(crate) fn run(&self) -> Result<H2loadReport> {
        let mut command = Command::new(find_program(PROGRAM).context("h2load is not installed")?);
        let threads = THREADS.min(self.connections);
        command.args(["--threads", &threads.to_string(), "--clients", &self.connections.to_string()]);
        command.args(["--duration", &self.time.as_secs().max(1).to_string()]);
        command.args((self.protocol == Protocol::Http1).then_some("--h1"));
        command.arg(format!("https://{}{}", self.address, self.path));
        let output = output_within(&mut command, self.time + PATIENCE)?;
        let report = parse(&output).context("h2load has written no report")?;
        let negotiated = output.lines().find_map(|line| line.strip_prefix("Application protocol: "));
        let expected = if self.protocol == Protocol::Http1 { "http/1.1" } else { "h2" };
        ensure!(negotiated == Some(expected), "the server does not speak {expected} over TLS");
        Ok(report)
    }
}

fn parse(text: &str) -> Option<H2loadReport> {
    let line = |begin: &str| text.lines().find_map(|line| line.strip_prefix(begin));
    let (_, rate) = line("finished in ")?.split_once(", ")?;
    let count = |line: &str, name: &str| {
        let entry = line.split(", ").find(|entry| entry.trim_end().ends_with(name))?;
        entry.split_ascii_whitespace().next()?.parse::<u64>().ok()
    };
    let requests = line("requests: ")?;
    Some(H2loadReport {
        requests: count(requests, " succeeded")?,
        failed: count(requests, " failed")?,
        requests_per_second: rate.split(' ').next()?.parse().ok()?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The status of a response whose body is on its way when a run ends is counted, its request is not.
    #[test]
    fn report_counts_requests_and_not_statuses() {
        let text = "finished in 1.01s, 21836.50 req/s, 1.48MB/s\n\
            requests: 21836 total, 21886 started, 21836 done, 21800 succeeded, 36 failed, 4 errored, 0 timeout\n\
            status codes: 21802 2xx, 0 3xx, 30 4xx, 6 5xx\n";
        let expected = H2loadReport { requests: 21_800, failed: 36, requests_per_second: 21_836.5 };
        assert_eq!(parse(text), Some(expected));
        assert_eq!(parse("starting benchmark...\n"), None);
    }
}

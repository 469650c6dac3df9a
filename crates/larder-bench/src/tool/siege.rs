//! Runs `siege` with a configuration of its own, and reads its report.

use super::run::output_within;
use anyhow::{Context, Result};
use larder_process::find_program;
use serde::Deserialize;
use std::process::Command;
use std::time::Duration;

/// The configuration: the limit of users, no requests for what a page contains, no redirects followed.
const CONFIGURATION: &str = "limit = 500\nparser = false\nfollow-location = false\nverbose = false\nlogging = false\n\
    show-logfile = false\nconnection = close\nprotocol = HTTP/1.1\ntimeout = 30\nfailures = 100000\n";

/// One run: `users` users without pauses, each of which asks for random ones of `urls`, for a time.
#[derive(Clone, Debug)]
pub(crate) struct Siege<'a> {
    pub(crate) urls: &'a [String],
    pub(crate) users: u32,
    pub(crate) time: Duration,
}

/// The report of siege: times in seconds, data in MB.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
pub(crate) struct SiegeReport {
    pub(crate) transactions: f64,
    pub(crate) availability: f64,
    pub(crate) elapsed_time: f64,
    pub(crate) data_transferred: f64,
    pub(crate) response_time: f64,
    pub(crate) transaction_rate: f64,
    pub(crate) throughput: f64,
    pub(crate) concurrency: f64,
    pub(crate) successful_transactions: f64,
    pub(crate) failed_transactions: f64,
    pub(crate) longest_transaction: f64,
    pub(crate) shortest_transaction: f64,
}

impl Siege<'_> {
    /// Runs it.
    ///
    /// # Errors
    /// If `siege` is not installed, fails, or does not end half a minute after its time.
    pub(crate) fn run(&self) -> Result<SiegeReport> {
        let program = find_program("siege").context("siege is not installed")?;
        let folder = tempfile::tempdir()?;
        let (configuration, urls) = (folder.path().join("siegerc"), folder.path().join("urls"));
        std::fs::write(&configuration, CONFIGURATION)?;
        std::fs::write(&urls, self.urls.join("\n") + "\n")?;
        let mut command = Command::new(program);
        // It writes a configuration into the home folder.
        command.env("HOME", folder.path()).arg("-R").arg(configuration).arg("-f").arg(urls);
        command.args(["-i", "-b", "-j", "-c", &self.users.to_string()]);
        command.arg("-t").arg(format!("{}S", self.time.as_secs()));
        let output = output_within(&mut command, self.time + Duration::from_secs(30))?;
        parse(&output)
    }
}

fn parse(output: &str) -> Result<SiegeReport> {
    let report = output.find('{').map(|start| &output[start..]).context("siege has written no report")?;
    serde_json::from_str(report.trim()).context("siege has written no report")
}

#[cfg(test)]
mod tests {
    use super::*;
    use larder_testkit::program;
    use std::io::{Read, Write};
    use std::net::TcpListener;

    #[test]
    fn run_against_a_real_server_has_every_figure() {
        if program("siege").is_none() {
            return;
        }
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}/", listener.local_addr().unwrap());
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let mut stream = stream.unwrap();
                _ = stream.read(&mut [0; 1024]);
                _ = stream.write_all(b"HTTP/1.1 302 Found\r\nLocation: /other\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
            }
        });
        let report = Siege { urls: &[url], users: 2, time: Duration::from_secs(1) }.run().unwrap();
        assert!(report.transactions > 0.0 && report.failed_transactions == 0.0, "{report:?}");
        assert_eq!(report.availability, 100.0);
    }
}

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

/// How long a run may take in addition to what is expected of it.
const PATIENCE: Duration = Duration::from_secs(30);
/// How often each user asks in the first run, from which nothing is known yet.
const WARM_UP: u32 = 5;

/// One run: `users` users without pauses, each of which asks `repetitions` times for random ones of `urls`.
///
/// Runs end by their number of requests and not by siege's clock (`-t`): at the end of its time siege up to 4.1.3 cancels its
/// threads wherever they are, and one that is cancelled within `malloc` leaves it locked, so that siege never ends.
#[derive(Clone, Debug)]
pub(crate) struct Siege<'a> {
    pub(crate) urls: &'a [String],
    pub(crate) users: u32,
    pub(crate) repetitions: u32,
    pub(crate) deadline: Duration,
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

impl<'a> Siege<'a> {
    /// A run of about `time`. Two shorter runs, which also warm the server up, tell how many requests that is; the second is long
    /// enough that the start of the users does not count.
    ///
    /// # Errors
    /// If a shorter run fails: as [`Siege::run`].
    pub(crate) fn of_about(urls: &'a [String], users: u32, time: Duration) -> Result<Self> {
        let mut siege = Siege { urls, users, repetitions: WARM_UP, deadline: 3 * time + PATIENCE };
        for part in [time / 10, time] {
            let repetitions = siege.run()?.transaction_rate * part.as_secs_f64() / f64::from(users);
            siege.repetitions = WARM_UP.max(repetitions.ceil() as u32);
        }
        Ok(siege)
    }

    /// Runs it.
    ///
    /// # Errors
    /// If `siege` is not installed, fails, or does not end within the deadline.
    pub(crate) fn run(&self) -> Result<SiegeReport> {
        let program = find_program("siege").context("siege is not installed")?;
        let folder = tempfile::tempdir()?;
        let (configuration, urls) = (folder.path().join("siegerc"), folder.path().join("urls"));
        std::fs::write(&configuration, CONFIGURATION)?;
        std::fs::write(&urls, self.urls.join("\n") + "\n")?;
        let mut command = Command::new(program);
        // It writes a configuration into the home folder.
        command.env("HOME", folder.path()).arg("-R").arg(configuration).arg("-f").arg(urls);
        command.args(["-i", "-b", "-j", "-c", &self.users.to_string(), "-r", &self.repetitions.to_string()]);
        let output = output_within(&mut command, self.deadline)?;
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
    use axum::Router;
    use axum::http::StatusCode;
    use axum::routing::get;
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
        let siege = Siege { urls: &[url], users: 2, repetitions: 20, deadline: PATIENCE };
        let report = siege.run().unwrap();
        assert_eq!((report.transactions, report.failed_transactions), (40.0, 0.0), "{report:?}");
        assert_eq!(report.availability, 100.0);
    }

    /// With `-t` one of ten such runs did not end.
    #[test]
    fn siege_by_500_users_ends_every_time() {
        if program("siege").is_none() {
            return;
        }
        let runtime = tokio::runtime::Runtime::new().unwrap();
        let _context = runtime.enter();
        let socket = tokio::net::TcpSocket::new_v4().unwrap();
        socket.bind("127.0.0.1:0".parse().unwrap()).unwrap();
        let listener = socket.listen(1_024).unwrap();
        let urls = [format!("http://{}/", listener.local_addr().unwrap())];
        let route = get(async || (StatusCode::FOUND, [("location", "/other")]));
        tokio::spawn(async { axum::serve(listener, Router::new().route("/", route)).await });
        for _ in 0..10 {
            let siege = Siege::of_about(&urls, 500, Duration::from_millis(300)).unwrap();
            let report = siege.run().unwrap();
            assert_eq!(report.transactions, f64::from(500 * siege.repetitions), "{report:?}");
        }
    }
}

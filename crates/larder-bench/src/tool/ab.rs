//! Runs `ab`, the benchmark of the Apache HTTP server, and reads its report.

use super::run::output_within;
use anyhow::{Context, Result};
use larder_process::find_program;
use std::net::SocketAddr;
use std::process::Command;
use std::time::Duration;

/// One run: `requests` requests of one path by `clients` clients at once.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ab<'a> {
    pub(crate) address: SocketAddr,
    pub(crate) path: &'a str,
    pub(crate) requests: u64,
    pub(crate) clients: u32,
    /// Whether a client keeps its connection; otherwise each request has one of its own.
    pub(crate) keeps_alive: bool,
    pub(crate) deadline: Duration,
}

/// The figures of a run.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct AbReport {
    pub(crate) complete: u64,
    /// Requests without an answer, or with another length than the first.
    pub(crate) failed: u64,
    /// Responses with another status than 2xx.
    pub(crate) other_status: u64,
    pub(crate) requests_per_second: f64,
    pub(crate) p50_ms: f64,
    pub(crate) p99_ms: f64,
    pub(crate) max_ms: f64,
}

impl Ab<'_> {
    /// Runs it.
    ///
    /// # Errors
    /// If `ab` is not installed, fails, or does not end within the deadline.
    pub(crate) fn run(&self) -> Result<AbReport> {
        let program = find_program("ab").context("ab is not installed")?;
        let mut command = Command::new(program);
        command.arg("-q").args(["-n", &self.requests.to_string(), "-c", &self.clients.to_string()]);
        command.args(self.keeps_alive.then_some("-k"));
        command.arg(format!("http://{}{}", self.address, self.path));
        let output = output_within(&mut command, self.deadline)?;
        parse(&output).context("ab has written no report")
    }
}

fn parse(text: &str) -> Option<AbReport> {
    let number = |name: &str| {
        let line = text.lines().find_map(|line| line.trim_start().strip_prefix(name))?;
        line.split_ascii_whitespace().next()?.parse::<f64>().ok()
    };
    Some(AbReport {
        complete: number("Complete requests:")? as u64,
        failed: number("Failed requests:")? as u64,
        other_status: number("Non-2xx responses:").unwrap_or(0.0) as u64,
        requests_per_second: number("Requests per second:")?,
        p50_ms: number("50%")?,
        p99_ms: number("99%")?,
        max_ms: number("100%")?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use larder_testkit::program;
    use std::io::{Read, Write};
    use std::net::TcpListener;

    /// Answers each connection once, every third one with an error.
    fn answer(listener: &TcpListener) {
        for (number, stream) in listener.incoming().enumerate() {
            let mut stream = stream.unwrap();
            _ = stream.read(&mut [0; 1024]);
            let status = if number % 3 == 2 { "500 No" } else { "200 OK" };
            _ = write!(stream, "HTTP/1.0 {status}\r\nContent-Length: 2\r\n\r\nhi");
        }
    }

    #[test]
    fn run_against_a_real_server_has_every_figure() {
        if program("ab").is_none() {
            return;
        }
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        std::thread::spawn(move || answer(&listener));
        let run = Ab {
            address,
            path: "/",
            requests: 30,
            clients: 2,
            keeps_alive: false,
            deadline: Duration::from_secs(60),
        };
        let report = run.run().unwrap();
        assert_eq!((report.complete, report.failed, report.other_status), (30, 0, 10));
        assert!(report.requests_per_second > 0.0 && report.p50_ms <= report.max_ms, "{report:?}");
    }
}

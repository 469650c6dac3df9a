//! Runs `wrk` with the requests of a list, or with a new path for each, and reads its report.

use super::run::output_within;
use anyhow::{Context, Result};
use larder_process::find_program;
use serde::Deserialize;
use std::fmt::Write as _;
use std::net::SocketAddr;
use std::process::Command;
use std::time::Duration;

/// The threads of wrk, among which it divides its connections.
const THREADS: u32 = 2;
/// How long a run may take in addition to its time.
const PATIENCE: Duration = Duration::from_secs(30);
/// How long a request may take. wrk counts slower ones as failed.
const TIMEOUT: Duration = Duration::from_secs(10);

/// Each thread walks over the list from a position of its own, and begins again at its end. Without a list each path is the
/// third argument and a number that no thread has had. What `done` writes is [`WrkReport`].
const SCRIPT: &str = r#"
local threads = 0

function setup(thread)
  thread:set("number", threads)
  threads = threads + 1
end

function init(arguments)
  threads = tonumber(arguments[2])
  prefix = arguments[3]
  if prefix then
    position = number
    return
  end
  requests = {}
  for line in io.lines(arguments[1]) do
    local path, agent, referrer = line:match("([^\t]*)\t([^\t]*)\t([^\t]*)")
    requests[#requests + 1] = wrk.format("GET", path, { ["User-Agent"] = agent, ["Referer"] = referrer })
  end
  position = math.floor(number * #requests / threads)
end

function request()
  if prefix then
    position = position + threads
    return wrk.format("GET", prefix .. position)
  end
  position = position % #requests + 1
  return requests[position]
end

function done(summary, latency)
  local errors = summary.errors
  io.write(string.format(
    '{"requests":%d,"micros":%d,"failed":%d,"p50_micros":%d,"p99_micros":%d}\n', summary.requests, summary.duration,
    errors.connect + errors.read + errors.write + errors.status + errors.timeout, latency:percentile(50), latency:percentile(99)
  ))
end
"#;

/// One run: as many requests as fit into `time`, over `connections` connections that stay open, one under way on each.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Wrk<'a> {
    pub(crate) address: SocketAddr,
    pub(crate) requests: WrkRequests<'a>,
    pub(crate) connections: u32,
    pub(crate) time: Duration,
}

/// What the requests of a run ask for.
#[derive(Clone, Copy, Debug)]
pub(crate) enum WrkRequests<'a> {
    /// The requests of a list, again and again.
    List(&'a [WrkRequest<'a>]),
    /// GETs of paths with this prefix, each with another number behind it.
    New(&'a str),
}

/// A GET. No field has a tab or a line end.
#[derive(Clone, Copy, Debug)]
pub(crate) struct WrkRequest<'a> {
    pub(crate) path: &'a str,
    pub(crate) user_agent: &'a str,
    pub(crate) referrer: &'a str,
}

/// The report of a run.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
pub(crate) struct WrkReport {
    /// The requests with a response.
    pub(crate) requests: u64,
    micros: u64,
    /// Connections that failed, statuses from 400 on, and responses that took too long.
    pub(crate) failed: u64,
    p50_micros: u64,
    p99_micros: u64,
}

impl WrkReport {
    pub(crate) fn requests_per_second(&self) -> f64 {
        self.requests as f64 / (self.micros as f64 / 1e6)
    }

    pub(crate) fn p50_ms(&self) -> f64 {
        self.p50_micros as f64 / 1e3
    }

    pub(crate) fn p99_ms(&self) -> f64 {
        self.p99_micros as f64 / 1e3
    }
}

impl Wrk<'_> {
    /// Runs it.
    ///
    /// # Errors
    /// If `wrk` is not installed, fails, or does not end in time.
    pub(crate) fn run(&self) -> Result<WrkReport> {
        let program = find_program("wrk").context("wrk is not installed")?;
        let folder = tempfile::tempdir()?;
        let (script, list) = (folder.path().join("list.lua"), folder.path().join("list"));
        std::fs::write(&script, SCRIPT)?;
        let (mut lines, mut prefix) = (String::new(), None);
        match self.requests {
            WrkRequests::List(requests) => {
                for WrkRequest { path, user_agent, referrer } in requests {
                    writeln!(lines, "{path}\t{user_agent}\t{referrer}")?;
                }
            }
            WrkRequests::New(path) => prefix = Some(path),
        }
        std::fs::write(&list, lines)?;
        let mut command = Command::new(program);
        command.args(["--threads", &THREADS.to_string(), "--connections", &self.connections.to_string()]);
        command.args(["--duration", &format!("{}s", self.time.as_secs().max(1))]);
        command.args(["--timeout", &format!("{}s", TIMEOUT.as_secs()), "--latency", "--script"]).arg(script);
        command.arg(format!("http://{}/", self.address)).arg("--").arg(list).arg(THREADS.to_string());
        command.args(prefix);
        parse(&output_within(&mut command, self.time + PATIENCE)?)
    }
}

fn parse(output: &str) -> Result<WrkReport> {
    let report = output.lines().find(|line| line.starts_with('{')).context("wrk has written no report")?;
    serde_json::from_str(report).context("wrk has written no report")
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::Router;
    use axum::extract::Request;
    use axum::http::StatusCode;
    use larder_testkit::program;
    use std::collections::HashMap;
    use std::sync::{Arc, Mutex};

    #[test]
    fn run_walks_over_the_list_and_counts_failures() {
        if program("wrk").is_none() {
            return;
        }
        let runtime = tokio::runtime::Runtime::new().unwrap();
        let _context = runtime.enter();
        let counts = Arc::new(Mutex::new(HashMap::<String, u64>::new()));
        let seen = counts.clone();
        let respond = async move |request: Request| {
            let agent = request.headers()["user-agent"].to_str().unwrap().to_owned();
            assert_eq!(request.headers()["referer"], "http://from.example/");
            *seen.lock().unwrap().entry(format!("{} {agent}", request.uri().path())).or_default() += 1;
            if request.uri().path() == "/9" { StatusCode::NOT_FOUND } else { StatusCode::FOUND }
        };
        let socket = tokio::net::TcpSocket::new_v4().unwrap();
        socket.bind("127.0.0.1:0".parse().unwrap()).unwrap();
        let listener = socket.listen(64).unwrap();
        let address = listener.local_addr().unwrap();
        tokio::spawn(async { axum::serve(listener, Router::new().fallback(respond)).await });
        let paths: Vec<String> = (0..10).map(|n| format!("/{n}")).collect();
        let requests: Vec<_> = paths
            .iter()
            .map(|path| WrkRequest { path, user_agent: "Tester/1.0", referrer: "http://from.example/" })
            .collect();
        let wrk = Wrk {
            address,
            requests: WrkRequests::List(&requests),
            connections: 8,
            time: Duration::from_secs(1),
        };
        let report = wrk.run().unwrap();
        let counts = counts.lock().unwrap();
        let (sum, failed) = (counts.values().sum::<u64>(), counts["/9 Tester/1.0"]);
        // A response may be under way when wrk ends.
        assert!((report.requests..=report.requests + 8).contains(&sum), "{report:?}, {sum}");
        assert!((report.failed..=report.failed + 8).contains(&failed), "{report:?}, {failed}");
        let (least, most) = (counts.values().min().unwrap(), counts.values().max().unwrap());
        assert!(counts.len() == 10 && most - least <= 8, "{counts:?}");
        assert!(report.requests_per_second() > 0.0 && report.p50_ms() <= report.p99_ms());
    }

    #[test]
    fn run_of_new_paths_requests_none_twice() {
        if program("wrk").is_none() {
            return;
        }
        let runtime = tokio::runtime::Runtime::new().unwrap();
        let paths = Arc::new(Mutex::new(Vec::new()));
        let seen = paths.clone();
        let respond =
            async move |request: Request| seen.lock().unwrap().push(request.uri().path().to_owned());
        let listener = runtime.block_on(tokio::net::TcpListener::bind("127.0.0.1:0")).unwrap();
        let address = listener.local_addr().unwrap();
        runtime.spawn(async { axum::serve(listener, Router::new().fallback(respond)).await });
        let requests = WrkRequests::New("/new/");
        let wrk = Wrk { address, requests, connections: 8, time: Duration::from_secs(1) };
        let report = wrk.run().unwrap();
        let paths = paths.lock().unwrap();
        let distinct: std::collections::HashSet<_> = paths.iter().collect();
        assert!(report.failed == 0 && report.requests > 100, "{report:?}");
        assert!(distinct.len() == paths.len() && paths.iter().all(|path| path.starts_with("/new/")));
    }
}

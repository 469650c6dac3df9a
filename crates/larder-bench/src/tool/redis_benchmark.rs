//! Runs `redis-benchmark` with a deadline, and reads its report.
//!
//! Its long form is parsed and not `--csv`, because only the long form tells the progress of a run that stalls.

use super::SyscallCounter;
use anyhow::{Context, Result, bail};
use larder_process::{Running, find_program};
use std::io::Read;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::mpsc;
use std::time::{Duration, Instant};

/// The program.
pub(crate) const PROGRAM: &str = "redis-benchmark";

/// How long the program may take to end after SIGTERM.
const PATIENCE: Duration = Duration::from_secs(5);

/// The address of the server under load.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Address {
    Tcp(SocketAddr),
    /// With TLS, and the file of the certificate to trust.
    Tls(SocketAddr, PathBuf),
    #[cfg_attr(not(test), allow(dead_code, reason = "no suite uses it yet; the tests do"))]
    Unix(PathBuf),
}

/// One run: `requests` times the same command by `clients` connections.
#[derive(Clone, Debug)]
pub(crate) struct RedisBenchmark {
    pub(crate) address: Address,
    /// The name of a test, such as `get`, or the arguments of a command, in which `__rand_int__` is replaced by a number.
    pub(crate) command: Vec<String>,
    pub(crate) clients: u32,
    /// The requests that a connection sends before it waits for their replies.
    pub(crate) pipeline: u32,
    pub(crate) requests: u64,
    pub(crate) value_bytes: u32,
    /// Each request has a random one of so many keys; all have the same key if it is `None`.
    pub(crate) keys: Option<u64>,
    /// The run is ended after this time.
    pub(crate) deadline: Duration,
}

/// How a run has ended.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Outcome {
    Finished(Report),
    /// The deadline has ended it after about so many replies.
    Stalled {
        replies: u64,
    },
}

/// The figures of a complete run.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Report {
    pub(crate) requests_per_second: f64,
    pub(crate) latency: Latency,
}

/// Times from a request to its reply, in milliseconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Latency {
    pub(crate) average: f64,
    pub(crate) min: f64,
    pub(crate) p50: f64,
    pub(crate) p95: f64,
    pub(crate) p99: f64,
    pub(crate) max: f64,
}

impl RedisBenchmark {
    /// A run of `requests` requests of a test of `redis-benchmark`, such as `get`: one key, values of 64 bytes, no
    /// pipeline, and a deadline of a minute.
    pub(crate) fn new(address: Address, test: &str, clients: u32, requests: u64) -> Self {
        RedisBenchmark {
            address,
            command: vec![test.to_owned()],
            clients,
            pipeline: 1,
            requests,
            value_bytes: 64,
            keys: None,
            deadline: Duration::from_secs(60),
        }
    }

    /// Runs it.
    ///
    /// # Errors
    /// If `redis-benchmark` is not installed, or ends without a report: then with what it printed. If there are so few
    /// requests that it has measured no time.
    pub(crate) fn run(&self) -> Result<Outcome> {
        self.run_command(self.command()?)
    }

    /// Runs it, and counts the system calls of the process `server` meanwhile.
    pub(crate) fn run_counting(&self, counter: &SyscallCounter, server: u32) -> Result<(Outcome, u64)> {
        let outcome = self.run_command(counter.wrap(server, &self.command()?))?;
        Ok((outcome, counter.count()?))
    }

    /// A command that opens the connections and sends nothing, until it is ended.
    ///
    /// # Errors
    /// If `redis-benchmark` is not installed.
    pub(crate) fn idle(&self) -> Result<Command> {
        let mut command = self.program()?;
        command.args(["-I", "-c", &self.clients.to_string()]);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        Ok(command)
    }

    fn command(&self) -> Result<Command> {
        let mut command = self.program()?;
        for (flag, value) in [
            ("-c", u64::from(self.clients)),
            ("-P", self.pipeline.into()),
            ("-n", self.requests),
            ("-d", self.value_bytes.into()),
        ] {
            command.arg(flag).arg(value.to_string());
        }
        if let Some(keys) = self.keys {
            command.args(["-r", &keys.to_string()]);
        }
        match self.command.as_slice() {
            [test] => command.args(["-t", test]),
            arguments => command.args(arguments),
        };
        Ok(command)
    }

    /// The program and where it connects to.
    fn program(&self) -> Result<Command> {
        let program = find_program(PROGRAM).with_context(|| format!("{PROGRAM} is not installed"))?;
        let mut command = Command::new(program);
        match &self.address {
            Address::Tcp(address) => {
                command.args(["-h", &address.ip().to_string(), "-p", &address.port().to_string()])
            }
            Address::Tls(address, certificate) => {
                command.args(["-h", &address.ip().to_string(), "-p", &address.port().to_string()]);
                command.args(["--tls", "--sni", "localhost", "--cacert"]).arg(certificate)
            }
            Address::Unix(path) => command.arg("-s").arg(path),
        };
        Ok(command)
    }

    fn run_command(&self, mut command: Command) -> Result<Outcome> {
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut running = Running::start(&mut command).with_context(|| format!("cannot start {PROGRAM}"))?;
        let (sender, chunks) = mpsc::channel();
        let stdout = running.child().stdout.take().expect("it is piped");
        let stderr = running.child().stderr.take().expect("it is piped");
        for pipe in [Box::new(stdout) as Box<dyn Read + Send>, Box::new(stderr)] {
            let sender = sender.clone();
            std::thread::spawn(move || read_chunks(pipe, &sender));
        }
        drop(sender);
        let (start, mut output) = (Instant::now(), Output::default());
        loop {
            match chunks.recv_timeout(self.deadline.saturating_sub(start.elapsed())) {
                Ok((at, text)) => output.add(at, &text),
                Err(mpsc::RecvTimeoutError::Disconnected) => break,
                Err(mpsc::RecvTimeoutError::Timeout) => {
                    // A wrapper passes the signal on; a kill would leave its child.
                    running.terminate();
                    running.wait_within(PATIENCE)?;
                    return Ok(Outcome::Stalled { replies: output.replies() });
                }
            }
        }
        running.wait_within(PATIENCE)?;
        match parse(&output.text) {
            // It divides by the milliseconds that the run took.
            Some(report) if report.requests_per_second.is_infinite() => {
                bail!("{} requests took less than a millisecond: more are needed", self.requests)
            }
            Some(report) => Ok(Outcome::Finished(report)),
            None => bail!("{PROGRAM} ended without a report: {}", last_line(&output.text)),
        }
    }
}

impl Outcome {
    /// What a table shows for a run of `requests` requests that has no figures; `None` if it has.
    pub(crate) fn failure(&self, requests: u64) -> Option<String> {
        match self {
            Outcome::Finished(_) => None,
            Outcome::Stalled { replies } => Some(format!("stalled after {replies} of {requests}")),
        }
    }
}

/// Sends what a pipe has as soon as it has it.
fn read_chunks(mut pipe: impl Read, sender: &mpsc::Sender<(Instant, String)>) {
    let mut buffer = [0; 4096];
    while let Ok(length @ 1..) = pipe.read(&mut buffer) {
        let text = String::from_utf8_lossy(&buffer[..length]).into_owned();
        if sender.send((Instant::now(), text)).is_err() {
            return;
        }
    }
}

/// What the program has printed so far.
#[derive(Default)]
struct Output {
    text: String,
    /// When the first line of progress arrived: the program prints it one millisecond after its first request.
    first_progress: Option<Instant>,
    last_progress: Option<Instant>,
}

impl Output {
    fn add(&mut self, at: Instant, text: &str) {
        self.text += text;
        if text.contains("overall") {
            self.first_progress.get_or_insert(at);
            self.last_progress = Some(at);
        }
    }

    /// The replies until the last line of progress: it tells their number per second since the start.
    fn replies(&self) -> u64 {
        let (Some(first), Some(last)) = (self.first_progress, self.last_progress) else { return 0 };
        let per_second = self.text.rsplit("rps=").find_map(|line| {
            let (_, rest) = line.split_once("(overall: ")?;
            rest.split_once(')')?.0.parse::<f64>().ok()
        });
        (per_second.unwrap_or(0.0) * (last - first).as_secs_f64()).round() as u64
    }
}

/// The figures at the end of the program's output.
fn parse(text: &str) -> Option<Report> {
    let (_, summary) = text.split_once("throughput summary:")?;
    let requests_per_second = summary.split_ascii_whitespace().next()?.parse().ok()?;
    let (_, table) = summary.split_once("latency summary (msec):")?;
    let mut rows = table.lines().filter(|line| !line.trim().is_empty());
    let names = rows.next()?.split_ascii_whitespace();
    let numbers = rows.next()?.split_ascii_whitespace();
    let columns: Vec<(&str, f64)> =
        names.zip(numbers).map(|(name, number)| Some((name, number.parse().ok()?))).collect::<Option<_>>()?;
    let column = |name| columns.iter().find(|(each, _)| *each == name).map(|(_, number)| *number);
    let latency = Latency {
        average: column("avg")?,
        min: column("min")?,
        p50: column("p50")?,
        p95: column("p95")?,
        p99: column("p99")?,
        max: column("max")?,
    };
    Some(Report { requests_per_second, latency })
}

fn last_line(text: &str) -> &str {
    text.split(['\n', '\r']).map(str::trim).rfind(|line| !line.is_empty()).unwrap_or("no output")
}

#[cfg(test)]
mod tests {
    use super::*;
    use larder_process::RedisServer;
    use larder_testkit::program;
    use std::os::unix::net::UnixListener;

    #[test]
    fn run_against_a_real_server_has_every_figure() {
        let (Some(redis), Some(_)) = (program("redis-server"), program(PROGRAM)) else { return };
        let server = RedisServer::start(redis).unwrap();
        let address = Address::Unix(server.socket());
        for (command, pipeline) in [(vec!["set"], 1), (vec!["get"], 16), (vec!["incr", "n:__rand_int__"], 1)]
        {
            let command = command.into_iter().map(str::to_owned).collect();
            let run = RedisBenchmark {
                command,
                pipeline,
                keys: Some(100),
                ..RedisBenchmark::new(address.clone(), "", 5, 2_000)
            };
            let Outcome::Finished(Report { requests_per_second, latency }) = run.run().unwrap() else {
                panic!("the run stalled")
            };
            // The least latency may be less than a microsecond, which is printed as zero.
            assert!(requests_per_second > 100.0 && latency.max > 0.0, "{latency:?}");
            assert!(latency.min <= latency.p50 && latency.p50 <= latency.p95 && latency.p99 <= latency.max);
        }
        let keys: u64 = server.command("DBSIZE").unwrap().trim()[1..].parse().unwrap();
        assert!((100..=200).contains(&keys), "{keys} keys of two hundred");
        let summary = "throughput summary: inf requests per second\nlatency summary (msec):\n";
        let table = "avg min p50 p95 p99 max\n0.1 0.1 0.1 0.1 0.1 0.1\n";
        assert!(parse(&format!("{summary}{table}")).unwrap().requests_per_second.is_infinite());
    }

    #[test]
    fn run_against_a_server_that_stalls_ends_at_the_deadline() {
        if program(PROGRAM).is_none() {
            return;
        }
        let folder = tempfile::tempdir().unwrap();
        let socket = folder.path().join("stalling");
        let listener = UnixListener::bind(&socket).unwrap();
        // Answers the first connections, which ask for settings, and 100 requests of the next; then it is silent.
        std::thread::spawn(move || answer(&listener, 100));
        let run = RedisBenchmark {
            deadline: Duration::from_secs(2),
            ..RedisBenchmark::new(Address::Unix(socket), "ping_mbulk", 1, 1_000)
        };
        let Outcome::Stalled { replies } = run.run().unwrap() else { panic!("the server is silent") };
        assert!((80..=120).contains(&replies), "{replies}");
        assert_eq!(Outcome::Stalled { replies: 7 }.failure(9).unwrap(), "stalled after 7 of 9");
    }

    /// Answers `CONFIG GET` with an empty array and `limit` pings.
    fn answer(listener: &UnixListener, limit: usize) {
        use std::io::Write;
        let mut streams = Vec::new();
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let (mut buffer, mut pings) = ([0; 4096], 0);
            while pings < limit {
                let Ok(length @ 1..) = stream.read(&mut buffer) else { break };
                if buffer[..length].windows(6).any(|text| text == b"CONFIG") {
                    let requests = buffer[..length].windows(6).filter(|text| text == b"CONFIG").count();
                    stream.write_all(&b"*0\r\n".repeat(requests)).unwrap();
                } else {
                    stream.write_all(b"+PONG\r\n").unwrap();
                    pings += 1;
                }
            }
            streams.push(stream);
        }
    }

    #[test]
    fn run_without_a_server_tells_why() {
        if program(PROGRAM).is_none() {
            return;
        }
        let nowhere = Address::Unix("/nowhere/socket".into());
        let error = RedisBenchmark::new(nowhere, "get", 1, 1).run().unwrap_err().to_string();
        assert!(error.contains("ended without a report") && error.contains("No such file"), "{error}");
    }
}

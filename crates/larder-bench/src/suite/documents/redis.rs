//! Document 3: a mini Redis in stages, and what redis-benchmark measures of each.
//!
//! | workload | meaning |
//! |---|---|
//! | `set-N`, `get-N` | SET and GET of three bytes by N clients |
//! | `set-N-p16`, `get-N-p16` | the same with pipelines of 16 |
//! | `backlog` | how many of 20 connections complete within 100 ms while the process that accepts is paused |
//!
//! A run ends at a deadline: sequential accept serves the second client when the first has gone, and redis-benchmark waits
//! for both. Subjects are measured where they are a stage of the document: sequential accept with one and two clients, a
//! backlog of 5 around the document's cliff.

use super::case::{self, Case, Outcome};
use super::child::Child;
use super::rounds;
use crate::measure::interrupt;
use crate::measure::rounds::Value;
use crate::result::Better;
use crate::result::text::format_number;
use crate::suite::{Findings, Plan};
use crate::tool::{Address, Outcome as Ending, RedisBenchmark, Usage};
use anyhow::{Result, ensure};
use indicatif::ProgressBar;
use larder_process::find_program;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

/// As in the document.
const VALUE_BYTES: u32 = 3;
const CONNECTIONS: usize = 20;
const CONNECT_LIMIT: Duration = Duration::from_millis(100);
const MINI_REDIS: &str = include_str!("elixir/mini_redis.exs");

/// What redis-benchmark does in a run.
#[derive(Clone, Copy)]
struct Load {
    clients: u32,
    pipeline: u32,
}

const LOADS: [Load; 10] = [
    Load { clients: 1, pipeline: 1 },
    Load { clients: 2, pipeline: 1 },
    Load { clients: 5, pipeline: 1 },
    Load { clients: 6, pipeline: 1 },
    Load { clients: 15, pipeline: 1 },
    Load { clients: 50, pipeline: 1 },
    Load { clients: 250, pipeline: 1 },
    Load { clients: 300, pipeline: 1 },
    Load { clients: 1, pipeline: 16 },
    Load { clients: 50, pipeline: 16 },
];

impl Load {
    fn workload(self, test: &str) -> String {
        match self.pipeline {
            1 => format!("{test}-{}", self.clients),
            pipeline => format!("{test}-{}-p{pipeline}", self.clients),
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Server {
    Larder,
    Redis,
    MiniRedis,
    Rust(Stage),
    Elixir(Packet, Stage),
}

/// The stages of the document.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Sequential,
    Backlog5,
    Backlog50,
}

/// How Erlang cuts what it receives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Packet {
    Line,
    Raw,
}

impl Server {
    /// All servers that can be started here.
    fn all() -> Vec<Server> {
        use Stage::{Backlog5, Backlog50, Sequential};
        let stages = [Sequential, Backlog5, Backlog50];
        let mut servers = vec![Server::Larder, Server::Redis];
        if cfg!(feature = "bench-peers") {
            servers.push(Server::MiniRedis);
        }
        servers.extend(stages.map(Server::Rust));
        servers.extend(stages.map(|stage| Server::Elixir(Packet::Line, stage)));
        servers.extend(stages.map(|stage| Server::Elixir(Packet::Raw, stage)));
        servers.retain(|server| server.program().is_none_or(|program| find_program(program).is_some()));
        servers
    }

    fn program(self) -> Option<&'static str> {
        match self {
            Server::Redis => Some("redis-server"),
            Server::Elixir(..) => Some("elixir"),
            Server::Larder | Server::MiniRedis | Server::Rust(_) => None,
        }
    }

    fn subject(self) -> &'static str {
        match self {
            Server::Larder => "larder",
            Server::Redis => "redis-server",
            Server::MiniRedis => "mini-redis",
            Server::Rust(Stage::Sequential) => "Rust, sequential",
            Server::Rust(Stage::Backlog5) => "Rust, backlog 5",
            Server::Rust(Stage::Backlog50) => "Rust, backlog 50",
            Server::Elixir(Packet::Line, Stage::Sequential) => "Elixir :line, sequential",
            Server::Elixir(Packet::Line, Stage::Backlog5) => "Elixir :line, backlog 5",
            Server::Elixir(Packet::Line, Stage::Backlog50) => "Elixir :line, backlog 50",
            Server::Elixir(Packet::Raw, Stage::Sequential) => "Elixir :raw, sequential",
            Server::Elixir(Packet::Raw, Stage::Backlog5) => "Elixir :raw, backlog 5",
            Server::Elixir(Packet::Raw, Stage::Backlog50) => "Elixir :raw, backlog 50",
        }
    }

    fn stage(self) -> Option<Stage> {
        match self {
            Server::Rust(stage) | Server::Elixir(_, stage) => Some(stage),
            Server::Larder | Server::Redis | Server::MiniRedis => None,
        }
    }

    /// Whether the server is a stage of the document under this load. A quick run leaves out most of `:raw`.
    fn is_measured(self, load: Load, quick: bool) -> bool {
        let is_stage = match self.stage() {
            Some(Stage::Sequential) => load.clients <= 2,
            Some(Stage::Backlog5) => (5..=15).contains(&load.clients),
            Some(Stage::Backlog50) | None => true,
        };
        let is_raw = matches!(self, Server::Elixir(Packet::Raw, _));
        is_stage && !(quick && is_raw && load.clients != 50)
    }

    fn start(self) -> Result<Child> {
        match self {
            Server::Larder => Child::serve(&["larder"]),
            Server::Redis => Child::redis(),
            Server::MiniRedis => Child::serve(&["mini-redis"]),
            Server::Rust(stage) => {
                let [accept, backlog] = stage.arguments();
                Child::serve(&["resp", "--accept", accept, "--backlog", backlog])
            }
            Server::Elixir(packet, stage) => {
                let [accept, backlog] = stage.arguments();
                let packet = if packet == Packet::Line { "line" } else { "raw" };
                Child::script("elixir", MINI_REDIS, &[accept, packet, backlog])
            }
        }
    }

    /// How long it takes to start.
    fn start_estimate(self) -> Duration {
        Duration::from_millis(if matches!(self, Server::Elixir(..)) { 1_200 } else { 50 })
    }
}

impl Stage {
    fn arguments(self) -> [&'static str; 2] {
        match self {
            Stage::Sequential => ["sequential", "50"],
            Stage::Backlog5 => ["task", "5"],
            Stage::Backlog50 => ["task", "50"],
        }
    }
}

/// The size of a run.
#[derive(Clone, Copy)]
struct Scale {
    requests: u64,
    deadline: Duration,
}

pub(super) fn measure(plan: &Plan, bar: &ProgressBar, findings: &mut Findings) -> Result<()> {
    let scale = match plan.quick {
        true => Scale { requests: 10_000, deadline: Duration::from_secs(5) },
        false => Scale { requests: 100_000, deadline: Duration::from_secs(10) },
    };
    if find_program("redis-benchmark").is_some() {
        for load in LOADS {
            findings.commands.push(command_text(load, scale));
        }
        case::run(cases(plan.quick, scale), rounds(plan), bar, findings);
    }
    if !interrupt::is_requested() {
        case::run(backlog_cases(), rounds(plan), bar, findings);
    }
    if !cfg!(feature = "bench-peers") {
        findings
            .notes
            .push("mini-redis of the Tokio tutorial: only with the feature bench-peers.".to_owned());
    }
    findings.notes.extend(conclusions(findings));
    Ok(())
}

fn cases(quick: bool, scale: Scale) -> Vec<Case<'static>> {
    let servers = Server::all();
    let case = |load: Load, server: Server| {
        let stalls = server.stage() == Some(Stage::Sequential) && load.clients > 1;
        // Two runs at the rate of a client on a shared processor.
        let runs = Duration::from_secs_f64(2.0 * scale.requests as f64 / 60_000.0);
        let estimate = server.start_estimate() + if stalls { scale.deadline } else { runs };
        Case {
            group: load.workload("set"),
            subject: server.subject(),
            estimate,
            run: Box::new(move || run(server, load, scale)),
        }
    };
    LOADS
        .into_iter()
        .flat_map(|load| servers.iter().map(move |server| (load, *server)))
        .filter(|(load, server)| server.is_measured(*load, quick))
        .map(|(load, server)| case(load, server))
        .collect()
}

/// SET, then GET unless SET has stalled.
fn run(server: Server, load: Load, scale: Scale) -> Result<Vec<Outcome>> {
    let child = server.start()?;
    check_answers(&child)?;
    let mut outcomes = Vec::new();
    for test in ["set", "get"] {
        let (before, start) = (Usage::of(child.id()), Instant::now());
        let ending = benchmark(&child, test, load, scale).run()?;
        let (elapsed, usage) = (start.elapsed(), Usage::of(child.id()) - before);
        let values = match ending {
            Ending::Finished(report) => {
                let latency = report.latency;
                vec![
                    Value::high("throughput", "/s", report.requests_per_second),
                    Value::low("cpu", "µs", usage.cpu.as_secs_f64() * 1e6 / scale.requests as f64),
                    Value::low("average", "ms", latency.average),
                    Value::low("min", "ms", latency.min),
                    Value::low("p50", "ms", latency.p50),
                    Value::low("p95", "ms", latency.p95),
                    Value::low("p99", "ms", latency.p99),
                    Value::low("max", "ms", latency.max),
                    Value::low("elapsed", "s", scale.requests as f64 / report.requests_per_second),
                ]
            }
            // The number of replies is an estimate.
            Ending::Stalled { replies } => {
                let replies = replies.min(scale.requests);
                vec![
                    Value::high("throughput", "/s", replies as f64 / elapsed.as_secs_f64()),
                    Value::low("elapsed", "s", elapsed.as_secs_f64()),
                ]
            }
        };
        let remark = match ending {
            Ending::Finished(_) => None,
            Ending::Stalled { replies } => {
                Some(format!("stalled after about {} of {}", replies.min(scale.requests), scale.requests))
            }
        };
        let is_stalled = remark.is_some();
        outcomes.push(Outcome { workload: load.workload(test), values, remark });
        if is_stalled {
            break;
        }
    }
    Ok(outcomes)
}

fn benchmark(child: &Child, test: &str, load: Load, scale: Scale) -> RedisBenchmark {
    let address = Address::Tcp(child.address());
    RedisBenchmark {
        pipeline: load.pipeline,
        value_bytes: VALUE_BYTES,
        deadline: scale.deadline,
        ..RedisBenchmark::new(address, test, load.clients, scale.requests)
    }
}

fn command_text(load: Load, scale: Scale) -> String {
    format!(
        "redis-benchmark -p PORT -t set -c {} -P {} -n {} -d {VALUE_BYTES}",
        load.clients, load.pipeline, scale.requests
    )
}

/// Stores a value and reads it back: a server that is measured must answer.
fn check_answers(child: &Child) -> Result<()> {
    const EXPECTED: &[u8] = b"+OK\r\n$3\r\na\nb\r\n";
    let mut stream = TcpStream::connect(child.address())?;
    stream.set_read_timeout(Some(Duration::from_secs(5)))?;
    stream
        .write_all(b"*3\r\n$3\r\nSET\r\n$5\r\ncheck\r\n$3\r\na\nb\r\n*2\r\n$3\r\nGET\r\n$5\r\ncheck\r\n")?;
    let mut reply = vec![0; EXPECTED.len()];
    stream.read_exact(&mut reply)?;
    ensure!(reply == EXPECTED, "wrong answer: {:?}", String::from_utf8_lossy(&reply));
    Ok(())
}

fn backlog_cases() -> Vec<Case<'static>> {
    let is_apart = |server: &Server| {
        server.stage() != Some(Stage::Sequential) && !matches!(server, Server::Elixir(Packet::Raw, _))
    };
    let case = |server: Server| Case {
        group: "backlog".to_owned(),
        subject: server.subject(),
        estimate: server.start_estimate() + CONNECT_LIMIT * (CONNECTIONS / 2) as u32,
        run: Box::new(move || connect_to_paused(server)),
    };
    Server::all().into_iter().filter(is_apart).map(case).collect()
}

/// Counts the connections that complete while nobody accepts them.
fn connect_to_paused(server: Server) -> Result<Vec<Outcome>> {
    let child = server.start()?;
    child.pause();
    let connections: Vec<TcpStream> = (0..CONNECTIONS)
        .filter_map(|_| TcpStream::connect_timeout(&child.address(), CONNECT_LIMIT).ok())
        .collect();
    let connected = connections.len() as f64;
    let values =
        vec![Value { measure: "connected", unit: "of 20", better: Better::Higher, value: connected }];
    Ok(vec![Outcome { workload: "backlog".to_owned(), values, remark: None }])
}

/// Whether the cliffs of the document show here.
fn conclusions(findings: &Findings) -> Vec<String> {
    let rate = |workload: &str, subject: &str| {
        let id = (workload, "throughput", subject);
        let figure = findings.figures.iter().find(|figure| figure.id() == id)?;
        Some(figure.spread().median)
    };
    let mut conclusions = Vec::new();
    let elixir = "Elixir :line, backlog 50";
    if let (Some(six), Some(fifteen)) = (rate("set-6", elixir), rate("set-15", elixir)) {
        let verb = if fifteen < 0.9 * six { "falls" } else { "does not fall" };
        let [six, fifteen] = [six, fifteen].map(format_number);
        conclusions
            .push(format!("From 6 to 15 clients the Elixir server {verb} here: {six} and {fifteen} SET/s."));
    }
    if let (Some(five), Some(six)) = (rate("set-5", "Rust, backlog 5"), rate("set-6", "Rust, backlog 5")) {
        let [five, six] = [five, six].map(format_number);
        conclusions.push(format!(
            "On Linux a backlog of 5 is no cliff while connections are accepted: {five} SET/s with 5 clients, {six} with \
             6. The workload backlog shows what it does while they are not."
        ));
    }
    conclusions
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::suite::documents::Document;
    use larder_testkit::program;

    /// Each figure of the document names what this suite measures.
    #[test]
    fn counterparts_of_the_document_are_measured() {
        if ["elixir", "redis-server"].iter().any(|name| program(name).is_none()) {
            return;
        }
        let document = Document::read(3).unwrap();
        let scale = Scale { requests: 1, deadline: Duration::from_secs(1) };
        for quick in [false, true] {
            let measured: Vec<(String, &str)> =
                cases(quick, scale).into_iter().map(|case| (case.group, case.subject)).collect();
            for (workload, subjects) in document.counterparts() {
                let is_known =
                    measured.iter().any(|(group, subject)| group == workload && subjects.contains(subject));
                assert!(is_known, "{workload}, {subjects:?}");
            }
        }
    }
}

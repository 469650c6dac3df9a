//! The suite `server`: Larder's server beside other servers of the Redis protocol, under the load of `redis-benchmark`.
//!
//! ```text
//!  redis-benchmark, or an open loop ──► larder          its default number of threads
//!                                   ──► larder, 1 thread
//!                                   ──► redis, valkey, pogocache: where they are installed
//!                                   ──► bare loop       answers constants: the least that any server needs
//! ```
//!
//! | workload | meaning |
//! |---|---|
//! | `get-N`, `set-N` | so many connections, each with one request under way |
//! | `get-50-pP` | each connection sends P requests before it waits |
//! | `eval-50` | 50 connections, each with one `EVAL` under way: a script with one `GET` and one `SET` |
//! | `transaction-50` | 50 connections, each with one `MULTI` of ten commands under way: five `GET`, five `SET`; `cpu` is that of one of them |
//! | `hset-50`, `hget-50`, `sadd-50`, `sismember-50`, `lpush-50`, `rpop-50`, with `-pP` | 50 connections on one hash, set or list |
//! | `blpop hand-over` | two clients that push an element for each other and wait for the next one |
//! | `get-50-tls` | as `get-50`, with TLS; `larder, without TLS` is its plain port in the same rounds |
//! | `half-load` | 50 connections, requests at half the rate that Redis answers at most, whatever the server does |
//! | `hash memory`, `set memory`, `list memory` | the bytes of a member in large ones, and in those of ten |
//! | `a connection with TLS` | the memory of one that does nothing |
//! | `memory` | the bytes of an entry over its key and value, the memory of an empty and of an emptied server, the first reply |
//! | `… in the memory of N entries` | the hit ratio with so much memory, for each trace of `--traces` |
//!
//! Keys are chosen at random among a million, and every `get` is a hit. `cpu` is the processor time of the server
//! per command: it does not depend on other processes, unlike the rest. Client and server share the machine, so throughput
//! is bound by the client in most workloads.

mod bare_loop;
mod collections;
mod encrypted;
mod equal_memory;
mod handover;
mod load;
mod memory;
mod open_loop;
pub(super) mod quick;
mod stalls;
mod subject;
mod transaction;

use super::{Findings, Plan, Suite, Target};
use crate::measure::rounds::{self, Runner};
use crate::tool::SyscallCounter;
use anyhow::{Result, ensure};
pub use bare_loop::BareLoopArgs;
pub(crate) use bare_loop::run_bare_loop;
use indicatif::ProgressBar;
use load::Load;
pub(super) use stalls::Stalls;
use std::rc::Rc;
pub(super) use subject::larder;
use subject::{Kind, Subject};

/// The workload whose throughput determines the rate of `half-load`.
const FULL_LOAD: &str = "get-50";
const HALF_LOAD: &str = "half-load";
const HALF_LOAD_CLIENTS: usize = 50;
const EVAL: &str = "eval-50";
const TRANSACTION: &str = "transaction-50";
const TRANSACTION_CLIENTS: usize = 50;
/// Reads a key and stores its value again, with the arguments.
const SCRIPT: &[&str] = &[
    "EVAL",
    "local value = redis.call('GET', KEYS[1]) redis.call('SET', KEYS[1], ARGV[1]) return value",
    "1",
    "key:__rand_int__",
    "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx",
];

pub(crate) struct Server;

impl Suite for Server {
    fn name(&self) -> &'static str {
        "server"
    }

    fn description(&self) -> &'static str {
        "the cache server beside Redis, Valkey, Pogocache and a bare epoll loop: CPU per command, latency, memory"
    }

    fn crates(&self) -> &'static [&'static str] {
        &["larder-server", "larder-engine"]
    }

    fn targets(&self) -> Vec<Target> {
        let mut targets = Vec::new();
        for (workload, redis, bare_loop) in [
            ("get-1", 0.95, 1.10),
            ("get-2", 0.95, 1.10),
            ("get-5", 0.95, 1.10),
            ("get-15", 0.95, 1.10),
            ("get-50", 0.88, 1.08),
            ("get-300", 0.82, 1.11),
        ] {
            targets.push(Target::ratio(workload, "cpu", "redis", redis));
            targets.push(Target::ratio(workload, "cpu", "bare loop", bare_loop));
        }
        targets.extend([
            Target::ratio(EVAL, "cpu", "redis", 1.0),
            Target::ratio(TRANSACTION, "cpu", "redis", 1.0),
            Target::ratio("get-50-p16", "cpu", "redis", 0.48),
            Target::ratio("get-50-p16", "throughput", "bare loop", 1.0),
            Target::ratio("get-50-p100", "cpu", "redis", 0.22),
            Target::ratio("get-50-p100", "throughput", "bare loop", 1.0),
            Target::ratio(HALF_LOAD, "p99", "redis", 1.0),
            Target::lead(equal_memory::MEAN, "hit ratio", equal_memory::REDIS_LRU, 0.0),
            Target::lead(equal_memory::MEAN, "hit ratio", equal_memory::REDIS_LFU, 0.0),
            Target::value("memory", "start", 50.0),
            Target::value("memory", "empty", 12.0),
            Target::value("memory", memory::SHORT, 32.0),
            Target::value("memory", memory::TIMED, 38.0),
            Target::value("memory", memory::FLUSHED, 32.0),
        ]);
        targets.extend(encrypted::targets());
        targets.extend(collections::targets());
        targets.push(Target::ratio(handover::WORKLOAD, "cpu", "redis", 0.9));
        targets
    }

    fn measure(&self, plan: &Plan, bar: &ProgressBar) -> Result<Findings> {
        let mut findings = measure(&Scale::of(plan), bar)?;
        equal_memory::measure(plan, bar, &mut findings)?;
        Ok(findings)
    }
}

/// The size of a run.
struct Scale {
    rounds: usize,
    /// The requests of a round with one, with some and with many connections, and with pipelines.
    requests: [u64; 4],
    /// The numbers of connections.
    clients: &'static [(&'static str, u32)],
    /// The keys that the requests choose from at random.
    keys: u64,
    /// The entries of the workload `memory`.
    entries: u64,
}

impl Scale {
    fn of(plan: &Plan) -> Self {
        match plan.quick {
            true => Scale {
                rounds: 3,
                requests: [5_000, 10_000, 15_000, 150_000],
                clients: &[("get-1", 1), ("get-5", 5), ("get-50", 50), ("get-300", 300)],
                keys: 100_000,
                entries: 100_000,
            },
            // The numbers of connections with which a small Redis of 2021 was measured: docs/documents.md.
            false => Scale {
                rounds: 7,
                requests: [30_000, 50_000, 100_000, 1_000_000],
                clients: &[
                    ("get-1", 1),
                    ("get-2", 2),
                    ("get-5", 5),
                    ("get-6", 6),
                    ("get-15", 15),
                    ("get-50", 50),
                    ("get-250", 250),
                    ("get-300", 300),
                ],
                keys: 1_000_000,
                entries: 2_000_000,
            },
        }
    }

    /// Scripts, for the servers that run any.
    fn script_load(&self) -> Load {
        let [_, _, requests, _] = self.requests;
        Load { name: EVAL, command: SCRIPT, clients: 50, pipeline: 1, requests, keys: self.keys }
    }

    fn loads(&self) -> Vec<Load> {
        let [few, some, many, pipelined] = self.requests;
        let requests = |clients| match clients {
            0..=2 => few,
            3..=15 => some,
            _ => many,
        };
        let load = |name, command: &'static [&'static str], clients, pipeline, requests| Load {
            name,
            command,
            clients,
            pipeline,
            requests,
            keys: self.keys,
        };
        let gets =
            self.clients.iter().map(|(name, clients)| load(*name, &["get"], *clients, 1, requests(*clients)));
        gets.chain([
            load("set-50", &["set"], 50, 1, many),
            load("get-50-p16", &["get"], 50, 16, pipelined),
            load("get-50-p100", &["get"], 50, 100, pipelined),
        ])
        .collect()
    }
}

fn measure(scale: &Scale, bar: &ProgressBar) -> Result<Findings> {
    let mut findings = Findings::default();
    let subjects = subject::start_all(&Kind::ALL, &mut findings.notes);
    ensure!(!subjects.is_empty(), "no server can be started: {}", findings.notes.join(" "));
    let subjects: Vec<Rc<Subject>> = subjects.into_iter().map(Rc::new).collect();
    bar.set_message("fill");
    for subject in subjects.iter().filter(|subject| subject.kind.is_cache()) {
        subject.fill(scale.keys)?;
    }
    let counter = SyscallCounter::new()?;
    if counter.is_none() {
        findings.notes.push("perf cannot count here: system calls were not measured.".to_owned());
    }
    for load in scale.loads() {
        findings.figures.extend(load.measure(&subjects, scale.rounds, counter.as_ref(), bar)?);
    }
    let redis_like: Vec<Rc<Subject>> =
        subjects.iter().filter(|subject| subject.kind.runs_scripts()).cloned().collect();
    let scripts = scale.script_load().measure(&redis_like, scale.rounds, counter.as_ref(), bar)?;
    findings.figures.extend(scripts);
    let [_, _, many, pipelined] = scale.requests;
    for load in collections::loads(many, pipelined, scale.keys) {
        findings.figures.extend(load.measure(&redis_like, scale.rounds, counter.as_ref(), bar)?);
    }
    transactions(scale, &redis_like, bar, &mut findings)?;
    hand_overs(scale, &redis_like, bar, &mut findings)?;
    half_load(scale, &subjects, bar, &mut findings)?;
    drop((subjects, redis_like));
    encrypted::measure(encrypted::load(many, scale.keys), scale.rounds, bar, &mut findings)?;
    memory::measure(scale.entries, bar, &mut findings)?;
    collections::measure_memory(scale.entries, bar, &mut findings)?;
    Ok(findings)
}

/// Transactions, which `redis-benchmark` does not send.
fn transactions(
    scale: &Scale,
    subjects: &[Rc<Subject>],
    bar: &ProgressBar,
    findings: &mut Findings,
) -> Result<()> {
    let (transactions, keys) = (scale.requests[2] / transaction::COMMANDS as u64, scale.keys);
    let runner = |subject: &Rc<Subject>| {
        let (name, subject) = (subject.kind.name(), subject.clone());
        let round = move || transaction::round(&subject, TRANSACTION_CLIENTS, transactions, keys);
        Runner { subject: name, round: Box::new(round) }
    };
    let mut runners: Vec<Runner> = subjects.iter().map(runner).collect();
    findings.figures.extend(rounds::run(TRANSACTION, &mut runners, scale.rounds, bar)?);
    Ok(())
}

/// Elements for clients that wait, which `redis-benchmark` does not measure.
fn hand_overs(
    scale: &Scale,
    subjects: &[Rc<Subject>],
    bar: &ProgressBar,
    findings: &mut Findings,
) -> Result<()> {
    let elements = scale.requests[0];
    let runner = |subject: &Rc<Subject>| {
        let (name, subject) = (subject.kind.name(), subject.clone());
        Runner { subject: name, round: Box::new(move || handover::round(&subject, elements)) }
    };
    let mut runners: Vec<Runner> = subjects.iter().map(runner).collect();
    findings.figures.extend(rounds::run(handover::WORKLOAD, &mut runners, scale.rounds, bar)?);
    Ok(())
}

/// Sends at half the rate of Redis, or of the first server if there is no Redis.
fn half_load(
    scale: &Scale,
    subjects: &[Rc<Subject>],
    bar: &ProgressBar,
    findings: &mut Findings,
) -> Result<()> {
    let full =
        |figure: &&crate::result::Figure| figure.workload == FULL_LOAD && figure.measure == "throughput";
    let redis = findings.figures.iter().find(|figure| full(figure) && figure.subject == Kind::Redis.name());
    let Some(figure) = redis.or_else(|| findings.figures.iter().find(full)) else { return Ok(()) };
    let rate = figure.spread().median / 2.0;
    let (requests, keys) = (scale.requests[2], scale.keys);
    let runner = |subject: &Rc<Subject>| {
        let (name, subject) = (subject.kind.name(), subject.clone());
        let round = move || open_loop::round(&subject, HALF_LOAD_CLIENTS, rate, requests, keys);
        Runner { subject: name, round: Box::new(round) }
    };
    let mut runners: Vec<Runner> = subjects.iter().map(runner).collect();
    findings.figures.extend(rounds::run(HALF_LOAD, &mut runners, scale.rounds, bar)?);
    findings
        .notes
        .push(format!("{HALF_LOAD}: {} requests per second.", crate::result::text::format_number(rate)));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use larder_testkit::program;

    /// Every workload with few requests. In a unit test, only installed servers can be started.
    #[test]
    fn measure_has_figures_for_every_workload() {
        if ["redis-server", "redis-benchmark"].iter().any(|name| program(name).is_none()) {
            return;
        }
        let clients = &[("get-1", 1), ("get-50", 50)];
        let scale =
            Scale { rounds: 1, requests: [500, 500, 1_000, 50_000], clients, keys: 1_000, entries: 2_000 };
        let findings = measure(&scale, &ProgressBar::hidden()).unwrap();
        for workload in [
            "get-1",
            "get-50",
            "set-50",
            "get-50-p16",
            "get-50-p100",
            EVAL,
            "hset-50",
            "hget-50-p100",
            "sismember-50",
            "rpop-50-p16",
            handover::WORKLOAD,
            TRANSACTION,
            HALF_LOAD,
            encrypted::WORKLOAD,
            "memory",
            "hash memory",
            "set memory",
            "list memory",
        ] {
            let mut figures = findings.figures.iter().filter(|figure| figure.workload == workload);
            assert!(figures.any(|figure| figure.subject == "redis"), "{workload}");
        }
        assert!(findings.figures.iter().all(|figure| figure.rounds.iter().all(|value| value.is_finite())));
        assert!(findings.notes.iter().any(|note| note.starts_with("bare loop was not measured")));
    }

    #[test]
    fn targets_name_workloads_of_a_full_run() {
        let plan = Plan { quick: false, seed: 1, pairs: None, traces: None };
        let loads = Scale::of(&plan).loads();
        for target in Server.targets() {
            let (workload, _) = target.workload_and_measure();
            let is_load = loads.iter().chain(&collections::loads(0, 0, 0)).any(|load| load.name == workload);
            let others = [
                EVAL,
                TRANSACTION,
                HALF_LOAD,
                handover::WORKLOAD,
                encrypted::WORKLOAD,
                equal_memory::MEAN,
                "memory",
            ];
            assert!(
                is_load
                    || others.into_iter().chain(collections::memory_workloads()).any(|name| name == workload),
                "{workload}"
            );
        }
    }
}

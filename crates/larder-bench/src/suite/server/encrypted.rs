//! TLS: what it costs a server beside its plain port, and the memory of a connection.

use super::load::Load;
use super::subject::{Kind, Subject};
use crate::measure::rounds::{self, Value};
use crate::suite::{Findings, Target};
use crate::tool::{Address, Certificate, RedisBenchmark, resident_bytes};
use anyhow::{Context, Result, ensure};
use indicatif::ProgressBar;
use larder_process::Running;
use std::io::{Read, Write};
use std::rc::Rc;
use std::time::{Duration, Instant};

pub(super) const WORKLOAD: &str = "get-50-tls";
/// Larder's plain port, under the same load in the same rounds.
const PLAIN: &str = "larder, without TLS";
const CONNECTION: &str = "a connection with TLS";
/// Connections that do nothing.
const IDLE: u32 = 500;
/// How long they may take to come.
const PATIENCE: Duration = Duration::from_secs(30);

/// What is expected of it.
pub(super) fn targets() -> [Target; 2] {
    [Target::ratio(WORKLOAD, "cpu", PLAIN, 1.25), Target::ratio(WORKLOAD, "cpu", Kind::Redis.name(), 0.95)]
}

pub(super) fn load(requests: u64, keys: u64) -> Load {
    Load { name: WORKLOAD, command: &["get"], clients: 50, pipeline: 1, requests, keys }
}

/// Runs the rounds, and then measures connections that do nothing.
pub(super) fn measure(load: Load, rounds: usize, bar: &ProgressBar, findings: &mut Findings) -> Result<()> {
    let certificate = match Certificate::make() {
        Ok(certificate) => certificate,
        Err(error) => {
            findings.notes.push(format!("{WORKLOAD} was not measured: {error:#}."));
            return Ok(());
        }
    };
    let mut runners = Vec::new();
    let mut subjects = Vec::new();
    for kind in [Kind::Larder, Kind::Redis, Kind::Valkey] {
        let subject = match Subject::start_with_tls(kind, &certificate) {
            Ok(subject) => Rc::new(subject),
            Err(error) => {
                findings.notes.push(format!("{} was not measured with TLS: {error:#}.", kind.name()));
                continue;
            }
        };
        subject.fill(load.keys)?;
        runners.push(load.runner(kind.name(), &subject, encrypted(&subject, &certificate)?));
        if kind == Kind::Larder {
            runners.push(load.runner(PLAIN, &subject, Address::Tcp(subject.address)));
        }
        subjects.push(subject);
    }
    findings.figures.extend(rounds::run(WORKLOAD, &mut runners, rounds, bar)?);
    for subject in &subjects {
        let bytes = bytes_of_connection(subject, &certificate)? / 1024.0;
        findings.figures.push(Value::low("memory", "KiB", bytes).figure(CONNECTION, subject.kind.name()));
    }
    Ok(())
}

fn encrypted(subject: &Subject, certificate: &Certificate) -> Result<Address> {
    let address = subject.encrypted.context("no port for TLS")?;
    Ok(Address::Tls(address, certificate.chain.clone()))
}

/// The resident bytes of the server for each connection that has shaken hands and does nothing.
fn bytes_of_connection(subject: &Subject, certificate: &Certificate) -> Result<f64> {
    let before = resident_bytes(subject.id());
    let benchmark = RedisBenchmark::new(encrypted(subject, certificate)?, "", IDLE, 0);
    let _idle = Running::start(&mut benchmark.idle()?)?;
    let start = Instant::now();
    // This one and the idle ones.
    while connected(subject)? < u64::from(IDLE) + 1 {
        ensure!(start.elapsed() < PATIENCE, "{}: {IDLE} connections do not come", subject.kind.name());
        std::thread::sleep(Duration::from_millis(50));
    }
    Ok(resident_bytes(subject.id()).saturating_sub(before) as f64 / f64::from(IDLE))
}

/// The connections of a server.
fn connected(subject: &Subject) -> Result<u64> {
    let mut stream = subject.connect()?;
    stream.write_all(b"*2\r\n$4\r\nINFO\r\n$7\r\nclients\r\n")?;
    let mut bytes = vec![0; 4096];
    let length = stream.read(&mut bytes)?;
    let text = String::from_utf8_lossy(&bytes[..length]);
    let count = text.lines().find_map(|line| line.trim_end().strip_prefix("connected_clients:"));
    count.and_then(|count| count.parse().ok()).context("INFO has no connected_clients")
}

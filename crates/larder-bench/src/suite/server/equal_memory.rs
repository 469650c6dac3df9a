//! Hit ratios at equal memory: each server gets the memory of so many entries over what it needs empty, and answers the
//! requests of a trace or a generated workload. A missing key is stored.

use super::subject::{Kind, Subject};
use crate::hit_ratio::Source;
use crate::measure::rounds::Value;
use crate::suite::{Findings, Plan, hit_ratio};
use anyhow::{Context, Result, bail, ensure};
use indicatif::ProgressBar;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;

const MEASURE: &str = "hit ratio";
pub(super) const MEAN: &str = "mean at equal memory";
pub(super) const REDIS_LRU: &str = "redis allkeys-lru";
pub(super) const REDIS_LFU: &str = "redis allkeys-lfu";
/// Long values, so that memory is theirs and not that of buffers. Both lengths fill a block of every server.
const VALUE_BYTES: usize = 1_000;
/// The length where the memory of so few entries would be less than any server takes as its limit.
const LONG_VALUE_BYTES: usize = 3_060;
/// What a server may need for an entry beside its value.
const OVERHEAD_BYTES: usize = 100;
/// Every server takes a limit that is not lower.
const LEAST_BYTES: u64 = 1 << 20;
/// Requests of one pipeline. A key that is requested twice in one may miss twice, on every server.
const BATCH: usize = 50;

/// A server and its policy.
struct Contender {
    subject: &'static str,
    kind: Kind,
    policy: Option<&'static str>,
}

const CONTENDERS: [Contender; 3] = [
    Contender { subject: "larder", kind: Kind::Larder, policy: None },
    Contender { subject: REDIS_LRU, kind: Kind::Redis, policy: Some("allkeys-lru") },
    Contender { subject: REDIS_LFU, kind: Kind::Redis, policy: Some("allkeys-lfu") },
];

/// Replays the traces in the folder of the plan, or without one a generated workload.
pub(super) fn measure(plan: &Plan, bar: &ProgressBar, findings: &mut Findings) -> Result<()> {
    let cells = hit_ratio::largest_cells(plan);
    let mut sums = [const { Some(0.0) }; CONTENDERS.len()];
    for (name, source, entries) in &cells {
        bar.set_message(format!("{name} at equal memory"));
        let workload = format!("{name} in the memory of {entries} entries");
        let value_bytes = value_bytes(*entries);
        for (contender, sum) in CONTENDERS.iter().zip(&mut sums) {
            let subject = match contender.start(*entries * (value_bytes + OVERHEAD_BYTES) as u64) {
                Ok(subject) => subject,
                Err(error) => {
                    // A mean over other workloads than those of the others says nothing.
                    if sum.take().is_some() {
                        findings.notes.push(format!("{workload}: {}: {error:#}.", contender.subject));
                    }
                    continue;
                }
            };
            let percent = 100.0 * replay(&subject, source, value_bytes).with_context(|| workload.clone())?;
            *sum = sum.map(|sum| sum + percent);
            findings.figures.push(Value::high(MEASURE, "%", percent).figure(&workload, contender.subject));
        }
        bar.tick();
    }
    for (contender, sum) in CONTENDERS.iter().zip(sums) {
        let mean = sum.map(|sum| Value::high(MEASURE, "%", sum / cells.len() as f64));
        findings.figures.extend(mean.map(|mean| mean.figure(MEAN, contender.subject)));
    }
    if plan.traces.is_none() {
        findings
            .notes
            .push("Hit ratios of a generated workload: set the folder of traces with --traces.".to_owned());
    }
    Ok(())
}

impl Contender {
    /// A server with so many bytes for entries.
    fn start(&self, bytes: u64) -> Result<Subject> {
        let subject = Subject::start_with_memory(self.kind, bytes)?;
        if let Some(policy) = self.policy {
            let mut connection = Connection::open(&subject, VALUE_BYTES)?;
            let empty = connection.used_memory()?;
            connection
                .expect_ok(&format!("CONFIG SET maxmemory {} maxmemory-policy {policy}", empty + bytes))?;
        }
        Ok(subject)
    }
}

/// The length of the values if a server has room for so many.
fn value_bytes(entries: u64) -> usize {
    let is_too_little = entries * ((VALUE_BYTES + OVERHEAD_BYTES) as u64) < LEAST_BYTES;
    if is_too_little { LONG_VALUE_BYTES } else { VALUE_BYTES }
}

/// The share of requests that the server answers with a value.
fn replay(subject: &Subject, source: &Source, value_bytes: usize) -> Result<f64> {
    let mut connection = Connection::open(subject, value_bytes)?;
    let (mut requests, mut hits) = (0u64, 0u64);
    let mut batch = Vec::with_capacity(BATCH);
    let mut keys = source.open(&ProgressBar::hidden())?;
    loop {
        batch.clear();
        for request in keys.by_ref().take(BATCH) {
            batch.push(format!("{:016x}", request?.key));
        }
        if batch.is_empty() {
            break;
        }
        let mut missing = connection.missing(&batch)?;
        requests += batch.len() as u64;
        hits += (batch.len() - missing.len()) as u64;
        missing.sort_unstable();
        missing.dedup();
        connection.store(&missing)?;
    }
    ensure!(requests > 0, "{source} has no requests");
    Ok(hits as f64 / requests as f64)
}

/// A connection to a server, for a few commands.
struct Connection {
    stream: BufReader<TcpStream>,
    line: String,
    /// The value that is stored for each key.
    stored: String,
    /// Where a reply is read to: a value and the end of its line.
    read: Vec<u8>,
}

impl Connection {
    fn open(subject: &Subject, value_bytes: usize) -> Result<Self> {
        let (stream, line) = (BufReader::new(subject.connect()?), String::new());
        Ok(Connection { stream, line, stored: "x".repeat(value_bytes), read: vec![0; value_bytes + 2] })
    }

    fn send(&mut self, bytes: &[u8]) -> Result<()> {
        Ok(self.stream.get_mut().write_all(bytes)?)
    }

    /// Reads a line without its end.
    fn line(&mut self) -> Result<&str> {
        self.line.clear();
        ensure!(self.stream.read_line(&mut self.line)? > 0, "the server has closed the connection");
        Ok(self.line.trim_end())
    }

    fn expect_ok(&mut self, command: &str) -> Result<()> {
        self.send(format!("{command}\r\n").as_bytes())?;
        let reply = self.line()?;
        ensure!(reply == "+OK", "{command}: {reply}");
        Ok(())
    }

    fn used_memory(&mut self) -> Result<u64> {
        self.send(b"INFO memory\r\n")?;
        let length: usize = self.line()?.trim_start_matches('$').parse().context("INFO is a bulk string")?;
        let mut text = vec![0; length + 2];
        self.stream.read_exact(&mut text)?;
        let text = String::from_utf8_lossy(&text);
        let used = text.lines().find_map(|line| line.strip_prefix("used_memory:"));
        Ok(used.context("INFO has used_memory")?.trim().parse()?)
    }

    /// The keys that are not stored.
    fn missing<'k>(&mut self, keys: &'k [String]) -> Result<Vec<&'k str>> {
        let commands: String =
            keys.iter().map(|key| format!("*2\r\n$3\r\nGET\r\n$16\r\n{key}\r\n")).collect();
        self.send(commands.as_bytes())?;
        let mut missing = Vec::new();
        let found = format!("${}", self.stored.len());
        for key in keys {
            match self.line()? {
                "$-1" => missing.push(key.as_str()),
                reply if reply == found => self.stream.read_exact(&mut self.read)?,
                reply => bail!("GET: {reply}"),
            }
        }
        Ok(missing)
    }

    fn store(&mut self, keys: &[&str]) -> Result<()> {
        let (value, length) = (&self.stored, self.stored.len());
        let command = |key: &&str| format!("*3\r\n$3\r\nSET\r\n$16\r\n{key}\r\n${length}\r\n{value}\r\n");
        let commands: String = keys.iter().map(command).collect();
        self.send(commands.as_bytes())?;
        for _ in keys {
            let reply = self.line()?;
            ensure!(reply == "+OK", "SET: {reply}");
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use larder_testkit::program;

    #[test]
    fn servers_have_a_hit_ratio_between_none_and_all() {
        let plan = Plan { quick: true, seed: 1, pairs: None, traces: None };
        let mut findings = Findings::default();
        measure(&plan, &ProgressBar::hidden(), &mut findings).unwrap();
        assert!(findings.notes.iter().any(|note| note.contains("--traces")));
        // In a unit test, only installed servers can be started.
        if program("redis-server").is_some() {
            let subjects: Vec<&str> = findings.figures.iter().map(|figure| &*figure.subject).collect();
            assert_eq!(subjects, [REDIS_LRU, REDIS_LFU, REDIS_LRU, REDIS_LFU]);
            let ratios = findings.figures.iter().map(|figure| figure.rounds[0]);
            assert!(
                ratios.clone().all(|percent| percent > 10.0 && percent < 90.0),
                "{:?}",
                ratios.collect::<Vec<_>>()
            );
        }
    }
}

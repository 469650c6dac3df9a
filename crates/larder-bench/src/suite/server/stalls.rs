//! The suite `stalls`: how long other clients wait while one client does something large.
//!
//! ```text
//!  an open loop of GETs, at a fixed pace ──► server ◄── one connection: a value of 512 MB, a million deadlines, …
//! ```
//!
//! A latency is measured from the moment at which its request was planned, so `longest` is the longest time for which the
//! server has not answered. The row `nothing` is the same without the other connection: what the machine itself adds. The
//! pace is low, so that two processors have room for the server, the loop and the connection: at a higher one the requests
//! would wait for a processor and not for the server.

use super::open_loop::{Pace, send_until};
use super::subject::{Kind, Subject};
use crate::measure::rounds::{Value, record};
use crate::result::text::format_number;
use crate::suite::{Findings, Plan, Suite, Target};
use anyhow::{Context, Result, ensure};
use indicatif::ProgressBar;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// The keys of the loop.
const KEYS: u64 = 10_000;
const PACE: Pace = Pace { clients: 10, rate: 5_000.0, keys: KEYS };
/// The time before and after what the other connection does.
const MARGIN: Duration = Duration::from_millis(100);
/// The capacity. Clients may buffer half of it.
const MEMORY_BYTES: u64 = 6 << 30;
/// A capacity into which neither the large value nor the many keys fit.
const LITTLE_MEMORY: &str = "CONFIG SET maxmemory 24mb";
const FULL_MEMORY: &str = "CONFIG SET maxmemory 6gb";
/// The large value is sent and read in pieces of this size.
const PIECE_BYTES: usize = 256 << 10;
/// Entries that are stored in one pipeline.
const BATCH: u64 = 1_000;
const LARGE: &str = "large";

/// What the longest wait may be, in milliseconds: with values of 512 MB, and with millions of keys.
const LARGE_LIMIT_MS: f64 = 20.0;
const MANY_LIMIT_MS: f64 = 1.0;

pub(crate) struct Stalls;

impl Suite for Stalls {
    fn name(&self) -> &'static str {
        "stalls"
    }

    fn description(&self) -> &'static str {
        "the cache server beside Redis: how long clients wait while one stores 512 MB, or a million keys expire"
    }

    fn crates(&self) -> &'static [&'static str] {
        &["larder-server", "larder-engine"]
    }

    fn targets(&self) -> Vec<Target> {
        SITUATIONS
            .iter()
            .filter_map(|situation| Some(Target::value(situation.name, "longest", situation.limit_ms?)))
            .collect()
    }

    fn measure(&self, plan: &Plan, bar: &ProgressBar) -> Result<Findings> {
        let size = match plan.quick {
            true => Size { value_bytes: 128 << 20, expiring: 200_000, keys: 300_000, rounds: 1 },
            false => Size { value_bytes: 512 << 20, expiring: 1_000_000, keys: 2_000_000, rounds: 3 },
        };
        measure(size, bar)
    }
}

/// The size of a run.
#[derive(Clone, Copy, Debug)]
struct Size {
    value_bytes: usize,
    /// Keys with the same deadline.
    expiring: u64,
    /// Keys that are stored, evicted and removed.
    keys: u64,
    rounds: usize,
}

/// Something that may delay the others.
struct Situation {
    name: &'static str,
    limit_ms: Option<f64>,
    /// What is stored before.
    before: fn(&mut Client, Size) -> Result<()>,
    /// What is done while the others are served.
    act: fn(&mut Client, Size) -> Result<()>,
}

const SITUATIONS: &[Situation] = &[
    Situation { name: "nothing", limit_ms: None, before: |_, _| Ok(()), act: |_, _| pause(1_000) },
    large("set", |_, _| Ok(()), Client::set_large),
    large("overwrite", Client::set_large, Client::set_large),
    large("get", Client::set_large, |client, _| client.call(&format!("GET {LARGE}"))),
    large("getrange", Client::set_large, |client, size| {
        client.call(&format!("GETRANGE {LARGE} 1000 {}", size.value_bytes - 1000))
    }),
    large("append", Client::set_almost_large, |client, _| client.call(&format!("APPEND {LARGE} more"))),
    large("setrange, longer", Client::set_almost_large, |client, size| {
        client.call(&format!("SETRANGE {LARGE} {} more", size.value_bytes - 4))
    }),
    large(
        "setrange, zeros",
        |_, _| Ok(()),
        |client, size| client.call(&format!("SETRANGE {LARGE} {} more", size.value_bytes - 4)),
    ),
    large("setrange", Client::set_large, |client, size| {
        client.send_large(&["SETRANGE", LARGE, "0"], size.value_bytes)?;
        client.reply()
    }),
    large("bitcount", Client::set_large, |client, _| client.call(&format!("BITCOUNT {LARGE}"))),
    large("bitop", Client::set_large, |client, _| client.call(&format!("BITOP NOT {LARGE} {LARGE}"))),
    large("dump", Client::set_large, |client, _| client.call(&format!("DUMP {LARGE}"))),
    large("del", Client::set_large, |client, _| client.call(&format!("DEL {LARGE}"))),
    large("evict one", Client::set_large, |client, _| client.call(LITTLE_MEMORY)),
    large("flush one", Client::set_large, |client, _| client.call("FLUSHALL")),
    large(
        "disconnect halfway",
        |_, _| Ok(()),
        |client, size| {
            client.announce_large(&["SET", LARGE], size.value_bytes)?;
            client.send_pieces(size.value_bytes / 2)?;
            client.reconnect()
        },
    ),
    many("fill", |_, _| Ok(()), |client, size| client.fill(size.keys, "")),
    many(
        "overwrite all",
        |client, size| client.fill(size.keys, ""),
        |client, size| client.fill(size.keys, ""),
    ),
    many("flush all", |client, size| client.fill(size.keys, ""), |client, _| client.call("FLUSHALL")),
    many(
        "lower maxmemory",
        |client, size| client.fill(size.keys, ""),
        |client, _| client.call(LITTLE_MEMORY),
    ),
    many("expire at once", Client::fill_with_deadline, |client, _| {
        client.await_deadline();
        pause(2_500)
    }),
];

const fn large(
    name: &'static str,
    before: fn(&mut Client, Size) -> Result<()>,
    act: fn(&mut Client, Size) -> Result<()>,
) -> Situation {
    Situation { name, limit_ms: Some(LARGE_LIMIT_MS), before, act }
}

const fn many(
    name: &'static str,
    before: fn(&mut Client, Size) -> Result<()>,
    act: fn(&mut Client, Size) -> Result<()>,
) -> Situation {
    Situation { name, limit_ms: Some(MANY_LIMIT_MS), before, act }
}

fn pause(ms: u64) -> Result<()> {
    thread::sleep(Duration::from_millis(ms));
    Ok(())
}

fn measure(size: Size, bar: &ProgressBar) -> Result<Findings> {
    let mut findings = Findings::default();
    for kind in [Kind::Larder, Kind::OneThread, Kind::Redis] {
        let subject = match Subject::start_with_memory(kind, MEMORY_BYTES) {
            Ok(subject) => subject,
            Err(error) => {
                findings.notes.push(format!("{} was not measured: {error:#}.", kind.name()));
                continue;
            }
        };
        let mut client = Client::connect(&subject)?;
        client.call("CONFIG SET maxmemory-policy allkeys-lru")?;
        for round in 0..size.rounds {
            for situation in SITUATIONS {
                bar.set_message(format!("{} {}, round {}", kind.name(), situation.name, round + 1));
                let values = situation
                    .round(&subject, &mut client, size)
                    .with_context(|| format!("{}, {}", situation.name, kind.name()))?;
                for value in values {
                    record(&mut findings.figures, situation.name, kind.name(), value);
                }
            }
        }
    }
    let order = |name: &str| SITUATIONS.iter().position(|situation| situation.name == name);
    findings.figures.sort_by_key(|figure| order(&figure.workload));
    findings.notes.push(format!(
        "{} GETs per second; large values have {} MiB; {} keys, of which {} expire at once.",
        format_number(PACE.rate),
        size.value_bytes >> 20,
        format_number(size.keys as f64),
        format_number(size.expiring as f64),
    ));
    Ok(findings)
}

impl Situation {
    fn round(&self, subject: &Subject, client: &mut Client, size: Size) -> Result<Vec<Value>> {
        client.call("FLUSHALL")?;
        client.call(FULL_MEMORY)?;
        subject.fill(KEYS)?;
        (self.before)(client, size)?;
        let end = AtomicBool::new(false);
        let (latencies, took) = thread::scope(|scope| {
            let waiting = scope.spawn(|| send_until(subject, PACE, &end));
            thread::sleep(MARGIN);
            let start = Instant::now();
            let acted = (self.act)(client, size);
            let took = start.elapsed();
            thread::sleep(MARGIN);
            end.store(true, Ordering::Relaxed);
            let latencies = waiting.join().expect("the loop does not panic");
            acted.and(latencies).map(|latencies| (latencies, took))
        })?;
        values(latencies, took)
    }
}

fn values(mut latencies: Vec<Duration>, took: Duration) -> Result<Vec<Value>> {
    ensure!(!latencies.is_empty(), "nothing was measured");
    latencies.sort_unstable();
    let at = |share: f64| latencies[((latencies.len() - 1) as f64 * share) as usize].as_secs_f64() * 1e3;
    Ok(vec![
        Value::low("p99.9", "ms", at(0.999)),
        Value::low("longest", "ms", at(1.0)),
        Value::low("took", "ms", took.as_secs_f64() * 1e3),
    ])
}

/// The connection that delays the others.
struct Client {
    stream: BufReader<TcpStream>,
    address: std::net::SocketAddr,
    /// The deadline of [`Client::fill_with_deadline`], in Unix time.
    deadline: Duration,
    piece: Vec<u8>,
}

impl Client {
    fn connect(subject: &Subject) -> Result<Self> {
        Ok(Client {
            stream: BufReader::with_capacity(PIECE_BYTES, subject.connect()?),
            address: subject.address,
            deadline: Duration::ZERO,
            piece: vec![b'x'; PIECE_BYTES],
        })
    }

    /// Closes the connection and opens another one.
    fn reconnect(&mut self) -> Result<()> {
        self.stream = BufReader::with_capacity(PIECE_BYTES, TcpStream::connect(self.address)?);
        pause(200)
    }

    /// Sends a command and awaits its reply.
    fn call(&mut self, command: &str) -> Result<()> {
        self.stream.get_mut().write_all(format!("{command}\r\n").as_bytes())?;
        self.reply()
    }

    /// Reads a reply that is a line or a bulk string, and forgets it.
    fn reply(&mut self) -> Result<()> {
        let mut line = String::new();
        self.stream.read_line(&mut line)?;
        ensure!(line.ends_with("\r\n") && !line.starts_with('-'), "the reply was {line:?}");
        if let Some(length) = line.strip_prefix('$').and_then(|length| length.trim_end().parse::<u64>().ok())
        {
            let read = std::io::copy(&mut self.stream.by_ref().take(length + 2), &mut std::io::sink())?;
            ensure!(read == length + 2, "the connection was closed");
        }
        Ok(())
    }

    fn set_large(&mut self, size: Size) -> Result<()> {
        self.send_large(&["SET", LARGE], size.value_bytes)?;
        self.reply()
    }

    /// Leaves room for a few bytes more.
    fn set_almost_large(&mut self, size: Size) -> Result<()> {
        self.send_large(&["SET", LARGE], size.value_bytes - 1000)?;
        self.reply()
    }

    /// Sends a command whose last argument has `length` bytes.
    fn send_large(&mut self, words: &[&str], length: usize) -> Result<()> {
        self.announce_large(words, length)?;
        self.send_pieces(length)?;
        Ok(self.stream.get_mut().write_all(b"\r\n")?)
    }

    fn announce_large(&mut self, words: &[&str], length: usize) -> Result<()> {
        let mut head = format!("*{}\r\n", words.len() + 1);
        words.iter().for_each(|word| head += &format!("${}\r\n{word}\r\n", word.len()));
        Ok(self.stream.get_mut().write_all(format!("{head}${length}\r\n").as_bytes())?)
    }

    fn send_pieces(&mut self, mut length: usize) -> Result<()> {
        while length > 0 {
            let piece = &self.piece[..length.min(PIECE_BYTES)];
            self.stream.get_mut().write_all(piece)?;
            length -= piece.len();
        }
        Ok(())
    }

    /// Stores keys of the name `many:`, with these options of `SET`.
    fn fill(&mut self, keys: u64, options: &str) -> Result<()> {
        let value = "x".repeat(64);
        for first in (0..keys).step_by(BATCH as usize) {
            let batch = first..keys.min(first + BATCH);
            let requests: String =
                batch.clone().map(|key| format!("SET many:{key:012} {value}{options}\r\n")).collect();
            self.stream.get_mut().write_all(requests.as_bytes())?;
            batch.into_iter().try_for_each(|_| self.reply())?;
        }
        Ok(())
    }

    /// Stores keys that expire at the same moment, when they are all there.
    fn fill_with_deadline(&mut self, size: Size) -> Result<()> {
        let now = SystemTime::now().duration_since(UNIX_EPOCH)?;
        self.deadline = now + Duration::from_millis(500 + size.expiring / 250);
        self.fill(size.expiring, &format!(" PXAT {}", self.deadline.as_millis()))
    }

    fn await_deadline(&self) {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        thread::sleep(self.deadline.saturating_sub(now));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use larder_testkit::program;

    /// Every situation in small. In a unit test, only installed servers can be started.
    #[test]
    fn measure_has_figures_for_every_situation() {
        if program("redis-server").is_none() {
            return;
        }
        let size = Size { value_bytes: 2 << 20, expiring: 1_000, keys: 1_000, rounds: 1 };
        let findings = measure(size, &ProgressBar::hidden()).unwrap();
        for situation in SITUATIONS {
            let mut figures = findings.figures.iter().filter(|figure| figure.workload == situation.name);
            assert!(figures.any(|figure| figure.subject == "redis"), "{}", situation.name);
        }
    }
}

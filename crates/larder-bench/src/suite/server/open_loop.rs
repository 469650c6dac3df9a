//! A client that sends at a fixed rate, whatever the server does: the latency of a reply is measured from the moment at
//! which its request was planned, so a server that pauses is charged for all requests that had to wait.

use super::bare_loop::VALUE_BYTES;
use super::subject::{Subject, key};
use crate::measure::rounds::{Sample, Value};
use anyhow::{Result, ensure};
use larder_terminal::remark;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use rustix::event::{Timespec, epoll};
use rustix::io::Errno;
use std::collections::VecDeque;
use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// The length of a reply: the value, its length, and the ends of lines.
const REPLY_BYTES: usize = VALUE_BYTES + 7;
/// The reply for a key that is not there.
const MISS: &[u8] = b"$-1\r\n";
/// Every round has the same keys.
const SEED: u64 = 42;
/// A server that is silent for longer fails the round.
const PATIENCE: Duration = Duration::from_secs(10);

/// The plan of the requests.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pace {
    pub(super) clients: usize,
    /// Requests per second, of all clients together.
    pub(super) rate: f64,
    /// The number of keys to choose from.
    pub(super) keys: u64,
}

/// When the last request is sent.
enum End<'a> {
    After(u64),
    /// When this is set.
    Flag(&'a AtomicBool),
}

impl End<'_> {
    fn is_reached(&self, sent: u64) -> bool {
        match self {
            End::After(requests) => sent >= *requests,
            End::Flag(flag) => flag.load(Ordering::Relaxed),
        }
    }
}

struct Connection {
    stream: TcpStream,
    /// When the requests without a reply were planned, oldest first.
    planned: VecDeque<Instant>,
    /// The reply that is incomplete.
    partial: Vec<u8>,
}

impl Connection {
    /// Reads what has arrived, and adds the latency of each complete reply.
    fn receive(&mut self, buffer: &mut [u8], latencies: &mut Vec<Duration>) -> Result<()> {
        loop {
            match self.stream.read(buffer) {
                Ok(0) => anyhow::bail!("the server has closed a connection"),
                Ok(length) => {
                    let now = Instant::now();
                    self.partial.extend_from_slice(&buffer[..length]);
                    let mut consumed = 0;
                    while let Some(length) = reply_length(&self.partial[consumed..]) {
                        consumed += length;
                        let planned = self.planned.pop_front();
                        latencies.extend(planned.map(|planned| now - planned));
                    }
                    self.partial.drain(..consumed);
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
                Err(error) => return Err(error.into()),
            }
        }
    }
}

/// The length of the complete reply at the start of `bytes`.
fn reply_length(bytes: &[u8]) -> Option<usize> {
    let length = if bytes.starts_with(MISS) { MISS.len() } else { REPLY_BYTES };
    (bytes.len() >= length).then_some(length)
}

/// One round of `requests` requests at `rate` per second over `clients` connections, for so many keys.
pub(super) fn round(subject: &Subject, clients: usize, rate: f64, requests: u64, keys: u64) -> Sample {
    let before = subject.usage();
    let sent = send(subject, Pace { clients, rate, keys }, End::After(requests));
    let used = subject.usage() - before;
    match sent {
        Ok(mut latencies) => {
            latencies.sort_unstable();
            let at =
                |share: f64| latencies[((latencies.len() - 1) as f64 * share) as usize].as_secs_f64() * 1e3;
            let values = vec![
                Value::low("cpu", "µs", used.cpu.as_secs_f64() * 1e6 / requests as f64),
                Value::low("p50", "ms", at(0.5)),
                Value::low("p99", "ms", at(0.99)),
                Value::low("p99.9", "ms", at(0.999)),
                Value::low("context switches", "/command", used.context_switches as f64 / requests as f64),
            ];
            Sample { values, succeeded: latencies.len() as u64, expected: requests }
        }
        Err(error) => {
            remark(&format!("{}: {error:#}", subject.kind.name()));
            Sample { values: Vec::new(), succeeded: 0, expected: requests }
        }
    }
}

/// Sends requests until the flag is set; returns the latencies of all replies.
pub(super) fn send_until(subject: &Subject, pace: Pace, end: &AtomicBool) -> Result<Vec<Duration>> {
    send(subject, pace, End::Flag(end))
}

/// Sends the requests, each to the next connection, and returns the latencies of all replies.
fn send(subject: &Subject, pace: Pace, end: End<'_>) -> Result<Vec<Duration>> {
    let Pace { clients, rate, keys } = pace;
    let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
    let mut connections = Vec::with_capacity(clients);
    for index in 0..clients {
        let stream = subject.connect()?;
        stream.set_nonblocking(true)?;
        epoll::add(&epoll, &stream, epoll::EventData::new_u64(index as u64), epoll::EventFlags::IN)?;
        connections.push(Connection { stream, planned: VecDeque::new(), partial: Vec::new() });
    }
    let mut latencies = Vec::with_capacity(rate as usize);
    let (mut events, mut buffer) = (Vec::with_capacity(clients), vec![0; 64 << 10]);
    let (mut random, mut request) = (StdRng::seed_from_u64(SEED), Vec::new());
    let (start, mut sent, mut last_reply) = (Instant::now(), 0u64, Instant::now());
    let planned_at = |index: u64| start + Duration::from_secs_f64(index as f64 / rate);
    while !end.is_reached(sent) || (latencies.len() as u64) < sent {
        let now = Instant::now();
        while !end.is_reached(sent) && planned_at(sent) <= now {
            let connection = &mut connections[sent as usize % clients];
            let key = key(random.random_range(0..keys));
            request.clear();
            write!(request, "*2\r\n$3\r\nGET\r\n${}\r\n{key}\r\n", key.len())?;
            // The buffers of the system have room for far more requests than a connection may have under way.
            connection.stream.write_all(&request)?;
            connection.planned.push_back(planned_at(sent));
            sent += 1;
        }
        let until = if end.is_reached(sent) { now + PATIENCE } else { planned_at(sent) };
        let wait = until.saturating_duration_since(Instant::now());
        let timeout = Timespec { tv_sec: wait.as_secs() as i64, tv_nsec: wait.subsec_nanos().into() };
        match epoll::wait(&epoll, rustix::buffer::spare_capacity(&mut events), Some(&timeout)) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        for event in events.drain(..) {
            connections[event.data.u64() as usize].receive(&mut buffer, &mut latencies)?;
            last_reply = Instant::now();
        }
        ensure!(last_reply.elapsed() < PATIENCE, "stalled after {} of {sent} replies", latencies.len());
    }
    Ok(latencies)
}

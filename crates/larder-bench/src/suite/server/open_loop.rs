//! A client that sends at a fixed rate, whatever the server does: the latency of a reply is measured from the moment at
//! which its request was planned, so a server that pauses is charged for all requests that had to wait.

use super::bare_loop::VALUE_BYTES;
use super::subject::{Subject, key};
use crate::rounds::{Sample, Value};
use anyhow::{Result, ensure};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use rustix::event::{Timespec, epoll};
use rustix::io::Errno;
use std::collections::VecDeque;
use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

/// The length of a reply: the value, its length, and the ends of lines.
const REPLY_BYTES: usize = VALUE_BYTES + 7;
/// Every round has the same keys.
const SEED: u64 = 42;
/// A server that is silent for longer fails the round.
const PATIENCE: Duration = Duration::from_secs(10);

struct Connection {
    stream: TcpStream,
    /// When the requests without a reply were planned, oldest first.
    planned: VecDeque<Instant>,
    /// The bytes of the reply that is incomplete.
    partial: usize,
}

impl Connection {
    /// Reads what has arrived, and adds the latency of each complete reply.
    fn receive(&mut self, buffer: &mut [u8], latencies: &mut Vec<Duration>) -> Result<()> {
        loop {
            match self.stream.read(buffer) {
                Ok(0) => anyhow::bail!("the server has closed a connection"),
                Ok(length) => {
                    let now = Instant::now();
                    self.partial += length;
                    while self.partial >= REPLY_BYTES {
                        self.partial -= REPLY_BYTES;
                        let planned = self.planned.pop_front();
                        latencies.extend(planned.map(|planned| now - planned));
                    }
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
                Err(error) => return Err(error.into()),
            }
        }
    }
}

/// One round of `requests` requests at `rate` per second over `clients` connections, for so many keys.
pub(super) fn round(subject: &Subject, clients: usize, rate: f64, requests: u64, keys: u64) -> Sample {
    let before = subject.usage();
    let sent = send(subject, clients, rate, requests, keys);
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
            eprintln!("{}: {error:#}", subject.kind.name());
            Sample { values: Vec::new(), succeeded: 0, expected: requests }
        }
    }
}

/// Sends the requests, each to the next connection, and returns the latencies of all replies.
fn send(subject: &Subject, clients: usize, rate: f64, requests: u64, keys: u64) -> Result<Vec<Duration>> {
    let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
    let mut connections = Vec::with_capacity(clients);
    for index in 0..clients {
        let stream = subject.connect()?;
        stream.set_nonblocking(true)?;
        epoll::add(&epoll, &stream, epoll::EventData::new_u64(index as u64), epoll::EventFlags::IN)?;
        connections.push(Connection { stream, planned: VecDeque::new(), partial: 0 });
    }
    let mut latencies = Vec::with_capacity(requests as usize);
    let (mut events, mut buffer) = (Vec::with_capacity(clients), vec![0; 64 << 10]);
    let (mut random, mut request) = (StdRng::seed_from_u64(SEED), Vec::new());
    let (start, mut sent, mut last_reply) = (Instant::now(), 0u64, Instant::now());
    let planned_at = |index: u64| start + Duration::from_secs_f64(index as f64 / rate);
    while (latencies.len() as u64) < requests {
        let now = Instant::now();
        while sent < requests && planned_at(sent) <= now {
            let connection = &mut connections[sent as usize % clients];
            let key = key(random.random_range(0..keys));
            request.clear();
            write!(request, "*2\r\n$3\r\nGET\r\n${}\r\n{key}\r\n", key.len())?;
            // The buffers of the system have room for far more requests than a connection may have under way.
            connection.stream.write_all(&request)?;
            connection.planned.push_back(planned_at(sent));
            sent += 1;
        }
        let until = if sent < requests { planned_at(sent) } else { now + PATIENCE };
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
        ensure!(last_reply.elapsed() < PATIENCE, "stalled after {} of {requests}", latencies.len());
    }
    Ok(latencies)
}

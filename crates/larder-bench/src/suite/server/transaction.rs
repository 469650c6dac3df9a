//! A client of many connections, each of which sends a transaction and waits for its replies.

use super::bare_loop::VALUE_BYTES;
use super::subject::{Subject, key};
use crate::measure::rounds::{Sample, Value};
use anyhow::{Result, ensure};
use larder_terminal::remark;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Instant;

/// The commands of a transaction: one half reads, the other half writes.
pub(super) const COMMANDS: usize = 10;
/// Every round has the same keys.
const SEED: u64 = 42;

/// One round of so many transactions over `clients` connections, for so many keys that are stored.
pub(super) fn round(subject: &Subject, clients: usize, transactions: u64, keys: u64) -> Sample {
    let (before, start) = (subject.usage(), Instant::now());
    let sent = send(subject, clients, transactions, keys);
    let (used, elapsed) = (subject.usage() - before, start.elapsed());
    if let Err(error) = sent {
        remark(&format!("{}: {error:#}", subject.kind.name()));
        return Sample { values: Vec::new(), succeeded: 0, expected: transactions };
    }
    let commands = (transactions * COMMANDS as u64) as f64;
    let values = vec![
        Value::low("cpu", "µs", used.cpu.as_secs_f64() * 1e6 / commands),
        Value::high("throughput", "/s", commands / elapsed.as_secs_f64()),
        Value::low("context switches", "/command", used.context_switches as f64 / commands),
    ];
    Sample { values, succeeded: transactions, expected: transactions }
}

/// All connections send, and then all wait.
fn send(subject: &Subject, clients: usize, transactions: u64, keys: u64) -> Result<()> {
    let streams: Result<Vec<TcpStream>> = (0..clients).map(|_| subject.connect()).collect();
    let (mut streams, mut random) = (streams?, StdRng::seed_from_u64(SEED));
    let (expected, value) = (reply_bytes(), "x".repeat(VALUE_BYTES));
    let mut reply = vec![0; expected];
    let mut left = transactions;
    while left > 0 {
        let active = streams.len().min(left as usize);
        for stream in &mut streams[..active] {
            let names = std::array::from_fn(|_| key(random.random_range(0..keys)));
            stream.write_all(&request(&names, &value)?)?;
        }
        for stream in &mut streams[..active] {
            stream.read_exact(&mut reply)?;
            ensure!(is_executed(&reply), "not executed: {}", String::from_utf8_lossy(&reply));
        }
        left -= active as u64;
    }
    Ok(())
}

/// A transaction on these keys.
fn request(names: &[String; COMMANDS], value: &str) -> Result<Vec<u8>> {
    let mut request = b"*1\r\n$5\r\nMULTI\r\n".to_vec();
    for pair in names.chunks(2) {
        let [set, get] = [&pair[0], &pair[1]];
        write!(request, "*3\r\n$3\r\nSET\r\n${}\r\n{set}\r\n${}\r\n{value}\r\n", set.len(), value.len())?;
        write!(request, "*2\r\n$3\r\nGET\r\n${}\r\n{get}\r\n", get.len())?;
    }
    request.extend_from_slice(b"*1\r\n$4\r\nEXEC\r\n");
    Ok(request)
}

/// The length of the replies to a transaction.
fn reply_bytes() -> usize {
    let value = format!("${VALUE_BYTES}\r\n").len() + VALUE_BYTES + "\r\n".len();
    queued_bytes() + format!("*{COMMANDS}\r\n").len() + COMMANDS / 2 * ("+OK\r\n".len() + value)
}

/// The length of the replies before that of `EXEC`.
fn queued_bytes() -> usize {
    "+OK\r\n".len() + COMMANDS * "+QUEUED\r\n".len()
}

/// Whether the replies end with that of `EXEC`, of the expected length. The values are those of another client.
fn is_executed(reply: &[u8]) -> bool {
    let start = format!("*{COMMANDS}\r\n+OK\r\n${VALUE_BYTES}\r\n");
    reply[queued_bytes()..].starts_with(start.as_bytes()) && reply.ends_with(b"\r\n")
}

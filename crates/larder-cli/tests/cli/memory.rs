//! The memory of `larder server` as the system counts it: per entry, and after entries are gone.

use crate::process::start_server;
use crate::resp::command;
use larder_testkit::{resident_bytes, until};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};

const MIB: u64 = 1 << 20;
/// The length of a key.
const KEY_BYTES: u64 = 16;
/// How many commands are sent before their replies are read.
const PIPELINE: u64 = 1_000;

/// Sends a command for each number. Its reply has one line.
fn send_each(address: SocketAddr, numbers: impl Iterator<Item = u64>, command: impl Fn(u64) -> String) {
    let mut stream = BufReader::new(TcpStream::connect(address).expect("a connection"));
    let numbers: Vec<u64> = numbers.collect();
    for batch in numbers.chunks(PIPELINE as usize) {
        let commands: String = batch.iter().map(|number| command(*number) + "\r\n").collect();
        stream.get_mut().write_all(commands.as_bytes()).expect("the server reads");
        for reply in stream.by_ref().lines().take(batch.len()) {
            let reply = reply.expect("a reply");
            assert!(!reply.starts_with('-'), "{reply}");
        }
    }
}

#[test]
fn entries_take_little_memory_and_give_it_back() {
    let (mut process, address) = start_server(["--max-memory=1gb"]);
    let (entries, value) = (1_000_000, "v".repeat(16));
    let empty = resident_bytes(process.running());
    send_each(address, 0..entries, |n| format!("SET key:{n:012} {value}"));
    let full = resident_bytes(process.running());
    let each = (full - empty) as f64 / entries as f64 - (KEY_BYTES + 16) as f64;
    // A block of 40 bytes for header, key and value, 10 for each of the slots and 6 for a place in a queue.
    assert!((20.0..36.0).contains(&each), "{each:.1} bytes over key and value");

    command(address, "FLUSHALL");
    until("the memory of a server that was emptied", || {
        (resident_bytes(process.running()) <= empty.max(16 * MIB) + 16 * MIB).then_some(())
    });
    process.running().terminate();
    process.end().assert_clean_stop();
}

/// What a process may have beside `max-memory` and what it had at its start: 4 MiB of overhead that is not subtracted, and a
/// twentieth for threads, buffers, and what the allocator keeps.
fn tolerance(max_memory: u64) -> u64 {
    4 * MIB + max_memory / 20
}

/// A number of `INFO`.
fn info(address: SocketAddr, field: &str) -> u64 {
    let mut stream = TcpStream::connect(address).expect("a connection");
    stream.write_all(b"INFO all\r\nQUIT\r\n").expect("the server reads");
    let mut text = String::new();
    stream.read_to_string(&mut text).expect("a reply");
    let value = text.lines().find_map(|line| line.strip_prefix(field)?.strip_prefix(':'));
    value.and_then(|value| value.parse().ok()).unwrap_or_else(|| panic!("{field} in {text}"))
}

fn key_count(address: SocketAddr) -> u64 {
    let mut stream = BufReader::new(TcpStream::connect(address).expect("a connection"));
    stream.get_mut().write_all(b"DBSIZE\r\n").expect("the server reads");
    let mut reply = String::new();
    stream.read_line(&mut reply).expect("a reply");
    reply.trim().trim_start_matches(':').parse().expect("a number")
}

/// Fills the server with values of this length, a fifth more than fit.
fn fill(address: SocketAddr, max_memory: u64, name: &str, length: u64) -> u64 {
    let (value, count) = ("v".repeat(length as usize), max_memory * 6 / 5 / (length + 60));
    send_each(address, 0..count, |n| format!("SET {name}:{n:014} {value}"));
    count
}

#[test]
fn resident_memory_stays_within_the_limit_when_sizes_change() {
    let max_memory = 64 * MIB;
    let (mut process, address) = start_server([format!("--max-memory={max_memory}")]);
    // The pages of the code that runs count too, and at the start they are not there yet.
    fill(address, MIB / 8, "warm-up", 64);
    command(address, "FLUSHALL");
    let empty = resident_bytes(process.running());
    let mut first = 0;
    for (round, length) in [64, 200, 1_000, 200, 64, 1_000, 64].into_iter().enumerate() {
        let count = fill(address, max_memory, &round.to_string(), length);
        // A compaction and the evictions take a moment.
        until("the memory of the process is within the limit", || {
            let resident = resident_bytes(process.running());
            (resident <= empty + max_memory + tolerance(max_memory)).then_some(())
        });
        until("the memory of the keyspace is within the limit", || {
            (info(address, "larder_keyspace_resident") <= max_memory + tolerance(max_memory)).then_some(())
        });
        assert_eq!(info(address, "maxmemory"), max_memory);
        if round == 0 {
            first = key_count(address);
        }
        send_each(address, (0..count).step_by(2), |n| format!("DEL {round}:{n:014}"));
    }

    command(address, "FLUSHALL");
    until("nothing is subtracted from the limit", || {
        (info(address, "used_memory_overhead") == 0).then_some(())
    });
    // Pages that stay with the process when they are empty, and free blocks that are too few for a compaction, are left.
    until("nearly as many entries fit as at first", || {
        fill(address, max_memory, "last", 64);
        (key_count(address) * 100 >= first * 90).then_some(())
    });
    process.running().terminate();
    process.end().assert_clean_stop();
}

#[test]
fn steady_traffic_at_the_limit_keeps_the_number_of_entries() {
    let max_memory = 64 * MIB;
    let (mut process, address) = start_server([format!("--max-memory={max_memory}")]);
    let set = |n: u64| format!("SET key:{n:012} {}", "v".repeat(50 + (n * 7_919 % 400) as usize));
    const ENTRIES: u64 = 20_000;
    let mut counts = Vec::new();
    for round in 0..60 {
        let evicted = info(address, "evicted_keys");
        send_each(address, round * ENTRIES..(round + 1) * ENTRIES, set);
        if round >= 30 {
            let evicted = info(address, "evicted_keys") - evicted;
            assert!(evicted <= ENTRIES * 5 / 4, "{evicted} entries were evicted for {ENTRIES}");
            counts.push(key_count(address));
        }
    }
    let (least, most) = (counts.iter().min().expect("rounds"), counts.iter().max().expect("rounds"));
    assert!(least * 100 >= most * 95, "{counts:?}");
    process.running().terminate();
    process.end().assert_clean_stop();
}

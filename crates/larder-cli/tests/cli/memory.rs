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

#[test]
fn memory_is_used_again_by_entries_of_other_sizes() {
    let max_memory = 64 * MIB;
    let (mut process, address) = start_server([format!("--max-memory={max_memory}")]);
    for (round, length) in [(0, 100), (1, 260), (2, 40)] {
        let value = "v".repeat(length);
        send_each(address, 0..max_memory / length as u64, |n| format!("SET key:{round}:{n:010} {value}"));
        send_each(address, (0..max_memory / length as u64).step_by(2), |n| {
            format!("DEL key:{round}:{n:010}")
        });
    }
    let value = "v".repeat(150);
    send_each(address, 0..max_memory / 150, |n| format!("SET key:last:{n:09} {value}"));
    let resident = resident_bytes(process.running());
    assert!(resident <= max_memory * 5 / 4 + 32 * MIB, "{} MiB", resident / MIB);
    process.running().terminate();
    process.end().assert_clean_stop();
}

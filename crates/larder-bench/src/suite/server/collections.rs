//! Hashes: `HSET` and `HGET` of the fields of a large one, and the memory of a field in large and in small ones.

use super::load::Load;
use super::subject::{Kind, Subject, start_all};
use crate::measure::rounds::Value;
use crate::suite::{Findings, Target};
use crate::tool::resident_bytes;
use anyhow::{Result, ensure};
use indicatif::ProgressBar;
use std::io::{Read, Write};

const MEMORY: &str = "hash memory";
/// The figures, and the number of fields of a hash.
const LARGE: (&str, u64) = ("of 10,000 fields", 10_000);
const SMALL: (&str, u64) = ("of ten fields", 10);
/// A name of a field has 16 bytes, as the members of which Redis was measured.
const VALUE: &str = "12345678";
const FIELDS_PER_REQUEST: u64 = 10;
/// Requests that are sent before their replies are read.
const BATCH: u64 = 500;

const SET: &[&str] = &["HSET", "hash", "field:__rand_int__", VALUE];
const GET: &[&str] = &["HGET", "hash", "field:__rand_int__"];

/// Its workloads, for the servers that have hashes: so many requests, with pipelines so many, of so many fields. The first one
/// fills the hash.
pub(super) fn loads(requests: u64, pipelined: u64, fields: u64) -> [Load; 6] {
    [
        ("hset-50", SET, 1, requests),
        ("hget-50", GET, 1, requests),
        ("hset-50-p16", SET, 16, pipelined),
        ("hget-50-p16", GET, 16, pipelined),
        ("hset-50-p100", SET, 100, pipelined),
        ("hget-50-p100", GET, 100, pipelined),
    ]
    .map(|(name, command, pipeline, requests)| Load {
        name,
        command,
        clients: 50,
        pipeline,
        requests,
        keys: fields,
    })
}

/// What is expected of them.
pub(super) fn targets() -> Vec<Target> {
    let loads = loads(0, 0, 0).map(|load| Target::ratio(load.name, "cpu", "redis", 0.9));
    let memory = [Target::ratio(MEMORY, LARGE.0, "redis", 0.6), Target::ratio(MEMORY, SMALL.0, "redis", 1.1)];
    loads.into_iter().chain(memory).collect()
}

/// Fills two new processes of each server: the memory of a field, with its name and value and its part of the key.
pub(super) fn measure_memory(fields: u64, bar: &ProgressBar, findings: &mut Findings) -> Result<()> {
    bar.set_message(MEMORY);
    let kinds: Vec<Kind> = Kind::ALL.into_iter().filter(|kind| kind.runs_scripts()).collect();
    for (name, fields_per_hash) in [LARGE, SMALL] {
        // The reasons why a server is missing are noted already.
        for subject in start_all(&kinds, &mut Vec::new()) {
            let empty = resident_bytes(subject.id());
            let hashes = (fields / fields_per_hash).max(1);
            fill(&subject, hashes, fields_per_hash)?;
            let grown = resident_bytes(subject.id()).saturating_sub(empty) as f64;
            let value = Value::low(name, "B/field", grown / (hashes * fields_per_hash) as f64);
            findings.figures.push(value.figure(MEMORY, subject.kind.name()));
            bar.tick();
        }
    }
    Ok(())
}

/// Stores so many hashes of so many fields each.
fn fill(subject: &Subject, hashes: u64, fields_per_hash: u64) -> Result<()> {
    let mut stream = subject.connect()?;
    let requests_per_hash = fields_per_hash / FIELDS_PER_REQUEST;
    let all = hashes * requests_per_hash;
    for first in (0..all).step_by(BATCH as usize) {
        let batch = first..all.min(first + BATCH);
        let (mut requests, mut expected) = (Vec::new(), Vec::new());
        for request in batch {
            let key = format!("hash:{:011}", request / requests_per_hash);
            write!(requests, "*{}\r\n$4\r\nHSET\r\n$16\r\n{key}\r\n", 2 + 2 * FIELDS_PER_REQUEST)?;
            for field in 0..FIELDS_PER_REQUEST {
                let name = request % requests_per_hash * FIELDS_PER_REQUEST + field;
                write!(requests, "$16\r\nfield:{name:010}\r\n$8\r\n{VALUE}\r\n")?;
            }
            write!(expected, ":{FIELDS_PER_REQUEST}\r\n")?;
        }
        stream.write_all(&requests)?;
        let mut replies = vec![0; expected.len()];
        stream.read_exact(&mut replies)?;
        ensure!(replies == expected, "{} does not store fields", subject.kind.name());
    }
    Ok(())
}

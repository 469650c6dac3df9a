//! Hashes, sets and lists: the commands that programs use most on a large one, and the memory of a member in large and in small
//! ones.

use super::load::Load;
use super::subject::{Kind, Subject, start_all};
use crate::measure::rounds::Value;
use crate::suite::{Findings, Target};
use crate::tool::resident_bytes;
use anyhow::{Result, ensure};
use indicatif::ProgressBar;
use std::io::{Read, Write};

/// Members of a collection that is small enough for one buffer in every server.
const SMALL: u64 = 10;
const MEMBERS_PER_REQUEST: u64 = 10;
/// Requests that are sent before their replies are read.
const BATCH: u64 = 500;

/// A type of values with members.
struct Type {
    /// Its workload of memory.
    memory: &'static str,
    /// Changes it, and reads or takes a member; with the names of their workloads at the pipelines of [`PIPELINES`].
    commands: [(&'static [&'static str], [&'static str; 3]); 2],
    /// The command that adds members, and the value that follows each of them.
    add: &'static str,
    value: Option<&'static str>,
    /// The members of a large one, and what is expected of its memory over that of Redis.
    large: (&'static str, u64, f64),
    small: &'static str,
}

const PIPELINES: [u32; 3] = [1, 16, 100];

/// A name of a member has 16 bytes.
const TYPES: [Type; 3] = [
    Type {
        memory: "hash memory",
        commands: [
            (&["HSET", "hash", "field:__rand_int__", "12345678"], ["hset-50", "hset-50-p16", "hset-50-p100"]),
            (&["HGET", "hash", "field:__rand_int__"], ["hget-50", "hget-50-p16", "hget-50-p100"]),
        ],
        add: "HSET",
        value: Some("12345678"),
        large: ("of 10,000 fields", 10_000, 0.6),
        small: "of ten fields",
    },
    Type {
        memory: "set memory",
        commands: [
            (&["SADD", "set", "member:__rand_int__"], ["sadd-50", "sadd-50-p16", "sadd-50-p100"]),
            (
                &["SISMEMBER", "set", "member:__rand_int__"],
                ["sismember-50", "sismember-50-p16", "sismember-50-p100"],
            ),
        ],
        add: "SADD",
        value: None,
        large: ("of 20,000 members", 20_000, 0.6),
        small: "of ten members",
    },
    Type {
        memory: "list memory",
        commands: [
            (&["LPUSH", "list", "element:12345678"], ["lpush-50", "lpush-50-p16", "lpush-50-p100"]),
            // It takes what was added at the same pipeline.
            (&["RPOP", "list"], ["rpop-50", "rpop-50-p16", "rpop-50-p100"]),
        ],
        add: "RPUSH",
        value: None,
        large: ("of 100,000 elements", 100_000, 1.05),
        small: "of ten elements",
    },
];

/// The workloads of memory.
#[cfg(test)]
pub(super) fn memory_workloads() -> impl Iterator<Item = &'static str> {
    TYPES.iter().map(|kind| kind.memory)
}

/// The workloads of commands, for the servers that have collections: so many requests, with pipelines so many, of so many
/// members. The first one of each type fills it.
pub(super) fn loads(requests: u64, pipelined: u64, members: u64) -> Vec<Load> {
    let of_pipeline = |kind: &Type, index: usize| {
        let pipeline = PIPELINES[index];
        kind.commands.map(|(command, names)| Load {
            name: names[index],
            command,
            clients: 50,
            pipeline,
            requests: if pipeline == 1 { requests } else { pipelined },
            keys: members,
        })
    };
    TYPES
        .iter()
        .flat_map(|kind| (0..PIPELINES.len()).flat_map(move |index| of_pipeline(kind, index)))
        .collect()
}

/// What is expected of them.
pub(super) fn targets() -> Vec<Target> {
    let loads = loads(0, 0, 0).into_iter().map(|load| Target::ratio(load.name, "cpu", "redis", 0.9));
    let memory = TYPES.iter().flat_map(|kind| {
        let (large, _, at_most) = kind.large;
        [
            Target::ratio(kind.memory, large, "redis", at_most),
            Target::ratio(kind.memory, kind.small, "redis", 1.1),
        ]
    });
    loads.chain(memory).collect()
}

/// Fills new processes of each server: the memory of a member, with its value and its part of the key.
pub(super) fn measure_memory(members: u64, bar: &ProgressBar, findings: &mut Findings) -> Result<()> {
    let kinds: Vec<Kind> = Kind::ALL.into_iter().filter(|kind| kind.runs_scripts()).collect();
    for kind in &TYPES {
        bar.set_message(kind.memory);
        let (large, large_members, _) = kind.large;
        for (name, of_each) in [(large, large_members), (kind.small, SMALL)] {
            // The reasons why a server is missing are noted already.
            for subject in start_all(&kinds, &mut Vec::new()) {
                let empty = resident_bytes(subject.id());
                let count = (members / of_each).max(1);
                kind.fill(&subject, count, of_each)?;
                let grown = resident_bytes(subject.id()).saturating_sub(empty) as f64;
                let value = Value::low(name, "B/member", grown / (count * of_each) as f64);
                findings.figures.push(value.figure(kind.memory, subject.kind.name()));
                bar.tick();
            }
        }
    }
    Ok(())
}

impl Type {
    /// Stores so many collections of so many members each.
    fn fill(&self, subject: &Subject, count: u64, of_each: u64) -> Result<()> {
        let mut stream = subject.connect()?;
        let requests_per_key = of_each / MEMBERS_PER_REQUEST;
        let all = count * requests_per_key;
        for first in (0..all).step_by(BATCH as usize) {
            let batch = first..all.min(first + BATCH);
            let (mut requests, mut expected) = (Vec::new(), Vec::new());
            for request in batch {
                self.write_request(&mut requests, request, requests_per_key)?;
                // `RPUSH` returns the length of the list.
                let reply = if self.add == "RPUSH" { request % requests_per_key + 1 } else { 1 };
                write!(expected, ":{}\r\n", reply * MEMBERS_PER_REQUEST)?;
            }
            stream.write_all(&requests)?;
            let mut replies = vec![0; expected.len()];
            stream.read_exact(&mut replies)?;
            ensure!(replies == expected, "{} does not store members", subject.kind.name());
        }
        Ok(())
    }

    fn write_request(&self, out: &mut Vec<u8>, request: u64, requests_per_key: u64) -> Result<()> {
        let words_per_member = 1 + u64::from(self.value.is_some());
        let key = format!("keys:{:011}", request / requests_per_key);
        write!(
            out,
            "*{}\r\n${}\r\n{}\r\n",
            2 + words_per_member * MEMBERS_PER_REQUEST,
            self.add.len(),
            self.add
        )?;
        write!(out, "$16\r\n{key}\r\n")?;
        for member in 0..MEMBERS_PER_REQUEST {
            let name = request % requests_per_key * MEMBERS_PER_REQUEST + member;
            write!(out, "$16\r\nname::{name:010}\r\n")?;
            if let Some(value) = self.value {
                write!(out, "${}\r\n{value}\r\n", value.len())?;
            }
        }
        Ok(())
    }
}

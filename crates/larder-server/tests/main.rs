//! The promises of the server, one file each. Add a new test to the file of the promise that it checks:
//!
//! - `atomic`: commands on several keys, from several threads;
//! - `bitfields`: integers in strings, compared with a real Redis;
//! - `commands`: a table of requests and replies, for RESP2 and RESP3;
//! - `connections`: many clients, slow or misbehaving clients, authentication, shutdown;
//! - `differential`: the same commands to a real Redis and to this server, with equal replies;
//! - `hyperloglogs`: HyperLogLogs, compared with a real Redis byte by byte;
//! - `memory`: capacity, eviction, statistics, scans, a keyspace that outlives its server;
//! - `protocol`: framing, limits, pipelines, HTTP;
//! - `serialized`: strings that go to a real Redis and come back;
//! - `sorted_sets`: sorted sets, compared with a real Redis too.
//!
//! `support` starts servers and contains blocking clients.

mod atomic;
mod bitfields;
mod commands;
mod connections;
mod differential;
mod hyperloglogs;
mod memory;
mod protocol;
mod serialized;
mod sorted_sets;
mod support;

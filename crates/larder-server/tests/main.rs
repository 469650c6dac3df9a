//! The promises of the server, one file each. Add a new test to the file of the promise that it checks:
//!
//! - `atomic`: commands on several keys, from several threads;
//! - `bitfields`: integers in strings, compared with a real Redis;
//! - `client_libraries`: client libraries of other languages, with their real packages;
//! - `clients`: transactions and messages by a client library of the users;
//! - `cluster`: the server as the only node of a cluster, compared with a real Redis;
//! - `commands`: a table of requests and replies, for RESP2 and RESP3;
//! - `connections`: many clients, slow or misbehaving clients, authentication, shutdown;
//! - `differential`: the same commands to a real Redis and to this server, with equal replies;
//! - `eviction`: what is refused and what is evicted when memory is used up, compared with a real Redis;
//! - `field_expiry`: deadlines of fields of hashes, compared with a real Valkey;
//! - `fuzz`: random streams of requests, and random sequences of commands on several connections;
//! - `hashes`: hashes, compared with a real Redis;
//! - `hyperloglogs`: HyperLogLogs, compared with a real Redis byte by byte;
//! - `large_values`: values above 1 MiB, which are received, edited and sent in pieces;
//! - `load`: thousands of connections, clients that never read or send half of a request, and memory that stays bounded;
//! - `memory`: capacity, eviction, statistics, scans, a keyspace that outlives its server;
//! - `notifications`: events of keys;
//! - `pairs`: random requests in which two features take effect together;
//! - `protocol`: framing, limits, pipelines, HTTP;
//! - `pubsub`: publish and subscribe, and the order of messages and replies;
//! - `script_libraries`: the libraries of scripts, compared with a real Redis;
//! - `script_locks`: scripts that use other keys, take too long, or run on several threads;
//! - `script_sandbox`: scripts that try to leave their sandbox, or to use up a resource;
//! - `scripts`: scripts in Lua, compared with a real Redis;
//! - `serialized`: strings that go to a real Redis and come back;
//! - `shared_tier`: what caches of the crate `larder` rely on;
//! - `sorted_sets`: sorted sets, compared with a real Redis too;
//! - `statistics`: counts and times of commands;
//! - `tracking`: messages about changed keys, for caches of clients;
//! - `transactions`: `MULTI`, `EXEC`, `WATCH`.
//!
//! `support` starts servers and contains blocking clients; `server_process` starts servers in processes of their own.

mod atomic;
mod bitfields;
mod client_libraries;
mod clients;
mod cluster;
mod commands;
mod connections;
mod differential;
mod eviction;
mod field_expiry;
mod fuzz;
mod hashes;
mod hyperloglogs;
mod large_values;
mod load;
mod memory;
mod notifications;
mod pairs;
mod protocol;
mod pubsub;
mod script_libraries;
mod script_locks;
mod script_sandbox;
mod scripts;
mod serialized;
mod server_process;
mod shared_tier;
mod sorted_sets;
mod statistics;
mod support;
mod tracking;
mod transactions;

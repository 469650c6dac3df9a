//! What the server promises, one file each. Put a new test where its promise is:
//!
//! - `commands`: a table of what is sent and what comes back, for RESP2 and RESP3;
//! - `protocol`: framing, limits, HTTP, pipelines, whatever concerns bytes rather than commands;
//! - `connections`: many clients, slow ones, rude ones, authentication, shutdown;
//! - `memory`: limits, eviction, a keyspace that outlives its server;
//! - `differential`: the same commands to a real Redis and to this server, replies compared.
//!
//! `support` starts servers and speaks to them.

mod commands;
mod connections;
mod differential;

mod memory;
mod protocol;
mod support;

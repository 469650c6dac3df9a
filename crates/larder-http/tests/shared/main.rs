//! Replicas that share responses through a real Redis, one file per promise.
//!
//! - `faults`: Redis is killed, a connection is paused, entries are damaged.
//! - `fills`: one handler among all replicas, and a fresh replica needs none.
//! - `processes`: the same with three processes.
//! - `purges`: a purge on one replica reaches the others.
//! - `variants`: the records of what varies are shared.

mod faults;
mod fills;
mod processes;
mod purges;
mod support;
mod variants;

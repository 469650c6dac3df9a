//! Replicas that share responses through a real Redis, one file per promise.
//!
//! - `disk`: what a replica has on disk is only offered to the origin.
//! - `faults`: Redis is killed, a connection is paused, entries are damaged.
//! - `fills`: one handler among all replicas, and a fresh replica needs none.
//! - `lost`: without Redis, requests that wait for a handler all get its response.
//! - `origin_fields`: where the fields of the origin decide, replicas keep to RFC 9111 together.
//! - `processes`: the same with three processes.
//! - `purges`: a purge on one replica reaches the others.
//! - `scopes`: gated and private responses are shared, and each replica asks its gate.
//! - `streams`: bodies that take time.
//! - `values`: a response is fresh no longer than what it is made from.
//! - `variants`: the records of what varies are shared.

#[cfg(feature = "disk")]
mod disk;
mod faults;
mod fills;
mod lost;
mod origin_fields;
mod processes;
mod purges;
mod scopes;
mod streams;
mod support;
mod values;
mod variants;

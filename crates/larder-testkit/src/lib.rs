//! What the tests of every crate share: real servers that a test starts, breaks and ends, proxies before them that fail or
//! follow a script, loaders that count, bounded waits, and what every cache has to do.
//!
//! A test that needs a program asks [`program`] for it, and [`needs`] for anything else. Where it is missing the test
//! says so and passes, except on a machine that sets `CI=true`: there it is a failure.

mod cluster;
pub mod conformance;
mod flaky_proxy;
mod fork;
mod frames;
mod loader;
mod network;
mod postgres;
mod postgres_proxy;
mod program;
mod proxy;
mod redis;
mod scripted_proxy;
mod selected;
mod sentinels;
mod valkey;
mod wait;

pub use cluster::{Cluster, MoveMethod, Mover, slot_of};
pub use flaky_proxy::FlakyProxy;
pub use fork::{Child, Line, fork};
pub use larder_process::{POSTGRES_USER, PostgresServer, Running};
pub use loader::Gate;
pub use network::{Network, NetworkPart};
pub use postgres::{start_postgres, start_postgres_on_port, with_postgres};
pub use postgres_proxy::{CommitCut, PostgresProxy};
pub use program::{may_open, needs, program, resident_bytes, start, wait_for_end};
pub use proxy::Direction;
pub use redis::RedisServer;
pub use scripted_proxy::{Frame, Hold, ScriptedProxy};
pub use sentinels::Sentinels;
pub use wait::{DEADLINE, Deadline, PATIENCE, eventually, until, within};

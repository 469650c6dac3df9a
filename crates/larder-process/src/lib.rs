//! Child processes that end with their owner, a redis-server and a PostgreSQL on private sockets, the suite of tests for
//! HTTP caches, and the installation of programs.
//!
//! The bench and the tests of every crate start the same servers. This is a separate crate because the bench is a
//! part of the `larder` binary, which must not depend on crates for tests.

mod cache_tests;
pub mod debian;
mod postgres;
mod redis;
mod running;

pub use cache_tests::{CacheTests, Score, TestKind, TestResult};
pub use postgres::{POSTGRES, POSTGRES_USER, PostgresServer};
pub use redis::{RedisServer, SOCKET, StartCommand, redis_command};
pub use running::{Running, kill_all};

use std::path::PathBuf;

/// The path of a program in `PATH`; `None` if it is not installed.
pub fn find_program(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).map(|folder| folder.join(name)).find(|file| file.is_file())
}

//! Child processes that end with their owner, and a redis-server on a socket of its own.
//!
//! The tests of every crate and the bench start the same servers. A crate of its own, because the bench is a part of the
//! `larder` binary and must not depend on what is for tests only.

mod redis;
mod running;

pub use redis::RedisServer;
pub use running::{Running, kill_all};

use std::path::PathBuf;

/// The file of a program in `PATH`; `None` if it is not installed.
pub fn find_program(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).map(|folder| folder.join(name)).find(|file| file.is_file())
}

//! Which server [`RedisServer`](crate::RedisServer) is: redis-server, or `larder server` where the variable
//! `LARDER_TEST_SERVER` is the path of the program `larder`.
//!
//! ```text
//! LARDER_TEST_SERVER=$PWD/target/debug/larder cargo test -p larder --test tiers --test chaos
//! ```
//!
//! Tests that need what only Redis has stay on redis-server. `only_redis.txt` lists them by name with the reason, but for
//! those that form a cluster.

use crate::program::{note_skip, program, test_name};
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The variable that names the server.
const VARIABLE: &str = "LARDER_TEST_SERVER";
/// What each note of a test that stays on redis-server begins with.
const NOTE: &str = "only on redis-server";
/// What it ends with if the test forms a cluster.
const CLUSTER: &str = "a cluster";
const ONLY_REDIS: &str = include_str!("only_redis.txt");
/// Enough for every test, and little enough for many servers on one machine.
pub(crate) const LARDER_MAX_MEMORY: &str = "256mb";
/// What it evicts by default.
pub(crate) const LARDER_POLICY: &str = "allkeys-lfu";
/// The name of its snapshot in its folder.
pub(crate) const SNAPSHOT: &str = "keys.snapshot";
/// Several also where there is one core: connections of a busy server are on all of them.
const THREADS: &str = "2";

/// A kind of server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Redis,
    Larder,
}

/// The server for this test, and its program; `None` and a note if there is none.
pub(crate) fn selected() -> Option<(Kind, PathBuf)> {
    match named()? {
        (Kind::Redis, _) => Some((Kind::Redis, program("redis-server")?)),
        larder => Some(larder),
    }
}

/// `None` and a note if the selected server is in no cluster. Tests that form one need not be listed.
pub(crate) fn may_form_a_cluster() -> Option<()> {
    match named()? {
        (Kind::Redis, _) => Some(()),
        (Kind::Larder, _) => {
            note_skip(&format!("{NOTE}: {}: {CLUSTER}", test_name()));
            None
        }
    }
}

/// The server for this test, and its program as the variable names it; `None` and a note if the test stays on redis-server
/// and another is named.
fn named() -> Option<(Kind, PathBuf)> {
    let named = std::env::var_os(VARIABLE).map_or_else(|| "redis-server".into(), PathBuf::from);
    match named.file_name().and_then(OsStr::to_str) {
        Some("redis-server") => Some((Kind::Redis, named)),
        Some("larder") => match reason(&test_name()) {
            Some(reason) => {
                note_skip(&format!("{NOTE}: {}: {reason}", test_name()));
                None
            }
            None => Some((Kind::Larder, named)),
        },
        _ => panic!("{VARIABLE} is {named:?}; it must be redis-server, or the path of larder"),
    }
}

/// Why a test stays on redis-server; `None` if it does not.
fn reason(test: &str) -> Option<&'static str> {
    let mut reason = "";
    for line in ONLY_REDIS.lines() {
        match line.strip_prefix("  ") {
            Some(name) if name == test => return Some(reason),
            Some(_) => {}
            None => reason = line.trim_end_matches(':'),
        }
    }
    None
}

/// The command that starts `larder server`, with the options of redis-server that tests give.
///
/// # Panics
/// If it has no such option.
pub(crate) fn larder_command(program: &Path, folder: &Path, options: &[String]) -> Command {
    let (mut host, mut port) = ("127.0.0.1", "0");
    let mut command = Command::new(program);
    for (name, _) in std::env::vars_os().filter(|(name, _)| name.to_string_lossy().starts_with("LARDER_")) {
        command.env_remove(name);
    }
    command.args(["server", "--max-memory", LARDER_MAX_MEMORY, "--threads", THREADS, "--unixsocket"]);
    command.arg(folder.join(larder_process::SOCKET)).arg("--snapshot").arg(folder.join(SNAPSHOT));
    for pair in options.chunks(2) {
        match pair {
            [name, value] if name == "--port" => port = value,
            [name, value] if name == "--bind" => host = value,
            [name, value] if name == "--tls-port" => _ = command.args(["--tls-only", name, value]),
            [name, value] if name == "--tls-cert-file" => _ = command.args(["--tls-cert", value]),
            [name, value] if name == "--tls-key-file" => _ = command.args(["--tls-key", value]),
            [name, value] if name == "--tls-ca-cert-file" => _ = command.args(["--tls-ca", value]),
            [name, value] if name == "--tls-auth-clients" => _ = command.args([name, value]),
            [name, value] if name == "--from" => _ = command.args(["--from", value]),
            [name, value] if name == "--aclfile" => _ = command.args(["--aclfile", value]),
            [name, value] if name == "--requirepass" => _ = command.args(["--requirepass", value]),
            _ => panic!("larder server has no {pair:?}: list {} in only_redis.txt", test_name()),
        }
    }
    command.args(["--listen", &format!("{host}:{port}")]);
    command
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names() -> impl Iterator<Item = &'static str> {
        ONLY_REDIS.lines().filter_map(|line| line.strip_prefix("  "))
    }

    #[test]
    fn listed_tests_have_a_reason() {
        for name in names() {
            assert!(reason(name).is_some_and(|reason| !reason.is_empty()), "{name}");
        }
        assert_eq!(reason("no::such_test"), None);
    }
}

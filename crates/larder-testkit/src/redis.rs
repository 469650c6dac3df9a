//! A real server of the Redis protocol for one test, and every way in which a server fails.

use crate::program::needs;
use crate::selected::{Kind, LARDER_MAX_MEMORY, LARDER_POLICY, SNAPSHOT, larder_command, selected};
use crate::valkey::valkey_server;
use crate::wait::{Deadline, until};
use std::io;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// A server of the test's own: a redis-server, or a `larder server` where `LARDER_TEST_SERVER` is the path of that
/// program. It ends with the test, and the test ends by its [`Deadline`].
#[derive(Debug)]
pub struct RedisServer {
    kind: Kind,
    server: larder_process::RedisServer,
    _deadline: Deadline,
}

impl RedisServer {
    /// Starts a server without persistence; `None` and a note if it is not installed, or if this test stays on
    /// redis-server and another server is selected.
    ///
    /// # Panics
    /// If it is installed and does not start.
    pub fn start() -> Option<Self> {
        Self::start_with(&[])
    }

    /// The same with further options of the command line of redis-server.
    ///
    /// # Panics
    /// As [`RedisServer::start`].
    pub fn start_with(options: &[&str]) -> Option<Self> {
        let (kind, program) = selected()?;
        Some(Self::of(kind, start(kind, program, options).expect("the server starts")))
    }

    /// Starts the valkey-server that `cargo xtask install` brings, for what redis-server lacks; `None` and a note if it is not
    /// installed.
    ///
    /// # Panics
    /// If it is installed and does not start.
    pub fn start_valkey() -> Option<Self> {
        let server = start(Kind::Redis, valkey_server()?, &[]).expect("the server starts");
        Some(Self::of(Kind::Redis, server))
    }

    fn of(kind: Kind, server: larder_process::RedisServer) -> Self {
        RedisServer { kind, server, _deadline: Deadline::start() }
    }

    /// Whether it is a redis-server.
    pub fn is_redis(&self) -> bool {
        self.kind == Kind::Redis
    }

    /// The same with a free TCP port of 127.0.0.1, which is the value of the option `port`: `--port` or `--tls-port`.
    ///
    /// # Panics
    /// As [`RedisServer::start`].
    pub fn start_with_port(port: &str, options: &[&str]) -> Option<(Self, u16)> {
        let (kind, program) = selected()?;
        if port == "--tls-port" && kind == Kind::Redis {
            needs("a redis-server with TLS", has_tls(&program))?;
        }
        // Another process may take the port before the server does.
        let mut attempts = (0..10).map(|_| {
            let free = free_port();
            let number = free.to_string();
            let options = [&[port, &number, "--bind", "127.0.0.1"], options].concat();
            start(kind, program.clone(), &options).map(|server| (server, free))
        });
        let (server, port) = attempts.find_map(Result::ok).expect("the server starts on a free port");
        Some((Self::of(kind, server), port))
    }

    /// The address for clients.
    pub fn url(&self) -> String {
        self.server.url()
    }

    /// The path of its socket.
    pub fn socket(&self) -> PathBuf {
        self.server.socket()
    }

    /// Whether it runs, and was not killed.
    pub fn is_up(&self) -> bool {
        self.server.process().is_some()
    }

    /// Ends the server at once. Its address refuses connections then.
    pub fn kill(&mut self) {
        self.server.kill();
    }

    /// Starts the server again, empty, at the same address.
    ///
    /// # Panics
    /// If it does not start.
    pub fn restart(&mut self) {
        self.kill();
        _ = std::fs::remove_file(self.dump());
        self.server.run().expect("the server starts");
    }

    /// Saves what the server has now, for [`RedisServer::restart_from_snapshot`].
    ///
    /// # Panics
    /// If the server does not save.
    pub fn take_snapshot(&self) {
        match self.kind {
            Kind::Redis => {
                assert_eq!(self.command("SAVE"), "+OK\r\n");
                std::fs::rename(self.dump(), self.snapshot()).expect("the server saved");
            }
            // It writes its own when it ends: another one copies it and ends.
            Kind::Larder => {
                let from = format!("unix://{}", self.socket().display());
                let mut other = self.server.start_another(&["--from", &from]).expect("the server is copied");
                other.command("REPLICAOF NO ONE").expect("the copy ends");
                until("the copy has ended", || {
                    let answer = other.command("INFO replication").expect("an answer");
                    answer.contains("role:master").then_some(())
                });
                other.stop().expect("it writes its snapshot");
                std::fs::rename(other.folder().join(SNAPSHOT), self.snapshot()).expect("the copy saved");
            }
        }
    }

    /// Ends the server at once and starts it with the content of the snapshot: what it acknowledged since is lost.
    ///
    /// # Panics
    /// If there is no snapshot, or the server does not start.
    pub fn restart_from_snapshot(&mut self) {
        self.kill();
        std::fs::copy(self.snapshot(), self.dump()).expect("a snapshot was taken");
        self.server.run().expect("the server starts");
    }

    /// Whether the server has no memory left: it refuses writes with OOM, and still reads and removes.
    ///
    /// # Panics
    /// If the server does not answer.
    pub fn set_full(&self, full: bool) {
        let configure = |setting: &str| {
            assert_eq!(self.command(&format!("CONFIG SET {setting}")), "+OK\r\n", "{setting}");
        };
        match (self.kind, full) {
            (Kind::Redis, true) => configure("maxmemory 1"),
            (Kind::Redis, false) => configure("maxmemory 0"),
            // Its least limit is 1 MiB: a value that is longer fills it, if nothing is evicted.
            (Kind::Larder, true) => {
                configure("maxmemory-policy noeviction");
                assert_eq!(self.command("SETRANGE filler 2097151 x"), ":2097152\r\n");
                configure("maxmemory 1mb");
            }
            (Kind::Larder, false) => {
                configure(&format!("maxmemory {LARDER_MAX_MEMORY}"));
                self.command("UNLINK filler");
                configure(&format!("maxmemory-policy {LARDER_POLICY}"));
            }
        }
    }

    /// Whether the server is a replica whose primary cannot be reached: it refuses writes with READONLY, and still reads.
    pub fn set_read_only(&self, read_only: bool) {
        let primary = if read_only { "127.0.0.1 1" } else { "NO ONE" };
        assert_eq!(self.command(&format!("REPLICAOF {primary}")), "+OK\r\n");
    }

    /// Makes the server forget its scripts.
    pub fn forget_scripts(&self) {
        assert_eq!(self.command("SCRIPT FLUSH"), "+OK\r\n");
    }

    fn dump(&self) -> PathBuf {
        self.server.folder().join(match self.kind {
            Kind::Redis => "dump.rdb",
            Kind::Larder => SNAPSHOT,
        })
    }

    fn snapshot(&self) -> PathBuf {
        self.server.folder().join("saved")
    }

    /// Stops the server from running: it keeps its connections and answers nothing.
    ///
    /// # Panics
    /// If it was killed.
    pub fn pause(&self) {
        self.server.process().expect("the server runs").pause();
    }

    /// Lets a paused server run again.
    ///
    /// # Panics
    /// If it was killed.
    pub fn resume(&self) {
        self.server.process().expect("the server runs").resume();
    }

    /// Shortens the remaining TTL of every key by `time`: keys with less are gone. The deadline in a value of `larder`, the
    /// eight bytes after its head, comes as much earlier.
    ///
    /// # Panics
    /// If the server does not answer.
    pub fn pass(&self, time: Duration) {
        const SCRIPT: &str = "for _,key in ipairs(redis.call('KEYS','*')) do \
            local left=redis.call('PTTL',key) \
            if left>=0 then \
                local is_string=redis.call('TYPE',key).ok=='string' \
                local head=is_string and redis.call('GETRANGE',key,0,27) or '' \
                if #head==28 and head:sub(1,2)=='Lr' and head:byte(4)==1 then \
                    local deadline=struct.unpack('<I8',head:sub(21)) \
                    redis.call('SETRANGE',key,20,struct.pack('<I8',deadline-ARGV[1])) \
                end \
                redis.call('PEXPIRE',key,left-ARGV[1]) \
            end \
        end";
        let script: String = SCRIPT.split_whitespace().collect::<Vec<_>>().join(" ");
        let reply = self.command(&format!("EVAL \"{script}\" 0 {}", time.as_millis()));
        assert_eq!(reply, "$-1\r\n");
    }

    /// Sends one inline command and returns the raw reply, which must fit into one read.
    ///
    /// # Panics
    /// If the server does not answer, or if a `larder server` answers with an error: a test must not pass because it could
    /// not prepare what it tests.
    pub fn command(&self, line: &str) -> String {
        let reply = self.server.command(line);
        let reply = reply.unwrap_or_else(|error| panic!("the server does not answer {line:?}: {error}"));
        let is_refused = self.kind == Kind::Larder && reply.starts_with('-');
        assert!(!is_refused, "larder server does not execute {line:?}: {reply}");
        reply
    }
}

fn start(kind: Kind, program: PathBuf, options: &[&str]) -> io::Result<larder_process::RedisServer> {
    match kind {
        Kind::Redis => larder_process::RedisServer::start_with(program, options),
        Kind::Larder => larder_process::RedisServer::start_by(larder_command, program, options),
    }
}

pub(crate) fn free_port() -> u16 {
    free_ports(1)[0]
}

/// So many different ports of 127.0.0.1 that nobody has now.
pub(crate) fn free_ports(count: usize) -> Vec<u16> {
    let listeners: Vec<_> =
        (0..count).map(|_| TcpListener::bind("127.0.0.1:0").expect("a port is free")).collect();
    listeners.iter().map(|listener| listener.local_addr().expect("it is bound").port()).collect()
}

/// Whether this redis-server was built with TLS: the others do not know its options.
pub(crate) fn has_tls(redis: &Path) -> bool {
    larder_process::RedisServer::start_with(redis.to_owned(), &["--tls-port", "0"]).is_ok()
}

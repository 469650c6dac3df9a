//! The servers under test: child processes on free ports.

use super::bare_loop;
use crate::tool::{self, Certificate, Usage};
use anyhow::{Context, Result, bail, ensure};
use larder_process::{Running, find_program};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// How long a server may take to start, and to answer.
const PATIENCE: Duration = Duration::from_secs(20);

/// The limit of Larder, which has no other default than a share of the machine.
const LARDER_BYTES: u64 = 1 << 30;

/// Entries that are stored in one pipeline.
const BATCH: u64 = 1_000;

/// A program that speaks the Redis protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// Larder with its default number of threads.
    Larder,
    /// Larder with one thread.
    OneThread,
    /// The server that is linked into this program, with its defaults.
    Linked,
    Redis,
    Valkey,
    Pogocache,
    /// Answers constants.
    BareLoop,
}

impl Kind {
    pub(super) const ALL: [Kind; 6] =
        [Kind::Larder, Kind::OneThread, Kind::Redis, Kind::Valkey, Kind::Pogocache, Kind::BareLoop];

    pub(super) fn name(self) -> &'static str {
        match self {
            Kind::Larder | Kind::Linked => "larder",
            Kind::OneThread => "larder, 1 thread",
            Kind::Redis => "redis",
            Kind::Valkey => "valkey",
            Kind::Pogocache => "pogocache",
            Kind::BareLoop => "bare loop",
        }
    }

    /// Whether it stores anything.
    pub(super) fn is_cache(self) -> bool {
        self != Kind::BareLoop
    }

    /// Whether it has scripts and transactions.
    pub(super) fn runs_scripts(self) -> bool {
        matches!(self, Kind::Larder | Kind::OneThread | Kind::Linked | Kind::Redis | Kind::Valkey)
    }

    /// The name of its program.
    fn program(self) -> &'static str {
        match self {
            Kind::Larder | Kind::OneThread => "larder",
            Kind::Redis => "redis-server",
            Kind::Valkey => "valkey-server",
            Kind::Pogocache => "pogocache",
            Kind::Linked | Kind::BareLoop => "larder-bench",
        }
    }

    /// The command that starts it, or why it cannot be started.
    fn command(self, address: SocketAddr, larder_bytes: u64) -> Result<Command> {
        let port = address.port().to_string();
        match self {
            Kind::Larder | Kind::OneThread => {
                let mut command = Command::new(larder()?);
                let bytes = larder_bytes.to_string();
                command.args(["server", "--listen", &address.to_string(), "--max-memory", &bytes]);
                if self == Kind::OneThread {
                    command.args(["--threads", "1"]);
                }
                Ok(command)
            }
            Kind::Redis | Kind::Valkey => {
                let mut command = Command::new(self.installed()?);
                command.args(["--port", &port, "--bind", "127.0.0.1", "--save", "", "--appendonly", "no"]);
                Ok(command)
            }
            Kind::Pogocache => {
                let mut command = Command::new(self.installed()?);
                command.args(["-p", &port, "--threads", "2"]);
                Ok(command)
            }
            Kind::Linked => {
                let mut command = Command::new(std::env::current_exe()?);
                command.args(["serve", "larder", "--listen", &address.to_string()]);
                Ok(command)
            }
            Kind::BareLoop => {
                let mut command = Command::new(std::env::current_exe()?);
                command.args(["bare-loop", &address.to_string()]);
                Ok(command)
            }
        }
    }

    fn installed(self) -> Result<PathBuf> {
        find_program(self.program()).with_context(|| format!("{} is not installed", self.program()))
    }
}

/// The program `larder` in the folder of this one, so that both are of the same profile.
pub(in crate::suite) fn larder() -> Result<PathBuf> {
    let this = std::env::current_exe()?;
    let larder = this.with_file_name("larder");
    if !larder.is_file() {
        let profile = if cfg!(debug_assertions) { "" } else { " --release" };
        bail!("{} does not exist; build it with `cargo build{profile} -p larder-cli`", larder.display());
    }
    Ok(larder)
}

/// A running server. Dropping it ends its process.
pub(super) struct Subject {
    pub(super) kind: Kind,
    pub(super) address: SocketAddr,
    /// Where it speaks TLS, if it does.
    pub(super) encrypted: Option<SocketAddr>,
    /// The time from the start of the process to its first reply.
    pub(super) started_in: Duration,
    running: Running,
}

impl Subject {
    /// Starts a server; an error says why that is impossible.
    pub(super) fn start(kind: Kind) -> Result<Self> {
        Subject::start_with_memory(kind, LARDER_BYTES)
    }

    /// The same, with a limit for the entries of Larder. That of others is set while they run.
    pub(super) fn start_with_memory(kind: Kind, larder_bytes: u64) -> Result<Self> {
        let address = tool::free_address()?;
        Subject::spawn(kind, address, None, kind.command(address, larder_bytes)?)
    }

    /// Starts Larder, Redis or Valkey with a second port for TLS, to which any client may come.
    pub(super) fn start_with_tls(kind: Kind, certificate: &Certificate) -> Result<Self> {
        let (address, encrypted) = (tool::free_address()?, tool::free_address()?);
        let mut command = kind.command(address, LARDER_BYTES)?;
        command.args(["--tls-port", &encrypted.port().to_string()]);
        let [chain, key] = match kind {
            Kind::Redis | Kind::Valkey => {
                command.args(["--tls-auth-clients", "no"]);
                ["--tls-cert-file", "--tls-key-file"]
            }
            _ => ["--tls-cert", "--tls-key"],
        };
        command.arg(chain).arg(&certificate.chain).arg(key).arg(&certificate.key);
        let subject = Subject::spawn(kind, address, Some(encrypted), command)?;
        tool::await_listener(encrypted, PATIENCE).context(kind.name())?;
        Ok(subject)
    }

    fn spawn(
        kind: Kind,
        address: SocketAddr,
        encrypted: Option<SocketAddr>,
        mut command: Command,
    ) -> Result<Self> {
        // What is linked into this program ends when its input does.
        command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
        let start = Instant::now();
        let running =
            Running::start(&mut command).with_context(|| format!("cannot start {}", kind.name()))?;
        let mut subject = Subject { kind, address, encrypted, started_in: Duration::ZERO, running };
        tool::await_listener(address, PATIENCE).context(kind.name())?;
        // A command with the same reply everywhere.
        subject.set(&[("key", "value")])?;
        subject.started_in = start.elapsed();
        Ok(subject)
    }

    pub(super) fn usage(&self) -> Usage {
        Usage::of(self.running.id())
    }

    pub(super) fn id(&self) -> u32 {
        self.running.id()
    }

    pub(super) fn connect(&self) -> Result<TcpStream> {
        let stream = TcpStream::connect(self.address)?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        Ok(stream)
    }

    /// Stores the keys from which `redis-benchmark -r` chooses.
    pub(super) fn fill(&self, keys: u64) -> Result<()> {
        self.fill_with(keys, bare_loop::VALUE_BYTES, false)
    }

    /// As [`Subject::fill`], with values of this length, and with a TTL between one and two days if `timed`.
    pub(super) fn fill_with(&self, keys: u64, value_bytes: usize, timed: bool) -> Result<()> {
        let value = "x".repeat(value_bytes);
        let seconds = |number: u64| timed.then_some(86_400 + number % 86_400);
        for first in (0..keys).step_by(BATCH as usize) {
            let batch = first..keys.min(first + BATCH);
            let pairs = batch.map(|number| (key(number), value.as_str(), seconds(number)));
            self.store(pairs.collect())?;
        }
        Ok(())
    }

    /// Deletes all keys.
    pub(super) fn flush(&self) -> Result<()> {
        let mut stream = self.connect()?;
        stream.write_all(b"*1\r\n$8\r\nFLUSHALL\r\n")?;
        let mut reply = [0; 5];
        stream.read_exact(&mut reply)?;
        ensure!(&reply == b"+OK\r\n", "{} does not delete its keys", self.kind.name());
        Ok(())
    }

    /// Stores pairs in one pipeline.
    pub(super) fn set(&self, pairs: &[(impl AsRef<str>, impl AsRef<str>)]) -> Result<()> {
        self.store(pairs.iter().map(|(key, value)| (key.as_ref(), value.as_ref(), None)).collect())
    }

    /// Stores pairs in one pipeline, some with a TTL in seconds.
    fn store(&self, pairs: Vec<(impl AsRef<str>, &str, Option<u64>)>) -> Result<()> {
        let mut requests = Vec::new();
        for (key, value, ttl) in &pairs {
            let key = key.as_ref();
            let parts = if ttl.is_some() { 5 } else { 3 };
            write!(requests, "*{parts}\r\n$3\r\nSET\r\n${}\r\n{key}\r\n", key.len())?;
            write!(requests, "${}\r\n{value}\r\n", value.len())?;
            if let Some(ttl) = ttl.map(|ttl| ttl.to_string()) {
                write!(requests, "$2\r\nEX\r\n${}\r\n{ttl}\r\n", ttl.len())?;
            }
        }
        let mut stream = self.connect()?;
        stream.write_all(&requests)?;
        let mut replies = vec![0; pairs.len() * b"+OK\r\n".len()];
        stream.read_exact(&mut replies)?;
        if replies != b"+OK\r\n".repeat(pairs.len()) {
            bail!("{} does not store: {}", self.kind.name(), String::from_utf8_lossy(&replies[..5]));
        }
        Ok(())
    }
}

/// A key as `redis-benchmark` makes it: 16 bytes.
pub(super) fn key(number: u64) -> String {
    format!("key:{number:012}")
}

/// Starts every server that can be started here; adds to `notes` why the others cannot.
pub(super) fn start_all(kinds: &[Kind], notes: &mut Vec<String>) -> Vec<Subject> {
    let mut subjects = Vec::new();
    for kind in kinds {
        match Subject::start(*kind) {
            Ok(subject) => subjects.push(subject),
            Err(error) => notes.push(format!("{} was not measured: {error:#}.", kind.name())),
        }
    }
    subjects
}

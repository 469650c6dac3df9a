//! A primary with replicas, and the sentinels that watch it.

use crate::program::{program, test_name};
use crate::redis::{RedisServer, free_port};
use crate::wait::Deadline;
use std::fmt::Write as _;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

/// The name under which the sentinels watch the primary.
const NAME: &str = "shop";
const SENTINELS: usize = 3;
/// A majority.
const QUORUM: usize = 2;

/// Servers on TCP ports of 127.0.0.1. They end with the test.
#[derive(Debug)]
pub struct Sentinels {
    servers: Vec<(RedisServer, u16)>,
    each: Vec<(larder_process::RedisServer, u16)>,
    _deadline: Deadline,
}

impl Sentinels {
    /// Starts a primary, a replica and three sentinels, which need a majority and find a server down after a second.
    /// `None` and a note if redis-server is not installed or another server is selected.
    ///
    /// # Panics
    /// If they do not start, or do not find each other.
    pub fn start() -> Option<Self> {
        Self::start_with("")
    }

    /// The same with further lines of the configuration of the sentinels.
    ///
    /// # Panics
    /// As [`Sentinels::start`].
    pub fn start_with(options: &str) -> Option<Self> {
        let primary = RedisServer::start_with_port("--port", &[])?;
        let program = program("redis-server")?;
        let of = format!("127.0.0.1 {}", primary.1);
        let fast = ["--replicaof", &of, "--repl-diskless-sync-delay", "0", "--repl-ping-replica-period", "1"];
        let replica = RedisServer::start_with_port("--port", &fast)?;
        let sentinel = || {
            let mut attempts = (0..10).map(|_| {
                let port = free_port();
                let options = [port.to_string(), primary.1.to_string(), options.to_owned()];
                let options = options.each_ref().map(String::as_str);
                larder_process::RedisServer::start_by(sentinel_command, program.clone(), &options)
                    .map(|sentinel| (sentinel, port))
            });
            attempts.find_map(Result::ok).expect("a sentinel starts on a free port")
        };
        let each = (0..SENTINELS).map(|_| sentinel()).collect();
        let sentinels = Sentinels { servers: vec![primary, replica], each, _deadline: Deadline::start() };
        sentinels.await_readiness();
        Some(sentinels)
    }

    /// Waits until each sentinel knows the replica and the others: before that there is no failover.
    fn await_readiness(&self) {
        let is_ready = |sentinel| {
            let reply = self.ask(sentinel, &format!("SENTINEL MASTER {NAME}"));
            let fields: Vec<_> = reply.lines().filter(|line| !line.starts_with('$')).collect();
            let has = |name: &str, number: usize| {
                let number = number.to_string();
                fields.windows(2).any(|pair| pair == [name, number.as_str()])
            };
            has("num-slaves", 1) && has("num-other-sentinels", SENTINELS - 1)
        };
        crate::until("the sentinels find each other and the replica", || {
            (0..SENTINELS).all(is_ready).then_some(())
        });
    }

    /// The address for caches, without passwords.
    pub fn url(&self) -> String {
        let hosts: Vec<_> = self.each.iter().map(|(_, port)| format!("127.0.0.1:{port}")).collect();
        format!("redis+sentinel://{}/{NAME}", hosts.join(","))
    }

    /// The server that the sentinels name as the primary now.
    ///
    /// # Panics
    /// If no sentinel answers, or all name an unknown one.
    pub fn primary(&mut self) -> &mut RedisServer {
        let port = self.primary_port();
        let named = self.servers.iter_mut().find(|(_, own)| *own == port);
        &mut named.unwrap_or_else(|| panic!("the sentinels name the unknown port {port}")).0
    }

    fn primary_port(&self) -> u16 {
        let reply = self.ask(0, &format!("SENTINEL GET-MASTER-ADDR-BY-NAME {NAME}"));
        reply.lines().nth(4).and_then(|port| port.parse().ok()).unwrap_or_default()
    }

    /// The same, once it answers.
    ///
    /// # Panics
    /// As [`Sentinels::primary`], and if it does not answer in time.
    pub fn primary_once_up(&mut self) -> &mut RedisServer {
        crate::until("the primary is up", || self.primary().is_up().then_some(()));
        self.primary()
    }

    /// The servers, each of which has been, or may become, the primary.
    pub fn servers(&self) -> impl Iterator<Item = &RedisServer> {
        self.servers.iter().map(|(server, _)| server)
    }

    /// Sends an inline command to one sentinel and returns the raw reply.
    ///
    /// # Panics
    /// If it does not answer.
    pub fn ask(&self, sentinel: usize, line: &str) -> String {
        let reply = self.each[sentinel].0.command(line);
        reply.unwrap_or_else(|error| panic!("{}: {line:?}: {error}", test_name()))
    }

    /// Makes the replica the primary, although the primary is up and goes on, for a while. Returns whether there is another
    /// primary: the sentinels refuse while they know no replica that is up.
    pub fn fail_over(&mut self, goes_on: Duration) -> bool {
        let before = self.primary().socket();
        self.ask(0, &format!("SENTINEL FAILOVER {NAME}")) == "+OK\r\n" && {
            self.await_next(&before);
            std::thread::sleep(goes_on);
            self.follow(&before);
            true
        }
    }

    /// Kills the primary, waits until the replica takes its place, and starts it again as a replica.
    ///
    /// # Panics
    /// If that does not happen in time.
    pub fn kill_primary(&mut self) {
        let before = self.primary().socket();
        self.primary().kill();
        self.await_next(&before);
        let killed = self.servers.iter_mut().find(|(server, _)| server.socket() == before);
        killed.expect("it is one of them").0.restart();
        self.follow(&before);
    }

    /// Stops the primary, waits until the replica takes its place, and lets it go on for a while: it is a primary in its own
    /// eyes.
    ///
    /// # Panics
    /// If that does not happen in time.
    pub fn stop_primary(&mut self, goes_on: Duration) {
        let before = self.primary().socket();
        self.primary().pause();
        self.await_next(&before);
        self.servers().find(|server| server.socket() == before).expect("it is one of them").resume();
        std::thread::sleep(goes_on);
        self.follow(&before);
    }

    /// Makes a former primary a replica, as the sentinels do later, and waits until it has caught up.
    fn follow(&mut self, former: &Path) {
        let port = self.primary_port();
        let server = self.servers().find(|server| server.socket() == former).expect("it is one of them");
        let reply = server.command(&format!("REPLICAOF 127.0.0.1 {port}"));
        assert!(reply.starts_with("+OK"), "{reply}");
        crate::until("the former primary is a replica", || {
            self.primary().command("INFO replication").contains("state=online").then_some(())
        });
        self.await_readiness();
    }

    /// Waits until another server than that with this socket is the primary.
    fn await_next(&mut self, before: &Path) {
        crate::until("another server is the primary", || (self.primary().socket() != before).then_some(()));
    }

    /// Stops the first sentinels from running, and lets the others run.
    ///
    /// # Panics
    /// If one has ended.
    pub fn pause(&self, sentinels: usize) {
        for (number, (sentinel, _)) in self.each.iter().enumerate() {
            let process = sentinel.process().expect("it runs");
            if number < sentinels { process.pause() } else { process.resume() }
        }
    }
}

/// The command that starts a sentinel. It writes to its configuration, which has the options: its port, that of the primary,
/// and further lines.
fn sentinel_command(program: &Path, folder: &Path, options: &[String]) -> Command {
    let [port, primary, further] = options else { panic!("three options, got {options:?}") };
    let (path, socket) = (folder.join("sentinel.conf"), folder.join(larder_process::SOCKET));
    let mut text =
        format!("port {port}\nbind 127.0.0.1\nunixsocket {}\ndir {}\n", socket.display(), folder.display());
    for (option, value) in [
        ("monitor", format!("127.0.0.1 {primary} {QUORUM}")),
        ("down-after-milliseconds", "1000".into()),
        ("failover-timeout", "1000".into()),
    ] {
        _ = writeln!(text, "sentinel {option} {NAME} {value}");
    }
    text.push_str(further);
    std::fs::write(&path, text).expect("the folder is writable");
    let mut command = Command::new(program);
    command.arg(path).arg("--sentinel");
    command
}

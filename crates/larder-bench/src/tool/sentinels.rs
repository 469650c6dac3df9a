//! A primary with a replica, and the sentinels that watch them.

use crate::tool::{free_address, start_on_port};
use anyhow::{Context, Result, ensure};
use larder_process::{RedisServer, SOCKET};
use std::path::Path;
use std::process::Command;
use std::thread::sleep;
use std::time::{Duration, Instant};

/// The name under which the sentinels watch the primary.
const NAME: &str = "main";
const SENTINELS: usize = 3;
/// The sentinels find each other by messages that they send every two seconds.
const READY_WITHIN: Duration = Duration::from_secs(20);
/// How often a port that another process has taken meanwhile is replaced.
const ATTEMPTS: usize = 5;

/// Servers on ports of 127.0.0.1. They end with it.
pub(crate) struct Sentinels {
    primary: RedisServer,
    _replica: RedisServer,
    each: Vec<(RedisServer, u16)>,
}

impl Sentinels {
    pub(crate) fn start(program: &Path) -> Result<Self> {
        let (primary, port) = start_on_port(program, &[])?;
        let of = format!("127.0.0.1 {port}");
        let (replica, _) = start_on_port(program, &["--replicaof", &of, "--repl-diskless-sync-delay", "0"])?;
        let each = (0..SENTINELS).map(|_| start_sentinel(program, port)).collect::<Result<_>>()?;
        let sentinels = Sentinels { primary, _replica: replica, each };
        sentinels.await_ready()?;
        Ok(sentinels)
    }

    /// Waits until each sentinel knows the replica and the others.
    fn await_ready(&self) -> Result<()> {
        let start = Instant::now();
        for (sentinel, _) in &self.each {
            loop {
                let reply = sentinel.command(&format!("SENTINEL MASTER {NAME}"))?;
                let fields: Vec<_> = reply.lines().filter(|line| !line.starts_with('$')).collect();
                let has = |field: &str, value: &str| fields.windows(2).any(|pair| pair == [field, value]);
                if has("num-slaves", "1") && has("num-other-sentinels", &(SENTINELS - 1).to_string()) {
                    break;
                }
                ensure!(start.elapsed() < READY_WITHIN, "the sentinels are not ready: {reply}");
                sleep(Duration::from_millis(10));
            }
        }
        Ok(())
    }

    /// The address for caches.
    pub(crate) fn url(&self) -> String {
        let hosts: Vec<_> = self.each.iter().map(|(_, port)| format!("127.0.0.1:{port}")).collect();
        format!("redis+sentinel://{}/{NAME}", hosts.join(","))
    }

    pub(crate) fn primary(&self) -> &RedisServer {
        &self.primary
    }

    pub(crate) fn sentinels(&self) -> impl Iterator<Item = &RedisServer> {
        self.each.iter().map(|(sentinel, _)| sentinel)
    }
}

fn start_sentinel(program: &Path, primary: u16) -> Result<(RedisServer, u16)> {
    let mut failed = None;
    for _ in 0..ATTEMPTS {
        let port = free_address()?.port();
        let options = [port, primary].map(|port| port.to_string());
        let options = options.each_ref().map(String::as_str);
        match RedisServer::start_by(sentinel_command, program.to_owned(), &options) {
            Ok(sentinel) => return Ok((sentinel, port)),
            Err(error) => failed = Some(error),
        }
    }
    Err(failed.context("no attempt")?).context("cannot start a sentinel on a port")
}

/// The command that starts a sentinel. It writes to its configuration. The options are its port and that of the primary.
fn sentinel_command(program: &Path, folder: &Path, options: &[String]) -> Command {
    let [port, primary] = options else { panic!("two options, got {options:?}") };
    let path = folder.join("sentinel.conf");
    let (socket, folder) = (folder.join(SOCKET), folder.display());
    let text = format!(
        "port {port}\nbind 127.0.0.1\nunixsocket {}\ndir {folder}\nsentinel monitor {NAME} 127.0.0.1 {primary} 2\n",
        socket.display()
    );
    std::fs::write(&path, text).expect("the folder is writable");
    let mut command = Command::new(program);
    command.arg(path).arg("--sentinel");
    command
}

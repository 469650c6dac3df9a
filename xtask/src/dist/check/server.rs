//! The cache server of an installed package, as systemd would start it: by its unit, on a socket, as a user without rights.

use super::in_root;
use super::root::Root;
use crate::dist::output;
use anyhow::{Context, Result, bail, ensure};
use larder_process::Running;
use std::io::{BufRead, BufReader, Read};
use std::net::TcpListener;
use std::process::{Command, Stdio};
use std::sync::mpsc;
use std::time::Duration;

/// One of the numbers that systemd gives to users who exist while their service runs.
pub(super) const USER: u32 = 61_200;
pub(super) const DEADLINE: Duration = Duration::from_secs(30);

/// A running server.
pub(super) struct InstalledServer {
    process: Running,
    port: String,
}

impl InstalledServer {
    /// Starts what the unit says. It begins when somebody connects.
    pub(super) fn start(root: &Root) -> Result<InstalledServer> {
        let unit = std::fs::read_to_string(root.file("/usr/lib/systemd/system/larder-server.service"))?;
        let line = unit.lines().find_map(|line| line.strip_prefix("ExecStart="));
        // The copy of the options that only the service can read is here the file itself.
        let line =
            line.context("the unit has no ExecStart")?.replace("${CREDENTIALS_DIRECTORY}", "/etc/larder");
        let chroot = in_root(root.path(), USER);
        // Another process may take the port before this one does.
        for _ in 0..10 {
            let port = TcpListener::bind("127.0.0.1:0")?.local_addr()?.port().to_string();
            let mut activate = Command::new("systemd-socket-activate");
            activate
                .arg(format!("--listen=127.0.0.1:{port}"))
                .arg(chroot.get_program())
                .args(chroot.get_args());
            activate.args(line.split(' ')).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
            let mut process = Running::start(&mut activate).context("cannot run systemd-socket-activate")?;
            let errors = process.child().stderr.take().context("stderr is piped")?;
            if first_line(errors, "Listening on ").is_ok() {
                return Ok(InstalledServer { process, port });
            }
        }
        bail!("systemd-socket-activate does not listen")
    }

    /// Sends a command by redis-cli, and compares the reply.
    pub(super) fn expect(&self, words: &[&str], reply: &str) -> Result<()> {
        let printed = output(Command::new("redis-cli").args(["-p", &self.port]).args(words))?;
        ensure!(printed.trim_end() == reply, "{words:?}: {printed:?}, expected {reply:?}");
        Ok(())
    }

    /// Stops it as systemd does.
    pub(super) fn stop(mut self) -> Result<()> {
        self.process.terminate();
        let status = self.process.wait_within(DEADLINE)?.context("it does not stop")?;
        ensure!(status.success(), "the server ended with {status}");
        Ok(())
    }
}

/// Waits for the first line of an output that begins so, and returns the rest of it. What follows is read and forgotten.
pub(super) fn first_line(output: impl Read + Send + 'static, start: &'static str) -> Result<String> {
    let (send, first) = mpsc::channel();
    std::thread::spawn(move || {
        for line in BufReader::new(output).lines().map_while(Result::ok) {
            if let Some(rest) = line.strip_prefix(start) {
                _ = send.send(rest.to_owned());
            }
        }
    });
    first.recv_timeout(DEADLINE).with_context(|| format!("no line begins with {start:?}"))
}

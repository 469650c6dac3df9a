//! Servers as child processes: those of this executable, scripts in other languages, and programs.

use crate::serve::LISTENING;
use crate::suite::server::larder;
use crate::tool::{await_listener, free_address};
use anyhow::{Context, Result};
use larder_process::{Running, find_program};
use std::ffi::OsStr;
use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::path::Path;
use std::process::{ChildStdin, Command, Stdio};
use std::time::Duration;
use tempfile::TempDir;

/// How long a server may take to start.
const PATIENCE: Duration = Duration::from_secs(20);

/// A server in a process of its own. Dropping it ends the process.
pub(crate) struct Child {
    address: SocketAddr,
    running: Running,
    _stdin: Option<ChildStdin>,
    _folder: Option<TempDir>,
}

impl Child {
    /// Starts one of the servers of `larder-bench serve`.
    pub(crate) fn serve(arguments: &[impl AsRef<OsStr>]) -> Result<Child> {
        let program = std::env::current_exe().context("cannot find this program")?;
        let mut command = Command::new(&program);
        // Where the server has its files: it is killed, so that it cannot remove them.
        let folder = tempfile::tempdir()?;
        command.arg("serve").args(arguments).env("TMPDIR", folder.path());
        Self::announced(&mut command, Some(folder))
    }

    /// Starts a script that writes `listening ADDRESS`.
    pub(super) fn script(interpreter: &str, script: &str, arguments: &[&str]) -> Result<Child> {
        let program = find_program(interpreter).with_context(|| format!("{interpreter} is not installed"))?;
        let folder = tempfile::tempdir()?;
        let path = folder.path().join("script");
        std::fs::write(&path, script)?;
        Self::announced(Command::new(program).arg(path).args(arguments), Some(folder))
    }

    /// Starts redis-server without persistence on a free port.
    pub(super) fn redis() -> Result<Child> {
        let program = find_program("redis-server").context("redis-server is not installed")?;
        let folder = tempfile::tempdir()?;
        let address = free_address()?;
        let mut command = Command::new(program);
        command.args(["--bind", "127.0.0.1", "--port", &address.port().to_string(), "--save", ""]);
        command.args(["--appendonly", "no", "--dir"]).arg(folder.path());
        Self::silent(&mut command, address, folder)
    }

    /// Starts the shortener of this project with a new database.
    pub(super) fn larder_links() -> Result<Child> {
        let folder = tempfile::tempdir()?;
        let database = format!("sqlite:{}", folder.path().join("links.db").display());
        let address = free_address()?;
        let mut command = Command::new(larder()?);
        command.args(["links", "--listen", &address.to_string(), "--database", &database]);
        Self::silent(&mut command, address, folder)
    }

    /// Starts a program and waits until its address accepts connections. The folder is removed with the child.
    pub(crate) fn silent(command: &mut Command, address: SocketAddr, folder: TempDir) -> Result<Child> {
        let name = name_of(command);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let running = Running::start(command).with_context(|| format!("cannot start {name}"))?;
        await_listener(address, PATIENCE).with_context(|| format!("{name} does not start"))?;
        Ok(Child { address, running, _stdin: None, _folder: Some(folder) })
    }

    /// Starts a program and reads its address.
    fn announced(command: &mut Command, folder: Option<TempDir>) -> Result<Child> {
        let name = name_of(command);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut running = Running::start(command).with_context(|| format!("cannot start {name}"))?;
        let stdin = running.child().stdin.take();
        let mut line = String::new();
        // Ends when the process does.
        BufReader::new(running.child().stdout.take().context("stdout is piped")?).read_line(&mut line)?;
        let address = line.strip_prefix(LISTENING).and_then(|address| address.trim().parse().ok());
        let address = address.with_context(|| format!("{name} ended at its start"))?;
        Ok(Child { address, running, _stdin: stdin, _folder: folder })
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// Stops the process until it is dropped: the system completes its connections, but nobody accepts them.
    pub(super) fn pause(&self) {
        self.running.pause();
    }

    /// The id of the process.
    pub(crate) fn id(&self) -> u32 {
        self.running.id()
    }
}

fn name_of(command: &Command) -> String {
    Path::new(command.get_program()).file_name().unwrap_or_default().to_string_lossy().into_owned()
}

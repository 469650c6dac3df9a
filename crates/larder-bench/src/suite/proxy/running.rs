//! A running proxy: its start, what it uses, and its end.

use super::peer::{Peer, Setup, open_to_all};
use crate::tool::{self, Certificate, free_address, written_bytes};
use anyhow::{Context, Result, bail};
use larder_process::Running;
use std::fs::File;
use std::net::{SocketAddr, TcpStream};
use std::process::Stdio;
use std::thread::sleep;
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// How long a proxy may take to start and to end.
const PATIENCE: Duration = Duration::from_secs(20);
const PAUSE: Duration = Duration::from_millis(5);
/// How often a proxy is started again that ends at its start: somebody else may have taken its port.
const ATTEMPTS: usize = 3;

/// A proxy in front of an origin. Dropping it ends its processes.
pub(super) struct Proxy {
    address: SocketAddr,
    running: Running,
    _folder: TempDir,
}

impl Proxy {
    /// Starts it on a free port and waits until it accepts connections.
    ///
    /// # Errors
    /// If it does not start: then with the last line that it wrote.
    pub(super) fn start(peer: Peer, origin: SocketAddr, certificate: Option<&Certificate>) -> Result<Proxy> {
        let mut attempt = Proxy::attempt(peer, origin, certificate);
        for _ in 1..ATTEMPTS {
            if attempt.is_ok() {
                break;
            }
            attempt = Proxy::attempt(peer, origin, certificate);
        }
        attempt
    }

    fn attempt(peer: Peer, origin: SocketAddr, certificate: Option<&Certificate>) -> Result<Proxy> {
        let name = peer.subject();
        let folder = tempfile::tempdir()?;
        open_to_all(folder.path())?;
        let (address, log) = (free_address()?, folder.path().join("output"));
        let setup = Setup { folder: folder.path(), address, origin, certificate };
        let mut command = peer.command(setup)?;
        command.current_dir(folder.path()).stdin(Stdio::null()).stdout(Stdio::null());
        command.stderr(File::create(&log)?);
        let running = Running::start(&mut command).with_context(|| format!("cannot start {name}"))?;
        let mut proxy = Proxy { address, running, _folder: folder };
        let start = Instant::now();
        while TcpStream::connect(address).is_err() {
            if proxy.running.child().try_wait()?.is_some() || start.elapsed() > PATIENCE {
                let log = std::fs::read_to_string(log).unwrap_or_default();
                let last = log.lines().rfind(|line| !line.trim().is_empty()).unwrap_or("no message");
                bail!("{name} does not start: {last}");
            }
            sleep(PAUSE);
        }
        Ok(proxy)
    }

    pub(super) fn address(&self) -> SocketAddr {
        self.address
    }

    /// The processor time of all processes and threads of the proxy.
    pub(super) fn cpu(&self) -> Duration {
        tool::Usage::of(self.running.id()).cpu
    }

    /// The memory of all processes of the proxy.
    pub(super) fn memory_bytes(&self) -> u64 {
        written_bytes(self.running.id())
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        // The first process ends its children before it ends; a kill would leave them.
        self.running.terminate();
        _ = self.running.wait_within(PATIENCE);
    }
}

//! A memcached on a Unix socket in a temporary folder.

use anyhow::{Context, Result, ensure};
use larder_process::{Running, find_program};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};
use tempfile::TempDir;

const PATIENCE: Duration = Duration::from_secs(20);
const PAUSE: Duration = Duration::from_millis(5);

/// A running memcached. Dropping it ends it and removes its folder.
pub(crate) struct Memcached {
    _running: Running,
    folder: TempDir,
}

impl Memcached {
    /// Starts it and waits until it accepts connections.
    ///
    /// # Errors
    /// If it is not installed or does not start.
    pub(crate) fn start() -> Result<Self> {
        let program = find_program("memcached").context("memcached is not installed")?;
        let folder = tempfile::tempdir()?;
        let mut command = Command::new(program);
        // Only root needs the flag -u, and only root's is read.
        command.args(["-u", "root", "-s"]).arg(folder.path().join("socket"));
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let memcached = Memcached { _running: Running::start(&mut command)?, folder };
        let start = Instant::now();
        while UnixStream::connect(memcached.socket()).is_err() {
            ensure!(start.elapsed() < PATIENCE, "memcached does not start");
            sleep(PAUSE);
        }
        Ok(memcached)
    }

    pub(crate) fn socket(&self) -> PathBuf {
        self.folder.path().join("socket")
    }
}

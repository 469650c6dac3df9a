//! A redis-server of the bench's own, without persistence, ended with it.

use anyhow::{Context, Result, bail};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

const START_TIMEOUT: Duration = Duration::from_secs(10);

pub(super) struct RedisServer {
    folder: PathBuf,
    child: Child,
}

impl RedisServer {
    /// None if redis-server is not installed.
    pub(super) fn start() -> Result<Option<Self>> {
        let path = std::env::var_os("PATH").unwrap_or_default();
        let program =
            std::env::split_paths(&path).map(|folder| folder.join("redis-server")).find(|p| p.is_file());
        let Some(program) = program else { return Ok(None) };
        let folder = std::env::temp_dir().join(format!(
            "larder-bench-{}-{:x}",
            std::process::id(),
            rand::random::<u64>()
        ));
        std::fs::create_dir(&folder).with_context(|| format!("cannot make {}", folder.display()))?;
        let mut command = Command::new(program);
        command
            .args(["--port", "0", "--save", "", "--appendonly", "no", "--unixsocket"])
            .arg(socket(&folder));
        command.arg("--dir").arg(&folder).stdin(Stdio::null()).stdout(Stdio::null());
        let child = command.spawn().context("cannot start redis-server")?;
        let server = RedisServer { folder, child };
        let began = Instant::now();
        while UnixStream::connect(socket(&server.folder)).is_err() {
            if began.elapsed() > START_TIMEOUT {
                bail!("redis-server does not listen");
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        Ok(Some(server))
    }

    pub(super) fn url(&self) -> String {
        format!("redis+unix://{}", socket(&self.folder).display())
    }
}

fn socket(folder: &Path) -> PathBuf {
    folder.join("redis.sock")
}

impl Drop for RedisServer {
    fn drop(&mut self) {
        // It may have ended by itself; its folder holds nothing but the socket.
        _ = self.child.kill();
        _ = self.child.wait();
        _ = std::fs::remove_dir_all(&self.folder);
    }
}

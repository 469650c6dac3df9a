//! Runs the examples of the library crates, which must be built already.

use crate::workspace::{array, members, metadata, root, target, text};
use anyhow::{Context, Result, bail};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// The crates whose examples run.
const CRATES: &[&str] = &["larder", "larder-engine"];
/// Examples that run until they are stopped. With `--check` they end as soon as they listen.
const SERVICES: &[&str] = &["axum_service", "with_dashboard"];
/// The example that requires Redis.
const NEEDS_REDIS: &str = "two_nodes";
const DEADLINE: Duration = Duration::from_secs(30);

/// Runs every example to its end. Returns the number of examples that ran, and those skipped because of a missing
/// program.
pub(crate) fn run() -> Result<(u64, Vec<String>)> {
    let (mut ran, mut skipped) = (0, Vec::new());
    for name in examples()? {
        let mut command = Command::new(target().join("debug/examples").join(&name));
        let redis = match name.as_str() {
            NEEDS_REDIS => match Redis::start()? {
                Some(redis) => Some(redis),
                None => {
                    skipped.push(format!("example {name}: redis-server is not installed"));
                    continue;
                }
            },
            _ => None,
        };
        command
            .args(redis.as_ref().map(Redis::address))
            .args(SERVICES.contains(&&*name).then_some("--check"));
        let child = command.stdin(Stdio::null()).stdout(Stdio::null()).spawn();
        wait(child.with_context(|| format!("cannot run example {name}"))?, &name)?;
        println!("example {name} ... ok");
        ran += 1;
    }
    Ok((ran, skipped))
}

/// The names of the examples, sorted.
fn examples() -> Result<Vec<String>> {
    let metadata = metadata()?;
    let selected = members(&metadata).filter(|package| CRATES.contains(&text(&package["name"])));
    let targets = selected.flat_map(|package| array(&package["targets"]));
    let mut names: Vec<String> = targets
        .filter(|target| array(&target["kind"]).any(|kind| kind == "example"))
        .map(|target| text(&target["name"]).to_owned())
        .collect();
    names.sort();
    Ok(names)
}

fn wait(mut child: Child, name: &str) -> Result<()> {
    let start = Instant::now();
    loop {
        match child.try_wait()? {
            Some(status) if status.success() => return Ok(()),
            Some(status) => bail!("example {name} failed: {status}"),
            None if start.elapsed() > DEADLINE => {
                child.kill()?;
                child.wait()?;
                bail!("example {name} did not end within {DEADLINE:?}");
            }
            None => std::thread::sleep(Duration::from_millis(20)),
        }
    }
}

/// A redis-server on a Unix socket, stopped when it is dropped.
struct Redis {
    server: Child,
    socket: PathBuf,
}

impl Redis {
    /// `None` if redis-server is not installed.
    fn start() -> Result<Option<Redis>> {
        let socket = std::env::temp_dir().join(format!("larder-example-{}.sock", std::process::id()));
        let mut command = Command::new("redis-server");
        command.args(["--port", "0", "--save", "", "--unixsocket"]).arg(&socket).current_dir(root());
        let server = match command.stdout(Stdio::null()).spawn() {
            Ok(server) => server,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error).context("cannot run redis-server"),
        };
        let redis = Redis { server, socket };
        let start = Instant::now();
        while !redis.is_listening() {
            if start.elapsed() > DEADLINE {
                bail!("redis-server did not open its socket within {DEADLINE:?}");
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        Ok(Some(redis))
    }

    fn is_listening(&self) -> bool {
        std::os::unix::net::UnixStream::connect(Path::new(&self.socket)).is_ok()
    }

    fn address(&self) -> String {
        format!("redis+unix://{}", self.socket.display())
    }
}

impl Drop for Redis {
    fn drop(&mut self) {
        // The server may have ended already.
        _ = self.server.kill();
        _ = self.server.wait();
        _ = std::fs::remove_file(&self.socket);
    }
}

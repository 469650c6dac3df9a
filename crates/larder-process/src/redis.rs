//! A server of the Redis protocol without persistence, on a Unix socket in a temporary folder.

use crate::Running;
use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// The time limit for the reply to the first PING and to each later command.
const TIMEOUT: Duration = Duration::from_secs(20);

/// The command that starts a program with further options. The server must listen on [`SOCKET`] in this folder, and may
/// have its files there.
pub type StartCommand = fn(program: &Path, folder: &Path, options: &[String]) -> Command;

/// The name of the socket in the folder of a server.
pub const SOCKET: &str = "redis.sock";

/// A redis-server, or another server of its protocol. Dropping it ends the server and removes its folder.
#[derive(Debug)]
pub struct RedisServer {
    program: PathBuf,
    start: StartCommand,
    options: Vec<String>,
    folder: TempDir,
    running: Option<Running>,
}

impl RedisServer {
    /// Starts a server and waits until it replies. `program` is the path of redis-server.
    ///
    /// # Errors
    /// If the server cannot be started, ends, or does not reply within 20 s.
    pub fn start(program: PathBuf) -> io::Result<Self> {
        Self::start_with(program, &[])
    }

    /// The same with further options of its command line, which override the others.
    ///
    /// # Errors
    /// As [`RedisServer::start`].
    pub fn start_with(program: PathBuf, options: &[&str]) -> io::Result<Self> {
        Self::start_by(redis_command, program, options)
    }

    /// Starts a server that has another command line than redis-server.
    ///
    /// # Errors
    /// As [`RedisServer::start`].
    pub fn start_by(start: StartCommand, program: PathBuf, options: &[&str]) -> io::Result<Self> {
        let options = options.iter().map(|option| (*option).to_owned()).collect();
        let mut server = RedisServer { program, start, options, folder: tempfile::tempdir()?, running: None };
        server.run()?;
        Ok(server)
    }

    /// Starts another server of the same program.
    ///
    /// # Errors
    /// As [`RedisServer::start`].
    pub fn start_another(&self, options: &[&str]) -> io::Result<Self> {
        Self::start_by(self.start, self.program.clone(), options)
    }

    /// The URL for clients.
    pub fn url(&self) -> String {
        format!("redis+unix://{}", self.socket().display())
    }

    /// The path of the socket.
    pub fn socket(&self) -> PathBuf {
        self.folder().join(SOCKET)
    }

    /// The folder of the socket and the dump.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// The process; `None` after [`RedisServer::kill`].
    pub fn process(&self) -> Option<&Running> {
        self.running.as_ref()
    }

    /// Kills the server. Its address then refuses connections.
    pub fn kill(&mut self) {
        self.running = None;
        _ = std::fs::remove_file(self.socket());
    }

    /// Ends the server by SIGTERM, which lets it write what it keeps.
    ///
    /// # Errors
    /// If it still runs after 20 s.
    pub fn stop(&mut self) -> io::Result<()> {
        let Some(running) = &mut self.running else { return Ok(()) };
        running.terminate();
        if running.wait_within(TIMEOUT)?.is_none() {
            let text = format!("{} does not end", self.program.display());
            return Err(io::Error::new(io::ErrorKind::TimedOut, text));
        }
        self.kill();
        Ok(())
    }

    /// Starts the server again at the same address, with the content of `dump.rdb` if its folder has that file.
    ///
    /// # Errors
    /// As [`RedisServer::start`].
    pub fn run(&mut self) -> io::Result<()> {
        self.kill();
        let mut command = (self.start)(&self.program, self.folder(), &self.options);
        self.running = Some(Running::start(command.stdin(Stdio::null()).stdout(Stdio::null()))?);
        self.await_ping()
    }

    /// Sends an inline command and returns the raw reply, which must arrive in one read.
    ///
    /// # Errors
    /// If the server does not reply within 20 s.
    pub fn command(&self, line: &str) -> io::Result<String> {
        let mut stream = uninterrupted(|| UnixStream::connect(self.socket()))?;
        stream.set_read_timeout(Some(TIMEOUT))?;
        stream.write_all(format!("{line}\r\n").as_bytes())?;
        let mut reply = vec![0; 1 << 16];
        let length = uninterrupted(|| stream.read(&mut reply))?;
        Ok(String::from_utf8_lossy(&reply[..length]).into_owned())
    }

    fn await_ping(&mut self) -> io::Result<()> {
        let start = Instant::now();
        while self.command("PING").ok().as_deref() != Some("+PONG\r\n") {
            let ended = self.running.as_mut().map(|running| running.child().try_wait()).transpose()?;
            if let Some(status) = ended.flatten() {
                return Err(io::Error::other(format!("{} ended: {status}", self.program.display())));
            }
            if start.elapsed() > TIMEOUT {
                let text = format!("{} does not reply", self.program.display());
                return Err(io::Error::new(io::ErrorKind::TimedOut, text));
            }
            sleep(Duration::from_millis(5));
        }
        Ok(())
    }
}

/// Repeats a call of the system that ends without a result when the process is stopped and resumes, as a read with a time
/// limit does.
fn uninterrupted<T>(mut call: impl FnMut() -> io::Result<T>) -> io::Result<T> {
    loop {
        match call() {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            result => return result,
        }
    }
}

/// The command that starts redis-server, or another server with its options.
pub fn redis_command(program: &Path, folder: &Path, options: &[String]) -> Command {
    let mut command = Command::new(program);
    command
        .args(["--port", "0", "--save", "", "--appendonly", "no", "--unixsocket"])
        .arg(folder.join(SOCKET));
    command.arg("--dir").arg(folder).args(options);
    command
}

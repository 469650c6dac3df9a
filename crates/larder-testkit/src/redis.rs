//! A real redis-server for one test: on a Unix socket in a folder of its own, ended with the test; and every way in
//! which a server fails.

use crate::program::{Running, program};
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// How long a server may take to answer its first PING.
const START_TIMEOUT: Duration = Duration::from_secs(20);

/// A redis-server of the test's own.
#[derive(Debug)]
pub struct RedisServer {
    program: PathBuf,
    folder: TempDir,
    running: Option<Running>,
}

impl RedisServer {
    /// Starts a server without persistence; `None` if redis-server is not installed, see [`program`].
    pub fn start() -> Option<Self> {
        let program = program("redis-server")?;
        let folder = tempfile::tempdir().expect("a temporary folder");
        let mut server = RedisServer { program, folder, running: None };
        server.restart();
        Some(server)
    }

    /// The address for clients.
    pub fn url(&self) -> String {
        format!("redis+unix://{}", self.socket().display())
    }

    /// The path of its socket.
    pub fn socket(&self) -> PathBuf {
        self.folder.path().join("redis.sock")
    }

    /// Ends the server at once and leaves its address dead.
    pub fn kill(&mut self) {
        self.running = None;
        _ = std::fs::remove_file(self.socket());
    }

    /// Starts the server anew, empty, at the same address.
    pub fn restart(&mut self) {
        self.kill();
        _ = std::fs::remove_file(self.dump());
        self.run();
    }

    /// Keeps what the server holds now, for [`RedisServer::restart_from_snapshot`].
    pub fn take_snapshot(&self) {
        assert_eq!(self.command("SAVE"), "+OK\r\n");
        std::fs::rename(self.dump(), self.snapshot()).expect("the server saved");
    }

    /// Ends the server at once and starts it with what it held when the snapshot was taken: it has forgotten what it
    /// acknowledged since.
    ///
    /// # Panics
    /// If there is no snapshot.
    pub fn restart_from_snapshot(&mut self) {
        self.kill();
        std::fs::copy(self.snapshot(), self.dump()).expect("a snapshot was taken");
        self.run();
    }

    /// Whether the server has no memory left: writes are refused with OOM, reads and removals go on.
    pub fn set_full(&self, full: bool) {
        let limit = if full { "1" } else { "0" };
        assert_eq!(self.command(&format!("CONFIG SET maxmemory {limit}")), "+OK\r\n");
    }

    /// Whether the server is a replica, whose primary is out of reach: writes are refused with READONLY, reads go on.
    pub fn set_read_only(&self, read_only: bool) {
        let primary = if read_only { "127.0.0.1 1" } else { "NO ONE" };
        assert_eq!(self.command(&format!("REPLICAOF {primary}")), "+OK\r\n");
    }

    /// Makes the server forget the scripts that it was given.
    pub fn forget_scripts(&self) {
        assert_eq!(self.command("SCRIPT FLUSH"), "+OK\r\n");
    }

    fn dump(&self) -> PathBuf {
        self.folder.path().join("dump.rdb")
    }

    fn snapshot(&self) -> PathBuf {
        self.folder.path().join("snapshot.rdb")
    }

    fn run(&mut self) {
        let mut command = Command::new(&self.program);
        command.args(["--port", "0", "--save", "", "--appendonly", "no", "--unixsocket"]).arg(self.socket());
        command.arg("--dir").arg(self.folder.path()).stdin(Stdio::null()).stdout(Stdio::null());
        self.running = Some(Running::start(&mut command));
        self.await_ping();
    }

    /// Stops the server from running: it holds its connections and answers nothing.
    pub fn pause(&self) {
        self.running.as_ref().expect("the server runs").pause();
    }

    /// Lets a paused server run again.
    pub fn resume(&self) {
        self.running.as_ref().expect("the server runs").resume();
    }

    /// Lets time pass for every key: each has so much less to live, or is gone.
    ///
    /// # Panics
    /// If the server does not answer.
    pub fn pass(&self, time: Duration) {
        const SCRIPT: &str = "for _,key in ipairs(redis.call('KEYS','*')) do \
            local left=redis.call('PTTL',key) \
            if left>=0 then redis.call('PEXPIRE',key,left-ARGV[1]) end end";
        let script: String = SCRIPT.split_whitespace().collect::<Vec<_>>().join(" ");
        let reply = self.command(&format!("EVAL \"{script}\" 0 {}", time.as_millis()));
        assert_eq!(reply, "$-1\r\n");
    }

    /// Sends one inline command and returns the raw reply, which must fit into one read.
    ///
    /// # Panics
    /// If the server does not answer.
    pub fn command(&self, line: &str) -> String {
        self.try_command(line).expect("redis-server answers")
    }

    fn try_command(&self, line: &str) -> std::io::Result<String> {
        let mut stream = UnixStream::connect(self.socket())?;
        stream.set_read_timeout(Some(START_TIMEOUT))?;
        stream.write_all(format!("{line}\r\n").as_bytes())?;
        let mut reply = vec![0; 1 << 16];
        let length = stream.read(&mut reply)?;
        Ok(String::from_utf8_lossy(&reply[..length]).into_owned())
    }

    fn await_ping(&self) {
        let began = Instant::now();
        while self.try_command("PING").ok().as_deref() != Some("+PONG\r\n") {
            assert!(began.elapsed() < START_TIMEOUT, "redis-server did not start");
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

//! Processes of the binary, started without the settings of the caller, with their output in files.

use larder_testkit::{PATIENCE, Running, start, until};
use std::ffi::OsStr;
use std::fs::{File, read_to_string};
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// Any free port of this machine.
pub(crate) const FREE: &str = "127.0.0.1:0";

/// The binary, without the `LARDER_` variables of the environment.
pub(crate) fn larder<S: AsRef<OsStr>>(words: impl IntoIterator<Item = S>) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_larder"));
    for (name, _) in std::env::vars_os() {
        if name.to_string_lossy().starts_with("LARDER_") {
            command.env_remove(name);
        }
    }
    command.args(words);
    command
}

/// Runs a command to its end.
pub(crate) fn run(command: &mut Command) -> Ended {
    Process::start(command).end()
}

/// A running process, killed when dropped.
pub(crate) struct Process {
    running: Running,
    output: TempDir,
}

/// The exit code and the output of a process.
#[derive(Debug)]
pub(crate) struct Ended {
    /// `None` if a signal ended the process.
    pub(crate) code: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
    /// How long the test waited for its end.
    pub(crate) waited: Duration,
}

impl Process {
    pub(crate) fn start(command: &mut Command) -> Process {
        let output = tempfile::tempdir().expect("a temporary folder");
        let file = |name| File::create(output.path().join(name)).expect("a file for the output");
        command.stdin(Stdio::null()).stdout(file("stdout")).stderr(file("stderr"));
        // Files that it creates in its folder are removed with the test.
        if command.get_current_dir().is_none() {
            command.current_dir(output.path());
        }
        Process { running: start(command), output }
    }

    pub(crate) fn running(&mut self) -> &mut Running {
        &mut self.running
    }

    pub(crate) fn stderr(&self) -> String {
        self.read("stderr")
    }

    /// Waits for a complete line on stdout with this start, and returns the rest of the line.
    pub(crate) fn await_line(&mut self, start: &str) -> String {
        until(&format!("a line that begins with {start:?}"), || {
            // Check before reading the output, so that output from before the end is not missed.
            let ended = self.running.child().try_wait().expect("a child can be waited for");
            let rest = self.printed(start);
            let ended_without_line = ended.is_some() && rest.is_none();
            assert!(
                !ended_without_line,
                "ended with {ended:?} after {:?} and {:?}",
                self.read("stdout"),
                self.stderr()
            );
            rest
        })
    }

    /// The rest of a complete line on stdout with this start, if it is there already.
    fn printed(&self, start: &str) -> Option<String> {
        let stdout = self.read("stdout");
        let mut whole = stdout.split_inclusive('\n').filter_map(|line| line.strip_suffix('\n'));
        whole.find_map(|line| line.strip_prefix(start)).map(str::to_owned)
    }

    /// Waits for the end of a process that ends by itself or got a signal.
    pub(crate) fn end(self) -> Ended {
        self.end_within(PATIENCE)
    }

    pub(crate) fn end_within(mut self, limit: Duration) -> Ended {
        let start = Instant::now();
        let status = self.running.wait_within(limit).expect("a child can be waited for");
        let status = status.unwrap_or_else(|| panic!("no end within {limit:?}: {}", self.read("stdout")));
        let waited = start.elapsed();
        Ended { code: status.code(), stdout: self.read("stdout"), stderr: self.read("stderr"), waited }
    }

    fn read(&self, name: &str) -> String {
        read_to_string(self.output.path().join(name)).expect("the output is text")
    }
}

/// A running `larder up`.
pub(crate) struct Up {
    pub(crate) process: Process,
    pub(crate) resp: SocketAddr,
    /// That of the cache server with TLS, if it has one.
    pub(crate) encrypted: Option<SocketAddr>,
    pub(crate) http: SocketAddr,
    pub(crate) admin: SocketAddr,
}

impl Up {
    /// Starts all parts on free ports, with the data in this folder.
    pub(crate) fn start(data: &Path) -> Up {
        Up::start_as(larder(["up"]), data)
    }

    /// Starts with a configuration file of this content.
    pub(crate) fn start_with(data: &Path, config: &str) -> Up {
        let file = data.with_extension("toml");
        std::fs::write(&file, config).expect("the file can be written");
        let mut command = larder(["up", "--config"]);
        command.arg(file);
        Up::start_as(command, data)
    }

    /// Starts with another command, to which the flags are added.
    pub(crate) fn start_as(mut command: Command, data: &Path) -> Up {
        command.args(["--resp", FREE, "--http", FREE, "--admin", FREE, "--data"]).arg(data);
        let mut process = Process::start(&mut command);
        let mut address = |start: &str| {
            let text = process.await_line(start);
            text.trim_end_matches('/').parse().unwrap_or_else(|error| panic!("{text:?}: {error}"))
        };
        let resp = address("  cache server   redis://");
        let http = address("  short links    http://");
        let admin = address("  dashboard      http://");
        let encrypted = process.printed("  cache server   rediss://");
        let encrypted = encrypted.map(|address| address.parse().expect("an address"));
        Up { process, resp, encrypted, http, admin }
    }

    /// Kills the process, as a crash would: it cannot write anything.
    pub(crate) fn kill(mut self) {
        self.process.running().kill();
    }

    /// Sends SIGTERM, and checks that the process ends cleanly and in time.
    pub(crate) fn stop(self) -> Ended {
        self.process.running.terminate();
        self.process.end().assert_clean_stop()
    }
}

impl Ended {
    /// Checks the guarantees for SIGTERM and Ctrl-C.
    #[track_caller]
    pub(crate) fn assert_clean_stop(self) -> Ended {
        assert!(self.waited < Duration::from_secs(5), "stopping took {:?}", self.waited);
        assert_eq!(self.code, Some(0), "{self:?}");
        assert!(!self.stderr.contains('\x1b'), "colours without a terminal: {self:?}");
        self
    }

    /// Checks that the process failed with this message in one line.
    #[track_caller]
    pub(crate) fn assert_failure(&self, message: &str) {
        self.assert_ended(1, message);
    }

    /// Checks that the process ended because of wrong usage, with this message in one line.
    #[track_caller]
    pub(crate) fn assert_wrong_usage(&self, message: &str) {
        self.assert_ended(2, message);
    }

    #[track_caller]
    fn assert_ended(&self, code: i32, message: &str) {
        assert_eq!((self.code, self.stderr.trim_end_matches('\n')), (Some(code), message), "{self:?}");
        assert!(!message.contains('\n'));
    }
}

/// A running `larder server`, and its address.
pub(crate) fn start_server<S: AsRef<OsStr>>(flags: impl IntoIterator<Item = S>) -> (Process, SocketAddr) {
    let mut command = larder(["server", "--listen", FREE]);
    command.args(flags);
    let mut process = Process::start(&mut command);
    let address = process.await_line("larder server listens on ");
    (process, address.parse().expect("an address"))
}

/// A running `larder links`, and its address.
pub(crate) fn start_links(database: &Path, redis: Option<&str>) -> (Process, SocketAddr) {
    start_links_with(database, redis.map(|url| format!("--redis={url}")))
}

/// Starts a shortener with further flags.
pub(crate) fn start_links_with(
    database: &Path,
    flags: impl IntoIterator<Item = String>,
) -> (Process, SocketAddr) {
    let mut command = larder(["links", "--listen", FREE, "--database"]);
    command.arg(format!("sqlite:{}", database.display())).args(flags);
    let mut process = Process::start(&mut command);
    let address = process.await_line("larder links listens on http://");
    (process, address.trim_end_matches('/').parse().expect("an address"))
}

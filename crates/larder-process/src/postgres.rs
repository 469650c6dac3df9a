//! A PostgreSQL of its owner's own: a cluster in a temporary folder, reached over its Unix socket, and over TCP if asked.

use crate::{Running, find_program};
use rustix::process::geteuid;
use std::fs::{File, Permissions};
use std::io::{Error, Result};
use std::os::unix::fs::{PermissionsExt, chown};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// The program and its Debian package. Debian has it outside of `PATH`, below its version.
pub const POSTGRES: (&str, &str) = ("/usr/lib/postgresql/15/bin/postgres", "postgresql-15");
/// The superuser of the cluster.
pub const POSTGRES_USER: &str = "larder";

/// How long the cluster may take to be created, to start and to end.
const PATIENCE: Duration = Duration::from_secs(30);
const PAUSE: Duration = Duration::from_millis(5);

/// A running cluster. Dropping it ends it and removes its folder.
#[derive(Debug)]
pub struct PostgresServer {
    running: Option<Running>,
    options: Vec<String>,
    /// The address that it listens on besides its socket; empty for none.
    listens_on: &'static str,
    /// The port, which is a part of the name of the socket too.
    port: u16,
    user: Option<User>,
    folder: TempDir,
}

/// The user that runs the server: PostgreSQL refuses to run as root.
#[derive(Clone, Copy, Debug)]
struct User {
    uid: u32,
    gid: u32,
}

impl PostgresServer {
    /// Whether PostgreSQL 15 is installed.
    pub fn is_installed() -> bool {
        program("postgres").is_some()
    }

    /// Creates a cluster with the defaults of PostgreSQL, starts it, and waits until it accepts connections.
    ///
    /// # Errors
    /// If it is not installed, or does not start: then with the last line of its log.
    pub fn start() -> Result<Self> {
        Self::start_with(&[])
    }

    /// The same with settings such as `fsync=off`.
    ///
    /// # Errors
    /// As [`PostgresServer::start`].
    pub fn start_with(settings: &[&str]) -> Result<Self> {
        let folder = tempfile::tempdir()?;
        let user = if geteuid().is_root() { Some(User::postgres()?) } else { None };
        if let Some(User { uid, gid }) = user {
            chown(folder.path(), Some(uid), Some(gid))?;
        }
        let options = settings.iter().flat_map(|setting| ["-c", setting]).map(str::to_owned).collect();
        let mut server = PostgresServer { running: None, options, listens_on: "", port: 5_432, user, folder };
        let mut create = server.command("initdb")?;
        create.args(["--username", POSTGRES_USER, "--auth", "trust", "--encoding", "UTF8", "--no-locale"]);
        create.args(["--no-sync", "--pgdata"]).arg(server.data());
        create.stdin(Stdio::null()).stdout(Stdio::null()).stderr(File::create(server.log())?);
        match Running::start(&mut create)?.wait_within(PATIENCE)? {
            Some(status) if status.success() => {}
            _ => return Err(server.error("initdb failed")),
        }
        server.restart()?;
        Ok(server)
    }

    /// The folder of its socket.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// The path of its socket.
    pub fn socket(&self) -> PathBuf {
        self.folder().join(format!(".s.PGSQL.{}", self.port))
    }

    /// The URL of one of its databases for clients.
    pub fn url(&self, user: &str, database: &str) -> String {
        let (folder, port) = (self.folder().display(), self.port);
        format!("postgres:///{database}?host={folder}&port={port}&user={user}")
    }

    /// The id of the process whose children serve the connections; 0 after [`PostgresServer::kill`].
    pub fn id(&self) -> u32 {
        self.running.as_ref().map_or(0, Running::id)
    }

    /// Executes SQL as the superuser, and returns the rows of the last statement as text.
    ///
    /// # Errors
    /// If a statement fails: then with the message of the server.
    pub fn execute(&self, database: &str, sql: &str) -> Result<String> {
        let mut psql = self.command("psql")?;
        psql.args(["--no-psqlrc", "--quiet", "--tuples-only", "--no-align", "--set=ON_ERROR_STOP=1"]);
        psql.arg("--command").arg(sql).arg(self.url(POSTGRES_USER, database));
        let output = psql.stdin(Stdio::null()).output()?;
        if !output.status.success() {
            return Err(Error::other(String::from_utf8_lossy(&output.stderr).trim().to_owned()));
        }
        Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
    }

    /// Ends all of its processes with SIGKILL, like a crash.
    pub fn kill(&mut self) {
        let Some(mut running) = self.running.take() else { return };
        let children = format!("/proc/{0}/task/{0}/children", running.id());
        // Paused, it starts no child and learns of no death.
        running.pause();
        let children = std::fs::read_to_string(children).unwrap_or_default();
        let ids = children.split_ascii_whitespace().filter_map(|id| id.parse().ok());
        for child in ids.filter_map(rustix::process::Pid::from_raw) {
            _ = rustix::process::kill_process(child, rustix::process::Signal::KILL);
        }
        running.kill();
    }

    /// Starts it again, so that it listens on this port of 127.0.0.1 too.
    ///
    /// # Errors
    /// As [`PostgresServer::start`], also if the port is in use.
    pub fn listen(&mut self, port: u16) -> Result<()> {
        (self.listens_on, self.port) = ("127.0.0.1", port);
        self.restart()
    }

    /// Makes a file in its folder that only the server can read, and returns its path.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn private_file(&self, name: &str, content: &str) -> Result<PathBuf> {
        let path = self.folder().join(name);
        std::fs::write(&path, content)?;
        std::fs::set_permissions(&path, Permissions::from_mode(0o600))?;
        if let Some(User { uid, gid }) = self.user {
            chown(&path, Some(uid), Some(gid))?;
        }
        Ok(path)
    }

    /// Starts it again, with what its log and its files have, and waits until it accepts connections.
    ///
    /// # Errors
    /// As [`PostgresServer::start`].
    pub fn restart(&mut self) -> Result<()> {
        self.kill();
        _ = std::fs::remove_file(self.state());
        let mut serve = self.command("postgres")?;
        serve.arg("-D").arg(self.data()).arg("-k").arg(self.folder());
        serve.arg("-c").arg(format!("listen_addresses={}", self.listens_on));
        serve.arg("-c").arg(format!("port={}", self.port));
        serve
            .args(&self.options)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(File::create(self.log())?);
        let mut running = Running::start(&mut serve)?;
        let start = Instant::now();
        // The last line of the file is the state of the server.
        while !std::fs::read_to_string(self.state()).is_ok_and(|text| text.trim_end().ends_with("ready")) {
            if running.child().try_wait()?.is_some() || start.elapsed() > PATIENCE {
                return Err(self.error("PostgreSQL does not start"));
            }
            sleep(PAUSE);
        }
        self.running = Some(running);
        Ok(())
    }

    fn data(&self) -> PathBuf {
        self.folder().join("data")
    }

    fn state(&self) -> PathBuf {
        self.data().join("postmaster.pid")
    }

    fn log(&self) -> PathBuf {
        self.folder().join("log")
    }

    fn error(&self, what: &str) -> Error {
        let log = std::fs::read_to_string(self.log()).unwrap_or_default();
        Error::other(format!("{what}: {}", log.lines().last().unwrap_or("no message")))
    }

    fn command(&self, name: &str) -> Result<Command> {
        let missing = || Error::other(format!("{name} of PostgreSQL is not installed"));
        let mut command = Command::new(program(name).ok_or_else(missing)?);
        command.current_dir(self.folder());
        if let Some(User { uid, gid }) = self.user {
            command.uid(uid).gid(gid);
        }
        Ok(command)
    }
}

impl Drop for PostgresServer {
    fn drop(&mut self) {
        // An orderly end gives back the shared memory, which outlives a process that is killed.
        if let Some(running) = &mut self.running {
            running.interrupt();
            _ = running.wait_within(PATIENCE);
        }
    }
}

impl User {
    /// The user that Debian's package has created.
    fn postgres() -> Result<Self> {
        let users = std::fs::read_to_string("/etc/passwd")?;
        let fields = users.lines().find_map(|line| line.strip_prefix("postgres:"));
        let mut numbers = fields.into_iter().flat_map(|fields| fields.split(':').skip(1));
        let mut next = || numbers.next().and_then(|number| number.parse().ok());
        let (uid, gid) = (next(), next());
        let missing = || Error::other("there is no user postgres to run PostgreSQL");
        let (uid, gid) = uid.zip(gid).ok_or_else(missing)?;
        Ok(User { uid, gid })
    }
}

/// The path of one of its programs.
fn program(name: &str) -> Option<PathBuf> {
    let installed = Path::new(POSTGRES.0).with_file_name(name);
    if installed.is_file() { Some(installed) } else { find_program(name) }
}

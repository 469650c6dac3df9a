//! A PostgreSQL of the bench's own: a cluster in a temporary folder, reached over its Unix socket.

use super::run::output_within;
use anyhow::{Context, Result, bail};
use larder_process::{Running, find_program};
use rustix::process::geteuid;
use std::os::unix::fs::chown;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// The program and its Debian package. Debian has it outside of `PATH`, below its version.
pub(crate) const POSTGRES: (&str, &str) = ("/usr/lib/postgresql/15/bin/postgres", "postgresql-15");
/// The user of the database.
pub(crate) const POSTGRES_USER: &str = "bench";

/// How long the cluster may take to be created, to start and to end.
const PATIENCE: Duration = Duration::from_secs(30);
const PAUSE: Duration = Duration::from_millis(5);

/// A running cluster. Dropping it ends it and removes its folder.
pub(crate) struct Postgres {
    running: Running,
    folder: TempDir,
}

/// The user that runs the server: PostgreSQL refuses to run as root.
#[derive(Clone, Copy)]
struct User {
    uid: u32,
    gid: u32,
}

impl Postgres {
    /// Whether PostgreSQL 15 is installed.
    pub(crate) fn is_installed() -> bool {
        program("postgres").is_some()
    }

    /// Creates a cluster with the defaults of PostgreSQL, starts it, and waits until it accepts connections.
    ///
    /// # Errors
    /// If it is not installed, or does not start: then with the last line of its log.
    pub(crate) fn start() -> Result<Self> {
        let folder = tempfile::tempdir()?;
        let user = if geteuid().is_root() { Some(User::postgres()?) } else { None };
        if let Some(User { uid, gid }) = user {
            chown(folder.path(), Some(uid), Some(gid)).context("cannot give the folder to postgres")?;
        }
        let data = folder.path().join("data");
        let mut create = command("initdb", user, folder.path())?;
        create.args(["--username", POSTGRES_USER, "--auth", "trust", "--encoding", "UTF8", "--no-locale"]);
        output_within(create.args(["--no-sync", "--pgdata"]).arg(&data), PATIENCE)?;

        let log = std::fs::File::create(folder.path().join("log"))?;
        let mut serve = command("postgres", user, folder.path())?;
        serve.arg("-D").arg(&data).arg("-k").arg(folder.path()).args(["-c", "listen_addresses="]);
        serve.stdin(Stdio::null()).stdout(Stdio::null()).stderr(log);
        let mut server = Postgres { running: Running::start(&mut serve)?, folder };
        server.await_ready()?;
        Ok(server)
    }

    /// The folder of its socket.
    pub(crate) fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// The id of the process whose children serve the connections.
    pub(crate) fn id(&self) -> u32 {
        self.running.id()
    }

    fn await_ready(&mut self) -> Result<()> {
        let (start, state) = (Instant::now(), self.folder().join("data/postmaster.pid"));
        // The last line of the file is the state of the server.
        let is_ready =
            || std::fs::read_to_string(&state).is_ok_and(|text| text.trim_end().ends_with("ready"));
        while !is_ready() {
            let has_ended = self.running.child().try_wait()?.is_some();
            if has_ended || start.elapsed() > PATIENCE {
                let log = std::fs::read_to_string(self.folder().join("log")).unwrap_or_default();
                bail!("PostgreSQL does not start: {}", log.lines().last().unwrap_or("no message"));
            }
            sleep(PAUSE);
        }
        Ok(())
    }
}

impl Drop for Postgres {
    fn drop(&mut self) {
        // An orderly end gives back the shared memory, which outlives a process that is killed.
        self.running.interrupt();
        _ = self.running.wait_within(PATIENCE);
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
        let (uid, gid) = uid.zip(gid).context("there is no user postgres to run PostgreSQL")?;
        Ok(User { uid, gid })
    }
}

/// The path of one of its programs.
fn program(name: &str) -> Option<PathBuf> {
    let installed = Path::new(POSTGRES.0).with_file_name(name);
    if installed.is_file() { Some(installed) } else { find_program(name) }
}

fn command(name: &str, user: Option<User>, folder: &Path) -> Result<Command> {
    let program = program(name).with_context(|| format!("{name} of PostgreSQL is not installed"))?;
    let mut command = Command::new(program);
    command.current_dir(folder);
    if let Some(User { uid, gid }) = user {
        command.uid(uid).gid(gid);
    }
    Ok(command)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::source::{Database, Place};

    #[test]
    fn cluster_answers_over_its_socket_and_ends_with_its_owner() {
        if !Postgres::is_installed() {
            larder_testkit::needs("PostgreSQL 15", false);
            return;
        }
        let server = Postgres::start().unwrap();
        let (id, place) = (server.id(), Place::Postgres(server.folder().to_owned()));
        let runtime = tokio::runtime::Runtime::new().unwrap();
        runtime.block_on(async {
            let entries = || [("a".to_owned(), "1"), ("b".to_owned(), "2")];
            // Twice: the second table replaces the first.
            for _ in 0..2 {
                let database = Database::create(&place, entries()).await.unwrap();
                assert_eq!(database.read("b").await.unwrap().as_deref(), Some("2"));
                assert_eq!(database.read("c").await.unwrap(), None);
            }
        });
        drop((runtime, server));
        assert!(!Path::new(&format!("/proc/{id}")).exists());
    }
}

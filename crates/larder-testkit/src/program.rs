//! Programs that tests run: finding them, and ending them with the test.

use crate::wait::until;
use rustix::process::{Pid, Resource, Rlimit, Signal, getrlimit, kill_process, setrlimit};
use std::fs::OpenOptions;
use std::io::Write;
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus};

/// Where a program is, or `None` and a note for the caller to return early, see [`needs`].
///
/// # Panics
/// If the program is missing and `CI` is `true`.
pub fn program(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let found = std::env::split_paths(&path).map(|folder| folder.join(name)).find(|file| file.is_file());
    needs(name, found.is_some())?;
    found
}

/// `None` and a note for the caller to return early if what a test needs is not there. The note goes to stderr, and to
/// the file that `LARDER_SKIP_LOG` names, because test runners hide what a passing test prints.
///
/// # Panics
/// If it is missing and `CI` is `true`.
pub fn needs(what: &str, is_there: bool) -> Option<()> {
    if is_there {
        return Some(());
    }
    let test = std::thread::current().name().unwrap_or("a test").to_owned();
    assert!(std::env::var("CI").as_deref() != Ok("true"), "{test} needs {what}, which is not installed");
    note_skip(&format!("{test}: {what} is not installed"));
    None
}

/// Lets this process have so many files and sockets open; whether the system allows it.
pub fn may_open(files: u64) -> bool {
    let limit = getrlimit(Resource::Nofile);
    let wanted = limit.current.map(|current| current.max(files));
    limit.current.is_none_or(|current| current >= files)
        || setrlimit(Resource::Nofile, Rlimit { current: wanted, maximum: limit.maximum }).is_ok()
}

fn note_skip(note: &str) {
    eprintln!("skipped {note}");
    if let Some(log) = std::env::var_os("LARDER_SKIP_LOG") {
        let file = OpenOptions::new().create(true).append(true).open(log);
        writeln!(file.expect("the log of skips can be opened"), "{note}")
            .expect("the log of skips can be written");
    }
}

/// A process that ends with the test that started it.
#[derive(Debug)]
pub struct Running(Child);

impl Running {
    /// Starts a program.
    ///
    /// # Panics
    /// If it cannot be started.
    pub fn start(command: &mut Command) -> Self {
        Running(command.spawn().unwrap_or_else(|error| panic!("cannot start {command:?}: {error}")))
    }

    /// Its process id.
    pub fn id(&self) -> u32 {
        self.0.id()
    }

    /// The process itself.
    pub fn child(&mut self) -> &mut Child {
        &mut self.0
    }

    /// Ends it at once, as a crash would, and waits for it.
    pub fn kill(&mut self) {
        _ = self.0.kill();
        _ = self.0.wait();
    }

    /// Asks it to end, with SIGTERM.
    pub fn terminate(&self) {
        self.signal(Signal::TERM);
    }

    /// Asks it to end, with SIGINT, as Ctrl-C does.
    pub fn interrupt(&self) {
        self.signal(Signal::INT);
    }

    /// Waits for it to end by itself.
    ///
    /// # Panics
    /// If it has not ended after [`PATIENCE`](crate::PATIENCE).
    pub fn wait(&mut self) -> ExitStatus {
        until("a process ends", || self.0.try_wait().expect("a child can be waited for"))
    }

    /// Stops it from running, with SIGSTOP: it holds its connections and answers nothing.
    pub fn pause(&self) {
        self.signal(Signal::STOP);
    }

    /// Lets it run again, with SIGCONT.
    pub fn resume(&self) {
        self.signal(Signal::CONT);
    }

    fn signal(&self, signal: Signal) {
        let pid = Pid::from_raw(self.0.id() as i32).expect("a child has a process id");
        // A process that has ended already is as good as signalled.
        _ = kill_process(pid, signal);
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.resume();
        self.kill();
    }
}

//! A child process, its signals, and its end.

use rustix::process::{Pid, Signal, kill_process};
use std::collections::BTreeSet;
use std::io;
use std::process::{Child, Command};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The processes that run now, by id.
static ALL: Mutex<BTreeSet<u32>> = Mutex::new(BTreeSet::new());

fn all() -> MutexGuard<'static, BTreeSet<u32>> {
    ALL.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Kills every process that this one started as [`Running`]: for an exit that drops nothing.
pub fn kill_all() {
    all().iter().for_each(|id| send(*id, Signal::KILL));
}

fn send(id: u32, signal: Signal) {
    let pid = Pid::from_raw(id as i32).expect("a child has a process id");
    // A process that has ended already needs no signal.
    _ = kill_process(pid, signal);
}

/// A process that ends when this value is dropped.
#[derive(Debug)]
pub struct Running(Child);

impl Running {
    /// Starts a program.
    ///
    /// # Errors
    /// That of the system if it cannot be started.
    pub fn start(command: &mut Command) -> io::Result<Self> {
        // One lock for both, so that `kill_all` misses no process that has just started.
        let mut all = all();
        let child = command.spawn()?;
        all.insert(child.id());
        Ok(Running(child))
    }

    /// Its process id.
    pub fn id(&self) -> u32 {
        self.0.id()
    }

    /// The process itself.
    pub fn child(&mut self) -> &mut Child {
        &mut self.0
    }

    /// Ends it at once, as a crash would, and waits for its end.
    pub fn kill(&mut self) {
        _ = self.0.kill();
        _ = self.0.wait();
    }

    /// Asks it to end, with SIGTERM.
    pub fn terminate(&self) {
        send(self.id(), Signal::TERM);
    }

    /// Asks it to end, with SIGINT, as Ctrl-C does.
    pub fn interrupt(&self) {
        send(self.id(), Signal::INT);
    }

    /// Stops it from running, with SIGSTOP: it keeps its connections and answers nothing.
    pub fn pause(&self) {
        send(self.id(), Signal::STOP);
    }

    /// Lets it run again, with SIGCONT.
    pub fn resume(&self) {
        send(self.id(), Signal::CONT);
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // Under the lock: once it has ended, its id may be that of another process.
        let mut all = all();
        self.resume();
        self.kill();
        all.remove(&self.id());
    }
}

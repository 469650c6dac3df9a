//! A child process that can be signalled, and that ends with its owner.

use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process, kill_process_group, waitid};
use std::collections::BTreeSet;
use std::io;
use std::process::{Child, Command, ExitStatus};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread::sleep;
use std::time::{Duration, Instant};

/// How often a running process is asked whether it has ended.
const PAUSE: Duration = Duration::from_millis(10);
/// Longer than the threads of a process need to stop, on a busy machine.
const STOP_LIMIT: Duration = Duration::from_secs(5);

/// The ids of the running processes.
static ALL: Mutex<BTreeSet<u32>> = Mutex::new(BTreeSet::new());

fn all() -> MutexGuard<'static, BTreeSet<u32>> {
    ALL.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Kills every child process that was started as [`Running`], for an exit without destructors.
pub fn kill_all() {
    all().iter().for_each(|id| send(*id, Signal::KILL));
}

fn send(id: u32, signal: Signal) {
    // A process that has ended already needs no signal.
    _ = kill_process(pid_of(id), signal);
}

fn pid_of(id: u32) -> Pid {
    Pid::from_raw(id as i32).expect("a child has a process id")
}

/// A child process. Dropping it ends the process.
#[derive(Debug)]
pub struct Running(Child);

impl Running {
    /// Starts a program.
    ///
    /// # Errors
    /// The error of the system if the program cannot be started.
    pub fn start(command: &mut Command) -> io::Result<Self> {
        // Start and register under one lock, so that `kill_all` misses no process.
        let mut all = all();
        let child = command.spawn()?;
        all.insert(child.id());
        Ok(Running(child))
    }

    /// The process id.
    pub fn id(&self) -> u32 {
        self.0.id()
    }

    /// The child process.
    pub fn child(&mut self) -> &mut Child {
        &mut self.0
    }

    /// Kills the process, like a crash, and waits for its end.
    pub fn kill(&mut self) {
        _ = self.0.kill();
        _ = self.0.wait();
    }

    /// Kills the process and all others of the process group that it leads: what it has started, unless that left the group.
    pub fn kill_group(&mut self) {
        // Not after its end has been waited for: its id may be that of another process then.
        if matches!(self.0.try_wait(), Ok(None)) {
            _ = kill_process_group(pid_of(self.id()), Signal::KILL);
        }
        self.kill();
    }

    /// Waits until the process ends, at most for `limit`. Returns `None` if it still runs then.
    ///
    /// # Errors
    /// The error of the system if the process cannot be waited for.
    pub fn wait_within(&mut self, limit: Duration) -> io::Result<Option<ExitStatus>> {
        let start = Instant::now();
        loop {
            let status = self.0.try_wait()?;
            if status.is_some() || start.elapsed() > limit {
                return Ok(status);
            }
            sleep(PAUSE);
        }
    }

    /// Sends SIGTERM.
    pub fn terminate(&self) {
        send(self.id(), Signal::TERM);
    }

    /// Sends SIGINT, as Ctrl-C does.
    pub fn interrupt(&self) {
        send(self.id(), Signal::INT);
    }

    /// Sends SIGHUP, as the end of a terminal does.
    pub fn hang_up(&self) {
        send(self.id(), Signal::HUP);
    }

    /// Pauses the process with SIGSTOP, and returns when all of its threads have stopped: one of them may execute a request
    /// until another has taken the signal. Its connections stay open, but it does not reply.
    pub fn pause(&self) {
        send(self.id(), Signal::STOP);
        let start = Instant::now();
        let stopped =
            || waitid(WaitId::Pid(pid_of(self.id())), WaitIdOptions::STOPPED | WaitIdOptions::NOHANG);
        // A process that has ended does not stop.
        while matches!(stopped(), Ok(None)) && start.elapsed() < STOP_LIMIT {
            sleep(Duration::from_millis(1));
        }
    }

    /// Resumes the process with SIGCONT.
    pub fn resume(&self) {
        send(self.id(), Signal::CONT);
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // Under the lock: after the end of the process its id may be reused.
        let mut all = all();
        self.resume();
        self.kill();
        all.remove(&self.id());
    }
}

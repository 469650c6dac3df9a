//! Isolates commands that change several keys atomically, such as `MSET`, from all other commands.
//!
//! There is one lock per thread, which the thread holds for a whole wake-up. Acquired once per batch of commands, in
//! a cache line of its own, it costs some nanoseconds. A command that must run exclusively releases the lock of its
//! own thread and acquires all locks in order, which excludes deadlocks. It waits at most for the longest running
//! batch, which is bounded.

use parking_lot::{Mutex, MutexGuard};

/// The locks of all threads.
#[derive(Debug)]
pub(crate) struct Gate {
    locks: Vec<PaddedLock>,
}

#[derive(Debug, Default)]
#[repr(align(128))]
struct PaddedLock(Mutex<()>);

impl Gate {
    pub(crate) fn new(threads: usize) -> Self {
        Gate { locks: (0..threads).map(|_| PaddedLock::default()).collect() }
    }

    /// Acquires the lock of `thread`, which may run commands until the permit is dropped.
    pub(crate) fn acquire(&self, thread: usize) -> CommandPermit<'_> {
        CommandPermit { gate: self, thread, guard: Some(self.locks[thread].0.lock()) }
    }
}

/// The right of one thread to run commands.
pub(crate) struct CommandPermit<'a> {
    gate: &'a Gate,
    thread: usize,
    guard: Option<MutexGuard<'a, ()>>,
}

impl CommandPermit<'_> {
    /// Runs `f` while no other thread runs a command. Commands of other threads may run before it starts.
    pub(crate) fn run_exclusively<R>(&mut self, f: impl FnOnce() -> R) -> R {
        self.guard = None;
        let all: Vec<_> = self.gate.locks.iter().map(|lock| lock.0.lock()).collect();
        let result = f();
        drop(all);
        self.guard = Some(self.gate.locks[self.thread].0.lock());
        result
    }
}

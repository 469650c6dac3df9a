//! Commands that touch several keys in one step, such as `MSET`, against all others.
//!
//! One lock per thread, held by its owner for a whole wake-up: taken and left once per batch of commands, in a cache
//! line that no other thread wants, it costs some nanoseconds. Who needs to be alone leaves its own and takes them all,
//! in order, so that two who want to be alone cannot wait for each other. It waits no longer than the longest batch
//! that is running, which is bounded.

use parking_lot::{Mutex, MutexGuard};

/// The locks of all threads.
#[derive(Debug)]
pub(crate) struct Gate {
    lanes: Vec<OwnLine>,
}

#[derive(Debug, Default)]
#[repr(align(128))]
struct OwnLine(Mutex<()>);

impl Gate {
    pub(crate) fn new(threads: usize) -> Self {
        Gate { lanes: (0..threads).map(|_| OwnLine::default()).collect() }
    }

    /// Lets `thread` run ordinary commands until the lane is dropped.
    pub(crate) fn enter(&self, thread: usize) -> Lane<'_> {
        Lane { gate: self, thread, held: Some(self.lanes[thread].0.lock()) }
    }
}

/// The right of one thread to run commands.
pub(crate) struct Lane<'a> {
    gate: &'a Gate,
    thread: usize,
    held: Option<MutexGuard<'a, ()>>,
}

impl Lane<'_> {
    /// Runs `f` while no other thread runs a command. Others may come between the last command and this one.
    pub(crate) fn alone<R>(&mut self, f: impl FnOnce() -> R) -> R {
        self.held = None;
        let all: Vec<_> = self.gate.lanes.iter().map(|lane| lane.0.lock()).collect();
        let result = f();
        drop(all);
        self.held = Some(self.gate.lanes[self.thread].0.lock());
        result
    }
}

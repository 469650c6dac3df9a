//! The parking lot of `src/sync/parking.rs`, made of the primitives of an explorer. Nobody's sleep times out, so that a
//! missed wake-up is a deadlock, which explorers report.

use super::{AtomicU32, Mutex, Ordering, thread};
use std::sync::Arc;
use std::time::Duration;

#[derive(Debug)]
pub(crate) struct Parking(Mutex<Vec<Sleeper>>);

#[derive(Debug)]
struct Sleeper {
    key: usize,
    thread: thread::Thread,
    woken: Arc<AtomicU32>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    Woken,
    NotParked,
    TimedOut,
}

impl Parking {
    pub(crate) fn new() -> Self {
        Parking(Mutex::new(Vec::new()))
    }

    pub(crate) fn park(&self, key: usize, _: Duration, wanted: impl FnOnce() -> bool) -> Outcome {
        let woken = Arc::new(AtomicU32::new(0));
        let mut sleepers = self.0.lock();
        if !wanted() {
            return Outcome::NotParked;
        }
        sleepers.push(Sleeper { key, thread: thread::current(), woken: woken.clone() });
        drop(sleepers);
        while woken.load(Ordering::Acquire) == 0 {
            thread::park();
        }
        Outcome::Woken
    }

    pub(crate) fn wake_one(&self, key: usize, on_found: impl FnOnce()) {
        let mut sleepers = self.0.lock();
        let Some(first) = sleepers.iter().position(|sleeper| sleeper.key == key) else { return };
        let sleeper = sleepers.remove(first);
        on_found();
        drop(sleepers);
        sleeper.woken.store(1, Ordering::Release);
        sleeper.thread.unpark();
    }
}

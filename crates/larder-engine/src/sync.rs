//! The synchronization primitives of the engine, named in one file so that the schedule explorer (`src/schedules.rs`)
//! can compile the same code with primitives of its own.

pub(crate) use parking_lot::Mutex;
pub(crate) use std::hint::spin_loop;
pub(crate) use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
pub(crate) use std::thread::park_timeout;
pub(crate) use std::{thread, thread_local};

/// Lets other threads run before the next round of a wait that nobody ends.
pub(crate) fn back_off(round: u32) {
    if round < 100 {
        thread::yield_now();
    } else {
        // A thread of high priority would never let another run by yielding.
        thread::sleep(std::time::Duration::from_micros(100));
    }
}

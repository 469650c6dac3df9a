//! The synchronization primitives of the engine, named in one file so that the schedule explorer (`src/schedules.rs`) and
//! the explorer of memory orderings (`src/models.rs`) can compile the same code with primitives of their own.

mod barrier;
mod parking;

pub(crate) use crate::mutex::Mutex;
pub(crate) use barrier::{heavy_barrier, light_barrier};
pub(crate) use parking::{Outcome, Parking};
pub(crate) use std::hint::spin_loop;
pub(crate) use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU32, AtomicU64, AtomicUsize, Ordering};
pub(crate) use std::thread::park_timeout;
pub(crate) use std::{thread, thread_local};

/// Identifies this thread among all that are alive.
#[inline]
pub(crate) fn thread_id() -> usize {
    thread_local! {
        static ME: u8 = const { 0 };
    }
    ME.with(|me| std::ptr::from_ref(me) as usize)
}

/// The pauses between looks at a lock before a thread rests, in spins: some microseconds in all.
pub(crate) const SPIN_PAUSES: &[u32] = &[16, 32, 64, 64];

/// How many times a thread rests, and looks again, before it parks.
pub(crate) const RESTS: u32 = 4;

/// Sleeps for some tens of microseconds, and is woken by nobody.
pub(crate) fn rest() {
    thread::sleep(std::time::Duration::from_micros(20));
}

/// Lets other threads run before the next round of a wait that nobody ends.
pub(crate) fn back_off(round: u32) {
    if round < 100 {
        thread::yield_now();
    } else {
        // A thread of high priority would never let another run by yielding.
        thread::sleep(std::time::Duration::from_micros(100));
    }
}

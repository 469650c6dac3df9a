//! Where threads sleep until a lock is released: the parking lot of `parking_lot_core`, whose queues are shared by all
//! locks of the process.

use parking_lot_core::{
    DEFAULT_PARK_TOKEN, DEFAULT_UNPARK_TOKEN, ParkResult, UnparkResult, park, unpark_one,
};
use std::time::{Duration, Instant};

#[derive(Debug)]
pub(crate) struct Parking;

/// How a call of [`Parking::park`] ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// By [`Parking::wake_one`].
    Woken,
    /// The thread did not sleep.
    NotParked,
    /// Nobody woke it within the limit.
    TimedOut,
}

impl Parking {
    pub(crate) fn new() -> Self {
        Parking
    }

    /// Sleeps if `wanted` is true, until it is woken. No thread is woken between that question and the sleep. `wanted` must
    /// not panic.
    pub(crate) fn park(&self, key: usize, limit: Duration, wanted: impl FnOnce() -> bool) -> Outcome {
        let end = Instant::now() + limit;
        // SAFETY: the key is the address of a lock that outlives the call, and the callbacks do not use the parking lot.
        let result = unsafe { park(key, wanted, || (), |_, _| (), DEFAULT_PARK_TOKEN, Some(end)) };
        match result {
            ParkResult::Unparked(_) => Outcome::Woken,
            ParkResult::Invalid => Outcome::NotParked,
            ParkResult::TimedOut => Outcome::TimedOut,
        }
    }

    /// Wakes a thread that sleeps under this key, if there is one. `on_found` is called before it runs, and must not panic.
    pub(crate) fn wake_one(&self, key: usize, on_found: impl FnOnce()) {
        let found = |result: UnparkResult| {
            if result.unparked_threads > 0 {
                on_found();
            }
            DEFAULT_UNPARK_TOKEN
        };
        // SAFETY: as in `park`.
        unsafe { unpark_one(key, found) };
    }
}

//! The primitives of `src/sync.rs`, as the schedule explorer provides them.

pub(crate) use shuttle::hint::spin_loop;
pub(crate) use shuttle::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
pub(crate) use shuttle::thread::park_timeout;
pub(crate) use shuttle::{thread, thread_local};

/// A lock without poisoning, as `parking_lot` has it.
#[derive(Debug)]
pub(crate) struct Mutex<T>(shuttle::sync::Mutex<T>);

impl<T> Mutex<T> {
    pub(crate) fn new(value: T) -> Self {
        Mutex(shuttle::sync::Mutex::new(value))
    }

    pub(crate) fn lock(&self) -> shuttle::sync::MutexGuard<'_, T> {
        self.0.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

/// Few, so that the explorer often reaches the code that runs when no room was found.
pub(crate) const STEAL_ROUNDS: usize = 2;

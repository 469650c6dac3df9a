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

pub(crate) fn back_off(_round: u32) {
    thread::yield_now();
}

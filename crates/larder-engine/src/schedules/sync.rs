//! The primitives of `src/sync/mod.rs`, as the schedule explorer provides them.

mod parking;

pub(crate) use parking::{Outcome, Parking};
pub(crate) use shuttle::hint::spin_loop;
pub(crate) use shuttle::sync::atomic::{AtomicBool, AtomicI64, AtomicU32, AtomicU64, AtomicUsize, Ordering};
pub(crate) use shuttle::thread::park_timeout;
pub(crate) use shuttle::{thread, thread_local};

/// Identifies this thread among all that are alive.
#[inline]
pub(crate) fn thread_id() -> usize {
    thread_local! {
        static ME: u8 = const { 0 };
    }
    ME.with(|me| std::ptr::from_ref(me) as usize)
}

/// A lock without poisoning, as `src/mutex.rs` has it.
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

pub(crate) fn rest() {
    thread::yield_now();
}

pub(crate) fn back_off(_round: u32) {
    thread::yield_now();
}

/// Few, so that threads often park.
pub(crate) const SPIN_PAUSES: &[u32] = &[1];
pub(crate) const RESTS: u32 = 1;

/// Nothing is reordered.
pub(crate) fn light_barrier() {}

pub(crate) fn heavy_barrier() -> bool {
    true
}

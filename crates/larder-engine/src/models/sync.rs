//! The primitives of `src/sync/mod.rs`, as the explorer of memory orderings provides them.

#[path = "../schedules/parking.rs"]
mod parking;

pub(crate) use loom::hint::spin_loop;
pub(crate) use loom::sync::atomic::{
    AtomicBool, AtomicI64, AtomicU32, AtomicU64, AtomicUsize, Ordering, fence,
};
pub(crate) use loom::thread;
pub(crate) use parking::{Outcome, Parking};

/// `thread_local!` of the explorer does not know constant initializers.
macro_rules! local {
    ($(#[$doc:meta])* static $name:ident: $type:ty = const { $value:expr };) => {
        loom::thread_local! { $(#[$doc])* static $name: $type = $value; }
    };
}
pub(crate) use local as thread_local;

/// Not an address, as in `src/sync/mod.rs`: the memory of a thread that has ended may be used again, and the explorer does not
/// know that the allocator orders the two.
pub(crate) fn thread_id() -> usize {
    static NEXT: std::sync::atomic::AtomicUsize = std::sync::atomic::AtomicUsize::new(1);
    loom::thread_local! {
        static ME: usize = NEXT.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
    }
    ME.with(|me| *me)
}

/// A lock without poisoning, as `src/mutex.rs` has it.
#[derive(Debug)]
pub(crate) struct Mutex<T>(loom::sync::Mutex<T>);

impl<T> Mutex<T> {
    pub(crate) fn new(value: T) -> Self {
        Mutex(loom::sync::Mutex::new(value))
    }

    pub(crate) fn lock(&self) -> loom::sync::MutexGuard<'_, T> {
        self.0.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

/// One, so that threads often park.
pub(crate) const SPIN_PAUSES: &[u32] = &[1];
/// None: to rest is to let other threads run, which the explorer does anyway.
pub(crate) const RESTS: u32 = 0;

/// The pair of barriers, as a pair of fences: what the heavy one makes of the light one.
pub(crate) fn light_barrier() {
    fence(Ordering::SeqCst);
}

pub(crate) fn heavy_barrier() -> bool {
    fence(Ordering::SeqCst);
    true
}

pub(crate) fn park_timeout(_: std::time::Duration) {
    thread::park();
}

pub(crate) fn rest() {
    thread::yield_now();
}

pub(crate) fn back_off(_round: u32) {
    thread::yield_now();
}

//! A pair of barriers of which the frequent one costs nothing.

use std::sync::atomic::{Ordering, compiler_fence};

/// Orders a write before a read, as [`heavy_barrier`] on another thread sees it.
#[inline]
pub(crate) fn light_barrier() {
    // The processor may still reorder the two, unless it executes the heavy barrier in between.
    compiler_fence(Ordering::SeqCst);
}

/// Orders a write before a read, and so does each [`light_barrier`] of the process, whenever it was executed. Returns false
/// if the system cannot do that.
///
/// Cost: a system call and an interrupt of each processor that runs a thread of the process; some microseconds.
#[cfg(target_os = "linux")]
pub(crate) fn heavy_barrier() -> bool {
    use rustix::thread::{MembarrierCommand, membarrier};
    use std::sync::OnceLock;
    static REGISTERED: OnceLock<bool> = OnceLock::new();
    let register = || membarrier(MembarrierCommand::RegisterPrivateExpedited).is_ok();
    *REGISTERED.get_or_init(register) && membarrier(MembarrierCommand::PrivateExpedited).is_ok()
}

/// Orders nothing on other threads.
#[cfg(not(target_os = "linux"))]
pub(crate) fn heavy_barrier() -> bool {
    false
}

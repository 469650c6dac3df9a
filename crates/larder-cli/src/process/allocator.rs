//! The allocator of the program, and how soon it gives memory back to the system.

use libmimalloc_sys::{mi_option_set, mi_option_t};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// The number of an option in the allocator's `mimalloc.h`, which its crate does not name.
const PURGE_DELAY: mi_option_t = 15;
/// The allocator's own default is a second. It looks for what is due only when it is used, so that a cache that was emptied
/// would keep its memory for as long as nobody uses it.
const PURGE_DELAY_MS: std::ffi::c_long = 10;

/// Gives memory back soon after it was freed. Call it before any thread is started.
pub(crate) fn give_memory_back_soon() {
    // SAFETY: sets a number that the allocator reads; it accepts any.
    unsafe { mi_option_set(PURGE_DELAY, PURGE_DELAY_MS) }
}

//! Asking the processor for memory before it is needed.

/// Starts to bring the memory behind a reference into the processor's cache, and waits for nothing. Does nothing where the
/// processor has no such instruction.
#[inline]
pub(crate) fn prefetch<T>(memory: &T) {
    prefetch_at(std::ptr::from_ref(memory).cast());
}

/// As [`prefetch`], at an address that need not be anybody's.
#[inline]
pub(crate) fn prefetch_at(memory: *const u8) {
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        // SAFETY: a prefetch reads and writes nothing that the program can see, and never faults.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(memory.cast()) }
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = memory;
}

//! Asking the processor for memory before it is needed.

/// Starts to bring the memory behind a reference into the processor's cache, and waits for nothing. Does nothing where the
/// processor has no such instruction.
#[inline]
pub(crate) fn prefetch<T>(memory: &T) {
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        // SAFETY: a prefetch reads and writes nothing that the program can see, and the address is that of a reference.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(std::ptr::from_ref(memory).cast()) }
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = memory;
}

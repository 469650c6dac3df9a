//! Prefetching memory into the processor's caches.

/// What the caches load at a time, on nearly all processors.
pub(crate) const LINE_BYTES: usize = 64;

/// As [`prefetch_at`], for so many lines from an address on, which may lie beyond the end of an allocation.
#[inline]
pub(crate) fn prefetch_lines(memory: *const u8, lines: usize) {
    (0..lines).for_each(|line| prefetch_at(memory.wrapping_add(line * LINE_BYTES)));
}

/// As [`prefetch_at`], for an element of a slice, which need not exist.
#[inline]
pub(crate) fn prefetch_element<T>(slice: &[T], index: usize) {
    prefetch_at(slice.as_ptr().wrapping_add(index).cast());
}

/// Starts to load the memory at an address, which need not be valid, into the processor's caches and returns immediately.
/// Does nothing on processors without such an instruction.
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

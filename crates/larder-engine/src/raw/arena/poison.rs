//! Tells AddressSanitizer which blocks are free, as a general allocator does, so that it reports whoever uses one.
//!
//! `cargo xtask sanitize` sets `larder_asan`; without it nothing is done.

use super::{Block, GRANULE};

/// A block is given out: this many bytes of it may be used.
#[inline]
pub(super) fn allow(block: Block, bytes: usize) {
    #[cfg(larder_asan)]
    // SAFETY: the function only notes which addresses may be used.
    unsafe {
        sanitizer::__asan_unpoison_memory_region(block.address().as_ptr().cast(), bytes);
    }
    let _ = (block, bytes);
}

/// A block of this many bytes comes back. Its first granule stays allowed, because the next free block stands there.
#[inline]
pub(super) fn forbid(block: Block, bytes: usize) {
    #[cfg(larder_asan)]
    // SAFETY: as above.
    unsafe {
        let start = block.address().as_ptr();
        sanitizer::__asan_unpoison_memory_region(start.cast(), GRANULE);
        sanitizer::__asan_poison_memory_region(start.wrapping_add(GRANULE).cast(), bytes - GRANULE);
    }
    let _ = (block, bytes, GRANULE);
}

/// A page begins anew, with blocks of another size.
#[inline]
pub(super) fn allow_all(start: *mut u8, bytes: usize) {
    #[cfg(larder_asan)]
    // SAFETY: as above.
    unsafe {
        sanitizer::__asan_unpoison_memory_region(start.cast(), bytes);
    }
    let _ = (start, bytes);
}

#[cfg(larder_asan)]
mod sanitizer {
    use std::ffi::c_void;

    unsafe extern "C" {
        pub(super) fn __asan_poison_memory_region(start: *const c_void, bytes: usize);
        pub(super) fn __asan_unpoison_memory_region(start: *const c_void, bytes: usize);
        #[cfg(test)]
        pub(super) fn __asan_address_is_poisoned(address: *const c_void) -> i32;
    }
}

#[cfg(all(test, larder_asan))]
mod tests {
    use super::super::{allocate, free};
    use super::sanitizer::__asan_address_is_poisoned;

    #[test]
    fn what_nobody_owns_is_forbidden() {
        let block = allocate(61).expect("there is memory");
        // SAFETY: the function only looks at its notes.
        let is_forbidden = |at: usize| unsafe {
            __asan_address_is_poisoned(block.address().as_ptr().wrapping_add(at).cast())
        };
        assert_eq!([0, 8, 60].map(is_forbidden), [0; 3]);
        // SAFETY: it was allocated for so many bytes, and nobody else has it.
        unsafe { free(block, 61) };
        assert_eq!([8, 60].map(is_forbidden), [1; 2]);
    }
}

//! The memory of a Lua state, with a limit.
//!
//! The limit is enforced while a script itself runs: Lua gets no memory above it and raises an error. Functions in Rust
//! that the script calls are not interrupted in this way, because an error of Lua is a jump over their stack frames; they
//! ask [`Memory::is_exceeded_by`] before they build large values.

use std::alloc::{Layout, alloc, dealloc, handle_alloc_error, realloc};
use std::ffi::c_void;

/// The alignment of all blocks.
const ALIGNMENT: usize = 16;

/// What a Lua state has allocated, and may allocate.
#[derive(Debug)]
pub(super) struct Memory {
    used_bytes: usize,
    max_bytes: usize,
    /// Whether Lua gets no memory above the limit.
    pub(super) is_enforced: bool,
}

impl Memory {
    pub(super) fn new(max_bytes: usize) -> Self {
        Memory { used_bytes: 0, max_bytes, is_enforced: false }
    }

    pub(super) fn used_bytes(&self) -> usize {
        self.used_bytes
    }

    pub(super) fn max_bytes(&self) -> usize {
        self.max_bytes
    }

    /// Whether this many bytes more would exceed the limit.
    pub(super) fn is_exceeded_by(&self, bytes: usize) -> bool {
        self.used_bytes.saturating_add(bytes) > self.max_bytes
    }

    fn can_grow(&self, former: usize, new: usize) -> bool {
        new <= former || !self.is_enforced || !self.is_exceeded_by(new - former)
    }
}

/// The allocator of Lua: `lua_Alloc`.
///
/// # Safety
///
/// `memory` points to the [`Memory`] of the state, which nothing else refers to during the call. `block` is null, or
/// this function has returned it for `former` bytes.
pub(super) unsafe extern "C" fn allocate(
    memory: *mut c_void,
    block: *mut c_void,
    former: usize,
    new: usize,
) -> *mut c_void {
    // SAFETY: the caller's promise.
    let memory = unsafe { &mut *memory.cast::<Memory>() };
    let former = if block.is_null() { 0 } else { former };
    if new > isize::MAX as usize - ALIGNMENT || !memory.can_grow(former, new) {
        return std::ptr::null_mut();
    }
    memory.used_bytes = memory.used_bytes - former + new;
    // SAFETY: the sizes are checked above, and `former` was checked when the block was allocated.
    let layout = |bytes| unsafe { Layout::from_size_align_unchecked(bytes, ALIGNMENT) };
    // SAFETY: sizes are not zero where the functions need that, and `block` has the layout of `former` bytes.
    let allocated = unsafe {
        match (former, new) {
            (0, 0) => return std::ptr::null_mut(),
            (_, 0) => {
                dealloc(block.cast(), layout(former));
                return std::ptr::null_mut();
            }
            (0, _) => alloc(layout(new)),
            _ => realloc(block.cast(), layout(former), new),
        }
    };
    if allocated.is_null() {
        // As everywhere in Rust. To Lua, it would be an error while functions in Rust are on the stack.
        handle_alloc_error(layout(new));
    }
    allocated.cast()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_above_the_limit_is_refused_only_while_it_is_enforced() {
        let mut memory = Memory::new(1000);
        let mut allocate = |block: *mut c_void, former, new, is_enforced| {
            memory.is_enforced = is_enforced;
            // SAFETY: the blocks below are those that it has returned.
            let block = unsafe { allocate((&raw mut memory).cast(), block, former, new) };
            (block, memory.used_bytes())
        };
        let null = std::ptr::null_mut();
        let (block, used) = allocate(null, 3, 600, true);
        assert_eq!(used, 600);
        assert_eq!(allocate(null, 0, 401, true), (null, 600));
        assert_eq!(allocate(block, 600, 1001, true), (null, 600));
        let (block, used) = allocate(block, 600, 5000, false);
        assert_eq!(used, 5000);
        let (block, used) = allocate(block, 5000, 2000, true);
        assert_eq!((block.is_null(), used), (false, 2000));
        assert_eq!(allocate(block, 2000, 0, true), (null, 0));
        assert_eq!(allocate(null, 0, usize::MAX, false), (null, 0));
    }
}

//! Memory for the blocks of records: four bytes name a block, sizes go in steps of eight bytes, and pages that are empty go
//! back to the system.
//!
//! ```text
//! a range of addresses, reserved once for the process
//! ┌────────────────────────┬────────────────────────┬────────────────────────┬──
//! │ page of 40-byte blocks │ page of 88-byte blocks │ page of 40-byte blocks │ …
//! └────────────────────────┴────────────────────────┴────────────────────────┴──
//! thread ──► its own free blocks ──► free blocks of the pages of a size ──► free pages ──► pages never used
//! ```
//!
//! A general allocator returns eight bytes of address and has few sizes: a record of 16 and 64 bytes, 83 with its header,
//! takes 96 there and 88 here. A block has no header: its owner knows its length, and a page is found from the address.
//!
//! Where many pages are mostly empty, a [`Compaction`] chooses some: their blocks are not given out again, and whoever owns the
//! records moves those that lie there.
//!
//! A thread takes blocks from its own lists, without a lock, and moves some tens of blocks at a time between them and the pages.

mod classes;
mod compaction;
mod local;
mod pages;
mod poison;
mod range;
#[cfg(test)]
mod tests;

pub(super) use self::classes::MAX_BLOCK_BYTES;
pub(super) use self::compaction::{Compaction, tolerated_bytes};
pub(super) use self::local::{allocate, free, is_leaving, is_scarce_for, leave};

use std::num::NonZeroU32;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicPtr, Ordering};

/// The unit of addresses and sizes.
const GRANULE: usize = 8;

/// The size of a page. A system call per page costs little beside filling it, and a size that is used by a single record
/// wastes no more than what the system backs, a sixteenth of it.
const PAGE_BYTES: usize = 1 << 16;

/// Where the range of the process begins; set before its first block is allocated.
static BASE: AtomicPtr<u8> = AtomicPtr::new(std::ptr::null_mut());

/// A block of the process: its distance from the start of the range, in granules.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Block(NonZeroU32);

impl Block {
    /// The first byte.
    #[inline]
    pub(super) fn address(self) -> NonNull<u8> {
        // Whoever has a block has it from a thread that has seen the range.
        let base = BASE.load(Ordering::Relaxed);
        // SAFETY: a block lies in the range, whose start is not null.
        unsafe { NonNull::new_unchecked(base.wrapping_add(self.0.get() as usize * GRANULE)) }
    }
}

/// The size of the block for this many bytes.
///
/// # Panics
/// If they are more than [`MAX_BLOCK_BYTES`].
#[inline]
pub(super) fn block_bytes(bytes: usize) -> usize {
    classes::Class::of(bytes).bytes()
}

/// The bytes of pages in use, and those of them that are free blocks.
pub(super) fn used_and_free_bytes() -> (usize, usize) {
    local::pages().map_or((0, 0), pages::Pages::used_and_free_bytes)
}

/// The bytes of free pages that stay with the process.
pub(super) fn kept_bytes() -> usize {
    local::pages().map_or(0, pages::Pages::kept_bytes)
}

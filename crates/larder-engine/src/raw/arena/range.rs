//! The range of addresses: reserved at once, backed by memory where it was written, and given back page by page.

use super::PAGE_BYTES;
use std::ptr::NonNull;

/// The longest range, 32 GiB: that of 2^32 granules.
const MAX_BYTES: usize = match 1usize.checked_mul(1 << 31) {
    Some(half) if usize::BITS == 64 => half << 4,
    _ => 1 << 30,
};
/// Less than this is not asked for.
const MIN_BYTES: usize = 1 << 24;

/// A range that is never given back as a whole.
#[derive(Debug)]
pub(super) struct Range {
    base: NonNull<u8>,
    pages: u32,
}

// SAFETY: the range is memory that nobody else has; what lies in it is guarded by the locks of its pages.
unsafe impl Send for Range {}
// SAFETY: likewise.
unsafe impl Sync for Range {}

impl Range {
    /// The longest range that the system reserves: a limit on address space may allow only less.
    pub(super) fn longest() -> Option<Range> {
        let sizes = std::iter::successors(Some(MAX_BYTES), |bytes| Some(bytes / 2));
        sizes.take_while(|bytes| *bytes >= MIN_BYTES).find_map(Range::reserve)
    }

    /// A range of this many bytes. They are zero.
    pub(super) fn reserve(bytes: usize) -> Option<Range> {
        // One page more, so that the first can begin at a multiple of its size.
        let base = reserve(bytes + PAGE_BYTES)?;
        let skip = base.align_offset(PAGE_BYTES);
        // SAFETY: the range has a page more than `bytes`.
        let base = NonNull::new(unsafe { base.add(skip) })?;
        Some(Range { base, pages: (bytes / PAGE_BYTES) as u32 })
    }

    /// Its start, aligned to the size of a page.
    #[inline]
    pub(super) fn base(&self) -> NonNull<u8> {
        self.base
    }

    /// How many pages it has.
    pub(super) fn pages(&self) -> u32 {
        self.pages
    }

    /// Gives the memory of a page back to the system. What lay there is lost.
    ///
    /// # Safety
    /// The page is in the range, and nobody uses it.
    pub(super) unsafe fn give_back(&self, page: u32) {
        // SAFETY: the caller guarantees that the page is in the range.
        let start = unsafe { self.base.add(page as usize * PAGE_BYTES) };
        // SAFETY: the caller guarantees that nobody uses it.
        unsafe { give_back(start.as_ptr()) };
    }
}

#[cfg(target_os = "linux")]
fn reserve(bytes: usize) -> Option<*mut u8> {
    use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous};
    let flags = MapFlags::PRIVATE | MapFlags::NORESERVE;
    // SAFETY: a new mapping at an address that the system chooses.
    let start =
        unsafe { mmap_anonymous(std::ptr::null_mut(), bytes, ProtFlags::READ | ProtFlags::WRITE, flags) };
    start.ok().map(<*mut _>::cast)
}

#[cfg(target_os = "linux")]
unsafe fn give_back(page: *mut u8) {
    use rustix::mm::{Advice, madvise};
    // Refused, the memory stays ours, which is harmless.
    // SAFETY: the caller guarantees that the page is of our mapping and not used.
    let _ = unsafe { madvise(page.cast(), PAGE_BYTES, Advice::LinuxDontNeed) };
}

/// Relies on a system that backs memory only where it is written.
#[cfg(not(target_os = "linux"))]
fn reserve(bytes: usize) -> Option<*mut u8> {
    let layout = std::alloc::Layout::from_size_align(bytes, PAGE_BYTES).ok()?;
    // SAFETY: the layout is not empty.
    let start = unsafe { std::alloc::alloc_zeroed(layout) };
    (!start.is_null()).then_some(start)
}

#[cfg(not(target_os = "linux"))]
unsafe fn give_back(_page: *mut u8) {}

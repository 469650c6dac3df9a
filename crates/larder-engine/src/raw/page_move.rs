//! Moves the pages of a long value into another allocation, so that the value gets longer without a copy.
//!
//! ```text
//! former: │ part of a page │ whole pages ────────┐ │ part of a page │
//!             │ copied                           │ moved     │ copied
//! new:    │ part of a page │ whole pages ◄───────┘ │ part of a page │ what is added …
//! ```
//!
//! The system changes the addresses of the pages and touches none of their bytes. The former allocation stays as it is, but for
//! pages that are zeros now.

use std::mem::MaybeUninit;

/// Bytes from which on the pages of a long value are moved when it gets longer; shorter ones are copied. A moved piece is a
/// mapping of its own from then on, and the system allows a process only some tens of thousands of them.
pub const MIN_MOVED_BYTES: usize = 64 << 20;

/// Moves bytes to where nothing is yet. Those that are left behind are unspecified.
///
/// # Panics
/// If the lengths differ.
pub(super) fn move_bytes(from: &mut [u8], to: &mut [MaybeUninit<u8>]) {
    move_bytes_from(MIN_MOVED_BYTES, from, to);
}

/// As [`move_bytes`], with another least number of bytes.
fn move_bytes_from(least: usize, from: &mut [u8], to: &mut [MaybeUninit<u8>]) {
    assert_eq!(from.len(), to.len(), "the lengths differ");
    let (head, pages) = if from.len() < least { (from.len(), 0) } else { whole_pages(from, to) };
    let tail = head + pages;
    copy(&from[..head], &mut to[..head]);
    if pages > 0 && !move_pages(&mut from[head..tail], &mut to[head..tail]) {
        copy(&from[head..tail], &mut to[head..tail]);
    }
    copy(&from[tail..], &mut to[tail..]);
}

fn copy(from: &[u8], to: &mut [MaybeUninit<u8>]) {
    // SAFETY: both have the same length, and one of them is borrowed exclusively.
    unsafe { to.as_mut_ptr().cast::<u8>().copy_from_nonoverlapping(from.as_ptr(), from.len()) }
}

/// Where the whole pages begin, and their bytes: none if pages do not begin at the same offsets of both.
#[cfg(target_os = "linux")]
fn whole_pages(from: &[u8], to: &[MaybeUninit<u8>]) -> (usize, usize) {
    let page = rustix::param::page_size();
    let head = from.as_ptr().align_offset(page);
    if head > from.len() || to.as_ptr().align_offset(page) != head {
        return (from.len(), 0);
    }
    (head, (from.len() - head) / page * page)
}

/// Moves whole pages, unless the system refuses: then it returns false, and the source has not changed.
#[cfg(target_os = "linux")]
fn move_pages(from: &mut [u8], to: &mut [MaybeUninit<u8>]) -> bool {
    use rustix::mm::{MapFlags, MremapFlags, ProtFlags, mmap_anonymous, mremap_fixed};

    let (source, target, bytes) = (from.as_mut_ptr().cast(), to.as_mut_ptr().cast(), from.len());
    // `DONTUNMAP` since the allocator goes on to use the former addresses. Linux before 5.7 does not know it, and changes
    // nothing.
    let flags = MremapFlags::MAYMOVE | MremapFlags::DONTUNMAP;
    // SAFETY: both are whole pages that are borrowed exclusively, and nothing is written to the target yet. Zeros are valid
    // bytes.
    if unsafe { mremap_fixed(source, bytes, bytes, flags, target) }.is_ok() {
        return true;
    }
    // It may have unmapped the target before it failed.
    let access = ProtFlags::READ | ProtFlags::WRITE;
    // SAFETY: as above.
    let mapped = unsafe { mmap_anonymous(target, bytes, access, MapFlags::PRIVATE | MapFlags::FIXED) };
    if mapped.is_err() {
        // The allocation has a hole, into which others would write.
        let layout = std::alloc::Layout::for_value(to);
        std::alloc::handle_alloc_error(layout);
    }
    false
}

#[cfg(not(target_os = "linux"))]
fn whole_pages(from: &[u8], _to: &[MaybeUninit<u8>]) -> (usize, usize) {
    (from.len(), 0)
}

#[cfg(not(target_os = "linux"))]
fn move_pages(_from: &mut [u8], _to: &mut [MaybeUninit<u8>]) -> bool {
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Bytes in all pages, whose place can be told from their value.
    fn numbered(length: usize) -> Vec<u8> {
        (0..length).map(|at| (at / 4096 + at) as u8).collect()
    }

    /// A range that begins at an offset from a page, in an allocation with room around it.
    fn aligned(memory: &mut [u8], offset: usize, length: usize) -> &mut [u8] {
        let start = memory.as_ptr().align_offset(1 << 16) + offset;
        &mut memory[start..][..length]
    }

    fn moved(from_offset: usize, to_offset: usize, length: usize) {
        let numbers = numbered(length);
        let (mut former, mut next) = (vec![1; length + (1 << 18)], vec![2; length + (1 << 18)]);
        let from = aligned(&mut former, from_offset, length);
        from.copy_from_slice(&numbers);
        let to = aligned(&mut next, to_offset, length);
        // SAFETY: the same bytes, all of which are written.
        let uninit = unsafe { &mut *(std::ptr::from_mut(to) as *mut [MaybeUninit<u8>]) };
        move_bytes_from(1 << 13, from, uninit);
        assert!(to == numbers, "{length} bytes from {from_offset} to {to_offset}");
        // What surrounds both ranges stays, and the former one can be written.
        from.fill(1);
        to.fill(2);
        assert!(former.iter().all(|byte| *byte == 1) && next.iter().all(|byte| *byte == 2));
    }

    #[test]
    fn bytes_arrive_whatever_the_offsets_are() {
        for length in [0, 1, 4096, 10_000, 1 << 20, (1 << 20) + 17] {
            for (from, to) in [(0, 0), (16, 16), (4095, 4095), (16, 17), (100, 4000)] {
                moved(from, to, length);
            }
        }
    }

    /// Otherwise the pages would be copied, and no other test would tell.
    #[test]
    #[cfg(target_os = "linux")]
    fn whole_pages_are_moved_and_not_copied() {
        let length = 1 << 20;
        let (mut former, mut next) = (vec![1; 2 * length], vec![2; 2 * length]);
        let from = aligned(&mut former, 16, length);
        let to = aligned(&mut next, 16, length);
        // SAFETY: the same bytes, all of which are written.
        let uninit = unsafe { &mut *(std::ptr::from_mut(to) as *mut [MaybeUninit<u8>]) };
        move_bytes_from(1 << 13, from, uninit);
        let left = from.iter().filter(|byte| **byte == 0).count();
        assert!(left > length - 2 * 4096, "{left} bytes were left behind");
        assert!(to.iter().all(|byte| *byte == 1));
    }
}

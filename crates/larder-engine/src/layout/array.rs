//! Arrays of a fixed length that give their memory back at once.
//!
//! The arrays of a shard grow with it, and many shards grow at the same time. An allocator would keep what they have left for
//! sizes that nobody asks for again. A long array is therefore a mapping of its own.

use std::alloc::{Layout, alloc, dealloc, handle_alloc_error};
use std::mem::MaybeUninit;
use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Arrays of this many bytes and more are mappings. What a short one leaves of its last page is less than what an allocator keeps
/// of arrays that grow through such lengths.
const MIN_MAPPED_BYTES: usize = 1 << 13;

/// The bytes of those that are there.
static MAPPED_BYTES: AtomicUsize = AtomicUsize::new(0);

/// The bytes that the caches of this process have mapped for long arrays without the allocator. Add them to counts of
/// allocated memory. Arenas of records are not included.
pub fn mapped_bytes() -> usize {
    MAPPED_BYTES.load(Ordering::Relaxed)
}

/// An array whose elements need no drop.
pub(crate) struct Array<T>(NonNull<[T]>);

// SAFETY: an array owns its elements, as a boxed slice does.
unsafe impl<T: Send> Send for Array<T> {}
// SAFETY: likewise.
unsafe impl<T: Sync> Sync for Array<T> {}

impl<T: Copy> Array<T> {
    /// The same value, `len` times.
    pub(crate) fn filled(len: usize, value: T) -> Self {
        let mut array = Array::<MaybeUninit<T>>::uninit(len);
        array.fill(MaybeUninit::new(value));
        let written = std::mem::ManuallyDrop::new(array).0;
        // Every element was written.
        Array(NonNull::slice_from_raw_parts(written.cast(), len))
    }
}

impl<T> Array<MaybeUninit<T>> {
    /// Memory for `len` elements. What is not written takes none, if the array is long.
    pub(crate) fn uninit(len: usize) -> Self {
        const { assert!(align_of::<T>() <= 4096, "a mapping is aligned to a page") };
        let layout = Layout::array::<T>(len).expect("an array fits into memory");
        let start = match layout.size() {
            0 => NonNull::dangling(),
            MIN_MAPPED_BYTES.. => {
                MAPPED_BYTES.fetch_add(layout.size(), Ordering::Relaxed);
                map(layout).cast()
            }
            _ => allocate(layout).cast(),
        };
        Array(NonNull::slice_from_raw_parts(start, len))
    }
}

impl<T> Drop for Array<T> {
    fn drop(&mut self) {
        const { assert!(!std::mem::needs_drop::<T>(), "elements are not dropped") };
        let layout = Layout::array::<T>(self.0.len()).expect("it was allocated with it");
        match layout.size() {
            0 => {}
            MIN_MAPPED_BYTES.. => {
                MAPPED_BYTES.fetch_sub(layout.size(), Ordering::Relaxed);
                // SAFETY: `uninit` made it with this layout, and it is not used again.
                unsafe { unmap(self.0.cast(), layout) }
            }
            // SAFETY: likewise.
            _ => unsafe { dealloc(self.0.cast().as_ptr(), layout) },
        }
    }
}

impl<T> Deref for Array<T> {
    type Target = [T];

    #[inline]
    fn deref(&self) -> &[T] {
        // SAFETY: the array owns so many elements.
        unsafe { self.0.as_ref() }
    }
}

impl<T> DerefMut for Array<T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut [T] {
        // SAFETY: the array owns so many elements, and is borrowed exclusively.
        unsafe { self.0.as_mut() }
    }
}

impl<T> std::fmt::Debug for Array<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Array").field("len", &self.len()).finish()
    }
}

fn allocate(layout: Layout) -> NonNull<u8> {
    // SAFETY: the layout is not empty.
    NonNull::new(unsafe { alloc(layout) }).unwrap_or_else(|| handle_alloc_error(layout))
}

#[cfg(target_os = "linux")]
mod mapping {
    //! Mappings, and what takes their place when the system allows no more of them.

    use super::{Layout, NonNull, allocate, dealloc};
    use crate::mutex::Mutex;
    use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap_anonymous, munmap};

    /// The addresses of arrays that were to be mappings and are not.
    static ALLOCATED: Mutex<Vec<usize>> = Mutex::new(Vec::new());

    pub(super) fn map(layout: Layout) -> NonNull<u8> {
        let access = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: a new mapping at an address that the system chooses.
        let mapped =
            unsafe { mmap_anonymous(std::ptr::null_mut(), layout.size(), access, MapFlags::PRIVATE) };
        mapped.ok().and_then(|start| NonNull::new(start.cast())).unwrap_or_else(|| {
            let start = allocate(layout);
            ALLOCATED.lock().push(start.as_ptr() as usize);
            start
        })
    }

    /// # Safety
    /// `start` is from [`map`] with this layout, and it is not used again.
    pub(super) unsafe fn unmap(start: NonNull<u8>, layout: Layout) {
        let mut allocated = ALLOCATED.lock();
        if let Some(at) = allocated.iter().position(|address| *address == start.as_ptr() as usize) {
            allocated.swap_remove(at);
            // SAFETY: `map` allocated it with this layout.
            return unsafe { dealloc(start.as_ptr(), layout) };
        }
        drop(allocated);
        // SAFETY: the mapping has this start and length, and nobody uses it.
        unsafe {
            if munmap(start.as_ptr().cast(), layout.size()).is_err() {
                // A part of a larger mapping, which may not be divided into more: its memory goes back all the same.
                let _ = madvise(start.as_ptr().cast(), layout.size(), Advice::LinuxDontNeed);
            }
        }
    }
}

#[cfg(not(target_os = "linux"))]
mod mapping {
    //! Without mappings: the allocator is asked for every array.

    use super::{Layout, NonNull, allocate, dealloc};

    pub(super) fn map(layout: Layout) -> NonNull<u8> {
        allocate(layout)
    }

    /// # Safety
    /// `start` is from [`map`] with this layout, and it is not used again.
    pub(super) unsafe fn unmap(start: NonNull<u8>, layout: Layout) {
        // SAFETY: `map` allocated it with this layout.
        unsafe { dealloc(start.as_ptr(), layout) }
    }
}

use mapping::{map, unmap};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arrays_of_all_lengths_hold_what_was_written() {
        for len in [0, 1, 1_000, MIN_MAPPED_BYTES / 8 - 1, MIN_MAPPED_BYTES / 8, 1_000_000] {
            let mut array = Array::filled(len, 7u64);
            assert_eq!((array.len(), array.iter().filter(|n| **n == 7).count()), (len, len));
            (0..len).for_each(|at| array[at] = at as u64);
            assert!((0..len).all(|at| array[at] == at as u64));
            // Other tests have mappings too.
            assert!(len * 8 < MIN_MAPPED_BYTES || mapped_bytes() >= len * 8);
        }
    }

    #[test]
    fn long_array_begins_at_a_page_and_gives_it_back() {
        for _ in 0..1_000 {
            // A terabyte in all would not fit.
            let mut array = Array::<MaybeUninit<u8>>::uninit(1 << 30);
            assert_eq!(array.as_ptr() as usize % 4096, 0);
            array[1 << 20] = MaybeUninit::new(1);
        }
    }
}

//! An allocator that counts allocations during a measurement.
//!
//! A program has one allocator, so a bench inside a larger program cannot install its own. This one wraps the program's
//! allocator. Outside a measurement it costs one relaxed load of a flag that does not change.

use larder_engine::stats::mapped_bytes;
use std::alloc::{GlobalAlloc, Layout};
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};

static COUNTING: AtomicBool = AtomicBool::new(false);
static LIVE_BYTES: AtomicI64 = AtomicI64::new(0);
static ALLOCATIONS: AtomicI64 = AtomicI64::new(0);

/// Wraps an allocator. A binary installs it as its global allocator:
///
/// ```
/// #[global_allocator]
/// static ALLOCATOR: larder_bench::CountingAllocator<mimalloc::MiMalloc> = larder_bench::CountingAllocator(mimalloc::MiMalloc);
/// # fn main() {}
/// ```
#[derive(Debug)]
pub struct CountingAllocator<A>(pub A);

// SAFETY: every call is forwarded unchanged; counting accesses no memory of the caller.
unsafe impl<A: GlobalAlloc> GlobalAlloc for CountingAllocator<A> {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout.size() as i64);
        // SAFETY: the caller meets the contract of this method, which is that of the wrapped one.
        unsafe { self.0.alloc(layout) }
    }

    unsafe fn dealloc(&self, ptr: *mut u8, layout: Layout) {
        count(-(layout.size() as i64));
        // SAFETY: as above; `ptr` came from the wrapped allocator.
        unsafe { self.0.dealloc(ptr, layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        count(layout.size() as i64);
        // SAFETY: as above.
        unsafe { self.0.alloc_zeroed(layout) }
    }

    unsafe fn realloc(&self, ptr: *mut u8, layout: Layout, new_size: usize) -> *mut u8 {
        count(new_size as i64 - layout.size() as i64);
        // SAFETY: as above; `ptr` came from the wrapped allocator.
        unsafe { self.0.realloc(ptr, layout, new_size) }
    }
}

#[inline]
fn count(bytes: i64) {
    if COUNTING.load(Ordering::Relaxed) {
        LIVE_BYTES.fetch_add(bytes, Ordering::Relaxed);
        ALLOCATIONS.fetch_add(i64::from(bytes > 0), Ordering::Relaxed);
    }
}

/// Runs `work`. Returns its result and by how many bytes the allocated memory grew; `None` if the program's allocator
/// does not count. The bytes are those requested, and those that our engine maps by itself: the allocator may round each
/// request up.
pub(crate) fn measure_growth<T>(work: impl FnOnce() -> T) -> Option<(T, i64)> {
    let before = mapped_bytes() as i64;
    run_counted(work)
        .map(|result| (result, LIVE_BYTES.load(Ordering::Relaxed) + mapped_bytes() as i64 - before))
}

/// Runs `work`. Returns its result and the number of allocations by all threads; `None` if the program's allocator does
/// not count.
pub(crate) fn count_allocations<T>(work: impl FnOnce() -> T) -> Option<(T, i64)> {
    run_counted(work).map(|result| (result, ALLOCATIONS.load(Ordering::Relaxed)))
}

fn run_counted<T>(work: impl FnOnce() -> T) -> Option<T> {
    LIVE_BYTES.store(0, Ordering::Relaxed);
    COUNTING.store(true, Ordering::Relaxed);
    let probe = std::hint::black_box(Box::new([0u8; 64]));
    let is_counting = LIVE_BYTES.load(Ordering::Relaxed) > 0;
    drop(probe);
    ALLOCATIONS.store(0, Ordering::Relaxed);
    let result = is_counting.then(work);
    COUNTING.store(false, Ordering::Relaxed);
    result
}

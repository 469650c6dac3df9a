//! An allocator that counts what is allocated, while it is asked to.
//!
//! A program chooses its allocator once, so a bench inside a larger program cannot bring one of its own. This one wraps
//! the program's choice, and outside a measurement costs one relaxed load of a flag that never changes.

use std::alloc::{GlobalAlloc, Layout};
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};

static COUNTING: AtomicBool = AtomicBool::new(false);
static LIVE_BYTES: AtomicI64 = AtomicI64::new(0);
static ALLOCATIONS: AtomicI64 = AtomicI64::new(0);

/// Wraps an allocator. To be installed by the binary, as `larder-bench` does:
///
/// ```
/// #[global_allocator]
/// static ALLOCATOR: larder_bench::Counting<mimalloc::MiMalloc> = larder_bench::Counting(mimalloc::MiMalloc);
/// # fn main() {}
/// ```
#[derive(Debug)]
pub struct Counting<A>(pub A);

// SAFETY: every call is handed on as it is; counting touches no memory of the caller.
unsafe impl<A: GlobalAlloc> GlobalAlloc for Counting<A> {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout.size() as i64);
        // SAFETY: the caller keeps the contract of this method, which is the same.
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

/// Runs `work` and returns what it returned, with the bytes by which what is allocated has grown; none if the program's
/// allocator does not count. Bytes as they were asked for: what an allocator rounds up comes on top.
pub(crate) fn growth<T>(work: impl FnOnce() -> T) -> Option<(T, i64)> {
    counted(work).map(|result| (result, LIVE_BYTES.load(Ordering::Relaxed)))
}

/// Runs `work` and returns what it returned, with how often something was allocated, by this thread or others; none if
/// the program's allocator does not count.
pub(crate) fn allocations<T>(work: impl FnOnce() -> T) -> Option<(T, i64)> {
    counted(work).map(|result| (result, ALLOCATIONS.load(Ordering::Relaxed)))
}

fn counted<T>(work: impl FnOnce() -> T) -> Option<T> {
    LIVE_BYTES.store(0, Ordering::Relaxed);
    COUNTING.store(true, Ordering::Relaxed);
    let probe = std::hint::black_box(Box::new([0u8; 64]));
    let counts = LIVE_BYTES.load(Ordering::Relaxed) > 0;
    drop(probe);
    ALLOCATIONS.store(0, Ordering::Relaxed);
    let result = counts.then(work);
    COUNTING.store(false, Ordering::Relaxed);
    result
}

//! Objects of Ruby that values in memory keep: they are in arrays of Ruby, so that it marks and moves them itself.
//!
//! ```text
//!  HostValue ── Kept: a number ──► slot of a page ──► object       pages are arrays of Ruby, in one array
//!      │ dropped, on any thread
//!      └──► the number is queued; the next thread with the GVL empties the slot
//! ```
//!
//! No lock is held while anything of Ruby is called: its garbage collection drops values too.

use super::{Ruby, Value, constants, sys};
use crate::raised::Result;
use larder_host::PerProcess;
use std::convert::Infallible;
use std::ffi::c_long;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The slots of a page. Ruby marks a page anew when one of its slots has changed.
const PAGE_SLOTS: u32 = 256;

/// The array of pages.
static PAGES: AtomicUsize = AtomicUsize::new(0);

/// The slots of this process. A child has the pages of its parent, which it empties, and no values of it.
static SLOTS: PerProcess<Slots> = PerProcess::new();

#[derive(Default)]
struct Slots {
    numbers: Mutex<Numbers>,
    /// Whether there are dropped numbers.
    has_dropped: AtomicBool,
    /// Whether the pages are those of this process.
    has_begun: AtomicBool,
}

#[derive(Default)]
struct Numbers {
    /// Slots without an object.
    free: Vec<u32>,
    /// Slots whose object nobody needs.
    dropped: Vec<u32>,
    /// The first one that was never used.
    next: u32,
}

/// An object of Ruby that is alive for as long as this. It may be dropped on every thread.
pub(crate) struct Kept {
    slots: &'static Slots,
    number: u32,
}

pub(super) fn begin(ruby: Ruby<'_>) {
    if let Ok(pages) = ruby.array(&[]) {
        // SAFETY: it is an object, which then is neither freed nor moved.
        unsafe { sys::rb_gc_register_mark_object(pages.raw()) };
        PAGES.store(pages.raw(), Ordering::Release);
    }
}

impl Slots {
    fn of_this_process() -> &'static Self {
        let Ok(slots) = SLOTS.get_or_make(|| Ok::<_, Infallible>(Slots::default()));
        slots
    }

    fn numbers(&self) -> MutexGuard<'_, Numbers> {
        self.numbers.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Kept {
    /// Keeps an object.
    pub(crate) fn new<'r>(ruby: Ruby<'r>, object: Value<'r>) -> Result<Self> {
        let slots = Slots::of_this_process();
        if !slots.has_begun.swap(true, Ordering::AcqRel) {
            // SAFETY: the array is one of this library.
            ruby.protect(|| unsafe { sys::rb_ary_clear(PAGES.load(Ordering::Acquire)) })?;
        }
        release_dropped(ruby);
        let number = {
            let mut numbers = slots.numbers();
            numbers.free.pop().unwrap_or_else(|| {
                numbers.next += 1;
                numbers.next - 1
            })
        };
        // From here on it comes back where the object cannot be stored.
        let kept = Kept { slots, number };
        ruby.protect(|| {
            let pages = PAGES.load(Ordering::Acquire);
            // SAFETY: the arrays are those of this library, and only a thread with the GVL changes them.
            unsafe {
                let mut page = sys::rb_ary_entry(pages, page_of(number));
                if page == constants().nil {
                    page = sys::rb_ary_new_capa(c_long::from(PAGE_SLOTS));
                    sys::rb_ary_store(pages, page_of(number), page);
                }
                sys::rb_ary_store(page, slot_of(number), object.raw());
            }
        })?;
        Ok(kept)
    }

    /// The object. `None` in a child of the process that has kept it.
    #[inline]
    pub(crate) fn object<'r>(&self, ruby: Ruby<'r>) -> Option<Value<'r>> {
        if !self.is_of_this_process() {
            return None;
        }
        // SAFETY: the arrays are those of this library, and of arrays it raises nothing.
        let object = unsafe {
            let page = sys::rb_ary_entry(PAGES.load(Ordering::Acquire), page_of(self.number));
            sys::rb_ary_entry(page, slot_of(self.number))
        };
        Some(ruby.value(object))
    }

    #[inline]
    fn is_of_this_process(&self) -> bool {
        SLOTS.get().is_some_and(|slots| std::ptr::eq(slots, self.slots))
    }
}

impl Drop for Kept {
    fn drop(&mut self) {
        // The locks of a parent are those of a thread that may not exist here.
        if self.is_of_this_process() {
            self.slots.numbers().dropped.push(self.number);
            self.slots.has_dropped.store(true, Ordering::Release);
        }
    }
}

impl std::fmt::Debug for Kept {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Kept").field(&self.number).finish()
    }
}

/// Empties the slots whose objects nobody needs. Cost where there are none: a few loads.
#[inline]
pub(crate) fn release_dropped(ruby: Ruby<'_>) {
    if let Some(slots) = SLOTS.get()
        && slots.has_dropped.swap(false, Ordering::AcqRel)
    {
        release(ruby, slots);
    }
}

#[cold]
fn release(ruby: Ruby<'_>, slots: &Slots) {
    let dropped = std::mem::take(&mut slots.numbers().dropped);
    let pages = PAGES.load(Ordering::Acquire);
    for &number in &dropped {
        // A slot that exists is overwritten: where that fails, it is overwritten later.
        // SAFETY: the arrays are those of this library, and only a thread with the GVL changes them.
        _ = ruby.protect(|| unsafe {
            let page = sys::rb_ary_entry(pages, page_of(number));
            if page != constants().nil {
                sys::rb_ary_store(page, slot_of(number), constants().nil);
            }
        });
    }
    slots.numbers().free.extend(dropped);
}

fn page_of(number: u32) -> c_long {
    c_long::from(number / PAGE_SLOTS)
}

fn slot_of(number: u32) -> c_long {
    c_long::from(number % PAGE_SLOTS)
}

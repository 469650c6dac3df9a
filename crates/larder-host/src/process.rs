//! A value of each process: made in it when it is first needed, and made anew in a forked child.

use larder_engine::fork::Process;
use std::marker::PhantomData;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicPtr, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError};

/// A value that each process makes for itself.
///
/// A forked child leaks the value of its parent and does not look at it: to drop a runtime there would join threads that do not
/// exist, and take what it registered with the system from the parent, which shares that. For the same reason no lock of the
/// parent is taken: another thread may have had it when the process forked, and then has it for ever.
///
/// # Examples
/// ```
/// use larder_host::PerProcess;
///
/// let number = PerProcess::new();
/// assert_eq!(number.get(), None);
/// assert_eq!(number.get_or_make(|| Ok::<_, ()>(std::process::id())), Ok(&std::process::id()));
/// ```
pub struct PerProcess<T> {
    /// Null, or what [`PerProcess::slot`] has made. In a child that of a parent is replaced and never freed.
    slot: AtomicPtr<Slot<T>>,
    _owned: PhantomData<Slot<T>>,
}

struct Slot<T> {
    process: Process,
    making: Mutex<()>,
    value: OnceLock<T>,
}

impl<T> PerProcess<T> {
    /// A value that no process has made yet.
    pub const fn new() -> Self {
        PerProcess { slot: AtomicPtr::new(null_mut()), _owned: PhantomData }
    }

    /// The value of this process, if it was made. Cost: three loads.
    #[inline]
    pub fn get(&self) -> Option<&T> {
        self.own_slot()?.value.get()
    }

    /// The value of this process, which `make` makes if there is none. Threads that need it meanwhile wait for `make`, so it
    /// must not run code of the host, nor need this value. A failure is not kept: the next call makes it again.
    ///
    /// # Errors
    /// That of `make`.
    pub fn get_or_make<E>(&self, make: impl FnOnce() -> Result<T, E>) -> Result<&T, E> {
        let slot = self.slot();
        if let Some(value) = slot.value.get() {
            return Ok(value);
        }
        // Only threads of this process take it: a child has its own slot.
        let _making = slot.making.lock().unwrap_or_else(PoisonError::into_inner);
        match slot.value.get() {
            Some(value) => Ok(value),
            None => {
                let value = make()?;
                Ok(slot.value.get_or_init(|| value))
            }
        }
    }

    /// The slot of this process, if there is one.
    #[inline]
    fn own_slot(&self) -> Option<&Slot<T>> {
        // SAFETY: it is null or comes from a box that is freed by `drop` alone, or never.
        let slot = unsafe { self.slot.load(Ordering::Acquire).as_ref() }?;
        (!slot.process.has_forked()).then_some(slot)
    }

    /// The slot of this process, which is made if there is none. Takes no lock.
    fn slot(&self) -> &Slot<T> {
        if let Some(slot) = self.own_slot() {
            return slot;
        }
        let made = Slot { process: Process::current(), making: Mutex::new(()), value: OnceLock::new() };
        let made = Box::into_raw(Box::new(made));
        loop {
            let inherited = self.slot.load(Ordering::Acquire);
            if let Some(slot) = self.own_slot() {
                // SAFETY: it is the box above, which nobody else knows.
                drop(unsafe { Box::from_raw(made) });
                return slot;
            }
            // An inherited slot stays allocated: it may be in use by the thread that forked, and its value is the parent's.
            let exchanged = self.slot.compare_exchange(inherited, made, Ordering::AcqRel, Ordering::Acquire);
            if exchanged.is_ok() {
                // SAFETY: it is the box above, which `drop` alone frees.
                return unsafe { &*made };
            }
        }
    }
}

impl<T> Drop for PerProcess<T> {
    /// Drops the value of this process, and leaks that of another one.
    fn drop(&mut self) {
        if self.own_slot().is_some() {
            // SAFETY: it comes from a box, and the borrow of `self` is exclusive, so no reference into it is left.
            drop(unsafe { Box::from_raw(*self.slot.get_mut()) });
        }
    }
}

impl<T> Default for PerProcess<T> {
    fn default() -> Self {
        PerProcess::new()
    }
}

impl<T: std::fmt::Debug> std::fmt::Debug for PerProcess<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("PerProcess").field(&self.get()).finish()
    }
}

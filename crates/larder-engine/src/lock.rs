//! The lock of a shard: a byte, taken by one exchange and given back by a plain store, which turns re-entry into a panic
//! instead of a deadlock.
//!
//! What a shard does under its lock takes well under a microsecond, so a thread that finds it taken spins for about as
//! long and then lets others run: the holder, if it was interrupted, most of all. Nobody is queued and nobody is woken,
//! which is what makes giving back a plain store; an exchange there would hold up the loads of the operations after it.
//!
//! A closure that runs under the lock of one shard and calls the same cache again would wait for itself, or, through
//! another shard, for a second thread that waits for it. Each thread therefore remembers the cache whose lock it
//! holds, and a second lock of the same cache panics, always and not only when the timing is bad.

use crate::sync::{AtomicBool, Ordering, spin_loop, thread, thread_local};
use std::cell::{Cell, UnsafeCell};
use std::ops::{Deref, DerefMut};

/// Turns that a thread spins before it yields: about half a microsecond.
const SPINS: u32 = 64;

thread_local! {
    /// The cache whose shard this thread has locked, 0 for none.
    static HELD: Cell<usize> = const { Cell::new(0) };
}

/// A lock that belongs to a cache, known by a number that is not zero.
#[derive(Debug)]
#[repr(align(128))]
pub(crate) struct ShardLock<T> {
    taken: AtomicBool,
    shard: UnsafeCell<T>,
}

// SAFETY: `shard` is reached only through a guard, and there is one guard at a time: `taken` sees to that.
unsafe impl<T: Send> Sync for ShardLock<T> {}

impl<T> ShardLock<T> {
    pub(crate) fn new(shard: T) -> Self {
        ShardLock { taken: AtomicBool::new(false), shard: UnsafeCell::new(shard) }
    }

    /// Locks the shard for this thread.
    ///
    /// # Panics
    /// If this thread already holds a shard of the cache `owner`.
    #[inline]
    pub(crate) fn lock(&self, owner: usize) -> ShardGuard<'_, T> {
        let outer = HELD.with(|held| held.replace(owner));
        if outer == owner {
            reentered();
        }
        if !self.try_take() {
            self.take_slowly();
        }
        ShardGuard { lock: self, outer: Some(outer) }
    }

    /// Locks the shard beside another of the same cache, if that takes no waiting. Two threads that each hold a shard
    /// and want the other's cannot wait for each other, because neither waits.
    pub(crate) fn try_lock_beside(&self) -> Option<ShardGuard<'_, T>> {
        self.try_take().then(|| ShardGuard { lock: self, outer: None })
    }

    #[inline]
    fn try_take(&self) -> bool {
        self.taken.compare_exchange(false, true, Ordering::Acquire, Ordering::Relaxed).is_ok()
    }

    #[cold]
    fn take_slowly(&self) {
        let mut turns = 0;
        // Looking before trying leaves the line to the holder.
        while self.taken.load(Ordering::Relaxed) || !self.try_take() {
            turns += 1;
            if turns % SPINS == 0 {
                thread::yield_now();
            } else {
                spin_loop();
            }
        }
    }
}

#[cold]
fn reentered() -> ! {
    panic!("a closure, Eq or Hash that runs under the lock of a cache called the same cache");
}

/// Access to a locked shard.
#[derive(Debug)]
pub(crate) struct ShardGuard<'a, T> {
    lock: &'a ShardLock<T>,
    /// What this thread held before; `None` for a lock beside another.
    outer: Option<usize>,
}

impl<T> Drop for ShardGuard<'_, T> {
    #[inline]
    fn drop(&mut self) {
        self.lock.taken.store(false, Ordering::Release);
        if let Some(outer) = self.outer {
            HELD.with(|held| held.set(outer));
        }
    }
}

impl<T> Deref for ShardGuard<'_, T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        // SAFETY: this guard is the only one, so nobody changes the shard.
        unsafe { &*self.lock.shard.get() }
    }
}

impl<T> DerefMut for ShardGuard<'_, T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: this guard is the only one, and it is borrowed exclusively.
        unsafe { &mut *self.lock.shard.get() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_thread_at_a_time() {
        let lock = ShardLock::new(0u64);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| (0..20_000).for_each(|_| *lock.lock(1) += 1));
            }
        });
        assert_eq!(*lock.lock(1), 80_000);
    }

    /// A guard that was made before it was known whether the lock had been taken, and dropped at once, gave back what
    /// another thread held.
    #[test]
    fn failing_to_take_a_lock_does_not_give_it_back() {
        let lock = ShardLock::new(());
        let guard = lock.lock(1);
        assert!(lock.try_lock_beside().is_none());
        assert!(lock.taken.load(Ordering::Relaxed), "it is still the first guard's");
        drop(guard);
        assert!(lock.try_lock_beside().is_some());
        drop(lock.lock(1));
    }
}

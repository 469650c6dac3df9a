//! The locks of a cache's shards: one word each, acquired by one exchange and released by a plain store. Re-entry panics
//! where it would deadlock.
//!
//! A shard holds its lock for well under a microsecond, so a waiting thread spins for about as long and then yields, to
//! the holder above all if it was preempted. Waiters are neither queued nor woken, so a release is a plain store; an
//! exchange there would delay the loads of the following operations.
//!
//! A closure that runs under the lock of one shard and calls the same cache again would wait for itself, or, through
//! another shard, for a second thread that waits for it. A lock therefore stores the thread that holds it, and a thread
//! that would have to wait checks first whether it holds another lock of the same cache. The check is free without
//! contention, but then finds a re-entry only when the timing is bad; with debug assertions every acquisition checks, so
//! that tests find each re-entry.

use crate::prefetch::prefetch_at;
use crate::sync::{AtomicUsize, Ordering, spin_loop, thread, thread_local};
use std::cell::UnsafeCell;
use std::marker::PhantomData;
use std::ops::{Deref, DerefMut};

/// How often a thread spins before it yields: about half a microsecond.
const SPINS: u32 = 64;
/// The holder of a free lock.
const UNLOCKED: usize = 0;

thread_local! {
    /// Its address identifies the thread among all that are alive.
    static ME: u8 = const { 0 };
}

/// A lock, followed by what it guards in the same cache line.
#[derive(Debug)]
#[repr(C, align(64))]
struct Lock<T> {
    holder: AtomicUsize,
    guarded: UnsafeCell<T>,
}

// SAFETY: `guarded` is reached only through a guard, and `holder` ensures that there is one guard at a time.
unsafe impl<T: Send> Sync for Lock<T> {}

/// The locked shards of a cache.
#[derive(Debug)]
pub(crate) struct Locks<T>(Box<[Lock<T>]>);

impl<T> Locks<T> {
    pub(crate) fn new(guarded: impl Iterator<Item = T>) -> Self {
        let lock = |guarded| Lock { holder: AtomicUsize::new(UNLOCKED), guarded: UnsafeCell::new(guarded) };
        Locks(guarded.map(lock).collect())
    }

    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    /// Acquires the lock `index`.
    ///
    /// # Panics
    /// If there is no such lock; if this thread holds one of these locks and would have to wait for another; with debug
    /// assertions, if it holds any of them.
    #[inline]
    pub(crate) fn lock(&self, index: usize) -> Guard<'_, T> {
        let (lock, me) = (&self.0[index], thread_id());
        if cfg!(debug_assertions) {
            self.refuse_reentry();
        }
        if !lock.try_acquire(me) {
            self.lock_contended(lock, me);
        }
        Guard::of(lock)
    }

    /// Acquires several locks in ascending order, which excludes deadlocks between threads that all do so.
    ///
    /// # Panics
    /// If the indices do not ascend, or one does not exist; with debug assertions, if this thread holds a lock.
    pub(crate) fn lock_ascending(&self, indices: impl IntoIterator<Item = usize>) -> Vec<Guard<'_, T>> {
        let me = thread_id();
        if cfg!(debug_assertions) {
            self.refuse_reentry();
        }
        let mut last = None;
        let take = |index: usize| {
            assert!(last.replace(index) < Some(index), "lock {index} does not come after {last:?}");
            let lock = &self.0[index];
            if !lock.try_acquire(me) {
                lock.wait_until_free(me);
            }
            Guard::of(lock)
        };
        indices.into_iter().map(take).collect()
    }

    /// Prefetches what a lock guards.
    pub(crate) fn prefetch(&self, index: usize) {
        let lock = std::ptr::from_ref(&self.0[index]).cast::<u8>();
        prefetch_at(lock);
        // What a lookup needs is in the first two lines.
        prefetch_at(lock.wrapping_add(64));
    }

    /// Acquires one lock after the other; each is released before the next.
    pub(crate) fn each(&self) -> impl Iterator<Item = Guard<'_, T>> {
        (0..self.len()).map(|index| self.lock(index))
    }

    /// Acquires a second lock if that needs no waiting. Two threads that each hold one lock and want the other's cannot
    /// deadlock, because neither waits.
    pub(crate) fn try_lock_beside(&self, index: usize) -> Option<Guard<'_, T>> {
        let lock = &self.0[index];
        // Not `then_some`: a guard made before the lock is acquired would release it.
        lock.try_acquire(thread_id()).then(|| Guard::of(lock))
    }

    #[cold]
    fn lock_contended(&self, lock: &Lock<T>, me: usize) {
        self.refuse_reentry();
        lock.wait_until_free(me);
    }

    /// Whether this thread holds one of these locks. Cost: reads all of them.
    pub(crate) fn holds_any(&self) -> bool {
        let me = thread_id();
        self.0.iter().any(|lock| lock.holder.load(Ordering::Relaxed) == me)
    }

    fn refuse_reentry(&self) {
        assert!(
            !self.holds_any(),
            "a closure, Eq or Hash that runs under the lock of a cache called the same cache"
        );
    }
}

impl<T> Lock<T> {
    #[inline]
    fn try_acquire(&self, me: usize) -> bool {
        self.holder.compare_exchange(UNLOCKED, me, Ordering::Acquire, Ordering::Relaxed).is_ok()
    }

    #[cold]
    fn wait_until_free(&self, me: usize) {
        let mut turns = 0;
        // A read before each exchange leaves the cache line to the holder.
        while self.holder.load(Ordering::Relaxed) != UNLOCKED || !self.try_acquire(me) {
            turns += 1;
            if turns % SPINS == 0 {
                thread::yield_now();
            } else {
                spin_loop();
            }
        }
    }
}

#[inline]
fn thread_id() -> usize {
    ME.with(|me| std::ptr::from_ref(me) as usize)
}

/// Access to what an acquired lock guards.
#[derive(Debug)]
pub(crate) struct Guard<'a, T> {
    lock: &'a Lock<T>,
    /// Neither `Send` nor `Sync`: the lock stores this thread as its holder.
    _on_this_thread: PhantomData<*const ()>,
}

impl<'a, T> Guard<'a, T> {
    /// The guard of a lock that was just acquired.
    #[inline]
    fn of(lock: &'a Lock<T>) -> Self {
        Guard { lock, _on_this_thread: PhantomData }
    }
}

impl<T> Drop for Guard<'_, T> {
    #[inline]
    fn drop(&mut self) {
        self.lock.holder.store(UNLOCKED, Ordering::Release);
    }
}

impl<T> Deref for Guard<'_, T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        // SAFETY: this guard is the only one, so nobody changes what it guards.
        unsafe { &*self.lock.guarded.get() }
    }
}

impl<T> DerefMut for Guard<'_, T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: this guard is the only one, and it is borrowed exclusively.
        unsafe { &mut *self.lock.guarded.get() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::panic::{AssertUnwindSafe, catch_unwind};

    #[test]
    fn lock_contended_excludes_other_threads() {
        let locks = Locks::new([0u64].into_iter());
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| (0..20_000).for_each(|_| *locks.lock(0) += 1));
            }
        });
        assert_eq!(*locks.lock(0), 80_000);
    }

    /// A guard that was made before the lock was acquired, and dropped at once, released what another thread held.
    #[test]
    fn try_lock_failed_does_not_release_the_lock() {
        let locks = Locks::new([(), ()].into_iter());
        let guard = locks.lock(0);
        assert!(locks.try_lock_beside(0).is_none());
        assert_eq!(guard.lock.holder.load(Ordering::Relaxed), thread_id(), "it is still the first guard's");
        drop(guard);
        assert!(locks.try_lock_beside(0).is_some());
        drop(locks.lock(0));
    }

    /// As in a build without debug assertions.
    #[test]
    fn contended_lock_while_holding_another_panics() {
        let locks = Locks::new([(), ()].into_iter());
        let _first = locks.lock(0);
        for wanted in [0, 1] {
            let waiting = || locks.lock_contended(&locks.0[wanted], thread_id());
            assert!(catch_unwind(AssertUnwindSafe(waiting)).is_err(), "lock {wanted}");
        }
    }
}

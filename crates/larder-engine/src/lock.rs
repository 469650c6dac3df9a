//! The locks of a cache's shards: a word each, taken by one exchange and given back by a plain store, which turn re-entry
//! into a panic where it would be a deadlock.
//!
//! What a shard does under its lock takes well under a microsecond, so a thread that finds it taken spins for about as
//! long and then lets others run: the holder, if it was interrupted, most of all. Nobody is queued and nobody is woken,
//! which is what makes giving back a plain store; an exchange there would hold up the loads of the operations after it.
//!
//! A closure that runs under the lock of one shard and calls the same cache again would wait for itself, or, through
//! another shard, for a second thread that waits for it. A lock therefore names the thread that holds it, and a thread
//! that would have to wait looks first whether it holds another of them. That costs nothing where nobody waits, but finds
//! a re-entry only when the timing is bad; with debug assertions every lock looks first, so that tests find each.

use crate::prefetch::prefetch_at;
use crate::sync::{AtomicUsize, Ordering, spin_loop, thread, thread_local};
use std::cell::UnsafeCell;
use std::ops::{Deref, DerefMut};

/// Turns that a thread spins before it yields: about half a microsecond.
const SPINS: u32 = 64;
/// In place of a holder.
const NOBODY: usize = 0;

thread_local! {
    /// Its address is a number that no other living thread has.
    static ME: u8 = const { 0 };
}

/// A lock, which what it guards follows in the same cache line.
#[derive(Debug)]
#[repr(C, align(64))]
struct Lock<T> {
    holder: AtomicUsize,
    guarded: UnsafeCell<T>,
}

// SAFETY: `guarded` is reached only through a guard, and there is one guard at a time: `holder` sees to that.
unsafe impl<T: Send> Sync for Lock<T> {}

/// The locked shards of a cache.
#[derive(Debug)]
pub(crate) struct Locks<T>(Box<[Lock<T>]>);

impl<T> Locks<T> {
    pub(crate) fn new(guarded: impl Iterator<Item = T>) -> Self {
        let lock = |guarded| Lock { holder: AtomicUsize::new(NOBODY), guarded: UnsafeCell::new(guarded) };
        Locks(guarded.map(lock).collect())
    }

    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    /// Locks one for this thread.
    ///
    /// # Panics
    /// If there is no such lock; if this thread holds one of them and would have to wait for another, or, with debug
    /// assertions, if it holds one at all.
    #[inline]
    pub(crate) fn lock(&self, index: usize) -> Guard<'_, T> {
        let (lock, me) = (&self.0[index], me());
        if cfg!(debug_assertions) {
            self.refuse_reentry(me);
        }
        if !lock.try_take(me) {
            self.take_slowly(lock, me);
        }
        Guard { lock }
    }

    /// Locks several, given in ascending order: threads that all do so cannot wait for each other in a circle.
    ///
    /// # Panics
    /// If they are not in ascending order, or one does not exist; with debug assertions, if this thread holds one.
    pub(crate) fn lock_ascending(&self, indices: impl IntoIterator<Item = usize>) -> Vec<Guard<'_, T>> {
        let me = me();
        if cfg!(debug_assertions) {
            self.refuse_reentry(me);
        }
        let mut last = None;
        let take = |index: usize| {
            assert!(last.replace(index) < Some(index), "lock {index} is not behind {last:?}");
            let lock = &self.0[index];
            if !lock.try_take(me) {
                lock.await_turn(me);
            }
            Guard { lock }
        };
        indices.into_iter().map(take).collect()
    }

    /// Asks for what a lock guards, which is going to be locked.
    pub(crate) fn foresee(&self, index: usize) {
        let lock = std::ptr::from_ref(&self.0[index]).cast::<u8>();
        prefetch_at(lock);
        // What a lookup needs is in the first two lines.
        prefetch_at(lock.wrapping_add(64));
    }

    /// Locks one after the other, for as long as each is looked at.
    pub(crate) fn each(&self) -> impl Iterator<Item = Guard<'_, T>> {
        (0..self.len()).map(|index| self.lock(index))
    }

    /// Locks one beside another, if that takes no waiting. Two threads that each hold one and want the other's cannot
    /// wait for each other, because neither waits.
    pub(crate) fn try_lock_beside(&self, index: usize) -> Option<Guard<'_, T>> {
        let lock = &self.0[index];
        // Not `then_some`: a guard made before it is known whether the lock was taken would give it back.
        lock.try_take(me()).then(|| Guard { lock })
    }

    #[cold]
    fn take_slowly(&self, lock: &Lock<T>, me: usize) {
        self.refuse_reentry(me);
        lock.await_turn(me);
    }

    fn refuse_reentry(&self, me: usize) {
        let holds_one = self.0.iter().any(|lock| lock.holder.load(Ordering::Relaxed) == me);
        assert!(
            !holds_one,
            "a closure, Eq or Hash that runs under the lock of a cache called the same cache"
        );
    }
}

impl<T> Lock<T> {
    #[inline]
    fn try_take(&self, me: usize) -> bool {
        self.holder.compare_exchange(NOBODY, me, Ordering::Acquire, Ordering::Relaxed).is_ok()
    }

    #[cold]
    fn await_turn(&self, me: usize) {
        let mut turns = 0;
        // Looking before trying leaves the line to the holder.
        while self.holder.load(Ordering::Relaxed) != NOBODY || !self.try_take(me) {
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
fn me() -> usize {
    ME.with(|me| std::ptr::from_ref(me) as usize)
}

/// Access to what a lock guards.
#[derive(Debug)]
pub(crate) struct Guard<'a, T> {
    lock: &'a Lock<T>,
}

impl<T> Guard<'_, T> {
    /// Lets others have what is guarded for a moment. What was known of it before holds no longer.
    pub(crate) fn let_others(&mut self) {
        self.lock.holder.store(NOBODY, Ordering::Release);
        thread::yield_now();
        let me = me();
        if !self.lock.try_take(me) {
            self.lock.await_turn(me);
        }
    }
}

impl<T> Drop for Guard<'_, T> {
    #[inline]
    fn drop(&mut self) {
        self.lock.holder.store(NOBODY, Ordering::Release);
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
    fn one_thread_at_a_time() {
        let locks = Locks::new([0u64].into_iter());
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| (0..20_000).for_each(|_| *locks.lock(0) += 1));
            }
        });
        assert_eq!(*locks.lock(0), 80_000);
    }

    /// A guard that was made before it was known whether the lock had been taken, and dropped at once, gave back what
    /// another thread held.
    #[test]
    fn failing_to_take_a_lock_does_not_give_it_back() {
        let locks = Locks::new([(), ()].into_iter());
        let guard = locks.lock(0);
        assert!(locks.try_lock_beside(0).is_none());
        assert_eq!(guard.lock.holder.load(Ordering::Relaxed), me(), "it is still the first guard's");
        drop(guard);
        assert!(locks.try_lock_beside(0).is_some());
        drop(locks.lock(0));
    }

    /// What happens where nothing is looked for before there is something to wait for.
    #[test]
    fn who_would_wait_for_a_lock_and_holds_another_panics() {
        let locks = Locks::new([(), ()].into_iter());
        let _first = locks.lock(0);
        for wanted in [0, 1] {
            let waiting = || locks.take_slowly(&locks.0[wanted], me());
            assert!(catch_unwind(AssertUnwindSafe(waiting)).is_err(), "lock {wanted}");
        }
    }
}

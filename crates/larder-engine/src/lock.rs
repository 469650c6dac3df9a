//! The lock of a shard: a mutex that turns re-entry into a panic instead of a deadlock.
//!
//! A closure that runs under the lock of one shard and calls the same cache again would wait for itself, or, through
//! another shard, for a second thread that waits for it. Each thread therefore remembers the cache whose lock it
//! holds, and a second lock of the same cache panics, always and not only when the timing is bad.

use parking_lot::{Mutex, MutexGuard};
use std::cell::Cell;
use std::ops::{Deref, DerefMut};

thread_local! {
    /// The cache whose shard this thread has locked, 0 for none.
    static HELD: Cell<usize> = const { Cell::new(0) };
}

/// A mutex that belongs to a cache, known by a number that is not zero.
#[derive(Debug)]
pub(crate) struct ShardLock<T>(Mutex<T>);

impl<T> ShardLock<T> {
    pub(crate) fn new(value: T) -> Self {
        ShardLock(Mutex::new(value))
    }

    /// Locks the shard for this thread.
    ///
    /// # Panics
    /// If this thread already holds a shard of the cache `owner`.
    pub(crate) fn lock(&self, owner: usize) -> ShardGuard<'_, T> {
        let outer = HELD.replace(owner);
        if outer == owner {
            panic!("a closure, Eq or Hash that runs under the lock of a cache called the same cache");
        }
        ShardGuard { outer, guard: self.0.lock() }
    }

    /// Locks the shard beside another of the same cache, if that takes no waiting. Two threads that each hold a shard
    /// and want the other's cannot wait for each other, because neither waits.
    pub(crate) fn try_lock_beside(&self) -> Option<MutexGuard<'_, T>> {
        self.0.try_lock()
    }
}

/// Access to a locked shard.
pub(crate) struct ShardGuard<'a, T> {
    outer: usize,
    guard: MutexGuard<'a, T>,
}

impl<T> Drop for ShardGuard<'_, T> {
    fn drop(&mut self) {
        HELD.set(self.outer);
    }
}

impl<T> Deref for ShardGuard<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.guard
    }
}

impl<T> DerefMut for ShardGuard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        &mut self.guard
    }
}

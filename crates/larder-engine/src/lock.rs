//! The locks of a cache's shards: one word each, acquired by one exchange and released by a plain store. Re-entry panics
//! where it would deadlock.
//!
//! A thread that waits looks at the lock that it waits for and at no other. It spins for some microseconds, which is longer
//! than most operations take. Then it rests a few times, for some tens of microseconds each: a holder that has many operations to
//! do, one after the other, would pay more for waking it after each than for the operation. At last it parks:
//!
//! ```text
//! waiter                                     holder
//! parked += 1                                holder = UNLOCKED         the release, a plain store
//! heavy barrier                              light barrier
//! holder ≠ UNLOCKED: sleep                   parked ≠ 0: wake one
//! ```
//!
//! One of the two sees what the other wrote, if each write comes before the read below it. On the holder's side that would
//! cost an exchange, which delays the loads of the next operation. But parking is rare, so the waiter pays for both: its
//! barrier makes each running thread of the process execute one (David Dice, Hui Huang, Mingyao Yang, "Asymmetric Dekker
//! Synchronization", 2001; `membarrier` of Linux), and that of the holder only stops the compiler. Without such a barrier
//! a waiter may miss a release, and sleeps for a millisecond at most.
//!
//! A closure that runs under the lock of one shard and calls the same cache again would wait for itself, or, through
//! another shard, for a second thread that waits for it. A lock therefore stores the thread that holds it. A thread that
//! has to wait looks at once whether it holds this lock, and whether it holds another one of the same cache when it has
//! waited for long. The check is free without contention, but then finds a re-entry only when the timing is bad; with
//! debug assertions every acquisition checks all locks, so that tests find each re-entry.

use crate::fork::Process;
use crate::layout::prefetch::prefetch_at;
use crate::sync::{
    AtomicU32, AtomicUsize, Ordering, Outcome, Parking, RESTS, SPIN_PAUSES, heavy_barrier, light_barrier,
    rest, spin_loop, thread_id,
};
use std::cell::UnsafeCell;
use std::marker::PhantomData;
use std::ops::{Deref, DerefMut};
use std::time::{Duration, Instant};

/// The holder of a free lock.
const UNLOCKED: usize = 0;
/// How long a thread waits before it looks whether it waits for itself.
const LONG_WAIT: Duration = Duration::from_millis(100);
/// How long a thread of a forked process waits for a lock: whoever held it at the fork does not exist here.
const INHERITED_WAIT: Duration = Duration::from_secs(1);
/// How long a thread sleeps if releases may be missed.
const UNSEEN_WAIT: Duration = Duration::from_millis(1);

/// A lock, followed by what it guards in the same cache line.
#[derive(Debug)]
#[repr(C, align(64))]
struct Lock<T> {
    holder: AtomicUsize,
    /// The number of threads that sleep until a release, or are about to.
    parked: AtomicU32,
    guarded: UnsafeCell<T>,
}

// SAFETY: `guarded` is reached only through a guard, and `holder` ensures that there is one guard at a time.
unsafe impl<T: Send> Sync for Lock<T> {}

/// The locked shards of a cache.
#[derive(Debug)]
pub(crate) struct Locks<T> {
    locks: Box<[Lock<T>]>,
    parking: Parking,
    /// The process that made them.
    process: Process,
}

impl<T> Locks<T> {
    pub(crate) fn new(guarded: impl Iterator<Item = T>) -> Self {
        let lock = |guarded| Lock {
            holder: AtomicUsize::new(UNLOCKED),
            parked: AtomicU32::new(0),
            guarded: UnsafeCell::new(guarded),
        };
        Locks { locks: guarded.map(lock).collect(), parking: Parking::new(), process: Process::current() }
    }

    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.locks.len()
    }

    /// Acquires the lock `index`.
    ///
    /// # Panics
    /// If there is no such lock; if this thread would wait for itself; with debug assertions, if it holds any of these
    /// locks.
    #[inline]
    pub(crate) fn lock(&self, index: usize) -> Guard<'_, T> {
        self.lock_unless_reentry(index).unwrap_or_else(|| refuse_reentry())
    }

    /// As [`Locks::lock`], but `None` where that panics because of a re-entry.
    #[inline]
    pub(crate) fn lock_unless_reentry(&self, index: usize) -> Option<Guard<'_, T>> {
        let (lock, me) = (&self.locks[index], thread_id());
        if cfg!(debug_assertions) && self.held_by(me) > 0 {
            return None;
        }
        let acquired = lock.try_acquire(me) || self.acquire_contended(lock, me);
        acquired.then(|| self.guard(lock))
    }

    /// As [`Locks::lock`], but `None` if another thread holds the lock for longer than most operations take: for work that
    /// can as well be done later.
    ///
    /// # Panics
    /// As [`Locks::lock`].
    pub(crate) fn lock_without_sleep(&self, index: usize) -> Option<Guard<'_, T>> {
        let (lock, me) = (&self.locks[index], thread_id());
        let is_held = cfg!(debug_assertions) && self.held_by(me) > 0;
        if is_held || lock.holder.load(Ordering::Relaxed) == me {
            refuse_reentry();
        }
        (lock.try_acquire(me) || lock.spin(me)).then(|| self.guard(lock))
    }

    /// Acquires several locks. It does not wait for one while it holds others, which a thread that makes room in the shard
    /// that it waits for may need: it releases them, waits, and begins again. Since it acquires them in ascending order, one
    /// of several threads that do so always gets all of its locks.
    ///
    /// # Panics
    /// If the indices do not ascend, or one does not exist; if this thread would wait for itself; with debug assertions, if
    /// it holds a lock.
    pub(crate) fn lock_ascending(&self, indices: &[usize]) -> Vec<Guard<'_, T>> {
        let me = thread_id();
        if cfg!(debug_assertions) && self.held_by(me) > 0 {
            refuse_reentry();
        }
        self.acquire_ascending(indices, me)
    }

    fn acquire_ascending(&self, indices: &[usize], me: usize) -> Vec<Guard<'_, T>> {
        assert!(indices.is_sorted_by(|one, next| one < next), "the locks {indices:?} do not ascend");
        loop {
            match self.acquire_without_sleep(indices, me) {
                Ok(guards) => return guards,
                Err(contended) if self.acquire_contended(contended, me) => drop(self.guard(contended)),
                Err(_) => refuse_reentry(),
            }
        }
    }

    /// Acquires several locks.
    ///
    /// # Errors
    /// The first that was held by another thread for longer than most operations take. None of them is acquired then.
    fn acquire_without_sleep(&self, indices: &[usize], me: usize) -> Result<Vec<Guard<'_, T>>, &Lock<T>> {
        let mut guards = Vec::with_capacity(indices.len());
        for index in indices {
            let lock = &self.locks[*index];
            if !lock.try_acquire(me) && !lock.spin(me) {
                return Err(lock);
            }
            guards.push(self.guard(lock));
        }
        Ok(guards)
    }

    /// Prefetches what a lock guards.
    pub(crate) fn prefetch(&self, index: usize) {
        let lock = std::ptr::from_ref(&self.locks[index]).cast::<u8>();
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
        let lock = &self.locks[index];
        // Not `then_some`: a guard made before the lock is acquired would release it.
        lock.try_acquire(thread_id()).then(|| self.guard(lock))
    }

    /// The guard of a lock that was just acquired.
    #[inline]
    fn guard<'a>(&'a self, lock: &'a Lock<T>) -> Guard<'a, T> {
        Guard { lock, parking: &self.parking, _on_this_thread: PhantomData }
    }

    /// Waits for a lock. Returns false if this thread would wait for itself.
    ///
    /// # Panics
    /// If this process is a fork of the one that made the locks, and the lock is not released: a thread that held it at the
    /// fork does not exist here.
    #[cold]
    fn acquire_contended(&self, lock: &Lock<T>, me: usize) -> bool {
        if lock.holder.load(Ordering::Relaxed) == me {
            return false;
        }
        let mut inherited_since = None;
        let mut rests = RESTS;
        loop {
            if lock.spin(me) {
                return true;
            }
            if rests > 0 {
                rests -= 1;
                rest();
                continue;
            }
            rests = RESTS;
            let waited_long = lock.park(&self.parking);
            if waited_long && self.held_by(me) > 0 {
                return false;
            }
            if self.process.has_forked() {
                let waited = inherited_since.get_or_insert_with(Instant::now).elapsed();
                assert!(
                    waited < INHERITED_WAIT,
                    "a thread held this lock of the cache when its process was forked"
                );
            }
        }
    }

    /// How many of these locks a thread holds. Cost: reads all of them.
    fn held_by(&self, thread: usize) -> usize {
        self.locks.iter().filter(|lock| lock.holder.load(Ordering::Relaxed) == thread).count()
    }
}

impl<T> Lock<T> {
    #[inline]
    fn try_acquire(&self, me: usize) -> bool {
        self.holder.compare_exchange(UNLOCKED, me, Ordering::Acquire, Ordering::Relaxed).is_ok()
    }

    /// Looks at the lock a few times, each time after a longer pause: a look takes the cache line from the holder, which
    /// needs it for its next operations. Returns whether the lock was acquired.
    fn spin(&self, me: usize) -> bool {
        for pause in SPIN_PAUSES {
            (0..*pause).for_each(|_| spin_loop());
            // A read before each exchange, which would take the line even if the lock is held.
            if self.holder.load(Ordering::Relaxed) == UNLOCKED && self.try_acquire(me) {
                return true;
            }
        }
        false
    }

    /// Sleeps until a release, unless the lock is free. Returns whether no release came for long.
    fn park(&self, parking: &Parking) -> bool {
        self.parked.fetch_add(1, Ordering::Relaxed);
        let limit = if heavy_barrier() { LONG_WAIT } else { UNSEEN_WAIT };
        let is_held = || self.holder.load(Ordering::Relaxed) != UNLOCKED;
        let outcome = parking.park(self.key(), limit, is_held);
        // Who wakes a thread counts it out, so that further releases need not look for it.
        if outcome != Outcome::Woken {
            self.parked.fetch_sub(1, Ordering::Relaxed);
        }
        outcome == Outcome::TimedOut
    }

    #[inline]
    fn release(&self, parking: &Parking) {
        self.holder.store(UNLOCKED, Ordering::Release);
        light_barrier();
        if self.parked.load(Ordering::Relaxed) != 0 {
            self.wake_one(parking);
        }
    }

    #[cold]
    fn wake_one(&self, parking: &Parking) {
        parking.wake_one(self.key(), || _ = self.parked.fetch_sub(1, Ordering::Relaxed));
    }

    fn key(&self) -> usize {
        std::ptr::from_ref(self) as usize
    }
}

#[cold]
fn refuse_reentry() -> ! {
    panic!("a closure, Eq or Hash that runs under the lock of a cache called the same cache")
}

/// Access to what an acquired lock guards.
#[derive(Debug)]
pub(crate) struct Guard<'a, T> {
    lock: &'a Lock<T>,
    parking: &'a Parking,
    /// Neither `Send` nor `Sync`: the lock stores this thread as its holder.
    _on_this_thread: PhantomData<*const ()>,
}

impl<T> Drop for Guard<'_, T> {
    #[inline]
    fn drop(&mut self) {
        self.lock.release(self.parking);
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
    use std::sync::mpsc;

    #[test]
    fn lock_contended_excludes_other_threads() {
        let locks = Locks::new([0u64].into_iter());
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| (0..20_000).for_each(|_| *locks.lock(0) += 1));
            }
        });
        assert_eq!(*locks.lock(0), 80_000);
        assert_eq!(locks.locks[0].parked.load(Ordering::Relaxed), 0);
    }

    /// A hit writes the lock and the shard's count of hits: one line that the processors pass on, not two.
    #[test]
    fn hit_writes_one_line_of_the_shard() {
        assert!(
            std::mem::offset_of!(Lock<crate::shard::Shard<u64, u64>>, guarded) + crate::shard::HITS_END <= 64
        );
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
    fn lock_held_by_this_thread_panics() {
        let locks = Locks::new([(), ()].into_iter());
        let _first = locks.lock(0);
        assert!(!locks.acquire_contended(&locks.locks[0], thread_id()));
        let waits = || drop(locks.acquire_ascending(&[0, 1], thread_id()));
        assert!(catch_unwind(AssertUnwindSafe(waits)).is_err(), "the first lock is held already");
        assert_eq!(locks.locks[1].holder.load(Ordering::Relaxed), UNLOCKED);
    }

    /// A waiter looks at the lock that it waits for and at no other: a cache may have thousands.
    #[test]
    fn contended_lock_beside_a_held_one_is_acquired_when_it_is_free() {
        let locks = Locks::new([(), ()].into_iter());
        let (held, is_held) = mpsc::channel();
        std::thread::scope(|scope| {
            let locks = &locks;
            scope.spawn(move || {
                let _second = locks.lock(1);
                held.send(()).expect("the test listens");
                std::thread::sleep(Duration::from_millis(5));
            });
            is_held.recv().expect("the thread sends");
            let _first = locks.lock(0);
            assert!(locks.acquire_contended(&locks.locks[1], thread_id()));
            drop(locks.guard(&locks.locks[1]));
        });
    }

    /// Without debug assertions, closures under two locks that call each other's shard would wait for each other.
    #[test]
    fn threads_that_wait_for_each_others_locks_find_out() {
        let locks = Locks::new([(), ()].into_iter());
        let both_hold = std::sync::Barrier::new(2);
        std::thread::scope(|scope| {
            let waiting = [0, 1].map(|own| {
                let (locks, both_hold) = (&locks, &both_hold);
                scope.spawn(move || {
                    let _own = locks.lock(own);
                    both_hold.wait();
                    let other = &locks.locks[1 - own];
                    let acquired = locks.acquire_contended(other, thread_id());
                    drop(acquired.then(|| locks.guard(other)));
                    acquired
                })
            });
            let acquired = waiting.map(|thread| thread.join().expect("no panic"));
            assert!(acquired.contains(&false), "one of them gives up, and the other goes on: {acquired:?}");
        });
        drop(locks.lock_ascending(&[0, 1]));
    }

    /// A waiter that spins takes the processor from the holder that it waits for.
    #[cfg(target_os = "linux")]
    #[test]
    fn waiter_sleeps_until_the_lock_is_released() {
        let locks = Locks::new([0].into_iter());
        let (started, has_started) = mpsc::channel();
        std::thread::scope(|scope| {
            let mut guard = locks.lock(0);
            let locks = &locks;
            let waiter = scope.spawn(move || {
                let me = std::fs::read_link("/proc/thread-self").expect("Linux has it");
                started.send(std::path::Path::new("/proc").join(me).join("stat")).expect("the test listens");
                *locks.lock(0)
            });
            let stat = has_started.recv().expect("the waiter sends");
            let sleeps = || std::fs::read_to_string(&stat).expect("it lives").contains(") S ");
            let end = std::time::Instant::now() + Duration::from_secs(10);
            while !sleeps() {
                assert!(std::time::Instant::now() < end, "it does not sleep");
                std::thread::yield_now();
            }
            *guard = 7;
            drop(guard);
            assert_eq!(waiter.join().expect("no panic"), 7);
        });
    }
}

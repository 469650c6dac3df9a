//! The lock: exclusion, and wake-ups that are not lost.

use crate::Scenario;
use crate::lock::Locks;
use loom::cell::UnsafeCell;
use loom::thread;
use std::sync::Arc;

pub(crate) const SCENARIOS: &[Scenario] = &[
    ("locks::two_threads_exclude_each_other_and_none_sleeps_on", || exclude_each_other(2, 2), 6),
    ("locks::three_threads_exclude_each_other_and_none_sleeps_on", || exclude_each_other(3, 1), 3),
    ("locks::locks_in_ascending_order_exclude_each_other", locks_in_ascending_order_exclude_each_other, 4),
    ("locks::lock_that_is_only_tried_excludes_others", lock_that_is_only_tried_excludes_others, 6),
];

/// The explorer reports an access that no release before it orders, and threads that sleep for ever.
fn numbers(count: usize) -> Arc<Locks<UnsafeCell<u32>>> {
    Arc::new(Locks::new((0..count).map(|_| UnsafeCell::new(0))))
}

fn increment(number: &UnsafeCell<u32>) {
    // SAFETY: the caller has locked it.
    number.with_mut(|number| unsafe { *number += 1 });
}

fn read(number: &UnsafeCell<u32>) -> u32 {
    // SAFETY: the caller has locked it.
    number.with(|number| unsafe { *number })
}

fn exclude_each_other(threads: usize, rounds: u32) {
    let locks = numbers(1);
    let work = move |locks: &Locks<_>| (0..rounds).for_each(|_| increment(&locks.lock(0)));
    let others: Vec<_> = (1..threads)
        .map(|_| {
            let locks = locks.clone();
            thread::spawn(move || work(&locks))
        })
        .collect();
    work(&locks);
    others.into_iter().for_each(|other| other.join().expect("no panic"));
    assert_eq!(read(&locks.lock(0)), threads as u32 * rounds);
}

fn locks_in_ascending_order_exclude_each_other() {
    let locks = numbers(2);
    let other = {
        let locks = locks.clone();
        thread::spawn(move || locks.lock_ascending(&[0, 1]).iter().for_each(|number| increment(number)))
    };
    increment(&locks.lock(1));
    increment(&locks.lock(0));
    other.join().expect("no panic");
    assert_eq!(locks.lock_ascending(&[0, 1]).iter().map(|number| read(number)).collect::<Vec<_>>(), [2, 2]);
}

fn lock_that_is_only_tried_excludes_others() {
    let locks = numbers(1);
    let other = {
        let locks = locks.clone();
        thread::spawn(move || increment(&locks.lock(0)))
    };
    let tried = u32::from(locks.try_lock_beside(0).map(|number| increment(&number)).is_some());
    other.join().expect("no panic");
    assert_eq!(read(&locks.lock(0)), 1 + tried);
}

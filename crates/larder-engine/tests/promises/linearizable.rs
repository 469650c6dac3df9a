//! Operations on one key are linearizable under concurrent use.

use crate::history::{Call, Caller, Event, UnderWay, is_linearizable, show};
use larder_engine::{Cache, Policy};
use std::collections::HashMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

const THREADS: usize = 3;
const CALLS: u32 = 12;
const ROUNDS: u32 = 1_000;

/// Runs rounds in which all threads call concurrently, and checks the history of each key in each round.
fn run(rounds: u32, keys: u32, forgets: bool, cache: impl Fn() -> Cache<u32, u32>) {
    let stamp = AtomicU64::new(0);
    for round in 0..rounds {
        let cache = cache();
        let ready = AtomicUsize::new(0);
        let histories: Mutex<HashMap<u32, Vec<Call>>> = Mutex::default();
        std::thread::scope(|scope| {
            for thread in 0..THREADS as u32 {
                let (cache, ready, stamp, histories) = (&cache, &ready, &stamp, &histories);
                scope.spawn(move || {
                    let mut caller = Caller::new(cache);
                    let mut calls = Vec::new();
                    let mut state = round * THREADS as u32 + thread + 1;
                    ready.fetch_add(1, Ordering::SeqCst);
                    while ready.load(Ordering::SeqCst) < THREADS {
                        std::thread::yield_now();
                    }
                    for n in 0..=CALLS {
                        state = state.wrapping_mul(747_796_405).wrapping_add(2_891_336_453);
                        let (choice, key) = (state >> 24, (state >> 12) % keys);
                        let unique = thread << 16 | n << 8 | 1;
                        let begin = stamp.fetch_add(1, Ordering::SeqCst);
                        let done = match n {
                            CALLS => caller.finish(unique),
                            _ => Some(caller.act(choice, key, unique)),
                        };
                        let end = stamp.fetch_add(1, Ordering::SeqCst);
                        calls.extend(done.map(|(key, event)| (key, Call { begin, end, event })));
                    }
                    let mut histories = histories.lock().expect("no panic");
                    calls.into_iter().for_each(|(key, call)| histories.entry(key).or_default().push(call));
                });
            }
        });
        for (key, mut calls) in histories.into_inner().expect("no panic") {
            calls.sort_by_key(|call| call.begin);
            assert!(is_linearizable(&calls, forgets), "round {round}, key {key}:{}", show(&calls));
        }
        cache.validate();
    }
}

#[test]
fn history_without_eviction_is_a_register() {
    run(ROUNDS, 2, false, || Cache::builder().entries(100).build().expect("valid options"));
}

#[test]
fn history_with_eviction_never_returns_old_values() {
    for policy in Policy::ALL {
        let cache = || Cache::builder().entries(2).shards(2).policy(policy).build().expect("valid options");
        run(ROUNDS / 4, 4, true, cache);
    }
}

#[test]
fn history_with_expiry_never_returns_old_values() {
    let ttl = Duration::from_millis(1);
    run(ROUNDS / 4, 2, true, || Cache::builder().entries(100).ttl(ttl).build().expect("valid options"));
}

fn history(events: &[(u64, u64, Event)]) -> Vec<Call> {
    events.iter().map(|&(begin, end, event)| Call { begin, end, event }).collect()
}

#[test]
fn checker_rejects_wrong_histories() {
    let insert = |value, replaced| Event::Insert { value, replaced };
    let overlapping = [(0, 3, insert(1, None)), (1, 4, insert(2, Some(1))), (2, 5, Event::Get(Some(1)))];
    assert!(is_linearizable(&history(&overlapping), false), "the read came between the two");

    let stale = [(0, 1, insert(1, None)), (2, 3, insert(2, Some(1))), (4, 5, Event::Get(Some(1)))];
    let lost = [(0, 1, insert(1, None)), (2, 3, Event::Get(None))];
    let back_again = [(0, 1, insert(1, None)), (2, 3, Event::Get(None)), (4, 5, Event::Contains(true))];
    let lost_update = [
        (0, 1, insert(1, None)),
        (2, 5, Event::Compute { before: Some(1), after: Some(2) }),
        (3, 6, Event::Compute { before: Some(1), after: Some(3) }),
    ];
    let lead = |ticket, gives_way| Event::Lead(UnderWay { ticket, gives_way });
    let late_commit = |before, between| {
        [(0, 1, before), (2, 3, between), (4, 5, Event::Commit { ticket: 9, value: 1, stored: true })]
    };
    let removed = late_commit(lead(9, false), Event::Remove(None));
    let replaced = late_commit(lead(9, true), lead(8, false));
    let second = late_commit(lead(9, false), lead(8, false));
    let wrong = [
        ("stale", &stale),
        ("lost update", &lost_update),
        ("commit after a removal", &removed),
        ("commit after another took its place", &replaced),
        ("two loads", &second),
    ];
    for (name, wrong) in wrong {
        assert!(!is_linearizable(&history(wrong), false), "{name}");
        assert!(!is_linearizable(&history(wrong), true), "{name}, with eviction");
    }
    assert!(!is_linearizable(&history(&lost), false), "nothing may be evicted");
    assert!(is_linearizable(&history(&lost), true), "it may have been evicted");
    assert!(!is_linearizable(&history(&back_again), true), "what was evicted does not come back");
}

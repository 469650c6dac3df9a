//! Random calls on two keys, checked for linearizability.

use crate::history::{Call, Caller, is_linearizable, show};
use crate::{Cache, Scenario};
use shuttle::rand::{Rng, thread_rng};
use shuttle::thread;
use std::sync::atomic::{AtomicU64, Ordering};

pub(crate) const SCENARIOS: &[Scenario] = &[
    ("histories::history_without_eviction_is_a_register", || run(100)),
    ("histories::history_with_eviction_never_returns_old_values", || run(1)),
];

const CALLS: u32 = 5;

fn run(capacity: u64) {
    let cache: Cache<u32, u32> = Cache::builder().entries(capacity).shards(2).build().expect("valid options");
    let stamp = std::sync::Arc::new(AtomicU64::new(0));
    let callers = [1, 2, 3].map(|thread| {
        let (cache, stamp) = (cache.clone(), stamp.clone());
        thread::spawn(move || {
            let mut caller = Caller::new(&cache);
            let mut calls = Vec::new();
            for n in 0..=CALLS {
                let (choice, key) = (thread_rng().gen_range(0..256), thread_rng().gen_range(0..2));
                let unique = thread << 16 | n;
                let begin = stamp.fetch_add(1, Ordering::Relaxed);
                let done =
                    if n == CALLS { caller.finish(unique) } else { Some(caller.act(choice, key, unique)) };
                let end = stamp.fetch_add(1, Ordering::Relaxed);
                calls.extend(done.map(|(key, event)| (key, Call { begin, end, event })));
            }
            calls
        })
    });
    let calls: Vec<(u32, Call)> =
        callers.into_iter().flat_map(|caller| caller.join().expect("no panic")).collect();
    for key in 0..2 {
        let of_key: Vec<Call> = calls.iter().filter(|(of, _)| *of == key).map(|(_, call)| *call).collect();
        assert!(is_linearizable(&of_key, capacity < 2), "key {key}:{}", show(&of_key));
    }
    cache.validate();
}

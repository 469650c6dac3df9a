//! The references against naive models, and whole replays of small generated traces.

use super::cache::{LiveWeight, ReplayedCache, Value};
use super::optimum::Optimum;
use super::{HitRatioArgs, Outcome, replay_all};
use crate::lru::Lru;
use crate::trace::Request;
use clap::{Args, FromArgMatches};
use indicatif::ProgressBar;
use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};
use std::sync::Arc;

fn args(flags: &str) -> HitRatioArgs {
    let command = HitRatioArgs::augment_args(clap::Command::new("hit-ratio"));
    let flags = ["hit-ratio", "--trace", "generated"].into_iter().chain(flags.split_ascii_whitespace());
    HitRatioArgs::from_arg_matches(&command.get_matches_from(flags)).unwrap()
}

fn replay_trace(trace: &[Request], flags: &str) -> Outcome {
    replay_all(trace.iter().copied().map(Ok), &args(flags), &ProgressBar::hidden()).unwrap()
}

fn keys(keys: impl IntoIterator<Item = u64>) -> Vec<Request> {
    keys.into_iter().map(Request::of).collect()
}

/// Frequent requests for few keys and rare ones for many; the size of a key does not change.
fn random_trace(seed: u64, length: usize, keys: u64, max_bytes: u32) -> Vec<Request> {
    let mut random = SmallRng::seed_from_u64(seed);
    let mut request = || {
        let key = (random.random::<f64>().powi(3) * keys as f64) as u64;
        let bytes = 1 + (key.wrapping_mul(0x9e37_79b9) >> 7) as u32 % max_bytes;
        Request { bytes, ..Request::of(key) }
    };
    (0..length).map(|_| request()).collect()
}

/// The maximum number of hits, by trying all decisions at each request.
fn max_hits_by_exhaustive_search(trace: &[u64], capacity: usize, cached: &[u64]) -> u64 {
    let Some((key, rest)) = trace.split_first() else { return 0 };
    let hit = cached.contains(key);
    let mut most = max_hits_by_exhaustive_search(rest, capacity, cached);
    if !hit && cached.len() < capacity {
        most = most.max(max_hits_by_exhaustive_search(rest, capacity, &[cached, &[*key]].concat()));
    } else if !hit {
        for victim in 0..cached.len() {
            let mut after = cached.to_vec();
            after[victim] = *key;
            most = most.max(max_hits_by_exhaustive_search(rest, capacity, &after));
        }
    }
    most + u64::from(hit)
}

#[test]
fn belady_equals_exhaustive_search() {
    let mut random = SmallRng::seed_from_u64(1);
    for capacity in 1..=3 {
        for _ in 0..40 {
            let trace: Vec<u64> = (0..11).map(|_| random.random_range(0..5)).collect();
            let mut optimum = Optimum::new(capacity);
            optimum.record(&keys(trace.clone())).unwrap();
            let expected = max_hits_by_exhaustive_search(&trace, capacity as usize, &[]);
            assert_eq!(optimum.max_hits(false), expected, "{trace:?} with capacity {capacity}");
            assert!(optimum.max_hits(true) >= expected, "{trace:?}: the bound by areas is below the optimum");
        }
    }
}

#[test]
fn bound_by_areas_is_exact_if_everything_fits() {
    let trace = random_trace(2, 1000, 50, 100);
    let mut optimum = Optimum::new(1 << 20);
    optimum.record(&trace).unwrap();
    let distinct = trace.iter().map(|request| request.key).collect::<std::collections::HashSet<_>>().len();
    assert_eq!(optimum.max_hits(true), 1000 - distinct as u64);
}

#[test]
fn object_larger_than_the_capacity_has_no_hits() {
    let mut optimum = Optimum::new(10);
    optimum.record(&[Request { bytes: 11, ..Request::of(1) }; 5]).unwrap();
    assert_eq!(optimum.max_hits(true), 0);
}

#[test]
fn exact_lru_equals_a_list() {
    for (seed, capacity) in [(3, 40), (4, 300), (5, 5000)] {
        let mut cache = Lru::new(capacity);
        let mut model: Vec<Request> = Vec::new();
        let live_weight: Arc<LiveWeight> = Arc::default();
        for request in random_trace(seed, 5000, 200, 100) {
            let found = model.iter().position(|known| known.key == request.key);
            assert_eq!(
                ReplayedCache::get(&mut cache, request.key, 0),
                found.is_some(),
                "seed {seed}, {request:?}"
            );
            match found {
                Some(index) => {
                    let used = model.remove(index);
                    model.push(used);
                }
                None => {
                    ReplayedCache::insert(&mut cache, request.key, Value::new(&request, 0, &live_weight));
                    model.push(request);
                }
            }
            let weight = |model: &[Request]| model.iter().map(|known| u64::from(known.bytes)).sum::<u64>();
            if u64::from(request.bytes) > capacity {
                model.pop();
            }
            while weight(&model) > capacity {
                model.remove(0);
            }
            assert_eq!((live_weight.weight(), cache.weight()), (weight(&model), weight(&model)));
        }
    }
}

#[test]
fn our_lru_in_one_shard_equals_the_exact_lru() {
    for (flags, max_bytes) in [("", 1), ("--bytes", 900)] {
        let trace = random_trace(6, 20_000, 2000, max_bytes);
        let flags = format!("--format oracle --capacity 60000 --all --shards 1 {flags}");
        let flags = if max_bytes == 1 { flags.replace("60000", "300") } else { flags };
        let outcome = replay_trace(&trace, &flags);
        let hits = |source: &str| {
            outcome.rows.iter().find(|row| row.source == source && row.policy == "lru").unwrap().hits
        };
        assert_eq!(hits("larder"), hits("reference"), "{flags}");
        outcome.check().unwrap();
    }
}

/// Each key is requested every ten requests; its value is fresh for 25, so every third request of a key misses.
#[test]
fn value_that_has_expired_is_a_miss_in_every_cache() {
    let trace: Vec<Request> = (0..3000).map(|n| Request { ttl: Some(25), ..Request::of(n % 10) }).collect();
    let outcome = replay_trace(&trace, "--format lirs --capacity 256 --all");
    outcome.check().unwrap();
    for row in &outcome.rows {
        assert_eq!(row.hits, 2000, "{}", row.subject());
    }
}

#[test]
fn flags_select_the_caches() {
    let trace = keys((0..2000).map(|n| n % 300));
    let sources = |flags: &str| {
        let mut rows: Vec<_> = replay_trace(&trace, flags)
            .rows
            .into_iter()
            .map(|row| format!("{} {}", row.source, row.policy))
            .collect();
        rows.sort();
        rows
    };
    assert_eq!(sources("--format lirs --capacity 256 --policy fifo"), ["larder fifo"]);
    assert_eq!(
        sources("--format lirs --capacity 256"),
        ["larder ctd", "moka tinylfu", "quick_cache clock-pro"]
    );
    assert!(sources("--format lirs --capacity 256 --all").len() >= 9);
}

#[test]
fn outcome_has_counted_and_sorted_rows() {
    let trace = keys((0..5000).map(|n| n % 300));
    let outcome = replay_trace(&trace, "--format lirs --capacity 256 --all");
    outcome.check().unwrap();
    assert!(outcome.rows.windows(2).all(|pair| pair[0].hits >= pair[1].hits));
    let lru = outcome.rows.iter().find(|row| row.source == "reference").unwrap();
    assert_eq!((lru.hits, lru.requests, lru.max_weight_seen), (0, 5000, 256), "a loop defeats an LRU");
    assert!(lru.bound_hit_ratio > 0.75 && lru.bound_hit_ratio < 0.86, "{}", lru.bound_hit_ratio);
}

#[test]
fn violated_guarantee_is_an_error() {
    let outcome = |hit_ratio: f64, within_capacity: bool| {
        let mut outcome = replay_trace(&keys([1, 1]), "--format lirs --capacity 1 --policy lru");
        outcome.rows[0].hit_ratio = hit_ratio;
        outcome.rows[0].within_capacity = within_capacity;
        outcome.check()
    };
    assert!(outcome(0.5, true).is_ok());
    assert!(outcome(0.5, false).unwrap_err().to_string().contains("with a capacity of 1"));
    assert!(outcome(0.6, true).unwrap_err().to_string().contains("above the optimum of 0.5"));
}

//! The references against naive models, and the whole contest over small traces made here.

use super::contender::{Contender, Ledger, Value};
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
    let flags = ["hit-ratio", "--trace", "made-here"].into_iter().chain(flags.split_ascii_whitespace());
    HitRatioArgs::from_arg_matches(&command.get_matches_from(flags)).unwrap()
}

fn contest(trace: &[Request], flags: &str) -> Outcome {
    replay_all(trace.iter().copied().map(Ok), &args(flags), &ProgressBar::hidden()).unwrap()
}

fn keys(keys: impl IntoIterator<Item = u64>) -> Vec<Request> {
    keys.into_iter().map(|key| Request { key, bytes: 1 }).collect()
}

/// Requests that come back to few keys often and to many rarely; a key keeps its size.
fn random_trace(seed: u64, length: usize, keys: u64, max_bytes: u32) -> Vec<Request> {
    let mut random = SmallRng::seed_from_u64(seed);
    let mut request = || {
        let key = (random.random::<f64>().powi(3) * keys as f64) as u64;
        Request { key, bytes: 1 + (key.wrapping_mul(0x9e37_79b9) >> 7) as u32 % max_bytes }
    };
    (0..length).map(|_| request()).collect()
}

/// The most hits, by trying for each request to keep each possible set of keys.
fn most_hits_by_trying(trace: &[u64], capacity: usize, cached: &[u64]) -> u64 {
    let Some((key, rest)) = trace.split_first() else { return 0 };
    let hit = cached.contains(key);
    let mut most = most_hits_by_trying(rest, capacity, cached);
    if !hit && cached.len() < capacity {
        most = most.max(most_hits_by_trying(rest, capacity, &[cached, &[*key]].concat()));
    } else if !hit {
        for victim in 0..cached.len() {
            let mut kept = cached.to_vec();
            kept[victim] = *key;
            most = most.max(most_hits_by_trying(rest, capacity, &kept));
        }
    }
    most + u64::from(hit)
}

#[test]
fn belady_is_what_trying_everything_finds() {
    let mut random = SmallRng::seed_from_u64(1);
    for capacity in 1..=3 {
        for _ in 0..40 {
            let trace: Vec<u64> = (0..11).map(|_| random.random_range(0..5)).collect();
            let mut optimum = Optimum::new(capacity);
            optimum.observe(&keys(trace.clone())).unwrap();
            let expected = most_hits_by_trying(&trace, capacity as usize, &[]);
            assert_eq!(optimum.most_hits(false), expected, "{trace:?} with capacity {capacity}");
            assert!(
                optimum.most_hits(true) >= expected,
                "{trace:?}: the bound by areas is below the optimum"
            );
        }
    }
}

#[test]
fn the_bound_by_areas_is_reached_where_all_fits() {
    let trace = random_trace(2, 1000, 50, 100);
    let mut optimum = Optimum::new(1 << 20);
    optimum.observe(&trace).unwrap();
    let distinct = trace.iter().map(|request| request.key).collect::<std::collections::HashSet<_>>().len();
    assert_eq!(optimum.most_hits(true), 1000 - distinct as u64);
}

#[test]
fn an_object_larger_than_the_cache_cannot_hit() {
    let mut optimum = Optimum::new(10);
    optimum.observe(&[Request { key: 1, bytes: 11 }; 5]).unwrap();
    assert_eq!(optimum.most_hits(true), 0);
}

#[test]
fn the_exact_lru_agrees_with_a_list() {
    for (seed, capacity) in [(3, 40), (4, 300), (5, 5000)] {
        let mut cache = Lru::new(capacity);
        let mut model: Vec<Request> = Vec::new();
        let ledger: Arc<Ledger> = Arc::default();
        for request in random_trace(seed, 5000, 200, 100) {
            let found = model.iter().position(|known| known.key == request.key);
            assert_eq!(Contender::get(&mut cache, request.key), found.is_some(), "seed {seed}, {request:?}");
            match found {
                Some(at) => {
                    let used = model.remove(at);
                    model.push(used);
                }
                None => {
                    Contender::insert(&mut cache, request.key, Value::new(request.bytes.into(), &ledger));
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
            assert_eq!((ledger.weight(), cache.weight()), (weight(&model), weight(&model)));
        }
    }
}

#[test]
fn our_lru_in_one_shard_is_the_exact_one() {
    for (flags, max_bytes) in [("", 1), ("--bytes", 900)] {
        let trace = random_trace(6, 20_000, 2000, max_bytes);
        let flags = format!("--format oracle --capacity 60000 --all --shards 1 {flags}");
        let flags = if max_bytes == 1 { flags.replace("60000", "300") } else { flags };
        let outcome = contest(&trace, &flags);
        let hits = |source: &str| {
            outcome.rows.iter().find(|row| row.source == source && row.policy == "lru").unwrap().hits
        };
        assert_eq!(hits("larder"), hits("reference"), "{flags}");
        outcome.check().unwrap();
    }
}

#[test]
fn the_flags_choose_the_caches() {
    let trace = keys((0..2000).map(|n| n % 300));
    let sources = |flags: &str| {
        let mut rows: Vec<_> = contest(&trace, flags)
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
fn rows_are_counted_and_sorted() {
    let trace = keys((0..5000).map(|n| n % 300));
    let outcome = contest(&trace, "--format lirs --capacity 256 --all");
    outcome.check().unwrap();
    assert!(outcome.rows.windows(2).all(|pair| pair[0].hits >= pair[1].hits));
    let lru = outcome.rows.iter().find(|row| row.source == "reference").unwrap();
    assert_eq!((lru.hits, lru.requests, lru.max_weight_seen), (0, 5000, 256), "a loop defeats an LRU");
    assert!(lru.bound_hit_ratio > 0.75 && lru.bound_hit_ratio < 0.86, "{}", lru.bound_hit_ratio);
}

#[test]
fn a_broken_promise_is_an_error() {
    let outcome = |hit_ratio: f64, within_capacity: bool| {
        let mut outcome = contest(&keys([1, 1]), "--format lirs --capacity 1 --policy lru");
        outcome.rows[0].hit_ratio = hit_ratio;
        outcome.rows[0].within_capacity = within_capacity;
        outcome.check()
    };
    assert!(outcome(0.5, true).is_ok());
    assert!(outcome(0.5, false).unwrap_err().to_string().contains("with a capacity of 1"));
    assert!(outcome(0.6, true).unwrap_err().to_string().contains("where 0.5 is possible"));
}

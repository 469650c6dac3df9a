//! The grammar and its errors, and the property that each workload claims.

use super::kinds::{COMMON, HELP, KINDS};
use super::*;
use crate::lru::Lru;
use std::collections::{HashMap, HashSet};

fn spec(text: &str) -> Synthetic {
    text.parse().unwrap_or_else(|error| panic!("{text}: {error}"))
}

fn keys(text: &str) -> Vec<u64> {
    spec(text).iter().map(|request| request.key).collect()
}

/// The hit ratio of an exact LRU.
fn lru(text: &str, capacity: u64) -> f64 {
    let (mut cache, keys) = (Lru::new(capacity), keys(text));
    let is_hit = |key: &&u64| {
        let hit = cache.get(*key).is_some();
        if !hit {
            cache.insert(**key, (), 1);
        }
        hit
    };
    keys.iter().filter(is_hit).count() as f64 / keys.len() as f64
}

fn distinct(keys: &[u64]) -> usize {
    keys.iter().collect::<HashSet<_>>().len()
}

#[test]
fn equal_seeds_have_equal_requests() {
    for kind in KINDS {
        let text = |seed| format!("{}:keys=500,requests=20000,seed={seed}", kind.name);
        assert_eq!(keys(&text(3)).len(), 20_000);
        assert_eq!(keys(&text(3)), keys(&text(3)), "{}", kind.name);
        if kind.name != "loop" {
            assert_ne!(keys(&text(3)), keys(&text(4)), "{}", kind.name);
            let reseeded = spec(&text(3)).with_seed(4);
            assert_eq!(reseeded.iter().map(|request| request.key).collect::<Vec<_>>(), keys(&text(4)));
        }
    }
}

#[test]
fn text_has_every_parameter_and_describes_the_same_workload() {
    let text = "zipf:keys=50,skew=0.85,drift=0.5,requests=900,seed=7";
    assert_eq!(spec(text).to_string(), text);
    assert_eq!(spec("zipf:seed=7,drift=0.5,requests=900,skew=0.85,keys=50").to_string(), text);
    assert_eq!(spec("loop").to_string(), "loop:keys=10000,requests=1000000,seed=1");
}

#[test]
fn wrong_part_is_named_with_what_is_allowed() {
    for (text, complaint) in [
        ("", "there is no workload \"\"; there are zipf, stack, loop, window, scan, phases, expiry"),
        ("zip:keys=1", "there is no workload \"zip\""),
        ("loop:skew=1", "loop has no parameter \"skew\"; it has keys, requests, seed"),
        ("loop:keys", "\"keys\" is not of the form NAME=VALUE"),
        ("loop:keys=5,", "\"\" is not of the form NAME=VALUE"),
        ("loop:keys=5,keys=6", "keys is given twice"),
        ("loop:keys=0", "keys=0: keys is a whole number from 1 to 10000000"),
        ("loop:keys=1.5", "keys=1.5: keys is a whole number from 1 to 10000000"),
        ("loop:keys=18446744073709551616", "keys is a whole number from 1 to 10000000"),
        ("stack:keys=1000001", "keys is a whole number from 1 to 1000000"),
        ("zipf:skew=-0.1", "skew=-0.1: skew is a number from 0 to 4"),
        ("zipf:skew=NaN", "skew=NaN: skew is a number from 0 to 4"),
        ("zipf:drift=inf", "drift is a number from 0 to 1"),
        ("scan:share=1", "share=1: share is a number from 0.01 to 0.99"),
        ("loop:requests=99999999999", "requests is a whole number from 1 to 100000000"),
        ("loop:seed=-1", "seed=-1: seed is a whole number from 0 to 4294967295"),
    ] {
        let error = text.parse::<Synthetic>().unwrap_err();
        assert!(error.contains(complaint), "{text}: {error}");
    }
}

#[test]
fn help_has_every_kind_with_its_defaults_and_ranges() {
    let words: Vec<&str> = HELP.split_whitespace().collect();
    let help = words.join(" ");
    for kind in KINDS {
        let start = help.find(&format!(" {} ", kind.name)).expect("the kind is in the help");
        let end = start + help[start..].find("All of them").unwrap();
        for parameter in kind.parameters {
            let Parameter { name, default, least, most, .. } = parameter;
            let text = format!("{name}={default} {least} to {most}");
            assert!(help[start..end].contains(&text), "{}: {text}", kind.name);
        }
    }
    for Parameter { name, default, least, most, .. } in COMMON {
        assert!(help.contains(&format!("{name}={default} ({least} to {most})")), "{name}");
    }
}

#[test]
fn highest_values_are_accepted_without_allocation() {
    for kind in KINDS {
        for parameter in kind.parameters.iter().chain(COMMON) {
            spec(&format!("{}:{}={}", kind.name, parameter.name, parameter.most));
            spec(&format!("{}:{}={}", kind.name, parameter.name, parameter.least));
        }
    }
}

#[test]
fn zipf_has_its_popularities() {
    // With this exponent the first of a thousand keys gets one request in 7.75.
    let keys = keys("zipf:keys=1000,skew=0.99,requests=100000");
    let mut counts = HashMap::new();
    keys.iter().for_each(|key| *counts.entry(key).or_insert(0) += 1);
    let most = *counts.values().max().unwrap();
    assert!((12_000..14_000).contains(&most), "{most}");
}

#[test]
fn zipf_with_drift_changes_the_popular_keys() {
    let shared_by_halves = |drift: &str| {
        let keys = keys(&format!("zipf:keys=10000,skew=1,drift={drift},requests=200000"));
        let popular = |keys: &[u64]| {
            let mut counts = HashMap::new();
            keys.iter().for_each(|key| *counts.entry(*key).or_insert(0u32) += 1);
            let mut keys: Vec<u64> = counts.keys().copied().collect();
            keys.sort_by_key(|key| std::cmp::Reverse(counts[key]));
            keys[..100].iter().copied().collect::<HashSet<_>>()
        };
        popular(&keys[..100_000]).intersection(&popular(&keys[100_000..])).count()
    };
    assert!(shared_by_halves("0") > 75);
    assert!(shared_by_halves("0.1") < 25);
}

#[test]
fn stack_gives_lru_its_distribution_of_distances() {
    // The hit ratio at a capacity is the probability of a distance up to it, once every key was requested.
    let harmonic = |n: u64| (1..=n).map(|d| 1.0 / d as f64).sum::<f64>();
    for capacity in [10, 100, 1000] {
        let expected = harmonic(capacity) / harmonic(2000);
        let ratio = lru("stack:keys=2000,skew=1,requests=300000", capacity);
        assert!((ratio - expected).abs() < 0.01, "{capacity}: {ratio} instead of {expected}");
    }
}

#[test]
fn loop_has_no_hits_under_lru_below_its_length() {
    assert_eq!(lru("loop:keys=1000,requests=50000", 999), 0.0);
    assert_eq!(lru("loop:keys=1000,requests=50000", 1000), 0.98);
}

#[test]
fn window_moves_on_and_lru_of_twice_its_size_misses_new_keys_only() {
    let text = "window:keys=3000,drift=0.1,requests=300000";
    let all = keys(text);
    assert!((30_000..=33_000).contains(&distinct(&all)), "{}", distinct(&all));
    assert!(distinct(&all[..10_000]) < 4001);
    // While a key is in the window, all requests are for the keys of at most two windows.
    assert_eq!(lru(text, 6000), 1.0 - distinct(&all) as f64 / all.len() as f64);
    assert!(lru(text, 3000) < 0.85);
}

#[test]
fn scan_has_its_share_of_keys_that_are_requested_once() {
    let keys = keys("scan:keys=1000,skew=0.5,length=200,share=0.25,requests=80000");
    let mut counts = HashMap::new();
    keys.iter().for_each(|key| *counts.entry(key).or_insert(0) += 1);
    assert_eq!(counts.values().filter(|count| **count == 1).count(), 20_000);
    assert_eq!(distinct(&keys), 21_000);
    assert_eq!(distinct(&keys[600..800]), 200, "a scan is in one piece");
}

#[test]
fn expiry_binds_times_to_live_to_popularity() {
    let mean = |requests: &mut dyn Iterator<Item = Request>| {
        let ttls: Vec<f64> = requests.map(|request| request.ttl.unwrap().into()).collect();
        ttls.iter().sum::<f64>() / ttls.len() as f64
    };
    let by_request = |bound: &str| {
        let text = format!("expiry:keys=1000,skew=1,ttl=500,bound={bound},requests=50000");
        mean(&mut spec(&text).iter())
    };
    assert!((400.0..600.0).contains(&by_request("0")), "{}", by_request("0"));
    assert!(by_request("1") < 200.0 && by_request("-1") > 800.0);
    let by_key = spec("expiry:keys=1000,skew=0,ttl=500,bound=1,requests=50000");
    assert!((450.0..550.0).contains(&mean(&mut by_key.iter())));
}

#[test]
fn phases_share_no_keys() {
    let keys = keys("phases:keys=300,length=5000,requests=20000");
    let phases: Vec<HashSet<&u64>> = keys.chunks(5000).map(|phase| phase.iter().collect()).collect();
    assert_eq!(phases.len(), 4);
    for pair in phases.windows(2) {
        assert!(pair[0].is_disjoint(&pair[1]) && pair[0].len() > 250);
    }
}

//! How much memory a cache takes: per entry while it is full, and after its entries are gone.

use crate::raw::{self, Key, Record};
use crate::{Cache, Ttl};
use std::time::Duration;

/// Fills a cache and returns what its shards have allocated for each entry.
fn bytes_per_entry<K: std::hash::Hash + Eq, V>(cache: &Cache<K, V>) -> f64 {
    cache.bytes_allocated() as f64 / cache.len() as f64
}

#[test]
fn number_takes_eighteen_bytes_beside_key_and_value() {
    let cache = Cache::<u64, u64>::builder().entries(1 << 20).build().expect("valid options");
    (0..1_000_000).for_each(|n| _ = cache.insert(n, n));
    let bytes = bytes_per_entry(&cache) - 16.0;
    assert!((12.0..18.0).contains(&bytes), "{bytes:.1} bytes");
}

#[test]
fn record_takes_thirty_two_bytes_beside_name_and_value() {
    for (value, ttl, most) in [(16, Ttl::Never, 32.0), (64, Ttl::After(Duration::from_secs(600)), 40.0)] {
        let cache: raw::Cache = raw::Cache::builder()
            .weight(1 << 30, |record: &Record, ()| record.bytes_allocated() as u64 + 24)
            .build()
            .expect("valid options");
        for n in 0..300_000u64 {
            let name = [n.to_le_bytes(), n.to_be_bytes()].concat();
            cache.insert_with_ttl(Record::new(Key { space: 0, name: &name }, &[&vec![7; value]]), (), ttl);
        }
        assert_eq!(cache.len(), 300_000);
        let records = (3 + 16 + value).next_multiple_of(8);
        let bytes = bytes_per_entry(&cache) + records as f64 - (16 + value) as f64;
        assert!((20.0..most).contains(&bytes), "{bytes:.1} bytes with values of {value}");
    }
}

#[test]
fn counts_of_partitions_are_included() {
    let cache: Cache<u32, u32> = Cache::builder()
        .entries(10)
        .shards(1)
        .partitions(1 << 20, |key| *key as usize)
        .build()
        .expect("valid options");
    assert!(cache.bytes_allocated() < 16 << 10, "none without entries");
    cache.insert((1 << 20) - 1, 0);
    let bytes = cache.bytes_allocated();
    assert!((16 << 20..33 << 20).contains(&bytes), "{bytes} bytes");
}

#[test]
fn weights_that_take_more_than_two_bytes_are_included() {
    const ENTRIES: u64 = 3_500;
    let bytes = |weight| {
        let builder = Cache::<u64, u64>::builder().weight(ENTRIES * weight, move |_, _| weight);
        let cache = builder.expected_entries(ENTRIES).shards(1).build().expect("valid options");
        (0..ENTRIES).for_each(|n| _ = cache.insert(n, n));
        assert_eq!(cache.len() as u64, ENTRIES);
        cache.bytes_allocated()
    };
    // A table of 4,096 slots and weights, with a byte each to find them.
    let heavy = bytes(100_000) - bytes(1);
    assert!(heavy >= 4_096 * 17, "{heavy} bytes");
}

#[test]
fn memory_for_entries_comes_back_when_they_are_gone() {
    let cache = Cache::<u64, u64>::builder().entries(1 << 16).build().expect("valid options");
    let empty = cache.bytes_allocated();
    for round in 0..3 {
        (0..100_000).for_each(|n| _ = cache.insert(n, n));
        assert!(cache.get(&99_999).is_some());
        let hits = cache.stats().hits;
        assert!(cache.bytes_allocated() > empty + 65_536 * 30);
        match round {
            0 => cache.clear(),
            1 => cache.retain(|_, _| false),
            _ => _ = cache.drain(),
        }
        assert!(cache.bytes_allocated() < empty + 65_536, "{} bytes", cache.bytes_allocated());
        assert_eq!(cache.stats().hits, hits, "the counts stay");
        cache.validate();
    }
}

/// It had 65,536 shards, which took 87 MB.
#[test]
fn empty_cache_without_a_real_bound_takes_little() {
    let builder = Cache::<u64, u64>::builder;
    for (unbounded, name) in [
        (builder().entries(1 << 62), "entries"),
        (builder().entries(u32::MAX.into()), "entries of 32 bits"),
        (builder().weight(1 << 62, |_, _| 1), "weight"),
        (builder().weight(1 << 62, |_, _| 1).expected_entries(1 << 62), "expected entries"),
    ] {
        let cache = unbounded.build().expect("valid options");
        assert!(cache.bytes_allocated() < 1 << 20, "{name}: {} bytes", cache.bytes_allocated());
        (0..1_000).for_each(|n| _ = cache.get(&n));
        assert!(cache.bytes_allocated() < 2 << 20, "{name} after misses: {} bytes", cache.bytes_allocated());
    }
    let largest = builder().entries(1 << 30).build().expect("valid options");
    assert!(largest.bytes_allocated() > 64 << 20, "it is planned for its entries");
}

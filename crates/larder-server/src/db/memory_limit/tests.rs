//! The arithmetic of the limit, and a keyspace whose entries change their sizes.

use super::*;
use crate::db::{Expiry, MemoryPolicy, Store};

const MIB: u64 = 1 << 20;

/// 100,000 entries of 200 bytes in the arena, of which this much is free.
fn measured(free_mib: u64, kept_mib: u64) -> Measured {
    let (owned, entries) = (20_000_000, 100_000);
    let mut records = RecordMemory::now();
    records.free_bytes = (free_mib * MIB) as usize;
    records.used_bytes = records.free_bytes + owned as usize;
    records.tolerated_bytes = (8 * MIB) as usize;
    records.kept_bytes = (kept_mib * MIB) as usize;
    let charged = owned + owned / BYTES_PER_ALLOCATOR_BYTE + entries * ENTRY_OVERHEAD_BYTES;
    Measured { charged, entries, arrays: entries * ENTRY_OVERHEAD_BYTES, records }
}

#[test]
fn overhead_is_what_a_compaction_leaves() {
    // Blocks of the arena need no sixteenth for the allocator.
    let unneeded = 20_000_000 / BYTES_PER_ALLOCATOR_BYTE;
    assert_eq!(measured(0, 0).overhead(), 0);
    assert_eq!(measured(5, 0).overhead(), 5 * MIB - unneeded);
    assert_eq!(measured(5, 2).overhead(), 7 * MIB - unneeded);
    assert_eq!(measured(50, 2).overhead(), 10 * MIB - unneeded, "more is about to be returned");
    let all = measured(50, 2);
    assert_eq!(all.resident(), all.charged - unneeded + 52 * MIB);
    let more_arrays = Measured { arrays: measured(0, 0).arrays + 3 * MIB, ..measured(0, 0) };
    assert_eq!(more_arrays.overhead(), 3 * MIB - unneeded);
}

#[test]
fn keyspaces_of_a_process_share_what_is_free() {
    let mut one = measured(8, 0);
    // As much again is taken by another keyspace.
    one.records.used_bytes += 20_000_000;
    assert_eq!(one.resident(), measured(4, 0).resident());
}

#[test]
fn small_limits_are_not_reduced_and_others_at_most_by_half() {
    for (max_memory, expected) in [(MIB, 0), (16 * MIB, 0), (32 * MIB, 8 * MIB), (1024 * MIB, 96 * MIB)] {
        assert_eq!(subtracted(100 * MIB, max_memory), expected, "{max_memory}");
    }
    assert_eq!(subtracted(ALLOWANCE_BYTES, 1024 * MIB), 0);
}

#[test]
fn overhead_follows_fast_upwards_and_slowly_downwards() {
    let after = |mut overhead, measured, intervals| {
        (0..intervals).for_each(|_| overhead = smoothed(overhead, measured));
        overhead
    };
    assert!(after(0, 100 * MIB, 10) > 90 * MIB);
    let (second, ten_seconds) = (after(100 * MIB, 0, 10), after(100 * MIB, 0, 100));
    assert!(second > 50 * MIB && ten_seconds < MIB, "{second}, {ten_seconds}");
    assert_eq!(after(0, 7, 100), 7);
    assert_eq!(after(7, 0, 100), 0);
}

/// Subtracts an overhead from the limit, as if it had been measured.
fn apply(store: &Store, overhead: u64) {
    let mut state = store.limit.state.lock();
    state.overhead = overhead;
    store.apply(overhead);
}

#[test]
fn limit_of_the_charges_follows_the_overhead_and_the_configured_limit() {
    let store = Store::new(Some(64 * MIB)).expect("a valid limit");
    let limits = || (store.max_memory(), store.cache.capacity());
    apply(&store, 14 * MIB);
    assert_eq!(limits(), (64 * MIB, 54 * MIB));
    assert_eq!(store.used_memory(), 0, "an empty keyspace");
    store.database(0).set(b"k", &[0; 1_000], Expiry::Never).expect("it fits");
    assert_eq!(store.used_memory(), store.charged_memory() + 10 * MIB);
    store.resize(128 * MIB);
    assert_eq!(limits(), (128 * MIB, 118 * MIB));
    apply(&store, 0);
    assert_eq!(limits(), (128 * MIB, 128 * MIB));
}

#[test]
fn overhead_refuses_writes_without_eviction_until_it_is_gone() {
    let store = Store::new(Some(64 * MIB)).expect("a valid limit");
    store.set_policy(MemoryPolicy::Noeviction);
    let db = store.database(0);
    for n in 0..56u32 {
        db.set(&n.to_le_bytes(), &[0; 1_000_000], Expiry::Never).expect("it fits");
    }
    assert!(!store.is_full());
    apply(&store, 14 * MIB);
    assert!(store.is_full() && store.used_memory() > store.max_memory());
    assert!(db.set(b"one more", b"value", Expiry::Never).is_err());
    apply(&store, 0);
    assert!(!store.is_full());
    assert_eq!(db.set(b"one more", b"value", Expiry::Never), Ok(()));
}

#[test]
fn overhead_evicts_in_bounded_steps() {
    let store = Store::new(Some(64 * MIB)).expect("a valid limit");
    for n in 0..60u32 {
        store.database(0).set(&n.to_le_bytes(), &[0; 1_000_000], Expiry::Never).expect("it fits");
    }
    apply(&store, 24 * MIB);
    let (now, before) = (Moment::now(), store.len());
    // As if it had just been measured.
    store.limit.state.lock().measured_at = Some(now);
    assert!(store.follow_memory(now, 5), "there is more to evict");
    assert_eq!(store.len(), before - 5);
    while store.follow_memory(now, 5) {}
    assert!(store.used_memory() <= store.max_memory() && store.len() < before - 10);
    // The next measurement finds less.
    store.follow_memory(now + INTERVAL, 5);
    assert!(store.cache.capacity() > 44 * MIB && store.resident_memory() > 30 * MIB);
}

//! An entry is readable until its deadline and not a millisecond longer.

use crate::{Cache, Clock, Inserted, ManualClock, Op, Ttl};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

const fn ms(n: u64) -> Duration {
    Duration::from_millis(n)
}

/// Writes reclaim an entry at most two ticks of the wheel after its deadline.
const TICK: Duration = ms(256);

fn timed(ttl: Option<Duration>, tti: Option<Duration>) -> (Cache<u32, u32>, ManualClock) {
    let (clock, hand) = Clock::manual();
    let mut builder = Cache::builder().entries(1_000).clock(clock);
    if let Some(ttl) = ttl {
        builder = builder.ttl(ttl);
    }
    if let Some(tti) = tti {
        builder = builder.tti(tti);
    }
    (builder.build().expect("valid options"), hand)
}

/// The entry was told of as lost, stayed, and was never looked at again.
#[test]
fn entry_stays_due_after_a_panic_of_the_loss_listener() {
    let (clock, hand) = Clock::manual();
    let panics = AtomicBool::new(true);
    let cache: Cache<u32, u32> = Cache::builder()
        .entries(100)
        .shards(1)
        .ttl(ms(100))
        .clock(clock)
        .loss_listener(move |_, _| assert!(!panics.swap(false, Ordering::Relaxed), "the first time"))
        .build()
        .expect("valid options");
    (0..10).for_each(|key| _ = cache.insert(key, key));
    hand.advance(ms(100) + TICK);
    assert!(catch_unwind(AssertUnwindSafe(|| cache.run_due(100))).is_err());
    assert_eq!(cache.len(), 10);
    cache.validate();
    hand.advance(TICK);
    cache.run_due(100);
    assert!(cache.is_empty());
    cache.validate();
}

#[test]
fn read_at_deadline_misses() {
    let (cache, hand) = timed(Some(ms(100)), None);
    cache.insert(1, 1);
    hand.advance(ms(99));
    assert_eq!(cache.get(&1), Some(1));
    hand.advance(ms(1));
    assert_eq!(cache.get(&1), None);
    assert_eq!(cache.len(), 1, "its memory waits to be reclaimed");
    hand.advance(TICK);
    assert_eq!(cache.run_due(10), 1);
    assert_eq!((cache.len(), cache.stats().expired), (0, 1));
    cache.validate();
}

#[test]
fn entry_with_ttl_expires_without_a_default() {
    let (cache, hand) = timed(None, None);
    cache.insert(1, 1);
    cache.insert_with_ttl(2, 2, Ttl::After(ms(10)));
    cache.insert_with_ttl(3, 3, Ttl::At(20));
    cache.insert_with_ttl(4, 4, Ttl::After(Duration::ZERO));
    assert_eq!(cache.get(&4), None);
    assert_eq!(cache.peek_with(&2, |entry| entry.expires_in()), Some(Some(ms(10))));
    assert_eq!(cache.peek_with(&1, |entry| entry.expires_in()), Some(None));
    hand.advance(ms(10));
    assert_eq!((cache.get(&1), cache.get(&2), cache.get(&3)), (Some(1), None, Some(3)));
    hand.advance(ms(10));
    assert_eq!(cache.get(&3), None);
}

/// Growth moves times to arrays that count from a later start.
#[test]
fn growth_keeps_deadlines_and_last_uses_of_a_long_time_ago() {
    const HOUR: Duration = ms(3_600_000);
    let (cache, hand) = timed(None, Some(10 * HOUR));
    hand.advance(1_000 * HOUR);
    cache.insert(1, 1);
    cache.insert_with_ttl(2, 2, Ttl::After(9 * HOUR));
    // Beyond what four bytes hold.
    cache.insert_with_ttl(3, 3, Ttl::After(5_000 * HOUR));
    hand.advance(8 * HOUR);
    (10..900).for_each(|n| _ = cache.insert(n, n));
    assert_eq!(cache.peek_with(&2, |entry| entry.expires_in()), Some(Some(HOUR)));
    assert_eq!(cache.peek_with(&3, |entry| entry.expires_in()), Some(Some(4_992 * HOUR)));
    hand.advance(HOUR - ms(1));
    assert_eq!((cache.peek(&1), cache.peek(&2)), (Some(1), Some(2)));
    hand.advance(ms(1));
    assert_eq!((cache.peek(&1), cache.peek(&2)), (Some(1), None));
    hand.advance(HOUR);
    assert_eq!((cache.peek(&1), cache.peek(&3)), (None, None));
    cache.validate();
}

#[test]
fn ttl_beyond_range_never_expires() {
    let (cache, hand) = timed(None, None);
    cache.insert_with_ttl(1, 1, Ttl::After(Duration::MAX));
    hand.advance(Duration::from_secs(10_000_000));
    assert_eq!(cache.peek_with(&1, |entry| entry.deadline_ms()), Some(None));
}

#[test]
fn ttl_keep_and_set_ttl_change_only_the_deadline() {
    let (cache, hand) = timed(None, None);
    cache.insert_with_ttl(1, 1, Ttl::After(ms(50)));
    hand.advance(ms(20));
    assert_eq!(cache.insert_with_ttl(1, 2, Ttl::Keep), Inserted::Replaced(1));
    assert_eq!(cache.peek_with(&1, |entry| entry.deadline_ms()), Some(Some(50)));
    cache.compute(1, |_| (Op::SetTtl(Ttl::After(ms(100))), ()));
    assert_eq!(cache.peek_with(&1, |entry| (*entry.value(), entry.deadline_ms())), Some((2, Some(120))));
    cache.compute(1, |_| (Op::SetTtl(Ttl::Never), ()));
    hand.advance(ms(1_000));
    assert_eq!(cache.get(&1), Some(2));
    cache.validate();
}

#[test]
fn insert_over_expired_entry_reports_new() {
    let (cache, hand) = timed(Some(ms(10)), None);
    cache.insert(1, 1);
    hand.advance(ms(10));
    assert_eq!(cache.insert(1, 2), Inserted::New);
    hand.advance(ms(10));
    assert_eq!(cache.remove(&1), None);
    assert_eq!(cache.stats().expired, 2);
    cache.insert(1, 3);
    hand.advance(ms(10));
    cache.compute(1, |entry| (Op::Keep, assert!(entry.is_none())));
    assert!(cache.drain().is_empty());
}

#[test]
fn read_extends_tti_but_not_ttl() {
    let (cache, hand) = timed(Some(ms(100)), Some(ms(30)));
    cache.insert(1, 1);
    cache.insert(2, 2);
    for _ in 0..4 {
        hand.advance(ms(20));
        assert_eq!(cache.get(&1), Some(1));
    }
    assert_eq!(cache.get(&2), None, "idle since it was written");
    hand.advance(ms(20));
    assert_eq!(cache.get(&1), None, "over its time to live");
    hand.advance(TICK);
    cache.run_due(100);
    assert!(cache.is_empty());
    cache.validate();
}

#[test]
fn write_reclaims_expired_entries() {
    let (cache, hand) = timed(Some(ms(10)), None);
    for n in 0..100 {
        cache.insert(n, n);
    }
    hand.advance(ms(10) + TICK);
    for n in 1_000..1_100 {
        cache.insert(n, n);
    }
    assert_eq!((cache.len(), cache.stats().expired), (100, 100));
}

#[test]
fn jitter_only_shortens_the_ttl() {
    let (clock, _hand) = Clock::manual();
    let cache: Cache<u32, u32> = Cache::builder()
        .entries(1_000)
        .clock(clock)
        .ttl(ms(1_000))
        .jitter(0.2)
        .build()
        .expect("valid options");
    for n in 0..1_000 {
        cache.insert(n, n);
    }
    let deadlines: Vec<u64> =
        (0..1_000).filter_map(|n| cache.peek_with(&n, |entry| entry.deadline_ms())?).collect();
    assert!(deadlines.iter().all(|at| (800..=1_000).contains(at)), "{deadlines:?}");
    let early = deadlines.iter().filter(|at| **at < 900).count();
    assert!((300..700).contains(&early), "{early} of 1000 in the earlier half");
}

#[test]
fn ttl_too_long_is_refused_by_the_builder() {
    for seconds in [18_446_744_073_709_552, u64::MAX] {
        let ttl = Duration::from_secs(seconds);
        let builder = || Cache::<u32, u32>::builder().entries(1);
        assert!(builder().ttl(ttl).build().is_err(), "{seconds} s");
        assert!(builder().tti(ttl).build().is_err(), "{seconds} s");
    }
    let (cache, _) = timed(Some(crate::MAX_TTL), None);
    cache.insert(1, 1);
    assert_eq!(cache.peek_with(&1, |entry| entry.expires_in()), Some(Some(crate::MAX_TTL)));
}

/// Part of a millisecond counts as a whole one, for the cache and for an entry.
#[test]
fn ttl_below_a_millisecond_is_one_millisecond() {
    for (ttl, expected) in
        [(Duration::from_nanos(1), 1), (Duration::from_micros(900), 1), (Duration::from_micros(1_001), 2)]
    {
        let (by_default, hand) = timed(Some(ttl), None);
        by_default.insert(1, 1);
        let (by_entry, other_hand) = timed(None, None);
        assert_eq!(by_entry.insert_with_ttl(1, 1, Ttl::After(ttl)), Inserted::New);
        let (idle, idle_hand) = timed(None, Some(ttl));
        idle.insert(1, 1);
        for (cache, hand) in [(by_default, hand), (by_entry, other_hand), (idle, idle_hand)] {
            hand.advance(ms(expected - 1));
            assert_eq!(cache.get(&1), Some(1), "{ttl:?}");
            hand.advance(ms(expected));
            assert_eq!(cache.get(&1), None, "{ttl:?}");
        }
    }
}

/// Threads read the clock before they lock, so an earlier time may come later.
#[test]
fn read_with_an_earlier_time_does_not_shorten_the_time_to_idle() {
    let (cache, hand) = timed(None, Some(ms(30)));
    cache.insert(1, 1);
    hand.advance(ms(20));
    assert!(matches!(cache.load_at(&1, ms(20), crate::Leader::Async, u32::clone), crate::Load::Hit(1)));
    assert!(matches!(cache.load_at(&1, ms(5), crate::Leader::Async, u32::clone), crate::Load::Hit(1)));
    hand.advance(ms(20));
    assert_eq!(cache.get(&1), Some(1), "last used at 20 ms, not at 5 ms");
    cache.remove(&1);
    hand.advance(ms(10));
    cache.insert(1, 2);
    hand.advance(ms(29));
    assert_eq!(cache.get(&1), Some(2));
    cache.validate();
}

/// The check of the structure took an entry that has lost its deadline for one that must have a registration.
#[test]
fn entry_that_was_looked_at_and_has_no_deadline_any_more_is_valid() {
    let (cache, hand) = timed(None, None);
    for ttl in (1..200).map(|n| ms(n * 97)) {
        cache.insert_with_ttl(1, 1, Ttl::After(ttl));
        hand.advance(ttl - ms(1));
        cache.run_due(1);
        cache.compute(1, |_| (Op::SetTtl(Ttl::Never), ()));
        cache.validate();
    }
}

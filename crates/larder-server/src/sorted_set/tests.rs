//! Sorted sets against a model, and the memory that they need.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::collections::BTreeMap;

use proptest::prelude::*;

use super::{NameBound, ScoreBound, SortedSet};

/// Counts what each thread allocates.
struct CountingAllocator;

#[global_allocator]
static ALLOCATOR: CountingAllocator = CountingAllocator;

thread_local! {
    static ALLOCATED: Cell<isize> = const { Cell::new(0) };
}

fn count(bytes: isize) {
    // The thread may be at its end.
    let _ = ALLOCATED.try_with(|allocated| allocated.set(allocated.get() + bytes));
}

// SAFETY: every call is passed on to the allocator of the system.
unsafe impl GlobalAlloc for CountingAllocator {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout.size() as isize);
        // SAFETY: the caller's guarantees are those of this call.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        count(-(layout.size() as isize));
        // SAFETY: likewise.
        unsafe { System.dealloc(block, layout) }
    }

    unsafe fn realloc(&self, block: *mut u8, layout: Layout, new_size: usize) -> *mut u8 {
        count(new_size as isize - layout.size() as isize);
        // SAFETY: likewise.
        unsafe { System.realloc(block, layout, new_size) }
    }
}

fn allocated() -> isize {
    ALLOCATED.with(Cell::get)
}

/// Names of sixteen bytes, in no order.
fn name(number: u64) -> String {
    format!("{:016x}", number.wrapping_mul(0x9e37_79b9_7f4a_7c15))
}

/// The figure that the ledger of invalidations needs: 20,000 members of sixteen bytes in at most 64 bytes each.
#[test]
fn twenty_thousand_members_take_at_most_64_bytes_each() {
    const MEMBERS: u64 = 20_000;
    let names: Vec<String> = (0..MEMBERS).map(name).collect();
    for (order, step) in [("in order", 1), ("at random", 7_919)] {
        let before = allocated();
        let mut set = Box::new(SortedSet::new());
        for (number, name) in (0..).zip(&names) {
            set.insert(name.as_bytes(), (number * step % MEMBERS) as f64);
        }
        let bytes = allocated() - before;
        assert_eq!(bytes as usize, set.bytes_allocated(), "{order}: the charge is what is allocated");
        let per_member = bytes as f64 / MEMBERS as f64;
        println!("{order}: {per_member:.1} bytes per member of 16 bytes");
        assert!(per_member <= 64.0, "{order}: {per_member:.1} bytes per member");
    }
}

#[test]
fn bytes_allocated_is_what_is_allocated_after_any_change() {
    let names: Vec<String> =
        (0..5_000).map(|number| name(number)[..(number % 14 + 2) as usize].to_owned()).collect();
    let before = allocated();
    let mut set = Box::new(SortedSet::new());
    let check = |set: &SortedSet| assert_eq!((allocated() - before) as usize, set.bytes_allocated());
    check(&set);
    for (number, name) in names.iter().enumerate() {
        set.insert(name.as_bytes(), (number % 100) as f64);
        check(&set);
    }
    for (number, name) in names.iter().enumerate() {
        set.insert(name.as_bytes(), (number % 77) as f64);
        check(&set);
    }
    let full = set.bytes_allocated();
    let before_copy = allocated();
    let copy = set.clone();
    assert_eq!((allocated() - before_copy) as usize, copy.bytes_allocated(), "a copy");
    drop(copy);
    for name in &names {
        set.remove(name.as_bytes());
        check(&set);
    }
    assert!(set.is_empty() && set.bytes_allocated() < full / 20, "{} of {full}", set.bytes_allocated());
}

#[test]
fn scan_during_changes_visits_each_stable_member_once() {
    let mut set = SortedSet::new();
    (0..3_000).for_each(|number| _ = set.insert(format!("stable:{number}").as_bytes(), 1.0));
    let (mut seen, mut cursor, mut round) = (BTreeMap::<Vec<u8>, u32>::new(), 0, 0);
    loop {
        cursor = set.scan(cursor, 100, |name, _| *seen.entry(name.to_vec()).or_default() += 1);
        if cursor == 0 {
            break;
        }
        for number in 0..50 {
            set.insert(format!("temporary:{round}:{number}").as_bytes(), 2.0);
            set.remove(format!("temporary:{}:{number}", round - 1).as_bytes());
            set.insert(format!("stable:{}", number * 60).as_bytes(), f64::from(round));
        }
        round += 1;
    }
    for number in 0..3_000 {
        assert_eq!(seen.get(format!("stable:{number}").as_bytes()), Some(&1), "{number}");
    }
}

/// The model's key: the score in an order of bits, then the name.
fn model_key(score: f64, name: &[u8]) -> (i64, Vec<u8>) {
    let bits = (score + 0.0).to_bits() as i64;
    (bits ^ (((bits >> 63) as u64) >> 1) as i64, name.to_vec())
}

#[derive(Clone, Debug)]
enum Step {
    Insert(u16, i8),
    Remove(u16),
    RemoveRange(u16, u16),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        8 => (0u16..400, any::<i8>()).prop_map(|(name, score)| Step::Insert(name, score)),
        3 => (0u16..400).prop_map(Step::Remove),
        1 => (0u16..400, 0u16..20).prop_map(|(start, count)| Step::RemoveRange(start, count)),
    ]
}

/// A few scores that differ by little, and the infinities.
fn score_of(number: i8) -> f64 {
    match number {
        i8::MIN => f64::NEG_INFINITY,
        i8::MAX => f64::INFINITY,
        number => f64::from(number / 4) / 10.0,
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn sorted_set_matches_a_model(steps in proptest::collection::vec(step(), 1..1_000), low in any::<i8>(), high in any::<i8>()) {
        let mut set = SortedSet::new();
        let mut scores = BTreeMap::<Vec<u8>, f64>::new();
        let mut order = BTreeMap::<(i64, Vec<u8>), f64>::new();
        for step in steps {
            match step {
                Step::Insert(name, score) => {
                    let (name, score) = (format!("member {name}").into_bytes(), score_of(score));
                    let former = scores.insert(name.clone(), score);
                    former.into_iter().for_each(|former| _ = order.remove(&model_key(former, &name)));
                    order.insert(model_key(score, &name), score);
                    prop_assert_eq!(set.insert(&name, score), former);
                    let rank = order.range(..model_key(score, &name)).count();
                    prop_assert_eq!(set.rank(&name), Some((rank, score)));
                }
                Step::Remove(name) => {
                    let name = format!("member {name}").into_bytes();
                    let former = scores.remove(&name);
                    former.into_iter().for_each(|former| _ = order.remove(&model_key(former, &name)));
                    prop_assert_eq!(set.remove(&name), former);
                }
                Step::RemoveRange(start, count) => {
                    let start = usize::from(start).min(set.len());
                    let end = (start + usize::from(count)).min(set.len());
                    let gone: Vec<_> = order.keys().skip(start).take(end - start).cloned().collect();
                    for key in gone {
                        order.remove(&key);
                        scores.remove(&key.1);
                    }
                    set.remove_range(start..end);
                }
            }
            prop_assert_eq!(set.len(), order.len());
        }
        let mut found = Vec::new();
        set.visit(0..set.len(), false, |name, score| {
            found.push((name.to_vec(), score));
            true
        });
        let expected: Vec<_> = order.iter().map(|((_, name), score)| (name.clone(), *score)).collect();
        prop_assert_eq!(&found, &expected);
        let (low, high) = (score_of(low), score_of(high));
        for (below, above) in [(false, false), (false, true), (true, false), (true, true)] {
            let bound = |score, is_exclusive| ScoreBound { score, is_exclusive };
            let ranks = set.ranks_by_score(bound(low, below), bound(high, above));
            let inside = |score: f64| (score > low || !below && score == low) && (score < high || !above && score == high);
            prop_assert_eq!(ranks.len(), expected.iter().filter(|(_, score)| inside(*score)).count());
            prop_assert!(ranks.is_empty() || inside(expected[ranks.start].1));
        }
    }

    #[test]
    fn ranks_by_name_match_a_filter(names in proptest::collection::btree_set("[a-d]{0,3}", 0..60), low in "[a-d]{0,3}", high in "[a-d]{0,3}") {
        let mut set = SortedSet::new();
        names.iter().for_each(|name| _ = set.insert(name.as_bytes(), 0.0));
        let (low, high) = (low.as_bytes(), high.as_bytes());
        let bounds = |bound| [NameBound::First, NameBound::Last, NameBound::Inclusive(bound), NameBound::Exclusive(bound)];
        for min in bounds(low) {
            for max in bounds(high) {
                let inside = |name: &&String| !min.is_above(name.as_bytes()) && !max.is_below(name.as_bytes());
                let ranks = set.ranks_by_name(min, max);
                prop_assert_eq!(ranks.len(), names.iter().filter(inside).count(), "{:?} {:?}", min, max);
            }
        }
    }
}

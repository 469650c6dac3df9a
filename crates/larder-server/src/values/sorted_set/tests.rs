//! The memory that sorted sets need, and scans during changes.

use std::collections::BTreeMap;

use super::SortedSet;
use crate::values::allocated::allocated;

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

/// Redis needs about as much with a key and its slots.
#[test]
fn ten_members_take_a_box_and_one_buffer() {
    for (name_bytes, score, bytes) in [(9, 1.0, 128), (12, 99.0, 160), (12, 1_000.0, 160), (16, 1.0, 192)] {
        let before = allocated();
        let mut set = Box::new(SortedSet::new());
        for number in 0..10 {
            set.insert(&name(number).as_bytes()[..name_bytes], score + number as f64);
        }
        assert_eq!(
            allocated() - before,
            32 + bytes,
            "names of {name_bytes} bytes and scores from {score} on"
        );
    }
}

#[test]
fn buffer_follows_its_members_and_scores() {
    let before = allocated();
    let mut set = Box::new(SortedSet::new());
    let bytes = |set: &SortedSet| {
        assert_eq!((allocated() - before) as usize, set.bytes_allocated());
        set.bytes_allocated()
    };
    for number in 0..60 {
        set.insert(name(number).as_bytes(), 0.5);
        bytes(&set);
    }
    let wide = bytes(&set);
    for number in 0..60 {
        set.insert(name(number).as_bytes(), 1.0);
        bytes(&set);
    }
    let narrow = bytes(&set);
    assert!(narrow < wide, "{narrow} of {wide} bytes");
    set.remove_range(10..60);
    assert!(bytes(&set) <= 32 + 256, "{} bytes", bytes(&set));
    set.remove_range(0..10);
    assert_eq!((bytes(&set), set.is_empty()), (32, true));
    set.insert(b"", 1.0);
    assert_eq!((bytes(&set), set.score(b"")), (32 + 16, Some(1.0)));
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

/// Members of a buffer move, so that a position would mean nothing later.
#[test]
fn scan_of_a_small_set_visits_all_from_any_cursor() {
    let mut set = SortedSet::new();
    (0..20).for_each(|number| _ = set.insert(format!("member {number}").as_bytes(), 1.0));
    for cursor in [0, 7, u64::MAX] {
        let mut seen = 0;
        assert_eq!(set.scan(cursor, 5, |_, _| seen += 1), 0);
        assert_eq!(seen, 20);
    }
}

//! The memory that hashes need, and scans during changes.

use std::collections::BTreeMap;

use super::{Field, Hash};
use crate::values::allocated::allocated;

/// All fields, with those that have expired.
pub(super) fn content(hash: &Hash) -> BTreeMap<Vec<u8>, (Vec<u8>, Option<i64>)> {
    let mut fields = BTreeMap::new();
    hash.visit(i64::MIN, |field| {
        _ = fields.insert(field.name.to_vec(), (field.value.to_vec(), field.deadline))
    });
    fields
}

/// Names of sixteen bytes, in no order.
fn name(number: u64) -> String {
    format!("{:016x}", number.wrapping_mul(0x9e37_79b9_7f4a_7c15))
}

fn insert(hash: &mut Hash, name: &str, value: &str) {
    hash.insert(Field { name: name.as_bytes(), value: value.as_bytes(), deadline: None });
}

/// Redis 7.0 needs 91.7 bytes with values of up to twelve bytes.
#[test]
fn ten_thousand_fields_of_sixteen_bytes_take_at_most_44_bytes_each() {
    const FIELDS: u64 = 10_000;
    for value in ["1", "12345678", "abcdefghijkl"] {
        let before = allocated();
        let mut hash = Box::new(Hash::new());
        (0..FIELDS).for_each(|number| insert(&mut hash, &name(number), value));
        let bytes = allocated() - before;
        assert_eq!(bytes as usize, hash.bytes_allocated(), "the charge is what is allocated");
        let per_field = bytes as f64 / FIELDS as f64;
        println!("{per_field:.1} bytes per field with a name of 16 bytes and the value {value}");
        assert!(per_field <= 44.0, "{per_field:.1} bytes per field");
    }
}

/// The block of a listpack of Redis 7.0 for these texts: a header of 6, an end of 1; for each text a code of 1 to 5 bytes,
/// the text or an integer, and its length again in 1 or 2 bytes. Its allocator has blocks of multiples of 16 bytes up to 128,
/// and then of four sizes between two powers of two.
fn listpack_block_bytes(texts: &[String]) -> usize {
    let entry = |text: &String| match text.parse::<i64>() {
        Ok(0..128) => 1,
        Ok(-4096..4096) => 2,
        Ok(-0x8000..0x8000) => 3,
        Ok(-0x80_0000..0x80_0000) => 4,
        Ok(-0x8000_0000..0x8000_0000) => 5,
        Ok(_) => 9,
        Err(_) if text.len() < 64 => 1 + text.len(),
        Err(_) => 2 + text.len(),
    };
    let bytes = 7 + texts.iter().map(|text| entry(text) + 1).sum::<usize>();
    bytes.next_multiple_of(((1 << (bytes - 1).ilog2()) / 4).max(16))
}

#[test]
fn small_hash_takes_at_most_a_tenth_more_than_a_listpack() {
    for fields in [3, 5, 10, 30, 100, 500] {
        for (names, values) in [("field:", "value:"), ("name", ""), ("", ""), ("a longer name ", "1700000")] {
            let mut hash = Hash::new();
            let mut texts = Vec::new();
            for number in 0..fields {
                let pair = [format!("{names}{number}"), format!("{values}{}", number * 7)];
                insert(&mut hash, &pair[0], &pair[1]);
                texts.extend(pair);
            }
            assert!(hash.is_packed());
            let (packed, listpack) = (hash.form_bytes(), listpack_block_bytes(&texts));
            assert!(
                packed * 10 <= listpack * 11,
                "{fields} fields, {names}, {values}: {packed} of {listpack}"
            );
        }
    }
}

#[test]
fn bytes_allocated_is_what_is_allocated_after_any_change() {
    let names: Vec<String> =
        (0..3_000).map(|number| name(number)[..(number % 14 + 2) as usize].to_owned()).collect();
    let values: Vec<String> = (0..50).map(|bytes| "v".repeat(bytes)).collect();
    let before = allocated();
    let mut hash = Box::new(Hash::new());
    let check = |hash: &Hash| assert_eq!((allocated() - before) as usize, hash.bytes_allocated());
    check(&hash);
    for (number, name) in names.iter().enumerate() {
        insert(&mut hash, name, &values[number % 50]);
        check(&hash);
    }
    for (number, name) in names.iter().enumerate() {
        let value = &values[number % 37];
        let deadline = (number % 3 == 0).then_some(number as i64);
        hash.insert(Field { name: name.as_bytes(), value: value.as_bytes(), deadline });
        check(&hash);
    }
    let full = hash.bytes_allocated();
    let before_copy = allocated();
    let copy = hash.clone();
    assert_eq!((allocated() - before_copy) as usize, copy.bytes_allocated(), "a copy");
    drop(copy);
    hash.remove_expired(1_500, usize::MAX);
    check(&hash);
    for name in &names {
        hash.remove(name.as_bytes());
        check(&hash);
    }
    assert!(hash.is_empty() && hash.bytes_allocated() < full / 20, "{} of {full}", hash.bytes_allocated());
}

/// A value that becomes longer moves its field to another slot, which must not hide it from a scan.
#[test]
fn scan_during_changes_visits_each_stable_field_once() {
    let mut hash = Hash::new();
    (0..3_000).for_each(|number| insert(&mut hash, &format!("stable:{number}"), "v"));
    let (mut seen, mut cursor, mut round) = (BTreeMap::<Vec<u8>, u32>::new(), 0, 0);
    loop {
        cursor = hash.scan(cursor, 100, 0, |field| *seen.entry(field.name.to_vec()).or_default() += 1);
        if cursor == 0 {
            break;
        }
        for number in 0..50 {
            insert(&mut hash, &format!("temporary:{round}:{number}"), "v");
            hash.remove(format!("temporary:{}:{number}", round - 1).as_bytes());
            insert(&mut hash, &format!("stable:{}", number * 60), &"longer".repeat(round as usize % 9));
        }
        round += 1;
    }
    assert!(round > 20, "{round} rounds");
    for number in 0..3_000 {
        assert_eq!(seen.get(format!("stable:{number}").as_bytes()), Some(&1), "{number}");
    }
}

#[test]
fn expired_fields_are_invisible_at_once_and_keep_their_slots() {
    for fields in [10i64, 1_000] {
        let mut hash = Hash::new();
        for number in 0..fields {
            let name = number.to_string();
            hash.insert(Field { name: name.as_bytes(), value: b"v", deadline: Some(number) });
        }
        assert_eq!((hash.len(-1), hash.len(4), hash.len(fields)), (fields as usize, fields as usize - 5, 0));
        assert!(!hash.contains(b"4", 4) && hash.contains(b"5", 4));
        assert_eq!((hash.expired(4), hash.stored()), (5, fields as usize));
        let mut visits = 0;
        hash.visit(4, |field| {
            assert!(field.deadline > Some(4));
            visits += 1;
        });
        assert_eq!(visits, fields - 5);
    }
}

/// Also before it is removed, as beyond the most that an edit removes.
#[test]
fn expired_field_is_missing_for_who_stores_or_takes_it() {
    for fields in [1, 1_000] {
        let mut hash = Hash::new();
        (1..fields).for_each(|number| insert(&mut hash, &number.to_string(), "v"));
        let field = |deadline| Field { name: b"a", value: b"1", deadline };
        assert!(hash.put(field(Some(5)), 0) && !hash.put(field(Some(5)), 4));
        assert!(hash.put(field(Some(9)), 5), "it has expired, so it is new");
        assert!(!hash.take(b"a", 9) && hash.stored() == fields - 1, "it is removed, and was none");
        assert!(hash.put(field(None), 9) && hash.take(b"a", i64::MAX) && !hash.take(b"a", 0));
    }
}

/// The longest change of a field while a hash grows: it moves at most a small part of the index. What counts is the time of
/// the processor. With a million fields the longest of them takes 0.17 ms without optimization.
#[test]
fn insertion_into_a_large_hash_takes_less_than_a_millisecond() {
    use rustix::time::{ClockId, clock_gettime};
    let now = || {
        let time = clock_gettime(ClockId::ThreadCPUTime);
        time.tv_sec * 1_000_000_000 + time.tv_nsec
    };
    let mut hash = Hash::new();
    let mut times = Vec::new();
    for number in 0..300_000 {
        let name = name(number);
        let start = now();
        insert(&mut hash, &name, "12345678");
        times.push(now() - start);
    }
    let all: i64 = times.iter().sum();
    times.sort_unstable();
    let longest = &times[times.len() - 10..];
    println!("{} ns each, the longest: {longest:?}", all / times.len() as i64);
    // A few may have had a page fault of the system beside.
    assert!(longest[0] < 1_000_000, "{longest:?}");
}

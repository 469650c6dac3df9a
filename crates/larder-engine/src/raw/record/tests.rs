//! Records: any bytes, long values that a reader shares, and objects.

use super::*;
use crate::Equivalent;
use proptest::prelude::*;

fn name(name: &[u8]) -> Key<'_> {
    Key { space: 3, name }
}

#[test]
fn record_short_value_has_three_bytes_of_header() {
    let record: Record = Record::new(name(b"name"), &[b"val", b"ue"]);
    assert_eq!(size_of::<Option<Record>>(), 4);
    assert_eq!(record.bytes_allocated(), (4usize + 5 + 3).next_multiple_of(8));
}

/// Parts may overlap: on a machine with 32 bits, 256 times the same 16 MiB are more than there is memory.
#[test]
fn total_len_beyond_an_allocation_is_refused() {
    let part = usize::MAX / 256 + 1;
    assert_eq!(total_len(std::iter::repeat_n(part, 256)), Err(TooLong), "the sum wraps to zero");
    assert_eq!(total_len([isize::MAX as usize, 1].into_iter()), Err(TooLong));
    assert_eq!(total_len([isize::MAX as usize - 1, 1].into_iter()), Ok(isize::MAX as usize));
}

#[test]
fn long_value_is_lengthened_unless_it_is_read() {
    let long = vec![1; MAX_INLINE_BYTES + 1];
    let mut record: Record = Record::new(name(b"name"), &[&long]);
    let reader = record.share().expect("a long value is shared");
    assert!(matches!(record.lengthen(long.len() + 3, 0), Lengthened::Unchanged), "it is read");
    assert!(record.bytes() == Some(&long) && !record.has_room(long.len() + 1));
    drop(reader);
    let Lengthened::Moved(former) = record.lengthen(long.len() + 3, 0) else { panic!("nobody reads it") };
    assert_eq!((former.len(), former.owners()), (long.len(), 1));
    assert!(record.bytes() == Some(&[&long[..], &[0; 3]].concat()));
    let mut short: Record = Record::new(name(b"name"), &[b"short"]);
    assert!(matches!(short.lengthen(100, 200), Lengthened::Unchanged) && short.bytes() == Some(b"short"));
}

/// Each byte costs the same on average: a value that grows step by step is moved a few times.
#[test]
fn value_that_grows_step_by_step_is_moved_a_few_times() {
    let mut record: Record = Record::new(name(b"name"), &[&[1; MAX_INLINE_BYTES + 1]]);
    let (mut moves, mut charged) = (0, 0);
    for length in (MAX_INLINE_BYTES + 101..2_000_000).step_by(100) {
        let before = record.bytes_allocated();
        match record.lengthen(length, length + length / 4) {
            Lengthened::Moved(_) => moves += 1,
            Lengthened::InPlace => assert_eq!(record.bytes_allocated(), before),
            Lengthened::Unchanged => panic!("nobody reads it"),
        }
        let bytes = record.bytes_mut().expect("bytes");
        assert_eq!(bytes[length - 100..], [0; 100]);
        bytes[length - 100..].fill(2);
        charged = record.bytes_allocated();
    }
    let bytes = record.bytes().expect("bytes");
    assert!(bytes[..=MAX_INLINE_BYTES].iter().all(|byte| *byte == 1));
    assert!(bytes[MAX_INLINE_BYTES + 1..].iter().all(|byte| *byte == 2));
    assert!((20..40).contains(&moves), "{moves} moves");
    assert!(charged > bytes.len() && charged < bytes.len() * 5 / 4 + 100, "{charged} bytes");
}

#[test]
fn edit_of_a_shared_value_keeps_what_its_reader_has() {
    let long = vec![1; MAX_INLINE_BYTES + 1];
    let mut record: Record = Record::new(name(b"name"), &[&long]);
    assert!(Record::<Infallible>::new(name(b"name"), &[&long[1..]]).share().is_none(), "short enough");
    for is_read in [true, false] {
        let before = record.share().expect("a long value is shared");
        let reader = is_read.then(|| before.clone());
        let address = before.as_ptr();
        drop(before);
        let bytes = record.bytes_mut().expect("bytes");
        bytes.fill(2);
        assert_eq!(bytes.as_ptr() == address, !is_read, "copied only if it is read");
        assert!(reader.is_none_or(|reader| reader.iter().all(|byte| *byte == 1)));
        assert_eq!(record.bytes(), Some(&vec![2; long.len()][..]));
    }
}

#[test]
fn object_is_edited_moved_and_dropped_once() {
    let drops = Arc::new(());
    let object = Box::new((7u64, drops.clone()));
    let mut record = Record::with_object(name(b"name"), object);
    assert_eq!((record.bytes(), record.object().map(|object| object.0)), (None, Some(7)));
    let object = record.object_mut().expect("an object");
    object.0 = 8;
    let other = record.with_key(Key { space: 63, name: b"another name" });
    assert_eq!(other.key(), Key { space: 63, name: b"another name" });
    assert_eq!(other.object().map(|object| object.0), Some(8));
    assert_eq!(Arc::strong_count(&drops), 2);
    drop(other);
    assert_eq!(Arc::strong_count(&drops), 1);
}

#[test]
#[should_panic = "space 64 does not exist"]
fn unknown_space_is_refused() {
    let _: Record = Record::new(Key { space: SPACES, name: b"" }, &[]);
}

proptest! {
    #[test]
    fn record_round_trips_any_bytes(
        space in 0..SPACES,
        // The longest ones lie outside of the arena.
        name in prop_oneof![
            proptest::collection::vec(any::<u8>(), 0..300),
            proptest::collection::vec(any::<u8>(), 0..10_000),
        ],
        head in proptest::collection::vec(any::<u8>(), 0..20_000),
        tail in proptest::collection::vec(any::<u8>(), 0..200),
    ) {
        let key = Key { space, name: &name };
        let mut record: Record = Record::new(key, &[&head, &tail]);
        let value = [&head[..], &tail].concat();
        prop_assert_eq!(record.key(), key);
        prop_assert!(key.equivalent(&record));
        prop_assert_eq!(record.bytes(), Some(&value[..]));
        prop_assert_eq!(record.share().is_some(), value.len() > MAX_INLINE_BYTES);
        prop_assert!(record.bytes_allocated() > name.len() + value.len());
        let bytes = record.bytes_mut().expect("bytes");
        bytes.fill(7);
        prop_assert_eq!(record.key(), key, "changing the value keeps the key");
        prop_assert_eq!(record.bytes(), Some(&vec![7; value.len()][..]));
        let other = Key { space: (space + 1) % SPACES, name: &name };
        prop_assert!(!other.equivalent(&record));
        let copy = record.copy_with_key(other);
        prop_assert_eq!((copy.key(), copy.bytes()), (other, record.bytes()));
        let renamed = record.with_key(other);
        prop_assert_eq!((renamed.key(), renamed.bytes()), (other, Some(&vec![7; value.len()][..])));
    }
}

//! Sets in the snapshot format: members one after another, as a listpack, or as integers of one width.

use super::listpack::ListpackReader;
use super::{Input, RdbError, WRITTEN_VERSION, sealed, write_length, write_string};
use crate::values::set::Set;

/// Members one after another: the form that is written.
pub(super) const SET: u8 = 2;
/// Integers, as a string: their width in bytes, 4; their number, 4; and they.
pub(super) const SET_INTEGERS: u8 = 11;
/// A listpack of members, as a string.
pub(super) const SET_LISTPACK: u8 = 20;

/// Serializes a set.
pub(crate) fn dump_set(set: &Set) -> Vec<u8> {
    let mut out = vec![SET];
    write_length(&mut out, set.len());
    set.visit(|member| write_string(&mut out, member));
    sealed(out, WRITTEN_VERSION)
}

/// The set of this type in a payload, whose members have at most this many bytes together. It is built while it is read, so
/// that its memory follows what there is and not what is announced.
pub(super) fn read_set(kind: u8, input: &mut Input<'_>, max_bytes: usize) -> Result<Set, RdbError> {
    let mut set = Set::new();
    match kind {
        SET_LISTPACK => {
            let listpack = input.string(max_bytes)?;
            let mut reader = ListpackReader::new(&listpack)?;
            while let Some(member) = reader.next()? {
                add(&mut set, member)?;
            }
        }
        SET_INTEGERS => read_integers(&mut set, &input.string(max_bytes)?)?,
        _ => {
            let (members, mut left) = (input.length()?, max_bytes);
            for _ in 0..members {
                let member = input.string(left)?;
                left -= member.len();
                add(&mut set, &member)?;
            }
        }
    }
    if set.is_empty() { Err(RdbError::Format) } else { Ok(set) }
}

fn read_integers(set: &mut Set, bytes: &[u8]) -> Result<(), RdbError> {
    let mut input = Input(bytes);
    let [width, count] = [u32::from_le_bytes(input.array()?), u32::from_le_bytes(input.array()?)];
    for _ in 0..count {
        let number = match width {
            2 => i16::from_le_bytes(input.array()?).into(),
            4 => i32::from_le_bytes(input.array()?).into(),
            8 => i64::from_le_bytes(input.array()?),
            _ => return Err(RdbError::Format),
        };
        add(set, itoa::Buffer::new().format(number).as_bytes())?;
    }
    if input.0.is_empty() { Ok(()) } else { Err(RdbError::Format) }
}

/// A member must not be repeated.
fn add(set: &mut Set, member: &[u8]) -> Result<(), RdbError> {
    if set.insert(member) { Ok(()) } else { Err(RdbError::Format) }
}

#[cfg(test)]
mod tests {
    use super::super::listpack::ListpackWriter;
    use super::super::{Restored, payload, restore};
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    fn read(payload: &[u8]) -> Result<BTreeSet<Vec<u8>>, RdbError> {
        let Restored::Set(set) = restore(payload, 1 << 20)? else { panic!("another type") };
        let mut members = BTreeSet::new();
        set.visit(|member| assert!(members.insert(member.to_vec())));
        Ok(members)
    }

    fn integers(width: u8, numbers: &[i16]) -> Vec<u8> {
        let mut body =
            vec![SET_INTEGERS, 8 + 2 * numbers.len() as u8, width, 0, 0, 0, numbers.len() as u8, 0, 0, 0];
        numbers.iter().for_each(|number| body.extend_from_slice(&number.to_le_bytes()));
        body
    }

    #[test]
    fn damaged_sets_are_refused() {
        let mut listpack = ListpackWriter::new();
        [b"a", b"a"].iter().for_each(|text| listpack.push(*text));
        let listpack = listpack.finish();
        for (body, what) in [
            (vec![SET], "no number"),
            (vec![SET, 0], "no members"),
            (vec![SET, 2, 1, b'a'], "one member of two"),
            (vec![SET, 2, 1, b'a', 1, b'a'], "a repeated member"),
            (vec![SET, 1, 1, b'a', 0], "more than its members"),
            (
                [&[SET_LISTPACK, listpack.len() as u8][..], &listpack].concat(),
                "a repeated member in a listpack",
            ),
            (integers(2, &[]), "no integers"),
            (integers(3, &[1]), "an unknown width"),
            (integers(4, &[1]), "a part of an integer"),
            (integers(2, &[1, 1]), "a repeated integer"),
        ] {
            assert_eq!(read(&payload(&body)), Err(RdbError::Format), "{what}");
        }
        let announced = [SET, 0x80, 0xff, 0xff, 0xff, 0xff];
        assert_eq!(read(&payload(&announced)), Err(RdbError::Format));
        assert_eq!(read(&payload(&integers(2, &[-1, 300]))), Ok([b"-1".to_vec(), b"300".to_vec()].into()));
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn sets_round_trip(
            members in proptest::collection::btree_set(proptest::collection::vec(any::<u8>(), 0..70), 1..200),
        ) {
            let mut set = Set::new();
            members.iter().for_each(|member| _ = set.insert(member));
            prop_assert_eq!(read(&dump_set(&set)), Ok(members));
        }

        #[test]
        fn any_body_is_restored_or_refused(body in proptest::collection::vec(any::<u8>(), 0..80), kind in 0usize..3) {
            let kind = [SET, SET_INTEGERS, SET_LISTPACK][kind];
            let _ = restore(&payload(&[&[kind][..], &body].concat()), 1_000);
        }
    }
}

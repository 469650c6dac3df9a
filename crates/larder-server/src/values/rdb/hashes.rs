//! Hashes in the snapshot format: small ones as a listpack, large ones as pairs of strings, and in the form of Valkey 9 if
//! fields have deadlines, which older servers do not read.

use super::listpack::ListpackWriter;
use super::packed::PackedReader;
use super::{Input, RdbError, VALKEY_VERSION, WRITTEN_VERSION, sealed, write_length, write_string};
use crate::values::hash::{Field, Hash};

/// Names and values, one after another.
pub(super) const HASH: u8 = 4;
/// A ziplist of names and values, as a string: the form before Redis 7.
pub(super) const HASH_ZIPLIST: u8 = 13;
/// A listpack of names and values, as a string.
pub(super) const HASH_LISTPACK: u8 = 16;
/// Names, values and deadlines, eight bytes each: the form of Valkey 9.
pub(super) const HASH_WITH_DEADLINES: u8 = 22;
const NO_DEADLINE: i64 = -1;

/// Serializes a hash without the fields that have expired at this time.
pub(crate) fn dump_hash(hash: &Hash, now: i64) -> Vec<u8> {
    let is_timed = hash.first_deadline().is_some();
    let mut out = Vec::new();
    if hash.is_packed() && !is_timed {
        let mut listpack = ListpackWriter::new();
        hash.visit(now, |field| {
            listpack.push(field.name);
            listpack.push(field.value);
        });
        let listpack = listpack.finish();
        out.push(HASH_LISTPACK);
        write_length(&mut out, listpack.len());
        out.extend_from_slice(&listpack);
        return sealed(out, WRITTEN_VERSION);
    }
    out.push(if is_timed { HASH_WITH_DEADLINES } else { HASH });
    write_length(&mut out, hash.len(now));
    hash.visit(now, |field| {
        write_string(&mut out, field.name);
        write_string(&mut out, field.value);
        if is_timed {
            out.extend_from_slice(&field.deadline.unwrap_or(NO_DEADLINE).to_le_bytes());
        }
    });
    sealed(out, if is_timed { VALKEY_VERSION } else { WRITTEN_VERSION })
}

/// The hash of this type in a payload, whose texts have at most this many bytes together. It is built while it is read, so
/// that its memory follows what there is and not what is announced.
pub(super) fn read_hash(kind: u8, input: &mut Input<'_>, max_bytes: usize) -> Result<Hash, RdbError> {
    let mut hash = Hash::new();
    if matches!(kind, HASH_LISTPACK | HASH_ZIPLIST) {
        let texts = input.string(max_bytes)?;
        let mut reader = PackedReader::new(kind == HASH_ZIPLIST, &texts)?;
        while let Some(name) = reader.next()? {
            let name = name.to_vec();
            let value = reader.next()?.ok_or(RdbError::Format)?;
            add(&mut hash, Field { name: &name, value, deadline: None })?;
        }
    } else {
        let (fields, mut left) = (input.length()?, max_bytes);
        for _ in 0..fields {
            let name = input.string(left)?;
            let value = input.string(left - name.len())?;
            left -= name.len() + value.len();
            let deadline = match kind {
                HASH_WITH_DEADLINES => Some(i64::from_le_bytes(input.array()?)),
                _ => None,
            };
            let deadline = deadline.filter(|deadline| *deadline != NO_DEADLINE);
            add(&mut hash, Field { name: &name, value: &value, deadline })?;
        }
    }
    if hash.is_empty() { Err(RdbError::Format) } else { Ok(hash) }
}

/// A name must not be repeated.
fn add(hash: &mut Hash, field: Field<'_>) -> Result<(), RdbError> {
    if hash.insert(field) { Ok(()) } else { Err(RdbError::Format) }
}

#[cfg(test)]
mod tests {
    use super::super::{Restored, payload, restore};
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    type Fields = BTreeMap<Vec<u8>, (Vec<u8>, Option<i64>)>;

    fn hash_of(fields: &Fields) -> Hash {
        let mut hash = Hash::new();
        for (name, (value, deadline)) in fields {
            hash.insert(Field { name, value, deadline: *deadline });
        }
        hash
    }

    fn read(payload: &[u8]) -> Result<Fields, RdbError> {
        let Restored::Hash(hash) = restore(payload, 1 << 20)? else { panic!("another type") };
        let mut fields = Fields::new();
        hash.visit(i64::MIN, |field| {
            fields.insert(field.name.to_vec(), (field.value.to_vec(), field.deadline));
        });
        Ok(fields)
    }

    #[test]
    fn expired_fields_are_left_out() {
        let field = |value: &[u8], deadline| (value.to_vec(), deadline);
        let fields: Fields = [
            (b"a".to_vec(), field(b"1", Some(5))),
            (b"b".to_vec(), field(b"2", Some(6))),
            (b"c".to_vec(), field(b"3", None)),
        ]
        .into();
        let mut expected = fields.clone();
        expected.remove(&b"a"[..]);
        assert_eq!(read(&dump_hash(&hash_of(&fields), 5)), Ok(expected));
    }

    #[test]
    fn damaged_hashes_are_refused() {
        let listpack = |texts: &[&[u8]]| {
            let mut writer = ListpackWriter::new();
            texts.iter().for_each(|text| writer.push(text));
            let listpack = writer.finish();
            [&[HASH_LISTPACK, listpack.len() as u8][..], &listpack].concat()
        };
        for (body, what) in [
            (vec![HASH], "no number"),
            (vec![HASH, 0], "no fields"),
            (vec![HASH, 1, 1, b'a'], "no value"),
            (vec![HASH, 2, 1, b'a', 1, b'b'], "one field of two"),
            (vec![HASH, 1, 1, b'a', 1, b'b', 0], "more than its fields"),
            (vec![HASH, 2, 1, b'a', 1, b'b', 1, b'a', 1, b'c'], "a repeated name"),
            (vec![HASH_WITH_DEADLINES, 1, 1, b'a', 1, b'b', 0, 0], "a part of a deadline"),
            (listpack(&[]), "an empty listpack"),
            (listpack(&[b"a"]), "a name without a value"),
            (listpack(&[b"a", b"1", b"a", b"2"]), "a repeated name in a listpack"),
            (vec![HASH_LISTPACK, 1, 0xff], "no listpack"),
        ] {
            assert_eq!(read(&payload(&body)), Err(RdbError::Format), "{what}");
        }
        // It announces four billion fields, and has none.
        let announced = [HASH, 0x80, 0xff, 0xff, 0xff, 0xff];
        assert_eq!(read(&payload(&announced)), Err(RdbError::Format));
        let long =
            [&[HASH, 1, 1, b'a', 0x80][..], &(2u32 << 20).to_be_bytes(), &vec![b'x'; 2 << 20]].concat();
        assert_eq!(read(&payload(&long)), Err(RdbError::TooLong));
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn hashes_round_trip(
            fields in proptest::collection::btree_map(
                proptest::collection::vec(any::<u8>(), 0..70),
                (proptest::collection::vec(any::<u8>(), 0..70), any::<Option<u32>>()),
                1..40,
            ),
            is_timed in any::<bool>(),
        ) {
            let deadline = |number: Option<u32>| number.filter(|_| is_timed).map(i64::from);
            let fields: Fields =
                fields.into_iter().map(|(name, (value, number))| (name, (value, deadline(number)))).collect();
            prop_assert_eq!(read(&dump_hash(&hash_of(&fields), -1)), Ok(fields));
        }

        #[test]
        fn any_body_is_restored_or_refused(body in proptest::collection::vec(any::<u8>(), 0..80), kind in 0usize..4) {
            let kind = [HASH, HASH_LISTPACK, HASH_ZIPLIST, HASH_WITH_DEADLINES][kind];
            let _ = restore(&payload(&[&[kind][..], &body].concat()), 1_000);
        }
    }
}

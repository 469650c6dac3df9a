//! Hashes in the snapshot format: small ones as a listpack, large ones as pairs of strings, and in the form of Valkey 9 if
//! fields have deadlines, which older servers do not read.

use larder_resp::parse_integer;

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
/// The earliest deadline, and then for each field its deadline after that, or 0, its name and its value: the form of Redis 7.4.
pub(super) const HASH_WITH_OFFSETS: u8 = 24;
/// The earliest deadline, and a listpack of names, values and deadlines, 0 for none: that of small ones there.
pub(super) const HASH_LISTPACK_WITH_DEADLINES: u8 = 25;
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
    let earliest = match kind {
        HASH_WITH_OFFSETS | HASH_LISTPACK_WITH_DEADLINES => i64::from_le_bytes(input.array()?),
        _ => 0,
    };
    let hash = match kind {
        HASH_LISTPACK | HASH_ZIPLIST | HASH_LISTPACK_WITH_DEADLINES => read_packed(kind, input, max_bytes)?,
        _ => read_fields(kind, earliest, input, max_bytes)?,
    };
    if hash.is_empty() { Err(RdbError::Format) } else { Ok(hash) }
}

/// The hash in one string.
fn read_packed(kind: u8, input: &mut Input<'_>, max_bytes: usize) -> Result<Hash, RdbError> {
    let mut hash = Hash::new();
    let texts = input.string(max_bytes)?;
    let mut reader = PackedReader::new(kind == HASH_ZIPLIST, &texts)?;
    while let Some(name) = reader.next()? {
        let name = name.to_vec();
        let value = reader.next()?.ok_or(RdbError::Format)?.to_vec();
        let deadline = match kind {
            HASH_LISTPACK_WITH_DEADLINES => {
                let deadline = parse_integer(reader.next()?.ok_or(RdbError::Format)?);
                Some(deadline.ok_or(RdbError::Format)?).filter(|deadline| *deadline != 0)
            }
            _ => None,
        };
        add(&mut hash, Field { name: &name, value: &value, deadline })?;
    }
    Ok(hash)
}

/// The hash in a string for each name and each value. Some deadlines count from the earliest one.
fn read_fields(kind: u8, earliest: i64, input: &mut Input<'_>, max_bytes: usize) -> Result<Hash, RdbError> {
    let mut hash = Hash::new();
    let (fields, mut left) = (input.length()?, max_bytes);
    for _ in 0..fields {
        let offset = if kind == HASH_WITH_OFFSETS { input.length()? } else { 0 };
        let name = input.string(left)?;
        let value = input.string(left - name.len())?;
        left -= name.len() + value.len();
        let deadline = match (kind, offset) {
            (HASH_WITH_DEADLINES, _) => {
                Some(i64::from_le_bytes(input.array()?)).filter(|deadline| *deadline != NO_DEADLINE)
            }
            // One more, since 0 is none.
            (HASH_WITH_OFFSETS, 1..) => {
                let after = i64::try_from(offset - 1).map_err(|_| RdbError::Format)?;
                Some(earliest.checked_add(after).ok_or(RdbError::Format)?)
            }
            _ => None,
        };
        add(&mut hash, Field { name: &name, value: &value, deadline })?;
    }
    Ok(hash)
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

    /// Written by a Redis 8.0.
    #[test]
    fn hashes_of_redis_with_deadlines_are_read() {
        const SMALL: &[u8] = b"\x19\x00\xd8\xc3,\xbb\x03\x00\x0022\x00\x00\x00\t\x00\x81a\x02\x01\x01\xf4\x00\xd8\xc3,\xbb\x03\x00\
            \x00\t\x81c\x02\xf2\x90\xee\xfe\x04\xf4\x88\xeb\xc3,\xbb\x03\x00\x00\t\x81b\x02\x83two\x04\x00\x01\xff\
            \x0c\x00\\\xa9\x08\x9e\xe72\x10\xea";
        const LARGE: &[u8] = b"\x18\x00\xd8\xc3,\xbb\x03\x00\x00\x03S\x89\x01c\xc3\t@d\x01xx\xe0W\x00\x01xx\x00\x01b\x03two\x01\
            \x01a\xc0\x01\x0c\x00\xc9\x88\xaf\xca\x01\xfdx-";
        const CENTURY: i64 = 4_102_444_800_000;
        for (payload, c) in [(SMALL, b"-70000".to_vec()), (LARGE, vec![b'x'; 100])] {
            let expected: Fields = [
                (b"a".to_vec(), (b"1".to_vec(), Some(CENTURY))),
                (b"b".to_vec(), (b"two".to_vec(), None)),
                (b"c".to_vec(), (c, Some(CENTURY + 5_000))),
            ]
            .into();
            assert_eq!(read(payload), Ok(expected));
        }
        let earliest = i64::MAX.to_le_bytes();
        let offset =
            |offset: u8| [&[HASH_WITH_OFFSETS][..], &earliest, &[1, offset, 1, b'a', 1, b'b']].concat();
        assert!(read(&payload(&offset(1))).is_ok());
        assert_eq!(read(&payload(&offset(2))), Err(RdbError::Format), "beyond all times");
        assert_eq!(read(&payload(&[HASH_WITH_OFFSETS, 0, 0])), Err(RdbError::Format), "half a deadline");
        let mut writer = ListpackWriter::new();
        [&b"a"[..], b"1", b"soon"].into_iter().for_each(|text| writer.push(text));
        let listpack = writer.finish();
        let body =
            [&[HASH_LISTPACK_WITH_DEADLINES][..], &[0; 8], &[listpack.len() as u8], &listpack].concat();
        assert_eq!(read(&payload(&body)), Err(RdbError::Format), "a deadline that is no number");
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
        fn any_body_is_restored_or_refused(body in proptest::collection::vec(any::<u8>(), 0..80), kind in 0usize..6) {
            let kinds = [HASH, HASH_LISTPACK, HASH_ZIPLIST, HASH_WITH_DEADLINES, HASH_WITH_OFFSETS, HASH_LISTPACK_WITH_DEADLINES];
            let kind = kinds[kind];
            let _ = restore(&payload(&[&[kind][..], &body].concat()), 1_000);
        }
    }
}

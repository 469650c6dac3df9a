//! Sorted sets in the snapshot format: small ones as a listpack, large ones as names with binary scores.

use larder_resp::{format_float, parse_float};

use super::listpack::ListpackWriter;
use super::packed::PackedReader;
use super::{Input, RdbError, WRITTEN_VERSION, sealed, write_length, write_string};
use crate::values::sorted_set::SortedSet;

/// Names, each with a score of eight bytes.
pub(super) const SORTED_SET: u8 = 5;
/// A ziplist of names and scores as texts, as a string: the form before Redis 7.
pub(super) const SORTED_SET_ZIPLIST: u8 = 12;
/// A listpack of names and scores as texts, as a string.
pub(super) const SORTED_SET_LISTPACK: u8 = 17;
/// The digits of a score that is a text.
const SCORE_DIGITS: usize = 17;
const MAX_INTEGER: f64 = (1u64 << 62) as f64;

/// Serializes a sorted set.
pub(crate) fn dump_sorted_set(set: &SortedSet) -> Vec<u8> {
    let mut out = Vec::new();
    if set.is_packed() {
        let mut listpack = ListpackWriter::new();
        set.visit(0..set.len(), false, |name, score| {
            listpack.push(name);
            listpack.push(score_text(score).as_bytes());
            true
        });
        let listpack = listpack.finish();
        out.push(SORTED_SET_LISTPACK);
        write_length(&mut out, listpack.len());
        out.extend_from_slice(&listpack);
    } else {
        out.push(SORTED_SET);
        write_length(&mut out, set.len());
        set.visit(0..set.len(), true, |name, score| {
            write_string(&mut out, name);
            out.extend_from_slice(&score.to_le_bytes());
            true
        });
    }
    sealed(out, WRITTEN_VERSION)
}

/// A score as Redis writes it: integers of up to 62 bits without an exponent.
fn score_text(score: f64) -> String {
    match score as i64 {
        integer if integer as f64 == score && score.abs() <= MAX_INTEGER => integer.to_string(),
        _ => format_float(score, SCORE_DIGITS),
    }
}

/// The sorted set of this type in a payload, whose names have at most this many bytes together. It is built while it is
/// read, so that its memory follows what there is and not what is announced.
pub(super) fn read_sorted_set(
    kind: u8,
    input: &mut Input<'_>,
    max_bytes: usize,
) -> Result<SortedSet, RdbError> {
    let mut set = SortedSet::new();
    if matches!(kind, SORTED_SET_LISTPACK | SORTED_SET_ZIPLIST) {
        let texts = input.string(max_bytes)?;
        let mut reader = PackedReader::new(kind == SORTED_SET_ZIPLIST, &texts)?;
        while let Some(name) = reader.next()? {
            let name = name.to_vec();
            let score = reader.next()?.and_then(parse_float).ok_or(RdbError::Format)?;
            add(&mut set, &name, score)?;
        }
    } else {
        let (members, mut left) = (input.length()?, max_bytes);
        for _ in 0..members {
            let name = input.string(left)?;
            left -= name.len();
            add(&mut set, &name, f64::from_le_bytes(input.array()?))?;
        }
    }
    if set.is_empty() { Err(RdbError::Format) } else { Ok(set) }
}

/// A name must not be repeated. A negative zero is stored as zero.
fn add(set: &mut SortedSet, name: &[u8], score: f64) -> Result<(), RdbError> {
    let is_new = !score.is_nan() && set.insert(name, score + 0.0).is_none();
    if is_new { Ok(()) } else { Err(RdbError::Format) }
}

#[cfg(test)]
mod tests {
    use super::super::{Restored, payload, restore};
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    type Scores = BTreeMap<Vec<u8>, u64>;

    fn read(payload: &[u8]) -> Result<Scores, RdbError> {
        let Restored::SortedSet(set) = restore(payload, 1 << 20)? else { panic!("another type") };
        let mut scores = Scores::new();
        set.visit(0..set.len(), false, |name, score| {
            scores.insert(name.to_vec(), score.to_bits());
            true
        });
        Ok(scores)
    }

    #[test]
    fn damaged_sorted_sets_are_refused() {
        let listpack = |texts: &[&[u8]]| {
            let mut writer = ListpackWriter::new();
            texts.iter().for_each(|text| writer.push(text));
            let listpack = writer.finish();
            [&[SORTED_SET_LISTPACK, listpack.len() as u8][..], &listpack].concat()
        };
        let member = |name: u8, score: f64| [&[1, name][..], &score.to_le_bytes()].concat();
        for (body, what) in [
            (vec![SORTED_SET], "no number"),
            (vec![SORTED_SET, 0], "no members"),
            (vec![SORTED_SET, 1, 1, b'a', 0, 0], "a part of a score"),
            ([&[SORTED_SET, 2][..], &member(b'a', 1.0), &member(b'a', 2.0)].concat(), "a repeated name"),
            ([&[SORTED_SET, 1][..], &member(b'a', f64::NAN)].concat(), "no number as a score"),
            (listpack(&[]), "an empty listpack"),
            (listpack(&[b"a"]), "a name without a score"),
            (listpack(&[b"a", b"x"]), "a score that is no number"),
            (listpack(&[b"a", b"nan"]), "a score that is not a number"),
            (listpack(&[b"a", b"1", b"a", b"2"]), "a repeated name in a listpack"),
        ] {
            assert_eq!(read(&payload(&body)), Err(RdbError::Format), "{what}");
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn sorted_sets_round_trip(
            scores in proptest::collection::btree_map(
                proptest::collection::vec(any::<u8>(), 0..70),
                prop_oneof![any::<f64>(), (-9_000i32..9_000).prop_map(f64::from)],
                1..160,
            ),
        ) {
            let mut set = SortedSet::new();
            let scores = scores.into_iter().map(|(name, score)| (name, score + 0.0));
            let scores: Scores = scores.map(|(name, score)| (name, score.to_bits())).collect();
            for (name, score) in &scores {
                set.insert(name, f64::from_bits(*score));
            }
            prop_assert_eq!(read(&dump_sorted_set(&set)), Ok(scores));
        }

        #[test]
        fn any_body_is_restored_or_refused(body in proptest::collection::vec(any::<u8>(), 0..80), kind in 0usize..3) {
            let kind = [SORTED_SET, SORTED_SET_LISTPACK, SORTED_SET_ZIPLIST][kind];
            let _ = restore(&payload(&[&[kind][..], &body].concat()), 1_000);
        }
    }
}

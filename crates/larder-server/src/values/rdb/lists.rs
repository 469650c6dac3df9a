//! Lists in the snapshot format: a sequence of listpacks, in which a text that is very long may stand alone.

use super::listpack::ListpackWriter;
use super::packed::PackedReader;
use super::{Input, RdbError, WRITTEN_VERSION, sealed, write_length};
use crate::values::list::{End, List};

/// Elements one after another: the form of servers before 2014.
pub(super) const LIST: u8 = 1;
/// A sequence of ziplists, as strings: the form before Redis 7.
pub(super) const LIST_ZIPLISTS: u8 = 14;
/// A sequence of nodes.
pub(super) const LIST_NODES: u8 = 18;
/// A node that is one element, and one that is a listpack.
const PLAIN: usize = 1;
const PACKED: usize = 2;
/// The bytes from which on the next element begins another node.
const NODE_BYTES: usize = 8 << 10;

/// Serializes a list.
pub(crate) fn dump_list(list: &List) -> Vec<u8> {
    let (mut nodes, mut count) = (Vec::new(), 0);
    let mut node = ListpackWriter::new();
    let mut finish = |node: &mut ListpackWriter| {
        let listpack = std::mem::replace(node, ListpackWriter::new()).finish();
        write_length(&mut nodes, PACKED);
        write_length(&mut nodes, listpack.len());
        nodes.extend_from_slice(&listpack);
        count += 1;
    };
    list.visit(0..list.len(), false, |element| {
        if !node.is_empty() && node.len() + element.len() > NODE_BYTES {
            finish(&mut node);
        }
        node.push(element);
        true
    });
    finish(&mut node);
    let mut out = vec![LIST_NODES];
    write_length(&mut out, count);
    out.extend_from_slice(&nodes);
    sealed(out, WRITTEN_VERSION)
}

/// The list of this type in a payload, whose elements have at most this many bytes together. It is built while it is read, so
/// that its memory follows what there is and not what is announced.
pub(super) fn read_list(kind: u8, input: &mut Input<'_>, max_bytes: usize) -> Result<List, RdbError> {
    let (mut list, mut left) = (List::new(), max_bytes);
    for _ in 0..input.length()? {
        let container = match kind {
            LIST => PLAIN,
            LIST_ZIPLISTS => PACKED,
            _ => input.length()?,
        };
        let text = input.string(left)?;
        left -= text.len();
        match container {
            PLAIN => list.push(End::Right, &text),
            PACKED => {
                let mut reader = PackedReader::new(kind == LIST_ZIPLISTS, &text)?;
                let before = list.len();
                while let Some(element) = reader.next()? {
                    list.push(End::Right, element);
                }
                if list.len() == before {
                    return Err(RdbError::Format);
                }
            }
            _ => return Err(RdbError::Format),
        }
    }
    if list.is_empty() { Err(RdbError::Format) } else { Ok(list) }
}

#[cfg(test)]
mod tests {
    use super::super::{Restored, payload, restore};
    use super::*;
    use proptest::prelude::*;

    fn read(payload: &[u8]) -> Result<Vec<Vec<u8>>, RdbError> {
        let Restored::List(list) = restore(payload, 1 << 20)? else { panic!("another type") };
        let mut elements = Vec::new();
        list.visit(0..list.len(), false, |element| {
            elements.push(element.to_vec());
            true
        });
        Ok(elements)
    }

    #[test]
    fn damaged_lists_are_refused() {
        for (body, what) in [
            (vec![LIST], "no number"),
            (vec![LIST, 0], "no elements"),
            (vec![LIST, 2, 1, b'a'], "one element of two"),
            (vec![LIST, 1, 1, b'a', 0], "more than its elements"),
            (vec![LIST_NODES, 0], "no nodes"),
            (vec![LIST_NODES, 1, 3, 1, b'a'], "an unknown container"),
            (vec![LIST_NODES, 1, 2, 7, 7, 0, 0, 0, 0, 0, 0xff], "an empty listpack"),
            (vec![LIST_NODES, 1, 2, 1, 0xff], "no listpack"),
        ] {
            assert_eq!(read(&payload(&body)), Err(RdbError::Format), "{what}");
        }
        let announced = [LIST, 0x80, 0xff, 0xff, 0xff, 0xff];
        assert_eq!(read(&payload(&announced)), Err(RdbError::Format));
        assert_eq!(read(&payload(&[LIST_NODES, 1, 1, 1, b'a'])), Ok(vec![b"a".to_vec()]));
        assert_eq!(read(&payload(&[LIST, 1, 1, b'a'])), Ok(vec![b"a".to_vec()]));
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn lists_round_trip(
            elements in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..3_000), 1..40),
        ) {
            let mut list = List::new();
            elements.iter().for_each(|element| list.push(End::Right, element));
            prop_assert_eq!(read(&dump_list(&list)), Ok(elements));
        }

        #[test]
        fn any_body_is_restored_or_refused(body in proptest::collection::vec(any::<u8>(), 0..80), kind in 0usize..3) {
            let kind = [LIST, LIST_ZIPLISTS, LIST_NODES][kind];
            let _ = restore(&payload(&[&[kind][..], &body].concat()), 1_000);
        }
    }
}

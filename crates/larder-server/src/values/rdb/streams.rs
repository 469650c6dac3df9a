//! Streams in the snapshot format: nodes of entries, each a listpack, then what the stream knows of entries that it may not have any
//! more. Consumer groups would follow.
//!
//! ```text
//! node: id of its first entry, 16 bytes as a string │ listpack, as a string
//! listpack: entries │ removed ones │ number of names │ names │ 0 │ all of these entries
//! entry: flags │ ms and number, since the first entry │ number of fields, names and values by turns │ how many texts these are
//!        with the names of the listpack: values alone
//! ```

use super::listpack::{ListpackReader, ListpackWriter};
use super::{Input, RdbError, WRITTEN_VERSION, sealed, write_length};
use crate::values::stream::{Entry, Head, Id, Stream};
use larder_resp::parse_integer;

/// The form of Redis before 7.0: less is known of removed entries.
pub(super) const STREAM_BEFORE_7: u8 = 15;
pub(super) const STREAM: u8 = 19;
/// The form of Redis since 7.2, which differs in groups.
pub(super) const STREAM_SINCE_7_2: u8 = 21;
const REMOVED: i64 = 1;
const SAME_NAMES: i64 = 2;
/// Texts of an entry beside its fields: flags and id.
const ENTRY_TEXTS: usize = 3;

/// Serializes a stream.
pub(crate) fn dump_stream(stream: &Stream) -> Vec<u8> {
    let mut out = vec![STREAM];
    write_length(&mut out, stream.chunks());
    for entries in stream.entries_by_chunk() {
        write_node(&mut out, &entries);
    }
    let Head { last_id, max_removed_id, added } = stream.head();
    write_length(&mut out, stream.len());
    for id in [last_id, stream.first_entry_id().unwrap_or(Id::MIN), max_removed_id] {
        write_length(&mut out, id.ms as usize);
        write_length(&mut out, id.seq as usize);
    }
    write_length(&mut out, added as usize);
    // No groups.
    write_length(&mut out, 0);
    sealed(out, WRITTEN_VERSION)
}

fn write_node(out: &mut Vec<u8>, entries: &[Entry<'_>]) {
    let Some(first) = entries.first() else { return };
    write_length(out, 2 * size_of::<u64>());
    out.extend_from_slice(&first.id.ms.to_be_bytes());
    out.extend_from_slice(&first.id.seq.to_be_bytes());
    let mut listpack = ListpackWriter::new();
    [entries.len(), 0, first.fields].into_iter().for_each(|count| push(&mut listpack, count as i64));
    first.visit(|name, _| listpack.push(name));
    push(&mut listpack, 0);
    for entry in entries {
        let has_same_names = entry.has_names_of(first);
        let since_first = [entry.id.ms.wrapping_sub(first.id.ms), entry.id.seq.wrapping_sub(first.id.seq)];
        push(&mut listpack, if has_same_names { SAME_NAMES } else { 0 });
        since_first.into_iter().for_each(|number| push(&mut listpack, number as i64));
        if !has_same_names {
            push(&mut listpack, entry.fields as i64);
        }
        entry.visit(|name, value| {
            if !has_same_names {
                listpack.push(name);
            }
            listpack.push(value);
        });
        push(&mut listpack, texts_of(entry.fields, has_same_names) as i64);
    }
    let listpack = listpack.finish();
    write_length(out, listpack.len());
    out.extend_from_slice(&listpack);
}

/// How many texts an entry is.
fn texts_of(fields: usize, has_same_names: bool) -> usize {
    ENTRY_TEXTS + if has_same_names { fields } else { 1 + 2 * fields }
}

fn push(listpack: &mut ListpackWriter, number: i64) {
    listpack.push(itoa::Buffer::new().format(number).as_bytes());
}

/// The stream of this type in a payload, which needs at most this many bytes. It is built while it is read, so that its memory
/// follows what there is and not what is announced.
pub(super) fn read_stream(kind: u8, input: &mut Input<'_>, max_bytes: usize) -> Result<Stream, RdbError> {
    let (mut stream, mut last) = (Stream::new(), Id::MIN);
    for _ in 0..input.length()? {
        let first = input.string(max_bytes)?;
        let (ms, seq) = first.split_first_chunk().ok_or(RdbError::Format)?;
        let seq = *seq.first_chunk().filter(|whole| whole.len() == seq.len()).ok_or(RdbError::Format)?;
        let first = Id { ms: u64::from_be_bytes(*ms), seq: u64::from_be_bytes(seq) };
        let listpack = input.string(max_bytes)?;
        last = read_node(&mut stream, first, last, &listpack, max_bytes)?;
    }
    let len = input.length()?;
    let last_id = read_id(input)?;
    let head = match kind {
        STREAM_BEFORE_7 => Head { last_id, max_removed_id: Id::MIN, added: len as u64 },
        _ => {
            let _first_id = read_id(input)?;
            Head { last_id, max_removed_id: read_id(input)?, added: input.length()? as u64 }
        }
    };
    if input.length()? > 0 {
        return Err(RdbError::Groups);
    }
    if len != stream.len() || last_id < last {
        return Err(RdbError::Format);
    }
    stream.set_head(head);
    Ok(stream)
}

fn read_id(input: &mut Input<'_>) -> Result<Id, RdbError> {
    Ok(Id { ms: input.length()? as u64, seq: input.length()? as u64 })
}

/// Adds the entries of a node, whose ids must be higher than the last one. Returns that of its own last one.
fn read_node(
    stream: &mut Stream,
    first: Id,
    mut last: Id,
    listpack: &[u8],
    max_bytes: usize,
) -> Result<Id, RdbError> {
    let mut reader = ListpackReader::new(listpack)?;
    let [entries, removed] = [count(&mut reader)?, count(&mut reader)?];
    let names = (0..count(&mut reader)?).map(|_| text(&mut reader)).collect::<Result<Vec<_>, _>>()?;
    if entries == 0 || names.is_empty() || integer(&mut reader)? != 0 {
        return Err(RdbError::Format);
    }
    let before = stream.len();
    for _ in 0..entries.saturating_add(removed) {
        let flags = integer(&mut reader)?;
        let mut since_first = || integer(&mut reader).map(|number| number as u64);
        let id =
            Id { ms: first.ms.wrapping_add(since_first()?), seq: first.seq.wrapping_add(since_first()?) };
        if id <= last || flags & !(REMOVED | SAME_NAMES) != 0 {
            return Err(RdbError::Format);
        }
        last = id;
        let texts = read_fields(&mut reader, (flags & SAME_NAMES != 0).then_some(&names[..]))?;
        if flags & REMOVED == 0 {
            stream.append(id, &texts);
        }
        if stream.bytes_allocated() > max_bytes.saturating_add(size_of::<Stream>()) {
            return Err(RdbError::TooLong);
        }
    }
    let is_whole = reader.next()?.is_none() && stream.len() - before == entries;
    if is_whole { Ok(last) } else { Err(RdbError::Format) }
}

/// The names and values of an entry by turns.
fn read_fields(reader: &mut ListpackReader<'_>, names: Option<&[Vec<u8>]>) -> Result<Vec<Vec<u8>>, RdbError> {
    let fields = names.map_or_else(|| count(reader), |names| Ok(names.len()))?;
    let mut texts = Vec::new();
    for index in 0..fields {
        texts.push(names.map_or_else(|| text(reader), |names| Ok(names[index].clone()))?);
        texts.push(text(reader)?);
    }
    let is_whole = fields > 0 && count(reader)? == texts_of(fields, names.is_some());
    if is_whole { Ok(texts) } else { Err(RdbError::Format) }
}

fn text(reader: &mut ListpackReader<'_>) -> Result<Vec<u8>, RdbError> {
    Ok(reader.next()?.ok_or(RdbError::Format)?.to_vec())
}

fn integer(reader: &mut ListpackReader<'_>) -> Result<i64, RdbError> {
    reader.next()?.and_then(parse_integer).ok_or(RdbError::Format)
}

fn count(reader: &mut ListpackReader<'_>) -> Result<usize, RdbError> {
    usize::try_from(integer(reader)?).map_err(|_| RdbError::Format)
}

#[cfg(test)]
mod tests {
    use super::super::{Restored, payload, restore};
    use super::*;
    use proptest::prelude::*;

    type Entries = Vec<(Id, Vec<Vec<u8>>)>;

    fn read(payload: &[u8]) -> Result<(Entries, Head), RdbError> {
        let Restored::Stream(stream) = restore(payload, 1 << 20)? else { panic!("another type") };
        let mut entries = Entries::new();
        stream.visit(Id::MIN..=Id::MAX, false, |entry| {
            let mut texts = Vec::new();
            entry.visit(|name, value| texts.extend([name.to_vec(), value.to_vec()]));
            entries.push((entry.id, texts));
            true
        });
        Ok((entries, stream.head()))
    }

    fn id(ms: u64, seq: u64) -> Id {
        Id { ms, seq }
    }

    /// A payload of one node with these texts, whose first id is 5-5, and then these numbers.
    fn node(texts: &[&str], numbers: &[u8]) -> Vec<u8> {
        let mut listpack = ListpackWriter::new();
        texts.iter().for_each(|text| listpack.push(text.as_bytes()));
        let listpack = listpack.finish();
        let first = [5u64.to_be_bytes(), 5u64.to_be_bytes()].concat();
        payload(&[&[STREAM, 1, 16][..], &first, &[listpack.len() as u8], &listpack, numbers].concat())
    }

    #[test]
    fn removed_entries_are_left_out() {
        let texts = [
            "2", "1", "1", "a", "0", "2", "0", "0", "1", "4", "3", "0", "1", "x", "4", "0", "3", "-5", "1",
            "b", "2", "6",
        ];
        let read = read(&node(&texts, &[2, 9, 0, 5, 5, 5, 6, 7, 0]));
        let entry =
            |id, name: &str, value: &str| (id, vec![name.as_bytes().to_vec(), value.as_bytes().to_vec()]);
        let head = Head { last_id: id(9, 0), max_removed_id: id(5, 6), added: 7 };
        assert_eq!(read, Ok((vec![entry(id(5, 5), "a", "1"), entry(id(8, 0), "b", "2")], head)));
    }

    #[test]
    fn damaged_streams_are_refused() {
        let (good, end) = (["1", "0", "1", "a", "0", "2", "0", "0", "1", "4"], [1, 5, 5, 5, 5, 0, 0, 1, 0]);
        assert!(read(&node(&good, &end)).is_ok());
        for (at, text, what) in [
            (0, "2", "more entries than there are"),
            (0, "0", "no entries"),
            (0, "-1", "a negative number of entries"),
            (0, "9223372036854775807", "a number of entries that would take forever"),
            (1, "9223372036854775807", "as many removed ones"),
            (2, "0", "no names"),
            (2, "9223372036854775807", "too many names"),
            (4, "1", "no end of the names"),
            (5, "4", "an unknown flag"),
            (5, "1", "an entry that is removed, and counted"),
            (6, "x", "no number"),
            (9, "5", "a wrong number of texts"),
        ] {
            let mut texts = good;
            texts[at] = text;
            assert_eq!(read(&node(&texts, &end)).map(drop), Err(RdbError::Format), "{what}");
        }
        for (at, number, expected) in [
            (0, 2, Err(RdbError::Format)),
            (1, 4, Err(RdbError::Format)),
            (2, 4, Err(RdbError::Format)),
            (8, 1, Err(RdbError::Groups)),
            (1, 6, Ok(())),
            (7, 9, Ok(())),
        ] {
            let mut numbers = end;
            numbers[at] = number;
            assert_eq!(read(&node(&good, &numbers)).map(drop), expected, "number {at}");
        }
        for (body, what) in [
            (vec![STREAM], "no number"),
            (vec![STREAM, 1, 1, b'a', 0], "an id that is too short"),
            (vec![STREAM, 0, 0, 0, 0, 0, 0, 0, 0, 0], "no groups"),
            (vec![STREAM, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0], "a length without entries"),
            (vec![STREAM, 0x80, 0xff, 0xff, 0xff, 0xff], "four billion nodes"),
        ] {
            assert_eq!(read(&payload(&body)).map(drop), Err(RdbError::Format), "{what}");
        }
    }

    #[test]
    fn older_and_newer_forms_are_read() {
        let empty = |kind: u8, numbers: &[u8]| read(&payload(&[&[kind, 0, 0, 7, 8][..], numbers].concat()));
        let head = |added| Head {
            last_id: id(7, 8),
            max_removed_id: if added > 0 { id(7, 7) } else { Id::MIN },
            added,
        };
        assert_eq!(empty(STREAM_BEFORE_7, &[0]), Ok((vec![], head(0))));
        assert_eq!(empty(STREAM_SINCE_7_2, &[0, 0, 7, 7, 3, 0]), Ok((vec![], head(3))));
    }

    /// Names are stored again for each entry that begins a chunk.
    #[test]
    fn names_that_many_entries_share_are_bounded() {
        let name = "n".repeat(5_000);
        let mut listpack = ListpackWriter::new();
        ["1000", "0", "1", &name, "0"].iter().for_each(|text| listpack.push(text.as_bytes()));
        for number in 0..1_000 {
            ["2", "0", &number.to_string(), "1", "4"].iter().for_each(|text| listpack.push(text.as_bytes()));
        }
        let listpack = listpack.finish();
        let mut body = [&[STREAM, 1, 16][..], &[1; 16]].concat();
        write_length(&mut body, listpack.len());
        body.extend_from_slice(&listpack);
        assert_eq!(read(&payload(&body)).map(drop), Err(RdbError::TooLong));
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn streams_round_trip(
            entries in proptest::collection::vec(
                (0..3u64, 0..3u64, 0..4usize, proptest::collection::vec(any::<u8>(), 0..90), any::<i32>()),
                0..300,
            ),
            removed in proptest::collection::vec(any::<prop::sample::Index>(), 0..9),
        ) {
            let (mut stream, mut expected) = (Stream::new(), Entries::new());
            for (ms, seq, kind, text, number) in entries {
                let last = stream.head().last_id;
                let id = if ms == 0 { id(last.ms, last.seq + seq + 1) } else { id(last.ms + ms, seq) };
                let number = number.to_string().into_bytes();
                let texts = match kind {
                    0 => vec![text, number],
                    kind => [b"name".to_vec(), number, text.clone(), text][..2 * kind.min(2)].to_vec(),
                };
                stream.append(id, &texts);
                expected.push((id, texts));
            }
            for index in removed {
                if !expected.is_empty() {
                    let (id, _) = expected.remove(index.index(expected.len()));
                    stream.remove(id);
                }
            }
            prop_assert_eq!(read(&dump_stream(&stream)), Ok((expected, stream.head())));
        }

        #[test]
        fn any_body_is_restored_or_refused(
            body in proptest::collection::vec(any::<u8>(), 0..80),
            texts in proptest::collection::vec(-3i64..9, 0..30),
            kind in 0usize..3,
        ) {
            let kind = [STREAM_BEFORE_7, STREAM, STREAM_SINCE_7_2][kind];
            let _ = restore(&payload(&[&[kind][..], &body].concat()), 1_000);
            let texts: Vec<String> = texts.iter().map(i64::to_string).collect();
            let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
            let _ = restore(&node(&texts, &[1, 9, 9, 0, 0, 0, 0, 0, 0]), 1_000);
        }
    }
}

//! Parses a JSON array of links, such as an export, into batches of valid links and invalid items with their lines.

use super::InvalidRow;
use super::rows::Batch;
use crate::web::input::exported_link;
use serde::de::{DeserializeSeed, Deserializer, Error, SeqAccess, Visitor};
use serde_json::Value;
use std::cell::Cell;
use std::fmt;
use std::io::{BufReader, Read};

/// Reads one item after the other and passes each full batch to `emit`, until that returns false.
pub(super) fn read(source: impl Read, emit: impl FnMut(Batch) -> bool) -> Result<(), serde_json::Error> {
    let position = Position::default();
    let counted = Counted { source: BufReader::new(source), position: &position };
    let mut reader = serde_json::Deserializer::from_reader(counted);
    let mut is_stopped = false;
    let items = Items { position: &position, emit, is_stopped: &mut is_stopped };
    match items.deserialize(&mut reader) {
        Err(_) if is_stopped => Ok(()),
        read => read.and_then(|()| reader.end()),
    }
}

/// Where the parser is.
#[derive(Default)]
struct Position {
    bytes: Cell<u64>,
    line_ends: Cell<u64>,
}

/// Counts what the parser reads. It reads byte by byte, so its position is exact.
struct Counted<'a, R> {
    source: BufReader<R>,
    position: &'a Position,
}

impl<R: Read> Read for Counted<'_, R> {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let count = self.source.read(buffer)?;
        let line_ends = buffer[..count].iter().filter(|&&byte| byte == b'\n').count();
        self.position.bytes.set(self.position.bytes.get() + count as u64);
        self.position.line_ends.set(self.position.line_ends.get() + line_ends as u64);
        Ok(count)
    }
}

struct Items<'a, E> {
    position: &'a Position,
    emit: E,
    is_stopped: &'a mut bool,
}

impl<'de, E: FnMut(Batch) -> bool> DeserializeSeed<'de> for Items<'_, E> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_seq(self)
    }
}

impl<'de, E: FnMut(Batch) -> bool> Visitor<'de> for Items<'_, E> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an array of links")
    }

    fn visit_seq<A: SeqAccess<'de>>(mut self, mut array: A) -> Result<(), A::Error> {
        let mut batch = Batch::default();
        let end = loop {
            let item = match array.next_element::<Value>() {
                Ok(Some(item)) => item,
                Ok(None) => break Ok(()),
                Err(error) => break Err(error),
            };
            // The line on which the item ends: an export writes each on a line of its own.
            let line = self.position.line_ends.get() + 1;
            match exported_link(&item) {
                Ok(link) => batch.push(line, link),
                Err(error) => batch.invalid.push(InvalidRow { line, reason: error.to_text() }),
            }
            batch.bytes_read = self.position.bytes.get();
            if batch.is_full() && !(self.emit)(std::mem::take(&mut batch)) {
                *self.is_stopped = true;
                return Err(A::Error::custom("stopped"));
            }
        };
        // Before a fault too: these links are as good as those of the batches before them.
        batch.bytes_read = self.position.bytes.get();
        if batch.rows() > 0 {
            (self.emit)(batch);
        }
        end
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn batches(text: &str) -> Result<Vec<Batch>, serde_json::Error> {
        let mut batches = Vec::new();
        read(text.as_bytes(), |batch| {
            batches.push(batch);
            true
        })?;
        Ok(batches)
    }

    #[test]
    fn invalid_item_is_reported_by_line_and_others_are_read() {
        let text = r#"[
{"url": "https://a.example/", "slug": "a", "visits": 7, "created_at": "2026-01-01T00:00:00Z"},
{"url": "ftp://b.example/"},
{"url": "https://c.example/", "colour": "red"}
]"#;
        let batches = batches(text).unwrap();
        let [batch] = &batches[..] else { panic!("{} batches", batches.len()) };
        assert_eq!(
            (batch.links.len(), batch.links[0].slug.as_deref(), &batch.lines[..]),
            (1, Some("a"), &[2][..])
        );
        let lines: Vec<_> = batch.invalid.iter().map(|row| row.line).collect();
        assert_eq!(lines, [3, 4]);
        assert!(batch.invalid[1].reason.starts_with("colour is unknown"), "{}", batch.invalid[1].reason);
    }

    #[test]
    fn links_before_a_fault_are_emitted() {
        let item = r#"{"url": "https://a.example/"}"#;
        for end in ["", ",", ", {]", "] x"] {
            let mut rows = 0;
            let text = format!("[{}{end}", vec![item; 1_200].join(","));
            let error = read(text.as_bytes(), |batch| {
                rows += batch.rows();
                true
            });
            assert!(error.is_err() && rows == 1_200, "{end:?}: {rows} rows");
        }
    }

    #[test]
    fn batch_is_bounded_and_text_that_is_no_array_is_an_error() {
        let item = r#"{"url": "https://a.example/"}"#;
        let many = format!("[{}]", vec![item; 2_500].join(","));
        let sizes: Vec<_> = batches(&many).unwrap().iter().map(Batch::rows).collect();
        assert_eq!(sizes, [1_000, 1_000, 500]);
        assert!(batches("{}").is_err() && batches("[1,").is_err() && batches("[] x").is_err());
        assert!(batches("[]").unwrap().is_empty());
        let mut seen = 0;
        read(many.as_bytes(), |_| {
            seen += 1;
            false
        })
        .unwrap();
        assert_eq!(seen, 1);
    }
}

//! Binary traces, whose records have a fixed length.

use super::Request;
use anyhow::{Context, Result, anyhow};
use std::io::BufRead;

/// The length of the longest record of any format.
const MAX_RECORD_BYTES: usize = 24;

/// The length of a record, and its parser.
pub(super) struct Layout {
    record_bytes: usize,
    parse: fn(&[u8]) -> Request,
}

/// The requests of a binary file.
pub(super) struct Records<R> {
    source: R,
    name: String,
    layout: Layout,
    offset: u64,
    ended: bool,
}

impl<R: BufRead> Records<R> {
    pub(super) fn new(source: R, name: String, layout: Layout) -> Self {
        Records { source, name, layout, offset: 0, ended: false }
    }

    fn read_record(&mut self) -> Result<Option<Request>> {
        let mut record = [0; MAX_RECORD_BYTES];
        let record = &mut record[..self.layout.record_bytes];
        let mut filled = 0;
        while filled < record.len() {
            let read = self.source.fill_buf();
            let bytes = read.with_context(|| format!("{}, byte {}", self.name, self.offset))?;
            if bytes.is_empty() && filled == 0 {
                return Ok(None);
            }
            if bytes.is_empty() {
                let (name, offset, expected) = (&self.name, self.offset, record.len());
                return Err(anyhow!(
                    "{name}, byte {offset}: ends after {filled} of the {expected} bytes of a record"
                ));
            }
            let length = bytes.len().min(record.len() - filled);
            record[filled..filled + length].copy_from_slice(&bytes[..length]);
            self.source.consume(length);
            filled += length;
        }
        self.offset += record.len() as u64;
        Ok(Some((self.layout.parse)(record)))
    }
}

impl<R: BufRead> Iterator for Records<R> {
    type Item = Result<Request>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.ended {
            return None;
        }
        let request = self.read_record().transpose();
        self.ended = !matches!(request, Some(Ok(_)));
        request
    }
}

pub(super) fn u64be() -> Layout {
    Layout { record_bytes: 8, parse: |record| Request::of(u64::from_be_bytes(field(record, 0))) }
}

pub(super) fn i32be() -> Layout {
    Layout { record_bytes: 4, parse: |record| Request::of(u32::from_be_bytes(field(record, 0)).into()) }
}

/// The field `next access` is ignored: the optimum is computed from the requests, for all formats alike.
pub(super) fn oracle() -> Layout {
    Layout {
        record_bytes: 24,
        parse: |record| Request {
            key: u64::from_le_bytes(field(record, 4)),
            bytes: u32::from_le_bytes(field(record, 12)),
            ttl: None,
        },
    }
}

fn field<const N: usize>(record: &[u8], offset: usize) -> [u8; N] {
    record[offset..offset + N].try_into().expect("the layout has the field")
}

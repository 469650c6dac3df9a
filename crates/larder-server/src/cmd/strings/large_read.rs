//! `BITCOUNT`, `BITPOS` and `DUMP` of large values: they are read in slices, and other connections of the thread get their turns
//! in between. The value stays what it was at the start: whoever changes it meanwhile makes another one.

use std::ops::Range;

use larder_engine::raw::SharedBytes;

use super::bit_range::BitRange;
use crate::cmd::slices::{self, SlicedWork};
use crate::cmd::{CommandError, Context, Outcome};
use crate::db::Database;
use crate::values::large::{SLICE_BYTES, release};
use crate::values::rdb::LongDump;

/// A large value that is being read.
pub(crate) struct LargeRead {
    name: Box<[u8]>,
    value: SharedBytes,
    /// The bytes that are left to read.
    left: Range<usize>,
    work: Work,
}

/// What is done with the bytes.
pub(crate) enum Work {
    Count {
        range: BitRange,
        ones: u64,
    },
    /// Find the first bit of a value; without one the reply is `after`.
    Find {
        range: BitRange,
        bit: bool,
        after: i64,
    },
    Dump(LongDump),
    /// The reply was sent.
    Done,
}

impl LargeRead {
    /// Begins to read these bytes of the value of a key.
    pub(crate) fn begin(
        cx: &mut Context<'_>,
        name: &[u8],
        value: SharedBytes,
        bytes: Range<usize>,
        work: Work,
    ) -> Outcome {
        slices::begin(cx, LargeRead { name: name.into(), value, left: bytes, work })
    }
}

impl SlicedWork for LargeRead {
    fn run_slice(&mut self, cx: &mut Context<'_>) -> Result<bool, CommandError> {
        let end = self.left.end.min(self.left.start + SLICE_BYTES);
        let slice = std::mem::replace(&mut self.left.start, end)..end;
        let found = match &mut self.work {
            Work::Count { range, ones } => {
                *ones += range.count_ones(&self.value, slice);
                None
            }
            Work::Find { range, bit, .. } => range.find(&self.value, *bit, slice),
            Work::Dump(dump) => {
                dump.push(&self.value[slice]);
                None
            }
            Work::Done => None,
        };
        if found.is_none() && !self.left.is_empty() {
            return Ok(false);
        }
        match std::mem::replace(&mut self.work, Work::Done) {
            Work::Count { ones, .. } => cx.integer(ones as i64)?,
            Work::Find { after, .. } => cx.integer(found.map_or(after, |position| position as i64))?,
            Work::Dump(dump) => {
                let payload = dump.finish();
                let all = 0..payload.len();
                cx.reply_part(payload, all);
            }
            Work::Done => {}
        }
        Ok(true)
    }

    fn bytes(&self) -> usize {
        match &self.work {
            Work::Dump(dump) => dump.len(),
            _ => 0,
        }
    }

    fn removed_bytes(&mut self, db: Database<'_>) -> usize {
        if db.has_value(&self.name, &self.value) { 0 } else { self.value.len() }
    }

    fn is_about_start(&self) -> bool {
        true
    }
}

impl Drop for LargeRead {
    fn drop(&mut self) {
        release(std::mem::take(&mut self.value));
    }
}

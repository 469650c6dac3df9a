//! `APPEND` and `SETRANGE`: change a part of a value.

use std::sync::Arc;

use larder_resp::Args;

use super::options::integer;
use super::{CommandError, Context, Outcome};
use crate::db::{EntryOp, Expiry, Record, StringEntry};

pub(super) fn append(cx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    let limits = Limits::of(cx);
    let (name, tail) = (&args[1], &args[2]);
    let db = cx.db();
    // A long value is copied while its entry is not locked, and stored if it is still there.
    let mut prepared: Option<(Arc<[u8]>, Record)> = None;
    loop {
        let appended = db.update_string(name, |entry| {
            let head = entry.as_ref().map_or(&[][..], StringEntry::value);
            let length = head.len() + tail.len();
            if let Err(error) = limits.check(length) {
                return (EntryOp::Keep, Err(error));
            }
            let long = entry.as_ref().and_then(StringEntry::share);
            match (long, prepared.take()) {
                (Some(long), None) => (EntryOp::Keep, Ok(Appended::Not(long))),
                (Some(long), Some((head, record))) if Arc::ptr_eq(&long, &head) => {
                    (EntryOp::Put(record, Expiry::Keep), Ok(Appended::Length(length)))
                }
                _ => {
                    (EntryOp::Put(db.record(name, &[head, tail]), Expiry::Keep), Ok(Appended::Length(length)))
                }
            }
        })??;
        match appended {
            Appended::Length(length) => return cx.integer(length as i64),
            Appended::Not(head) => {
                let record = db.record(name, &[&head, tail]);
                prepared = Some((head, record));
            }
        }
    }
}

/// What an attempt to append has done.
enum Appended {
    /// The value has this length now.
    Length(usize),
    /// Nothing: this long value must be copied first.
    Not(Arc<[u8]>),
}

pub(super) fn setrange(cx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    let limits = Limits::of(cx);
    let patch = &args[3];
    let offset =
        usize::try_from(integer(&args[2])?).map_err(|_| CommandError::Fixed("ERR offset is out of range"))?;
    let db = cx.db();
    let length = db.update_string(&args[1], |mut entry| {
        let before = entry.as_ref().map_or(&[][..], StringEntry::value);
        if patch.is_empty() {
            return (EntryOp::Keep, Ok(before.len()));
        }
        let end = offset.saturating_add(patch.len());
        if let Err(error) = limits.check(end) {
            return (EntryOp::Keep, Err(error));
        }
        if end > before.len() {
            let head = &before[..offset.min(before.len())];
            let padding = vec![0; offset - head.len()];
            return (EntryOp::Put(db.record(&args[1], &[head, &padding, patch]), Expiry::Keep), Ok(end));
        }
        let value = entry.as_mut().map_or(&mut [][..], StringEntry::value_mut);
        value[offset..end].copy_from_slice(patch);
        (EntryOp::Edited, Ok(value.len()))
    })??;
    cx.integer(length as i64)
}

/// Limits on the length of a value, which are checked before it is allocated.
#[derive(Clone, Copy)]
struct Limits {
    string_bytes: usize,
    memory_bytes: u64,
}

impl Limits {
    fn of(cx: &Context<'_>) -> Limits {
        Limits { string_bytes: cx.state.max_bulk_bytes(), memory_bytes: cx.state.store.max_memory() }
    }

    fn check(self, length: usize) -> Outcome {
        match length {
            length if length > self.string_bytes => Err(CommandError::StringTooLong),
            length if length as u64 > self.memory_bytes => Err(CommandError::OutOfMemory),
            _ => Ok(()),
        }
    }
}

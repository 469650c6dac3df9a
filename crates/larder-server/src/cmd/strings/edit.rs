//! `APPEND` and `SETRANGE`: change a part of a value. Large values are changed in slices: see [`super::large_edit`].

use larder_resp::Args;

use super::large_edit::{Change, Former, LargeEdit, Limits};
use crate::cmd::options::integer;
use crate::cmd::{CommandError, Context, Outcome};
use crate::db::{EntryOp, Expiry, StringEntry};
use crate::values::large::LARGE_BYTES;

/// What a command has done while the entry was locked.
pub(crate) enum Step<R> {
    /// It has changed the value, with this result.
    Done(R),
    /// Nothing: the new value must be built from this one first.
    Build(Former),
}

pub(crate) fn append(cx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    let limits = Limits::of(cx.state);
    let (name, tail) = (&args[1], &args[2]);
    let db = cx.db();
    let step = db.update_string(name, |mut entry| {
        let before = value_of(&entry).len();
        let length = before + tail.len();
        if let Err(error) = limits.check(length) {
            return (EntryOp::Keep, Err(error));
        }
        if let Some(value) = lengthened(entry.as_mut(), length, limits) {
            value[before..].copy_from_slice(tail);
            return (EntryOp::Edited, Ok(Step::Done(length)));
        }
        // A long value is copied while its entry is not locked.
        if length >= LARGE_BYTES || entry.as_ref().is_some_and(|entry| entry.share().is_some()) {
            return (EntryOp::Keep, Ok(Step::Build(Former::of(entry.as_ref()))));
        }
        (EntryOp::Put(db.record(name, &[value_of(&entry), tail]), Expiry::Keep), Ok(Step::Done(length)))
    })??;
    finish(cx, step, limits, name, || Change::new(args, 2, None))
}

pub(crate) fn setrange(cx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    let limits = Limits::of(cx.state);
    let (name, patch) = (&args[1], &args[3]);
    let offset =
        usize::try_from(integer(&args[2])?).map_err(|_| CommandError::Fixed("ERR offset is out of range"))?;
    let db = cx.db();
    let step = db.update_string(name, |mut entry| {
        let before = value_of(&entry).len();
        if patch.is_empty() {
            return (EntryOp::Keep, Ok(Step::Done(before)));
        }
        let end = offset.saturating_add(patch.len());
        if let Err(error) = limits.check(end) {
            return (EntryOp::Keep, Err(error));
        }
        let grows = end > before;
        if grows
            && patch.len() < LARGE_BYTES
            && let Some(value) = lengthened(entry.as_mut(), end, limits)
        {
            value[offset..].copy_from_slice(patch);
            return (EntryOp::Edited, Ok(Step::Done(end)));
        }
        if patch.len() >= LARGE_BYTES || grows && end >= LARGE_BYTES || is_large_and_read(entry.as_ref()) {
            return (EntryOp::Keep, Ok(Step::Build(Former::of(entry.as_ref()))));
        }
        if grows {
            let head = &value_of(&entry)[..offset.min(before)];
            let padding = vec![0; offset - head.len()];
            let record = db.record(name, &[head, &padding, patch]);
            return (EntryOp::Put(record, Expiry::Keep), Ok(Step::Done(end)));
        }
        let value = entry.as_mut().map_or(&mut [][..], StringEntry::value_mut);
        value[offset..end].copy_from_slice(patch);
        (EntryOp::Edited, Ok(Step::Done(value.len())))
    })??;
    finish(cx, step, limits, name, || Change::new(args, 3, Some(offset)))
}

/// The value of the entry, empty without one.
pub(crate) fn value_of<'e>(entry: &'e Option<StringEntry<'_>>) -> &'e [u8] {
    entry.as_ref().map_or(&[], StringEntry::value)
}

/// The value of an entry that has grown by zeros where it is, if that takes a moment only.
pub(crate) fn lengthened<'e>(
    entry: Option<&'e mut StringEntry<'_>>,
    length: usize,
    limits: Limits,
) -> Option<&'e mut [u8]> {
    let entry = entry?;
    entry.lengthen(length, limits.capacity_for(length)).then(|| entry.value_mut())
}

/// Whether a client receives this large value now: a change in place would copy it under its lock.
pub(crate) fn is_large_and_read(entry: Option<&StringEntry<'_>>) -> bool {
    let shared = entry.and_then(StringEntry::share);
    // One owner is the entry, another is here.
    shared.is_some_and(|value| value.len() >= LARGE_BYTES && value.owners() > 2)
}

/// Replies with the length, or begins to build the value.
fn finish(
    cx: &mut Context<'_>,
    step: Step<usize>,
    limits: Limits,
    name: &[u8],
    change: impl FnOnce() -> Change,
) -> Outcome {
    match step {
        Step::Done(length) => cx.integer(length as i64),
        Step::Build(former) => LargeEdit::begin(cx, name, change(), former, limits, None),
    }
}

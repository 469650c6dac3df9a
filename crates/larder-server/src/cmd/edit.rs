//! `APPEND` and `SETRANGE`: changing part of a value.

use larder_resp::Args;

use super::options::integer;
use super::{CommandError, Context, Outcome};
use crate::db::{Change, Expiry};

pub(super) fn append(cx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    let limits = Limits::of(cx);
    let tail = &args[2];
    let length = cx.db().update(&args[1], |entry| {
        let head = entry.map_or(&[][..], |entry| entry.value);
        let length = head.len() + tail.len();
        match limits.check(length) {
            Ok(()) => (Change::Put([head, tail].concat().into(), Expiry::Keep), Ok(length)),
            Err(error) => (Change::Keep, Err(error)),
        }
    })??;
    cx.integer(length as i64)
}

pub(super) fn setrange(cx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    let limits = Limits::of(cx);
    let patch = &args[3];
    let offset =
        usize::try_from(integer(&args[2])?).map_err(|_| CommandError::Fixed("ERR offset is out of range"))?;
    let length = cx.db().update(&args[1], |entry| {
        let before = entry.map_or(&[][..], |entry| entry.value);
        if patch.is_empty() {
            return (Change::Keep, Ok(before.len()));
        }
        let end = offset.saturating_add(patch.len());
        if let Err(error) = limits.check(end) {
            return (Change::Keep, Err(error));
        }
        let mut value = before.to_vec();
        value.resize(before.len().max(end), 0);
        value[offset..end].copy_from_slice(patch);
        let length = value.len();
        (Change::Put(value.into(), Expiry::Keep), Ok(length))
    })??;
    cx.integer(length as i64)
}

/// How long a value may become, checked before it is made.
#[derive(Clone, Copy)]
struct Limits {
    string_bytes: usize,
    memory_bytes: u64,
}

impl Limits {
    fn of(cx: &Context<'_>) -> Limits {
        Limits { string_bytes: cx.shared.limits.max_bulk_bytes, memory_bytes: cx.shared.store.max_memory() }
    }

    fn check(self, length: usize) -> Outcome {
        match length {
            length if length > self.string_bytes => Err(CommandError::StringTooLong),
            length if length as u64 > self.memory_bytes => Err(CommandError::OutOfMemory),
            _ => Ok(()),
        }
    }
}

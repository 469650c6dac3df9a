//! `TYPE`, `DELIFEQ`: commands on one key.

use larder_resp::Args;

use crate::cmd::{Context, Outcome};
use crate::db::{EntryOp, type_name};

/// Removes a key if it has the given value: compare-and-delete, as in Valkey since 9.0.
pub(crate) fn delifeq(cx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    let removed = cx.db().update_string(&args[1], |entry| match entry {
        Some(entry) if entry.value() == &args[2] => (EntryOp::Remove, 1),
        _ => (EntryOp::Keep, 0),
    })?;
    cx.integer(removed)
}

pub(crate) fn type_of(cx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    let name = cx.db().peek(&args[1], type_name);
    cx.count_lookup(&args[1], name.is_some());
    cx.reply().simple(name.unwrap_or("none"));
    Ok(())
}

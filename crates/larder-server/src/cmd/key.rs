//! `DEL`, `EXISTS`, `TYPE`, `TOUCH`: commands on keys.

use larder_resp::Args;

use super::{Context, Outcome};
use crate::db::EntryOp;

/// Also `UNLINK`: both free the values outside of the locks.
pub(super) fn del(cx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    let db = cx.db();
    let removed = args.skip(1).iter().filter(|key| db.remove(key)).count();
    cx.integer(removed as i64)
}

/// Removes a key if it has the given value: compare-and-delete, as in Valkey since 9.0.
pub(super) fn delifeq(cx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    let removed = cx.db().update(&args[1], |entry| match entry {
        Some(entry) if entry.value() == &args[2] => (EntryOp::Remove, 1),
        _ => (EntryOp::Keep, 0),
    })?;
    cx.integer(removed)
}

pub(super) fn exists(cx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    let db = cx.db();
    count(cx, args, |key| db.contains(key))
}

pub(super) fn touch(cx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    let db = cx.db();
    count(cx, args, |key| db.get(key, |_| ()).is_some())
}

pub(super) fn type_of(cx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    let found = cx.db().contains(&args[1]);
    cx.count_lookup(found);
    cx.reply().simple(if found { "string" } else { "none" });
    Ok(())
}

fn count(cx: &mut Context<'_>, args: Args<'_>, is_present: impl Fn(&[u8]) -> bool) -> Outcome {
    let mut number = 0;
    for key in args.skip(1).iter() {
        let found = is_present(key);
        cx.count_lookup(found);
        number += i64::from(found);
    }
    cx.integer(number)
}

//! `HSET`, `HMSET`, `HSETNX`, `HDEL`: change fields.

use larder_resp::Args;

use crate::cmd::{CommandError, Context, Outcome};
use crate::observers::FieldEvents;
use crate::values::hash::Field;

pub(crate) fn hset(cx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    let added = store(cx, args, "hset")?;
    cx.integer(added as i64)
}

pub(crate) fn hmset(cx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    store(cx, args, "hmset")?;
    cx.ok()
}

/// Stores fields without deadlines; returns how many are new.
fn store(cx: &mut Context<'_>, args: Args<'_>, command: &'static str) -> Result<usize, CommandError> {
    let pairs = args.skip(2);
    if !pairs.len().is_multiple_of(2) {
        return Err(CommandError::Arity(command));
    }
    let db = cx.db();
    let now = db.now_ms();
    let added = db.edit_hash(&args[1], true, |hash| {
        let names = pairs.iter().step_by(2).zip(pairs.iter().skip(1).step_by(2));
        let added =
            names.filter(|(name, value)| hash.put(Field { name, value, deadline: None }, now)).count();
        (FieldEvents::OWN, added)
    })?;
    Ok(added.unwrap_or(0))
}

pub(crate) fn hsetnx(cx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    let db = cx.db();
    let now = db.now_ms();
    let added = db.edit_hash(&args[1], true, |hash| {
        let is_new = !hash.contains(&args[2], now);
        if is_new {
            hash.put(Field { name: &args[2], value: &args[3], deadline: None }, now);
        }
        (FieldEvents::OWN.when(is_new), is_new)
    })?;
    cx.integer(added.unwrap_or(false).into())
}

pub(crate) fn hdel(cx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    let db = cx.db();
    let now = db.now_ms();
    let removed = db.edit_hash(&args[1], false, |hash| {
        let removed = args.skip(2).iter().filter(|name| hash.take(name, now)).count();
        (FieldEvents::OWN.when(removed > 0), removed)
    })?;
    cx.integer(removed.unwrap_or(0) as i64)
}

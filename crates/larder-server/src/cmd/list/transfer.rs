//! `LMOVE` and `RPOPLPUSH`: an element from an end of one list to an end of another, or of the same.

use larder_resp::Args;

use super::end_of;
use super::push::{LPUSH, RPUSH};
use crate::cmd::{CommandError, Context, Outcome};
use crate::db::{Key, LockedKeys};
use crate::observers::Origin;
use crate::values::list::End;

pub(crate) fn lmove(cx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    transfer(cx, args, end_of(&args[3])?, end_of(&args[4])?)
}

pub(crate) fn rpoplpush(cx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    transfer(cx, args, End::Right, End::Left)
}

fn transfer(cx: &mut Context<'_>, args: Args<'_>, from: End, to: End) -> Outcome {
    let (db, mut locked) = cx.lock([&args[1], &args[2]]);
    let (source, target) = (db.key(&args[1]), db.key(&args[2]));
    let moved = element(&mut locked, (source, from), (target, to), cx.origin())?;
    drop(locked);
    let mut reply = cx.reply();
    match moved {
        Some(element) => reply.bulk(&element),
        None => reply.null(),
    }
    Ok(())
}

/// Moves an element between locked lists, and returns it. `None` if the source has none.
///
/// # Errors
/// One of them has another type, or there is no memory for the element: then nothing was changed.
pub(in crate::cmd) fn element(
    locked: &mut LockedKeys<'_>,
    (source, from): (Key<'_>, End),
    (target, to): (Key<'_>, End),
    origin: Origin,
) -> Result<Option<Box<[u8]>>, CommandError> {
    let element = locked.list(source, |list| {
        let index = if from == End::Left { 0 } else { list.len() - 1 };
        Box::<[u8]>::from(list.at(index))
    })?;
    let Some(element) = element else { return Ok(None) };
    locked.list(target, |_| ())?;
    let command = if to == End::Left { &LPUSH } else { &RPUSH };
    // The element is pushed first, so that a list is not removed that gets its only element again.
    locked.tell_as(Origin { command: Some(command), ..origin });
    locked.edit_list(target, true, |list| list.push(to, &element))?;
    locked.tell_as(Origin { command: Some(from.pop_spec()), ..origin });
    locked.edit_list(source, false, |list| {
        // In the same list the pushed element may stand at this end by now.
        let skipped = usize::from(source == target && from == to);
        let index = if from == End::Left { skipped } else { list.len() - 1 - skipped };
        list.remove(index..index + 1);
    })?;
    Ok(Some(element))
}

//! `LSET`, `LINSERT`, `LREM`, `LTRIM`: changes within a list.

use larder_resp::Args;

use super::index_of;
use crate::cmd::options::{index_range, integer};
use crate::cmd::{CommandError, Context, Outcome};
use crate::values::list::End;

pub(crate) fn lset(cx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    let replaced = cx.db().edit_list(&args[1], false, |list| {
        let index = index_of(integer(&args[2])?, list.len());
        let index = index.ok_or(CommandError::Fixed("ERR index out of range"))?;
        list.replace(index, &args[3]);
        Ok::<(), CommandError>(())
    })?;
    replaced.ok_or(CommandError::Fixed("ERR no such key"))??;
    cx.ok()
}

pub(crate) fn linsert(cx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    let is = |word: &[u8]| args[2].eq_ignore_ascii_case(word);
    let behind = match () {
        () if is(b"BEFORE") => 0,
        () if is(b"AFTER") => 1,
        () => return Err(CommandError::Syntax),
    };
    let length = cx.db().edit_list(&args[1], false, |list| {
        let (mut index, mut is_found) = (0, false);
        list.visit(0..list.len(), false, |element| {
            is_found = element == &args[3];
            index += usize::from(!is_found);
            !is_found
        });
        if !is_found {
            return -1;
        }
        list.insert(index + behind, &args[4]);
        list.len() as i64
    })?;
    cx.integer(length.unwrap_or(0))
}

pub(crate) fn lrem(cx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    let count = integer(&args[2])?;
    let (most, from) = match count {
        0 => (usize::MAX, End::Left),
        1.. => (count as usize, End::Left),
        _ => (count.unsigned_abs() as usize, End::Right),
    };
    let removed = cx.db().edit_list(&args[1], false, |list| list.remove_equal(&args[3], most, from))?;
    cx.integer(removed.unwrap_or(0) as i64)
}

pub(crate) fn ltrim(cx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    let (start, end) = (integer(&args[2])?, integer(&args[3])?);
    cx.db().edit_list(&args[1], false, |list| {
        let kept = index_range(start, end, list.len());
        list.remove(kept.end..list.len());
        list.remove(0..kept.start);
        // Observers are told of it also if all elements are kept.
        list.touch();
    })?;
    cx.ok()
}

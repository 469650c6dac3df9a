//! Commands on lists.

pub(crate) mod edit;
pub(crate) mod pop;
pub(crate) mod push;
pub(crate) mod read;
pub(crate) mod transfer;

use super::{CommandError, Context};
use crate::values::list::{End, List};

/// An end by its word.
pub(super) fn end_of(word: &[u8]) -> Result<End, CommandError> {
    if word.eq_ignore_ascii_case(b"LEFT") {
        Ok(End::Left)
    } else if word.eq_ignore_ascii_case(b"RIGHT") {
        Ok(End::Right)
    } else {
        Err(CommandError::Syntax)
    }
}

/// The result of `f` for the list of a key, if it exists. Counts the lookup.
fn look_up<R>(
    cx: &mut Context<'_>,
    key: &[u8],
    f: impl FnOnce(&List) -> R,
) -> Result<Option<R>, CommandError> {
    let found = cx.db().list(key, f)?;
    cx.count_lookup(key, found.is_some());
    Ok(found)
}

/// The element that an index means, which counts from the end if it is negative.
fn index_of(index: i64, len: usize) -> Option<usize> {
    let from_start = if index < 0 { index.checked_add(len as i64)? } else { index };
    usize::try_from(from_start).ok().filter(|index| *index < len)
}

//! The commands on hashes, and what they share: lookups, and the names of fields behind `FIELDS`.

pub(super) mod counter;
pub(super) mod edit;
pub(super) mod expire;
pub(super) mod read;
pub(super) mod sample;
pub(super) mod scan;
pub(super) mod timed;

use larder_resp::Args;

use super::options::integer;
use super::{CommandError, Context};
use crate::values::hash::Hash;

const WRONG_COUNT: CommandError =
    CommandError::Fixed("ERR numfields should be greater than 0 and match the provided number of fields");

/// The result of `f` for the hash of a key, if it exists. Counts the lookup.
fn look_up<R>(
    cx: &mut Context<'_>,
    key: &[u8],
    f: impl FnOnce(&Hash) -> R,
) -> Result<Option<R>, CommandError> {
    let found = cx.db().hash(key, f)?;
    cx.count_lookup(key, found.is_some());
    Ok(found)
}

/// The fields of a request behind their number, each with `width` arguments. `wrong_count` is the error if the number is
/// not theirs.
fn fields(args: Args<'_>, width: usize, wrong_count: CommandError) -> Result<Args<'_>, CommandError> {
    let count = integer(args.get(0).ok_or(CommandError::Syntax)?)?;
    let count = usize::try_from(count).ok().filter(|count| *count > 0).and_then(|n| n.checked_mul(width));
    match count {
        Some(count) if count == args.len() - 1 => Ok(args.skip(1)),
        _ => Err(wrong_count),
    }
}

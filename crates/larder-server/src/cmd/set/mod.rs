//! Commands on sets.

pub(crate) mod combine;
pub(crate) mod edit;
pub(crate) mod read;
pub(crate) mod sample;

use super::{CommandError, Context};
use crate::values::set::Set;

/// The result of `f` for the set of a key, if it exists. Counts the lookup.
fn look_up<R>(
    cx: &mut Context<'_>,
    key: &[u8],
    f: impl FnOnce(&Set) -> R,
) -> Result<Option<R>, CommandError> {
    let found = cx.db().set_members(key, f)?;
    cx.count_lookup(key, found.is_some());
    Ok(found)
}

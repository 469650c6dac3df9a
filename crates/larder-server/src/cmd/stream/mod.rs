//! Commands on streams. `XREAD` is beside the commands that wait, in [`super::blocking`].

pub(crate) mod add;
mod id;
pub(crate) mod info;
pub(crate) mod read;
mod reply;
pub(crate) mod trim;

pub(super) use id::id;
pub(super) use reply::{EncodedEntries, Selection, encode};

use super::{CommandError, Context};
use crate::values::stream::Stream;

/// The result of `f` for the stream of a key, if it exists. Counts the lookup.
fn look_up<R>(
    cx: &mut Context<'_>,
    key: &[u8],
    f: impl FnOnce(&Stream) -> R,
) -> Result<Option<R>, CommandError> {
    let found = cx.db().stream(key, f)?;
    cx.count_lookup(key, found.is_some());
    Ok(found)
}

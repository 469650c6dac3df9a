//! The hit: the one call that never goes on elsewhere, unless its value is large.

use crate::erl::nif::Call;
use crate::erl::{Term, atom};
use crate::key::bytes_of;
use crate::raised::Result;
use crate::view::view_of;

/// `hit(view, key)`: `{:ok, value}` of memory, `:miss`, or `:closed`.
pub(crate) fn hit<'e>(call: &Call<'_, 'e>) -> Result<Term<'e>> {
    let (env, view) = (call.env, view_of(call.given[0])?);
    if view.cache.is_closed() {
        return Ok(env.atom(&atom::CLOSED));
    }
    let key = bytes_of(call.given[1])?;
    if let Some(found) = view.native()?.hit(&key)
        && let Some(value) = view.encoding.value_here(call, &found, &key)?
    {
        return Ok(env.tuple([env.atom(&atom::OK), value]));
    }
    Ok(env.atom(&atom::MISS))
}

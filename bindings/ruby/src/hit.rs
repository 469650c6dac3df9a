//! The hit: it keeps the GVL, waits for nothing, and allocates its result alone.

use crate::key::{bytes_of, is_plain_string};
use crate::raised::Result;
use crate::ruby::method::Arguments;
use crate::ruby::{Ruby, Value};
use crate::view::View;

/// `View#hit(key, default = nil)`: the value in memory.
pub(crate) fn hit<'r>(ruby: Ruby<'r>, given: Arguments<'r>) -> Result<Value<'r>> {
    let view: &View = given.this.data()?;
    let found = find(ruby, view, given.get(0))?;
    Ok(found.unwrap_or_else(|| given.get(1)))
}

#[inline]
fn find<'r>(ruby: Ruby<'r>, view: &View, key: Value<'r>) -> Result<Option<Value<'r>>> {
    let native = view.native()?;
    if is_plain_string(key) && !view.encoding.codec.is_private() {
        // SAFETY: it is a string, and larder calls nothing of Ruby.
        let found = native.hit(unsafe { key.borrow_bytes() });
        let Some(found) = found else { return Ok(None) };
        // The key of a value without a signature is not looked at.
        return view.encoding.object(ruby, &found, &[]);
    }
    let key = bytes_of(ruby, key)?;
    let Some(found) = native.hit(&key) else { return Ok(None) };
    view.encoding.object(ruby, &found, &key)
}

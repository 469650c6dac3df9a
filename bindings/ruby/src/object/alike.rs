//! Whether MessagePack gives an object back as `Marshal` would: small values and plain ones need no `Marshal` then, and larder can
//! add to numbers.

use crate::raised::{Raised, Result};
use crate::ruby::value::{Integer, Kind};
use crate::ruby::{Ruby, Value};
use larder_host::profile::MAX_DEPTH;
use std::collections::HashSet;

/// What a walk over an object has seen.
#[derive(Default)]
struct Walk<'r> {
    /// `Marshal` gives back one object where one object is twice: MessagePack two.
    seen: HashSet<Value<'r>>,
    depth: usize,
}

/// Whether it, and all that is in it, is read as it was written.
pub(super) fn is_read_alike<'r>(ruby: Ruby<'r>, object: Value<'r>) -> Result<bool> {
    match is_scalar(object) {
        Some(is_alike) => Ok(is_alike),
        None => Walk::default().is_alike(ruby, object),
    }
}

/// `None` for what has others in it.
fn is_scalar(object: Value<'_>) -> Option<bool> {
    match object.kind() {
        Kind::Nil | Kind::Boolean(_) | Kind::Float => Some(true),
        Kind::Integer => Some(!matches!(object.to_integer(), Integer::Large)),
        Kind::String => Some(object.is_plain() && object.has_common_encoding() && object.is_valid()),
        Kind::Array | Kind::Hash => None,
        Kind::Symbol | Kind::Time | Kind::Other => Some(false),
    }
}

impl<'r> Walk<'r> {
    fn is_alike(&mut self, ruby: Ruby<'r>, object: Value<'r>) -> Result<bool> {
        let kind = object.kind();
        if matches!(kind, Kind::String | Kind::Array | Kind::Hash) && !self.seen.insert(object) {
            return Ok(false);
        }
        if let Some(is_alike) = is_scalar(object) {
            return Ok(is_alike);
        }
        if !object.is_plain() || self.depth == MAX_DEPTH {
            return Ok(false);
        }
        self.depth += 1;
        let is_alike = if kind == Kind::Array {
            self.are_elements_alike(ruby, object)?
        } else {
            self.are_entries_alike(ruby, object)?
        };
        self.depth -= 1;
        Ok(is_alike)
    }

    fn are_elements_alike(&mut self, ruby: Ruby<'r>, array: Value<'r>) -> Result<bool> {
        for index in 0..array.length(ruby)? {
            if !self.is_alike(ruby, array.element(index))? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn are_entries_alike(&mut self, ruby: Ruby<'r>, hash: Value<'r>) -> Result<bool> {
        for question in ["default", "default_proc", "compare_by_identity?"] {
            if hash.call(ruby, question, &[])?.is_true() {
                return Ok(false);
            }
        }
        let mut is_alike = true;
        hash.each_entry::<Raised>(|key, value| {
            is_alike = is_alike
                && key.kind() == Kind::String
                && key.is_plain()
                && key.is_utf8()
                && key.is_valid()
                && self.is_alike(ruby, value)?;
            Ok(())
        })?;
        Ok(is_alike)
    }
}

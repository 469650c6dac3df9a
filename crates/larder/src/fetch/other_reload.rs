//! A reload by another node that a refresh waits for.

use crate::value::format::Id;

/// What a refresh knows of a reload by another node that it waits for.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct OtherReload {
    /// The value that is replaced.
    replaced: Option<Id>,
    /// Whether that value was stored after the refresh was called. A loader that replaces it began after the call.
    is_later: bool,
    /// The id of the new value.
    pub(super) id: Option<Id>,
}

impl OtherReload {
    /// Whether the reload stores the value with this id, and its loader began after the refresh was called.
    pub(super) fn stores(&self, id: Option<Id>) -> bool {
        self.is_later && self.id.is_some() && self.id == id
    }

    pub(super) fn replaces(&mut self, value: Id) {
        let is_later = self.is_later || self.replaced.is_some_and(|before| before != value);
        *self = OtherReload { replaced: Some(value), is_later, id: None };
    }
}

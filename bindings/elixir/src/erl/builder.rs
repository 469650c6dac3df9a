//! Makes a term of lists and maps from its parts, in their order and without recursion.

use super::ffi::RawTerm;
use super::{Env, Term};

/// Terms that wait for the end of the list or map that they are in.
pub(crate) struct Builder<'e> {
    env: Env<'e>,
    values: Vec<RawTerm>,
    /// Those of maps.
    keys: Vec<RawTerm>,
    open: Vec<Open>,
}

/// Where the parts of a list or map begin.
struct Open {
    values: usize,
    /// Of a map.
    keys: Option<usize>,
}

impl<'e> Builder<'e> {
    pub(crate) fn new(env: Env<'e>) -> Self {
        Builder { env, values: Vec::new(), keys: Vec::new(), open: Vec::new() }
    }

    pub(crate) fn env(&self) -> Env<'e> {
        self.env
    }

    /// Adds a value, to what is open or as the whole.
    pub(crate) fn add(&mut self, value: Term<'e>) {
        self.values.push(value.raw());
    }

    /// The key of the next value of a map.
    pub(crate) fn key(&mut self, key: Term<'e>) {
        self.keys.push(key.raw());
    }

    pub(crate) fn begin_list(&mut self) {
        self.open.push(Open { values: self.values.len(), keys: None });
    }

    pub(crate) fn begin_map(&mut self) {
        self.open.push(Open { values: self.values.len(), keys: Some(self.keys.len()) });
    }

    /// Ends the list or map that was begun last.
    pub(crate) fn end(&mut self) {
        let Some(Open { values, keys }) = self.open.pop() else { return };
        // SAFETY: what was added is of this environment.
        let made = unsafe {
            match keys {
                None => self.env.list_of(&self.values[values..]),
                Some(keys) => self.env.map_of(&self.keys[keys..], &self.values[values..]),
            }
        };
        self.values.truncate(values);
        self.keys.truncate(keys.unwrap_or(self.keys.len()));
        self.add(made);
    }

    /// The whole.
    pub(crate) fn finish(self) -> Option<Term<'e>> {
        let whole = self.values.first().copied()?;
        // SAFETY: it was added or made in this environment.
        Some(unsafe { self.env.term(whole) })
    }
}

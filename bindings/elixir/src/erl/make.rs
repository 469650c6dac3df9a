//! Making terms.

use super::ffi::{self, RawTerm};
use super::{Env, Term, atom};

impl<'e> Env<'e> {
    pub(crate) fn atom(self, atom: &atom::Atom) -> Term<'e> {
        // SAFETY: an atom is valid everywhere.
        unsafe { self.term(atom.raw()) }
    }

    pub(crate) fn nil(self) -> Term<'e> {
        self.atom(&atom::NIL)
    }

    pub(crate) fn boolean(self, value: bool) -> Term<'e> {
        self.atom(if value { &atom::TRUE } else { &atom::FALSE })
    }

    pub(crate) fn integer(self, value: i64) -> Term<'e> {
        // SAFETY: the environment is valid, as in all functions below, and the term is of it.
        unsafe { self.term(ffi::enif_make_long(self.raw, value)) }
    }

    pub(crate) fn unsigned(self, value: u64) -> Term<'e> {
        // SAFETY: see `integer`.
        unsafe { self.term(ffi::enif_make_ulong(self.raw, value)) }
    }

    /// A number that is finite: Erlang has no others.
    pub(crate) fn float(self, value: f64) -> Term<'e> {
        debug_assert!(value.is_finite());
        // SAFETY: see `integer`.
        unsafe { self.term(ffi::enif_make_double(self.raw, value)) }
    }

    pub(crate) fn binary(self, bytes: &[u8]) -> Term<'e> {
        let mut term = 0;
        // SAFETY: the emulator has made room for so many bytes, which nobody else knows.
        unsafe {
            let to = ffi::enif_make_new_binary(self.raw, bytes.len(), &mut term);
            to.copy_from_nonoverlapping(bytes.as_ptr(), bytes.len());
            self.term(term)
        }
    }

    /// The term of some bytes in the external format.
    pub(crate) fn of_external(self, bytes: &[u8]) -> Option<Term<'e>> {
        /// Atoms and functions that do not exist here are made: the bytes are signed.
        const ANY: u32 = 0;
        let mut term = 0;
        // SAFETY: the bytes have that length.
        let read = unsafe { ffi::enif_binary_to_term(self.raw, bytes.as_ptr(), bytes.len(), &mut term, ANY) };
        // SAFETY: the emulator has made it in this environment.
        (read == bytes.len()).then(|| unsafe { self.term(term) })
    }

    pub(crate) fn tuple<const N: usize>(self, elements: [Term<'e>; N]) -> Term<'e> {
        let elements = elements.map(Term::raw);
        // SAFETY: the elements are of this environment.
        unsafe { self.term(ffi::enif_make_tuple_from_array(self.raw, elements.as_ptr(), N as u32)) }
    }

    pub(crate) fn list(self, elements: impl IntoIterator<Item = Term<'e>>) -> Term<'e> {
        let elements: Vec<RawTerm> = elements.into_iter().map(Term::raw).collect();
        // SAFETY: the elements are of this environment.
        unsafe { self.list_of(&elements) }
    }

    /// # Safety
    /// The elements are terms of this environment, or atoms.
    pub(super) unsafe fn list_of(self, elements: &[RawTerm]) -> Term<'e> {
        // SAFETY: the caller says so.
        unsafe {
            self.term(ffi::enif_make_list_from_array(self.raw, elements.as_ptr(), elements.len() as u32))
        }
    }

    /// A map. Of a key that occurs twice the last value counts.
    ///
    /// # Safety
    /// Keys and values are terms of this environment, or atoms.
    pub(super) unsafe fn map_of(self, keys: &[RawTerm], values: &[RawTerm]) -> Term<'e> {
        assert_eq!(keys.len(), values.len());
        let mut map = 0;
        // SAFETY: the caller says so, and there are as many as is said.
        unsafe {
            let made = ffi::enif_make_map_from_arrays(
                self.raw,
                keys.as_ptr(),
                values.as_ptr(),
                keys.len(),
                &mut map,
            );
            if made == 0 {
                map = ffi::enif_make_new_map(self.raw);
                for (key, value) in keys.iter().zip(values) {
                    ffi::enif_make_map_put(self.raw, map, *key, *value, &mut map);
                }
            }
            self.term(map)
        }
    }

    /// A map from keys to values.
    pub(crate) fn map(self, entries: impl IntoIterator<Item = (Term<'e>, Term<'e>)>) -> Term<'e> {
        let (keys, values): (Vec<RawTerm>, Vec<RawTerm>) =
            entries.into_iter().map(|(key, value)| (key.raw(), value.raw())).unzip();
        // SAFETY: they are of this environment.
        unsafe { self.map_of(&keys, &values) }
    }

    /// A map whose keys are these atoms.
    pub(crate) fn record<'a>(self, fields: impl IntoIterator<Item = (&'a atom::Atom, Term<'e>)>) -> Term<'e> {
        self.map(fields.into_iter().map(|(name, value)| (self.atom(name), value)))
    }

    /// An atom of a name that is not among [`super::atom`]'s.
    pub(crate) fn named(self, name: &str) -> Term<'e> {
        // SAFETY: the name has that length.
        unsafe { self.term(ffi::enif_make_atom_len(self.raw, name.as_ptr(), name.len())) }
    }
}

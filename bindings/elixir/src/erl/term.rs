//! Terms: what they are.

use super::Env;
use super::ffi::{self, RawTerm};
use std::ptr::null;

/// A term of an environment.
#[derive(Clone, Copy)]
pub(crate) struct Term<'e> {
    env: Env<'e>,
    raw: RawTerm,
}

/// What a term is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Atom,
    Bitstring,
    Float,
    Integer,
    List,
    Map,
    Tuple,
    /// A process, port, reference or function.
    Other,
}

impl<'e> Term<'e> {
    /// # Safety
    /// It is a term of this environment, or an atom.
    pub(super) unsafe fn new(env: Env<'e>, raw: RawTerm) -> Self {
        Term { env, raw }
    }

    pub(super) fn raw(self) -> RawTerm {
        self.raw
    }

    pub(crate) fn env(self) -> Env<'e> {
        self.env
    }

    /// # Safety
    /// It is a term of the same environment.
    unsafe fn sibling(self, raw: RawTerm) -> Self {
        Term { env: self.env, raw }
    }

    #[inline]
    pub(crate) fn kind(self) -> Kind {
        // SAFETY: it is a term of this environment, as in all functions below.
        match unsafe { ffi::enif_term_type(self.env.raw, self.raw) } {
            1 => Kind::Atom,
            2 => Kind::Bitstring,
            3 => Kind::Float,
            5 => Kind::Integer,
            6 => Kind::List,
            7 => Kind::Map,
            11 => Kind::Tuple,
            _ => Kind::Other,
        }
    }

    /// The text of an atom.
    pub(crate) fn atom_text(self) -> Option<String> {
        /// The longest atom has 255 characters.
        const LATIN1_BYTES: usize = 256;
        let mut text = [0; LATIN1_BYTES];
        // SAFETY: the length is that of the text.
        let bytes = unsafe {
            let room = LATIN1_BYTES as u32;
            ffi::enif_get_atom(self.env.raw, self.raw, text.as_mut_ptr(), room, ffi::LATIN1)
        };
        if bytes > 0 {
            // The last one is a zero.
            return Some(text[..bytes as usize - 1].iter().map(|byte| char::from(*byte)).collect());
        }
        if self.kind() != Kind::Atom {
            return None;
        }
        // One with other characters than those of Latin-1 is UTF-8 in the external format alone: behind the version, the tag and
        // a length of one byte or of two.
        let external = self.external()?;
        let text = match external.get(1)? {
            119 => external.get(3..)?,
            118 => external.get(4..)?,
            _ => return None,
        };
        String::from_utf8(text.to_vec()).ok()
    }

    /// The external term format.
    fn external(self) -> Option<Vec<u8>> {
        let mut binary = ffi::Binary::new();
        // SAFETY: the emulator allocates the binary, which is released below.
        if unsafe { ffi::enif_term_to_binary(self.env.raw, self.raw, &mut binary) } == 0 {
            return None;
        }
        // SAFETY: it has so many bytes.
        let bytes = unsafe { std::slice::from_raw_parts(binary.data, binary.size) }.to_vec();
        // SAFETY: nobody else has it.
        unsafe { ffi::enif_release_binary(&mut binary) };
        Some(bytes)
    }

    /// The bytes of a binary. A binary stays where it is during a call.
    #[inline]
    pub(crate) fn bytes(self) -> Option<&'e [u8]> {
        let mut binary = ffi::Binary::new();
        // SAFETY: the emulator writes the place of the bytes into it.
        if unsafe { ffi::enif_inspect_binary(self.env.raw, self.raw, &mut binary) } == 0 {
            return None;
        }
        if binary.size == 0 {
            return Some(&[]);
        }
        // SAFETY: it has so many bytes, which nobody changes, as long as the environment.
        Some(unsafe { std::slice::from_raw_parts(binary.data, binary.size) })
    }

    /// The text of a binary that is UTF-8.
    pub(crate) fn text(self) -> Option<&'e str> {
        std::str::from_utf8(self.bytes()?).ok()
    }

    pub(crate) fn integer(self) -> Option<i64> {
        let mut number = 0;
        // SAFETY: a long of this system has 64 bits.
        (unsafe { ffi::enif_get_long(self.env.raw, self.raw, &mut number) } != 0).then_some(number)
    }

    pub(crate) fn unsigned(self) -> Option<u64> {
        let mut number = 0;
        // SAFETY: an unsigned long of this system has 64 bits.
        (unsafe { ffi::enif_get_ulong(self.env.raw, self.raw, &mut number) } != 0).then_some(number)
    }

    pub(crate) fn float(self) -> Option<f64> {
        let mut number = 0.0;
        // SAFETY: the emulator writes a number into it.
        (unsafe { ffi::enif_get_double(self.env.raw, self.raw, &mut number) } != 0).then_some(number)
    }

    pub(crate) fn boolean(self) -> Option<bool> {
        let atom = self.raw;
        (atom == super::atom::TRUE.raw() || atom == super::atom::FALSE.raw())
            .then(|| atom == super::atom::TRUE.raw())
    }

    pub(crate) fn is_nil(self) -> bool {
        self.is(&super::atom::NIL)
    }

    pub(crate) fn is(self, atom: &super::atom::Atom) -> bool {
        self.raw == atom.raw()
    }

    /// The length of a proper list.
    pub(crate) fn list_length(self) -> Option<usize> {
        let mut length = 0;
        // SAFETY: the emulator writes a number into it.
        let is_list = unsafe { ffi::enif_get_list_length(self.env.raw, self.raw, &mut length) } != 0;
        is_list.then_some(length as usize)
    }

    /// Whether a list has more elements than that. Unlike its length it is known without a walk over the whole list.
    pub(crate) fn has_more_elements_than(self, count: usize) -> bool {
        self.elements().nth(count).is_some()
    }

    /// The elements of a list, up to a tail that is none.
    pub(crate) fn elements(self) -> impl Iterator<Item = Term<'e>> {
        let mut rest = self.raw;
        std::iter::from_fn(move || {
            let (mut head, mut tail) = (0, 0);
            // SAFETY: the rest is a term of this environment.
            if unsafe { ffi::enif_get_list_cell(self.env.raw, rest, &mut head, &mut tail) } == 0 {
                return None;
            }
            rest = tail;
            // SAFETY: the emulator has it from this environment.
            Some(unsafe { self.sibling(head) })
        })
    }

    /// The elements of a tuple of so many.
    pub(crate) fn tuple<const N: usize>(self) -> Option<[Term<'e>; N]> {
        let mut elements = self.tuple_elements();
        let first: [Option<Term<'e>>; N] = std::array::from_fn(|_| elements.next());
        if elements.next().is_some() || first.iter().any(Option::is_none) {
            return None;
        }
        Some(first.map(|element| element.expect("none is missing")))
    }

    /// The elements of a tuple.
    pub(crate) fn tuple_elements(self) -> impl Iterator<Item = Term<'e>> {
        let (mut arity, mut elements) = (0, null());
        // SAFETY: the emulator writes the place of the elements.
        let is_tuple = unsafe { ffi::enif_get_tuple(self.env.raw, self.raw, &mut arity, &mut elements) } != 0;
        let arity = if is_tuple { arity as usize } else { 0 };
        // SAFETY: it has so many elements, which are terms of this environment.
        (0..arity).map(move |at| unsafe { self.sibling(*elements.add(at)) })
    }

    pub(crate) fn map_size(self) -> Option<usize> {
        let mut size = 0;
        // SAFETY: the emulator writes a number into it.
        (unsafe { ffi::enif_get_map_size(self.env.raw, self.raw, &mut size) } != 0).then_some(size)
    }

    /// The value of a key of a map.
    pub(crate) fn value_of(self, key: Term<'_>) -> Option<Term<'e>> {
        let mut value = 0;
        // SAFETY: the key is valid, and is only compared.
        let is_there = unsafe { ffi::enif_get_map_value(self.env.raw, self.raw, key.raw, &mut value) } != 0;
        // SAFETY: the emulator has it from this environment.
        is_there.then(|| unsafe { self.sibling(value) })
    }

    /// The entries of a map.
    pub(crate) fn entries(self) -> Entries<'e> {
        let mut iterator = ffi::MapIterator::new();
        // SAFETY: it has the room that the emulator needs.
        let is_map =
            unsafe { ffi::enif_map_iterator_create(self.env.raw, self.raw, &mut iterator, ffi::FIRST) != 0 };
        Entries { map: self, iterator: is_map.then_some(iterator) }
    }

    /// It in words, for an error: a number or a text, and otherwise what kind it is.
    pub(crate) fn shown(self) -> String {
        match self.kind() {
            Kind::Integer => {
                self.integer().map_or_else(|| "a large integer".to_owned(), |number| number.to_string())
            }
            Kind::Float => self.float().map_or_else(String::new, |number| format!("{number:?}")),
            Kind::Atom => self.atom_text().map_or_else(String::new, |text| match &text[..] {
                "nil" | "true" | "false" => text,
                _ => format!(":{text}"),
            }),
            Kind::Bitstring => match self.text() {
                Some(text) if text.chars().count() <= 40 => format!("{text:?}"),
                _ => "a binary".to_owned(),
            },
            Kind::List => "a list".to_owned(),
            Kind::Map => "a map".to_owned(),
            Kind::Tuple => "a tuple".to_owned(),
            Kind::Other => "a process, port, reference or function".to_owned(),
        }
    }
}

/// The entries of a map, in no order.
pub(crate) struct Entries<'e> {
    map: Term<'e>,
    iterator: Option<ffi::MapIterator>,
}

impl<'e> Iterator for Entries<'e> {
    type Item = (Term<'e>, Term<'e>);

    fn next(&mut self) -> Option<Self::Item> {
        let (env, iterator) = (self.map.env.raw, self.iterator.as_mut()?);
        let (mut key, mut value) = (0, 0);
        // SAFETY: the iterator was created in this environment, and its map lives as long.
        unsafe {
            if ffi::enif_map_iterator_get_pair(env, iterator, &mut key, &mut value) == 0 {
                return None;
            }
            ffi::enif_map_iterator_next(env, iterator);
            Some((self.map.sibling(key), self.map.sibling(value)))
        }
    }
}

impl Drop for Entries<'_> {
    fn drop(&mut self) {
        if let Some(iterator) = &mut self.iterator {
            // SAFETY: it was created, and is not used any more.
            unsafe { ffi::enif_map_iterator_destroy(self.map.env.raw, iterator) };
        }
    }
}

//! Hashes: walking over them, and making them.

use super::sys::{self, VALUE};
use super::{Ruby, Value};
use crate::raised::{Raised, Result};
use std::ffi::c_int;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// What a walk over a hash has.
struct Walk<F, E> {
    each: F,
    ended: std::result::Result<(), E>,
}

impl<'r> Value<'r> {
    /// The number of entries of a [hash](super::value::Kind::Hash).
    pub(crate) fn entries(self) -> usize {
        // SAFETY: of a hash it raises nothing.
        unsafe { sys::rb_hash_size_num(self.raw()) }
    }

    /// Calls `each` with the keys and values of a [hash](super::value::Kind::Hash), which cannot get other keys meanwhile. An
    /// error ends that.
    pub(crate) fn each_entry<E: From<Raised>>(
        self,
        each: impl FnMut(Value<'r>, Value<'r>) -> std::result::Result<(), E>,
    ) -> std::result::Result<(), E> {
        let mut walk = Walk { each, ended: Ok(()) };
        let entry = entry_of(&walk);
        // SAFETY: it is a hash, and `entry` takes the address of this. It raises nothing, so that Ruby does not either.
        unsafe { sys::rb_hash_foreach(self.raw(), entry, (&raw mut walk) as usize) };
        walk.ended
    }

    /// The entries of a [hash](super::value::Kind::Hash), whose values it keeps alive while nobody changes it.
    pub(crate) fn pairs(self) -> Vec<(Value<'r>, Value<'r>)> {
        let mut pairs = Vec::with_capacity(self.entries());
        let walked: Result<()> = self.each_entry(|key, value| {
            pairs.push((key, value));
            Ok(())
        });
        walked.expect("nothing of it fails");
        pairs
    }
}

/// The function that calls this closure.
fn entry_of<'r, F, E>(_: &Walk<F, E>) -> unsafe extern "C" fn(VALUE, VALUE, VALUE) -> c_int
where
    F: FnMut(Value<'r>, Value<'r>) -> std::result::Result<(), E>,
    E: From<Raised>,
{
    entry::<F, E>
}

unsafe extern "C" fn entry<'r, F, E>(key: VALUE, value: VALUE, walk: VALUE) -> c_int
where
    F: FnMut(Value<'r>, Value<'r>) -> std::result::Result<(), E>,
    E: From<Raised>,
{
    // SAFETY: `each_entry` passes its own, which nobody else has meanwhile.
    let walk = unsafe { &mut *(walk as *mut Walk<F, E>) };
    let (key, value) = (Value::new(key), Value::new(value));
    let called = catch_unwind(AssertUnwindSafe(|| (walk.each)(key, value)));
    walk.ended = called.unwrap_or_else(|_| Err(Raised::panicked().into()));
    if walk.ended.is_ok() { sys::ST_CONTINUE } else { sys::ST_STOP }
}

impl<'r> Ruby<'r> {
    /// A hash without entries.
    pub(crate) fn hash(self) -> Result<Value<'r>> {
        // SAFETY: the thread has the GVL.
        self.protect(|| unsafe { sys::rb_hash_new() }).map(|raw| self.value(raw))
    }

    /// Adds an entry to a hash of this library.
    pub(crate) fn put(self, hash: Value<'r>, key: Value<'r>, value: Value<'r>) -> Result<()> {
        // SAFETY: it is a hash. A key of the program may have a method `hash` of its own, which may raise.
        self.protect(|| unsafe { sys::rb_hash_aset(hash.raw(), key.raw(), value.raw()) }).map(|_| ())
    }
}

//! Making an object of Ruby, with all that is in it, by steps.

use super::string::{new_bytes, new_text, shared_text};
use super::sys::{self, VALUE, timespec};
use super::{Ruby, Value, constants};
use crate::raised::{Raised, Result};
use larder_host::profile::MAX_DEPTH;
use std::ffi::c_long;

/// One step. Texts and bytes are somewhere in the bytes that are passed too.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Step {
    Nil,
    Boolean(bool),
    Integer(i64),
    Unsigned(u64),
    Float(f64),
    /// UTF-8.
    Text(Span),
    Bytes(Span),
    /// Seconds since 1970 and nanoseconds.
    Time(i64, u32),
    /// Begins an array of so many elements.
    Array(usize),
    /// Begins a hash.
    Hash,
    /// The key of the next value of a hash: UTF-8.
    Key(Span),
    /// Ends the array or hash that was begun last.
    End,
}

/// Some of the bytes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Span {
    pub(crate) start: usize,
    pub(crate) length: usize,
}

impl Span {
    fn of(self, bytes: &[u8]) -> &[u8] {
        &bytes[self.start..self.start + self.length]
    }
}

/// The arrays and hashes that have no end yet: on the stack, where Ruby finds them.
struct Open {
    values: [VALUE; MAX_DEPTH + 1],
    depth: usize,
    /// Of the next value of a hash.
    key: Option<VALUE>,
    made: Option<VALUE>,
}

impl<'r> Ruby<'r> {
    /// The object that the steps make.
    pub(crate) fn make(self, bytes: &[u8], steps: &[Step], is_frozen: bool) -> Result<Value<'r>> {
        // SAFETY: the thread has the GVL, and nothing in the call has to be dropped.
        let made = self.protect(|| unsafe { make_all(bytes, steps, is_frozen) })?;
        made.map(|made| self.value(made)).ok_or_else(|| Raised::fault("the bytes were no value"))
    }
}

/// # Safety
/// The thread has the GVL. It raises where there is no memory.
unsafe fn make_all(bytes: &[u8], steps: &[Step], is_frozen: bool) -> Option<VALUE> {
    if let [step] = steps {
        // SAFETY: the caller says so.
        return unsafe { make_one(bytes, *step, is_frozen) };
    }
    let mut open = Open { values: [0; MAX_DEPTH + 1], depth: 0, key: None, made: None };
    for step in steps {
        // SAFETY: the caller says so; what is made is on the stack or in what is.
        unsafe {
            match step {
                Step::Key(span) => open.key = Some(shared_text(utf8(span.of(bytes)))),
                Step::End => open.end(is_frozen)?,
                step => {
                    let made = make_one(bytes, *step, is_frozen)?;
                    open.add(made)?;
                    if matches!(step, Step::Array(_) | Step::Hash) {
                        *open.values.get_mut(open.depth)? = made;
                        open.depth += 1;
                    }
                }
            }
        }
    }
    std::hint::black_box(&open);
    open.made
}

impl Open {
    /// Adds a value to the array or hash around it. An array or hash is added before it has anything.
    ///
    /// # Safety
    /// As [`make_all`].
    unsafe fn add(&mut self, value: VALUE) -> Option<()> {
        // SAFETY: a key is set for a hash alone, and the decoder sets one before each value of a hash.
        unsafe {
            match (self.depth.checked_sub(1), self.key.take()) {
                (None, _) => self.made = Some(value),
                (Some(around), Some(key)) => _ = sys::rb_hash_aset(*self.values.get(around)?, key, value),
                (Some(around), None) => _ = sys::rb_ary_push(*self.values.get(around)?, value),
            }
        }
        Some(())
    }

    /// # Safety
    /// As [`make_all`].
    unsafe fn end(&mut self, is_frozen: bool) -> Option<()> {
        self.depth = self.depth.checked_sub(1)?;
        if is_frozen {
            // SAFETY: it is an array or a hash, of this thread alone.
            unsafe { sys::rb_obj_freeze(*self.values.get(self.depth)?) };
        }
        Some(())
    }
}

/// # Safety
/// As [`make_all`].
unsafe fn make_one(bytes: &[u8], step: Step, is_frozen: bool) -> Option<VALUE> {
    // SAFETY: the caller says so.
    unsafe {
        Some(match step {
            Step::Nil => constants().nil,
            Step::Boolean(true) => constants().yes,
            Step::Boolean(false) => constants().no,
            Step::Integer(number) => sys::rb_ll2inum(number),
            Step::Unsigned(number) => sys::rb_ull2inum(number),
            Step::Float(number) => sys::rb_float_new(number),
            Step::Text(span) => frozen_if(is_frozen, new_text(utf8(span.of(bytes)))),
            Step::Bytes(span) => frozen_if(is_frozen, new_bytes(span.of(bytes))),
            Step::Time(seconds, nanoseconds) => {
                let time = timespec { seconds, nanoseconds: c_long::from(nanoseconds) };
                frozen_if(is_frozen, sys::rb_time_timespec_new(&time, sys::UTC))
            }
            Step::Array(elements) => sys::rb_ary_new_capa(elements as c_long),
            Step::Hash => sys::rb_hash_new(),
            Step::Key(_) | Step::End => return None,
        })
    }
}

/// # Safety
/// As [`make_all`].
unsafe fn frozen_if(is_frozen: bool, object: VALUE) -> VALUE {
    // SAFETY: the caller says so.
    if is_frozen { unsafe { sys::rb_obj_freeze(object) } } else { object }
}

/// The decoder has checked it.
fn utf8(bytes: &[u8]) -> &str {
    debug_assert!(std::str::from_utf8(bytes).is_ok());
    // SAFETY: the steps are those of the decoder, which has made this of a text.
    unsafe { std::str::from_utf8_unchecked(bytes) }
}

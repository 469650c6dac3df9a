//! Strings: their bytes and encodings.

use super::sys::{self, VALUE};
use super::{Ruby, Value, constants};
use crate::raised::Result;
use std::ffi::{c_char, c_long};

/// Where a string has the number of its bytes: no function of Ruby tells it but methods, which a hit need not call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Layout {
    /// From Ruby 3.2 on: behind the flags and the class.
    Length,
    /// Before: there, or in the flags if the string is short.
    LengthOrFlags,
    /// Of another Ruby: its method `bytesize` is asked.
    Unknown,
}

/// How often a length is compared, so that a layout is no coincidence.
const LENGTHS: [usize; 12] = [0, 1, 2, 7, 15, 22, 23, 24, 64, 255, 1_000, 70_000];

impl Layout {
    /// Tries which it is.
    pub(super) fn of_this_ruby() -> Self {
        let fits = |layout: &Layout| {
            LENGTHS.iter().all(|&length| {
                // SAFETY: it is a string of its own, and as long as that.
                let string = unsafe { sys::rb_str_new(std::ptr::null(), length as c_long) };
                let found = layout.length(string);
                std::hint::black_box(string);
                found == Some(length)
            })
        };
        [Layout::Length, Layout::LengthOrFlags].into_iter().find(fits).unwrap_or(Layout::Unknown)
    }

    #[inline]
    fn length(self, string: VALUE) -> Option<usize> {
        /// That the bytes are elsewhere.
        const IS_LONG: usize = 1 << 13;
        const SHORT_LENGTH_SHIFT: u32 = 14;
        const SHORT_LENGTHS: usize = 0x1f;
        let words = string as *const usize;
        // SAFETY: an object of Ruby has five words at least, and nothing writes to them while this thread has the GVL.
        let (flags, length) = unsafe { (words.read(), words.add(2).read()) };
        match self {
            Layout::LengthOrFlags if flags & IS_LONG == 0 => {
                Some((flags >> SHORT_LENGTH_SHIFT) & SHORT_LENGTHS)
            }
            Layout::Length | Layout::LengthOrFlags => Some(length),
            Layout::Unknown => None,
        }
    }
}

/// What the bytes of a string are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Encoding {
    /// UTF-8, which it may violate, or only ASCII.
    Utf8,
    Binary,
    /// Letters beyond ASCII in another one.
    Other,
}

impl<'r> Value<'r> {
    /// The bytes of a string. They are valid until Ruby runs any code or collects garbage.
    ///
    /// # Safety
    /// It is a string, and no function of Ruby is called while the bytes are in use.
    #[inline]
    pub(crate) unsafe fn borrow_bytes<'a>(self) -> &'a [u8] {
        debug_assert!(self.is_string());
        let mut raw = self.raw();
        let length = constants().string_layout.length(raw).unwrap_or_else(|| asked_length(self));
        // SAFETY: of a string it raises nothing.
        let start = unsafe { sys::rb_string_value_ptr(&mut raw) };
        // SAFETY: the string has so many bytes there, and the caller lets nobody change them.
        unsafe { std::slice::from_raw_parts(start.cast(), length) }
    }

    /// A copy of the bytes of a string.
    pub(crate) fn bytes(self) -> Vec<u8> {
        assert!(self.is_string(), "the caller has checked it");
        // SAFETY: it is a string, and nothing of Ruby is called.
        unsafe { self.borrow_bytes() }.to_vec()
    }

    /// The text of a string that is UTF-8, also of one that says its bytes are binary: servers evaluate programs so. `None` for
    /// what is none.
    pub(crate) fn text(self) -> Option<String> {
        if !self.is_string() || self.encoding() == Encoding::Other {
            return None;
        }
        String::from_utf8(self.bytes()).ok()
    }

    /// The text of a string, for messages.
    pub(crate) fn lossy_text(self) -> String {
        if self.is_string() { String::from_utf8_lossy(&self.bytes()).into_owned() } else { "?".to_owned() }
    }

    /// Of a string.
    #[inline]
    pub(crate) fn encoding(self) -> Encoding {
        debug_assert!(self.is_string());
        let known = constants();
        // SAFETY: it is a string.
        let index = unsafe { sys::rb_enc_get_index(self.raw()) };
        if index == known.utf8 {
            return Encoding::Utf8;
        }
        if index == known.binary {
            return Encoding::Binary;
        }
        // SAFETY: it is a string.
        let is_ascii = unsafe { sys::rb_enc_str_asciionly_p(self.raw()) } != 0;
        if is_ascii { Encoding::Utf8 } else { Encoding::Other }
    }

    /// Whether a string is what it says: UTF-8 may be invalid.
    pub(crate) fn is_valid(self) -> bool {
        // SAFETY: it is a string, and nothing of Ruby is called.
        self.encoding() == Encoding::Binary || std::str::from_utf8(unsafe { self.borrow_bytes() }).is_ok()
    }

    /// Whether a string says that it is UTF-8.
    pub(crate) fn is_utf8(self) -> bool {
        // SAFETY: it is a string.
        unsafe { sys::rb_enc_get_index(self.raw()) == constants().utf8 }
    }

    /// Whether a string says that it is UTF-8 or binary: one of another encoding is read back with another one.
    pub(crate) fn has_common_encoding(self) -> bool {
        // SAFETY: it is a string.
        let index = unsafe { sys::rb_enc_get_index(self.raw()) };
        index == constants().utf8 || index == constants().binary
    }
}

#[cold]
fn asked_length(string: Value<'_>) -> usize {
    // SAFETY: the thread has the GVL. Of a string it raises nothing, and returns an integer.
    let length = unsafe { sys::rb_funcallv(string.raw(), constants().bytesize, 0, std::ptr::null()) };
    let length: Value<'_> = Value::new(length);
    length.to_i64().unwrap_or(0) as usize
}

impl<'r> Ruby<'r> {
    pub(crate) fn text(self, text: &str) -> Result<Value<'r>> {
        // SAFETY: Ruby copies the text.
        self.protect(|| unsafe { new_text(text) }).map(|raw| self.value(raw))
    }

    pub(crate) fn bytes(self, bytes: &[u8]) -> Result<Value<'r>> {
        // SAFETY: Ruby copies the bytes.
        self.protect(|| unsafe { new_bytes(bytes) }).map(|raw| self.value(raw))
    }
}

/// # Safety
/// The thread has the GVL. It raises where there is no memory.
pub(super) unsafe fn new_text(text: &str) -> VALUE {
    // SAFETY: the text is valid for its length.
    unsafe { sys::rb_utf8_str_new(text.as_ptr().cast::<c_char>(), text.len() as c_long) }
}

/// # Safety
/// As [`new_text`].
pub(super) unsafe fn new_bytes(bytes: &[u8]) -> VALUE {
    // SAFETY: the bytes are valid for their length.
    unsafe { sys::rb_str_new(bytes.as_ptr().cast::<c_char>(), bytes.len() as c_long) }
}

/// A frozen text, of which Ruby has one.
///
/// # Safety
/// As [`new_text`].
pub(super) unsafe fn shared_text(text: &str) -> VALUE {
    // SAFETY: the text is valid for its length, and Ruby has the encoding.
    unsafe {
        let encoding = sys::rb_utf8_encoding();
        sys::rb_enc_interned_str(text.as_ptr().cast::<c_char>(), text.len() as c_long, encoding)
    }
}

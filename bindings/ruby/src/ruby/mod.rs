//! A safe layer over the C functions of Ruby: values, what is called under `rb_protect`, methods and objects of this library, and
//! waits without the lock of the interpreter, the GVL.
//!
//! A [`Ruby`] exists only on a thread that has the GVL, and its [`Value`]s live as long as the call of that thread.
//!
//! Ruby raises with `longjmp`, which runs no destructor. So every function that may raise is called by [`Ruby::protect`], whose
//! closures are `Copy` and thus have none, or last, by [`method`]. Garbage collection finds values on the stacks of threads,
//! also in frames of Rust, and in no memory of Rust's own: a value that is kept there must be in an object of Ruby too.

pub(crate) mod data;
pub(crate) mod gvl;
pub(crate) mod hash;
pub(crate) mod kept;
pub(crate) mod make;
pub(crate) mod method;
mod protect;
pub(crate) mod string;
mod sys;
pub(crate) mod value;

pub(crate) use protect::Jump;
pub(crate) use value::Value;

use crate::raised::Result;
use std::ffi::{CStr, c_long};
use std::marker::PhantomData;
use std::sync::OnceLock;
use sys::{ID, VALUE};

/// A thread that has the GVL.
#[derive(Clone, Copy)]
pub(crate) struct Ruby<'r> {
    /// Neither `Send` nor `Sync`.
    scope: PhantomData<(*mut (), &'r ())>,
}

/// What is looked up once, when the library is loaded.
struct Constants {
    nil: VALUE,
    yes: VALUE,
    no: VALUE,
    /// The module `Larder`.
    larder: VALUE,
    /// `Larder::MISSED`.
    missed: VALUE,
    /// The module `Marshal`.
    marshal: VALUE,
    /// Whether an object has its class, or one of its own, behind its flags.
    class_is_second_word: bool,
    utf8: i32,
    binary: i32,
    string_layout: string::Layout,
    length: ID,
    bytesize: ID,
}

static CONSTANTS: OnceLock<Constants> = OnceLock::new();

#[inline]
fn constants() -> &'static Constants {
    CONSTANTS.get().expect("Ruby calls nothing before Init_core")
}

impl<'r> Ruby<'r> {
    /// # Safety
    /// Ruby has just called this thread, and `'r` ends before that call returns.
    pub(crate) unsafe fn new() -> Self {
        Ruby { scope: PhantomData }
    }

    /// Looks up what all other functions need.
    ///
    /// # Safety
    /// As [`Ruby::new`], in `Init_core`, before everything else here.
    pub(crate) unsafe fn begin() -> Self {
        // SAFETY: the caller says so.
        let ruby = unsafe { Ruby::new() };
        // SAFETY: none of these programs raises, and a module with a constant is never freed.
        let constants = unsafe {
            Constants {
                // They differ between versions of Ruby.
                nil: sys::rb_eval_string(c"nil".as_ptr()),
                yes: sys::rb_eval_string(c"true".as_ptr()),
                no: sys::rb_eval_string(c"false".as_ptr()),
                larder: sys::rb_define_module(c"Larder".as_ptr()),
                missed: sys::rb_eval_string(c"Larder::MISSED".as_ptr()),
                marshal: sys::rb_eval_string(c"Marshal".as_ptr()),
                class_is_second_word: class_is_second_word(),
                utf8: sys::rb_utf8_encindex(),
                binary: sys::rb_ascii8bit_encindex(),
                string_layout: string::Layout::of_this_ruby(),
                length: intern("length"),
                bytesize: intern("bytesize"),
            }
        };
        // A library is loaded once; the second time nothing would differ.
        _ = CONSTANTS.set(constants);
        // SAFETY: they have constants, and this keeps them where they are.
        unsafe {
            sys::rb_gc_register_mark_object(self::constants().larder);
            sys::rb_gc_register_mark_object(self::constants().missed);
            sys::rb_gc_register_mark_object(self::constants().marshal);
        }
        kept::begin(ruby);
        ruby
    }

    /// A value that Ruby has made on this thread.
    #[inline]
    fn value(self, raw: VALUE) -> Value<'r> {
        Value::new(raw)
    }

    #[inline]
    pub(crate) fn nil(self) -> Value<'r> {
        self.value(constants().nil)
    }

    #[inline]
    pub(crate) fn boolean(self, boolean: bool) -> Value<'r> {
        self.value(if boolean { constants().yes } else { constants().no })
    }

    pub(crate) fn integer(self, number: i64) -> Result<Value<'r>> {
        // SAFETY: the thread has the GVL.
        self.protect(|| unsafe { sys::rb_ll2inum(number) }).map(|raw| self.value(raw))
    }

    pub(crate) fn count(self, number: u64) -> Result<Value<'r>> {
        // SAFETY: the thread has the GVL.
        self.protect(|| unsafe { sys::rb_ull2inum(number) }).map(|raw| self.value(raw))
    }

    pub(crate) fn float(self, number: f64) -> Result<Value<'r>> {
        // SAFETY: the thread has the GVL.
        self.protect(|| unsafe { sys::rb_float_new(number) }).map(|raw| self.value(raw))
    }

    /// An array of values, which must be in other objects or on the stack until then.
    pub(crate) fn array(self, elements: &[Value<'r>]) -> Result<Value<'r>> {
        let array = self.protect(|| {
            // SAFETY: the thread has the GVL, and the array is one.
            unsafe {
                let array = sys::rb_ary_new_capa(elements.len() as c_long);
                for element in elements {
                    sys::rb_ary_push(array, element.raw());
                }
                array
            }
        })?;
        Ok(self.value(array))
    }

    /// Adds an element to an array of this library.
    pub(crate) fn push(self, array: Value<'r>, element: Value<'r>) -> Result<()> {
        // SAFETY: it is an array.
        self.protect(|| unsafe { sys::rb_ary_push(array.raw(), element.raw()) }).map(|_| ())
    }

    pub(crate) fn symbol(self, name: &str) -> Value<'r> {
        // SAFETY: the names are few and those of this library.
        self.value(unsafe { sys::rb_id2sym(intern(name)) })
    }

    /// A constant of `Larder`.
    pub(crate) fn constant(self, name: &str) -> Result<Value<'r>> {
        // SAFETY: the thread has the GVL, and the module is one.
        self.protect(|| unsafe { sys::rb_const_get(constants().larder, intern(name)) })
            .map(|raw| self.value(raw))
    }

    /// A class under `Larder`, of which only this library makes objects.
    pub(crate) fn class(self, name: &CStr) -> Result<Value<'r>> {
        let class = self.protect(|| {
            // SAFETY: the thread has the GVL, and the name ends with a zero.
            unsafe {
                let class = sys::rb_define_class_under(constants().larder, name.as_ptr(), sys::rb_cObject);
                sys::rb_undef_alloc_func(class);
                class
            }
        })?;
        Ok(self.value(class))
    }

    /// The class of all numbers.
    pub(crate) fn numeric(self) -> Value<'r> {
        // SAFETY: it is a constant of Ruby.
        self.value(unsafe { sys::rb_cNumeric })
    }

    /// What stands for a value that is not there, as `nil` does not.
    #[inline]
    pub(crate) fn missed(self) -> Value<'r> {
        self.value(constants().missed)
    }

    /// Whether this is a fiber that must not block its thread.
    pub(crate) fn has_fiber_scheduler(self) -> bool {
        // SAFETY: the thread has the GVL; it raises nothing.
        unsafe { sys::rb_fiber_scheduler_current() != constants().nil }
    }

    /// The module `Larder`.
    pub(crate) fn larder(self) -> Value<'r> {
        self.value(constants().larder)
    }
}

/// Whether objects of this Ruby have their class where those of all others have it.
fn class_is_second_word() -> bool {
    // SAFETY: the objects are made here, and their classes are those of Ruby itself.
    unsafe {
        second_word(sys::rb_str_new(std::ptr::null(), 0)) == sys::rb_cString
            && second_word(sys::rb_ary_new_capa(0)) == sys::rb_cArray
            && second_word(sys::rb_hash_new()) == sys::rb_cHash
    }
}

/// The second word of an object, which is no immediate.
fn second_word(object: VALUE) -> usize {
    // SAFETY: an object of Ruby has five words at least, and nothing writes to them while this thread has the GVL.
    unsafe { (object as *const usize).add(1).read() }
}

/// The id of a name of this library.
fn intern(name: &str) -> ID {
    // SAFETY: the text is valid for its length; Ruby has such a name already, or memory for it.
    unsafe { sys::rb_intern2(name.as_ptr().cast(), name.len() as c_long) }
}

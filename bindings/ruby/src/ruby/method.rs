//! Methods that Ruby calls: each enters Rust here, and leaves it here with a value or by a raise.

use super::sys::{self, VALUE};
use super::{Jump, Ruby, Value};
use crate::raised::{Raised, Result};
use std::ffi::{CStr, c_int, c_long};
use std::panic::{AssertUnwindSafe, catch_unwind};

/// What was passed to a method.
#[derive(Clone, Copy)]
pub(crate) struct Arguments<'r> {
    /// The object whose method it is.
    pub(crate) this: Value<'r>,
    given: &'r [Value<'r>],
    nil: Value<'r>,
}

impl<'r> Arguments<'r> {
    /// An argument; `nil` for one that was not passed.
    #[inline]
    pub(crate) fn get(&self, index: usize) -> Value<'r> {
        self.given.get(index).copied().unwrap_or(self.nil)
    }

    /// All of them.
    pub(crate) fn all(&self) -> &'r [Value<'r>] {
        self.given
    }
}

/// A method by its name, for [`Ruby::add_methods`]. [`methods`] makes it.
pub(crate) struct Method {
    pub(crate) name: &'static CStr,
    pub(crate) call: sys::Method,
}

/// A list of [`Method`]s: `methods![c"hit" => find (1..=2)]`, with the least and the highest number of arguments.
macro_rules! methods {
    ($($name:literal => $function:path, $least:literal ..= $most:literal);* $(;)?) => {
        &[$({
            unsafe extern "C" fn method(
                count: std::ffi::c_int,
                arguments: *const usize,
                this: usize,
            ) -> usize {
                // SAFETY: Ruby calls this thread, with so many arguments.
                unsafe { $crate::ruby::method::enter(count, arguments, this, ($least, $most), $function) }
            }
            $crate::ruby::method::Method { name: $name, call: method }
        }),*]
    };
}
pub(crate) use methods;

/// How a method ends: nothing of it has to be dropped.
#[derive(Clone, Copy)]
enum End {
    Return(VALUE),
    Raise(VALUE),
    Jump(c_int),
}

/// Enters Rust.
///
/// # Safety
/// Ruby calls this thread, with so many arguments.
#[inline]
pub(crate) unsafe fn enter<'r>(
    count: c_int,
    arguments: *const VALUE,
    this: VALUE,
    (least, most): (c_int, c_int),
    function: fn(Ruby<'r>, Arguments<'r>) -> Result<Value<'r>>,
) -> VALUE {
    if !(least..=most).contains(&count) {
        // SAFETY: nothing has to be dropped.
        unsafe { sys::rb_error_arity(count, least, most) }
    }
    // SAFETY: the caller says so, and the values are those of its call.
    let (ruby, given) = unsafe {
        // Without arguments Ruby may pass no address.
        let given: &[Value<'r>] =
            if count == 0 { &[] } else { std::slice::from_raw_parts(arguments.cast(), count as usize) };
        (Ruby::new(), given)
    };
    let given = Arguments { this: Value::new(this), given, nil: ruby.nil() };
    let called = catch_unwind(AssertUnwindSafe(|| end_of(ruby, function(ruby, given))));
    let end = match called {
        Ok(end) => end,
        Err(_) => end_of(ruby, Err(Raised::panicked())),
    };
    // SAFETY: nothing is left to be dropped here, nor in the function that calls this for Ruby.
    unsafe {
        match end {
            End::Return(value) => value,
            End::Raise(exception) => sys::rb_exc_raise(exception),
            End::Jump(state) => Jump::resume(state),
        }
    }
}

fn end_of<'r>(ruby: Ruby<'r>, result: Result<Value<'r>>) -> End {
    let raised = match result {
        Ok(value) => return End::Return(value.raw()),
        Err(raised) => raised,
    };
    match raised.into_exception(ruby) {
        Ok(exception) => End::Raise(exception.raw()),
        Err(Raised::Jump(jump)) => End::Jump(jump.state()),
        // A panic in what makes exceptions.
        Err(Raised::Larder(error)) => {
            let text = error.message.as_ptr().cast();
            // SAFETY: the text is valid for its length. Where there is no memory, a few bytes are lost.
            End::Raise(unsafe {
                sys::rb_exc_new(sys::rb_eStandardError, text, error.message.len() as c_long)
            })
        }
    }
}

impl<'r> Ruby<'r> {
    /// Gives the objects of a class these methods.
    pub(crate) fn add_methods(self, class: Value<'r>, methods: &'static [Method]) -> Result<()> {
        self.protect(|| {
            for Method { name, call } in methods {
                // SAFETY: the thread has the GVL, and the name ends with a zero.
                unsafe { sys::rb_define_method(class.raw(), name.as_ptr(), *call, -1) };
            }
        })
    }

    /// Gives a class or a module these methods of its own.
    pub(crate) fn add_functions(self, module: Value<'r>, functions: &'static [Method]) -> Result<()> {
        self.protect(|| {
            for Method { name, call } in functions {
                // SAFETY: as above.
                unsafe { sys::rb_define_singleton_method(module.raw(), name.as_ptr(), *call, -1) };
            }
        })
    }
}

/// Runs `begin` as the library is loaded, and raises what it returns.
///
/// # Safety
/// Ruby calls this thread, in `Init_core`.
pub(crate) unsafe fn load(begin: impl for<'r> FnOnce(Ruby<'r>) -> Result<()>) {
    let loaded = catch_unwind(AssertUnwindSafe(|| {
        // SAFETY: the caller says so.
        let ruby = unsafe { Ruby::begin() };
        end_of(ruby, begin(ruby).map(|()| ruby.nil()))
    }));
    // SAFETY: nothing is left to be dropped.
    unsafe {
        match loaded {
            Ok(End::Raise(exception)) => sys::rb_exc_raise(exception),
            Ok(End::Jump(state)) => Jump::resume(state),
            Ok(End::Return(_)) => {}
            // The panic hook has reported it, and the library defines less than it should.
            Err(_) => {}
        }
    }
}

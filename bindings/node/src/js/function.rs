//! Functions that JavaScript calls, and calling those of JavaScript.

use super::{Env, Value};
use crate::environment::Environment;
use crate::raised::{Raised, Result};
use napi_sys as sys;
use napi_sys::{napi_callback_info, napi_env, napi_value};
use std::ffi::c_void;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr::null_mut;

/// The most arguments of a function.
const MAX_ARGUMENTS: usize = 7;

/// What was passed; what was not is `undefined`.
pub(crate) type Arguments<'s> = [Value<'s>; MAX_ARGUMENTS];

/// A function of this library, by its name.
pub(crate) struct Function {
    pub(crate) name: &'static str,
    pub(crate) call: for<'s> fn(Env<'s>, &Arguments<'s>) -> Result<Value<'s>>,
}

impl<'s> Env<'s> {
    /// Gives an object these functions.
    pub(crate) fn add_functions(self, object: Value<'s>, functions: &'static [Function]) -> Result<()> {
        for function in functions {
            let data: *const Function = function;
            // SAFETY: `call` takes this data, and it is static.
            let made = unsafe { self.function(function.name, call, data.cast_mut().cast()) }?;
            object.put(self, function.name, made)?;
        }
        Ok(())
    }

    /// A function that keeps a value of Rust until JavaScript forgets it. `callback` gets it from [`called`].
    ///
    /// # Safety
    /// `callback` takes its data for a `T`.
    pub(crate) unsafe fn closure<T>(self, name: &str, callback: Callback, data: T) -> Result<Value<'s>> {
        let data = Box::into_raw(Box::new(data));
        // SAFETY: the caller says that `callback` takes this data, which the finalizer frees.
        let made = unsafe { self.function(name, callback, data.cast()) };
        let made = made.inspect_err(|_| {
            // SAFETY: nobody else has it.
            drop(unsafe { Box::from_raw(data) });
        })?;
        // SAFETY: the function is of this environment, and nothing else frees the data. Without a finalizer they would leak.
        self.check(unsafe {
            sys::napi_add_finalizer(
                self.raw(),
                made.raw(),
                data.cast(),
                Some(finalize::<T>),
                null_mut(),
                null_mut(),
            )
        })?;
        Ok(made)
    }

    /// # Safety
    /// `callback` takes `data`, for as long as JavaScript has the function.
    unsafe fn function(self, name: &str, callback: Callback, data: *mut c_void) -> Result<Value<'s>> {
        let mut function = null_mut();
        // SAFETY: the name has the length that is passed.
        self.check(unsafe {
            sys::napi_create_function(
                self.raw(),
                name.as_ptr().cast(),
                name.len() as isize,
                Some(callback),
                data,
                &mut function,
            )
        })?;
        // SAFETY: Node has made it in this scope.
        Ok(unsafe { Value::new(function) })
    }
}

impl<'s> Value<'s> {
    /// Calls a function. What it throws is pending then.
    pub(crate) fn call(self, env: Env<'s>, arguments: &[Value<'s>]) -> Result<Value<'s>> {
        let arguments: Vec<napi_value> = arguments.iter().map(|argument| argument.raw()).collect();
        let (receiver, mut result) = (env.undefined()?, null_mut());
        // SAFETY: all values are of this environment, and there are as many arguments as is said.
        env.check(unsafe {
            sys::napi_call_function(
                env.raw(),
                receiver.raw(),
                self.raw(),
                arguments.len(),
                arguments.as_ptr(),
                &mut result,
            )
        })?;
        // SAFETY: Node has made it in this scope.
        Ok(unsafe { Value::new(result) })
    }
}

pub(crate) type Callback = unsafe extern "C" fn(napi_env, napi_callback_info) -> napi_value;

/// Frees what a function or an external has kept.
///
/// # Safety
/// `data` is from a box of a `T`.
pub(super) unsafe extern "C" fn finalize<T>(_: napi_env, data: *mut c_void, _: *mut c_void) {
    // SAFETY: the caller says so, and Node finalizes an object once.
    let data = unsafe { Box::from_raw(data.cast::<T>()) };
    _ = catch_unwind(AssertUnwindSafe(|| drop(data)));
}

/// Calls a [`Function`].
unsafe extern "C" fn call(raw: napi_env, info: napi_callback_info) -> napi_value {
    // SAFETY: Node calls this thread, and the data is what `add_functions` has given.
    unsafe {
        called::<Function, MAX_ARGUMENTS>(raw, info, |env, function, given| (function.call)(env, given))
    }
}

/// Runs a function, and throws its error. A panic is an error too: Node has no frames that can be unwound.
///
/// # Safety
/// Node has called this thread with these, and the data of the function is a `T`.
#[inline]
pub(crate) unsafe fn called<T, const N: usize>(
    raw: napi_env,
    info: napi_callback_info,
    run: impl for<'s> FnOnce(Env<'s>, &T, &[Value<'s>; N]) -> Result<Value<'s>>,
) -> napi_value {
    // SAFETY: the caller says so, and the scope ends with this function.
    let env = unsafe { Env::new(raw) };
    let ran = catch_unwind(AssertUnwindSafe(|| {
        let (mut count, mut arguments, mut data) = (N, [null_mut(); N], null_mut());
        // SAFETY: there is room for as many arguments as is said. Those that were not passed are undefined.
        env.check(unsafe {
            sys::napi_get_cb_info(raw, info, &mut count, arguments.as_mut_ptr(), null_mut(), &mut data)
        })?;
        // SAFETY: Node has made them in this scope.
        let arguments = arguments.map(|argument| unsafe { Value::new(argument) });
        // SAFETY: the caller says that it is one.
        let data = unsafe { &*data.cast::<T>() };
        run(env, data, &arguments)
    }));
    match ran {
        Ok(Ok(value)) => value.raw(),
        Ok(Err(raised)) => throw(env, raised),
        Err(_) => throw(env, Raised::panicked()),
    }
}

/// Leaves an error pending, which Node throws when its call returns.
#[cold]
fn throw(env: Env<'_>, raised: Raised) -> napi_value {
    if !matches!(raised, Raised::Pending) {
        let thrown = Environment::of(env).and_then(|environment| raised.into_value(env, environment));
        if let Ok(error) = thrown {
            // SAFETY: the value is of this environment. A failure leaves what is pending then.
            unsafe { sys::napi_throw(env.raw(), error.raw()) };
        }
    }
    null_mut()
}

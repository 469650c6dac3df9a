//! Wakes the thread of an environment from any other thread.

use super::Env;
use crate::raised::Result;
use napi_sys as sys;
use napi_sys::{napi_env, napi_threadsafe_function, napi_value};
use std::ffi::c_void;
use std::ptr::null_mut;
use std::sync::{Mutex, PoisonError};

/// It runs a function on that thread once its event loop has time, until the environment ends.
pub(crate) struct Waker(Mutex<Option<Function>>);

struct Function(napi_threadsafe_function);

// SAFETY: Node lets every thread call it until it is released, which happens under the lock of the waker.
unsafe impl Send for Function {}

/// What runs there.
pub(crate) type Run = for<'s> fn(Env<'s>);

impl Waker {
    /// The event loop does not go on because of it.
    pub(crate) fn new(env: Env<'_>, run: Run) -> Result<Self> {
        let (name, mut made) = (env.text("larder")?, null_mut());
        // SAFETY: without a function of JavaScript `woken` is what is called, and its context is a function.
        env.check(unsafe {
            sys::napi_create_threadsafe_function(
                env.raw(),
                null_mut(),
                null_mut(),
                name.raw(),
                0,
                1,
                null_mut(),
                None,
                run as *mut c_void,
                Some(woken),
                &mut made,
            )
        })?;
        let waker = Waker(Mutex::new(Some(Function(made))));
        waker.hold(env, false)?;
        Ok(waker)
    }

    pub(crate) fn wake(&self) {
        if let Some(Function(function)) = &*self.0.lock().unwrap_or_else(PoisonError::into_inner) {
            let how = sys::ThreadsafeFunctionCallMode::nonblocking;
            // SAFETY: it is not released. Its queue has no bound, so that it is never full.
            unsafe { sys::napi_call_threadsafe_function(*function, null_mut(), how) };
        }
    }

    /// Whether the event loop goes on because of it. `env` must be its environment.
    pub(crate) fn hold(&self, env: Env<'_>, holds: bool) -> Result<()> {
        let locked = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(Function(function)) = &*locked else { return Ok(()) };
        // SAFETY: it is not released, and this is the thread of its environment.
        env.check(unsafe {
            if holds {
                sys::napi_ref_threadsafe_function(env.raw(), *function)
            } else {
                sys::napi_unref_threadsafe_function(env.raw(), *function)
            }
        })
    }

    /// From now on it wakes nobody.
    pub(crate) fn end(&self) {
        if let Some(Function(function)) = self.0.lock().unwrap_or_else(PoisonError::into_inner).take() {
            let how = sys::ThreadsafeFunctionReleaseMode::abort;
            // SAFETY: nobody else has it now.
            unsafe { sys::napi_release_threadsafe_function(function, how) };
        }
    }
}

unsafe extern "C" fn woken(raw: napi_env, _: napi_value, run: *mut c_void, _: *mut c_void) {
    // While the environment ends there is none.
    if raw.is_null() {
        return;
    }
    // SAFETY: `new` has made it of a function of this type.
    let run = unsafe { std::mem::transmute::<*mut c_void, Run>(run) };
    // SAFETY: Node calls this thread with it, and the scope ends with this function.
    run(unsafe { Env::new(raw) });
}

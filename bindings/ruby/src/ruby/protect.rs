//! Calls of functions that may raise.

use super::{Ruby, Value, constants, sys};
use crate::raised::{Raised, Result};
use std::ffi::c_int;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// An exception, a `throw` or the end of a thread, which Ruby has and goes on with when [`Jump::resume`] is called. Until then no
/// other code of Ruby may run.
#[derive(Debug)]
pub(crate) struct Jump(c_int);

impl Jump {
    /// Goes on. The calling frames must have nothing to drop.
    ///
    /// # Safety
    /// The thread is that of the jump, has the GVL, and no frame of Rust up to its caller in Ruby has a destructor to run.
    pub(super) unsafe fn resume(state: c_int) -> ! {
        // SAFETY: the caller says so.
        unsafe { sys::rb_jump_tag(state) }
    }

    pub(super) fn state(&self) -> c_int {
        self.0
    }
}

struct Protected<F, R> {
    call: F,
    /// `None` after a panic too.
    result: Option<R>,
}

impl<'r> Ruby<'r> {
    /// Calls functions of Ruby that may raise. The closure and its result are `Copy`, so that they have no destructor which a
    /// raise would skip; neither may there be one in the frames that the closure calls.
    #[inline]
    pub(super) fn protect<R: Copy>(self, call: impl FnOnce() -> R + Copy) -> Result<R> {
        let (mut protected, mut state) = (Protected { call, result: None }, 0);
        let runs = runs_of(&protected);
        // SAFETY: the thread has the GVL, and `run` takes the address of this.
        unsafe { sys::rb_protect(runs, (&raw mut protected) as usize, &mut state) };
        match protected.result {
            Some(result) if state == 0 => Ok(result),
            _ if state != 0 => Err(Raised::Jump(Jump(state))),
            _ => Err(Raised::panicked()),
        }
    }

    /// The same, and an exception of the class `StandardError` is a value instead: the outer result is that of an interruption.
    pub(super) fn rescue<R: Copy>(
        self,
        call: impl FnOnce() -> R + Copy,
    ) -> Result<std::result::Result<R, Value<'r>>> {
        // SAFETY: the thread has the GVL.
        let before = unsafe { sys::rb_errinfo() };
        match self.protect(call) {
            Ok(result) => Ok(Ok(result)),
            Err(Raised::Jump(jump)) if jump.0 == sys::TAG_RAISE => {
                // SAFETY: an exception is pending, and it is no other one than before afterwards.
                unsafe {
                    let raised = sys::rb_errinfo();
                    if sys::rb_obj_is_kind_of(raised, sys::rb_eStandardError) != constants().yes {
                        return Err(Raised::Jump(jump));
                    }
                    sys::rb_set_errinfo(before);
                    Ok(Err(self.value(raised)))
                }
            }
            Err(other) => Err(other),
        }
    }

    /// Handles what other threads and signals have sent to this thread: it may raise, end or run a handler.
    pub(crate) fn check_interrupts(self) -> Result<()> {
        // SAFETY: the thread has the GVL.
        self.protect(|| unsafe { sys::rb_thread_check_ints() })
    }
}

/// The function that calls this closure.
fn runs_of<F: FnOnce() -> R + Copy, R: Copy>(_: &Protected<F, R>) -> unsafe extern "C" fn(usize) -> usize {
    run::<F, R>
}

unsafe extern "C" fn run<F: FnOnce() -> R + Copy, R: Copy>(protected: usize) -> usize {
    // SAFETY: `protect` passes its own, which nobody else has meanwhile.
    let protected = unsafe { &mut *(protected as *mut Protected<F, R>) };
    let call = protected.call;
    protected.result = catch_unwind(AssertUnwindSafe(call)).ok();
    constants().nil
}

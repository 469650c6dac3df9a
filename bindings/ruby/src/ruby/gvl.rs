//! Waiting without the GVL, and its interruption.

use super::Ruby;
use super::sys::{self, VALUE};
use std::ffi::c_void;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::ptr::null_mut;
use std::sync::atomic::{AtomicBool, Ordering};

/// Whether Ruby wants a thread back: `Thread#kill`, `Thread#raise`, `Timeout`, a signal, or the end of the process.
///
/// Only a flag: Ruby sets it in a handler of signals, where no other thread can be woken. Who waits asks it again and again.
#[derive(Debug)]
pub(crate) struct Interrupt {
    is_set: AtomicBool,
    thread: VALUE,
}

impl Interrupt {
    /// Of this thread, which waits.
    pub(crate) fn new(_: Ruby<'_>) -> Self {
        // SAFETY: the thread has the GVL.
        Interrupt { is_set: AtomicBool::new(false), thread: unsafe { sys::rb_thread_current() } }
    }

    /// For the thread that waits, without the GVL. It asks for signals too: where the main thread waits and others do, Ruby 3.1
    /// only notes a signal, and interrupts nobody.
    pub(crate) fn is_set(&self) -> bool {
        // SAFETY: the thread is that of the caller, and Ruby reads a flag of it.
        self.is_set.load(Ordering::Acquire) || unsafe { sys::rb_thread_interrupted(self.thread) } != 0
    }

    /// The thread now [handles](Ruby::check_interrupts) what it was interrupted for.
    pub(crate) fn clear(&self) {
        self.is_set.store(false, Ordering::Release);
    }
}

struct Waiting<F, R> {
    call: Option<F>,
    result: Option<std::thread::Result<R>>,
}

impl Ruby<'_> {
    /// Calls without the GVL, so that other threads of Ruby run. `None` if an interrupt is pending already: then nothing was
    /// called. Ruby raises nothing here: [`Ruby::check_interrupts`] does.
    pub(crate) fn without_gvl<R: Send>(
        self,
        interrupt: &Interrupt,
        call: impl FnOnce() -> R + Send,
    ) -> Option<R> {
        let mut waiting = Waiting { call: Some(call), result: None };
        let run = run_of(&waiting);
        let flag: *const Interrupt = interrupt;
        // SAFETY: `run` takes the address of this and `interrupted` that of the flag. Both live until the call has ended, after
        // which Ruby has neither. With these flags Ruby does not raise.
        unsafe {
            sys::rb_nogvl(
                run,
                (&raw mut waiting).cast(),
                Some(interrupted),
                flag.cast_mut().cast(),
                sys::RB_NOGVL_INTR_FAIL | sys::RB_NOGVL_UBF_ASYNC_SAFE,
            )
        };
        waiting.result.map(|result| result.unwrap_or_else(|panic| resume_unwind(panic)))
    }
}

/// The function that calls this closure.
fn run_of<F: FnOnce() -> R, R>(_: &Waiting<F, R>) -> unsafe extern "C" fn(*mut c_void) -> *mut c_void {
    run::<F, R>
}

unsafe extern "C" fn run<F: FnOnce() -> R, R>(waiting: *mut c_void) -> *mut c_void {
    // SAFETY: `without_gvl` passes its own, which nobody else has meanwhile.
    let waiting = unsafe { &mut *waiting.cast::<Waiting<F, R>>() };
    if let Some(call) = waiting.call.take() {
        waiting.result = Some(catch_unwind(AssertUnwindSafe(call)));
    }
    null_mut()
}

unsafe extern "C" fn interrupted(interrupt: *mut c_void) {
    // SAFETY: `without_gvl` passes one that lives.
    let interrupt = unsafe { &*interrupt.cast::<Interrupt>() };
    interrupt.is_set.store(true, Ordering::Release);
}

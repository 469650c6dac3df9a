//! Terms that outlive a call, and messages: in memory that belongs to no process.

use super::ffi::{self, RawEnv, RawTerm};
use super::{Env, Pid, Term};
use std::ptr::{NonNull, null_mut};

/// Memory for terms, in which one thread at a time makes them.
struct OwnedEnv(NonNull<RawEnv>);

// SAFETY: it belongs to no process, so that every thread may use and free it, one at a time.
unsafe impl Send for OwnedEnv {}

impl OwnedEnv {
    fn new() -> Self {
        // SAFETY: it has no condition. The emulator ends the program where it has no memory.
        let env = unsafe { ffi::enif_alloc_env() };
        OwnedEnv(NonNull::new(env).expect("the emulator has memory"))
    }

    fn copy(&self, term: Term<'_>) -> RawTerm {
        // SAFETY: both are valid.
        unsafe { ffi::enif_make_copy(self.0.as_ptr(), term.raw()) }
    }
}

impl Drop for OwnedEnv {
    fn drop(&mut self) {
        // SAFETY: nobody else has it. After it was sent it is empty, and must be freed too.
        unsafe { ffi::enif_free_env(self.0.as_ptr()) };
    }
}

/// A term with memory of its own, which does not change any more.
pub(crate) struct SavedTerm {
    env: OwnedEnv,
    raw: RawTerm,
}

// SAFETY: to copy a term only reads it, but for the counts of its large binaries, which are atomic.
unsafe impl Sync for SavedTerm {}

impl SavedTerm {
    /// A copy of a term.
    pub(crate) fn new(term: Term<'_>) -> Self {
        let env = OwnedEnv::new();
        let raw = env.copy(term);
        SavedTerm { env, raw }
    }

    /// A copy for an environment.
    #[inline]
    pub(crate) fn copy_to<'e>(&self, env: Env<'e>) -> Term<'e> {
        // SAFETY: both are valid, and the copy is of that environment.
        unsafe { env.term(ffi::enif_make_copy(env.raw, self.raw)) }
    }
}

impl std::fmt::Debug for SavedTerm {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("SavedTerm").field(&self.env.0).finish_non_exhaustive()
    }
}

/// A process that waits for a message, and the reference by which it knows that message.
pub(crate) struct Recipient {
    pid: Pid,
    env: OwnedEnv,
    reference: RawTerm,
}

impl Recipient {
    /// The calling process.
    pub(crate) fn caller(env: Env<'_>, reference: Term<'_>) -> Self {
        let own = OwnedEnv::new();
        let reference = own.copy(reference);
        Recipient { pid: env.caller(), env: own, reference }
    }

    /// Sends `{reference, message}`, if the process lives.
    pub(crate) fn send(self, make: impl for<'e> FnOnce(Env<'e>) -> Term<'e>) {
        // SAFETY: it is valid until `self` is sent, and nobody else has it.
        let env = unsafe { Env::new(self.env.0.as_ptr()) };
        // SAFETY: it was copied into this environment.
        let reference = unsafe { env.term(self.reference) };
        let message = env.tuple([reference, make(env)]).raw();
        if is_thread_of_emulator() {
            // There a message needs the environment of the call, which a destructor does not have.
            _ = std::thread::Builder::new().spawn(move || self.deliver(message));
        } else {
            self.deliver(message);
        }
    }

    fn deliver(self, message: RawTerm) {
        // SAFETY: the message is of this environment, and this is no thread of the emulator.
        unsafe { ffi::enif_send(null_mut(), &self.pid, self.env.0.as_ptr(), message) };
    }
}

/// Whether this thread is one of the emulator's.
fn is_thread_of_emulator() -> bool {
    const UNDEFINED: i32 = 0;
    // SAFETY: it has no condition.
    (unsafe { ffi::enif_thread_type() }) != UNDEFINED
}

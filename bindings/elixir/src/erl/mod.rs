//! A safe layer over the functions of the emulator: terms, functions that it calls, and what outlives a call.
//!
//! An [`Env`] exists while the emulator calls Rust, or while Rust makes terms in memory of their own. Its terms live as long: `'e`.

pub(crate) mod atom;
mod builder;
mod ffi;
mod make;
pub(crate) mod nif;
mod owned;
pub(crate) mod resource;
mod term;

pub(crate) use builder::Builder;
pub(crate) use ffi::{Nif, Pid, RawEnv, RawTerm};
pub(crate) use owned::{Recipient, SavedTerm};
pub(crate) use term::{Kind, Term};

use std::marker::PhantomData;

/// What terms are made in: the process that calls, or memory of its own.
#[derive(Clone, Copy)]
pub(crate) struct Env<'e> {
    raw: *mut RawEnv,
    /// Neither `Send` nor `Sync`.
    scope: PhantomData<(*mut (), &'e ())>,
}

impl<'e> Env<'e> {
    /// # Safety
    /// The environment is valid for `'e`, and no other thread uses it meanwhile.
    unsafe fn new(raw: *mut RawEnv) -> Self {
        Env { raw, scope: PhantomData }
    }

    /// # Safety
    /// It is a term of this environment, or an atom.
    unsafe fn term(self, raw: RawTerm) -> Term<'e> {
        // SAFETY: the caller says so.
        unsafe { Term::new(self, raw) }
    }

    /// The process that calls. Of an environment that the emulator has called with.
    pub(crate) fn caller(self) -> Pid {
        let mut pid = Pid(0);
        // SAFETY: the emulator writes a process into it.
        unsafe { ffi::enif_self(self.raw, &mut pid) };
        pid
    }

    /// Takes a share of the time that the process has before another one runs: from 1 to 100.
    pub(crate) fn consume_timeslice(self, percent: usize) {
        // SAFETY: the number is within its range. What it returns matters to functions that go on working.
        unsafe { ffi::enif_consume_timeslice(self.raw, percent.clamp(1, 100) as i32) };
    }
}

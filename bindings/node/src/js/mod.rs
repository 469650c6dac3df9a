//! A safe layer over Node-API: values of JavaScript, functions that it calls, and what outlives a call.
//!
//! An [`Env`] exists only on the thread of its environment, and only while that calls Rust. Its values live as long: `'s` is the
//! scope of that call.

pub(crate) mod external;
pub(crate) mod function;
pub(crate) mod instance;
pub(crate) mod promise;
pub(crate) mod reference;
mod value;
pub(crate) mod waker;

pub(crate) use value::{Kind, Value};

use crate::raised::{Raised, Result};
use napi_sys as sys;
use napi_sys::{Status, napi_env, napi_status};
use std::marker::PhantomData;
use std::ptr::null_mut;

/// An environment of Node, the main thread's or a worker's, during a call of it.
#[derive(Clone, Copy)]
pub(crate) struct Env<'s> {
    raw: napi_env,
    /// Neither `Send` nor `Sync`.
    scope: PhantomData<(*mut (), &'s ())>,
}

impl<'s> Env<'s> {
    /// # Safety
    /// Node has just called this thread with that environment, and `'s` ends before that call returns.
    pub(crate) unsafe fn new(raw: napi_env) -> Self {
        Env { raw, scope: PhantomData }
    }

    pub(crate) fn raw(self) -> napi_env {
        self.raw
    }

    /// What code of the program has thrown, which is not pending any more.
    pub(crate) fn take_pending(self) -> Result<Value<'s>> {
        let mut pending = null_mut();
        // SAFETY: the environment is valid.
        self.check(unsafe { sys::napi_get_and_clear_last_exception(self.raw, &mut pending) })?;
        // SAFETY: Node has made it in this scope.
        Ok(unsafe { Value::new(pending) })
    }

    /// What a call of Node-API says about itself.
    pub(crate) fn check(self, status: napi_status) -> Result<()> {
        match status {
            Status::napi_ok => Ok(()),
            Status::napi_pending_exception => Err(Raised::Pending),
            other => Err(Raised::fault(format!("Node-API answered {other}"))),
        }
    }
}

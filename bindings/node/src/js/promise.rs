//! Promises that are settled later, and the scope in which that happens.

use super::{Env, Value};
use crate::raised::Result;
use napi_sys as sys;
use napi_sys::{napi_deferred, napi_handle_scope};
use std::ptr::null_mut;

/// A promise that is not settled. Those of an environment end with it.
#[derive(Debug)]
pub(crate) struct Deferred(napi_deferred);

// SAFETY: only `settle` uses it, which takes its environment.
unsafe impl Send for Deferred {}

impl<'s> Env<'s> {
    pub(crate) fn promise(self) -> Result<(Deferred, Value<'s>)> {
        let (mut deferred, mut promise) = (null_mut(), null_mut());
        // SAFETY: the environment is valid.
        self.check(unsafe { sys::napi_create_promise(self.raw(), &mut deferred, &mut promise) })?;
        // SAFETY: Node has made it in this scope.
        Ok((Deferred(deferred), unsafe { Value::new(promise) }))
    }

    /// Runs something whose values are not needed afterwards: of many results each one is forgotten at once.
    pub(crate) fn scoped(self, run: impl FnOnce(Env<'_>) -> Result<()>) -> Result<()> {
        struct Scope<'s>(Env<'s>, napi_handle_scope);

        impl Drop for Scope<'_> {
            fn drop(&mut self) {
                // SAFETY: it is open, and what was made in it is not used any more.
                unsafe { sys::napi_close_handle_scope(self.0.raw(), self.1) };
            }
        }

        let mut scope = null_mut();
        // SAFETY: the environment is valid.
        self.check(unsafe { sys::napi_open_handle_scope(self.raw(), &mut scope) })?;
        let scope = Scope(self, scope);
        run(scope.0)
    }
}

impl Deferred {
    /// Fulfils the promise with a value, or rejects it with an error. `env` must be its environment.
    pub(crate) fn settle<'s>(
        self,
        env: Env<'s>,
        result: std::result::Result<Value<'s>, Value<'s>>,
    ) -> Result<()> {
        // SAFETY: the promise is of this environment, and is settled once.
        env.check(unsafe {
            match result {
                Ok(value) => sys::napi_resolve_deferred(env.raw(), self.0, value.raw()),
                Err(error) => sys::napi_reject_deferred(env.raw(), self.0, error.raw()),
            }
        })
    }
}

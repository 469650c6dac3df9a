//! Objects of JavaScript that Rust keeps, on whatever thread it lets go of them.

use super::{Env, Value};
use crate::raised::Result;
use napi_sys as sys;
use napi_sys::napi_ref;
use std::ptr::null_mut;
use std::sync::{Arc, Mutex, PoisonError};

/// The references of one environment that nobody needs any more: its thread deletes them.
#[derive(Debug, Default)]
pub(crate) struct Dropped(Mutex<Vec<Raw>>);

#[derive(Debug)]
struct Raw(napi_ref);

// SAFETY: only the thread of its environment uses it, `Reference::value` and `Dropped::delete` see to that.
unsafe impl Send for Raw {}
// SAFETY: as above.
unsafe impl Sync for Raw {}

impl Dropped {
    fn push(&self, raw: Raw) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(raw);
    }

    /// Deletes them. `env` must be their environment.
    pub(crate) fn delete(&self, env: Env<'_>) {
        let dropped = std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner));
        for Raw(reference) in dropped {
            // SAFETY: it was made in this environment, and its only owner has dropped it. There is nothing to do about a failure.
            unsafe { sys::napi_delete_reference(env.raw(), reference) };
        }
    }
}

/// An object that stays alive while there are clones of this. It is of one environment: others do not see it.
///
/// When an environment ends, Node lets go of its objects. Then nobody calls [`Dropped::delete`] any more.
#[derive(Clone, Debug)]
pub(crate) struct Reference(Arc<Owned>);

#[derive(Debug)]
struct Owned {
    raw: Raw,
    environment: Arc<Dropped>,
}

impl Drop for Owned {
    fn drop(&mut self) {
        self.environment.push(Raw(self.raw.0));
    }
}

impl Reference {
    /// `dropped` must be that of this environment, and `object` an object or a function.
    pub(crate) fn new(env: Env<'_>, dropped: &Arc<Dropped>, object: Value<'_>) -> Result<Self> {
        let mut raw = null_mut();
        // SAFETY: the value is of this environment.
        env.check(unsafe { sys::napi_create_reference(env.raw(), object.raw(), 1, &mut raw) })?;
        Ok(Reference(Arc::new(Owned { raw: Raw(raw), environment: dropped.clone() })))
    }

    /// Whether it is of the environment that has this.
    #[inline]
    pub(crate) fn is_of(&self, dropped: &Arc<Dropped>) -> bool {
        Arc::ptr_eq(&self.0.environment, dropped)
    }

    /// The object, in its own environment; in another one `None`.
    pub(crate) fn value<'s>(&self, env: Env<'s>) -> Result<Option<Value<'s>>> {
        let environment = crate::environment::Environment::of(env)?;
        if self.is_of(environment.dropped()) { self.value_here(env).map(Some) } else { Ok(None) }
    }

    /// The object. `env` must be its environment, see [`Reference::is_of`].
    #[inline]
    pub(crate) fn value_here<'s>(&self, env: Env<'s>) -> Result<Value<'s>> {
        let mut object = null_mut();
        // SAFETY: the caller knows that it is of this environment, and it is not deleted before it is dropped.
        env.check(unsafe { sys::napi_get_reference_value(env.raw(), self.0.raw.0, &mut object) })?;
        // SAFETY: Node has made it in this scope.
        Ok(unsafe { Value::new(object) })
    }
}

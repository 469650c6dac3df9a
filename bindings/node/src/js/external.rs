//! Values of Rust that JavaScript holds and cannot look into.

use super::function::finalize;
use super::{Env, Kind, Value};
use crate::cache::CacheHandle;
use crate::lease::{BulkLoad, Due, Load};
use crate::raised::{Raised, Result};
use crate::update::Update;
use crate::view::View;
use larder_host::Waiting;
use napi_sys as sys;
use std::cell::RefCell;
use std::ptr::null_mut;
use std::rc::Rc;

/// One type for all of them, so that none is taken for another. The package passes no other externals.
pub(crate) enum External {
    Cache(Rc<CacheHandle>),
    View(View),
    Load(Load),
    Due(Due),
    /// Until it ends.
    Waiting(RefCell<Option<Waiting>>),
    Update(Box<Update>),
    BulkLoad(Box<BulkLoad>),
}

impl<'s> Env<'s> {
    /// An external, which lives until JavaScript forgets it.
    pub(crate) fn external(self, external: External) -> Result<Value<'s>> {
        let (data, mut made) = (Box::into_raw(Box::new(external)), null_mut());
        // SAFETY: the data is from a box of the type that the finalizer frees.
        let status = unsafe {
            sys::napi_create_external(
                self.raw(),
                data.cast(),
                Some(finalize::<External>),
                null_mut(),
                &mut made,
            )
        };
        self.check(status).inspect_err(|_| {
            // SAFETY: Node has not taken it.
            drop(unsafe { Box::from_raw(data) });
        })?;
        // SAFETY: Node has made it in this scope.
        Ok(unsafe { Value::new(made) })
    }
}

impl<'s> Value<'s> {
    fn external(self, env: Env<'s>) -> Result<&'s External> {
        if self.kind(env)? != Kind::External {
            return Err(Raised::fault("a function of larder was called with another object than its own"));
        }
        let mut data = null_mut();
        // SAFETY: it is an external.
        env.check(unsafe { sys::napi_get_value_external(env.raw(), self.raw(), &mut data) })?;
        // SAFETY: the package passes its own externals alone, and this value keeps it alive during the call.
        Ok(unsafe { &*data.cast::<External>() })
    }

    pub(crate) fn cache(self, env: Env<'s>) -> Result<&'s Rc<CacheHandle>> {
        match self.external(env)? {
            External::Cache(cache) => Ok(cache),
            _ => Err(Raised::fault("it is no cache")),
        }
    }

    pub(crate) fn view(self, env: Env<'s>) -> Result<&'s View> {
        match self.external(env)? {
            External::View(view) => Ok(view),
            _ => Err(Raised::fault("it is no view")),
        }
    }

    pub(crate) fn load(self, env: Env<'s>) -> Result<&'s Load> {
        match self.external(env)? {
            External::Load(load) => Ok(load),
            _ => Err(Raised::fault("it is no load")),
        }
    }

    pub(crate) fn due(self, env: Env<'s>) -> Result<&'s Due> {
        match self.external(env)? {
            External::Due(due) => Ok(due),
            _ => Err(Raised::fault("it is no value that is due")),
        }
    }

    pub(crate) fn waiting(self, env: Env<'s>) -> Result<&'s RefCell<Option<Waiting>>> {
        match self.external(env)? {
            External::Waiting(waiting) => Ok(waiting),
            _ => Err(Raised::fault("it is no wait")),
        }
    }

    pub(crate) fn update(self, env: Env<'s>) -> Result<&'s Update> {
        match self.external(env)? {
            External::Update(update) => Ok(update),
            _ => Err(Raised::fault("it is no update")),
        }
    }

    pub(crate) fn bulk_load(self, env: Env<'s>) -> Result<&'s BulkLoad> {
        match self.external(env)? {
            External::BulkLoad(load) => Ok(load),
            _ => Err(Raised::fault("it is no load of several keys")),
        }
    }
}

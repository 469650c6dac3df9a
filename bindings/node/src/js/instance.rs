//! What an environment owns, from its begin to its end.

use super::Env;
use crate::raised::{Raised, Result};
use napi_sys as sys;
use napi_sys::napi_env;
use std::ffi::c_void;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr::null_mut;

/// One type for each library: Node keeps one value.
pub(crate) trait Instance: Sized {
    /// Before the environment ends. Its objects are finalized later, and then the instance is dropped.
    fn end(&self);
}

impl<'s> Env<'s> {
    /// # Safety
    /// This is the only type of which this library sets an instance, and it does so once.
    pub(crate) unsafe fn set_instance<T: Instance>(self, instance: T) -> Result<()> {
        let data = Box::into_raw(Box::new(instance)).cast::<c_void>();
        // SAFETY: the data is from a box of a `T`. Node frees it with the environment, after it has called the hook.
        unsafe {
            self.check(sys::napi_set_instance_data(self.raw(), data, Some(free::<T>), null_mut()))?;
            self.check(sys::napi_add_env_cleanup_hook(self.raw(), Some(end::<T>), data))
        }
    }

    /// # Safety
    /// This is the type of which this library sets an instance.
    pub(crate) unsafe fn instance<T: Instance>(self) -> Result<&'s T> {
        let mut data = null_mut();
        // SAFETY: the environment is valid.
        self.check(unsafe { sys::napi_get_instance_data(self.raw(), &mut data) })?;
        // SAFETY: the caller says so, and it lives as long as the environment.
        unsafe { data.cast::<T>().as_ref() }.ok_or(Raised::Pending)
    }
}

unsafe extern "C" fn end<T: Instance>(data: *mut c_void) {
    // SAFETY: `free` is called later, with the same data.
    let instance = unsafe { &*data.cast::<T>() };
    _ = catch_unwind(AssertUnwindSafe(|| instance.end()));
}

unsafe extern "C" fn free<T: Instance>(_: napi_env, data: *mut c_void, _: *mut c_void) {
    // SAFETY: it is the box of `set_instance`, and Node calls this once, last.
    let instance = unsafe { Box::from_raw(data.cast::<T>()) };
    _ = catch_unwind(AssertUnwindSafe(|| drop(instance)));
}

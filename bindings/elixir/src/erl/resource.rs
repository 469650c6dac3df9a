//! Values of Rust that terms refer to, and that may watch a process.

use super::ffi::{self, Monitor, Pid, RawEnv, RawResourceType, ResourceTypeInit};
use super::{Env, Term};
use std::ffi::{CStr, c_void};
use std::marker::PhantomData;
use std::ops::Deref;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr::{NonNull, null, null_mut};
use std::sync::atomic::{AtomicPtr, Ordering};

/// A type of such values, which is opened when the library is loaded.
pub(crate) trait Resource: Send + Sync + Sized + 'static {
    const NAME: &'static CStr;

    /// Where its type is.
    fn kind() -> &'static Kind;

    /// A process that this [watches](Handle::watch) has ended.
    fn process_ended(&self) {}
}

/// What the emulator knows a type of resources by.
pub(crate) struct Kind(AtomicPtr<RawResourceType>);

impl Kind {
    pub(crate) const fn new() -> Self {
        Kind(AtomicPtr::new(null_mut()))
    }

    fn get(&self) -> *mut RawResourceType {
        self.0.load(Ordering::Relaxed)
    }
}

/// Opens a type, while the library is loaded. Returns whether that worked.
pub(crate) fn open<T: Resource>(env: Env<'_>) -> bool {
    // The emulator aligns what it allocates to eight bytes.
    assert!(align_of::<T>() <= 8);
    let init = ResourceTypeInit {
        dtor: Some(destroy::<T>),
        stop: null(),
        down: Some(down::<T>),
        members: 0,
        dyncall: null(),
    };
    let mut tried = 0;
    // SAFETY: the functions take a `T`, and so does everything else that uses the type.
    let opened = unsafe {
        let flags = ffi::CREATE_OR_TAKE_OVER;
        ffi::enif_open_resource_type_x(env.raw, T::NAME.as_ptr(), &init, flags, &mut tried)
    };
    T::kind().0.store(opened, Ordering::Relaxed);
    !opened.is_null()
}

/// A value that terms can refer to. It is dropped with the last handle and the last term, on whatever thread.
pub(crate) struct Handle<T: Resource>(NonNull<T>, PhantomData<T>);

// SAFETY: a resource is `Send` and `Sync`, and the emulator counts handles atomically.
unsafe impl<T: Resource> Send for Handle<T> {}
// SAFETY: as above.
unsafe impl<T: Resource> Sync for Handle<T> {}

impl<T: Resource> Handle<T> {
    pub(crate) fn new(value: T) -> Self {
        // SAFETY: the type was opened for `T`, and the emulator has memory of that size, or ends the program.
        let place = unsafe { ffi::enif_alloc_resource(T::kind().get(), size_of::<T>()) };
        let place = NonNull::new(place.cast::<T>()).expect("the emulator has memory");
        // SAFETY: there is room for a `T`, which is not one yet.
        unsafe { place.write(value) };
        Handle(place, PhantomData)
    }

    /// A term that refers to it.
    pub(crate) fn term<'e>(&self, env: Env<'e>) -> Term<'e> {
        // SAFETY: it is a resource.
        unsafe { env.term(ffi::enif_make_resource(env.raw, self.0.as_ptr().cast())) }
    }

    /// Calls [`Resource::process_ended`] when the process ends. Returns false if it has ended already. `env` is that of the call
    /// by the emulator, or nothing on another thread.
    pub(crate) fn watch(&self, env: Option<Env<'_>>, process: Pid) -> bool {
        let (env, mut monitor) = (env.map_or(null_mut(), |env| env.raw), Monitor::new());
        // SAFETY: it is a resource whose type has such a function.
        unsafe { ffi::enif_monitor_process(env, self.0.as_ptr().cast(), &process, &mut monitor) == 0 }
    }
}

impl<T: Resource> Clone for Handle<T> {
    fn clone(&self) -> Self {
        // SAFETY: it is a resource.
        unsafe { ffi::enif_keep_resource(self.0.as_ptr().cast()) };
        Handle(self.0, PhantomData)
    }
}

impl<T: Resource> Drop for Handle<T> {
    fn drop(&mut self) {
        // SAFETY: it is counted once.
        unsafe { ffi::enif_release_resource(self.0.as_ptr().cast()) };
    }
}

impl<T: Resource> Deref for Handle<T> {
    type Target = T;

    fn deref(&self) -> &T {
        // SAFETY: it lives as long as this handle.
        unsafe { self.0.as_ref() }
    }
}

impl<'e> Term<'e> {
    /// The resource that it refers to, if it is one of this type.
    #[inline]
    pub(crate) fn resource<T: Resource>(self) -> Option<&'e T> {
        let mut object = null_mut();
        // SAFETY: the type was opened for `T`.
        let is_one =
            unsafe { ffi::enif_get_resource(self.env().raw, self.raw(), T::kind().get(), &mut object) != 0 };
        // SAFETY: it is a `T`, and the term keeps it alive.
        is_one.then(|| unsafe { &*object.cast::<T>() })
    }
}

unsafe extern "C" fn destroy<T: Resource>(_: *mut RawEnv, object: *mut c_void) {
    _ = catch_unwind(AssertUnwindSafe(|| {
        // SAFETY: nobody refers to it any more.
        unsafe { object.cast::<T>().drop_in_place() };
    }));
}

unsafe extern "C" fn down<T: Resource>(_: *mut RawEnv, object: *mut c_void, _: *mut Pid, _: *mut Monitor) {
    // SAFETY: the emulator keeps it during this call.
    let resource = unsafe { &*object.cast::<T>() };
    _ = catch_unwind(AssertUnwindSafe(|| resource.process_ended()));
}

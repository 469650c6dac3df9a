//! Objects of Ruby that belong to this library: each has a value of Rust, which is dropped when Ruby frees the object.

use super::sys::{self, rb_data_type_t};
use super::{Ruby, Value};
use crate::raised::{Raised, Result};
use std::ffi::{CStr, c_void};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr::{null, null_mut};

/// How Ruby knows the objects of one type. Its address is what they are told apart by.
pub(crate) struct DataType(rb_data_type_t);

/// What an object of Ruby may have. It has no values of Ruby: those would be freed.
///
/// # Safety
/// Each type has a description of its own, which [`DataType::of`] has made for it.
pub(crate) unsafe trait Data: Sized + 'static {
    /// What describes it.
    fn data_type() -> &'static DataType;
}

/// Makes types what objects of Ruby have.
macro_rules! data {
    ($($type:ty: $name:literal),* $(,)?) => {$(
        // SAFETY: the description is of this type alone.
        unsafe impl $crate::ruby::data::Data for $type {
            fn data_type() -> &'static $crate::ruby::data::DataType {
                static TYPE: $crate::ruby::data::DataType = $crate::ruby::data::DataType::of::<$type>($name);
                &TYPE
            }
        }
    )*};
}
pub(crate) use data;

impl DataType {
    pub(crate) const fn of<T: Data>(name: &'static CStr) -> Self {
        DataType(rb_data_type_t {
            name: name.as_ptr(),
            mark: None,
            free: Some(free::<T>),
            size: None,
            compact: None,
            reserved: [null_mut()],
            parent: null(),
            data: null_mut(),
            flags: sys::RUBY_TYPED_FREE_IMMEDIATELY,
        })
    }
}

unsafe extern "C" fn free<T: Data>(data: *mut c_void) {
    // SAFETY: `object` has made it of a box, and Ruby frees an object once.
    let data = unsafe { Box::from_raw(data.cast::<T>()) };
    // The panic hook reports it; nobody else could.
    _ = catch_unwind(AssertUnwindSafe(|| drop(data)));
}

impl<'r> Ruby<'r> {
    /// An object of a class of this library, with this value.
    pub(crate) fn object<T: Data>(self, class: Value<'r>, data: T) -> Result<Value<'r>> {
        let data = Box::into_raw(Box::new(data));
        let made = self.protect(|| {
            // SAFETY: the class is one without other objects, and `free` frees what belongs to it.
            unsafe { sys::rb_data_typed_object_wrap(class.raw(), data.cast(), &T::data_type().0) }
        });
        match made {
            Ok(object) => Ok(self.value(object)),
            Err(raised) => {
                // SAFETY: no object has it.
                drop(unsafe { Box::from_raw(data) });
                Err(raised)
            }
        }
    }
}

impl<'r> Value<'r> {
    /// What an object has, if it is one of this type. The caller has the object for `'r`, as all that is passed to a method.
    #[inline]
    pub(crate) fn try_data<T: Data>(self) -> Option<&'r T> {
        let data_type = &T::data_type().0;
        // SAFETY: of an object of this type the second call raises nothing. Its value is a `T`, which is dropped with the object.
        unsafe {
            if sys::rb_typeddata_is_kind_of(self.raw(), data_type) == 0 {
                return None;
            }
            Some(&*sys::rb_check_typeddata(self.raw(), data_type).cast())
        }
    }

    /// The same; an error if it is another object.
    #[inline]
    pub(crate) fn data<T: Data>(self) -> Result<&'r T> {
        self.try_data().ok_or_else(|| Raised::fault("the object is not one of this class"))
    }
}

//! Values of JavaScript: what they are, what they hold, and making them.

use super::Env;
use crate::raised::{Raised, Result};
use napi_sys as sys;
use napi_sys::{napi_value, napi_valuetype};
use std::ffi::c_void;
use std::marker::PhantomData;
use std::ptr::{null, null_mut};

/// The largest whole number below which all others are numbers of JavaScript too.
const MAX_SAFE_INTEGER: i64 = (1 << 53) - 1;

/// U+FFFD in UTF-8, which Node also writes for half of a surrogate pair.
const REPLACEMENT: &[u8] = "\u{fffd}".as_bytes();

/// A value of JavaScript.
#[derive(Clone, Copy)]
pub(crate) struct Value<'s> {
    raw: napi_value,
    scope: PhantomData<(*mut (), &'s ())>,
}

/// What a value is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Undefined,
    Null,
    Boolean,
    Number,
    Text,
    Object,
    BigInt,
    External,
    /// A function or a symbol.
    Other,
}

impl<'s> Value<'s> {
    /// # Safety
    /// The value is one of an environment that lives for `'s`.
    pub(crate) unsafe fn new(raw: napi_value) -> Self {
        Value { raw, scope: PhantomData }
    }

    pub(crate) fn raw(self) -> napi_value {
        self.raw
    }

    pub(crate) fn kind(self, env: Env<'s>) -> Result<Kind> {
        let mut kind: napi_valuetype = 0;
        // SAFETY: the value is of this environment.
        env.check(unsafe { sys::napi_typeof(env.raw(), self.raw, &mut kind) })?;
        Ok(match kind {
            sys::ValueType::napi_undefined => Kind::Undefined,
            sys::ValueType::napi_null => Kind::Null,
            sys::ValueType::napi_boolean => Kind::Boolean,
            sys::ValueType::napi_number => Kind::Number,
            sys::ValueType::napi_string => Kind::Text,
            sys::ValueType::napi_object => Kind::Object,
            sys::ValueType::napi_bigint => Kind::BigInt,
            sys::ValueType::napi_external => Kind::External,
            _ => Kind::Other,
        })
    }

    pub(crate) fn is_undefined(self, env: Env<'s>) -> Result<bool> {
        Ok(self.kind(env)? == Kind::Undefined)
    }

    pub(crate) fn boolean(self, env: Env<'s>) -> Result<bool> {
        let mut boolean = false;
        // SAFETY: the value is of this environment; Node checks that it is a boolean.
        env.check(unsafe { sys::napi_get_value_bool(env.raw(), self.raw, &mut boolean) })?;
        Ok(boolean)
    }

    pub(crate) fn number(self, env: Env<'s>) -> Result<f64> {
        let mut number = 0.0;
        // SAFETY: the value is of this environment; Node checks that it is a number.
        env.check(unsafe { sys::napi_get_value_double(env.raw(), self.raw, &mut number) })?;
        Ok(number)
    }

    /// A number that has no fraction and is exact.
    pub(crate) fn whole(self, env: Env<'s>) -> Result<Option<i64>> {
        let number = self.number(env)?;
        let is_whole = number.fract() == 0.0 && number.abs() <= MAX_SAFE_INTEGER as f64;
        // The whole number -0 is none: 1 / -0 differs from 1 / 0.
        let is_whole = is_whole && (number != 0.0 || number.is_sign_positive());
        Ok(is_whole.then_some(number as i64))
    }

    /// A `bigint` of 64 bits, with a sign.
    pub(crate) fn signed(self, env: Env<'s>) -> Result<Option<i64>> {
        let (mut number, mut is_exact) = (0, false);
        // SAFETY: the value is of this environment; Node checks that it is a bigint.
        env.check(unsafe {
            sys::napi_get_value_bigint_int64(env.raw(), self.raw, &mut number, &mut is_exact)
        })?;
        Ok(is_exact.then_some(number))
    }

    /// A `bigint` of 64 bits, without a sign.
    pub(crate) fn unsigned(self, env: Env<'s>) -> Result<Option<u64>> {
        let (mut number, mut is_exact) = (0, false);
        // SAFETY: the value is of this environment; Node checks that it is a bigint.
        env.check(unsafe {
            sys::napi_get_value_bigint_uint64(env.raw(), self.raw, &mut number, &mut is_exact)
        })?;
        Ok(is_exact.then_some(number))
    }

    /// A text. `None` if it has half of a surrogate pair, which UTF-8 cannot have.
    pub(crate) fn text(self, env: Env<'s>) -> Result<Option<String>> {
        let mut bytes = 0;
        // SAFETY: without a buffer Node tells the length. It checks that the value is a text.
        env.check(unsafe {
            sys::napi_get_value_string_utf8(env.raw(), self.raw, null_mut(), 0, &mut bytes)
        })?;
        // Node ends it with a zero.
        let mut text = vec![0; bytes + 1];
        // SAFETY: the buffer has the length that is passed.
        env.check(unsafe {
            sys::napi_get_value_string_utf8(
                env.raw(),
                self.raw,
                text.as_mut_ptr().cast(),
                text.len(),
                &mut bytes,
            )
        })?;
        text.truncate(bytes);
        if self.has_half_of_a_pair(env, &text)? {
            return Ok(None);
        }
        String::from_utf8(text).map(Some).map_err(|error| Raised::fault(error.to_string()))
    }

    /// The UTF-8 of a text if it fits into the buffer. `None` otherwise, and for other values.
    #[inline]
    pub(crate) fn short_text<'b>(self, env: Env<'s>, buffer: &'b mut [u8]) -> Result<Option<&'b [u8]>> {
        let mut bytes = 0;
        // SAFETY: the buffer has the length that is passed. Node checks that the value is a text.
        let status = unsafe {
            sys::napi_get_value_string_utf8(
                env.raw(),
                self.raw,
                buffer.as_mut_ptr().cast(),
                buffer.len(),
                &mut bytes,
            )
        };
        // A text that fills all but the zero, or nearly so, may have been cut off before a character.
        if status != sys::Status::napi_ok || bytes + 4 >= buffer.len() {
            return Ok(None);
        }
        let text = &buffer[..bytes];
        Ok(if self.has_half_of_a_pair(env, text)? { None } else { Some(text) })
    }

    /// Whether the text is none of UTF-8, although Node has written this.
    fn has_half_of_a_pair(self, env: Env<'s>, utf8: &[u8]) -> Result<bool> {
        if !utf8.contains(&REPLACEMENT[0]) || !utf8.windows(REPLACEMENT.len()).any(|part| part == REPLACEMENT)
        {
            return Ok(false);
        }
        let mut units = 0;
        // SAFETY: without a buffer Node tells the length.
        env.check(unsafe {
            sys::napi_get_value_string_utf16(env.raw(), self.raw, null_mut(), 0, &mut units)
        })?;
        let mut text = vec![0_u16; units + 1];
        // SAFETY: the buffer has the length that is passed.
        env.check(unsafe {
            sys::napi_get_value_string_utf16(env.raw(), self.raw, text.as_mut_ptr(), text.len(), &mut units)
        })?;
        Ok(char::decode_utf16(text[..units].iter().copied()).any(|unit| unit.is_err()))
    }

    /// How a person would name it in a message.
    pub(crate) fn shown(self, env: Env<'s>) -> String {
        match self.kind(env) {
            Ok(Kind::Text) => match self.text(env) {
                Ok(Some(text)) => format!("{text:?}"),
                _ => "a text with half of a surrogate pair".to_owned(),
            },
            Ok(Kind::Undefined) => "undefined".to_owned(),
            Ok(Kind::Null) => "null".to_owned(),
            Ok(Kind::Object) => "an object".to_owned(),
            Ok(Kind::Other | Kind::External) => "a function or a symbol".to_owned(),
            Ok(Kind::Boolean | Kind::Number | Kind::BigInt) => {
                self.as_text(env).unwrap_or_else(|_| "?".to_owned())
            }
            Err(_) => "?".to_owned(),
        }
    }

    /// What `String(value)` is. Of a number, a bigint or a boolean: others may run code of the program.
    pub(crate) fn as_text(self, env: Env<'s>) -> Result<String> {
        let mut text = null_mut();
        // SAFETY: the value is of this environment.
        env.check(unsafe { sys::napi_coerce_to_string(env.raw(), self.raw, &mut text) })?;
        // SAFETY: Node has made it in this scope.
        let text = unsafe { Value::new(text) };
        Ok(text.text(env)?.unwrap_or_default())
    }

    /// A copy of the bytes of a `Uint8Array`, such as a `Buffer`. `None` for other objects.
    pub(crate) fn bytes(self, env: Env<'s>) -> Result<Option<Vec<u8>>> {
        let mut is_array = false;
        // SAFETY: the value is of this environment.
        env.check(unsafe { sys::napi_is_typedarray(env.raw(), self.raw, &mut is_array) })?;
        if !is_array {
            return Ok(None);
        }
        let (mut kind, mut length, mut data) = (0, 0, null_mut());
        // SAFETY: it is a typed array; Node needs no result that is null.
        env.check(unsafe {
            sys::napi_get_typedarray_info(
                env.raw(),
                self.raw,
                &mut kind,
                &mut length,
                &mut data,
                null_mut(),
                null_mut(),
            )
        })?;
        if kind != sys::TypedarrayType::uint8_array {
            return Ok(None);
        }
        if data.is_null() || length == 0 {
            return Ok(Some(Vec::new()));
        }
        // SAFETY: Node's array has so many bytes, and no code of the program runs on its thread before they are copied. A shared
        // array may change meanwhile in another thread: bytes have no invalid value.
        Ok(Some(unsafe { std::slice::from_raw_parts(data.cast::<u8>(), length) }.to_vec()))
    }

    pub(crate) fn is_array(self, env: Env<'s>) -> Result<bool> {
        let mut is_array = false;
        // SAFETY: the value is of this environment.
        env.check(unsafe { sys::napi_is_array(env.raw(), self.raw, &mut is_array) })?;
        Ok(is_array)
    }

    pub(crate) fn length(self, env: Env<'s>) -> Result<u32> {
        let mut length = 0;
        // SAFETY: the value is of this environment; Node checks that it is an array.
        env.check(unsafe { sys::napi_get_array_length(env.raw(), self.raw, &mut length) })?;
        Ok(length)
    }

    pub(crate) fn element(self, env: Env<'s>, index: u32) -> Result<Value<'s>> {
        let mut element = null_mut();
        // SAFETY: the value is of this environment.
        env.check(unsafe { sys::napi_get_element(env.raw(), self.raw, index, &mut element) })?;
        // SAFETY: Node has made it in this scope.
        Ok(unsafe { Value::new(element) })
    }

    /// The elements of an array.
    pub(crate) fn elements(self, env: Env<'s>) -> Result<Vec<Value<'s>>> {
        (0..self.length(env)?).map(|index| self.element(env, index)).collect()
    }

    /// The names of the enumerable properties that are its own and are no symbols, as texts.
    pub(crate) fn names(self, env: Env<'s>) -> Result<Value<'s>> {
        let mut names = null_mut();
        // SAFETY: the value is of this environment; Node checks that it is an object.
        env.check(unsafe {
            sys::napi_get_all_property_names(
                env.raw(),
                self.raw,
                sys::KeyCollectionMode::own_only,
                sys::KeyFilter::enumerable | sys::KeyFilter::skip_symbols,
                sys::KeyConversion::numbers_to_strings,
                &mut names,
            )
        })?;
        // SAFETY: Node has made it in this scope.
        Ok(unsafe { Value::new(names) })
    }

    pub(crate) fn property(self, env: Env<'s>, name: Value<'s>) -> Result<Value<'s>> {
        let mut property = null_mut();
        // SAFETY: both values are of this environment.
        env.check(unsafe { sys::napi_get_property(env.raw(), self.raw, name.raw, &mut property) })?;
        // SAFETY: Node has made it in this scope.
        Ok(unsafe { Value::new(property) })
    }

    /// The milliseconds of a `Date`. `None` for other objects.
    pub(crate) fn date(self, env: Env<'s>) -> Result<Option<f64>> {
        let mut is_date = false;
        // SAFETY: the value is of this environment.
        env.check(unsafe { sys::napi_is_date(env.raw(), self.raw, &mut is_date) })?;
        if !is_date {
            return Ok(None);
        }
        let mut milliseconds = 0.0;
        // SAFETY: it is a date.
        env.check(unsafe { sys::napi_get_date_value(env.raw(), self.raw, &mut milliseconds) })?;
        Ok(Some(milliseconds))
    }

    /// The prototype, which is `null` for none.
    pub(crate) fn prototype(self, env: Env<'s>) -> Result<Value<'s>> {
        let mut prototype = null_mut();
        // SAFETY: the value is of this environment; Node checks that it is an object.
        env.check(unsafe { sys::napi_get_prototype(env.raw(), self.raw, &mut prototype) })?;
        // SAFETY: Node has made it in this scope.
        Ok(unsafe { Value::new(prototype) })
    }

    /// Adds an element to an array, after all others.
    pub(crate) fn push(self, env: Env<'s>, index: u32, element: Value<'s>) -> Result<()> {
        // SAFETY: both values are of this environment.
        env.check(unsafe { sys::napi_set_element(env.raw(), self.raw, index, element.raw) })
    }

    /// Sets a property of an object that has none of this name, and none that its prototype sets: not `__proto__`.
    pub(crate) fn set(self, env: Env<'s>, name: Value<'s>, value: Value<'s>) -> Result<()> {
        // SAFETY: all values are of this environment.
        env.check(unsafe { sys::napi_set_property(env.raw(), self.raw, name.raw, value.raw) })
    }

    /// Gives an object a property of its own, whatever its prototype does with one of that name.
    pub(crate) fn define(self, env: Env<'s>, name: Value<'s>, value: Value<'s>) -> Result<()> {
        let property = sys::napi_property_descriptor {
            utf8name: null(),
            name: name.raw,
            method: None,
            getter: None,
            setter: None,
            value: value.raw,
            attributes: sys::PropertyAttributes::writable
                | sys::PropertyAttributes::enumerable
                | sys::PropertyAttributes::configurable,
            data: null_mut(),
        };
        // SAFETY: all values are of this environment, and there is one descriptor.
        env.check(unsafe { sys::napi_define_properties(env.raw(), self.raw, 1, &property) })
    }

    /// Sets a property of a plain object by a name of this library.
    pub(crate) fn put(self, env: Env<'s>, name: &str, value: Value<'s>) -> Result<()> {
        self.set(env, env.text(name)?, value)
    }

    pub(crate) fn freeze(self, env: Env<'s>) -> Result<()> {
        // SAFETY: the value is of this environment; Node checks that it is an object.
        env.check(unsafe { sys::napi_object_freeze(env.raw(), self.raw) })
    }
}

impl<'s> Env<'s> {
    /// A value that one call of Node-API makes.
    fn made(self, make: impl FnOnce(*mut napi_value) -> sys::napi_status) -> Result<Value<'s>> {
        let mut made = null_mut();
        self.check(make(&mut made))?;
        // SAFETY: Node has made it in this scope.
        Ok(unsafe { Value::new(made) })
    }

    pub(crate) fn undefined(self) -> Result<Value<'s>> {
        // SAFETY: the environment is valid, here and below.
        self.made(|made| unsafe { sys::napi_get_undefined(self.raw(), made) })
    }

    pub(crate) fn null(self) -> Result<Value<'s>> {
        // SAFETY: as above.
        self.made(|made| unsafe { sys::napi_get_null(self.raw(), made) })
    }

    pub(crate) fn boolean(self, value: bool) -> Result<Value<'s>> {
        // SAFETY: as above.
        self.made(|made| unsafe { sys::napi_get_boolean(self.raw(), value, made) })
    }

    pub(crate) fn number(self, value: f64) -> Result<Value<'s>> {
        // SAFETY: as above.
        self.made(|made| unsafe { sys::napi_create_double(self.raw(), value, made) })
    }

    /// A number, or a `bigint` where a number would not be exact.
    pub(crate) fn integer(self, value: i64) -> Result<Value<'s>> {
        if value.unsigned_abs() <= MAX_SAFE_INTEGER as u64 {
            // SAFETY: as above.
            self.made(|made| unsafe { sys::napi_create_int64(self.raw(), value, made) })
        } else {
            // SAFETY: as above.
            self.made(|made| unsafe { sys::napi_create_bigint_int64(self.raw(), value, made) })
        }
    }

    pub(crate) fn unsigned(self, value: u64) -> Result<Value<'s>> {
        // SAFETY: as above.
        self.made(|made| unsafe { sys::napi_create_bigint_uint64(self.raw(), value, made) })
    }

    pub(crate) fn text(self, text: &str) -> Result<Value<'s>> {
        let made = |made| {
            // SAFETY: the pointer and the length are those of the text.
            unsafe {
                sys::napi_create_string_utf8(self.raw(), text.as_ptr().cast(), text.len() as isize, made)
            }
        };
        self.made(made)
    }

    /// A `Buffer` with a copy of the bytes.
    pub(crate) fn bytes(self, bytes: &[u8]) -> Result<Value<'s>> {
        let made = |made| {
            // SAFETY: the pointer and the length are those of the bytes, which Node copies.
            unsafe {
                sys::napi_create_buffer_copy(
                    self.raw(),
                    bytes.len(),
                    bytes.as_ptr().cast::<c_void>(),
                    null_mut(),
                    made,
                )
            }
        };
        self.made(made)
    }

    pub(crate) fn date(self, milliseconds: f64) -> Result<Value<'s>> {
        // SAFETY: as above.
        self.made(|made| unsafe { sys::napi_create_date(self.raw(), milliseconds, made) })
    }

    pub(crate) fn array(self, length: usize) -> Result<Value<'s>> {
        // SAFETY: as above.
        self.made(|made| unsafe { sys::napi_create_array_with_length(self.raw(), length, made) })
    }

    pub(crate) fn array_of(self, elements: impl IntoIterator<Item = Value<'s>>) -> Result<Value<'s>> {
        let array = self.array(0)?;
        for (index, element) in (0..).zip(elements) {
            array.push(self, index, element)?;
        }
        Ok(array)
    }

    pub(crate) fn object(self) -> Result<Value<'s>> {
        // SAFETY: as above.
        self.made(|made| unsafe { sys::napi_create_object(self.raw(), made) })
    }
}

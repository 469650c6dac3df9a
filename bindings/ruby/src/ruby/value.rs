//! Values of Ruby: what they are, and calling them.

use super::sys::{self, VALUE};
use super::{Ruby, constants, intern};
use crate::raised::Result;
use std::ffi::{c_int, c_long};
use std::marker::PhantomData;

/// A value of Ruby. Two are equal that are the same object.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Value<'r> {
    raw: VALUE,
    scope: PhantomData<(*mut (), &'r ())>,
}

/// What a value is: an object of one of these classes, and of no subclass.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Nil,
    Boolean(bool),
    Integer,
    Float,
    String,
    Symbol,
    Array,
    Hash,
    Time,
    Other,
}

/// An integer of Ruby.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Integer {
    Signed(i64),
    /// Above 2^63 - 1.
    Unsigned(u64),
    /// Of more than 64 bits.
    Large,
}

impl<'r> Value<'r> {
    #[inline]
    pub(super) fn new(raw: VALUE) -> Self {
        Value { raw, scope: PhantomData }
    }

    #[inline]
    pub(super) fn raw(self) -> VALUE {
        self.raw
    }

    pub(crate) fn is_nil(self) -> bool {
        self.raw == constants().nil
    }

    /// As `if` sees it.
    pub(crate) fn is_true(self) -> bool {
        self.raw != constants().nil && self.raw != constants().no
    }

    pub(crate) fn kind(self) -> Kind {
        // SAFETY: it is a value, and `'r` is the time for which the thread has the GVL. The classes are those of Ruby itself.
        unsafe {
            let class = sys::rb_obj_class(self.raw);
            match class {
                _ if class == sys::rb_cString => Kind::String,
                _ if class == sys::rb_cInteger => Kind::Integer,
                _ if class == sys::rb_cHash => Kind::Hash,
                _ if class == sys::rb_cArray => Kind::Array,
                _ if class == sys::rb_cFloat => Kind::Float,
                _ if class == sys::rb_cSymbol => Kind::Symbol,
                _ if class == sys::rb_cNilClass => Kind::Nil,
                _ if class == sys::rb_cTrueClass => Kind::Boolean(true),
                _ if class == sys::rb_cFalseClass => Kind::Boolean(false),
                _ if class == sys::rb_cTime => Kind::Time,
                _ => Kind::Other,
            }
        }
    }

    /// Whether it is a string, also of a subclass.
    #[inline]
    pub(crate) fn is_string(self) -> bool {
        // SAFETY: as in `kind`.
        unsafe {
            sys::rb_obj_class(self.raw) == sys::rb_cString
                || sys::rb_obj_is_kind_of(self.raw, sys::rb_cString) == constants().yes
        }
    }

    /// Of an [integer](Kind::Integer).
    pub(crate) fn to_integer(self) -> Integer {
        debug_assert_eq!(self.kind(), Kind::Integer);
        let (mut word, flags) = (
            0_u64,
            sys::INTEGER_PACK_LSWORD_FIRST | sys::INTEGER_PACK_NATIVE_BYTE_ORDER | sys::INTEGER_PACK_2COMP,
        );
        // SAFETY: of an integer it raises nothing, and writes one word of eight bytes.
        let sign = unsafe { sys::rb_integer_pack(self.raw, (&raw mut word).cast(), 1, 8, 0, flags) };
        match (sign, word as i64) {
            (0, _) => Integer::Signed(0),
            (1, number) if number >= 0 => Integer::Signed(number),
            (1, _) => Integer::Unsigned(word),
            // The word alone does not tell it from one above by 2^64.
            (-1, number) if number < 0 => Integer::Signed(number),
            _ => Integer::Large,
        }
    }

    /// An integer of 64 bits.
    pub(crate) fn to_i64(self) -> Option<i64> {
        match self.kind() {
            Kind::Integer => match self.to_integer() {
                Integer::Signed(number) => Some(number),
                Integer::Unsigned(_) | Integer::Large => None,
            },
            _ => None,
        }
    }

    /// Of a [float](Kind::Float).
    pub(crate) fn to_float(self) -> f64 {
        debug_assert_eq!(self.kind(), Kind::Float);
        // SAFETY: of a float it raises nothing.
        unsafe { sys::rb_float_value(self.raw) }
    }

    /// The seconds since 1970 and nanoseconds of a [time](Kind::Time).
    pub(crate) fn timestamp(self, ruby: Ruby<'r>) -> Result<(i64, u32)> {
        // SAFETY: of another value it raises.
        let time = ruby.protect(|| unsafe { sys::rb_time_timespec(self.raw) })?;
        Ok((time.seconds, time.nanoseconds as u32))
    }

    /// The text of a [symbol](Kind::Symbol), as a string.
    pub(crate) fn name(self, ruby: Ruby<'r>) -> Result<Value<'r>> {
        // SAFETY: of another value it raises.
        ruby.protect(|| unsafe { sys::rb_sym2str(self.raw) }).map(Value::new)
    }

    /// The number of elements of an [array](Kind::Array).
    pub(crate) fn length(self, ruby: Ruby<'r>) -> Result<usize> {
        let length = self.call_id(ruby, constants().length, &[])?;
        Ok(length.to_i64().and_then(|length| usize::try_from(length).ok()).unwrap_or(0))
    }

    /// An element of an [array](Kind::Array); `nil` beyond its end.
    pub(crate) fn element(self, index: usize) -> Value<'r> {
        debug_assert_eq!(self.kind(), Kind::Array);
        // SAFETY: of an array it raises nothing.
        Value::new(unsafe { sys::rb_ary_entry(self.raw, index as c_long) })
    }

    /// The elements of an array; an error otherwise.
    pub(crate) fn elements(self, ruby: Ruby<'r>) -> Result<Vec<Value<'r>>> {
        if self.kind() != Kind::Array {
            return Err(crate::raised::Raised::fault("the library has called itself without an array"));
        }
        Ok((0..self.length(ruby)?).map(|index| self.element(index)).collect())
    }

    /// Calls a method.
    pub(crate) fn call(self, ruby: Ruby<'r>, name: &str, arguments: &[Value<'r>]) -> Result<Value<'r>> {
        self.call_id(ruby, intern(name), arguments)
    }

    fn call_id(self, ruby: Ruby<'r>, name: sys::ID, arguments: &[Value<'r>]) -> Result<Value<'r>> {
        ruby.protect(|| self.send(name, arguments)).map(Value::new)
    }

    /// Calls a method; what it raises as a `StandardError` is the inner error.
    pub(crate) fn try_call(
        self,
        ruby: Ruby<'r>,
        name: &str,
        arguments: &[Value<'r>],
    ) -> Result<std::result::Result<Value<'r>, Value<'r>>> {
        let name = intern(name);
        Ok(ruby.rescue(|| self.send(name, arguments))?.map(Value::new))
    }

    /// May raise.
    fn send(self, name: sys::ID, arguments: &[Value<'r>]) -> VALUE {
        // SAFETY: a `Value` is a `VALUE` and nothing else, and there are so many.
        unsafe { sys::rb_funcallv(self.raw, name, arguments.len() as c_int, arguments.as_ptr().cast()) }
    }

    /// What `inspect` writes, for messages. `?` where that raises.
    pub(crate) fn shown(self, ruby: Ruby<'r>) -> Result<String> {
        // SAFETY: the thread has the GVL; it raises or returns a string.
        let shown = ruby.rescue(|| unsafe { sys::rb_inspect(self.raw) })?;
        Ok(shown.map_or_else(|_| "?".to_owned(), |shown| Value::new(shown).lossy_text()))
    }

    /// The name of its class, for messages.
    pub(crate) fn class_name(self, ruby: Ruby<'r>) -> Result<String> {
        // SAFETY: it is a value.
        let class: Value<'r> = Value::new(unsafe { sys::rb_obj_class(self.raw) });
        class.shown(ruby)
    }

    /// `Marshal.dump`.
    pub(crate) fn marshal(self, ruby: Ruby<'r>) -> Result<std::result::Result<Value<'r>, Value<'r>>> {
        let nil = constants().nil;
        // SAFETY: the thread has the GVL; it raises or returns a string.
        Ok(ruby.rescue(|| unsafe { sys::rb_marshal_dump(self.raw, nil) })?.map(Value::new))
    }

    /// `Marshal.load` of a string. What that does not know, its method may: Rails loads classes there.
    pub(crate) fn unmarshal(self, ruby: Ruby<'r>) -> Result<std::result::Result<Value<'r>, Value<'r>>> {
        // SAFETY: the thread has the GVL; it may raise.
        let raised = match ruby.rescue(|| unsafe { sys::rb_marshal_load(self.raw) })? {
            Ok(object) => return Ok(Ok(Value::new(object))),
            Err(raised) => raised,
        };
        // SAFETY: the classes are those of Ruby itself.
        let (arguments, names) = unsafe { (sys::rb_eArgError, sys::rb_eNameError) };
        if !raised.is_a(arguments) && !raised.is_a(names) {
            return Ok(Err(raised));
        }
        Value::new(constants().marshal).try_call(ruby, "load", &[self])
    }

    fn is_a(self, class: VALUE) -> bool {
        // SAFETY: it is a class.
        unsafe { sys::rb_obj_is_kind_of(self.raw, class) == constants().yes }
    }

    /// Whether a string, array or hash has nothing of its own: no instance variables, methods or modules.
    pub(crate) fn is_plain(self) -> bool {
        // SAFETY: it is an object, and `singleton` reads its class.
        let class = unsafe { sys::rb_obj_class(self.raw) };
        constants().class_is_second_word && super::second_word(self.raw) == class && !self.has_variables()
    }

    /// Whether it has instance variables, as an object of every class may.
    fn has_variables(self) -> bool {
        // SAFETY: it is a value.
        unsafe { sys::rb_ivar_count(self.raw) != 0 }
    }
}

//! The functions of libruby that are used, which the process that loads the library has. Written by hand, so that the crate is
//! built where there is no Ruby: their types are those of `ruby.h`, and `ruby/mod.rs` checks what it can when it is loaded.

#![expect(clippy::upper_case_acronyms, reason = "the names are those of Ruby")]

use std::ffi::{c_char, c_int, c_long, c_void};

/// A value of Ruby: an immediate, or the address of an object.
pub(super) type VALUE = usize;
pub(super) type ID = usize;

/// Seconds and nanoseconds since 1970.
#[repr(C)]
#[derive(Clone, Copy)]
pub(super) struct timespec {
    pub(super) seconds: i64,
    pub(super) nanoseconds: c_long,
}

/// Describes objects that belong to a library.
#[repr(C)]
pub(super) struct rb_data_type_t {
    pub(super) name: *const c_char,
    pub(super) mark: Option<unsafe extern "C" fn(*mut c_void)>,
    pub(super) free: Option<unsafe extern "C" fn(*mut c_void)>,
    pub(super) size: Option<unsafe extern "C" fn(*const c_void) -> usize>,
    pub(super) compact: Option<unsafe extern "C" fn(*mut c_void)>,
    pub(super) reserved: [*mut c_void; 1],
    pub(super) parent: *const rb_data_type_t,
    pub(super) data: *mut c_void,
    pub(super) flags: VALUE,
}

// SAFETY: it is never changed, and its pointers are those of functions and of a static name.
unsafe impl Sync for rb_data_type_t {}

/// The object is freed while garbage is collected, and not later.
pub(super) const RUBY_TYPED_FREE_IMMEDIATELY: VALUE = 1;

/// Interrupts that are pending already end the call before it begins, and none is raised after it.
pub(super) const RB_NOGVL_INTR_FAIL: c_int = 1;
/// The function that interrupts the call may run in a handler of signals. Without this Ruby starts a thread for it.
pub(super) const RB_NOGVL_UBF_ASYNC_SAFE: c_int = 2;

pub(super) const INTEGER_PACK_LSWORD_FIRST: c_int = 0x02;
pub(super) const INTEGER_PACK_NATIVE_BYTE_ORDER: c_int = 0x40;
pub(super) const INTEGER_PACK_2COMP: c_int = 0x80;

/// An offset of a time that says it is in UTC.
pub(super) const UTC: c_int = c_int::MAX - 1;

/// What `rb_protect` answers for an exception, and not for a `throw` or the end of a thread.
pub(super) const TAG_RAISE: c_int = 6;

/// What a function for `rb_hash_foreach` answers.
pub(super) const ST_CONTINUE: c_int = 0;
pub(super) const ST_STOP: c_int = 1;

pub(super) type Method = unsafe extern "C" fn(c_int, *const VALUE, VALUE) -> VALUE;

unsafe extern "C" {
    pub(super) static rb_cArray: VALUE;
    pub(super) static rb_cFalseClass: VALUE;
    pub(super) static rb_cFloat: VALUE;
    pub(super) static rb_cHash: VALUE;
    pub(super) static rb_cInteger: VALUE;
    pub(super) static rb_cNilClass: VALUE;
    pub(super) static rb_cNumeric: VALUE;
    pub(super) static rb_cObject: VALUE;
    pub(super) static rb_cString: VALUE;
    pub(super) static rb_cSymbol: VALUE;
    pub(super) static rb_cTime: VALUE;
    pub(super) static rb_cTrueClass: VALUE;
    pub(super) static rb_eArgError: VALUE;
    pub(super) static rb_eNameError: VALUE;
    pub(super) static rb_eStandardError: VALUE;

    pub(super) fn rb_ary_clear(array: VALUE) -> VALUE;
    pub(super) fn rb_ary_entry(array: VALUE, index: c_long) -> VALUE;
    pub(super) fn rb_ary_new_capa(capacity: c_long) -> VALUE;
    pub(super) fn rb_ary_push(array: VALUE, element: VALUE) -> VALUE;
    pub(super) fn rb_ary_store(array: VALUE, index: c_long, element: VALUE);
    pub(super) fn rb_ascii8bit_encindex() -> c_int;
    pub(super) fn rb_const_get(module: VALUE, name: ID) -> VALUE;
    pub(super) fn rb_data_typed_object_wrap(
        class: VALUE,
        data: *mut c_void,
        data_type: *const rb_data_type_t,
    ) -> VALUE;
    pub(super) fn rb_define_class_under(outer: VALUE, name: *const c_char, parent: VALUE) -> VALUE;
    pub(super) fn rb_define_method(class: VALUE, name: *const c_char, method: Method, arguments: c_int);
    pub(super) fn rb_define_module(name: *const c_char) -> VALUE;
    pub(super) fn rb_define_singleton_method(
        object: VALUE,
        name: *const c_char,
        method: Method,
        arguments: c_int,
    );
    pub(super) fn rb_enc_get_index(object: VALUE) -> c_int;
    pub(super) fn rb_enc_interned_str(text: *const c_char, bytes: c_long, encoding: *mut c_void) -> VALUE;
    pub(super) fn rb_enc_str_asciionly_p(string: VALUE) -> c_int;
    pub(super) fn rb_errinfo() -> VALUE;
    pub(super) fn rb_error_arity(given: c_int, min: c_int, max: c_int) -> !;
    pub(super) fn rb_eval_string(program: *const c_char) -> VALUE;
    pub(super) fn rb_exc_new(class: VALUE, text: *const c_char, bytes: c_long) -> VALUE;
    pub(super) fn rb_exc_raise(exception: VALUE) -> !;
    pub(super) fn rb_fiber_scheduler_current() -> VALUE;
    pub(super) fn rb_float_new(number: f64) -> VALUE;
    pub(super) fn rb_float_value(float: VALUE) -> f64;
    pub(super) fn rb_funcallv(object: VALUE, method: ID, count: c_int, arguments: *const VALUE) -> VALUE;
    pub(super) fn rb_gc_register_mark_object(object: VALUE);
    pub(super) fn rb_hash_aset(hash: VALUE, key: VALUE, value: VALUE) -> VALUE;
    pub(super) fn rb_hash_foreach(
        hash: VALUE,
        each: unsafe extern "C" fn(VALUE, VALUE, VALUE) -> c_int,
        data: VALUE,
    );
    pub(super) fn rb_hash_new() -> VALUE;
    pub(super) fn rb_hash_size_num(hash: VALUE) -> usize;
    pub(super) fn rb_integer_pack(
        integer: VALUE,
        words: *mut c_void,
        count: usize,
        word_bytes: usize,
        nails: usize,
        flags: c_int,
    ) -> c_int;
    pub(super) fn rb_intern2(name: *const c_char, bytes: c_long) -> ID;
    pub(super) fn rb_ivar_count(object: VALUE) -> usize;
    pub(super) fn rb_jump_tag(state: c_int) -> !;
    pub(super) fn rb_ll2inum(number: i64) -> VALUE;
    pub(super) fn rb_nogvl(
        call: unsafe extern "C" fn(*mut c_void) -> *mut c_void,
        data: *mut c_void,
        interrupt: Option<unsafe extern "C" fn(*mut c_void)>,
        interrupt_data: *mut c_void,
        flags: c_int,
    ) -> *mut c_void;
    pub(super) fn rb_obj_class(object: VALUE) -> VALUE;
    pub(super) fn rb_obj_freeze(object: VALUE) -> VALUE;
    pub(super) fn rb_obj_is_kind_of(object: VALUE, class: VALUE) -> VALUE;
    pub(super) fn rb_protect(
        call: unsafe extern "C" fn(VALUE) -> VALUE,
        data: VALUE,
        state: *mut c_int,
    ) -> VALUE;
    pub(super) fn rb_set_errinfo(error: VALUE);
    pub(super) fn rb_str_new(bytes: *const c_char, count: c_long) -> VALUE;
    pub(super) fn rb_string_value_ptr(string: *mut VALUE) -> *mut c_char;
    pub(super) fn rb_sym2str(symbol: VALUE) -> VALUE;
    pub(super) fn rb_thread_check_ints();
    pub(super) fn rb_thread_current() -> VALUE;
    pub(super) fn rb_thread_interrupted(thread: VALUE) -> c_int;
    pub(super) fn rb_time_timespec(time: VALUE) -> timespec;
    pub(super) fn rb_time_timespec_new(time: *const timespec, offset: c_int) -> VALUE;
    pub(super) fn rb_typeddata_is_kind_of(object: VALUE, data_type: *const rb_data_type_t) -> c_int;
    pub(super) fn rb_check_typeddata(object: VALUE, data_type: *const rb_data_type_t) -> *mut c_void;
    pub(super) fn rb_ull2inum(number: u64) -> VALUE;
    pub(super) fn rb_undef_alloc_func(class: VALUE);
    pub(super) fn rb_utf8_encindex() -> c_int;
    pub(super) fn rb_utf8_encoding() -> *mut c_void;
    pub(super) fn rb_utf8_str_new(text: *const c_char, bytes: c_long) -> VALUE;
    pub(super) fn rb_id2sym(name: ID) -> VALUE;
    pub(super) fn rb_marshal_dump(object: VALUE, io: VALUE) -> VALUE;
    pub(super) fn rb_marshal_load(bytes: VALUE) -> VALUE;
    pub(super) fn rb_inspect(object: VALUE) -> VALUE;
}

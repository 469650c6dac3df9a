//! The functions and types of the emulator that this library uses: NIF 2.16, which Erlang/OTP 24 and later have.
//!
//! The emulator has loaded this library, so it resolves them itself; there is no library to link with.

use std::ffi::{c_char, c_int, c_uint, c_void};

/// A term: a word that has the value in it, or points into an environment.
pub(crate) type RawTerm = usize;

/// What terms live in. Only its address is used.
#[repr(C)]
pub(crate) struct RawEnv(c_void);

#[repr(C)]
pub(super) struct RawResourceType(c_void);

/// The process that a message goes to, or that is monitored.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Pid(pub(super) RawTerm);

#[repr(C)]
pub(super) struct Binary {
    pub(super) size: usize,
    pub(super) data: *mut u8,
    owner: *mut c_void,
    spare: [*mut c_void; 2],
}

/// A walk over a map. The emulator uses seven words of it.
#[repr(C)]
pub(super) struct MapIterator([usize; 16]);

#[repr(C)]
pub(super) struct Monitor([*mut c_void; 4]);

pub(super) type Dtor = unsafe extern "C" fn(*mut RawEnv, *mut c_void);
pub(super) type Down = unsafe extern "C" fn(*mut RawEnv, *mut c_void, *mut Pid, *mut Monitor);

#[repr(C)]
pub(super) struct ResourceTypeInit {
    pub(super) dtor: Option<Dtor>,
    pub(super) stop: *const c_void,
    pub(super) down: Option<Down>,
    pub(super) members: c_int,
    pub(super) dyncall: *const c_void,
}

pub(crate) type NifFunction = unsafe extern "C" fn(*mut RawEnv, c_int, *const RawTerm) -> RawTerm;

/// A function of the module that loads this library.
#[repr(C)]
pub(crate) struct Nif {
    pub(super) name: *const c_char,
    pub(super) arity: c_uint,
    pub(super) call: NifFunction,
    pub(super) flags: c_uint,
}

#[repr(C)]
pub(super) struct Entry {
    pub(super) major: c_int,
    pub(super) minor: c_int,
    pub(super) name: *const c_char,
    pub(super) functions: c_int,
    pub(super) table: *const Nif,
    pub(super) load: Option<unsafe extern "C" fn(*mut RawEnv, *mut *mut c_void, RawTerm) -> c_int>,
    pub(super) reload: *const c_void,
    pub(super) upgrade: *const c_void,
    pub(super) unload: *const c_void,
    pub(super) vm_variant: *const c_char,
    pub(super) options: c_uint,
    pub(super) resource_type_init_bytes: usize,
    pub(super) min_erts: *const c_char,
}

impl Binary {
    pub(super) const fn new() -> Self {
        let none: *mut c_void = std::ptr::null_mut();
        Binary { size: 0, data: none.cast(), owner: none, spare: [none; 2] }
    }
}

impl MapIterator {
    pub(super) const fn new() -> Self {
        MapIterator([0; 16])
    }
}

impl Monitor {
    pub(super) const fn new() -> Self {
        Monitor([std::ptr::null_mut(); 4])
    }
}

/// Flags of a [`Nif`], and of [`enif_schedule_nif`].
pub(super) const DIRTY_CPU: c_uint = 1;
pub(super) const DIRTY_IO: c_uint = 2;
pub(super) const LATIN1: c_uint = 1;
/// Creates a type of resources, or takes it over from a module that was deleted.
pub(super) const CREATE_OR_TAKE_OVER: c_uint = 3;
/// The first member of a map, in [`enif_map_iterator_create`].
pub(super) const FIRST: c_uint = 1;

unsafe extern "C" {
    pub(super) fn enif_alloc_env() -> *mut RawEnv;
    pub(super) fn enif_alloc_resource(kind: *mut RawResourceType, bytes: usize) -> *mut c_void;
    pub(super) fn enif_binary_to_term(
        env: *mut RawEnv,
        data: *const u8,
        bytes: usize,
        term: *mut RawTerm,
        options: c_uint,
    ) -> usize;
    pub(super) fn enif_consume_timeslice(env: *mut RawEnv, percent: c_int) -> c_int;
    pub(super) fn enif_free_env(env: *mut RawEnv);
    pub(super) fn enif_get_atom(
        env: *mut RawEnv,
        term: RawTerm,
        text: *mut u8,
        bytes: c_uint,
        encoding: c_uint,
    ) -> c_int;
    pub(super) fn enif_get_double(env: *mut RawEnv, term: RawTerm, number: *mut f64) -> c_int;
    pub(super) fn enif_get_list_cell(
        env: *mut RawEnv,
        term: RawTerm,
        head: *mut RawTerm,
        tail: *mut RawTerm,
    ) -> c_int;
    pub(super) fn enif_get_list_length(env: *mut RawEnv, term: RawTerm, length: *mut c_uint) -> c_int;
    pub(super) fn enif_get_long(env: *mut RawEnv, term: RawTerm, number: *mut i64) -> c_int;
    pub(super) fn enif_get_map_size(env: *mut RawEnv, term: RawTerm, size: *mut usize) -> c_int;
    pub(super) fn enif_get_map_value(
        env: *mut RawEnv,
        map: RawTerm,
        key: RawTerm,
        value: *mut RawTerm,
    ) -> c_int;
    pub(super) fn enif_get_resource(
        env: *mut RawEnv,
        term: RawTerm,
        kind: *mut RawResourceType,
        object: *mut *mut c_void,
    ) -> c_int;
    pub(super) fn enif_get_tuple(
        env: *mut RawEnv,
        term: RawTerm,
        arity: *mut c_int,
        elements: *mut *const RawTerm,
    ) -> c_int;
    pub(super) fn enif_get_ulong(env: *mut RawEnv, term: RawTerm, number: *mut u64) -> c_int;
    pub(super) fn enif_inspect_binary(env: *mut RawEnv, term: RawTerm, binary: *mut Binary) -> c_int;
    pub(super) fn enif_keep_resource(object: *mut c_void);
    pub(super) fn enif_make_atom_len(env: *mut RawEnv, name: *const u8, bytes: usize) -> RawTerm;
    pub(super) fn enif_make_copy(env: *mut RawEnv, term: RawTerm) -> RawTerm;
    pub(super) fn enif_make_double(env: *mut RawEnv, number: f64) -> RawTerm;
    pub(super) fn enif_make_list_from_array(
        env: *mut RawEnv,
        elements: *const RawTerm,
        count: c_uint,
    ) -> RawTerm;
    pub(super) fn enif_make_long(env: *mut RawEnv, number: i64) -> RawTerm;
    pub(super) fn enif_make_map_from_arrays(
        env: *mut RawEnv,
        keys: *const RawTerm,
        values: *const RawTerm,
        count: usize,
        map: *mut RawTerm,
    ) -> c_int;
    pub(super) fn enif_make_map_put(
        env: *mut RawEnv,
        map: RawTerm,
        key: RawTerm,
        value: RawTerm,
        out: *mut RawTerm,
    ) -> c_int;
    pub(super) fn enif_make_new_binary(env: *mut RawEnv, bytes: usize, term: *mut RawTerm) -> *mut u8;
    pub(super) fn enif_make_new_map(env: *mut RawEnv) -> RawTerm;
    pub(super) fn enif_make_resource(env: *mut RawEnv, object: *mut c_void) -> RawTerm;
    pub(super) fn enif_make_tuple_from_array(
        env: *mut RawEnv,
        elements: *const RawTerm,
        count: c_uint,
    ) -> RawTerm;
    pub(super) fn enif_make_ulong(env: *mut RawEnv, number: u64) -> RawTerm;
    pub(super) fn enif_map_iterator_create(
        env: *mut RawEnv,
        map: RawTerm,
        iterator: *mut MapIterator,
        entry: c_uint,
    ) -> c_int;
    pub(super) fn enif_map_iterator_destroy(env: *mut RawEnv, iterator: *mut MapIterator);
    pub(super) fn enif_map_iterator_get_pair(
        env: *mut RawEnv,
        iterator: *mut MapIterator,
        key: *mut RawTerm,
        value: *mut RawTerm,
    ) -> c_int;
    pub(super) fn enif_map_iterator_next(env: *mut RawEnv, iterator: *mut MapIterator) -> c_int;
    pub(super) fn enif_monitor_process(
        env: *mut RawEnv,
        object: *mut c_void,
        pid: *const Pid,
        monitor: *mut Monitor,
    ) -> c_int;
    pub(super) fn enif_open_resource_type_x(
        env: *mut RawEnv,
        name: *const c_char,
        init: *const ResourceTypeInit,
        flags: c_uint,
        tried: *mut c_uint,
    ) -> *mut RawResourceType;
    pub(super) fn enif_raise_exception(env: *mut RawEnv, reason: RawTerm) -> RawTerm;
    pub(super) fn enif_release_binary(binary: *mut Binary);
    pub(super) fn enif_release_resource(object: *mut c_void);
    pub(super) fn enif_schedule_nif(
        env: *mut RawEnv,
        name: *const c_char,
        flags: c_int,
        call: NifFunction,
        count: c_int,
        arguments: *const RawTerm,
    ) -> RawTerm;
    pub(super) fn enif_self(env: *mut RawEnv, pid: *mut Pid) -> *mut Pid;
    pub(super) fn enif_send(
        env: *mut RawEnv,
        to: *const Pid,
        message_env: *mut RawEnv,
        message: RawTerm,
    ) -> c_int;
    pub(super) fn enif_term_to_binary(env: *mut RawEnv, term: RawTerm, binary: *mut Binary) -> c_int;
    pub(super) fn enif_term_type(env: *mut RawEnv, term: RawTerm) -> c_int;
    pub(super) fn enif_thread_type() -> c_int;
}

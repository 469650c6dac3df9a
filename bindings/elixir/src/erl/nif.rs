//! Functions that the emulator calls: their table, their errors, and going on elsewhere where the work takes too long for a
//! thread that runs processes.

use super::ffi::{self, Entry, NifFunction, RawEnv, RawTerm, ResourceTypeInit};
use super::{Env, Nif, Term, atom};
use crate::raised::{Raised, Result};
use std::ffi::{CStr, c_int, c_void};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr::null;

/// Where a function begins.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum On {
    /// On a thread that runs processes, for less than a millisecond.
    Scheduler,
    /// On a thread that may wait for the system.
    DirtyIo,
}

/// What a function is called with.
pub(crate) struct Call<'a, 'e> {
    pub(crate) env: Env<'e>,
    pub(crate) given: &'a [Term<'e>],
    /// Whether it runs on a thread for that. Otherwise [`Raised::TooLong`] calls it again on one.
    pub(crate) may_take_long: bool,
}

/// A function of this library.
pub(crate) type Function = for<'a, 'e> fn(&Call<'a, 'e>) -> Result<Term<'e>>;

/// An entry of the table of functions: a name, the number of arguments, where it begins, and the function.
macro_rules! nif {
    ($name:literal, $arity:literal, $on:expr, $function:path) => {{
        use std::ffi::{CStr, c_int};
        use $crate::erl::nif::{called, entry};
        use $crate::erl::{RawEnv, RawTerm};

        const NAME: &CStr = $name;
        unsafe extern "C" fn begin(env: *mut RawEnv, _: c_int, given: *const RawTerm) -> RawTerm {
            // SAFETY: the emulator calls it with as many arguments as the entry says.
            unsafe { called::<$arity>(env, given, $function, Some((NAME, go_on))) }
        }
        unsafe extern "C" fn go_on(env: *mut RawEnv, _: c_int, given: *const RawTerm) -> RawTerm {
            // SAFETY: the same arguments.
            unsafe { called::<$arity>(env, given, $function, None) }
        }
        entry(NAME, $arity, $on, begin, go_on)
    }};
}
pub(crate) use nif;

/// What [`nif!`] makes.
pub(crate) const fn entry(
    name: &'static CStr,
    arity: u32,
    on: On,
    begin: NifFunction,
    go_on: NifFunction,
) -> Nif {
    match on {
        On::Scheduler => Nif { name: name.as_ptr(), arity, call: begin, flags: 0 },
        On::DirtyIo => Nif { name: name.as_ptr(), arity, call: go_on, flags: ffi::DIRTY_IO },
    }
}

/// Runs a function. Its error is raised, and so is a panic: the emulator has no frames that can be unwound.
///
/// # Safety
/// The emulator has called this thread with these `N` arguments.
#[inline]
pub(crate) unsafe fn called<const N: usize>(
    raw: *mut RawEnv,
    given: *const RawTerm,
    function: Function,
    go_on: Option<(&'static CStr, NifFunction)>,
) -> RawTerm {
    // SAFETY: the caller says so, and the environment is valid until this returns.
    let env = unsafe { Env::new(raw) };
    // SAFETY: there are so many, and they are of this environment.
    let terms: [Term<'_>; N] = std::array::from_fn(|at| unsafe { env.term(*given.add(at)) });
    let call = Call { env, given: &terms, may_take_long: go_on.is_none() };
    match (catch_unwind(AssertUnwindSafe(|| function(&call))), go_on) {
        (Ok(Ok(term)), _) => term.raw(),
        // SAFETY: it is the function of the same number of arguments.
        (Ok(Err(Raised::TooLong)), Some((name, go_on))) => unsafe {
            let flags = ffi::DIRTY_CPU as c_int;
            ffi::enif_schedule_nif(raw, name.as_ptr(), flags, go_on, N as c_int, given)
        },
        (Ok(Err(raised)), _) => raise(env, raised),
        (Err(_), _) => raise(env, Raised::panicked()),
    }
}

#[cold]
fn raise(env: Env<'_>, raised: Raised) -> RawTerm {
    let made = catch_unwind(AssertUnwindSafe(|| raised.exception(env).raw()));
    // SAFETY: the reason is of this environment.
    unsafe { ffi::enif_raise_exception(env.raw, made.unwrap_or(atom::ERROR.raw())) }
}

// SAFETY: names and functions are static.
unsafe impl Sync for Nif {}

/// What the emulator gets when it has opened this library.
struct Library(Entry);

// SAFETY: what it points to is static and does not change.
unsafe impl Sync for Library {}

const MODULE: &CStr = c"Elixir.Larder.Native";
const VM_VARIANT: &CStr = c"beam.vanilla";
const MIN_ERTS: &CStr = c"erts-12.0";

/// No function is called while another version of this library would be loaded, or this one unloaded: threads run in it. So it
/// has none of these calls, and the linker keeps it loaded.
static LIBRARY: Library = Library(Entry {
    major: 2,
    minor: 16,
    name: MODULE.as_ptr(),
    functions: crate::FUNCTIONS.len() as c_int,
    table: crate::FUNCTIONS.as_ptr(),
    load: Some(load),
    reload: null(),
    upgrade: null(),
    unload: null(),
    vm_variant: VM_VARIANT.as_ptr(),
    options: 1,
    resource_type_init_bytes: size_of::<ResourceTypeInit>(),
    min_erts: MIN_ERTS.as_ptr(),
});

/// The emulator calls it when it opens the library.
#[unsafe(no_mangle)]
extern "C" fn nif_init() -> *const c_void {
    (&raw const LIBRARY.0).cast()
}

unsafe extern "C" fn load(raw: *mut RawEnv, _: *mut *mut c_void, _: RawTerm) -> c_int {
    let loaded = catch_unwind(AssertUnwindSafe(|| {
        // SAFETY: the emulator calls this thread with it.
        let env = unsafe { Env::new(raw) };
        atom::make(env);
        crate::open_resources(env)
    }));
    c_int::from(!matches!(loaded, Ok(true)))
}

//! Lua 5.1, with a limit of memory and a check of the time: states, their stacks, and what scripts may use.

mod memory;
mod sandbox;
mod stack;

use std::ffi::{c_char, c_int, c_void};
use std::ptr::NonNull;

use mlua_sys as ffi;
use mlua_sys::lua_State;

use memory::Memory;
pub(super) use sandbox::Library;
pub(crate) use stack::Stack;
pub(super) use stack::{Function, Kind, Thrown, take_panic};

/// Instructions of Lua between two checks of the time: some microseconds.
const INSTRUCTIONS_PER_CHECK: c_int = 1000;
/// Garbage is collected when the memory in use has grown by this many percent since the last collection. Lua does not
/// collect when it reaches the limit, so it must not wait for twice the memory, which is the default.
const GARBAGE_PAUSE_PERCENT: c_int = 150;
/// Where scripts appear in messages.
const CHUNK_NAME: &std::ffi::CStr = c"@user_script";

/// Asks whether the present script has to end. It may be asked at any time while a script runs.
pub(super) type MustEnd = fn() -> bool;

/// A state: one global environment, on one thread.
pub(super) struct Lua {
    state: NonNull<lua_State>,
    memory: NonNull<Memory>,
}

/// A function in a state. It stays there until [`Lua::release`].
#[derive(Debug)]
pub(super) struct Compiled(c_int);

/// How a call has ended.
pub(super) enum Called<R> {
    Returned(R),
    /// The text of the error.
    Failed(Vec<u8>),
    OutOfMemory,
}

impl Lua {
    /// A state with these libraries beside those of Lua, and with a limit of memory. `describe` replaces the value of an
    /// error that ends a call by its text, while the stack of the error is there.
    pub(super) fn new(max_bytes: usize, libraries: &[Library], describe: Function) -> Self {
        let memory = NonNull::from(Box::leak(Box::new(Memory::new(max_bytes))));
        // SAFETY: the allocator gets the memory that it needs, which lives until the state is closed.
        let state = unsafe { ffi::lua_newstate(memory::allocate, memory.as_ptr().cast()) };
        // The allocator never fails without a limit.
        let mut lua = Lua { state: NonNull::new(state).expect("a state was allocated"), memory };
        // SAFETY: the state is new and used by nobody else, and the limit is not enforced.
        unsafe {
            ffi::lua_gc(state, ffi::LUA_GCSETPAUSE, GARBAGE_PAUSE_PERCENT);
            sandbox::open(state, libraries);
        }
        let mut stack = lua.stack();
        stack.push_function(describe);
        stack.set_item(ffi::LUA_REGISTRYINDEX, DESCRIBE_SLOT);
        lua
    }

    /// The stack, while no script runs.
    pub(super) fn stack(&mut self) -> Stack<'_> {
        // SAFETY: the state is borrowed, and the limit is enforced only in a call.
        unsafe { Stack::new(self.state.as_ptr()) }
    }

    /// Makes scripts ask, every few microseconds, whether they have to end.
    pub(super) fn set_check(&mut self, must_end: MustEnd) {
        let state = self.state.as_ptr();
        // SAFETY: the state is valid. The hook finds the function there.
        unsafe {
            ffi::lua_pushlightuserdata(state, must_end as *mut c_void);
            ffi::lua_rawseti_(state, ffi::LUA_REGISTRYINDEX, CHECK_SLOT);
        }
    }

    /// Sets a global variable, also one that scripts cannot set, to the value on the top of the stack, which is popped.
    pub(super) fn set_global(&mut self, name: &str) {
        sandbox::set_global(&mut self.stack(), name);
    }

    /// Whether most of the memory is still in use after garbage was collected.
    pub(super) fn is_nearly_full(&mut self) -> bool {
        let max_bytes = self.stack().max_memory_bytes() as f64;
        let is_above_half = |stack: &Stack<'_>| stack.kilobytes() * 1024.0 > max_bytes / 2.0;
        let mut stack = self.stack();
        if is_above_half(&stack) {
            stack.collect_garbage();
        }
        is_above_half(&stack)
    }

    /// Compiles a script. The error is the message of the compiler.
    pub(super) fn compile(&mut self, code: &[u8]) -> Result<Compiled, Vec<u8>> {
        if code.first() == Some(&ffi::LUA_SIGNATURE[0]) {
            // As for any other character that starts no statement.
            return Err(b"user_script:1: unexpected symbol near 'char(27)'".to_vec());
        }
        let state = self.state.as_ptr();
        // SAFETY: the state is valid, errors of the compiler are results, and the limit of memory is enforced only in it.
        unsafe {
            // The parser does not protect its name: see `sandbox`.
            ffi::lua_pushstring_(state, CHUNK_NAME.as_ptr());
            stack::set_enforced(state, true);
            let status =
                ffi::luaL_loadbuffer(state, code.as_ptr().cast::<c_char>(), code.len(), CHUNK_NAME.as_ptr());
            stack::set_enforced(state, false);
            ffi::lua_remove(state, -2);
            if status == ffi::LUA_OK {
                return Ok(Compiled(ffi::luaL_ref(state, ffi::LUA_REGISTRYINDEX)));
            }
        }
        let mut stack = self.stack();
        let message = stack.text(-1).unwrap_or_default().to_vec();
        stack.pop(1);
        Err(message)
    }

    /// Frees a function.
    pub(super) fn release(&mut self, function: Compiled) {
        // SAFETY: the state is valid, and the reference was made by `compile`.
        unsafe { ffi::luaL_unref(self.state.as_ptr(), ffi::LUA_REGISTRYINDEX, function.0) }
    }

    /// Calls a function and then `read` with the stack, on whose top its result is.
    pub(super) fn call<R>(
        &mut self,
        function: &Compiled,
        read: impl FnOnce(&mut Stack<'_>) -> R,
    ) -> Called<R> {
        let mut stack = self.stack();
        stack.reserve(ffi::LUA_MINSTACK as usize);
        let handler = stack.top() as c_int + 1;
        stack.push_item(ffi::LUA_REGISTRYINDEX, DESCRIBE_SLOT);
        let state = self.state.as_ptr();
        // SAFETY: the state is valid, the reference was made by `compile`, and errors are results.
        let status = unsafe {
            ffi::lua_rawgeti_(state, ffi::LUA_REGISTRYINDEX, function.0);
            ffi::lua_sethook(state, Some(check), ffi::LUA_MASKCOUNT, INSTRUCTIONS_PER_CHECK);
            stack::set_enforced(state, true);
            let status = ffi::lua_pcall(state, 0, 1, handler);
            stack::set_enforced(state, false);
            status
        };
        let mut stack = self.stack();
        let called = match status {
            ffi::LUA_OK => Called::Returned(read(&mut stack)),
            ffi::LUA_ERRMEM => Called::OutOfMemory,
            _ => Called::Failed(stack.text(-1).unwrap_or_default().to_vec()),
        };
        stack.set_top(handler as usize - 1);
        called
    }
}

impl Drop for Lua {
    fn drop(&mut self) {
        // SAFETY: nobody else uses the state, and the memory was leaked by `new` for it alone.
        unsafe {
            ffi::lua_close(self.state.as_ptr());
            drop(Box::from_raw(self.memory.as_ptr()));
        }
    }
}

/// Where the registry has the [`MustEnd`], and the function that describes errors. References count from 1 upwards.
const CHECK_SLOT: c_int = -1;
const DESCRIBE_SLOT: c_int = -3;

/// Whether the present script has to end; false before [`Lua::set_check`].
///
/// # Safety
///
/// The state must be valid and have room for a value.
unsafe fn must_end(state: *mut lua_State) -> bool {
    // SAFETY: the caller's promise; `set_check` has put a function of this type into the slot.
    unsafe {
        ffi::lua_rawgeti_(state, ffi::LUA_REGISTRYINDEX, CHECK_SLOT);
        let must_end = std::mem::transmute::<*mut c_void, Option<MustEnd>>(ffi::lua_touserdata(state, -1));
        ffi::lua_pop(state, 1);
        must_end.is_some_and(|must_end| must_end())
    }
}

/// The hook. From the moment at which the script has to end, every instruction raises an error, so that no `pcall` lets
/// it go on.
///
/// # Safety
///
/// Only Lua calls it.
unsafe extern "C-unwind" fn check(state: *mut lua_State, _: *mut ffi::lua_Debug) {
    // SAFETY: Lua gives a hook room for values. Nothing is left to drop in this frame when an error jumps over it, and the
    // text of the error needs memory that is not limited.
    unsafe {
        if must_end(state) {
            ffi::lua_sethook(state, Some(check), ffi::LUA_MASKCOUNT, 1);
            let was_enforced = stack::set_enforced(state, false);
            ffi::lua_pushliteral(state, c"the script has to end");
            stack::set_enforced(state, was_enforced);
            ffi::lua_error(state);
        }
    }
}

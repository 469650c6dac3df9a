//! What scripts can use: the global variables of Redis, which scripts can read and not change.
//!
//! The tables of libraries, and that of global variables, are hidden behind empty tables with a metatable that reads from
//! them and refuses writes. Every function that would see or change the empty table itself (`rawset`, `next`, …) treats
//! these tables as what they stand for. No script gets one of the hidden tables, so none can change what a later script
//! of another client finds.
//!
//! Scripts cannot load compiled code: Lua does not verify it, and crafted code reads and writes any memory. Faults of
//! Lua 5.1.5 are kept out of reach: `unpack` computes a number of values that can overflow (CVE-2025-46817), and the
//! parser does not protect the name of a chunk from the collection of garbage (CVE-2025-49844). A third is that a long
//! pattern exhausts the stack of the thread.

use std::ffi::{CStr, c_char, c_int, c_void};

use mlua_sys as ffi;
use mlua_sys::{lua_CFunction, lua_State};

use super::stack::{Stack, Thrown};

/// What Redis removes from the libraries of Lua: they read files, write to standard output or see the environments of
/// functions.
const REMOVED: [&str; 6] = ["dofile", "getfenv", "loadfile", "newproxy", "print", "setfenv"];

/// The libraries of Lua that scripts get.
const LIBRARIES: [(&CStr, lua_CFunction); 4] = [
    (c"", ffi::luaopen_base),
    (c"table", ffi::luaopen_table),
    (c"string", ffi::luaopen_string),
    (c"math", ffi::luaopen_math),
];

/// The libraries whose tables are protected, beside those of this server.
const PROTECTED: [&str; 3] = ["coroutine", "string", "table"];

/// Marks the metatables of protected tables: its address is their first item. The second one is the hidden table.
static MARK: u8 = 0;
const MARK_ITEM: i32 = 1;
const HIDDEN_ITEM: i32 = 2;

/// Lua matches each repetition of a pattern by another call of a C function, without a limit.
const MAX_REPETITIONS: usize = 2000;

/// The values that fit on the stack of Lua.
const MAX_UNPACKED: i64 = 8000;

/// What modifying a protected table says, as in Redis.
const READ_ONLY: &str = "Attempt to modify a readonly table";

/// A library of this server: its name, and what pushes its table.
pub(in crate::script) type Library = (&'static str, fn(&mut Stack<'_>));

/// The registry's place of the hidden table of global variables.
const GLOBALS_SLOT: c_int = -2;

/// Opens the libraries and protects everything.
///
/// # Safety
///
/// The state must be new, and its limit of memory not enforced.
pub(super) unsafe fn open(state: *mut lua_State, libraries: &[Library]) {
    for (name, open) in LIBRARIES {
        // SAFETY: the state is valid; these functions take the name of the library.
        unsafe {
            ffi::lua_pushcclosure(state, open, 0);
            ffi::lua_pushstring_(state, name.as_ptr());
            ffi::lua_call(state, 1, 0);
        }
    }
    // SAFETY: the caller's promise.
    let mut stack = unsafe { Stack::new(state) };
    let globals = ffi::LUA_GLOBALSINDEX;
    for name in REMOVED {
        stack.push_nil();
        stack.set_field(globals, name);
    }
    for (name, push) in libraries {
        push(&mut stack);
        stack.set_field(globals, name);
    }
    // SAFETY: as above.
    unsafe { replace_functions(state, &mut stack) };
    stack.push_function(collect_garbage);
    stack.set_field(globals, "collectgarbage");
    for name in PROTECTED.iter().chain(libraries.iter().map(|(name, _)| name)) {
        stack.push_field(globals, name);
        protect_top(&mut stack);
        stack.set_field(globals, name);
    }
    protect_strings(&mut stack);
    // SAFETY: as above.
    unsafe { protect_globals(state, &mut stack) };
    stack.set_top(0);
}

/// Sets a global variable to the value on the top of the stack, which is popped.
pub(super) fn set_global(stack: &mut Stack<'_>, name: &str) {
    stack.push_item(ffi::LUA_REGISTRYINDEX, GLOBALS_SLOT);
    stack.push_value(-2);
    stack.set_field(-2, name);
    stack.pop(2);
}

/// Replaces the table on the top by a protected one that stands for it.
fn protect_top(stack: &mut Stack<'_>) {
    let hidden = stack.top() as i32;
    stack.push_table(0, 0);
    stack.push_table(2, 3);
    stack.push_light_userdata((&raw const MARK).cast());
    stack.set_item(-2, MARK_ITEM);
    stack.push_value(hidden);
    stack.set_item(-2, HIDDEN_ITEM);
    stack.push_value(hidden);
    stack.set_field(-2, "__index");
    stack.push_function(refuse);
    stack.set_field(-2, "__newindex");
    stack.push_boolean(false);
    stack.set_field(-2, "__metatable");
    stack.set_metatable(-2);
    stack.replace(hidden);
}

/// Methods of strings come from the protected table, and so does what `getmetatable` returns.
fn protect_strings(stack: &mut Stack<'_>) {
    stack.push_bytes(b"");
    stack.push_metatable(-1);
    stack.push_field(ffi::LUA_GLOBALSINDEX, "string");
    stack.set_field(-2, "__index");
    stack.push_value(-1);
    protect_top(stack);
    stack.set_field(-2, "__metatable");
    stack.pop(2);
}

/// Hides the table of global variables. An unknown name is an error, so that a typing error is found.
///
/// # Safety
///
/// As of [`open`].
unsafe fn protect_globals(state: *mut lua_State, stack: &mut Stack<'_>) {
    stack.push_value(ffi::LUA_GLOBALSINDEX);
    stack.push_table(0, 1);
    stack.push_function(unknown_global);
    stack.set_field(-2, "__index");
    stack.set_metatable(-2);
    stack.push_value(-1);
    stack.set_item(ffi::LUA_REGISTRYINDEX, GLOBALS_SLOT);
    let hidden = stack.top() as i32;
    stack.push_value(-1);
    protect_top(stack);
    stack.push_value(-1);
    stack.set_field(hidden, "_G");
    // SAFETY: the table on the top becomes that of the global variables, for all functions that are compiled later.
    unsafe { ffi::lua_replace(state, ffi::LUA_GLOBALSINDEX) };
}

fn refuse(stack: &mut Stack<'_>) -> Result<usize, Thrown> {
    Err(stack.throw_here(READ_ONLY))
}

fn unknown_global(stack: &mut Stack<'_>) -> Result<usize, Thrown> {
    let name = String::from_utf8_lossy(stack.text(2).unwrap_or_default()).into_owned();
    Err(stack.throw_here(format!("Script attempted to access nonexistent global variable '{name}'")))
}

/// `collectgarbage`: a script cannot switch the collection off, for itself or for later scripts.
fn collect_garbage(stack: &mut Stack<'_>) -> Result<usize, Thrown> {
    let option = if stack.top() == 0 { b"collect".to_vec() } else { stack.text_argument(1)?.to_vec() };
    let result = match option.as_slice() {
        b"count" => stack.kilobytes(),
        b"collect" | b"step" => {
            stack.collect_garbage();
            0.0
        }
        b"stop" | b"restart" | b"setpause" | b"setstepmul" => 0.0,
        other => {
            let text = format!("invalid option '{}'", String::from_utf8_lossy(other));
            return Err(stack.bad_argument(1, text));
        }
    };
    stack.push_number(result);
    Ok(1)
}

/// Replaces the functions of Lua that would see or change protected tables, load compiled code, or return errors that
/// Redis returns in another form.
///
/// # Safety
///
/// As of [`open`].
unsafe fn replace_functions(state: *mut lua_State, stack: &mut Stack<'_>) {
    // SAFETY: as below.
    let mut guard = |table: Option<&str>, name: &str, with: lua_CFunction| unsafe {
        match table {
            Some(table) => _ = stack.push_field(ffi::LUA_GLOBALSINDEX, table),
            None => stack.push_value(ffi::LUA_GLOBALSINDEX),
        }
        stack.push_field(-1, name);
        let original = ffi::lua_tocfunction(state, -1).expect("a function of Lua");
        ffi::lua_pushlightuserdata(state, original as *mut c_void);
        ffi::lua_pushcclosure(state, with, 1);
        stack.set_field(-3, name);
        stack.set_top(0);
    };
    for name in ["rawset", "setmetatable"] {
        guard(None, name, refuse_protected);
    }
    for name in ["insert", "remove", "sort", "setn"] {
        guard(Some("table"), name, refuse_protected);
    }
    for name in ["next", "rawget"] {
        guard(None, name, see_hidden);
    }
    guard(None, "loadstring", refuse_compiled);
    guard(None, "load", load);
    for name in ["find", "gfind", "gmatch", "gsub", "match"] {
        guard(Some("string"), name, limit_pattern);
    }
    guard(None, "unpack", unpack);
    guard(None, "pcall", pcall);
    guard(None, "xpcall", xpcall);
    // SAFETY: the state is valid. `pairs` returns the guarded `next`.
    unsafe {
        stack.push_field(ffi::LUA_GLOBALSINDEX, "next");
        ffi::lua_pushcclosure(state, pairs, 1);
    }
    stack.set_field(ffi::LUA_GLOBALSINDEX, "pairs");
}

/// Whether a value is a protected table. Then the hidden table is pushed.
///
/// # Safety
///
/// The state must be valid and have room for three values.
unsafe fn push_hidden(state: *mut lua_State, index: c_int) -> bool {
    // SAFETY: the caller's promise. Nothing here allocates or raises an error.
    unsafe {
        if ffi::lua_type(state, index) != ffi::LUA_TTABLE || ffi::lua_getmetatable(state, index) == 0 {
            return false;
        }
        ffi::lua_rawgeti_(state, -1, MARK_ITEM);
        let is_protected = ffi::lua_touserdata(state, -1).cast_const() == (&raw const MARK).cast::<c_void>();
        ffi::lua_pop(state, 1);
        if is_protected {
            ffi::lua_rawgeti_(state, -1, HIDDEN_ITEM);
            ffi::lua_remove(state, -2);
        } else {
            ffi::lua_pop(state, 1);
        }
        is_protected
    }
}

/// Calls the C function that this closure replaces, with the same arguments.
///
/// # Safety
///
/// Only for closures that `replace_functions` has made.
unsafe fn call_original(state: *mut lua_State) -> c_int {
    // SAFETY: the upvalue is a function of Lua's libraries, which does not use upvalues.
    unsafe {
        let original: lua_CFunction =
            std::mem::transmute(ffi::lua_touserdata(state, ffi::lua_upvalueindex(1)));
        original(state)
    }
}

/// Refuses a protected table as first argument.
unsafe extern "C-unwind" fn refuse_protected(state: *mut lua_State) -> c_int {
    // SAFETY: Lua calls it, with room for 20 values. Nothing is left to drop when an error jumps over this frame.
    unsafe {
        if push_hidden(state, 1) {
            ffi::lua_pushliteral(state, c"Attempt to modify a readonly table");
            ffi::lua_error(state);
        }
        call_original(state)
    }
}

/// Replaces a protected table that is the first argument by the hidden one. The function must not return it.
unsafe extern "C-unwind" fn see_hidden(state: *mut lua_State) -> c_int {
    // SAFETY: as above.
    unsafe {
        if push_hidden(state, 1) {
            ffi::lua_replace(state, 1);
        }
        call_original(state)
    }
}

/// `pairs`, with the guarded `next`, its upvalue.
unsafe extern "C-unwind" fn pairs(state: *mut lua_State) -> c_int {
    // SAFETY: as above.
    unsafe {
        ffi::luaL_checktype(state, 1, ffi::LUA_TTABLE);
        ffi::lua_pushvalue(state, ffi::lua_upvalueindex(1));
        ffi::lua_pushvalue(state, 1);
        ffi::lua_pushnil(state);
        3
    }
}

/// `loadstring`, for source only.
unsafe extern "C-unwind" fn refuse_compiled(state: *mut lua_State) -> c_int {
    // SAFETY: as above.
    unsafe {
        let mut length = 0;
        let code = ffi::luaL_checklstring(state, 1, &raw mut length);
        if is_compiled(code, length) {
            ffi::lua_pushnil(state);
            ffi::lua_pushliteral(state, c"compiled code cannot be loaded");
            return 2;
        }
        anchor_chunk_name(state, code);
        call_original(state)
    }
}

/// `load`, for source only: the function that returns the pieces is wrapped.
unsafe extern "C-unwind" fn load(state: *mut lua_State) -> c_int {
    // SAFETY: as above. The closure has the function and whether it was called as upvalues.
    unsafe {
        ffi::luaL_checktype(state, 1, ffi::LUA_TFUNCTION);
        ffi::lua_pushvalue(state, 1);
        ffi::lua_pushboolean(state, 0);
        ffi::lua_pushcclosure(state, read_source, 2);
        ffi::lua_replace(state, 1);
        anchor_chunk_name(state, c"=(load)".as_ptr());
        call_original(state)
    }
}

/// Puts the name of a chunk, the second argument, on the stack as the parser will see it: up to a zero byte. Equal strings
/// are one object in Lua, so that the parser's string is in use as long as the argument is.
///
/// # Safety
///
/// Only in a C function, whose frame has nothing to drop. `default` must be readable up to a zero byte.
unsafe fn anchor_chunk_name(state: *mut lua_State, default: *const c_char) {
    // SAFETY: the caller's promise.
    unsafe {
        let name = ffi::luaL_optlstring(state, 2, default, std::ptr::null_mut());
        ffi::lua_settop(state, 2);
        ffi::lua_pushstring_(state, name);
        ffi::lua_replace(state, 2);
    }
}

/// Refuses a pattern that would exhaust the stack of the thread.
unsafe extern "C-unwind" fn limit_pattern(state: *mut lua_State) -> c_int {
    // SAFETY: as above. The pattern is a string, so that it is not converted.
    unsafe {
        if ffi::lua_type(state, 2) == ffi::LUA_TSTRING && ffi::lua_objlen(state, 2) > MAX_REPETITIONS {
            let mut length = 0;
            let start = ffi::lua_tolstring(state, 2, &raw mut length);
            let pattern = std::slice::from_raw_parts(start.cast::<u8>(), length);
            let repetitions = pattern.iter().filter(|byte| b"?*+-".contains(byte)).count();
            if repetitions > MAX_REPETITIONS && ffi::lua_toboolean(state, 4) == 0 {
                return ffi::luaL_error(state, c"pattern too complex".as_ptr());
            }
        }
        call_original(state)
    }
}

/// `unpack`, for as many values as fit on the stack.
unsafe extern "C-unwind" fn unpack(state: *mut lua_State) -> c_int {
    // SAFETY: as above.
    unsafe {
        ffi::luaL_checktype(state, 1, ffi::LUA_TTABLE);
        let first = ffi::luaL_optinteger(state, 2, 1) as c_int;
        let length = ffi::lua_objlen(state, 1) as ffi::lua_Integer;
        let last = ffi::luaL_optinteger(state, 3, length) as c_int;
        if i64::from(last) - i64::from(first) >= MAX_UNPACKED {
            return ffi::luaL_error(state, c"too many results to unpack".as_ptr());
        }
        call_original(state)
    }
}

/// Returns the next piece of code. Lua decides by the first piece whether it is compiled.
unsafe extern "C-unwind" fn read_source(state: *mut lua_State) -> c_int {
    // SAFETY: as above.
    unsafe {
        ffi::lua_settop(state, 0);
        ffi::lua_pushvalue(state, ffi::lua_upvalueindex(1));
        ffi::lua_call(state, 0, 1);
        if ffi::lua_toboolean(state, ffi::lua_upvalueindex(2)) == 0 {
            ffi::lua_pushboolean(state, 1);
            ffi::lua_replace(state, ffi::lua_upvalueindex(2));
            let mut length = 0;
            if ffi::lua_type(state, 1) == ffi::LUA_TSTRING
                && is_compiled(ffi::lua_tolstring(state, 1, &raw mut length), length)
            {
                ffi::lua_pushliteral(state, c"compiled code cannot be loaded");
                ffi::lua_error(state);
            }
        }
        1
    }
}

/// # Safety
///
/// The bytes must be readable.
unsafe fn is_compiled(code: *const c_char, length: usize) -> bool {
    // SAFETY: the caller's promise.
    length > 0 && unsafe { *code.cast::<u8>() } == ffi::LUA_SIGNATURE[0]
}

/// `pcall`, which returns the text of an error of a command instead of its table, as Redis does since 7.0: scripts for
/// earlier versions expect a string.
unsafe extern "C-unwind" fn pcall(state: *mut lua_State) -> c_int {
    // SAFETY: as above.
    unsafe {
        ffi::luaL_checkany(state, 1);
        ffi::lua_pushboolean(state, 1);
        ffi::lua_insert(state, 1);
        let arguments = ffi::lua_gettop(state) - 2;
        if ffi::lua_pcall(state, arguments, ffi::LUA_MULTRET, 0) != ffi::LUA_OK {
            ffi::lua_remove(state, 1);
            if ffi::lua_type(state, -1) == ffi::LUA_TTABLE {
                ffi::lua_pushliteral(state, c"err");
                ffi::lua_rawget_(state, -2);
                match ffi::lua_isstring(state, -1) {
                    0 => ffi::lua_pop(state, 1),
                    _ => ffi::lua_replace(state, -2),
                }
            }
            ffi::lua_pushboolean(state, 0);
            ffi::lua_insert(state, 1);
        }
        ffi::lua_gettop(state)
    }
}

/// `xpcall`, whose handler is not called after the script has to end: Lua calls handlers of errors in hooks without hooks,
/// so that nothing could end an endless one.
unsafe extern "C-unwind" fn xpcall(state: *mut lua_State) -> c_int {
    // SAFETY: as above. The closure has the handler as upvalue.
    unsafe {
        ffi::luaL_checkany(state, 2);
        ffi::lua_settop(state, 2);
        ffi::lua_pushcclosure(state, handle, 1);
        call_original(state)
    }
}

/// Calls the handler of an error, its upvalue, unless the script has to end.
unsafe extern "C-unwind" fn handle(state: *mut lua_State) -> c_int {
    // SAFETY: as above.
    unsafe {
        if !super::must_end(state) {
            ffi::lua_pushvalue(state, ffi::lua_upvalueindex(1));
            ffi::lua_insert(state, 1);
            ffi::lua_call(state, 1, 1);
        }
        1
    }
}

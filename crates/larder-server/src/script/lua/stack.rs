//! The stack of a Lua state, as functions in Rust see it. With its neighbour `memory` this is the only code that calls
//! Lua's C interface, apart from the few functions in `sandbox` and `state` that have to be C functions.
//!
//! Reading takes a shared reference and everything that may remove a value an exclusive one. So bytes that were read stay
//! valid as long as the compiler lets them be used: strings do not move while they are on the stack.
//!
//! An error of Lua would jump over the frames of Rust functions. The operations here raise none: they are the raw ones,
//! without metamethods; the limit of memory is suspended; and keys of tables are checked. A function returns its own
//! error as a value, [`Thrown`], and [`dispatch`] raises it after the function has ended.

use std::any::Any;
use std::cell::Cell;
use std::ffi::{CStr, c_int, c_void};
use std::marker::PhantomData;
use std::panic::{AssertUnwindSafe, catch_unwind};

use mlua_sys as ffi;
use mlua_sys::lua_State;

use super::memory::Memory;

/// A function that scripts can call: it returns the number of values that it has pushed.
pub(in crate::script) type Function = fn(&mut Stack<'_>) -> Result<usize, Thrown>;

/// An error of Lua: its value is on the top of the stack.
#[derive(Debug)]
pub(in crate::script) struct Thrown;

/// The type of a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::script) enum Kind {
    None,
    Nil,
    Boolean,
    LightUserdata,
    Number,
    String,
    Table,
    Function,
    Userdata,
    Thread,
}

impl Kind {
    /// As in the messages of Lua.
    pub(in crate::script) fn name(self) -> &'static str {
        match self {
            Kind::None => "no value",
            Kind::Nil => "nil",
            Kind::Boolean => "boolean",
            Kind::Number => "number",
            Kind::String => "string",
            Kind::Table => "table",
            Kind::Function => "function",
            Kind::LightUserdata | Kind::Userdata => "userdata",
            Kind::Thread => "thread",
        }
    }
}

/// Where a function was called.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::script) struct Position {
    /// The name of the chunk, with its `@`.
    pub(in crate::script) source: String,
    /// The name as Lua shows it in messages.
    short_source: String,
    pub(in crate::script) line: c_int,
    pub(in crate::script) is_c: bool,
}

thread_local! {
    /// The payload of a panic in a function that a script has called. The script ends with an error first.
    static PANIC: Cell<Option<Box<dyn Any + Send>>> = const { Cell::new(None) };
}

/// The payload of a panic in a function that a script has called since the last call.
pub(in crate::script) fn take_panic() -> Option<Box<dyn Any + Send>> {
    PANIC.take()
}

/// A stack. Indices are those of Lua: from 1 for the first argument of a function, and from -1 for the top.
pub(crate) struct Stack<'l> {
    state: *mut lua_State,
    lifetime: PhantomData<&'l mut lua_State>,
}

impl<'l> Stack<'l> {
    /// # Safety
    ///
    /// The state must be valid for the lifetime and not used in another way meanwhile. The limit of memory must not be
    /// enforced.
    pub(super) unsafe fn new(state: *mut lua_State) -> Self {
        Stack { state, lifetime: PhantomData }
    }

    fn memory(&self) -> &Memory {
        let mut memory: *mut c_void = std::ptr::null_mut();
        // SAFETY: the state is valid, and its allocator has a `Memory`, which only the allocator changes.
        unsafe {
            ffi::lua_getallocf(self.state, &raw mut memory);
            &*memory.cast::<Memory>()
        }
    }

    /// Fails if the state has more memory than it may have, or would have with this many bytes more.
    pub(in crate::script) fn check_memory(&mut self, more_bytes: usize) -> Result<(), Thrown> {
        match self.memory().is_exceeded_by(more_bytes) {
            true => Err(self.throw("not enough memory")),
            false => Ok(()),
        }
    }

    /// The memory that the state may have.
    pub(in crate::script) fn max_memory_bytes(&self) -> usize {
        self.memory().max_bytes()
    }

    /// The index of the top value; the number of arguments at the start of a function.
    pub(in crate::script) fn top(&self) -> usize {
        // SAFETY: the state is valid.
        unsafe { ffi::lua_gettop(self.state) as usize }
    }

    /// Removes the values above this index, or adds `nil` up to it.
    pub(in crate::script) fn set_top(&mut self, top: usize) {
        // SAFETY: the state is valid, and callers keep `top` within what they have reserved.
        unsafe { ffi::lua_settop(self.state, top as c_int) }
    }

    pub(in crate::script) fn pop(&mut self, count: usize) {
        // SAFETY: the state is valid and has these values.
        unsafe { ffi::lua_pop(self.state, count as c_int) }
    }

    /// Makes room for this many values. Fails if the stack would be too large.
    pub(in crate::script) fn reserve(&mut self, count: usize) -> bool {
        // SAFETY: the state is valid.
        c_int::try_from(count).is_ok_and(|count| unsafe { ffi::lua_checkstack(self.state, count) != 0 })
    }

    pub(in crate::script) fn kind(&self, index: i32) -> Kind {
        // SAFETY: the state is valid, and any index may be asked for.
        match unsafe { ffi::lua_type(self.state, index) } {
            ffi::LUA_TNIL => Kind::Nil,
            ffi::LUA_TBOOLEAN => Kind::Boolean,
            ffi::LUA_TLIGHTUSERDATA => Kind::LightUserdata,
            ffi::LUA_TNUMBER => Kind::Number,
            ffi::LUA_TSTRING => Kind::String,
            ffi::LUA_TTABLE => Kind::Table,
            ffi::LUA_TFUNCTION => Kind::Function,
            ffi::LUA_TUSERDATA => Kind::Userdata,
            ffi::LUA_TTHREAD => Kind::Thread,
            _ => Kind::None,
        }
    }

    /// A string.
    pub(in crate::script) fn bytes(&self, index: i32) -> Option<&[u8]> {
        if self.kind(index) != Kind::String {
            return None;
        }
        let mut length = 0;
        // SAFETY: the value is a string, so that it is not converted, and it stays on the stack while `self` is borrowed.
        unsafe {
            let start = ffi::lua_tolstring(self.state, index, &raw mut length);
            Some(std::slice::from_raw_parts(start.cast(), length))
        }
    }

    /// A string, or a number that is converted to one on the stack.
    pub(in crate::script) fn text(&mut self, index: i32) -> Option<&[u8]> {
        if self.kind(index) == Kind::Number {
            // SAFETY: the value is a number. It is replaced by its text, for which memory is not limited.
            unsafe { ffi::lua_tolstring(self.state, index, std::ptr::null_mut()) };
        }
        self.bytes(index)
    }

    /// A number, or a string that is one in Lua.
    pub(in crate::script) fn number(&self, index: i32) -> Option<f64> {
        // SAFETY: the state is valid, and any index may be asked for.
        unsafe { (ffi::lua_isnumber(self.state, index) != 0).then(|| ffi::lua_tonumber(self.state, index)) }
    }

    /// Whether the value is neither `nil` nor `false`.
    pub(in crate::script) fn boolean(&self, index: i32) -> bool {
        // SAFETY: the state is valid, and any index may be asked for.
        unsafe { ffi::lua_toboolean(self.state, index) != 0 }
    }

    /// The address of a light userdata, or of an object.
    pub(in crate::script) fn address(&self, index: i32) -> *const c_void {
        // SAFETY: the state is valid, and any index may be asked for.
        unsafe { ffi::lua_topointer(self.state, index) }
    }

    pub(in crate::script) fn push_nil(&mut self) {
        // SAFETY: the state is valid and has room.
        unsafe { ffi::lua_pushnil(self.state) }
    }

    pub(in crate::script) fn push_boolean(&mut self, value: bool) {
        // SAFETY: the state is valid and has room.
        unsafe { ffi::lua_pushboolean(self.state, c_int::from(value)) }
    }

    pub(in crate::script) fn push_number(&mut self, number: f64) {
        // SAFETY: the state is valid and has room.
        unsafe { ffi::lua_pushnumber(self.state, number) }
    }

    pub(in crate::script) fn push_bytes(&mut self, bytes: &[u8]) {
        // SAFETY: the state is valid and has room; memory is not limited now.
        unsafe { ffi::lua_pushlstring_(self.state, bytes.as_ptr().cast(), bytes.len()) }
    }

    pub(in crate::script) fn push_light_userdata(&mut self, address: *const c_void) {
        // SAFETY: the state is valid and has room. Lua does not use the address.
        unsafe { ffi::lua_pushlightuserdata(self.state, address.cast_mut()) }
    }

    /// Pushes a global variable. Only while the sandbox is not closed.
    pub(in crate::script) fn push_global(&mut self, name: &str) -> Kind {
        self.push_field(ffi::LUA_GLOBALSINDEX, name)
    }

    /// Pops the top value and puts it in the place of another one.
    pub(in crate::script) fn replace(&mut self, index: i32) {
        // SAFETY: the state is valid, and the index has a value.
        unsafe { ffi::lua_replace(self.state, index) }
    }

    /// Pushes a copy of a value.
    pub(in crate::script) fn push_value(&mut self, index: i32) {
        // SAFETY: the state is valid and has room, and the index has a value.
        unsafe { ffi::lua_pushvalue(self.state, index) }
    }

    pub(in crate::script) fn push_function(&mut self, function: Function) {
        // SAFETY: the state is valid and has room; `dispatch` finds the function as its first upvalue.
        unsafe {
            ffi::lua_pushlightuserdata(self.state, function as *mut c_void);
            ffi::lua_pushcclosure(self.state, dispatch, 1);
        }
    }

    pub(in crate::script) fn push_table(&mut self, items: usize, fields: usize) {
        let size = |count: usize| c_int::try_from(count).unwrap_or(c_int::MAX);
        // SAFETY: the state is valid and has room; memory is not limited now.
        unsafe { ffi::lua_createtable(self.state, size(items), size(fields)) }
    }

    /// `table[index] = top`, which is popped. The table is at another index of the stack.
    pub(in crate::script) fn set_item(&mut self, table: i32, index: i32) {
        debug_assert_eq!(self.kind(table), Kind::Table);
        // SAFETY: the state is valid and has a table there.
        unsafe { ffi::lua_rawseti_(self.state, table, index) }
    }

    /// `table[name] = top`, which is popped. The table is at another index of the stack.
    pub(in crate::script) fn set_field(&mut self, table: i32, name: &str) {
        debug_assert_eq!(self.kind(table), Kind::Table);
        self.push_bytes(name.as_bytes());
        // SAFETY: the state is valid. The key is below the value, and the table one deeper if it is counted from the top.
        unsafe {
            ffi::lua_insert(self.state, -2);
            ffi::lua_rawset(
                self.state,
                if table < 0 && table > ffi::LUA_REGISTRYINDEX { table - 1 } else { table },
            );
        }
    }

    /// `table[key] = value`: both are popped, the value is on the top. Fails without an effect on the table if the key is
    /// `nil` or not a number.
    pub(in crate::script) fn set_pair(&mut self, table: i32) -> Result<(), &'static str> {
        debug_assert_eq!(self.kind(table), Kind::Table);
        match self.kind(-2) {
            Kind::Nil => return Err("table index is nil"),
            Kind::Number if self.number(-2).is_some_and(f64::is_nan) => return Err("table index is NaN"),
            _ => {}
        }
        // SAFETY: the state is valid and has a table there, and the key is allowed.
        unsafe { ffi::lua_rawset(self.state, table) }
        Ok(())
    }

    /// Pushes `table[index]`.
    pub(in crate::script) fn push_item(&mut self, table: i32, index: i32) -> Kind {
        debug_assert_eq!(self.kind(table), Kind::Table);
        // SAFETY: the state is valid and has a table there.
        unsafe { ffi::lua_rawgeti_(self.state, table, index) }
        self.kind(-1)
    }

    /// Pushes `table[name]`.
    pub(in crate::script) fn push_field(&mut self, table: i32, name: &str) -> Kind {
        debug_assert_eq!(self.kind(table), Kind::Table);
        self.push_bytes(name.as_bytes());
        // SAFETY: the state is valid. The table is one deeper now, if it is counted from the top.
        unsafe {
            ffi::lua_rawget_(
                self.state,
                if table < 0 && table > ffi::LUA_REGISTRYINDEX { table - 1 } else { table },
            );
        }
        self.kind(-1)
    }

    /// Replaces the key on the top by the next key and its value; pops it and returns false at the end of the table. The
    /// first key is after `nil`. The key must be in the table.
    pub(in crate::script) fn next(&mut self, table: i32) -> bool {
        // SAFETY: the state is valid and has a table there; a key that this function has pushed is in the table.
        unsafe { ffi::lua_next(self.state, table) != 0 }
    }

    /// Pushes the metatable of a value; pushes nothing and returns false if it has none.
    pub(in crate::script) fn push_metatable(&mut self, index: i32) -> bool {
        // SAFETY: the state is valid, and the index has a value.
        unsafe { ffi::lua_getmetatable(self.state, index) != 0 }
    }

    /// Pops a table and makes it the metatable of the value at this index.
    pub(in crate::script) fn set_metatable(&mut self, index: i32) {
        // SAFETY: the state is valid, and a table is on the top.
        unsafe { _ = ffi::lua_setmetatable(self.state, index) }
    }

    /// Collects all garbage.
    pub(in crate::script) fn collect_garbage(&mut self) {
        // SAFETY: the state is valid. Scripts cannot create objects with finalizers.
        unsafe { _ = ffi::lua_gc(self.state, ffi::LUA_GCCOLLECT, 0) }
    }

    /// The memory in use, in kilobytes.
    pub(in crate::script) fn kilobytes(&self) -> f64 {
        self.memory().used_bytes() as f64 / 1024.0
    }

    /// Where the function at a level of the call stack is: level 0 is the present function, 1 the one that has called it.
    pub(in crate::script) fn position(&self, level: i32) -> Option<Position> {
        let debug = self.debug(level, c"Sl")?;
        // SAFETY: Lua has filled in these fields, with strings that end with a zero.
        let text = |pointer| unsafe { CStr::from_ptr(pointer) }.to_string_lossy().into_owned();
        Some(Position {
            source: text(debug.source),
            short_source: text(debug.short_src.as_ptr()),
            line: debug.currentline,
            // SAFETY: as above.
            is_c: unsafe { CStr::from_ptr(debug.what) } == c"C",
        })
    }

    /// What Lua knows about a level of the call stack.
    fn debug(&self, level: i32, what: &CStr) -> Option<ffi::lua_Debug> {
        // SAFETY: all fields may be zero, and Lua writes those that are read.
        unsafe {
            let mut debug: ffi::lua_Debug = std::mem::zeroed();
            if ffi::lua_getstack(self.state, level, &raw mut debug) == 0 {
                return None;
            }
            ffi::lua_getinfo(self.state, what.as_ptr(), &raw mut debug);
            Some(debug)
        }
    }

    /// An error with this text.
    pub(in crate::script) fn throw(&mut self, text: impl AsRef<[u8]>) -> Thrown {
        self.reserve(1);
        self.push_bytes(text.as_ref());
        Thrown
    }

    /// An error with this text, after the position where the present function was called.
    pub(in crate::script) fn throw_here(&mut self, text: impl AsRef<str>) -> Thrown {
        let text = text.as_ref();
        match self.position(1).filter(|position| position.line > 0) {
            Some(position) => self.throw(format!("{}:{}: {text}", position.short_source, position.line)),
            None => self.throw(text),
        }
    }

    /// The error of a wrong argument.
    pub(in crate::script) fn bad_argument(&mut self, index: usize, text: impl AsRef<str>) -> Thrown {
        let name =
            self.debug(0, c"n").filter(|debug| !debug.name.is_null()).map_or("?".to_owned(), |debug| {
                // SAFETY: Lua has filled in this field.
                unsafe { CStr::from_ptr(debug.name) }.to_string_lossy().into_owned()
            });
        self.throw_here(format!("bad argument #{index} to '{name}' ({})", text.as_ref()))
    }

    fn wrong_type(&mut self, index: usize, expected: &str) -> Thrown {
        let actual = self.kind(index as i32).name();
        self.bad_argument(index, format!("{expected} expected, got {actual}"))
    }

    /// An argument that must be a number, or a string that is one.
    pub(in crate::script) fn number_argument(&mut self, index: usize) -> Result<f64, Thrown> {
        self.number(index as i32).ok_or_else(|| self.wrong_type(index, "number"))
    }

    /// An argument that must be a string or a number.
    pub(in crate::script) fn text_argument(&mut self, index: usize) -> Result<&[u8], Thrown> {
        if !matches!(self.kind(index as i32), Kind::String | Kind::Number) {
            return Err(self.wrong_type(index, "string"));
        }
        Ok(self.text(index as i32).unwrap_or_default())
    }
}

/// The C function that runs a [`Function`], which is its first upvalue.
///
/// # Safety
///
/// Only Lua calls it, as a closure with that upvalue.
unsafe extern "C-unwind" fn dispatch(state: *mut lua_State) -> c_int {
    // SAFETY: the upvalue was made from a function of this type. Nothing is left to drop in this frame when an error jumps
    // over it.
    unsafe {
        let function: Function = std::mem::transmute(ffi::lua_touserdata(state, ffi::lua_upvalueindex(1)));
        match run(state, function) {
            Ok(results) => results as c_int,
            Err(Thrown) => ffi::lua_error(state),
        }
    }
}

/// Runs a function without a limit of memory. A panic becomes an error, which ends the script.
///
/// # Safety
///
/// As of [`Stack::new`].
unsafe fn run(state: *mut lua_State, function: Function) -> Result<usize, Thrown> {
    // SAFETY: the caller's promise. Nothing refers to the memory between the calls of Lua.
    let (was_enforced, mut stack) = unsafe { (set_enforced(state, false), Stack::new(state)) };
    let outcome = catch_unwind(AssertUnwindSafe(|| function(&mut stack)));
    let outcome = outcome.unwrap_or_else(|payload| {
        PANIC.set(Some(payload));
        Err(stack.throw("a function has panicked"))
    });
    // SAFETY: as above.
    unsafe { set_enforced(state, was_enforced) };
    outcome
}

/// Sets whether the limit of memory is enforced; returns whether it was.
///
/// # Safety
///
/// The state must be valid, and nothing may refer to its memory.
pub(super) unsafe fn set_enforced(state: *mut lua_State, is_enforced: bool) -> bool {
    let mut memory: *mut c_void = std::ptr::null_mut();
    // SAFETY: the caller's promise; the allocator of the state has a `Memory`.
    unsafe {
        ffi::lua_getallocf(state, &raw mut memory);
        std::mem::replace(&mut (*memory.cast::<Memory>()).is_enforced, is_enforced)
    }
}

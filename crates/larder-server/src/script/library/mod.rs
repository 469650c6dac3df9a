//! The libraries that Redis adds to Lua: `bit`, `cjson`, `cmsgpack` and `struct`, with equal results; and its random numbers.

mod bit;
mod json;
mod messagepack;
mod packing;
mod random;

use super::lua::{Function, Library, Stack};

/// All libraries.
pub(super) const ALL: [Library; 5] = [
    ("bit", bit::push),
    ("cjson", json::push),
    ("cmsgpack", messagepack::push),
    ("math", random::push),
    ("struct", packing::push),
];

/// Restores the settings that a script may have changed.
pub(super) fn reset() {
    json::reset();
}

/// Pushes a table of functions and texts.
fn push_table(stack: &mut Stack<'_>, functions: &[(&str, Function)], texts: &[(&str, &str)]) {
    stack.push_table(0, functions.len() + texts.len());
    for (name, function) in functions {
        stack.push_function(*function);
        stack.set_field(-2, name);
    }
    for (name, text) in texts {
        stack.push_bytes(text.as_bytes());
        stack.set_field(-2, name);
    }
}

/// As C converts a number to an `int`, on the processors that Redis runs on.
fn to_int(number: f64) -> i32 {
    if number > f64::from(i32::MIN) - 1.0 && number < f64::from(i32::MAX) + 1.0 {
        number as i32
    } else {
        i32::MIN
    }
}

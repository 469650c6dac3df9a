//! `cjson`: values as JSON, with the settings, results and messages of lua-cjson 2.1.
//!
//! The settings last until the end of the script. In Redis they last for all scripts; here, threads would differ.

mod decode;
mod encode;

use std::cell::Cell;

use super::super::lua::{Kind, Stack, Thrown};
use super::to_int;

/// Tables are encoded and decoded to this depth at most, whatever the settings are.
const MAX_DEPTH: i32 = 1000;
const MAX_PRECISION: i32 = 14;

/// What a script can choose.
#[derive(Debug, Clone, Copy)]
struct Settings {
    /// Whether an array with too many gaps becomes an object instead of an error.
    converts_sparse: bool,
    /// An array is sparse if its highest index is above this and above so many times the number of its items.
    sparse_safe: i32,
    sparse_ratio: i32,
    max_encode_depth: i32,
    max_decode_depth: i32,
    precision: i32,
    keeps_buffer: bool,
    encodes_invalid: InvalidNumbers,
    decodes_invalid: bool,
}

/// How numbers are encoded that JSON has no form for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum InvalidNumbers {
    Refused,
    Written,
    Null,
}

const DEFAULTS: Settings = Settings {
    converts_sparse: false,
    sparse_safe: 10,
    sparse_ratio: 2,
    max_encode_depth: MAX_DEPTH,
    max_decode_depth: MAX_DEPTH,
    precision: MAX_PRECISION,
    keeps_buffer: true,
    encodes_invalid: InvalidNumbers::Refused,
    decodes_invalid: true,
};

thread_local! {
    static SETTINGS: Cell<Settings> = const { Cell::new(DEFAULTS) };
}

/// Restores the default settings.
pub(super) fn reset() {
    SETTINGS.set(DEFAULTS);
}

pub(super) fn push(stack: &mut Stack<'_>) {
    super::push_table(
        stack,
        &[
            ("encode", encode::encode),
            ("decode", decode::decode),
            ("encode_sparse_array", encode_sparse_array),
            ("encode_max_depth", |stack| {
                set_integer(stack, i32::MAX, |settings| &mut settings.max_encode_depth)
            }),
            ("decode_max_depth", |stack| {
                set_integer(stack, i32::MAX, |settings| &mut settings.max_decode_depth)
            }),
            ("encode_number_precision", |stack| {
                set_integer(stack, MAX_PRECISION, |settings| &mut settings.precision)
            }),
            ("encode_keep_buffer", |stack| set_switch(stack, |settings| &mut settings.keeps_buffer)),
            ("encode_invalid_numbers", encode_invalid_numbers),
            ("decode_invalid_numbers", |stack| set_switch(stack, |settings| &mut settings.decodes_invalid)),
            ("new", |stack| {
                push(stack);
                Ok(1)
            }),
        ],
        &[("_NAME", "cjson"), ("_VERSION", "2.1.0")],
    );
    push_null(stack);
    stack.set_field(-2, "null");
}

/// Pushes the value that stands for `null`.
fn push_null(stack: &mut Stack<'_>) {
    stack.push_light_userdata(std::ptr::null());
}

/// Fails if there are more arguments than this.
fn check_count(stack: &mut Stack<'_>, max: usize) -> Result<(), Thrown> {
    match stack.top() > max {
        true => Err(stack.bad_argument(max + 1, "found too many arguments")),
        false => Ok(()),
    }
}

/// Sets an integer, if there is an argument at this index.
fn integer_argument(
    stack: &mut Stack<'_>,
    index: usize,
    min: i32,
    max: i32,
    value: &mut i32,
) -> Result<(), Thrown> {
    if matches!(stack.kind(index as i32), Kind::None | Kind::Nil) {
        return Ok(());
    }
    *value = to_int(stack.number_argument(index)?);
    match (min..=max).contains(value) {
        true => Ok(()),
        // The library always names the first argument.
        false => Err(stack.bad_argument(1, format!("expected integer between {min} and {max}"))),
    }
}

fn set_integer(
    stack: &mut Stack<'_>,
    max: i32,
    field: fn(&mut Settings) -> &mut i32,
) -> Result<usize, Thrown> {
    check_count(stack, 1)?;
    let mut settings = SETTINGS.get();
    integer_argument(stack, 1, 1, max, field(&mut settings))?;
    SETTINGS.set(settings);
    stack.push_number(f64::from(*field(&mut settings)));
    Ok(1)
}

/// A choice: `true` or "on", `false` or "off", or "null" where it is allowed. `None` without an argument.
fn choice_argument(stack: &mut Stack<'_>, has_null: bool) -> Result<Option<InvalidNumbers>, Thrown> {
    match stack.kind(1) {
        Kind::None | Kind::Nil => return Ok(None),
        Kind::Boolean if stack.boolean(1) => return Ok(Some(InvalidNumbers::Written)),
        Kind::Boolean => return Ok(Some(InvalidNumbers::Refused)),
        _ => {}
    }
    let choice = match stack.text_argument(1)? {
        b"on" => Ok(InvalidNumbers::Written),
        b"off" => Ok(InvalidNumbers::Refused),
        b"null" if has_null => Ok(InvalidNumbers::Null),
        other => Err(format!("invalid option '{}'", String::from_utf8_lossy(other))),
    };
    choice.map(Some).map_err(|text| stack.bad_argument(1, text))
}

fn set_switch(stack: &mut Stack<'_>, field: fn(&mut Settings) -> &mut bool) -> Result<usize, Thrown> {
    check_count(stack, 1)?;
    let mut settings = SETTINGS.get();
    if let Some(choice) = choice_argument(stack, false)? {
        *field(&mut settings) = choice == InvalidNumbers::Written;
    }
    SETTINGS.set(settings);
    stack.push_boolean(*field(&mut settings));
    Ok(1)
}

fn encode_invalid_numbers(stack: &mut Stack<'_>) -> Result<usize, Thrown> {
    check_count(stack, 1)?;
    let mut settings = SETTINGS.get();
    if let Some(choice) = choice_argument(stack, true)? {
        settings.encodes_invalid = choice;
    }
    SETTINGS.set(settings);
    match settings.encodes_invalid {
        InvalidNumbers::Null => stack.push_bytes(b"null"),
        choice => stack.push_boolean(choice == InvalidNumbers::Written),
    }
    Ok(1)
}

fn encode_sparse_array(stack: &mut Stack<'_>) -> Result<usize, Thrown> {
    check_count(stack, 3)?;
    let mut settings = SETTINGS.get();
    if let Some(choice) = choice_argument(stack, false)? {
        settings.converts_sparse = choice == InvalidNumbers::Written;
    }
    integer_argument(stack, 2, 0, i32::MAX, &mut settings.sparse_ratio)?;
    integer_argument(stack, 3, 0, i32::MAX, &mut settings.sparse_safe)?;
    SETTINGS.set(settings);
    stack.push_boolean(settings.converts_sparse);
    stack.push_number(f64::from(settings.sparse_ratio));
    stack.push_number(f64::from(settings.sparse_safe));
    Ok(3)
}

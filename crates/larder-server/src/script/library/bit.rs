//! `bit`: operations on 32 bits, as those of LuaJIT.

use super::super::lua::{Stack, Thrown};

/// Adding it to a number moves the lowest bit of its integer part to the lowest bit of the result.
const SHIFT_TO_INTEGER: f64 = 6_755_399_441_055_744.0;
const MAX_HEX_DIGITS: u32 = 8;

pub(super) fn push(stack: &mut Stack<'_>) {
    super::push_table(
        stack,
        &[
            ("tobit", |stack| unary(stack, |bits| bits)),
            ("bnot", |stack| unary(stack, |bits| !bits)),
            ("bswap", |stack| unary(stack, u32::swap_bytes)),
            ("band", |stack| fold(stack, |a, b| a & b)),
            ("bor", |stack| fold(stack, |a, b| a | b)),
            ("bxor", |stack| fold(stack, |a, b| a ^ b)),
            ("lshift", |stack| shift(stack, |bits, by| bits << by)),
            ("rshift", |stack| shift(stack, |bits, by| bits >> by)),
            ("arshift", |stack| shift(stack, |bits, by| (bits as i32 >> by) as u32)),
            ("rol", |stack| shift(stack, u32::rotate_left)),
            ("ror", |stack| shift(stack, u32::rotate_right)),
            ("tohex", to_hex),
        ],
        &[],
    );
}

/// The bits of an argument, rounded to an integer, modulo 2^32.
fn argument(stack: &mut Stack<'_>, index: usize) -> Result<u32, Thrown> {
    Ok((stack.number_argument(index)? + SHIFT_TO_INTEGER).to_bits() as u32)
}

fn push_bits(stack: &mut Stack<'_>, bits: u32) -> Result<usize, Thrown> {
    stack.push_number(f64::from(bits as i32));
    Ok(1)
}

fn unary(stack: &mut Stack<'_>, f: impl Fn(u32) -> u32) -> Result<usize, Thrown> {
    let bits = argument(stack, 1)?;
    push_bits(stack, f(bits))
}

fn fold(stack: &mut Stack<'_>, f: impl Fn(u32, u32) -> u32) -> Result<usize, Thrown> {
    let mut bits = argument(stack, 1)?;
    for index in 2..=stack.top() {
        bits = f(bits, argument(stack, index)?);
    }
    push_bits(stack, bits)
}

fn shift(stack: &mut Stack<'_>, f: impl Fn(u32, u32) -> u32) -> Result<usize, Thrown> {
    let (bits, by) = (argument(stack, 1)?, argument(stack, 2)?);
    push_bits(stack, f(bits, by % u32::BITS))
}

/// The lowest hexadecimal digits; upper-case letters if their number is negative.
fn to_hex(stack: &mut Stack<'_>) -> Result<usize, Thrown> {
    let bits = argument(stack, 1)?;
    let digits = if stack.top() == 1 { MAX_HEX_DIGITS as i32 } else { argument(stack, 2)? as i32 };
    let text = if digits < 0 { format!("{bits:08X}") } else { format!("{bits:08x}") };
    let skipped = MAX_HEX_DIGITS - digits.unsigned_abs().min(MAX_HEX_DIGITS);
    stack.push_bytes(&text.as_bytes()[skipped as usize..]);
    Ok(1)
}

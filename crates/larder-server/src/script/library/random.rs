//! `math.random` and `math.randomseed`: the generator of Redis, whose numbers depend on the seed alone.

use std::cell::Cell;

use super::super::lua::{Stack, Thrown};
use super::to_int;

/// The generator `lrand48` of POSIX: 48 bits, of which a number has the highest 31.
const MULTIPLIER: u64 = 0x5_deec_e66d;
const ADDEND: u64 = 0xb;
const MASK: u64 = (1 << 48) - 1;
const LOW_SEED: u64 = 0x330e;

thread_local! {
    static STATE: Cell<u64> = const { Cell::new(0x1234_abcd_330e) };
}

/// Replaces the functions in the library of Lua, and pushes it.
pub(super) fn push(stack: &mut Stack<'_>) {
    stack.push_global("math");
    stack.push_function(random);
    stack.set_field(-2, "random");
    stack.push_function(seed);
    stack.set_field(-2, "randomseed");
}

fn next() -> u64 {
    let state = (STATE.get().wrapping_mul(MULTIPLIER) + ADDEND) & MASK;
    STATE.set(state);
    state >> 17
}

fn random(stack: &mut Stack<'_>) -> Result<usize, Thrown> {
    let fraction = (next() % i32::MAX as u64) as f64 / f64::from(i32::MAX);
    let (low, high) = match stack.top() {
        0 => {
            stack.push_number(fraction);
            return Ok(1);
        }
        1 => (1, to_int(stack.number_argument(1)?)),
        2 => (to_int(stack.number_argument(1)?), to_int(stack.number_argument(2)?)),
        _ => return Err(stack.throw_here("wrong number of arguments")),
    };
    if low > high {
        return Err(stack.bad_argument(stack.top(), "interval is empty"));
    }
    let count = f64::from(high) - f64::from(low) + 1.0;
    stack.push_number((fraction * count).floor() + f64::from(low));
    Ok(1)
}

fn seed(stack: &mut Stack<'_>) -> Result<usize, Thrown> {
    let seed = to_int(stack.number_argument(1)?);
    STATE.set(u64::from(seed as u32) << 16 | LOW_SEED);
    Ok(0)
}

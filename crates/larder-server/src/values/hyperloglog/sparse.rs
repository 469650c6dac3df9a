//! The sparse form: runs of equal registers.
//!
//! ```text
//! 00nnnnnn            n + 1 registers are zero, up to 64
//! 01nnnnnn nnnnnnnn   n + 1 registers are zero, up to 16,384
//! 1vvvvvnn            n + 1 registers, up to 4, are v + 1, up to 32
//! ```

use std::ops::Range;

use super::{HEADER_BYTES, HllError, MAX_SPARSE_BYTES, REGISTERS};

/// All registers are zero.
pub(super) const EMPTY: [u8; 2] = [0x40 | ((REGISTERS - 1) >> 8) as u8, 0xff];

const LONG_ZERO: u8 = 0x40;
const VALUE: u8 = 0x80;
const MAX_SHORT_ZERO: usize = 64;
const MAX_VALUE: u8 = 32;
const MAX_VALUE_RUN: usize = 4;
/// Runs from the one before a change on that are joined if they are equal.
const JOINED_RUNS: usize = 5;

/// A run, as its code says.
#[derive(Clone, Copy)]
struct Run {
    code_bytes: usize,
    registers: usize,
    value: u8,
}

/// What has happened to a register.
pub(super) enum Raised {
    Changed,
    Unchanged,
    /// The sparse form cannot have this value, or would become too long.
    TooLong,
}

impl Run {
    /// The run whose code these bytes begin with.
    fn parse(content: &[u8]) -> Option<Run> {
        let first = *content.first()?;
        Some(match first {
            0..LONG_ZERO => Run { code_bytes: 1, registers: usize::from(first) + 1, value: 0 },
            LONG_ZERO..VALUE => {
                let registers = (usize::from(first & 0x3f) << 8 | usize::from(*content.get(1)?)) + 1;
                Run { code_bytes: 2, registers, value: 0 }
            }
            VALUE.. => {
                Run { code_bytes: 1, registers: usize::from(first & 3) + 1, value: (first >> 2 & 0x1f) + 1 }
            }
        })
    }

    /// Appends the code of a run, unless it is empty.
    fn write(out: &mut Vec<u8>, registers: usize, value: u8) {
        match (registers, value) {
            (0, _) => {}
            (1..=MAX_SHORT_ZERO, 0) => out.push((registers - 1) as u8),
            (_, 0) => {
                out.extend_from_slice(&[LONG_ZERO | ((registers - 1) >> 8) as u8, (registers - 1) as u8])
            }
            _ => out.push(value_code(registers, value)),
        }
    }
}

fn value_code(registers: usize, value: u8) -> u8 {
    VALUE | (value - 1) << 2 | (registers - 1) as u8
}

/// Calls `f` with each run of registers that are not zero.
pub(super) fn for_each_run(content: &[u8], mut f: impl FnMut(Range<usize>, u8)) -> Result<(), HllError> {
    let (mut at, mut first) = (0, 0);
    while at < content.len() {
        let run = Run::parse(&content[at..]).ok_or(HllError::Corrupted)?;
        let end = first + run.registers;
        if end > REGISTERS {
            return Err(HllError::Corrupted);
        }
        if run.value > 0 {
            f(first..end, run.value);
        }
        (at, first) = (at + run.code_bytes, end);
    }
    if first == REGISTERS { Ok(()) } else { Err(HllError::Corrupted) }
}

/// Raises a register of a HyperLogLog, header included. The bytes are those that Redis would write.
pub(super) fn raise(value: &mut Vec<u8>, index: usize, to: u8) -> Result<Raised, HllError> {
    if to > MAX_VALUE {
        return Ok(Raised::TooLong);
    }
    let (mut at, mut first, mut before) = (HEADER_BYTES, 0, HEADER_BYTES);
    let run = loop {
        let run = Run::parse(&value[at..]).ok_or(HllError::Corrupted)?;
        if index < first + run.registers {
            break run;
        }
        before = at;
        (at, first) = (at + run.code_bytes, first + run.registers);
    };
    if run.value >= to {
        return Ok(Raised::Unchanged);
    }
    let mut codes = Vec::with_capacity(5);
    Run::write(&mut codes, index - first, run.value);
    codes.push(value_code(1, to));
    Run::write(&mut codes, first + run.registers - 1 - index, run.value);
    if codes.len() > run.code_bytes && value.len() + codes.len() - run.code_bytes > MAX_SPARSE_BYTES {
        return Ok(Raised::TooLong);
    }
    value.splice(at..at + run.code_bytes, codes);
    join_equal(value, before);
    Ok(Raised::Changed)
}

/// Joins runs of equal values, in the few runs from here on.
fn join_equal(value: &mut Vec<u8>, mut at: usize) {
    for _ in 0..JOINED_RUNS {
        let Some(run) = value.get(at..).and_then(Run::parse) else { return };
        let next = value.get(at + run.code_bytes..).and_then(Run::parse);
        match next {
            Some(next)
                if run.value > 0
                    && next.value == run.value
                    && run.registers + next.registers <= MAX_VALUE_RUN =>
            {
                value[at] = value_code(run.registers + next.registers, run.value);
                value.remove(at + 1);
            }
            _ => at += run.code_bytes,
        }
    }
}

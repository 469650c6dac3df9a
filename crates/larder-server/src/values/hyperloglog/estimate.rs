//! The estimate from the registers: Otmar Ertl, "New cardinality estimation algorithms for HyperLogLog sketches", 2017,
//! arXiv:1702.01284, section 4.

use super::{REGISTERS, RUN_BITS, Registers};

/// 1 / (2 ln 2).
const ALPHA: f64 = 0.721_347_520_444_481_7;
/// The highest value of a register: all bits are zero.
const MAX_RUN: usize = RUN_BITS as usize + 1;

pub(super) fn estimate(registers: &Registers) -> u64 {
    // Registers of six bits can have values that no hash leads to.
    let mut counts = [0u32; 64];
    registers.iter().for_each(|run| counts[usize::from(*run) & 63] += 1);
    let all = REGISTERS as f64;
    let mut sum = all * tau((all - f64::from(counts[MAX_RUN])) / all);
    for count in counts[1..MAX_RUN].iter().rev() {
        sum = (sum + f64::from(*count)) * 0.5;
    }
    sum += all * sigma(f64::from(counts[0]) / all);
    (ALPHA * all * all / sum).round() as u64
}

fn tau(mut x: f64) -> f64 {
    if x == 0.0 || x == 1.0 {
        return 0.0;
    }
    let (mut y, mut z) = (1.0, 1.0 - x);
    loop {
        x = x.sqrt();
        let before = z;
        y *= 0.5;
        z -= (1.0 - x) * (1.0 - x) * y;
        if z == before {
            return z / 3.0;
        }
    }
}

fn sigma(mut x: f64) -> f64 {
    if x == 1.0 {
        return f64::INFINITY;
    }
    let (mut y, mut z) = (1.0, x);
    loop {
        x *= x;
        let before = z;
        z += x * y;
        y += y;
        if z == before {
            return z;
        }
    }
}

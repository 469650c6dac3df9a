//! HyperLogLog in the format of Redis: a string that estimates the number of different elements that were added to it.
//!
//! ```text
//! "HYLL" │ encoding: 0 dense, 1 sparse │ 3 bytes │ cached estimate, 8 bytes; its top bit: not valid │ registers
//! ```
//!
//! The hash of an element chooses one of 16,384 registers, which keeps the longest run of zeros seen (Philippe Flajolet and
//! others, "HyperLogLog: the analysis of a near-optimal cardinality estimation algorithm", AofA 2007). The estimate is that
//! of Otmar Ertl, "New cardinality estimation algorithms for HyperLogLog sketches", 2017: the standard error is 0.81 %.
//!
//! The bytes are those that Redis would write, so that a value can be moved there and back.

mod estimate;
mod hash;
mod sparse;

use hash::murmur64a;

const MAGIC: &[u8; 4] = b"HYLL";
const HEADER_BYTES: usize = 16;
const ENCODING_AT: usize = 4;
const CACHE_AT: usize = 8;
const DENSE: u8 = 0;
const SPARSE: u8 = 1;
/// The bit of the last byte of the cached estimate that says that it is not valid.
const NOT_VALID: u8 = 0x80;

/// The number of registers is 2^14.
const INDEX_BITS: u32 = 14;
const REGISTERS: usize = 1 << INDEX_BITS;
/// The bits of the hash that are searched for its first one.
const RUN_BITS: u32 = 64 - INDEX_BITS;
/// A register of the dense form has six bits.
const REGISTER_BITS: usize = 6;
const DENSE_BYTES: usize = HEADER_BYTES + REGISTERS * REGISTER_BITS / 8;
/// A longer sparse form is replaced by the dense form.
const MAX_SPARSE_BYTES: usize = 3_000;
/// No longer value is valid: a sparse form has at most two bytes per register.
const MAX_BYTES: usize = HEADER_BYTES + 2 * REGISTERS;

/// The value of each register.
pub(crate) type Registers = [u8; REGISTERS];

/// Why a string cannot be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum HllError {
    /// It is not a HyperLogLog.
    NotValid,
    /// Its sparse form is damaged.
    Corrupted,
}

/// A HyperLogLog without elements.
pub(crate) fn empty() -> Vec<u8> {
    let mut value = vec![0; HEADER_BYTES];
    value[..MAGIC.len()].copy_from_slice(MAGIC);
    value[ENCODING_AT] = SPARSE;
    value.extend_from_slice(&sparse::EMPTY);
    value
}

/// Checks the header and the length of a string.
pub(crate) fn check(value: &[u8]) -> Result<(), HllError> {
    let is_valid = value.len() >= HEADER_BYTES
        && value.starts_with(MAGIC)
        && match value[ENCODING_AT] {
            DENSE => value.len() == DENSE_BYTES,
            encoding => encoding == SPARSE,
        };
    match (is_valid, value.len()) {
        (true, ..=MAX_BYTES) => Ok(()),
        (true, _) => Err(HllError::Corrupted),
        (false, _) => Err(HllError::NotValid),
    }
}

/// Whether a string that passed [`check`] is in the dense form.
pub(crate) fn is_dense(value: &[u8]) -> bool {
    value[ENCODING_AT] == DENSE
}

/// Adds elements to a dense HyperLogLog, in place. Returns whether a register has changed.
pub(crate) fn add_to_dense<'a>(value: &mut [u8], elements: impl Iterator<Item = &'a [u8]>) -> bool {
    let mut changed = false;
    for element in elements {
        let (index, run) = position(element);
        changed |= raise_dense(&mut value[HEADER_BYTES..], index, run);
    }
    if changed {
        invalidate(value);
    }
    changed
}

/// Adds elements to a HyperLogLog. Returns whether a register has changed.
pub(crate) fn add<'a>(
    value: &mut Vec<u8>,
    elements: impl Iterator<Item = &'a [u8]>,
) -> Result<bool, HllError> {
    let mut changed = false;
    for element in elements {
        let (index, run) = position(element);
        changed |= raise(value, index, run)?;
    }
    if changed {
        invalidate(value);
    }
    Ok(changed)
}

/// Says that the cached estimate is not valid any more.
pub(crate) fn invalidate(value: &mut [u8]) {
    value[HEADER_BYTES - 1] |= NOT_VALID;
}

/// The cached estimate, if it is valid.
pub(crate) fn cached(value: &[u8]) -> Option<u64> {
    let cache: &[u8; 8] = value[CACHE_AT..].first_chunk()?;
    (cache[7] & NOT_VALID == 0).then(|| u64::from_le_bytes(*cache))
}

/// Stores an estimate in the header.
pub(crate) fn set_cached(value: &mut [u8], estimate: u64) {
    value[CACHE_AT..HEADER_BYTES].copy_from_slice(&estimate.to_le_bytes());
}

/// Raises each register to that of the value.
pub(crate) fn merge_into(registers: &mut Registers, value: &[u8]) -> Result<(), HllError> {
    let content = &value[HEADER_BYTES..];
    if !is_dense(value) {
        return sparse::for_each_run(content, |range, run| {
            registers[range].iter_mut().for_each(|register| *register = run.max(*register));
        });
    }
    for (index, register) in registers.iter_mut().enumerate() {
        *register = dense(content, index).max(*register);
    }
    Ok(())
}

/// The estimate of the number of elements.
pub(crate) fn estimate(registers: &Registers) -> u64 {
    estimate::estimate(registers)
}

/// Raises the registers of a value to these. The result is dense if it must be, or `to_dense`.
pub(crate) fn raise_all(value: &mut Vec<u8>, registers: &Registers, to_dense: bool) -> Result<(), HllError> {
    if to_dense {
        make_dense(value)?;
    }
    for (index, run) in registers.iter().enumerate().filter(|(_, run)| **run > 0) {
        raise(value, index, *run)?;
    }
    invalidate(value);
    Ok(())
}

/// All registers zero.
pub(crate) fn no_registers() -> Box<Registers> {
    Box::new([0; REGISTERS])
}

/// The register of an element, and the length of its run of zeros with the one behind it.
fn position(element: &[u8]) -> (usize, u8) {
    let hash = murmur64a(element);
    let index = hash as usize & (REGISTERS - 1);
    let run = (hash >> INDEX_BITS | 1 << RUN_BITS).trailing_zeros() + 1;
    (index, run as u8)
}

/// Raises a register, if it is lower; returns whether it was.
fn raise(value: &mut Vec<u8>, index: usize, run: u8) -> Result<bool, HllError> {
    if is_dense(value) {
        return Ok(raise_dense(&mut value[HEADER_BYTES..], index, run));
    }
    match sparse::raise(value, index, run)? {
        sparse::Raised::Changed => Ok(true),
        sparse::Raised::Unchanged => Ok(false),
        sparse::Raised::TooLong => {
            make_dense(value)?;
            Ok(raise_dense(&mut value[HEADER_BYTES..], index, run))
        }
    }
}

fn make_dense(value: &mut Vec<u8>) -> Result<(), HllError> {
    if is_dense(value) {
        return Ok(());
    }
    let mut registers = no_registers();
    merge_into(&mut registers, value)?;
    value.truncate(HEADER_BYTES);
    value.resize(DENSE_BYTES, 0);
    value[ENCODING_AT] = DENSE;
    for (index, run) in registers.iter().enumerate() {
        raise_dense(&mut value[HEADER_BYTES..], index, *run);
    }
    Ok(())
}

/// A register of the dense form: six bits, lowest first.
fn dense(content: &[u8], index: usize) -> u8 {
    let (byte, shift) = (index * REGISTER_BITS / 8, index * REGISTER_BITS % 8);
    let pair = u16::from(content[byte]) | u16::from(content.get(byte + 1).copied().unwrap_or(0)) << 8;
    (pair >> shift) as u8 & 0x3f
}

fn raise_dense(content: &mut [u8], index: usize, run: u8) -> bool {
    let is_lower = dense(content, index) < run;
    if is_lower {
        let (byte, shift) = (index * REGISTER_BITS / 8, index * REGISTER_BITS % 8);
        let (mask, bits) = (0x3f_u16 << shift, u16::from(run) << shift);
        content[byte] = content[byte] & !(mask as u8) | bits as u8;
        if shift > 2 {
            content[byte + 1] = content[byte + 1] & !((mask >> 8) as u8) | (bits >> 8) as u8;
        }
    }
    is_lower
}

#[cfg(test)]
mod tests {
    use super::*;

    fn count(value: &[u8]) -> u64 {
        let mut registers = no_registers();
        merge_into(&mut registers, value).expect("a valid value");
        estimate(&registers)
    }

    #[test]
    fn estimate_is_within_five_standard_errors() {
        let mut value = empty();
        let mut next = 0u64;
        for elements in [0, 1, 10, 100, 1_000, 10_000, 100_000] {
            while next < elements {
                add(&mut value, std::iter::once(&next.to_le_bytes()[..])).expect("a valid value");
                next += 1;
            }
            let error = count(&value).abs_diff(elements) as f64;
            assert!(error <= elements as f64 * 0.0081 * 5.0, "{} for {elements}", count(&value));
        }
        assert!(is_dense(&value));
    }

    #[test]
    fn dense_registers_are_independent() {
        let mut value = empty();
        make_dense(&mut value).expect("a valid value");
        let run = |index: usize| (index * 7 % 51) as u8;
        for index in (0..REGISTERS).rev() {
            raise_dense(&mut value[HEADER_BYTES..], index, run(index));
        }
        assert!((0..REGISTERS).all(|index| dense(&value[HEADER_BYTES..], index) == run(index)));
        assert_eq!(value.len(), 12_304);
    }
}

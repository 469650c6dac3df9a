//! Numbers of slots, and of positions in a queue: in two bytes each where a shard is small enough, else in four.
//!
//! A cache has as many shards as keep most of them that small.

use crate::layout::array::Array;
use crate::layout::prefetch::prefetch_element;

/// No slot, and no position.
pub(crate) const NONE: u32 = u32::MAX;

/// With up to this many slots all numbers take two bytes. A queue may have a third more positions than there are slots.
const MAX_SHORT_SLOTS: u32 = 1 << 15;

/// How many bytes a number takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Width {
    Short,
    Long,
}

impl Width {
    /// That of a shard with so many slots.
    pub(crate) fn of(slots: u32) -> Width {
        if slots <= MAX_SHORT_SLOTS { Width::Short } else { Width::Long }
    }
}

/// An array of numbers, some of them `NONE`.
#[derive(Debug)]
pub(crate) enum Packed {
    Short(Array<u16>),
    Long(Array<u32>),
}

impl Packed {
    /// `NONE`, so many times.
    pub(crate) fn new(len: usize, width: Width) -> Self {
        match width {
            Width::Short => Packed::Short(Array::filled(len, u16::MAX)),
            Width::Long => Packed::Long(Array::filled(len, NONE)),
        }
    }

    #[inline]
    pub(crate) fn len(&self) -> usize {
        match self {
            Packed::Short(numbers) => numbers.len(),
            Packed::Long(numbers) => numbers.len(),
        }
    }

    pub(crate) fn bytes_allocated(&self) -> usize {
        match self {
            Packed::Short(numbers) => size_of_val(&**numbers),
            Packed::Long(numbers) => size_of_val(&**numbers),
        }
    }

    #[inline]
    pub(crate) fn get(&self, index: u32) -> u32 {
        match self {
            Packed::Short(numbers) => match numbers[index as usize] {
                u16::MAX => NONE,
                number => u32::from(number),
            },
            Packed::Long(numbers) => numbers[index as usize],
        }
    }

    /// Stores a number that fits, or `NONE`.
    #[inline]
    pub(crate) fn set(&mut self, index: u32, number: u32) {
        match self {
            // The low half of `NONE` is the short one.
            Packed::Short(numbers) => {
                debug_assert!(number < u32::from(u16::MAX) || number == NONE);
                numbers[index as usize] = number as u16;
            }
            Packed::Long(numbers) => numbers[index as usize] = number,
        }
    }

    /// Prefetches a number.
    #[inline]
    pub(crate) fn prefetch(&self, index: u32) {
        match self {
            Packed::Short(numbers) => prefetch_element(numbers, index as usize),
            Packed::Long(numbers) => prefetch_element(numbers, index as usize),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_both_widths_round_trip() {
        for (slots, bytes) in [(MAX_SHORT_SLOTS, 2), (MAX_SHORT_SLOTS + 1, 4)] {
            let mut packed = Packed::new(3, Width::of(slots));
            packed.set(0, 0);
            packed.set(1, slots + slots / 3);
            assert_eq!([0, 1, 2].map(|at| packed.get(at)), [0, slots + slots / 3, NONE]);
            packed.set(1, NONE);
            assert_eq!((packed.get(1), packed.len()), (NONE, 3));
            assert_eq!(packed.bytes_allocated(), 3 * bytes);
        }
    }
}

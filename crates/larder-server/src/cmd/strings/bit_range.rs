//! Ranges of bits of a string, the highest bit of a byte first: they are counted and searched in words.

use std::ops::Range;

use super::words;

/// A range of bits of a string.
#[derive(Debug)]
pub(crate) struct BitRange {
    start: usize,
    /// The bit behind the last one.
    pub(super) end: usize,
}

impl BitRange {
    /// All bits of a value. `None` if there are none.
    pub(super) fn whole(value: &[u8]) -> Option<BitRange> {
        (!value.is_empty()).then_some(BitRange { start: 0, end: 8 * value.len() })
    }

    /// From one unit to another one, which is included. Negative numbers count from the end; beyond the start they mean the
    /// first unit. `None` if the range is empty.
    pub(super) fn new(start: i64, end: i64, bits_per_unit: usize, value: &[u8]) -> Option<BitRange> {
        let units = (value.len() * 8 / bits_per_unit) as i64;
        let from_start = |number: i64| if number < 0 { number.saturating_add(units).max(0) } else { number };
        let (start, end) = (from_start(start), from_start(end).min(units - 1));
        (start <= end).then(|| BitRange {
            start: start as usize * bits_per_unit,
            end: (end as usize + 1) * bits_per_unit,
        })
    }

    /// The byte at `index` of the value, without the bits outside of the range.
    fn masked(&self, value: &[u8], index: usize, outside: u8) -> u8 {
        let head = if index == self.start / 8 { 0xff >> (self.start % 8) } else { 0xff };
        let tail = if index == self.end / 8 { !(0xff >> (self.end % 8)) } else { 0xff };
        let mask: u8 = head & tail;
        value[index] & mask | outside & !mask
    }

    /// The bytes that have them.
    pub(super) fn bytes(&self) -> Range<usize> {
        self.start / 8..self.end.div_ceil(8)
    }

    /// How many are set in these bytes, which are some of its own.
    pub(super) fn count_ones(&self, value: &[u8], bytes: Range<usize>) -> u64 {
        let (start, inner, end) = self.split(bytes);
        let at_edges: u32 = start.chain(end).map(|index| self.masked(value, index, 0).count_ones()).sum();
        u64::from(at_edges) + words::count_ones(&value[inner])
    }

    /// The first bit of this value in these bytes, which are some of its own.
    pub(super) fn find(&self, value: &[u8], bit: bool, bytes: Range<usize>) -> Option<usize> {
        let (start, inner, end) = self.split(bytes);
        let flip = if bit { 0 } else { 0xff };
        let in_byte = |index: usize| {
            let byte = self.masked(value, index, flip) ^ flip;
            (byte != 0).then(|| 8 * index + byte.leading_zeros() as usize)
        };
        let in_words =
            || words::find_other(&value[inner.clone()], flip).and_then(|index| in_byte(inner.start + index));
        start.into_iter().find_map(in_byte).or_else(in_words).or_else(|| end.into_iter().find_map(in_byte))
    }

    /// The bytes that may have bits outside of the range, at its start and its end, and those in between.
    fn split(&self, bytes: Range<usize>) -> (Range<usize>, Range<usize>, Range<usize>) {
        let first = bytes.end.min(bytes.start + 1);
        let last = first.max(bytes.end.saturating_sub(1));
        (bytes.start..first, first..last, last..bytes.end)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_of_bits_are_counted_and_searched_as_bit_by_bit() {
        let value: Vec<u8> = (0..700u32).map(|n| if n < 300 { 0 } else { (n * n / 8) as u8 }).collect();
        let flipped: Vec<u8> = value.iter().map(|byte| !byte).collect();
        let is_set = |value: &[u8], at: usize| value[at / 8] & 0x80 >> (at % 8) != 0;
        for (start, end) in
            [(0, 5_600), (0, 1), (7, 9), (8, 8 * 699 + 3), (3, 2_403), (2_399, 2_420), (5_592, 5_600)]
        {
            let range = BitRange { start, end };
            for value in [&value, &flipped] {
                let ones = (start..end).filter(|at| is_set(value, *at)).count() as u64;
                assert_eq!(range.count_ones(value, range.bytes()), ones, "{start}..{end}");
                for bit in [false, true] {
                    let first = (start..end).find(|at| is_set(value, *at) == bit);
                    assert_eq!(range.find(value, bit, range.bytes()), first, "{bit} in {start}..{end}");
                }
            }
        }
    }
}

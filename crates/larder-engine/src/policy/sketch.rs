//! A frequency sketch: an estimate of how often each key was used lately, in four-bit counters that age by halving.
//!
//! A count-min sketch (Graham Cormode and S. Muthukrishnan, "An Improved Data Stream Summary: The Count-Min Sketch and
//! its Applications", 2005) with the ageing of TinyLFU (Gil Einziger, Roy Friedman, Ben Manes, "TinyLFU: A Highly
//! Efficient Cache Admission Policy", 2017, <https://arxiv.org/abs/1512.00727>). The update is conservative: it raises only
//! the counters that are too low (Cristian Estan and George Varghese, "New Directions in Traffic Measurement and
//! Accounting", 2002). The four counters of a key lie in one cache line, so an estimate costs at most one miss of the
//! processor's cache.

use crate::layout::prefetch::prefetch_element;

/// Counters of one cache line: four rows of 32, one row in two words.
type Block = [u64; 8];

#[derive(Clone, Copy, Debug)]
#[repr(align(64))]
struct Line(Block);

/// How many entries share a line: sixteen counters for each entry, of which it uses four. With eight counters the mean hit
/// ratio over the traces of the benchmark is half a point lower.
const ENTRIES_PER_LINE: usize = 8;
/// All counters are halved after this many counted uses per entry. From 30 to 100 the hit ratios are the same; with the 10 of
/// TinyLFU the counts of entries that are used rarely are too low to be compared.
const SAMPLE_PER_ENTRY: usize = 40;
const ROWS: usize = 4;
const MAX_COUNT: u64 = 15;
/// The lowest bit of each counter.
const LOW_BITS: u64 = 0x1111_1111_1111_1111;

#[derive(Debug)]
pub(crate) struct Sketch {
    lines: Vec<Line>,
    /// Uses counted since the last halving.
    counted: usize,
    sample: usize,
}

impl Sketch {
    pub(crate) fn new(entries: usize) -> Self {
        let entries = entries.max(ENTRIES_PER_LINE);
        let lines = entries.div_ceil(ENTRIES_PER_LINE);
        Sketch { lines: vec![Line([0; 8]); lines], counted: 0, sample: entries * SAMPLE_PER_ENTRY }
    }

    /// The number of entries that the sketch is sized for, rounded up.
    pub(crate) fn entries(&self) -> usize {
        self.lines.len() * ENTRIES_PER_LINE
    }

    pub(crate) fn bytes_allocated(&self) -> usize {
        self.lines.capacity() * size_of::<Line>()
    }

    /// Prefetches the line of a key.
    #[inline]
    pub(crate) fn prefetch(&self, rank: u32) {
        prefetch_element(&self.lines, self.line_of(rank));
    }

    /// How often the key was counted, at most `MAX_COUNT`. Never too low, but for what halving took.
    #[inline]
    pub(crate) fn estimate(&self, rank: u32) -> u8 {
        let line = &self.lines[self.line_of(rank)].0;
        least((0..ROWS).map(|row| counter(rank, row).read(line))) as u8
    }

    /// Counts `uses` of a key, and returns how often it was counted.
    #[inline]
    pub(crate) fn add(&mut self, rank: u32, uses: u8) -> u8 {
        let at = self.line_of(rank);
        let line = &mut self.lines[at].0;
        let least = least((0..ROWS).map(|row| counter(rank, row).read(line)));
        let raised = (least + u64::from(uses)).min(MAX_COUNT);
        for row in 0..ROWS {
            counter(rank, row).raise_to(line, raised);
        }
        self.counted += usize::from(uses);
        if self.counted >= self.sample {
            self.halve();
        }
        raised as u8
    }

    #[cold]
    fn halve(&mut self) {
        for word in self.lines.iter_mut().flat_map(|line| &mut line.0) {
            *word = *word >> 1 & (LOW_BITS * 7);
        }
        self.counted /= 2;
    }

    #[inline]
    fn line_of(&self, rank: u32) -> usize {
        // Mixed, so that keys that share a group of the table do not share a line here too.
        let mixed = u64::from(rank).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
        ((mixed * self.lines.len() as u64) >> 32) as usize
    }
}

/// The position of a counter in its line.
#[derive(Clone, Copy)]
struct Counter {
    word: usize,
    shift: u32,
}

/// The counter of a key in a row: four bits of the rank select it in its word, and the next one the word.
#[inline]
fn counter(rank: u32, row: usize) -> Counter {
    let bits = rank >> (row * 5 + 1);
    Counter { word: row * 2 + (bits >> 6 & 1) as usize, shift: bits & 60 }
}

impl Counter {
    // A line has eight words: the masks remove the bounds checks.
    #[inline]
    fn read(self, line: &Block) -> u64 {
        line[self.word & 7] >> self.shift & MAX_COUNT
    }

    #[inline]
    fn raise_to(self, line: &mut Block, count: u64) {
        line[self.word & 7] += count.saturating_sub(self.read(line)) << self.shift;
    }
}

#[inline]
fn least(counts: impl Iterator<Item = u64>) -> u64 {
    counts.fold(MAX_COUNT, u64::min)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rank(n: u64) -> u32 {
        ((n + 1).wrapping_mul(0xd6e8_feb8_6659_fd93).rotate_left(29).wrapping_mul(0xd6e8_feb8_6659_fd93)
            >> 32) as u32
    }

    #[test]
    fn estimate_is_never_too_low_and_rarely_too_high() {
        let mut sketch = Sketch::new(4_096);
        for n in 0..4_096 {
            sketch.add(rank(n), (n % 3) as u8);
        }
        let mut exact = 0;
        for n in 0..4_096 {
            let estimate = sketch.estimate(rank(n));
            assert!(estimate >= (n % 3) as u8);
            exact += usize::from(estimate == (n % 3) as u8);
        }
        assert!(exact > 4_000, "{exact} of 4096 are exact");
    }

    #[test]
    fn counters_saturate_and_age() {
        let mut sketch = Sketch::new(16);
        sketch.add(rank(1), 15);
        sketch.add(rank(1), 15);
        assert_eq!(sketch.estimate(rank(1)), 15);
        for n in 10..10 + 16 * SAMPLE_PER_ENTRY as u64 {
            sketch.add(rank(n), 1);
        }
        assert!(sketch.estimate(rank(1)) <= 9, "halved once at least");
    }
}

//! Random numbers from a seed: the same seed gives the same faults and the same choices of keys.

/// SplitMix64, by Guy Steele, Doug Lea and Christine Flood, "Fast splittable pseudorandom number generators", 2014.
#[derive(Debug)]
pub(super) struct Random(u64);

impl Random {
    /// The numbers of one stream of a seed. Each thread has a stream of its own.
    pub(super) fn new(seed: u64, stream: u64) -> Self {
        let mut random = Random(seed ^ stream.wrapping_mul(0xa076_1d64_78bd_642f));
        random.next();
        random
    }

    pub(super) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// At least 0, and below 1.
    pub(super) fn unit(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// A whole number below `end`, each as often.
    pub(super) fn below(&mut self, end: usize) -> usize {
        (self.unit() * end as f64) as usize
    }

    pub(super) fn between(&mut self, least: f64, most: f64) -> f64 {
        least + self.unit() * (most - least)
    }

    /// A whole number below `end`, low ones more often: the first hundredth gets a fifth of all.
    pub(super) fn skewed(&mut self, end: usize) -> usize {
        (self.unit().powi(3) * end as f64) as usize
    }

    pub(super) fn shuffle<T>(&mut self, list: &mut [T]) {
        for last in (1..list.len()).rev() {
            list.swap(last, self.below(last + 1));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn same_seed_gives_the_same_numbers_and_streams_differ() {
        let numbers = |seed, stream| {
            let mut random = Random::new(seed, stream);
            [(); 4].map(|()| random.next())
        };
        assert_eq!(numbers(7, 1), numbers(7, 1));
        assert_ne!(numbers(7, 1), numbers(7, 2));
        assert_ne!(numbers(7, 1), numbers(8, 1));
    }

    #[test]
    fn skewed_numbers_are_in_range_and_mostly_low() {
        let mut random = Random::new(1, 0);
        let numbers: Vec<usize> = (0..10_000).map(|_| random.skewed(100)).collect();
        assert!(numbers.iter().all(|number| *number < 100));
        let first = numbers.iter().filter(|number| **number == 0).count();
        assert!((1_800..2_600).contains(&first), "{first}");
    }

    #[test]
    fn shuffle_keeps_the_elements() {
        let mut list = [1, 2, 3, 4, 5];
        Random::new(3, 0).shuffle(&mut list);
        list.sort_unstable();
        assert_eq!(list, [1, 2, 3, 4, 5]);
    }
}

//! Keys, and the order in which they are requested.

use rand::rngs::SmallRng;
use rand::seq::SliceRandom;
use rand::{RngExt, SeedableRng};
use rand_distr::{Distribution, Zipf};

/// A common exponent in models of web caches.
const ZIPF_EXPONENT: f64 = 0.99;

/// The keys that are in a cache before the measurement, in random order, the most popular first.
pub(crate) struct Population {
    keys: Vec<u64>,
    random: SmallRng,
}

impl Population {
    pub(crate) fn new(size: usize, seed: u64) -> Self {
        let mut random = SmallRng::seed_from_u64(seed);
        let mut keys: Vec<u64> = (0..size as u64).map(scrambled).collect();
        keys.shuffle(&mut random);
        Population { keys, random }
    }

    pub(crate) fn keys(&self) -> &[u64] {
        &self.keys
    }

    /// Requests for keys of equal probability.
    pub(crate) fn uniform(&mut self, requests: usize) -> Vec<u64> {
        (0..requests).map(|_| self.keys[self.random.random_range(0..self.keys.len())]).collect()
    }

    /// Requests whose keys follow a Zipf distribution.
    pub(crate) fn zipf(&mut self, requests: usize) -> Vec<u64> {
        let ranks = Zipf::new(self.keys.len() as f64, ZIPF_EXPONENT).expect("the exponent is valid");
        (0..requests).map(|_| self.keys[ranks.sample(&mut self.random) as usize - 1]).collect()
    }
}

/// The `n`th key outside of every population.
pub(crate) fn unused_key(n: u64) -> u64 {
    scrambled(n + (1 << 40))
}

/// Maps numbers to distinct numbers far apart.
pub(super) fn scrambled(n: u64) -> u64 {
    let n = (n ^ (n >> 32)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    n ^ (n >> 29)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::{HashMap, HashSet};

    #[test]
    fn keys_are_distinct_and_depend_on_the_seed() {
        let population = Population::new(10_000, 7);
        let distinct: HashSet<u64> =
            population.keys().iter().copied().chain((0..10_000).map(unused_key)).collect();
        assert_eq!(distinct.len(), 20_000);
        assert_eq!(population.keys(), Population::new(10_000, 7).keys());
        assert_ne!(population.keys(), Population::new(10_000, 8).keys());
    }

    #[test]
    fn zipf_and_uniform_requests_have_their_distributions() {
        let mut population = Population::new(1000, 7);
        let hottest = population.keys()[0];
        let count = |requests: Vec<u64>| {
            let mut counts = HashMap::new();
            requests.into_iter().for_each(|key| *counts.entry(key).or_insert(0) += 1);
            counts
        };
        // With this exponent the first of a thousand keys gets one request in 7.75.
        let zipf = count(population.zipf(100_000))[&hottest];
        assert!((12_000..14_000).contains(&zipf), "{zipf}");
        let uniform = count(population.uniform(100_000))[&hottest];
        assert!((50..200).contains(&uniform), "{uniform}");
    }
}

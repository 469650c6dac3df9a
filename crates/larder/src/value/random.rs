//! The random numbers of a cache: from the operating system, or from a seed, so that a test repeats them.
//!
//! No generator of this process is between them and the operating system: a fork copies a generator, and two children would
//! draw the same ids. To each other their invalidations would be their own, which are known and ignored.

use crate::value::format::Id;
use std::sync::atomic::{AtomicU64, Ordering};

/// The source of ids, of the node's origin and of jitter.
#[derive(Debug)]
pub(crate) enum Random {
    /// The operating system. Cost: a system call.
    Os,
    /// The state of splitmix64 (Steele, Lea and Flood 2014, "Fast splittable pseudorandom number generators").
    Seeded(AtomicU64),
}

impl Random {
    pub(crate) fn new(seed: Option<u64>) -> Self {
        seed.map_or(Random::Os, |seed| Random::Seeded(AtomicU64::new(seed)))
    }

    /// Numbers that cost no system call each, and that the children of a fork have in common.
    pub(crate) fn cheap(seed: Option<u64>) -> Self {
        Random::Seeded(AtomicU64::new(seed.unwrap_or_else(random_u64)))
    }

    pub(crate) fn bytes(&self) -> [u8; 16] {
        match self {
            Random::Os => from_os(),
            Random::Seeded(state) => {
                let parts = [next(state), next(state)];
                (u128::from(parts[0]) << 64 | u128::from(parts[1])).to_le_bytes()
            }
        }
    }

    /// A new id for a lease or a value.
    pub(crate) fn id(&self) -> Id {
        Id(self.bytes())
    }

    /// So many new ids.
    pub(crate) fn ids(&self, count: usize) -> Vec<Id> {
        match self {
            Random::Os => {
                let mut bytes = vec![0; count * size_of::<Id>()];
                fill_from_os(&mut bytes);
                bytes.as_chunks().0.iter().copied().map(Id).collect()
            }
            Random::Seeded(_) => (0..count).map(|_| self.id()).collect(),
        }
    }

    /// A number from 0 up to, but not including, 1.
    pub(crate) fn fraction(&self) -> f32 {
        let drawn = match self {
            Random::Os => random_u64(),
            Random::Seeded(state) => next(state),
        };
        // 24 bits are what an f32 holds exactly.
        (drawn >> 40) as f32 / (1 << 24) as f32
    }
}

/// A random number from the operating system.
pub(crate) fn random_u64() -> u64 {
    u64::from_le_bytes(from_os())
}

fn from_os<const N: usize>() -> [u8; N] {
    let mut bytes = [0; N];
    fill_from_os(&mut bytes);
    bytes
}

fn fill_from_os(bytes: &mut [u8]) {
    getrandom::fill(bytes).expect("the operating system has random numbers");
}

fn next(state: &AtomicU64) -> u64 {
    const STEP: u64 = 0x9e37_79b9_7f4a_7c15;
    let mut mixed = state.fetch_add(STEP, Ordering::Relaxed).wrapping_add(STEP);
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn same_seed_same_numbers() {
        let (one, other) = (Random::new(Some(1)), Random::new(Some(1)));
        assert_eq!([one.bytes(), one.bytes()], [other.bytes(), other.bytes()]);
        assert_ne!(Random::new(Some(1)).bytes(), Random::new(Some(2)).bytes());
    }

    #[test]
    fn os_numbers_differ() {
        assert_ne!(Random::new(None).bytes(), Random::new(None).bytes());
        for random in [Random::new(None), Random::new(Some(7))] {
            let mut ids = random.ids(100);
            ids.sort_unstable_by_key(|id| id.0);
            ids.dedup();
            assert_eq!(ids.len(), 100);
        }
    }

    #[test]
    fn fraction_is_below_one() {
        for random in [Random::new(None), Random::new(Some(7))] {
            assert!((0..1_000).all(|_| (0.0..1.0).contains(&random.fraction())));
        }
    }
}

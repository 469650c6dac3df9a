//! Random numbers that a seed repeats.

use std::ops::Range;
use std::sync::Mutex;
use std::time::Duration;

/// splitmix64, shared by everything in one history: the numbers depend on the order of events, and that only on the seed.
#[derive(Debug)]
pub(crate) struct Rng(Mutex<u64>);

impl Rng {
    pub(crate) fn new(seed: u64) -> Self {
        Rng(Mutex::new(seed))
    }

    pub(crate) fn next(&self) -> u64 {
        let mut state = self.0.lock().expect("nobody panics with it");
        *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = *state;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    pub(crate) fn below(&self, range: Range<u64>) -> u64 {
        range.start + self.next() % (range.end - range.start)
    }

    pub(crate) fn ms(&self, range: Range<u64>) -> Duration {
        Duration::from_millis(self.below(range))
    }

    /// True with a probability of `per_thousand` in a thousand.
    pub(crate) fn chance(&self, per_thousand: u64) -> bool {
        self.below(0..1_000) < per_thousand
    }
}

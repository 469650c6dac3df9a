//! Times of slots in milliseconds, in four bytes each while all of them are within fifty days of one another.

use crate::layout::array::Array;
use crate::layout::prefetch::prefetch_element;
use crate::layout::slots::Moves;

/// No deadline. The latest deadline is 2^48 − 2 ms after the clock's start, 8,900 years; later ones become `NEVER`.
pub(crate) const NEVER: u64 = (1 << 48) - 1;

/// `NEVER`, without upper halves.
const LOW_NEVER: u32 = u32::MAX;

/// How much earlier than asked for times are exact: a thread reads the clock before it waits for a lock, so that another one
/// may have a later time already.
const SLACK_MS: u64 = 60_000;

/// A time for each slot.
#[derive(Debug)]
pub(crate) struct Timestamps {
    /// What all times are counted from. Earlier ones count as this one.
    epoch: u64,
    low: Array<u32>,
    /// The upper halves; none until a time needs one.
    high: Array<u16>,
}

impl Timestamps {
    /// `NEVER` for each of this many slots. Of times that are set, those before `earliest` need not be exact.
    pub(crate) fn new(slots: u32, earliest: u64) -> Self {
        let epoch = earliest.saturating_sub(SLACK_MS);
        Timestamps { epoch, low: Array::filled(slots as usize, LOW_NEVER), high: Array::filled(0, 0) }
    }

    /// The same times in a larger table. Those before `earliest` need not be exact.
    pub(crate) fn moved(&self, moves: &Moves, earliest: u64) -> Self {
        let mut larger = Timestamps::new(moves.slots(), earliest);
        for (from, to) in moves.iter() {
            larger.set(to, self.get(from));
        }
        larger
    }

    pub(crate) fn bytes_allocated(&self) -> usize {
        size_of_val(&*self.low) + size_of_val(&*self.high)
    }

    /// Prefetches the time of a slot.
    #[inline]
    pub(crate) fn prefetch(&self, id: u32) {
        prefetch_element(&self.low, id as usize);
        if !self.high.is_empty() {
            prefetch_element(&self.high, id as usize);
        }
    }

    /// The time of a slot, `NEVER` if none was set.
    #[inline]
    pub(crate) fn get(&self, id: u32) -> u64 {
        let low = self.low[id as usize];
        if let Some(high) = self.high.get(id as usize) {
            return match u64::from(low) | u64::from(*high) << 32 {
                NEVER => NEVER,
                since => self.epoch + since,
            };
        }
        if low == LOW_NEVER { NEVER } else { self.epoch + u64::from(low) }
    }

    pub(crate) fn set(&mut self, id: u32, at_ms: u64) {
        let since = if at_ms >= NEVER { NEVER } else { at_ms.saturating_sub(self.epoch) };
        if self.high.is_empty() {
            if since == NEVER || since < u64::from(LOW_NEVER) {
                // The lower half of `NEVER` is the short one.
                self.low[id as usize] = since as u32;
                return;
            }
            self.add_high();
        }
        self.low[id as usize] = since as u32;
        self.high[id as usize] = (since >> 32) as u16;
    }

    #[cold]
    fn add_high(&mut self) {
        self.high = Array::filled(self.low.len(), 0);
        for (low, high) in self.low.iter().zip(self.high.iter_mut()) {
            if *low == LOW_NEVER {
                *high = u16::MAX;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn times_round_trip_up_to_never(
            epoch in prop_oneof![Just(0u64), 0u64..1 << 40],
            steps in proptest::collection::vec(
                (0u32..8, prop_oneof![0u64..1 << 20, 0u64..1 << 33, 0u64..NEVER, Just(NEVER - 1), NEVER..=u64::MAX]),
                1..40,
            ),
        ) {
            let (mut times, mut model) = (Timestamps::new(8, epoch), [NEVER; 8]);
            for (id, at) in steps {
                times.set(id, at);
                model[id as usize] = at.min(NEVER).max(epoch.saturating_sub(SLACK_MS));
                prop_assert_eq!([0, 1, 2, 3, 4, 5, 6, 7].map(|id| times.get(id)), model);
            }
        }
    }

    #[test]
    fn times_within_fifty_days_take_four_bytes() {
        let mut times = Timestamps::new(8, 1 << 45);
        times.set(3, (1 << 45) + (1 << 31));
        assert_eq!(times.bytes_allocated(), 8 * 4);
        times.set(3, (1 << 45) + (1 << 32));
        assert_eq!(times.bytes_allocated(), 8 * 6);
    }
}

//! The timing wheel, which finds the entries that are due.
//!
//! The wheel (George Varghese and Tony Lauck, "Hashed and Hierarchical Timing Wheels", SOSP 1987) has four levels of 64
//! buckets; a bucket of one level is as wide as all 64 of the level below. An entry is registered by appending its slot to
//! the bucket of its deadline. Nothing is removed from the middle: each slot stores its one valid bucket, and a slot found
//! in another bucket is a stale registration and is dropped. When a quarter is stale, the wheel is rebuilt. So a write
//! costs one append, whatever it overwrites.
//!
//! Time advances only when a caller asks what is due, by any amount, at the cost of a few words that mark the filled
//! buckets; entries then come out one by one, so each caller decides how much work to do.
//!
//! Bytes per slot: 1 for the bucket; per registration 2.1, in a shard of many slots 4.3.

mod chunks;

use self::chunks::{ChunkList, Chunks};
use crate::layout::array::Array;
use crate::layout::packed::Width;
use crate::time::timestamps::NEVER;

const LEVELS: usize = 4;
const BUCKETS: u64 = 64;
const BUCKET_BITS: u32 = 6;
/// The width of a bucket on the lowest level: 2^7 = 128 ms. An entry that is due is found at most two buckets later.
const TICK_BITS: u32 = 7;
/// How many stale registrations are tolerated in addition to a third of the valid ones.
const TOLERATED_STALE: usize = 256;

/// How many slots of a bucket are looked at for the nearest deadline.
const SAMPLED: usize = 16;

/// The timing wheel: yields the slots whose deadline may have passed.
#[derive(Debug)]
pub(crate) struct Wheel {
    levels: [Level; LEVELS],
    /// The bucket that holds the valid registration of a slot, or `UNREGISTERED`.
    bucket_of: Array<u8>,
    chunks: Chunks,
    valid: usize,
    registered: usize,
    /// The rest of the bucket that is being emptied because its time has come, and its code.
    due: ChunkList,
    due_code: u8,
}

/// Not a bucket's code. The last bucket of the highest level would have it, so that bucket is not used.
const UNREGISTERED: u8 = u8::MAX;

#[derive(Debug)]
struct Level {
    /// The bucket of the current time, counted from the clock's start.
    now: u64,
    /// A bit for each bucket that is not empty.
    filled: u64,
    buckets: [ChunkList; BUCKETS as usize],
}

impl Wheel {
    /// An empty wheel for this many slots, at the time `now_ms`.
    pub(crate) fn new(slots: u32, now_ms: u64) -> Self {
        let level = |number| Level {
            now: if number == 0 { (now_ms >> shift(0)).saturating_sub(1) } else { now_ms >> shift(number) },
            filled: 0,
            buckets: [ChunkList::EMPTY; BUCKETS as usize],
        };
        Wheel {
            levels: std::array::from_fn(level),
            bucket_of: Array::filled(slots as usize, UNREGISTERED),
            chunks: Chunks::new(Width::of(slots)),
            valid: 0,
            registered: 0,
            due: ChunkList::EMPTY,
            due_code: UNREGISTERED,
        }
    }

    pub(crate) fn bytes_allocated(&self) -> usize {
        size_of_val(&*self.bucket_of) + self.chunks.bytes_allocated()
    }

    /// Registers a slot under a deadline and makes its former registration stale.
    pub(crate) fn register(&mut self, id: u32, at_ms: u64) {
        if at_ms >= NEVER {
            self.unregister(id);
            return;
        }
        let code = self.code_for(at_ms);
        let former = std::mem::replace(&mut self.bucket_of[id as usize], code);
        if former == code {
            return;
        }
        self.valid += usize::from(former == UNREGISTERED);
        self.registered += 1;
        let level = &mut self.levels[usize::from(code >> BUCKET_BITS)];
        let bucket = usize::from(code) % BUCKETS as usize;
        level.filled |= 1 << bucket;
        self.chunks.push(&mut level.buckets[bucket], id);
    }

    /// Makes the registration of a slot stale.
    pub(crate) fn unregister(&mut self, id: u32) {
        if self.is_registered(id) {
            self.bucket_of[id as usize] = UNREGISTERED;
            self.valid -= 1;
        }
    }

    /// Whether a quarter of the registrations is stale, so that the wheel should be rebuilt.
    pub(crate) fn needs_rebuild(&self) -> bool {
        self.registered > self.valid + self.valid / 3 + TOLERATED_STALE
    }

    /// The next slot whose bucket is due: its deadline has passed, or it must be registered again. `None` if no bucket is
    /// due. The slot is no longer registered.
    pub(crate) fn next(&mut self, now_ms: u64) -> Option<u32> {
        loop {
            while let Some(id) = self.chunks.pop(&mut self.due) {
                self.registered -= 1;
                if self.bucket_of[id as usize] == self.due_code {
                    self.bucket_of[id as usize] = UNREGISTERED;
                    self.valid -= 1;
                    return Some(id);
                }
            }
            if !self.take_due_bucket(now_ms) {
                return None;
            }
        }
    }

    /// The slot with the nearest deadline among some: of each level, up to `SAMPLED` of those in the first bucket that has
    /// any. `deadline` returns that of a slot, or `None` for a slot to be left out. Stays registered. Ask after
    /// [`Wheel::next`], which advances the time.
    pub(crate) fn nearest(&mut self, deadline: impl Fn(u32) -> Option<u64>) -> Option<u32> {
        let mut nearest = None;
        for number in 0..LEVELS {
            let first = self.levels[number].now + 1;
            let mut filled = self.levels[number].filled.rotate_right((first % BUCKETS) as u32);
            while filled != 0 {
                let bucket = first + u64::from(filled.trailing_zeros());
                filled &= filled - 1;
                if let Some(found) = self.nearest_in(number, bucket, &deadline) {
                    nearest = nearest.into_iter().chain([found]).min();
                    break;
                }
            }
        }
        nearest.map(|(_, id)| id)
    }

    /// As [`Wheel::nearest`], in one bucket, with the deadline. Drops the stale registrations that it meets.
    fn nearest_in(
        &mut self,
        number: usize,
        bucket: u64,
        deadline: &impl Fn(u32) -> Option<u64>,
    ) -> Option<(u64, u32)> {
        let (code, index) = (code(number, bucket), (bucket % BUCKETS) as usize);
        let list = &mut self.levels[number].buckets[index];
        let (mut sample, mut sampled) = ([0; SAMPLED], 0);
        while sampled < SAMPLED
            && let Some(id) = self.chunks.pop(list)
        {
            if self.bucket_of[id as usize] == code {
                sample[sampled] = id;
                sampled += 1;
            } else {
                self.registered -= 1;
            }
        }
        let sample = &sample[..sampled];
        sample.iter().rev().for_each(|id| self.chunks.push(list, *id));
        if sample.is_empty() {
            self.levels[number].filled &= !(1 << index);
        }
        sample.iter().filter_map(|id| Some((deadline(*id)?, *id))).min()
    }

    /// Detaches the next bucket that is due. On the lowest level it lies in the past as a whole; on a higher level the
    /// current time may lie in it, and its entries move to lower levels.
    fn take_due_bucket(&mut self, now_ms: u64) -> bool {
        for (number, level) in self.levels.iter_mut().enumerate() {
            let present = now_ms >> shift(number);
            let last = if number == 0 { present.saturating_sub(1) } else { present };
            if last <= level.now {
                continue;
            }
            // Buckets after `now` up to `last`: a rotation brings the first of them to bit 0.
            let first = level.now + 1;
            let rotated = level.filled.rotate_right((first % BUCKETS) as u32);
            let span = (last - level.now).min(BUCKETS);
            let due = if span == BUCKETS { rotated } else { rotated & ((1 << span) - 1) };
            if due == 0 {
                level.now = last;
                continue;
            }
            level.now = first + u64::from(due.trailing_zeros());
            let bucket = (level.now % BUCKETS) as usize;
            level.filled &= !(1 << bucket);
            self.due = std::mem::replace(&mut level.buckets[bucket], ChunkList::EMPTY);
            self.due_code = code(number, level.now);
            return true;
        }
        false
    }

    /// The bucket for a deadline, on the lowest level that reaches it. A deadline in the past goes to the bucket that is
    /// emptied next. One beyond all levels goes to the far end of the highest and is registered again from there; one
    /// whose bucket has no code goes to the far end of the level below.
    fn code_for(&self, at_ms: u64) -> u8 {
        for (number, level) in self.levels.iter().enumerate() {
            let bucket = (at_ms >> shift(number)).max(level.now + 1);
            if bucket - level.now < BUCKETS || number == LEVELS - 1 {
                return match code(number, bucket.min(level.now + BUCKETS - 1)) {
                    UNREGISTERED => code(number - 1, self.levels[number - 1].now + BUCKETS - 1),
                    code => code,
                };
            }
        }
        unreachable!("the highest level takes every deadline")
    }

    /// How many slots are registered.
    pub(crate) fn valid(&self) -> usize {
        self.valid
    }

    /// Whether a slot is registered.
    pub(crate) fn is_registered(&self, id: u32) -> bool {
        self.bucket_of[id as usize] != UNREGISTERED
    }
}

/// The code of a bucket.
fn code(level: usize, bucket: u64) -> u8 {
    (level << BUCKET_BITS) as u8 | (bucket % BUCKETS) as u8
}

/// The shift from milliseconds to buckets of a level.
fn shift(level: usize) -> u32 {
    TICK_BITS + BUCKET_BITS * level as u32
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    /// Drives the wheel as a shard does and compares it with a map.
    fn run(steps: Vec<(u32, u64, u64)>) {
        let mut wheel = Wheel::new(40, 0);
        let mut model: BTreeMap<u32, u64> = BTreeMap::new();
        let mut now = 0;
        for (id, ttl, advance) in steps {
            let at = now + ttl;
            if ttl == 0 {
                wheel.unregister(id);
                model.remove(&id);
            } else {
                wheel.register(id, at);
                model.insert(id, at);
            }
            assert_eq!(wheel.valid(), model.len());
            now += advance;
            while let Some(id) = wheel.next(now) {
                let at = model[&id];
                if at <= now {
                    model.remove(&id);
                } else {
                    wheel.register(id, at);
                }
            }
            for (id, at) in &model {
                assert!(wheel.is_registered(*id));
                assert!(*at + (2 << TICK_BITS) > now, "slot {id} was due at {at}, it is {now}");
            }
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn due_slots_are_found_within_two_ticks_and_none_is_lost(
            steps in proptest::collection::vec(
                (
                    0u32..40,
                    prop_oneof![0u64..2, 1u64..500, 1u64..100_000, 1u64..10_000_000_000, Just(NEVER - 1)],
                    prop_oneof![Just(0u64), 1u64..200, 1u64..20_000, 1u64..5_000_000_000],
                ),
                1..200,
            ),
        ) {
                // The shard turns deadlines beyond the range into `NEVER`.
            let mut now = 0;
            let steps = steps
                .into_iter()
                .filter(|(_, ttl, advance)| {
                    let fits = now + ttl < NEVER;
                    now += if fits { *advance } else { 0 };
                    fits
                })
                .collect();
            run(steps);
        }
    }

    #[test]
    fn overwrites_make_a_rebuild_necessary() {
        let mut wheel = Wheel::new(40, 0);
        for turn in 0..2_000u64 {
            wheel.register(1, 1_000 + turn % 2 * 1_000_000);
        }
        assert!(wheel.needs_rebuild());
        assert_eq!(wheel.valid(), 1);
    }
}

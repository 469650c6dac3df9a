//! Why reads miss: what became of the last value of their keys, for one key in sixteen.
//!
//! A bounded table remembers keys that were removed, with the cause, and keys whose read missed. A hit does not touch it.
//!
//! ```text
//! rank of a hash:  fingerprint (28 bits) │ 0000: the key is sampled
//! bucket:          8 × (fingerprint, 4 bits of cause), newest first; what leaves a full bucket is forgotten
//! ```
//!
//! A key that is mistaken for another one needs the same rank in the same shard, which is rarer than one in 2^25.

use crate::entry::Cause;
use crate::stats::MissCauses;

/// One key in this many is sampled, and stands for as many.
const SAMPLE: u32 = 16;
/// The number of fingerprints in a bucket: half a cache line.
const BUCKET: usize = 8;
/// So the log remembers about as many removed keys as there are entries.
const ENTRIES_PER_BUCKET: usize = SAMPLE as usize * BUCKET;
const MAX_BUCKETS: usize = 2_048;

const EXPIRED: u32 = 1;
const EVICTED: u32 = 2;
const INVALIDATED: u32 = 3;
const PURGED: u32 = 4;
/// A read missed, and nothing was stored and removed since.
const MISSED: u32 = 5;

/// The removed keys of a shard, and the causes of its misses.
#[derive(Debug)]
pub(super) struct MissLog {
    /// Allocated when there is something to remember.
    buckets: Box<[[u32; BUCKET]]>,
    bucket_count: usize,
    causes: MissCauses,
}

/// What the log knew of a key.
enum Known {
    Code(u32),
    /// The key was never in the log.
    Never,
    /// The key is not in the log, from which others were dropped.
    NoMore,
}

impl MissLog {
    /// For a shard that is expected to hold so many entries.
    pub(super) fn new(expected: usize) -> Self {
        let bucket_count = (expected / ENTRIES_PER_BUCKET).next_power_of_two().min(MAX_BUCKETS);
        MissLog { buckets: Box::default(), bucket_count, causes: MissCauses::default() }
    }

    pub(super) fn bytes_allocated(&self) -> usize {
        size_of_val(&*self.buckets)
    }

    pub(super) fn causes(&self) -> MissCauses {
        self.causes
    }

    /// Remembers an entry that was removed.
    #[inline]
    pub(super) fn removed(&mut self, rank: u32, cause: Cause) {
        if rank.is_multiple_of(SAMPLE) {
            self.remember_removed(rank, cause);
        }
    }

    fn remember_removed(&mut self, rank: u32, cause: Cause) {
        let code = match cause {
            Cause::Expired => EXPIRED,
            Cause::Evicted => EVICTED,
            Cause::Invalidated => INVALIDATED,
            Cause::Purged => PURGED,
            // Another value takes its place.
            Cause::Replaced => return,
        };
        self.remember(rank, code);
    }

    /// Counts a miss under its cause. `has_expired`: the entry is still there.
    pub(super) fn missed(&mut self, rank: u32, has_expired: bool) {
        if !rank.is_multiple_of(SAMPLE) {
            return;
        }
        let known = self.remember(rank, MISSED);
        let causes = &mut self.causes;
        let count = match known {
            _ if has_expired => &mut causes.expired,
            Known::Code(EXPIRED) => &mut causes.expired,
            Known::Code(EVICTED) => &mut causes.evicted,
            Known::Code(INVALIDATED) => &mut causes.invalidated,
            Known::Code(PURGED) => &mut causes.purged,
            Known::Code(_) => &mut causes.not_stored,
            Known::Never => &mut causes.first,
            Known::NoMore => &mut causes.unknown,
        };
        *count += u64::from(SAMPLE);
    }

    /// Puts a key with a code at the front of its bucket, and returns what was known of it.
    fn remember(&mut self, rank: u32, code: u32) -> Known {
        if self.buckets.is_empty() {
            self.buckets = vec![[0; BUCKET]; self.bucket_count].into();
        }
        // The low bits of the rank, which are zero, make room for the code.
        let index = (rank / SAMPLE) as usize & (self.buckets.len() - 1);
        let bucket = &mut self.buckets[index];
        let found = bucket.iter().position(|slot| *slot != 0 && slot & !(SAMPLE - 1) == rank);
        let known = match found {
            Some(at) => Known::Code(bucket[at] % SAMPLE),
            None if bucket[BUCKET - 1] == 0 => Known::Never,
            None => Known::NoMore,
        };
        bucket[..=found.unwrap_or(BUCKET - 1)].rotate_right(1);
        bucket[0] = rank | code;
        known
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn causes_after(log: &mut MissLog, rank: u32) -> Vec<(&'static str, u64)> {
        let before = log.causes();
        log.missed(rank, false);
        let counts = log.causes().counts().into_iter().zip(before.counts());
        counts.filter(|(now, then)| now != then).map(|((name, now), (_, then))| (name, now - then)).collect()
    }

    #[test]
    fn miss_has_the_cause_of_the_last_removal() {
        let mut log = MissLog::new(10_000);
        for (n, (cause, name)) in [
            (Cause::Expired, "expired"),
            (Cause::Evicted, "evicted"),
            (Cause::Invalidated, "invalidated"),
            (Cause::Purged, "purged"),
        ]
        .into_iter()
        .enumerate()
        {
            let rank = (n as u32 + 1) * 0x1000_0010;
            assert_eq!(causes_after(&mut log, rank), [("first", 16)]);
            assert_eq!(causes_after(&mut log, rank), [("not_stored", 16)]);
            log.removed(rank, Cause::Evicted);
            log.removed(rank, cause);
            log.removed(rank, Cause::Replaced);
            assert_eq!(causes_after(&mut log, rank), [(name, 16)]);
            assert_eq!(causes_after(&mut log, rank), [("not_stored", 16)]);
        }
    }

    #[test]
    fn expired_entry_that_is_still_there_is_the_cause() {
        let mut log = MissLog::new(1);
        log.missed(0, true);
        assert_eq!(log.causes().expired, 16);
    }

    #[test]
    fn keys_outside_of_the_sample_are_not_counted() {
        let mut log = MissLog::new(1);
        for rank in 1..16 {
            log.removed(rank, Cause::Evicted);
            log.missed(rank, false);
        }
        assert_eq!(log.causes(), MissCauses::default());
        assert!(log.buckets.is_empty());
    }

    #[test]
    fn forgotten_cause_is_unknown() {
        let mut log = MissLog::new(1);
        for n in 0..BUCKET as u32 {
            log.removed(n * 16, Cause::Evicted);
        }
        assert_eq!(causes_after(&mut log, 0), [("evicted", 16)], "the bucket has room for all of them");
        assert_eq!(causes_after(&mut log, 100 * 16), [("unknown", 16)]);
        assert_eq!(causes_after(&mut log, 16), [("unknown", 16)], "the oldest was dropped");
        assert_eq!(causes_after(&mut log, 0), [("not_stored", 16)]);
    }
}

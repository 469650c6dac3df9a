//! The most frequent keys of a stream, in bounded memory and with error bounds.
//!
//! Ahmed Metwally, Divyakant Agrawal, Amr El Abbadi: "Efficient Computation of Frequent and Top-k Elements in Data
//! Streams", ICDT 2005, <https://doi.org/10.1007/978-3-540-30570-5_27>: the Space-Saving summary. A key without a counter
//! takes over the lowest one, and that count is its error. Of `n` keys with `m` counters, each key that occurs more than
//! `n / m` times has one, and no count is too high by more than that.
//!
//! It differs in two points. It sees one occurrence in sixteen, chosen at random, because a lock for each would cost more
//! than a hit of a cache. And it finds a key by a scan over two bytes of 128 hashes, and the lowest count by a walk that goes
//! on where it ended, since it does so rarely.
//!
//! Summaries of several threads are merged as in Pankaj K. Agarwal, Graham Cormode, Zengfeng Huang, Jeff M. Phillips,
//! Zhewei Wei, Ke Yi: "Mergeable Summaries", PODS 2012, <https://doi.org/10.1145/2213556.2213562>: counts and errors are
//! added, and a key without a counter in one of them may have occurred there as often as that one's lowest count says.

use crate::mutex::Mutex;
use std::cell::Cell;
use std::collections::HashMap;
use std::hash::BuildHasher;
use std::sync::atomic::{AtomicU64, Ordering};

/// One occurrence in this many is counted, and stands for as many: a power of two.
const SAMPLE: u64 = 16;
const COUNTERS: usize = 128;
/// Longer keys are cut: they are for people to read.
const MAX_KEY_BYTES: usize = 200;

/// Finds the most frequent keys of a stream, for example of the hits of a cache.
///
/// ```
/// use larder_engine::stats::TopKeys;
///
/// let keys = TopKeys::new();
/// for n in 0..100_000_u32 {
///     keys.record(if n % 2 == 0 { b"home" } else { b"about" });
/// }
/// let top = keys.top(1);
/// assert!(top[0].count.abs_diff(50_000) <= top[0].error);
/// ```
#[derive(Debug, Default)]
pub struct TopKeys(Mutex<Counters>);

/// The right to record an event that was drawn as one in sixteen, in one summary or in several.
#[derive(Clone, Copy, Debug)]
pub struct Sampled(());

impl Sampled {
    /// Decides whether to record an event: one in sixteen, at random, since every sixteenth event would miss periodic
    /// events. Cost: a random number of the thread.
    #[inline]
    pub fn draw() -> Option<Sampled> {
        is_sampled().then_some(Sampled(()))
    }
}

/// A frequent key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TopKey {
    /// The key, at most 200 bytes of it.
    pub key: Box<[u8]>,
    /// The estimated number of its occurrences.
    pub count: u64,
    /// The possible error of the number: the error of the summary, and twice the standard deviation of the sample.
    pub error: u64,
}

#[derive(Debug)]
struct Counters {
    hasher: rapidhash::fast::RandomState,
    /// Parts of the hashes of the keys, beside each other for the scan.
    tags: [u16; COUNTERS],
    counters: Vec<Counter>,
    /// No count is lower.
    floor: u64,
    /// Where the search for the lowest count goes on.
    cursor: usize,
}

#[derive(Debug)]
struct Counter {
    hash: u64,
    /// A vector, whose memory the next key takes over.
    key: Vec<u8>,
    count: u64,
    /// The count of the key that had the counter before.
    error: u64,
}

impl Default for Counters {
    fn default() -> Self {
        let hasher = rapidhash::fast::RandomState::default();
        Counters { hasher, tags: [0; COUNTERS], counters: Vec::new(), floor: 1, cursor: 0 }
    }
}

impl TopKeys {
    /// An empty summary.
    pub fn new() -> TopKeys {
        TopKeys::default()
    }

    /// Records an occurrence of a key. Cost: a random number of the thread; for one call in sixteen a lock, a hash and a
    /// scan, about 0.2 µs.
    #[inline]
    pub fn record(&self, key: &[u8]) {
        if let Some(sampled) = Sampled::draw() {
            self.record_sampled(sampled, key);
        }
    }

    /// Records an occurrence of a key in an event that was drawn: one with several keys is drawn once.
    pub fn record_sampled(&self, _: Sampled, key: &[u8]) {
        self.0.lock().add(&key[..key.len().min(MAX_KEY_BYTES)]);
    }

    /// The estimated number of occurrences of a key since it is among the most frequent ones; 0 if it is not.
    pub fn count_of(&self, key: &[u8]) -> u64 {
        let counters = self.0.lock();
        let hash = counters.hasher.hash_one(&key[..key.len().min(MAX_KEY_BYTES)]);
        let counter = counters.find(hash).map(|at| &counters.counters[at]);
        counter.map_or(0, |counter| (counter.count - counter.error) * SAMPLE)
    }

    /// The most frequent keys, at most `most`, the most frequent first.
    pub fn top(&self, most: usize) -> Vec<TopKey> {
        TopKeys::top_of([self], most)
    }

    /// The most frequent keys of several summaries together, each for a part of the stream, for example for a thread.
    pub fn top_of<'a>(summaries: impl IntoIterator<Item = &'a TopKeys>, most: usize) -> Vec<TopKey> {
        let (mut merged, mut lowest) = (HashMap::<Box<[u8]>, Merged>::new(), 0);
        for summary in summaries {
            let counters = summary.0.lock();
            let own_lowest = counters.lowest();
            lowest += own_lowest;
            for Counter { key, count, error, .. } in &counters.counters {
                let merged = merged.entry(key.as_slice().into()).or_default();
                merged.count += count;
                merged.error += error;
                merged.lowest += own_lowest;
            }
        }
        let mut keys: Vec<TopKey> =
            merged.into_iter().map(|(key, merged)| merged.estimate(key, lowest)).collect();
        keys.sort_unstable_by(|one, other| (other.count, &one.key).cmp(&(one.count, &other.key)));
        keys.truncate(most);
        keys
    }
}

/// The counters of a key in several summaries.
#[derive(Default)]
struct Merged {
    count: u64,
    error: u64,
    /// The lowest counts of the summaries that have the key.
    lowest: u64,
}

impl Merged {
    /// `lowest` is the sum of the lowest counts of all summaries.
    fn estimate(self, key: Box<[u8]>, lowest: u64) -> TopKey {
        let elsewhere = lowest - self.lowest;
        let (count, error) = (self.count + elsewhere, self.error + elsewhere);
        let deviation = ((count * SAMPLE * (SAMPLE - 1)) as f64).sqrt();
        TopKey { key, count: count * SAMPLE, error: error * SAMPLE + (2.0 * deviation).ceil() as u64 }
    }
}

impl Counters {
    fn add(&mut self, key: &[u8]) {
        let hash = self.hasher.hash_one(key);
        if let Some(at) = self.find(hash) {
            self.counters[at].count += 1;
        } else if self.counters.len() < COUNTERS {
            self.tags[self.counters.len()] = tag(hash);
            self.counters.push(Counter { hash, key: key.to_vec(), count: 1, error: 0 });
        } else {
            let at = self.find_lowest();
            self.tags[at] = tag(hash);
            let counter = &mut self.counters[at];
            (counter.hash, counter.error) = (hash, counter.count);
            counter.count += 1;
            counter.key.clear();
            counter.key.extend_from_slice(key);
        }
    }

    /// The counter of the key with this hash.
    fn find(&self, hash: u64) -> Option<usize> {
        const TOGETHER: usize = 16;
        let tag = tag(hash);
        let is_here = |at: &usize| self.counters.get(*at).is_some_and(|counter| counter.hash == hash);
        let chunks = self.tags.chunks_exact(TOGETHER).enumerate();
        // All tags of a chunk are compared, without a branch for each.
        chunks
            .filter(|(_, tags)| tags.iter().fold(false, |any, own| any | (*own == tag)))
            .find_map(|(n, _)| (n * TOGETHER..(n + 1) * TOGETHER).find(is_here))
    }

    /// A counter with the lowest count, if all are used.
    fn find_lowest(&mut self) -> usize {
        loop {
            for _ in 0..COUNTERS {
                let at = self.cursor;
                if self.counters[at].count <= self.floor {
                    return at;
                }
                self.cursor = (at + 1) % COUNTERS;
            }
            self.floor = self.lowest();
        }
    }

    /// How often a key without a counter may have occurred.
    fn lowest(&self) -> u64 {
        let lowest = self.counters.iter().map(|counter| counter.count).min();
        lowest.filter(|_| self.counters.len() == COUNTERS).unwrap_or(0)
    }
}

fn tag(hash: u64) -> u16 {
    (hash >> 48) as u16
}

/// The xorshift generator of George Marsaglia, "Xorshift RNGs", 2003, <https://doi.org/10.18637/jss.v008.i14>.
#[inline]
fn is_sampled() -> bool {
    thread_local! {
        /// Zero until the first draw of the thread, and never again.
        static STATE: Cell<u64> = const { Cell::new(0) };
    }
    let mut state = STATE.get();
    if state == 0 {
        state = seed();
    }
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    STATE.set(state);
    // The high bits are the most random ones.
    state >> (u64::BITS - SAMPLE.trailing_zeros()) == 0
}

/// Another state for each thread: with one for all, threads would sample in step, and those that end soon the same few of
/// their events. The generator of Guy L. Steele Jr., Doug Lea, Christine H. Flood, "Fast Splittable Pseudorandom Number
/// Generators", OOPSLA 2014, <https://doi.org/10.1145/2660193.2660195>: zero, which xorshift cannot leave, comes last.
#[cold]
fn seed() -> u64 {
    const STEP: u64 = 0x9e37_79b9_7f4a_7c15;
    static LAST: AtomicU64 = AtomicU64::new(0);
    let mut seed = LAST.fetch_add(STEP, Ordering::Relaxed).wrapping_add(STEP);
    seed = (seed ^ seed >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    seed = (seed ^ seed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    seed ^ seed >> 31
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashMap;

    /// Key `n` of the stream of a skewed workload: low keys are frequent.
    fn skewed(n: u64) -> u64 {
        let random = (n.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 11) as f64 / (1_u64 << 53) as f64;
        (1_000_000_f64.powf(random)) as u64
    }

    #[test]
    fn estimates_are_within_their_errors() {
        let (keys, mut exact) = (TopKeys::new(), HashMap::new());
        for n in 0..1_000_000 {
            let key = skewed(n).to_le_bytes();
            keys.record(&key);
            *exact.entry(key).or_insert(0_u64) += 1;
        }
        let top = keys.top(20);
        // Six standard deviations of the sample.
        assert!(top.iter().all(|top| exact[&*top.key].abs_diff(top.count) <= 3 * top.error), "{top:?}");
        let mut most: Vec<_> = exact.into_iter().collect();
        most.sort_unstable_by_key(|(_, count)| std::cmp::Reverse(*count));
        for (key, _) in &most[..5] {
            assert!(top.iter().any(|top| *top.key == key[..]), "a frequent key is missing");
        }
        assert!(top.windows(2).all(|pair| pair[0].count >= pair[1].count));
    }

    #[test]
    fn rare_keys_take_over_the_lowest_counter_with_its_count_as_error() {
        let mut counters = Counters::default();
        for _ in 0..10 {
            counters.add(b"often");
        }
        for n in 0..1_000_u32 {
            counters.add(&n.to_le_bytes());
        }
        assert_eq!(counters.counters.len(), COUNTERS);
        let often = counters.counters.iter().find(|counter| &*counter.key == b"often").expect("it is kept");
        assert_eq!((often.count, often.error), (10, 0));
        // 1,000 occurrences of 127 counters.
        assert!(counters.counters.iter().all(|counter| counter.error <= 1_000 / 127 + 1));
        let sum: u64 = counters.counters.iter().map(|counter| counter.count).sum();
        assert_eq!(sum, 1_010, "every occurrence is in one counter");
    }

    #[test]
    fn merged_summaries_count_a_key_of_several_threads_and_bound_what_one_has_forgotten() {
        let (one, other) = (TopKeys::new(), TopKeys::new());
        let record = |keys: &TopKeys, key: &[u8], times: u64| {
            (0..times).for_each(|_| keys.record_sampled(Sampled(()), key));
        };
        for keys in [&one, &other] {
            record(keys, b"everywhere", 1_000);
        }
        record(&one, b"here", 500);
        let top = TopKeys::top_of([&one, &other], 10);
        assert_eq!(
            top.iter().map(|top| (&*top.key, top.count)).collect::<Vec<_>>(),
            [(&b"everywhere"[..], 2_000 * SAMPLE), (b"here", 500 * SAMPLE)]
        );
        // The other summary is full of keys that occurred three times: "here" may have been one of them.
        (0..COUNTERS).for_each(|n| record(&other, &n.to_le_bytes(), 3));
        let top = TopKeys::top_of([&one, &other], 2);
        let exact_error = (2.0 * ((503 * SAMPLE * (SAMPLE - 1)) as f64).sqrt()).ceil() as u64;
        assert_eq!((&*top[1].key, top[1].count), (&b"here"[..], 503 * SAMPLE));
        assert_eq!(top[1].error, 3 * SAMPLE + exact_error);
        assert!(TopKeys::top_of([], 3).is_empty());
    }

    #[test]
    fn draws_of_threads_that_end_soon_are_random() {
        const THREADS: u64 = 2_000;
        let keys = TopKeys::new();
        for _ in 0..THREADS {
            std::thread::scope(|scope| _ = scope.spawn(|| (0..4).for_each(|_| keys.record(b"key"))));
        }
        let top = keys.top(1);
        // Six standard deviations.
        assert!(top[0].count.abs_diff(4 * THREADS) <= 3 * top[0].error, "{top:?}");
    }

    #[test]
    fn draws_of_two_threads_differ() {
        let draws = || (0..1_000).map(|_| is_sampled()).collect::<Vec<_>>();
        let [one, other] = [(); 2].map(|()| std::thread::spawn(draws).join().expect("no panic"));
        assert_ne!(one, other);
    }

    #[test]
    fn long_keys_are_cut() {
        let keys = TopKeys::new();
        (0..1_000).for_each(|_| keys.record(&[b'x'; 5_000]));
        assert_eq!(keys.top(10)[0].key.len(), MAX_KEY_BYTES);
    }
}

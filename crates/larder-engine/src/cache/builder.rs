//! The options of a cache, checked when it is built.

use crate::MAX_TTL;
use crate::cache::{Cache, Settings};
use crate::entry::Cause;
use crate::policy::{Evictable, Policy};
use crate::shard::{Hasher, LossListener, Partition};
use crate::time::clock::{Clock, whole_ms};
use std::hash::Hash;
use std::sync::Arc;
use std::time::Duration;

/// Computes the weight of an entry.
pub(crate) type Weigher<K, V> = Arc<dyn Fn(&K, &V) -> u64 + Send + Sync>;
/// Called for each removed entry.
pub(crate) type Listener<K, V> = Arc<dyn Fn(&K, &V, Cause) + Send + Sync>;

const MAX_SHARDS: usize = 1 << 16;
/// The largest capacity: 2^62, so that sums of weights cannot overflow.
const MAX_CAPACITY: u64 = 1 << 62;
/// With fewer expected entries a shard's policy sees too little of the traffic to judge it.
const MIN_SHARD_ENTRIES: u64 = 256;
/// The mean weight that is assumed in a cache bounded by weight: that of entries weighed in bytes.
const ASSUMED_WEIGHT: u64 = 1024;
/// The least mean weight that is assumed, so that shards do not become too large.
const ASSUMED_MIN_WEIGHT: u64 = 256;
/// Without a number of entries, the capacity per shard that justifies shards for all threads. Of two errors the smaller:
/// with entries of a kibibyte a policy sees 16 of them, with entries of weight one a shard has 16,384.
const ASSUMED_SHARD_WEIGHT: u64 = 16_384;
/// More expected entries stand for no bound, and no machine has so many: shards for them would take more memory than most
/// caches.
const MAX_PLANNED_ENTRIES: u64 = 1 << 30;
/// The number that is planned for instead.
const UNBOUNDED_ENTRIES: u64 = 1 << 22;
/// The same for a capacity by weight.
const MAX_PLANNED_WEIGHT: u64 = 1 << 44;
const UNBOUNDED_WEIGHT: u64 = 1 << 30;
/// With more entries, growing a shard's table would take longer than one operation should.
const MAX_SHARD_ENTRIES: u64 = 16_384;
/// Shards per hardware thread: enough that two threads rarely want the same shard.
const SHARDS_PER_THREAD: usize = 8;

/// Options of a [`Cache`]. Made by [`Cache::builder`].
#[must_use = "a builder does nothing until it is built"]
pub struct Builder<K, V> {
    capacity: Option<u64>,
    expected_entries: Option<u64>,
    max_share: f64,
    ttl: Option<Duration>,
    tti: Option<Duration>,
    jitter: f32,
    policy: Policy,
    evictable: Evictable,
    shards: Option<usize>,
    clock: Clock,
    weigher: Option<Weigher<K, V>>,
    listener: Option<Listener<K, V>>,
    loss_listener: Option<LossListener<K>>,
    partitions: Option<(usize, Partition<K>)>,
}

impl<K: Hash + Eq, V> Builder<K, V> {
    pub(crate) fn new() -> Self {
        Builder {
            capacity: None,
            expected_entries: None,
            max_share: 1.0,
            ttl: None,
            tti: None,
            jitter: 0.0,
            policy: Policy::default(),
            evictable: Evictable::default(),
            shards: None,
            clock: Clock::monotonic(),
            weigher: None,
            listener: None,
            loss_listener: None,
            partitions: None,
        }
    }

    /// Bounds the cache by the number of entries: 1 to 2^62. Either this or [`Builder::weight`] must be called; the last
    /// call decides.
    pub fn entries(mut self, capacity: u64) -> Self {
        self.capacity = Some(capacity);
        self.weigher = None;
        self
    }

    /// Bounds the cache by the sum of the weights that `weigher` returns: 1 to 2^62, in any unit. The cache assumes that
    /// weights are bytes. If they are not, also call [`Builder::expected_entries`].
    ///
    /// An entry is weighed once, when it is stored, and an object of [`crate::raw`] again whenever it was edited; outside
    /// any lock except in [`Cache::compute`] and, of [`crate::raw`], in `update` and in [`crate::raw::Locked`]. An
    /// entry of weight zero takes no room and is never evicted: bound the number of these by a time to live.
    pub fn weight(mut self, capacity: u64, weigher: impl Fn(&K, &V) -> u64 + Send + Sync + 'static) -> Self {
        self.capacity = Some(capacity);
        self.weigher = Some(Arc::new(weigher));
        self
    }

    /// The expected number of entries in the full cache, 1 to 2^62. It determines the number of shards and the first size
    /// of their tables. It is not a bound. Default: the number given to [`Builder::entries`]; in a cache bounded by weight,
    /// one per 1,024 of the capacity. If there are many more entries, the shards are larger than planned, and a growing
    /// table delays one insertion by some milliseconds.
    pub fn expected_entries(mut self, entries: u64) -> Self {
        self.expected_entries = Some(entries);
        self
    }

    /// The share of the capacity, above 0 and at most 1, that one entry may take. Default: 1.
    pub fn max_share(mut self, share: f64) -> Self {
        self.max_share = share;
        self
    }

    /// The time to live of an entry after it was written, unless it is stored with its own [`crate::Ttl`]:
    /// above zero, up to [`MAX_TTL`]. Part of a millisecond counts as a whole one. Default: no limit.
    pub fn ttl(mut self, ttl: Duration) -> Self {
        self.ttl = Some(ttl);
        self
    }

    /// The time to idle: an entry expires this long after its last read or write; above zero, up to [`MAX_TTL`]. Part of a
    /// millisecond counts as a whole one. Default: no limit.
    pub fn tti(mut self, tti: Duration) -> Self {
        self.tti = Some(tti);
        self
    }

    /// Shortens each time to live by a random share of up to `jitter`, 0 to 1, so that entries stored together do
    /// not expire together. Never lengthens it. Default: 0.
    pub fn jitter(mut self, jitter: f32) -> Self {
        self.jitter = jitter;
        self
    }

    /// The eviction policy. Default: [`Policy::Ctd`].
    pub fn policy(mut self, policy: Policy) -> Self {
        self.policy = policy;
        self
    }

    /// Which entries may be evicted. Default: [`Evictable::All`].
    pub fn evictable(mut self, evictable: Evictable) -> Self {
        self.evictable = evictable;
        self
    }

    /// The number of shards, rounded up to a power of two: 1 to 65,536. Default: eight per hardware thread, with 256 to
    /// 16,384 [expected entries](Builder::expected_entries) each. In a cache bounded by weight without that number: with
    /// 16,384 to 4,194,304 of the capacity each. More than 2^30 entries, or a capacity by weight above 2^44, count as no
    /// bound: there are as many shards as for 2^22 entries, or for a capacity of 2^30. An insertion into a full cache may
    /// visit all shards, so many more shards than the default make it slow.
    pub fn shards(mut self, shards: usize) -> Self {
        self.shards = Some(shards);
        self
    }

    /// The time source. Default: [`Clock::monotonic`].
    pub fn clock(mut self, clock: Clock) -> Self {
        self.clock = clock;
        self
    }

    /// Called for each removed entry, on the thread that removed it, after the locks are released, also if the operation
    /// panics. It may call the cache. A panic in it reaches the caller of the operation, after it was called for all
    /// entries that were removed so far: up to about 128 in [`Cache::clear`] and similar operations.
    pub fn listener(mut self, listener: impl Fn(&K, &V, Cause) + Send + Sync + 'static) -> Self {
        self.listener = Some(Arc::new(listener));
        self
    }

    /// Called for each entry that expires or is evicted, just before it is removed, while its shard is locked. So the calls
    /// for one key are in the order of its removals. The listener must be short, and must not call the cache. If it panics,
    /// the entry stays. Default: none.
    pub fn loss_listener(mut self, listener: impl Fn(&K, Cause) + Send + Sync + 'static) -> Self {
        self.loss_listener = Some(LossListener::new(listener));
        self
    }

    /// Counts the entries of `count` partitions of the keys: see [`Cache::partition_stats`]. `partition` returns the
    /// partition of a key, below `count`; it runs under the locks and must be short. If it panics, or returns another number,
    /// the insertion panics and stores nothing; if it panics at a removal, the entry stays. Cost: two calls of it per entry
    /// stored and one per entry removed; none per hit; in each shard 16 to 32 bytes for each partition up to the highest that
    /// ever had an entry there. Default: not counted.
    pub fn partitions(mut self, count: usize, partition: fn(&K) -> usize) -> Self {
        self.partitions = Some((count, partition));
        self
    }

    /// Builds the cache.
    ///
    /// # Errors
    /// A [`BuildError`] that names the option, its value and its range.
    pub fn build(self) -> Result<Cache<K, V>, BuildError> {
        Ok(Cache::new(self.settings()?, Hasher::new()))
    }

    /// As [`Builder::build`]; caches with the same hasher make the same decisions.
    #[cfg(test)]
    pub(crate) fn build_with_hasher(self, hasher: Hasher) -> Result<Cache<K, V>, BuildError> {
        Ok(Cache::new(self.settings()?, hasher))
    }

    fn settings(self) -> Result<Settings<K, V>, BuildError> {
        let capacity = self.capacity.ok_or(BuildError::NoCapacity)?;
        let by_weight = self.weigher.is_some();
        in_range(if by_weight { "weight" } else { "entries" }, capacity, 1, MAX_CAPACITY, "")?;
        for (name, time) in [("ttl", self.ttl), ("tti", self.tti)] {
            if let Some(time) = time {
                in_range(name, whole_ms(time), 1, whole_ms(MAX_TTL), "ms")?;
            }
        }
        if !(self.max_share > 0.0 && self.max_share <= 1.0) {
            return Err(BuildError::Share(self.max_share));
        }
        if !(0.0..=1.0).contains(&self.jitter) {
            return Err(BuildError::Jitter(self.jitter));
        }
        if let Some((partitions, _)) = self.partitions {
            in_range("partitions", partitions as u64, 1, u32::MAX.into(), "")?;
        }
        if let Some(shards) = self.shards {
            in_range("shards", shards as u64, 1, MAX_SHARDS as u64, "")?;
        }
        if let Some(entries) = self.expected_entries {
            in_range("expected_entries", entries, 1, MAX_CAPACITY, "")?;
        }
        let known = self.expected_entries.or((!by_weight).then_some(capacity));
        let known = known.map(|entries| planned(entries, MAX_PLANNED_ENTRIES, UNBOUNDED_ENTRIES));
        let planned_weight = planned(capacity, MAX_PLANNED_WEIGHT, UNBOUNDED_WEIGHT);
        let shards = self.shards.unwrap_or_else(|| match known {
            Some(entries) => default_shards(entries, entries / MIN_SHARD_ENTRIES),
            None => {
                default_shards(planned_weight / ASSUMED_MIN_WEIGHT, planned_weight / ASSUMED_SHARD_WEIGHT)
            }
        });
        let expected = known.unwrap_or(planned_weight / ASSUMED_WEIGHT);
        Ok(Settings {
            capacity,
            max_share: self.max_share,
            ttl_ms: self.ttl.map(whole_ms),
            tti_ms: self.tti.map(whole_ms),
            jitter: self.jitter,
            policy: self.policy,
            evictable: self.evictable,
            shards: shards.next_power_of_two(),
            expected,
            clock: self.clock,
            weigher: self.weigher,
            listener: self.listener,
            loss_listener: self.loss_listener,
            partitions: self.partitions,
        })
    }
}

/// A number for which shards are made: another one, if it stands for no bound.
fn planned(number: u64, most: u64, unbounded: u64) -> u64 {
    if number > most { unbounded } else { number }
}

/// The number of shards for a cache of at most this many entries: enough for the threads, and at most `most`.
fn default_shards(most_entries: u64, most: u64) -> usize {
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let wanted = (threads * SHARDS_PER_THREAD).max((most_entries / MAX_SHARD_ENTRIES) as usize);
    let most = most.max(1) as usize;
    let shards = wanted.next_power_of_two().min(MAX_SHARDS);
    if shards <= most { shards } else { 1 << most.ilog2() }
}

/// A unit as it stands after a number.
fn after_number(unit: &str) -> String {
    if unit.is_empty() { String::new() } else { format!(" {unit}") }
}

fn in_range(
    option: &'static str,
    value: u64,
    least: u64,
    most: u64,
    unit: &'static str,
) -> Result<(), BuildError> {
    if (least..=most).contains(&value) {
        Ok(())
    } else {
        Err(BuildError::Range { option, value, least, most, unit })
    }
}

impl<K, V> std::fmt::Debug for Builder<K, V> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Builder")
            .field("capacity", &self.capacity)
            .field("policy", &self.policy)
            .finish_non_exhaustive()
    }
}

/// The reason why a cache could not be built.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum BuildError {
    /// Neither `entries` nor `weight` was called.
    NoCapacity,
    /// A number lies outside its range.
    Range {
        /// The name of the option.
        option: &'static str,
        /// What it was set to.
        value: u64,
        /// The smallest value allowed.
        least: u64,
        /// The largest value allowed.
        most: u64,
        /// The unit of the numbers: `ms` for times, otherwise empty.
        unit: &'static str,
    },
    /// `max_share` lies outside its range.
    Share(f64),
    /// `jitter` lies outside its range.
    Jitter(f32),
}

impl std::fmt::Display for BuildError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            BuildError::NoCapacity => f.write_str("a cache needs a capacity: call entries() or weight()"),
            BuildError::Range { option, value, least, most, unit } => {
                let unit = after_number(unit);
                write!(f, "{option} is {value}{unit}; it must be from {least} to {most}{unit}")
            }
            BuildError::Share(share) => {
                write!(f, "max_share is {share}; it must be above 0 and at most 1")
            }
            BuildError::Jitter(jitter) => write!(f, "jitter is {jitter}; it must be from 0 to 1"),
        }
    }
}

impl std::error::Error for BuildError {}

//! The types of the API: views of entries, times to live, and outcomes of operations.

use crate::time::clock::Clock;
use std::error::Error;
use std::fmt;
use std::time::Duration;

/// The time to live of an entry, given when it is stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Ttl {
    /// The time to live of the cache.
    #[default]
    Default,
    /// Until it is evicted or invalidated.
    Never,
    /// This long from now; part of a millisecond counts as a whole one, and more than [`crate::MAX_TTL`] is
    /// [`Ttl::Never`]. An entry with zero is stored and cannot be read.
    After(Duration),
    /// Until this moment, in milliseconds on the cache's own clock ([`crate::Cache::now_ms`]).
    At(u64),
    /// The deadline of the replaced entry; [`Ttl::Default`] if no entry is replaced.
    Keep,
}

/// The outcome of [`crate::Cache::insert`].
#[derive(Debug, PartialEq, Eq)]
pub enum Inserted<V> {
    /// The key had no live entry.
    New,
    /// The key had this value.
    Replaced(V),
    /// Nothing was stored, and the former entry of the key was removed: a cache must not serve a value that its owner tried
    /// to replace. If not all entries [may be evicted](crate::Evictable), the former entry stays.
    Refused {
        /// The value that was offered.
        value: V,
        /// Why it was not stored.
        reason: Refusal,
    },
}

impl<V> Inserted<V> {
    /// The value that was replaced, if any.
    pub fn replaced(self) -> Option<V> {
        match self {
            Inserted::Replaced(value) => Some(value),
            _ => None,
        }
    }

    /// Whether the value was refused.
    pub fn is_refused(&self) -> bool {
        matches!(self, Inserted::Refused { .. })
    }
}

/// The reason why an entry was not stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Refusal {
    /// The entry is heavier than [`crate::Builder::max_share`] allows.
    TooHeavy {
        /// The weight of the entry, in the cache's unit.
        weight: u64,
        /// The heaviest entry that the cache accepts.
        limit: u64,
    },
    /// No entry is left that [may be evicted](crate::Evictable). The write has evicted all others, and they weighed too
    /// little. Under [`Evictable::All`](crate::Evictable::All) the reason is one of these: the capacity was lowered below
    /// the weight of the entry meanwhile; or for about a second closures that do not end have locked all shards that could
    /// make room.
    NoRoom,
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Refusal::TooHeavy { weight, limit } => {
                write!(f, "weight {weight} is above the limit of {limit} for one entry")
            }
            Refusal::NoRoom => f.write_str("no room could be made"),
        }
    }
}

impl Error for Refusal {}

/// The five causes of removal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Cause {
    /// Its time to live or time to idle was over.
    Expired,
    /// It made room for another entry.
    Evicted,
    /// Its key was removed.
    Invalidated,
    /// It was removed among many: by `clear`, `retain` or `drain`.
    Purged,
    /// Its key got another value.
    Replaced,
}

impl Cause {
    /// Whether the cache itself has removed the entry.
    pub(crate) fn is_loss(self) -> bool {
        matches!(self, Cause::Expired | Cause::Evicted)
    }
}

/// An entry as a closure sees it while its shard is locked.
#[derive(Debug)]
pub struct EntryRef<'a, K, V> {
    pub(crate) key: &'a K,
    pub(crate) value: &'a V,
    pub(crate) weight: u64,
    pub(crate) deadline: Option<u64>,
    pub(crate) hits: u8,
    pub(crate) clock: &'a Clock,
}

impl<'a, K, V> EntryRef<'a, K, V> {
    /// The key.
    pub fn key(&self) -> &'a K {
        self.key
    }

    /// The value.
    pub fn value(&self) -> &'a V {
        self.value
    }

    /// The weight that was charged when the entry was stored.
    pub fn weight(&self) -> u64 {
        self.weight
    }

    /// The hits that the policy has counted since it last looked at the entry, 0 to 3: what is used most has most of them.
    /// Always 0 with a [`Policy`](crate::Policy) that does not count hits.
    pub fn hits(&self) -> u8 {
        self.hits
    }

    /// The end of its time to live, in milliseconds on the cache's clock; `None` if it has none. It may expire before, by
    /// the [time to idle](crate::Builder::tti).
    pub fn deadline_ms(&self) -> Option<u64> {
        self.deadline
    }

    /// The time until [`EntryRef::deadline_ms`].
    pub fn expires_in(&self) -> Option<Duration> {
        self.deadline.map(|at| Duration::from_millis(at.saturating_sub(self.clock.now_ms())))
    }
}

/// The effect of [`crate::Cache::compute`] on the entry after its closure returned.
#[derive(Debug)]
#[non_exhaustive]
pub enum Op<V> {
    /// Keep it as it is.
    Keep,
    /// Store this value.
    Put(V, Ttl),
    /// Change the deadline only.
    SetTtl(Ttl),
    /// Remove it.
    Remove,
}

/// The result of [`crate::Cache::compute`].
#[derive(Debug)]
pub struct Computed<R> {
    /// The second value that the closure returned.
    pub result: R,
    /// The reason why the value of [`Op::Put`] was not stored; `None` if it was. For the former entry see
    /// [`Inserted::Refused`].
    pub refused: Option<Refusal>,
}

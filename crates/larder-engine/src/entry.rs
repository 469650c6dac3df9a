//! The words of the API: what an entry shows of itself, how it is told to live, and what became of it.

use crate::clock::Clock;
use std::time::Duration;

/// How long an entry lives, given when it is stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Ttl {
    /// What the cache was built with.
    #[default]
    Default,
    /// Until it is evicted or invalidated.
    Never,
    /// This long from now. Zero is already over: such an entry is stored and cannot be read.
    After(Duration),
    /// Until this moment, in milliseconds on the cache's own clock ([`crate::Cache::now_ms`]).
    At(u64),
    /// The deadline of the entry that is replaced; [`Ttl::Default`] if there is none.
    Keep,
}

/// What [`crate::Cache::insert`] did.
#[derive(Debug, PartialEq, Eq)]
pub enum Inserted<V> {
    /// The key had no live entry.
    New,
    /// The key had this value.
    Replaced(V),
    /// Nothing was stored, and a former entry of the key is gone: a cache must not go on serving what its owner
    /// tried to replace.
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

/// Why an entry was not stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// The entry is heavier than the share of the capacity that one entry may take.
    #[error("weight {weight} is above the limit of {limit} for one entry")]
    TooHeavy {
        /// The weight of the entry, in the cache's unit.
        weight: u64,
        /// The heaviest entry that the cache accepts.
        limit: u64,
    },
    /// The rest of the cache was locked by others, again and again, while room was looked for.
    #[error("no room could be made while the rest of the cache was busy")]
    NoRoom,
}

/// The five ways in which an entry leaves a cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Cause {
    /// Its time was over.
    Expired,
    /// Room was needed.
    Evicted,
    /// Somebody asked for this key to go.
    Invalidated,
    /// Somebody asked for many keys to go: `clear`, `retain`, `drain`.
    Purged,
    /// Another value took its place.
    Replaced,
}

/// An entry as a closure sees it while its shard is locked.
#[derive(Debug)]
pub struct EntryRef<'a, K, V> {
    pub(crate) key: &'a K,
    pub(crate) value: &'a V,
    pub(crate) weight: u64,
    pub(crate) deadline: Option<u64>,
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

    /// When the entry expires, in milliseconds on the cache's clock; `None` if it does not.
    pub fn deadline_ms(&self) -> Option<u64> {
        self.deadline
    }

    /// How long the entry still lives; `None` if it does not expire.
    pub fn expires_in(&self) -> Option<Duration> {
        self.deadline.map(|at| Duration::from_millis(at.saturating_sub(self.clock.now_ms())))
    }
}

/// What the closure of [`crate::Cache::compute`] wants done with the entry.
#[derive(Debug)]
pub enum Op<V> {
    /// Leave it as it is.
    Keep,
    /// Store this value.
    Put(V, Ttl),
    /// Change the deadline only.
    SetTtl(Ttl),
    /// Remove it.
    Remove,
}

/// What [`crate::Cache::compute`] returns.
#[derive(Debug)]
pub struct Computed<R> {
    /// What the closure returned beside its [`Op`].
    pub result: R,
    /// Why the value of [`Op::Put`] was not stored, if it was not; the former entry is gone then.
    pub refused: Option<Refusal>,
}

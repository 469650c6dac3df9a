//! A value and where it came from.

use super::entry::{EntryState, MemoryEntry};
use larder_engine::Clock;
use std::marker::PhantomData;
use std::ops::Deref;
use std::sync::Arc;
use std::time::Duration;

/// The origin of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Source {
    /// The memory of this process.
    Memory,
    /// Redis.
    Redis,
    /// The loader.
    Loader,
    /// A tier, past its TTL and within its grace period: the load failed or was slow.
    Stale,
}

/// A value and where it came from. Derefs to the value.
pub struct Fetched<V> {
    entry: MemoryEntry,
    source: Source,
    coalesced: bool,
    clock: Clock,
    _value: PhantomData<fn() -> V>,
}

impl<V: Send + Sync + 'static> Fetched<V> {
    /// `None` if the entry is of another type.
    #[inline]
    pub(crate) fn new(entry: MemoryEntry, source: Source, coalesced: bool, clock: Clock) -> Option<Self> {
        entry.value::<V>()?;
        Some(Fetched { entry, source, coalesced, clock, _value: PhantomData })
    }

    fn value(&self) -> &Arc<V> {
        self.entry.value::<V>().expect("the type was checked")
    }

    /// The value, which the cache shares.
    pub fn into_arc(self) -> Arc<V> {
        self.value().clone()
    }
}

impl<V> Fetched<V> {
    /// The origin of the value. For a coalesced fetch it is memory, unless the fetch serves stale.
    pub fn source(&self) -> Source {
        self.source
    }

    /// Whether another caller's load returned the value.
    pub fn coalesced(&self) -> bool {
        self.coalesced
    }

    /// The time since the value was stored, as far as this process and Redis know. Redis stores the end of a value and not
    /// its beginning: on a node that finds it there after a touch, by [a read](crate::View::touch_on_read) or [a
    /// call](crate::View::touch), the age counts from that touch.
    pub fn age(&self) -> Duration {
        let state = self.entry.state();
        state.initial_age.saturating_add(self.clock.now().saturating_sub(state.stored_at))
    }

    /// The remaining TTL, as far as this process and Redis know; zero if the value is stale. A value that was not stored,
    /// for example with `no_store`, has the time for which it would have been fresh.
    pub fn remaining_ttl(&self) -> Duration {
        match self.source {
            Source::Stale => Duration::ZERO,
            _ => self.entry.state().remaining_ttl(self.clock.now()),
        }
    }

    pub(crate) fn entry(&self) -> &MemoryEntry {
        &self.entry
    }

    pub(crate) fn state(&self) -> &EntryState {
        self.entry.state()
    }

    /// The tags of the value.
    pub fn tags(&self) -> impl Iterator<Item = &str> {
        self.entry.state().tags.iter().map(|tag| &**tag)
    }
}

impl<V: Send + Sync + 'static> Deref for Fetched<V> {
    type Target = V;

    fn deref(&self) -> &V {
        self.value()
    }
}

impl<V> Clone for Fetched<V> {
    fn clone(&self) -> Self {
        Fetched { entry: self.entry.clone(), clock: self.clock.clone(), _value: PhantomData, ..*self }
    }
}

impl<V: std::fmt::Debug + Send + Sync + 'static> std::fmt::Debug for Fetched<V> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Fetched")
            .field("value", self.value())
            .field("source", &self.source)
            .finish_non_exhaustive()
    }
}

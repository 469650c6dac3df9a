//! How a connection tracks keys: which of its reads are registered, and the prefixes that it has asked for.

use std::collections::BTreeSet;
use std::ops::Bound;
use std::sync::Arc;

use crate::observers::{Observers, Tracker};

/// Which reads are registered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Mode {
    /// All.
    Default,
    /// Those after `CLIENT CACHING YES`.
    OptIn,
    /// Those not after `CLIENT CACHING NO`.
    OptOut,
    /// None: messages concern all keys with the prefixes.
    Broadcast,
}

/// How a connection tracks keys. Dropping this ends it.
pub(crate) struct Tracking {
    pub(super) observers: Arc<Observers>,
    pub(super) tracker: Arc<Tracker>,
    pub(super) mode: Mode,
    pub(super) prefixes: Prefixes,
    /// What `CLIENT CACHING` has asked for the next command or transaction.
    pub(super) caching: Option<bool>,
}

impl Tracking {
    /// Whether it tracks prefixes and not the keys that the connection reads.
    pub(crate) fn is_broadcast(&self) -> bool {
        self.mode == Mode::Broadcast
    }

    /// Registers the connection for changes of a key that it has read. The key is locked.
    pub(crate) fn register(&self, name: &[u8]) {
        let is_wanted = match self.mode {
            Mode::Default => true,
            Mode::OptIn => self.caching == Some(true),
            Mode::OptOut => self.caching != Some(false),
            Mode::Broadcast => false,
        };
        if is_wanted {
            self.observers.tracking.register(name, &self.tracker);
        }
    }

    /// Ends the effect of `CLIENT CACHING`.
    pub(crate) fn end_caching(&mut self) {
        self.caching = None;
    }

    pub(crate) fn tracker(&self) -> &Arc<Tracker> {
        &self.tracker
    }

    /// The id of the connection that gets the messages.
    pub(crate) fn redirect(&self) -> Option<u64> {
        self.tracker.options().redirect.map(|client| client.id)
    }

    /// The memory that the prefixes need, in bytes.
    pub(crate) fn bytes(&self) -> usize {
        self.prefixes.bytes
    }
}

impl Drop for Tracking {
    fn drop(&mut self) {
        self.observers.tracking.remove(&self.tracker, &self.prefixes.names);
        self.observers.update_tracking();
    }
}

/// The prefixes of a connection. None begins with another one, except that the empty one may join any.
#[derive(Debug, Default)]
pub(super) struct Prefixes {
    pub(super) names: BTreeSet<Box<[u8]>>,
    /// The memory that they need here and in the table, about.
    bytes: usize,
}

impl Prefixes {
    pub(super) fn insert(&mut self, prefix: &[u8]) {
        if self.names.insert(prefix.into()) {
            self.bytes += 2 * prefix.len() + 64;
        }
    }

    /// The first prefix that overlaps with this one.
    pub(super) fn overlapping(&self, prefix: &[u8]) -> Option<&[u8]> {
        let up_to = (Bound::Unbounded, Bound::Included(prefix));
        let behind = (Bound::Excluded(prefix), Bound::Unbounded);
        // Names that begin with the same prefix are neighbours.
        let neighbours = [
            self.names.first(),
            self.names.range::<[u8], _>(up_to).next_back(),
            self.names.range::<[u8], _>(behind).next(),
        ];
        neighbours.into_iter().flatten().map(|known| &**known).find(|known| overlap(known, prefix))
    }
}

/// Whether one begins with the other.
pub(super) fn overlap(one: &[u8], other: &[u8]) -> bool {
    one.starts_with(other) || other.starts_with(one)
}

/// The index of the first of these prefixes that overlaps with another one.
pub(super) fn first_overlapping(prefixes: &[&[u8]]) -> Option<usize> {
    let mut order: Vec<usize> = (0..prefixes.len()).collect();
    order.sort_unstable_by_key(|index| prefixes[*index]);
    let (mut first, mut shortest) = (None, None);
    for index in order {
        // In this order the names that begin with a prefix are directly behind it.
        match shortest.filter(|shortest: &usize| prefixes[index].starts_with(prefixes[*shortest])) {
            Some(shortest) => first = first.into_iter().chain([shortest, index]).min(),
            None => shortest = Some(index),
        }
    }
    first
}

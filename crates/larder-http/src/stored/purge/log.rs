//! The log of purges: the last ones, by what they name, in bounded memory. It decides where the cells cannot.

use std::collections::{HashMap, VecDeque};
use std::mem;

use crate::key;
use crate::stored::journal::PurgeKey;
#[cfg(feature = "disk")]
use crate::stored::journal::{Purge, PurgeHistory};
use crate::stored::purge::PurgeKind;

/// Purges by prefix that the log keeps.
pub(super) const MAX_PREFIXES: usize = 64;
/// Soft purges of one key that the log keeps beside the last one.
const MAX_EARLIER: usize = 16;

/// The last purges.
#[derive(Debug)]
pub(super) struct Log {
    max_logged_keys: usize,
    /// The number of the last hard purge of each key.
    keys: HashMap<PurgeKey, u64>,
    /// The soft purges of each key.
    soft_keys: HashMap<PurgeKey, SoftPurges>,
    /// The same purges, oldest first. A key that was purged twice is listed twice.
    order: VecDeque<(PurgeKey, u64)>,
    /// The last hard purge by tag or URI that was dropped from the log.
    last_dropped_key: u64,
    /// The last soft one.
    last_dropped_soft_key: u64,
    prefixes: VecDeque<Prefix>,
    /// The last hard purge of all, or the last purge by prefix that was dropped from the log, whichever is later.
    last_dropped_prefix: u64,
    /// The soft purges of all.
    soft_of_all: SoftPurges,
}

/// One soft purge.
#[derive(Clone, Copy, Debug, Default)]
struct SoftPurge {
    number: u64,
    at_ms: u64,
}

/// The soft purges of one key, or of all. By default there were none.
#[derive(Debug, Default)]
struct SoftPurges {
    last: SoftPurge,
    /// Those before it. A response that nobody has asked for since is stale since the first one that covers it.
    earlier: Option<Box<EarlierPurges>>,
}

#[derive(Debug, Default)]
struct EarlierPurges {
    /// The number of the last one that is not kept any more.
    dropped: u64,
    /// The oldest first.
    kept: VecDeque<SoftPurge>,
}

/// What the log says of a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Coverage {
    None,
    /// It is stale since then, in milliseconds.
    Soft(u64),
    Hard,
}

impl Coverage {
    /// The effect of both.
    pub(super) fn and(self, other: Coverage) -> Coverage {
        match (self, other) {
            (Coverage::Hard, _) | (_, Coverage::Hard) => Coverage::Hard,
            (Coverage::Soft(one), Coverage::Soft(other)) => Coverage::Soft(one.min(other)),
            (Coverage::Soft(at_ms), Coverage::None) | (Coverage::None, Coverage::Soft(at_ms)) => {
                Coverage::Soft(at_ms)
            }
            (Coverage::None, Coverage::None) => Coverage::None,
        }
    }
}

impl SoftPurges {
    fn add(&mut self, purge: SoftPurge) {
        let former = mem::replace(&mut self.last, purge);
        if former.number == 0 {
            return;
        }
        let earlier = self.earlier.get_or_insert_default();
        earlier.kept.push_back(former);
        if earlier.kept.len() > MAX_EARLIER
            && let Some(oldest) = earlier.kept.pop_front()
        {
            earlier.dropped = oldest.number;
        }
    }

    /// What they do to a response that was checked up to this number. One that is not kept may have been long ago.
    fn coverage(&self, checked_to: u64) -> Coverage {
        if self.last.number <= checked_to {
            return Coverage::None;
        }
        let Some(earlier) = &self.earlier else { return Coverage::Soft(self.last.at_ms) };
        if earlier.dropped > checked_to {
            return Coverage::Hard;
        }
        let first = earlier.kept.iter().find(|purge| purge.number > checked_to).unwrap_or(&self.last);
        Coverage::Soft(first.at_ms)
    }

    /// All that are known, in any order.
    #[cfg(feature = "shared")]
    fn times(&self) -> impl Iterator<Item = u64> {
        let earlier = self.earlier.iter().flat_map(|earlier| &earlier.kept);
        earlier.chain([&self.last]).filter(|purge| purge.number > 0).map(|purge| purge.at_ms)
    }
}

/// A purge by prefix.
#[derive(Debug)]
pub(super) struct Prefix {
    /// The number of the purge.
    pub(super) number: u64,
    pub(super) kind: PurgeKind,
    pub(super) origin: Box<[u8]>,
    pub(super) path: Box<[u8]>,
}

impl Log {
    /// A log of this length without purges. What is not known any more was purged up to these numbers.
    pub(super) fn new(max_logged_keys: usize, last_dropped_key: u64, last_dropped_prefix: u64) -> Log {
        Log {
            max_logged_keys,
            keys: HashMap::new(),
            soft_keys: HashMap::new(),
            order: VecDeque::new(),
            last_dropped_key,
            last_dropped_soft_key: 0,
            prefixes: VecDeque::new(),
            last_dropped_prefix,
            soft_of_all: SoftPurges::default(),
        }
    }

    pub(super) fn purge_all(&mut self, kind: PurgeKind, number: u64) {
        match kind {
            PurgeKind::Hard => {
                self.last_dropped_prefix = number;
                self.prefixes.clear();
            }
            PurgeKind::Soft { at_ms } => self.soft_of_all.add(SoftPurge { number, at_ms }),
        }
    }

    /// When one of these keys, or everything, was softly purged, if that is logged: the first time from `since_ms` on.
    #[cfg(feature = "shared")]
    pub(super) fn soft_purge_since(
        &self,
        keys: impl IntoIterator<Item = PurgeKey>,
        since_ms: u64,
    ) -> Option<u64> {
        let of_keys = keys.into_iter().filter_map(|key| self.soft_keys.get(&key));
        let times = of_keys.chain([&self.soft_of_all]).flat_map(SoftPurges::times);
        times.filter(|at_ms| *at_ms >= since_ms).min()
    }

    /// How many purges it has: in the order, by hard key, by soft key, by prefix.
    #[cfg(test)]
    pub(super) fn lengths(&self) -> [usize; 4] {
        [self.order.len(), self.keys.len(), self.soft_keys.len(), self.prefixes.len()]
    }

    /// All that it has, up to the purge before `number`.
    #[cfg(feature = "disk")]
    pub(super) fn history(&self, number: u64) -> PurgeHistory {
        let is_current = |key: &PurgeKey, number: u64| {
            self.keys.get(key) == Some(&number)
                || self.soft_keys.get(key).is_some_and(|soft| soft.last.number == number)
        };
        let current = self.order.iter().filter(|(key, number)| is_current(key, *number));
        let keys = current.map(|(key, number)| (*number, Purge::Key(*key)));
        let prefixes = self.prefixes.iter().map(|Prefix { number, origin, path, .. }| {
            (*number, Purge::Prefix { origin: origin.clone(), path: path.clone() })
        });
        PurgeHistory {
            number: number - 1,
            last_dropped_key: self.last_dropped_key.max(self.last_dropped_soft_key),
            last_dropped_prefix: self.last_dropped_prefix.max(self.soft_of_all.last.number),
            purges: keys.chain(prefixes).collect(),
        }
    }

    pub(super) fn purge_by_key(&mut self, purge_key: PurgeKey, kind: PurgeKind, number: u64) {
        match kind {
            PurgeKind::Hard => _ = self.keys.insert(purge_key, number),
            PurgeKind::Soft { at_ms } => {
                self.soft_keys.entry(purge_key).or_default().add(SoftPurge { number, at_ms });
            }
        }
        self.order.push_back((purge_key, number));
        while self.order.len() > self.max_logged_keys
            && let Some((oldest, number)) = self.order.pop_front()
        {
            // If the key was purged again, the maps have the number of the later purge.
            if self.keys.get(&oldest) == Some(&number) {
                self.keys.remove(&oldest);
                self.last_dropped_key = number;
            } else if self.soft_keys.get(&oldest).is_some_and(|soft| soft.last.number == number) {
                self.soft_keys.remove(&oldest);
                self.last_dropped_soft_key = number;
            }
        }
    }

    /// Purges by prefix.
    pub(super) fn purge_prefix(&mut self, prefix: Prefix) {
        self.prefixes.push_back(prefix);
        if self.prefixes.len() > MAX_PREFIXES
            && let Some(oldest) = self.prefixes.pop_front()
        {
            self.last_dropped_prefix = oldest.number;
        }
    }

    /// Whether the key was purged after `checked_to`. A purge that was dropped from the log may have been any.
    pub(super) fn coverage_of_key(&self, purge_key: PurgeKey, checked_to: u64) -> Coverage {
        if *self.keys.get(&purge_key).unwrap_or(&self.last_dropped_key) > checked_to {
            return Coverage::Hard;
        }
        match self.soft_keys.get(&purge_key) {
            Some(soft) => soft.coverage(checked_to),
            None if self.last_dropped_soft_key > checked_to => Coverage::Hard,
            None => Coverage::None,
        }
    }

    pub(super) fn coverage_of_resource(&self, resource: &[u8], checked_to: u64) -> Coverage {
        if self.last_dropped_prefix > checked_to {
            return Coverage::Hard;
        }
        let recent = self.prefixes.iter().rev().take_while(|prefix| prefix.number > checked_to);
        recent
            .filter(|prefix| key::has_prefix(resource, &prefix.origin, &prefix.path))
            .map(|prefix| match prefix.kind {
                PurgeKind::Hard => Coverage::Hard,
                PurgeKind::Soft { at_ms } => Coverage::Soft(at_ms),
            })
            .fold(self.soft_of_all.coverage(checked_to), Coverage::and)
    }
}

//! Purges by sequence number. A purge does not search the store: it advances a number, and entries with an older stamp
//! are invalid at their next lookup. The same comparison invalidates running fills: they take their stamp before the
//! handler starts.
//!
//! The sequence number counts purges. The stamp of an entry is the sequence number at the start of its fill. A purge of
//! a tag or URI is recorded in two structures:
//!
//! ```text
//! cells   65,536 numbers. A purge sets two of them, chosen by hash, to its sequence number. A tag was not purged if
//!         one of its cells is not above the stamp. This takes two loads and no lock, and decides nearly every check.
//! log     the last 262,144 purges by tag and URI. It is read only if both cells are above the stamp: the tag was
//!         purged, or other purges have set the same cells. If the log shows no purge, the stamp is advanced.
//! ```
//!
//! A purge that is dropped from the log invalidates every entry whose stamp was not advanced past it. The same is true
//! for prefixes, of which the log keeps the last 64. This can cause an unnecessary miss, but never serves a purged
//! response. Memory: 512 KiB, and up to 15 MiB for the log once it is full.

use std::collections::hash_map::RandomState;
use std::collections::{HashMap, VecDeque};
use std::hash::BuildHasher;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use twox_hash::XxHash3_64;

use crate::key;

/// Cells of the table, eight bytes each.
const CELL_COUNT: usize = 1 << 16;
/// Purges by tag and URI that the log keeps.
const MAX_LOGGED_KEYS: usize = 1 << 18;
/// Purges by prefix that the log keeps.
const MAX_PREFIXES: usize = 64;

/// The stamp of a valid entry is advanced if it is this many purges old: far fewer than the log keeps.
const RESTAMP_AFTER_PURGES: u64 = 1024;

/// The hash of a tag or of a key.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct PurgeKey(u64);

/// The purges that a response was checked against, as sequence numbers.
#[derive(Debug, Default)]
pub(crate) struct PurgeStamp {
    uri: PurgeKey,
    /// No purge of all, of the URI or by prefix with this number or a lower one covers the response.
    resource_checked: AtomicU64,
    /// No purge by tag with this number or a lower one covers the response.
    tags_checked: AtomicU64,
}

impl PurgeStamp {
    /// A copy, for a second entry of the same fill.
    pub(crate) fn copy(&self) -> PurgeStamp {
        let copy = |checked: &AtomicU64| AtomicU64::new(checked.load(Ordering::Acquire));
        PurgeStamp {
            uri: self.uri,
            resource_checked: copy(&self.resource_checked),
            tags_checked: copy(&self.tags_checked),
        }
    }
}

/// All purges, in bounded memory.
#[derive(Debug)]
pub(crate) struct Purges {
    seed: u64,
    /// The number of the last purge. Advanced after the purge is in the log and in the cells: a thread that reads a
    /// number sees all purges up to it.
    sequence: AtomicU64,
    cells: Box<[AtomicU64]>,
    /// The last purge by prefix or of all: most checks read only this.
    last_broad: AtomicU64,
    log: Mutex<Log>,
}

#[derive(Debug)]
struct Log {
    max_logged_keys: usize,
    /// The number of the last purge of each key.
    keys: HashMap<PurgeKey, u64>,
    /// The same purges, oldest first. A key that was purged twice is listed twice.
    order: VecDeque<(PurgeKey, u64)>,
    /// The last purge by tag or URI that was dropped from the log.
    last_dropped_key: u64,
    prefixes: VecDeque<Prefix>,
    /// The last purge of all, or the last purge by prefix that was dropped from the log, whichever is later.
    last_dropped_prefix: u64,
}

#[derive(Debug)]
struct Prefix {
    /// The number of the purge.
    number: u64,
    origin: Box<[u8]>,
    path: Box<[u8]>,
}

impl Purges {
    pub(crate) fn new() -> Purges {
        Purges::with_log_capacity(MAX_LOGGED_KEYS)
    }

    fn with_log_capacity(max_logged_keys: usize) -> Purges {
        Purges {
            seed: RandomState::new().hash_one(0u8),
            sequence: AtomicU64::new(0),
            cells: (0..CELL_COUNT).map(|_| AtomicU64::new(0)).collect(),
            last_broad: AtomicU64::new(0),
            log: Mutex::new(Log {
                max_logged_keys,
                keys: HashMap::new(),
                order: VecDeque::new(),
                last_dropped_key: 0,
                prefixes: VecDeque::new(),
                last_dropped_prefix: 0,
            }),
        }
    }

    pub(crate) fn purge_key(&self, text: &[u8]) -> PurgeKey {
        PurgeKey(XxHash3_64::oneshot_with_seed(self.seed, text))
    }

    /// A stamp with the current sequence number. Take it before the handler starts: every purge that starts later
    /// covers the response.
    pub(crate) fn stamp(&self, uri: &[u8]) -> PurgeStamp {
        let number = self.sequence.load(Ordering::SeqCst);
        PurgeStamp {
            uri: self.purge_key(uri),
            resource_checked: AtomicU64::new(number),
            tags_checked: AtomicU64::new(number),
        }
    }

    /// Purges a tag or a URI.
    pub(crate) fn purge_by_key(&self, purge_key: PurgeKey) {
        self.record(|log, number| {
            log.purge_by_key(purge_key, number);
            for cell in self.cells_of(purge_key) {
                cell.store(number, Ordering::Release);
            }
        });
    }

    pub(crate) fn purge_all(&self) {
        self.record(|log, number| {
            log.last_dropped_prefix = number;
            log.prefixes.clear();
            self.last_broad.store(number, Ordering::Release);
        });
    }

    /// Purges the resources of an origin (see [`key::write_origin`]) whose path starts with `path`.
    pub(crate) fn purge_prefix(&self, origin: &[u8], path: &[u8]) {
        self.record(|log, number| {
            log.purge_prefix(Prefix { number, origin: origin.into(), path: path.into() });
            self.last_broad.store(number, Ordering::Release);
        });
    }

    /// Records one purge, then advances the sequence number. The lock orders concurrent purges.
    fn record(&self, purge: impl FnOnce(&mut Log, u64)) {
        let mut log = self.log();
        let number = self.sequence.load(Ordering::Relaxed) + 1;
        purge(&mut log, number);
        self.sequence.store(number, Ordering::SeqCst);
    }

    /// Whether no purge of the URI, by prefix or of all covers this response of `resource`.
    pub(crate) fn is_unpurged(&self, stamp: &PurgeStamp, resource: &[u8]) -> bool {
        self.check(
            &stamp.resource_checked,
            |checked_to| {
                self.last_broad.load(Ordering::Acquire) <= checked_to
                    && self.cells_show_no_purge(stamp.uri, checked_to)
            },
            |log, checked_to| {
                !log.covers_key(stamp.uri, checked_to) && !log.covers_resource(resource, checked_to)
            },
        )
    }

    /// Whether no purge of one of the tags covers this response.
    pub(crate) fn tags_are_unpurged(&self, stamp: &PurgeStamp, tags: &[PurgeKey]) -> bool {
        self.check(
            &stamp.tags_checked,
            |checked_to| tags.iter().all(|tag| self.cells_show_no_purge(*tag, checked_to)),
            |log, checked_to| !tags.iter().any(|tag| log.covers_key(*tag, checked_to)),
        )
    }

    /// Checks the cells, and the log only if the cells do not decide. Advances the stamp of a valid response; if the
    /// cells have decided, only once in many purges, because a write to the shared stamp costs more than a read.
    fn check(
        &self,
        checked: &AtomicU64,
        by_cells: impl FnOnce(u64) -> bool,
        by_log: impl FnOnce(&Log, u64) -> bool,
    ) -> bool {
        // Read before the cells, so that they contain every purge up to this number.
        let number = self.sequence.load(Ordering::Acquire);
        let checked_to = checked.load(Ordering::Acquire);
        if by_cells(checked_to) {
            if number.saturating_sub(checked_to) > RESTAMP_AFTER_PURGES {
                checked.fetch_max(number, Ordering::AcqRel);
            }
            return true;
        }
        let log = self.log();
        let is_valid = by_log(&log, checked_to);
        if is_valid {
            checked.fetch_max(self.sequence.load(Ordering::Acquire), Ordering::AcqRel);
        }
        is_valid
    }

    fn cells_show_no_purge(&self, purge_key: PurgeKey, checked_to: u64) -> bool {
        self.cells_of(purge_key).iter().any(|cell| cell.load(Ordering::Acquire) <= checked_to)
    }

    fn cells_of(&self, purge_key: PurgeKey) -> [&AtomicU64; 2] {
        [
            &self.cells[purge_key.0 as usize % CELL_COUNT],
            &self.cells[(purge_key.0 >> 32) as usize % CELL_COUNT],
        ]
    }

    fn log(&self) -> MutexGuard<'_, Log> {
        self.log.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Log {
    fn purge_by_key(&mut self, purge_key: PurgeKey, number: u64) {
        self.keys.insert(purge_key, number);
        self.order.push_back((purge_key, number));
        while self.order.len() > self.max_logged_keys
            && let Some((oldest, number)) = self.order.pop_front()
        {
            // If the key was purged again, the map has the number of the later purge.
            if self.keys.get(&oldest) == Some(&number) {
                self.keys.remove(&oldest);
                self.last_dropped_key = number;
            }
        }
    }

    fn purge_prefix(&mut self, prefix: Prefix) {
        self.prefixes.push_back(prefix);
        if self.prefixes.len() > MAX_PREFIXES
            && let Some(oldest) = self.prefixes.pop_front()
        {
            self.last_dropped_prefix = oldest.number;
        }
    }

    /// Whether the key was purged after `checked_to`, or may have been by a purge that was dropped from the log.
    fn covers_key(&self, purge_key: PurgeKey, checked_to: u64) -> bool {
        *self.keys.get(&purge_key).unwrap_or(&self.last_dropped_key) > checked_to
    }

    fn covers_resource(&self, resource: &[u8], checked_to: u64) -> bool {
        let recent = self.prefixes.iter().rev().take_while(|prefix| prefix.number > checked_to);
        self.last_dropped_prefix > checked_to
            || recent.into_iter().any(|prefix| key::has_prefix(resource, &prefix.origin, &prefix.path))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::key::KeySpace;

    fn resource(target: &str) -> Vec<u8> {
        let mut key = Vec::new();
        let uri = format!("http://h{target}").parse().unwrap();
        key::write_uri(&mut key, &uri, &Default::default(), &KeySpace::default()).unwrap();
        key
    }

    fn origin() -> Vec<u8> {
        let mut origin = Vec::new();
        key::write_origin(&mut origin, &KeySpace::default(), "http", "h").unwrap();
        origin
    }

    #[test]
    fn purge_of_tag_covers_earlier_stamps_only() {
        let purges = Purges::new();
        let (red, blue) = (purges.purge_key(b"red"), purges.purge_key(b"blue"));
        let before = purges.stamp(b"k");
        purges.purge_by_key(red);
        assert!(!purges.tags_are_unpurged(&before, &[blue, red]));
        assert!(purges.tags_are_unpurged(&before, &[blue]));
        assert!(purges.tags_are_unpurged(&purges.stamp(b"k"), &[red]));
    }

    #[test]
    fn purge_of_uri_covers_only_that_uri() {
        let purges = Purges::new();
        let (a, b) = (resource("/a"), resource("/b"));
        let (stamp_a, stamp_b) = (purges.stamp(&a), purges.stamp(&b));
        purges.purge_by_key(purges.purge_key(&a));
        assert!(!purges.is_unpurged(&stamp_a, &a));
        assert!(purges.is_unpurged(&stamp_b, &b));
    }

    #[test]
    fn purge_all_covers_every_earlier_stamp() {
        let purges = Purges::new();
        let a = resource("/a");
        let before = purges.stamp(&a);
        purges.purge_all();
        assert!(!purges.is_unpurged(&before, &a));
        assert!(purges.is_unpurged(&purges.stamp(&a), &a));
    }

    #[test]
    fn prefix_check_advances_stamp() {
        let purges = Purges::new();
        let (in_shop, outside) = (resource("/shop/1"), resource("/blog/1"));
        let (shop, blog) = (purges.stamp(&in_shop), purges.stamp(&outside));
        purges.purge_prefix(&origin(), b"/shop/");
        assert!(!purges.is_unpurged(&shop, &in_shop));
        assert!(purges.is_unpurged(&blog, &outside));
        assert_eq!(blog.resource_checked.load(Ordering::Relaxed), 1);
        assert!(purges.is_unpurged(&purges.stamp(&in_shop), &in_shop));
    }

    #[test]
    fn prefix_dropped_from_log_covers_unchecked_stamps() {
        let purges = Purges::new();
        let a = resource("/a");
        let (unchecked, checked) = (purges.stamp(&a), purges.stamp(&a));
        for n in 0..=MAX_PREFIXES {
            assert!(purges.is_unpurged(&checked, &a));
            purges.purge_prefix(&origin(), format!("/{n}/").as_bytes());
        }
        assert!(!purges.is_unpurged(&unchecked, &a));
        assert!(purges.is_unpurged(&checked, &a));
        assert_eq!(purges.log().prefixes.len(), MAX_PREFIXES);
    }

    #[test]
    fn purges_of_other_tags_never_cover_an_entry() {
        let purges = Purges::new();
        let stamped_tags: Vec<_> = (0..100)
            .map(|n| (purges.stamp(b"k"), purges.purge_key(format!("entry:{n}").as_bytes())))
            .collect();
        for n in 0..200_000 {
            purges.purge_by_key(purges.purge_key(format!("purged:{n}").as_bytes()));
        }
        for (stamp, tag) in &stamped_tags {
            assert!(purges.tags_are_unpurged(stamp, &[*tag]) && purges.is_unpurged(stamp, b"k"));
        }
        purges.purge_by_key(stamped_tags[7].1);
        let covered: Vec<_> = (0..100)
            .filter(|n| !purges.tags_are_unpurged(&stamped_tags[*n].0, &[stamped_tags[*n].1]))
            .collect();
        assert_eq!(covered, [7]);
    }

    #[test]
    fn purge_dropped_from_log_covers_unchecked_stamps() {
        let purges = Purges::with_log_capacity(4000);
        let tag = purges.purge_key(b"first");
        let (before, other) = (purges.stamp(b"k"), purges.stamp(b"k"));
        purges.purge_by_key(tag);
        for n in 0..200_000 {
            purges.purge_by_key(purges.purge_key(format!("{n}").as_bytes()));
            if n % 500 == 0 {
                assert!(purges.tags_are_unpurged(&other, &[purges.purge_key(b"other")]), "{n}");
            }
        }
        assert!(!purges.tags_are_unpurged(&before, &[tag]));
        let log = purges.log();
        assert_eq!((log.order.len(), log.keys.len()), (4000, 4000));
    }

    #[test]
    fn repeated_purge_of_one_tag_is_logged_once() {
        let purges = Purges::with_log_capacity(10);
        let (hot, cold) = (purges.purge_key(b"hot"), purges.purge_key(b"cold"));
        purges.purge_by_key(cold);
        let stamp = purges.stamp(b"k");
        (0..100).for_each(|_| purges.purge_by_key(hot));
        assert!(!purges.tags_are_unpurged(&stamp, &[hot]));
        assert!(purges.tags_are_unpurged(&stamp, &[cold]), "purged before the stamp was taken");
        assert_eq!(purges.log().keys.len(), 1);
    }
}

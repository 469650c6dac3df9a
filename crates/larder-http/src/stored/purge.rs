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
//!
//! A soft purge is found in the same way. The check that finds it marks the response as stale, and then advances its stamp, so
//! that the next check is as fast as if nothing had been purged.

use std::collections::hash_map::RandomState;
use std::collections::{HashMap, VecDeque};
use std::hash::BuildHasher;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use twox_hash::XxHash3_64;

use crate::key;
#[cfg(feature = "disk")]
use crate::stored::journal::PurgeJournal;
pub(crate) use crate::stored::journal::PurgeKey;
use crate::stored::journal::{Purge, PurgeHistory};

/// Cells of the table, eight bytes each.
const CELL_COUNT: usize = 1 << 16;
/// Purges by tag and URI that the log keeps.
const MAX_LOGGED_KEYS: usize = 1 << 18;
/// Purges by prefix that the log keeps.
const MAX_PREFIXES: usize = 64;

/// The stamp of a valid entry is advanced if it is this many purges old: far fewer than the log keeps.
const RESTAMP_AFTER_PURGES: u64 = 1024;

/// What a purge does to the responses that it covers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PurgeKind {
    /// They are never used again.
    Hard,
    /// They are stale from this moment on, in milliseconds of the store's clock.
    Soft { at_ms: u64 },
}

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
    /// What keeps the purges beyond this process, if anything does.
    #[cfg(feature = "disk")]
    journal: std::sync::OnceLock<std::sync::Arc<dyn PurgeJournal>>,
}

#[derive(Debug)]
struct Log {
    max_logged_keys: usize,
    /// The number of the last hard purge of each key.
    keys: HashMap<PurgeKey, u64>,
    /// The last soft purge of each key.
    soft_keys: HashMap<PurgeKey, SoftPurge>,
    /// The same purges, oldest first. A key that was purged twice is listed twice.
    order: VecDeque<(PurgeKey, u64)>,
    /// The last hard purge by tag or URI that was dropped from the log.
    last_dropped_key: u64,
    /// The last soft one.
    last_dropped_soft_key: u64,
    prefixes: VecDeque<Prefix>,
    /// The last hard purge of all, or the last purge by prefix that was dropped from the log, whichever is later.
    last_dropped_prefix: u64,
    /// The last soft purge of all.
    last_soft_of_all: SoftPurge,
}

/// A soft purge; by default one that covers nothing.
#[derive(Clone, Copy, Debug, Default)]
struct SoftPurge {
    number: u64,
    at_ms: u64,
}

/// What the log says of a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Coverage {
    None,
    /// It is stale since then, in milliseconds.
    Soft(u64),
    Hard,
}

impl Coverage {
    /// The effect of both.
    fn and(self, other: Coverage) -> Coverage {
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

impl SoftPurge {
    fn coverage(self, checked_to: u64) -> Coverage {
        if self.number > checked_to { Coverage::Soft(self.at_ms) } else { Coverage::None }
    }
}

#[derive(Debug)]
struct Prefix {
    /// The number of the purge.
    number: u64,
    kind: PurgeKind,
    origin: Box<[u8]>,
    path: Box<[u8]>,
}

impl Purges {
    pub(crate) fn new() -> Purges {
        Purges::restored(RandomState::new().hash_one(0u8), PurgeHistory::default())
    }

    /// The purges of a history, whose keys were made with this seed. The next purge has the number after its last one.
    pub(crate) fn restored(seed: u64, history: PurgeHistory) -> Purges {
        Purges::with_log_capacity(MAX_LOGGED_KEYS, seed, history)
    }

    fn with_log_capacity(max_logged_keys: usize, seed: u64, history: PurgeHistory) -> Purges {
        let PurgeHistory { number, last_dropped_key, last_dropped_prefix, purges } = history;
        let restored = Purges {
            seed,
            sequence: AtomicU64::new(number),
            // A key whose purge is not known any more has the cells of one that was purged last.
            cells: (0..CELL_COUNT).map(|_| AtomicU64::new(last_dropped_key)).collect(),
            last_broad: AtomicU64::new(last_dropped_prefix),
            log: Mutex::new(Log {
                max_logged_keys,
                keys: HashMap::new(),
                soft_keys: HashMap::new(),
                order: VecDeque::new(),
                last_dropped_key,
                last_dropped_soft_key: 0,
                prefixes: VecDeque::new(),
                last_dropped_prefix,
                last_soft_of_all: SoftPurge::default(),
            }),
            #[cfg(feature = "disk")]
            journal: std::sync::OnceLock::new(),
        };
        let mut log = restored.log();
        for (number, purge) in purges {
            restored.apply(&mut log, number, purge, PurgeKind::Hard);
            restored.sequence.fetch_max(number, Ordering::Relaxed);
        }
        drop(log);
        restored
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
    pub(crate) fn purge_by_key(&self, purge_key: PurgeKey, kind: PurgeKind) {
        self.record(Purge::Key(purge_key), kind);
    }

    pub(crate) fn purge_all(&self, kind: PurgeKind) {
        self.record(Purge::All, kind);
    }

    /// Purges the resources of an origin (see [`key::write_origin`]) whose path starts with `path`.
    pub(crate) fn purge_prefix(&self, origin: &[u8], path: &[u8], kind: PurgeKind) {
        self.record(Purge::Prefix { origin: origin.into(), path: path.into() }, kind);
    }

    /// Records one purge, then advances the sequence number. The lock orders concurrent purges. A journal has no kinds: what was
    /// purged before this process began is never used again.
    fn record(&self, purge: Purge, kind: PurgeKind) {
        let mut log = self.log();
        let number = self.sequence.load(Ordering::Relaxed) + 1;
        #[cfg(feature = "disk")]
        if let Some(journal) = self.journal.get()
            && journal.append(number, &purge)
        {
            journal.replace(&log.history(number));
            // The log does not have this purge yet.
            journal.append(number, &purge);
        }
        self.apply(&mut log, number, purge, kind);
        self.sequence.store(number, Ordering::SeqCst);
    }

    fn apply(&self, log: &mut Log, number: u64, purge: Purge, kind: PurgeKind) {
        match purge {
            Purge::Key(purge_key) => {
                log.purge_by_key(purge_key, kind, number);
                for cell in self.cells_of(purge_key) {
                    cell.store(number, Ordering::Release);
                }
            }
            Purge::Prefix { origin, path } => {
                log.purge_prefix(Prefix { number, kind, origin, path });
                self.last_broad.store(number, Ordering::Release);
            }
            Purge::All => {
                match kind {
                    PurgeKind::Hard => {
                        log.last_dropped_prefix = number;
                        log.prefixes.clear();
                    }
                    PurgeKind::Soft { at_ms } => log.last_soft_of_all = SoftPurge { number, at_ms },
                }
                self.last_broad.store(number, Ordering::Release);
            }
        }
    }

    /// Whether no hard purge of the URI, by prefix or of all covers this response of `resource`. `mark` is called with the
    /// time of a soft one.
    pub(crate) fn is_unpurged(&self, stamp: &PurgeStamp, resource: &[u8], mark: impl FnOnce(u64)) -> bool {
        self.check(
            &stamp.resource_checked,
            |checked_to| {
                self.last_broad.load(Ordering::Acquire) <= checked_to
                    && self.cells_show_no_purge(stamp.uri, checked_to)
            },
            |log, checked_to| {
                log.coverage_of_key(stamp.uri, checked_to).and(log.coverage_of_resource(resource, checked_to))
            },
            mark,
        )
    }

    /// Whether no hard purge of one of the tags covers this response. `mark` is called with the time of a soft one.
    pub(crate) fn tags_are_unpurged(
        &self,
        stamp: &PurgeStamp,
        tags: &[PurgeKey],
        mark: impl FnOnce(u64),
    ) -> bool {
        self.check(
            &stamp.tags_checked,
            |checked_to| tags.iter().all(|tag| self.cells_show_no_purge(*tag, checked_to)),
            |log, checked_to| {
                let coverages = tags.iter().map(|tag| log.coverage_of_key(*tag, checked_to));
                coverages.fold(Coverage::None, Coverage::and)
            },
            mark,
        )
    }

    /// Checks the cells, and the log only if the cells do not decide. Advances the stamp of a valid response; if the
    /// cells have decided, only once in many purges, because a write to the shared stamp costs more than a read.
    fn check(
        &self,
        checked: &AtomicU64,
        by_cells: impl FnOnce(u64) -> bool,
        by_log: impl FnOnce(&Log, u64) -> Coverage,
        mark: impl FnOnce(u64),
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
        match by_log(&log, checked_to) {
            Coverage::Hard => return false,
            // Before the stamp says that nothing is left to find.
            Coverage::Soft(at_ms) => mark(at_ms),
            Coverage::None => {}
        }
        checked.fetch_max(self.sequence.load(Ordering::Acquire), Ordering::AcqRel);
        true
    }

    /// When one of these keys, or everything, was softly purged, if that is logged: the first time from `since_ms` on.
    #[cfg(feature = "shared")]
    pub(crate) fn soft_purge_since(
        &self,
        keys: impl IntoIterator<Item = PurgeKey>,
        since_ms: u64,
    ) -> Option<u64> {
        let log = self.log();
        let of_keys = keys.into_iter().filter_map(|key| log.soft_keys.get(&key));
        let purges = of_keys.chain([&log.last_soft_of_all]).filter(|purge| purge.number > 0);
        purges.map(|purge| purge.at_ms).filter(|at_ms| *at_ms >= since_ms).min()
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

/// Purges that outlive the process.
#[cfg(feature = "disk")]
impl Purges {
    /// What the keys of tags and URIs are made with.
    pub(crate) fn seed(&self) -> u64 {
        self.seed
    }

    /// Keeps all further purges in a journal too. Without effect if there is one already.
    pub(crate) fn keep_in(&self, journal: std::sync::Arc<dyn PurgeJournal>) {
        _ = self.journal.set(journal);
    }

    /// Calls `f` with the number of the last purge. No purge takes effect meanwhile.
    pub(crate) fn between_purges<R>(&self, f: impl FnOnce(u64) -> R) -> R {
        let _ordered = self.log();
        f(self.sequence.load(Ordering::Relaxed))
    }

    /// A stamp that was kept, with the numbers that it had.
    pub(crate) fn restored_stamp(&self, uri: &[u8], numbers: StampNumbers) -> PurgeStamp {
        PurgeStamp {
            uri: self.purge_key(uri),
            resource_checked: AtomicU64::new(numbers.resource_checked),
            tags_checked: AtomicU64::new(numbers.tags_checked),
        }
    }
}

/// The numbers of a stamp at one moment.
#[cfg(feature = "disk")]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct StampNumbers {
    pub(crate) resource_checked: u64,
    pub(crate) tags_checked: u64,
}

#[cfg(feature = "disk")]
impl PurgeStamp {
    /// Its numbers now.
    pub(crate) fn numbers(&self) -> StampNumbers {
        StampNumbers {
            resource_checked: self.resource_checked.load(Ordering::Acquire),
            tags_checked: self.tags_checked.load(Ordering::Acquire),
        }
    }
}

impl Log {
    /// All that it has, up to the purge before `number`.
    #[cfg(feature = "disk")]
    fn history(&self, number: u64) -> PurgeHistory {
        let is_current = |key: &PurgeKey, number: u64| {
            self.keys.get(key) == Some(&number)
                || self.soft_keys.get(key).is_some_and(|soft| soft.number == number)
        };
        let current = self.order.iter().filter(|(key, number)| is_current(key, *number));
        let keys = current.map(|(key, number)| (*number, Purge::Key(*key)));
        let prefixes = self.prefixes.iter().map(|Prefix { number, origin, path, .. }| {
            (*number, Purge::Prefix { origin: origin.clone(), path: path.clone() })
        });
        PurgeHistory {
            number: number - 1,
            last_dropped_key: self.last_dropped_key.max(self.last_dropped_soft_key),
            last_dropped_prefix: self.last_dropped_prefix.max(self.last_soft_of_all.number),
            purges: keys.chain(prefixes).collect(),
        }
    }

    fn purge_by_key(&mut self, purge_key: PurgeKey, kind: PurgeKind, number: u64) {
        match kind {
            PurgeKind::Hard => _ = self.keys.insert(purge_key, number),
            PurgeKind::Soft { at_ms } => _ = self.soft_keys.insert(purge_key, SoftPurge { number, at_ms }),
        }
        self.order.push_back((purge_key, number));
        while self.order.len() > self.max_logged_keys
            && let Some((oldest, number)) = self.order.pop_front()
        {
            // If the key was purged again, the maps have the number of the later purge.
            if self.keys.get(&oldest) == Some(&number) {
                self.keys.remove(&oldest);
                self.last_dropped_key = number;
            } else if self.soft_keys.get(&oldest).is_some_and(|soft| soft.number == number) {
                self.soft_keys.remove(&oldest);
                self.last_dropped_soft_key = number;
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

    /// Whether the key was purged after `checked_to`. A purge that was dropped from the log may have been any.
    fn coverage_of_key(&self, purge_key: PurgeKey, checked_to: u64) -> Coverage {
        if *self.keys.get(&purge_key).unwrap_or(&self.last_dropped_key) > checked_to {
            return Coverage::Hard;
        }
        match self.soft_keys.get(&purge_key) {
            Some(soft) => soft.coverage(checked_to),
            None if self.last_dropped_soft_key > checked_to => Coverage::Hard,
            None => Coverage::None,
        }
    }

    fn coverage_of_resource(&self, resource: &[u8], checked_to: u64) -> Coverage {
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
            .fold(self.last_soft_of_all.coverage(checked_to), Coverage::and)
    }
}

#[cfg(test)]
mod tests {
    use super::PurgeKind::{Hard, Soft};
    use super::*;
    use crate::key::KeySpace;

    fn is_unpurged(purges: &Purges, stamp: &PurgeStamp, resource: &[u8]) -> bool {
        purges.is_unpurged(stamp, resource, |_| panic!("nothing was softly purged"))
    }

    fn tags_are_unpurged(purges: &Purges, stamp: &PurgeStamp, tags: &[PurgeKey]) -> bool {
        purges.tags_are_unpurged(stamp, tags, |_| panic!("nothing was softly purged"))
    }

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
        purges.purge_by_key(red, Hard);
        assert!(!tags_are_unpurged(&purges, &before, &[blue, red]));
        assert!(tags_are_unpurged(&purges, &before, &[blue]));
        assert!(tags_are_unpurged(&purges, &purges.stamp(b"k"), &[red]));
    }

    #[test]
    fn purge_of_uri_covers_only_that_uri() {
        let purges = Purges::new();
        let (a, b) = (resource("/a"), resource("/b"));
        let (stamp_a, stamp_b) = (purges.stamp(&a), purges.stamp(&b));
        purges.purge_by_key(purges.purge_key(&a), Hard);
        assert!(!is_unpurged(&purges, &stamp_a, &a));
        assert!(is_unpurged(&purges, &stamp_b, &b));
    }

    #[test]
    fn purge_all_covers_every_earlier_stamp() {
        let purges = Purges::new();
        let a = resource("/a");
        let before = purges.stamp(&a);
        purges.purge_all(Hard);
        assert!(!is_unpurged(&purges, &before, &a));
        assert!(is_unpurged(&purges, &purges.stamp(&a), &a));
    }

    #[test]
    fn prefix_check_advances_stamp() {
        let purges = Purges::new();
        let (in_shop, outside) = (resource("/shop/1"), resource("/blog/1"));
        let (shop, blog) = (purges.stamp(&in_shop), purges.stamp(&outside));
        purges.purge_prefix(&origin(), b"/shop/", Hard);
        assert!(!is_unpurged(&purges, &shop, &in_shop));
        assert!(is_unpurged(&purges, &blog, &outside));
        assert_eq!(blog.resource_checked.load(Ordering::Relaxed), 1);
        assert!(is_unpurged(&purges, &purges.stamp(&in_shop), &in_shop));
    }

    #[test]
    fn prefix_dropped_from_log_covers_unchecked_stamps() {
        let purges = Purges::new();
        let a = resource("/a");
        let (unchecked, checked) = (purges.stamp(&a), purges.stamp(&a));
        for n in 0..=MAX_PREFIXES {
            assert!(is_unpurged(&purges, &checked, &a));
            purges.purge_prefix(&origin(), format!("/{n}/").as_bytes(), Hard);
        }
        assert!(!is_unpurged(&purges, &unchecked, &a));
        assert!(is_unpurged(&purges, &checked, &a));
        assert_eq!(purges.log().prefixes.len(), MAX_PREFIXES);
    }

    #[test]
    fn purges_of_other_tags_never_cover_an_entry() {
        let purges = Purges::new();
        let stamped_tags: Vec<_> = (0..100)
            .map(|n| (purges.stamp(b"k"), purges.purge_key(format!("entry:{n}").as_bytes())))
            .collect();
        for n in 0..200_000 {
            purges.purge_by_key(purges.purge_key(format!("purged:{n}").as_bytes()), Hard);
        }
        for (stamp, tag) in &stamped_tags {
            assert!(tags_are_unpurged(&purges, stamp, &[*tag]) && is_unpurged(&purges, stamp, b"k"));
        }
        purges.purge_by_key(stamped_tags[7].1, Hard);
        let covered: Vec<_> = (0..100)
            .filter(|n| !tags_are_unpurged(&purges, &stamped_tags[*n].0, &[stamped_tags[*n].1]))
            .collect();
        assert_eq!(covered, [7]);
    }

    #[test]
    fn purge_dropped_from_log_covers_unchecked_stamps() {
        let purges = Purges::with_log_capacity(4000, 0, PurgeHistory::default());
        let tag = purges.purge_key(b"first");
        let (before, other) = (purges.stamp(b"k"), purges.stamp(b"k"));
        purges.purge_by_key(tag, Hard);
        for n in 0..200_000 {
            purges.purge_by_key(purges.purge_key(format!("{n}").as_bytes()), Hard);
            if n % 500 == 0 {
                assert!(tags_are_unpurged(&purges, &other, &[purges.purge_key(b"other")]), "{n}");
            }
        }
        assert!(!tags_are_unpurged(&purges, &before, &[tag]));
        let log = purges.log();
        assert_eq!((log.order.len(), log.keys.len()), (4000, 4000));
    }

    #[test]
    fn repeated_purge_of_one_tag_is_logged_once() {
        let purges = Purges::with_log_capacity(10, 0, PurgeHistory::default());
        let (hot, cold) = (purges.purge_key(b"hot"), purges.purge_key(b"cold"));
        purges.purge_by_key(cold, Hard);
        let stamp = purges.stamp(b"k");
        (0..100).for_each(|_| purges.purge_by_key(hot, Hard));
        assert!(!tags_are_unpurged(&purges, &stamp, &[hot]));
        assert!(tags_are_unpurged(&purges, &stamp, &[cold]), "purged before the stamp was taken");
        assert_eq!(purges.log().keys.len(), 1);
    }

    /// What checks of the resource and of its tags say: whether it is purged, and since when it is stale.
    fn check(purges: &Purges, stamp: &PurgeStamp, resource: &[u8], tags: &[PurgeKey]) -> (bool, Vec<u64>) {
        let mut since = Vec::new();
        let is_unpurged = purges.is_unpurged(stamp, resource, |at_ms| since.push(at_ms));
        let is_unpurged = is_unpurged && purges.tags_are_unpurged(stamp, tags, |at_ms| since.push(at_ms));
        (is_unpurged, since)
    }

    #[test]
    fn soft_purge_marks_once_and_a_hard_one_wins() {
        let purges = Purges::new();
        let (a, red) = (resource("/shop/1"), purges.purge_key(b"red"));
        let soft_purges: [&dyn Fn(u64); 4] = [
            &|at_ms| purges.purge_by_key(red, Soft { at_ms }),
            &|at_ms| purges.purge_by_key(purges.purge_key(&a), Soft { at_ms }),
            &|at_ms| purges.purge_prefix(&origin(), b"/shop/", Soft { at_ms }),
            &|at_ms| purges.purge_all(Soft { at_ms }),
        ];
        for (number, soft_purge) in soft_purges.into_iter().enumerate() {
            let (stamp, purged_too) = (purges.stamp(&a), purges.stamp(&a));
            soft_purge(7);
            assert_eq!(check(&purges, &stamp, &a, &[red]), (true, vec![7]), "{number}");
            assert_eq!(check(&purges, &stamp, &a, &[red]), (true, vec![]), "{number}: it is marked already");
            assert_eq!(
                check(&purges, &purges.stamp(&a), &a, &[red]),
                (true, vec![]),
                "{number}: it is newer"
            );
            purges.purge_by_key(purges.purge_key(&a), Hard);
            soft_purge(8);
            assert!(!check(&purges, &purged_too, &a, &[red]).0, "{number}");
        }
        let (other, stamp) = (resource("/blog/1"), purges.stamp(b"k"));
        soft_purges[..3].iter().for_each(|soft_purge| soft_purge(9));
        assert_eq!(check(&purges, &stamp, &other, &[purges.purge_key(b"blue")]), (true, vec![]));
    }

    #[test]
    fn first_of_several_soft_purges_counts() {
        let purges = Purges::new();
        let (a, tags) = (resource("/a"), [b"red", b"sea"].map(|tag| purges.purge_key(tag)));
        let stamp = purges.stamp(&a);
        for (tag, at_ms) in tags.into_iter().zip([9, 5]) {
            purges.purge_by_key(tag, Soft { at_ms });
        }
        purges.purge_prefix(&origin(), b"/", Soft { at_ms: 4 });
        purges.purge_all(Soft { at_ms: 6 });
        assert_eq!(check(&purges, &stamp, &a, &tags), (true, vec![4, 5]));
    }

    #[test]
    fn soft_purge_dropped_from_log_covers_unchecked_stamps() {
        let purges = Purges::with_log_capacity(10, 0, PurgeHistory::default());
        let (tag, before) = (purges.purge_key(b"first"), purges.stamp(b"k"));
        purges.purge_by_key(tag, Soft { at_ms: 1 });
        (0..10).for_each(|n| purges.purge_by_key(purges.purge_key(&[n]), Hard));
        assert!(!tags_are_unpurged(&purges, &before, &[tag]));
        assert!(purges.log().soft_keys.is_empty());
    }
}

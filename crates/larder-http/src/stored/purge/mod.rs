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
//! response. Memory: 512 KiB, and about 15 MiB for the log once it is full, or 22 MiB if all of them are soft.
//!
//! A soft purge is found in the same way. The check that finds it marks the response as stale, and then advances its stamp, so
//! that the next check is as fast as if nothing had been purged.

mod log;

use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use twox_hash::XxHash3_64;

#[cfg(feature = "disk")]
use crate::stored::journal::PurgeJournal;
pub(crate) use crate::stored::journal::PurgeKey;
use crate::stored::journal::{Purge, PurgeHistory};
use crate::stored::purge::log::{Coverage, Log, Prefix};

/// Cells of the table, eight bytes each.
const CELL_COUNT: usize = 1 << 16;
/// Purges by tag and URI that the log keeps.
const MAX_LOGGED_KEYS: usize = 1 << 18;

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
            log: Mutex::new(Log::new(max_logged_keys, last_dropped_key, last_dropped_prefix)),
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

    /// Purges the resources of an origin (see [`crate::key::write_origin`]) whose path starts with `path`.
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
                log.purge_all(kind, number);
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
        self.log().soft_purge_since(keys, since_ms)
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

#[cfg(test)]
mod tests;

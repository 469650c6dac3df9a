//! Purging by generation numbers: a purge does not search the store, it moves a number, and entries made before
//! the move are void when they are next met. The same comparison voids fills in flight: their number is read
//! before the handler starts.
//!
//! There is one clock, which counts purges, and an entry is stamped with the clock as it was when its fill began.
//! A purge of a tag or URI is written down twice:
//!
//! ```text
//! cells   65,536 numbers; a purge raises two of them, chosen by hash. An entry whose tag has a cell that is not
//!         above its stamp is clear: two loads, no lock, nearly every check ends here.
//! log     the last 262,144 purges by tag and URI, exactly. Asked only when both cells are above the stamp: the tag
//!         was purged, or others hit the same cells. An entry that is found clear is stamped anew.
//! ```
//!
//! What falls out of the log voids the entries that were not found clear since, as it does with prefixes, of which
//! the last 64 are kept: a miss too many, never an old answer. Memory: 512 KiB, and up to 15 MiB for the log once
//! that many purges have been made.

use std::collections::hash_map::RandomState;
use std::collections::{HashMap, VecDeque};
use std::hash::BuildHasher;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use xxhash_rust::xxh3::xxh3_64_with_seed;

use crate::key;

/// Cells of the table, eight bytes each.
const CELLS: usize = 1 << 16;
/// Purges by tag and URI kept in the log.
const MAX_MARKS: usize = 1 << 18;
/// Purges by prefix kept in the log.
const MAX_PREFIXES: usize = 64;

/// Purges after which an entry that is found clear is stamped anew; far fewer than the log keeps.
const RESTAMP_AFTER: u64 = 1024;

/// A tag, or a resource's key, as the table knows it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Mark(u64);

/// When something was made, for comparison with the purges since.
#[derive(Debug, Default)]
pub(crate) struct Birth {
    resource: Mark,
    /// No purge of everything, of the URI, or by prefix up to this one covers it.
    resource_clear: AtomicU64,
    /// No purge by tag up to this one covers it.
    tags_clear: AtomicU64,
}

impl Birth {
    /// The same moment, for a second record of the same fill.
    pub(crate) fn copy(&self) -> Birth {
        let copy = |clear: &AtomicU64| AtomicU64::new(clear.load(Ordering::Acquire));
        Birth {
            resource: self.resource,
            resource_clear: copy(&self.resource_clear),
            tags_clear: copy(&self.tags_clear),
        }
    }
}

/// All purges so far, in bounded memory.
#[derive(Debug)]
pub(crate) struct Purges {
    seed: u64,
    /// Raised last, when a purge stands in the log and the cells: whoever reads a number sees all up to it.
    clock: AtomicU64,
    cells: Box<[AtomicU64]>,
    /// The youngest purge by prefix or of everything: most checks need no more than that.
    last_wide: AtomicU64,
    log: Mutex<Log>,
}

#[derive(Debug)]
struct Log {
    max_marks: usize,
    marks: HashMap<Mark, u64>,
    /// The same in the order of time; holds a mark twice when it was purged twice.
    order: VecDeque<(Mark, u64)>,
    /// The youngest purge of a mark that is no longer kept.
    forgotten_mark: u64,
    prefixes: VecDeque<Prefix>,
    /// The youngest purge by prefix that is no longer kept, or of everything.
    forgotten_prefix: u64,
}

#[derive(Debug)]
struct Prefix {
    at: u64,
    origin: Box<[u8]>,
    path: Box<[u8]>,
}

impl Purges {
    pub(crate) fn new() -> Purges {
        Purges::with_log_of(MAX_MARKS)
    }

    fn with_log_of(max_marks: usize) -> Purges {
        Purges {
            seed: RandomState::new().hash_one(0u8),
            clock: AtomicU64::new(0),
            cells: (0..CELLS).map(|_| AtomicU64::new(0)).collect(),
            last_wide: AtomicU64::new(0),
            log: Mutex::new(Log {
                max_marks,
                marks: HashMap::new(),
                order: VecDeque::new(),
                forgotten_mark: 0,
                prefixes: VecDeque::new(),
                forgotten_prefix: 0,
            }),
        }
    }

    pub(crate) fn mark(&self, text: &[u8]) -> Mark {
        Mark(xxh3_64_with_seed(text, self.seed))
    }

    /// To be called before the handler starts: every purge that begins later covers what is born here.
    pub(crate) fn birth(&self, resource: &[u8]) -> Birth {
        let stamp = self.clock.load(Ordering::SeqCst);
        Birth {
            resource: self.mark(resource),
            resource_clear: AtomicU64::new(stamp),
            tags_clear: AtomicU64::new(stamp),
        }
    }

    /// Purges a tag or a URI.
    pub(crate) fn purge_mark(&self, mark: Mark) {
        self.write(|log, now| {
            log.purge_mark(mark, now);
            for cell in self.cells_of(mark) {
                cell.store(now, Ordering::Release);
            }
        });
    }

    pub(crate) fn purge_all(&self) {
        self.write(|log, now| {
            log.forgotten_prefix = now;
            log.prefixes.clear();
            self.last_wide.store(now, Ordering::Release);
        });
    }

    /// Purges the resources of an origin (see [`key::write_origin`]) whose path begins with `path`.
    pub(crate) fn purge_prefix(&self, origin: &[u8], path: &[u8]) {
        self.write(|log, now| {
            log.purge_prefix(Prefix { at: now, origin: origin.into(), path: path.into() });
            self.last_wide.store(now, Ordering::Release);
        });
    }

    /// One purge after another: the number becomes the clock's when everything is written down.
    fn write(&self, purge: impl FnOnce(&mut Log, u64)) {
        let mut log = self.log();
        let now = self.clock.load(Ordering::Relaxed) + 1;
        purge(&mut log, now);
        self.clock.store(now, Ordering::SeqCst);
    }

    /// Whether what was born then, under this resource key, has not been purged by URI, prefix or as a whole.
    pub(crate) fn holds(&self, birth: &Birth, resource: &[u8]) -> bool {
        self.clear_up_to_now(
            &birth.resource_clear,
            |clear| {
                self.last_wide.load(Ordering::Acquire) <= clear && self.cells_clear(birth.resource, clear)
            },
            |log, clear| !log.covers_mark(birth.resource, clear) && !log.covers_resource(resource, clear),
        )
    }

    /// Whether none of the tags has been purged since.
    pub(crate) fn tags_hold(&self, birth: &Birth, tags: &[Mark]) -> bool {
        self.clear_up_to_now(
            &birth.tags_clear,
            |clear| tags.iter().all(|tag| self.cells_clear(*tag, clear)),
            |log, clear| !tags.iter().any(|tag| log.covers_mark(*tag, clear)),
        )
    }

    /// Asks the cells, and the log only if they cannot tell. What is found clear is stamped anew, but after a quick
    /// look only now and then: a stamp is shared, and writing it costs more than reading.
    fn clear_up_to_now(
        &self,
        stamp: &AtomicU64,
        by_cells: impl FnOnce(u64) -> bool,
        by_log: impl FnOnce(&Log, u64) -> bool,
    ) -> bool {
        // Read before the cells: they hold every purge up to this one.
        let now = self.clock.load(Ordering::Acquire);
        let clear = stamp.load(Ordering::Acquire);
        if by_cells(clear) {
            if now.saturating_sub(clear) > RESTAMP_AFTER {
                stamp.fetch_max(now, Ordering::AcqRel);
            }
            return true;
        }
        let log = self.log();
        let holds = by_log(&log, clear);
        if holds {
            stamp.fetch_max(self.clock.load(Ordering::Acquire), Ordering::AcqRel);
        }
        holds
    }

    fn cells_clear(&self, mark: Mark, clear: u64) -> bool {
        self.cells_of(mark).iter().any(|cell| cell.load(Ordering::Acquire) <= clear)
    }

    fn cells_of(&self, mark: Mark) -> [&AtomicU64; 2] {
        [&self.cells[mark.0 as usize % CELLS], &self.cells[(mark.0 >> 32) as usize % CELLS]]
    }

    fn log(&self) -> MutexGuard<'_, Log> {
        self.log.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Log {
    fn purge_mark(&mut self, mark: Mark, now: u64) {
        self.marks.insert(mark, now);
        self.order.push_back((mark, now));
        while self.order.len() > self.max_marks
            && let Some((oldest, at)) = self.order.pop_front()
        {
            // A mark that was purged again since is still known by its later purge.
            if self.marks.get(&oldest) == Some(&at) {
                self.marks.remove(&oldest);
                self.forgotten_mark = at;
            }
        }
    }

    fn purge_prefix(&mut self, prefix: Prefix) {
        self.prefixes.push_back(prefix);
        if self.prefixes.len() > MAX_PREFIXES
            && let Some(oldest) = self.prefixes.pop_front()
        {
            self.forgotten_prefix = oldest.at;
        }
    }

    /// Whether a mark was purged after `clear`, or may have been and is forgotten.
    fn covers_mark(&self, mark: Mark, clear: u64) -> bool {
        *self.marks.get(&mark).unwrap_or(&self.forgotten_mark) > clear
    }

    fn covers_resource(&self, resource: &[u8], clear: u64) -> bool {
        let recent = self.prefixes.iter().rev().take_while(|prefix| prefix.at > clear);
        self.forgotten_prefix > clear
            || recent.into_iter().any(|prefix| key::has_prefix(resource, &prefix.origin, &prefix.path))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn resource(target: &str) -> Vec<u8> {
        let mut key = Vec::new();
        let uri = format!("http://h{target}").parse().unwrap();
        key::write_resource(&mut key, &uri, &Default::default(), "http").unwrap();
        key
    }

    fn origin() -> Vec<u8> {
        let mut origin = Vec::new();
        key::write_origin(&mut origin, "http", "h").unwrap();
        origin
    }

    #[test]
    fn a_purged_tag_voids_what_was_born_before_it_and_nothing_else() {
        let purges = Purges::new();
        let (red, blue) = (purges.mark(b"red"), purges.mark(b"blue"));
        let before = purges.birth(b"k");
        purges.purge_mark(red);
        assert!(!purges.tags_hold(&before, &[blue, red]));
        assert!(purges.tags_hold(&before, &[blue]));
        assert!(purges.tags_hold(&purges.birth(b"k"), &[red]));
    }

    #[test]
    fn a_purged_uri_voids_only_itself() {
        let purges = Purges::new();
        let (a, b) = (resource("/a"), resource("/b"));
        let (born_a, born_b) = (purges.birth(&a), purges.birth(&b));
        purges.purge_mark(purges.mark(&a));
        assert!(!purges.holds(&born_a, &a));
        assert!(purges.holds(&born_b, &b));
    }

    #[test]
    fn a_purge_of_all_voids_all() {
        let purges = Purges::new();
        let a = resource("/a");
        let before = purges.birth(&a);
        purges.purge_all();
        assert!(!purges.holds(&before, &a));
        assert!(purges.holds(&purges.birth(&a), &a));
    }

    #[test]
    fn prefixes_are_compared_once_and_remembered() {
        let purges = Purges::new();
        let (in_shop, outside) = (resource("/shop/1"), resource("/blog/1"));
        let (shop, blog) = (purges.birth(&in_shop), purges.birth(&outside));
        purges.purge_prefix(&origin(), b"/shop/");
        assert!(!purges.holds(&shop, &in_shop));
        assert!(purges.holds(&blog, &outside));
        assert_eq!(blog.resource_clear.load(Ordering::Relaxed), 1);
        assert!(purges.holds(&purges.birth(&in_shop), &in_shop));
    }

    #[test]
    fn a_forgotten_prefix_voids_what_was_never_compared_with_it() {
        let purges = Purges::new();
        let a = resource("/a");
        let (asleep, awake) = (purges.birth(&a), purges.birth(&a));
        for n in 0..=MAX_PREFIXES {
            assert!(purges.holds(&awake, &a));
            purges.purge_prefix(&origin(), format!("/{n}/").as_bytes());
        }
        assert!(!purges.holds(&asleep, &a));
        assert!(purges.holds(&awake, &a));
        assert_eq!(purges.log().prefixes.len(), MAX_PREFIXES);
    }

    #[test]
    fn purges_of_other_tags_spare_an_entry_however_many_they_are() {
        let purges = Purges::new();
        let kept: Vec<_> =
            (0..100).map(|n| (purges.birth(b"k"), purges.mark(format!("kept:{n}").as_bytes()))).collect();
        for n in 0..200_000 {
            purges.purge_mark(purges.mark(format!("purged:{n}").as_bytes()));
        }
        for (birth, tag) in &kept {
            assert!(purges.tags_hold(birth, &[*tag]) && purges.holds(birth, b"k"));
        }
        purges.purge_mark(kept[7].1);
        let lost: Vec<_> = (0..100).filter(|n| !purges.tags_hold(&kept[*n].0, &[kept[*n].1])).collect();
        assert_eq!(lost, [7]);
    }

    #[test]
    fn a_forgotten_purge_voids_what_was_not_found_clear_since() {
        let purges = Purges::with_log_of(4000);
        let tag = purges.mark(b"purged first");
        let (before, other) = (purges.birth(b"k"), purges.birth(b"k"));
        purges.purge_mark(tag);
        for n in 0..200_000 {
            purges.purge_mark(purges.mark(format!("{n}").as_bytes()));
            if n % 500 == 0 {
                assert!(purges.tags_hold(&other, &[purges.mark(b"other")]), "{n}");
            }
        }
        assert!(!purges.tags_hold(&before, &[tag]));
        let log = purges.log();
        assert_eq!((log.order.len(), log.marks.len()), (4000, 4000));
    }

    #[test]
    fn a_tag_purged_again_and_again_is_one_mark() {
        let purges = Purges::with_log_of(10);
        let (hot, cold) = (purges.mark(b"hot"), purges.mark(b"cold"));
        purges.purge_mark(cold);
        let birth = purges.birth(b"k");
        (0..100).for_each(|_| purges.purge_mark(hot));
        assert!(!purges.tags_hold(&birth, &[hot]));
        assert!(purges.tags_hold(&birth, &[cold]), "purged before it was born");
        assert_eq!(purges.log().marks.len(), 1);
    }
}

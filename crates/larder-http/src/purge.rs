//! Purging by generation numbers: a purge does not search the store, it moves a number, and entries made before
//! the move are void when they are next met. The same comparison voids fills in flight: their number is read
//! before the handler starts.
//!
//! There is one clock, which counts purges. An entry is stamped with the clock as it was when its fill began; a
//! purge of a tag or URI moves the clock and writes it into two cells of a fixed table, chosen by hash. The entry
//! holds while the lesser of each pair of cells is not above its stamp. Two tags that share both cells purge each
//! other, which costs a miss and never an old answer: with 10,000 purges of other tags in an entry's life that
//! happens to about 7 % of the entries, with 1,000 to 0.1 %. Memory is fixed: 512 KiB.
//!
//! Prefixes cannot be hashed, so the last ones are kept as they are; an entry is compared with those that came
//! since it was last found good, once for each.

use std::collections::VecDeque;
use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use xxhash_rust::xxh3::xxh3_64_with_seed;

use crate::key;

/// Cells of the table, eight bytes each.
const CELLS: usize = 1 << 16;
/// Prefix purges kept; when another comes, the oldest voids all that has not been compared with it.
const MAX_PREFIXES: usize = 64;

/// A tag, or a resource's key, as the table knows it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Mark(u64);

/// When something was made, for comparison with the purges since.
#[derive(Debug, Default)]
pub(crate) struct Birth {
    stamp: u64,
    resource: Mark,
    /// The last purge by prefix that was found not to cover this.
    cleared: AtomicU64,
}

impl Birth {
    /// The same moment, for a second record of the same fill.
    pub(crate) fn copy(&self) -> Birth {
        Birth {
            stamp: self.stamp,
            resource: self.resource,
            cleared: AtomicU64::new(self.cleared.load(Ordering::Acquire)),
        }
    }
}

/// All purges so far, in bounded memory.
#[derive(Debug)]
pub(crate) struct Purges {
    seed: u64,
    clock: AtomicU64,
    /// The last purge of everything: what is stamped before it is void.
    floor: AtomicU64,
    cells: Box<[AtomicU64]>,
    /// The clock of the youngest prefix: most checks need no more.
    last_prefix: AtomicU64,
    prefixes: Mutex<Prefixes>,
}

#[derive(Debug, Default)]
struct Prefixes {
    kept: VecDeque<Prefix>,
    /// The youngest that is no longer kept: what was not compared with it is void.
    forgotten: u64,
}

#[derive(Debug)]
struct Prefix {
    at: u64,
    origin: Box<[u8]>,
    path: Box<[u8]>,
}

impl Purges {
    pub(crate) fn new() -> Purges {
        Purges {
            seed: RandomState::new().hash_one(0u8),
            clock: AtomicU64::new(0),
            floor: AtomicU64::new(0),
            cells: (0..CELLS).map(|_| AtomicU64::new(0)).collect(),
            last_prefix: AtomicU64::new(0),
            prefixes: Mutex::default(),
        }
    }

    pub(crate) fn mark(&self, text: &[u8]) -> Mark {
        Mark(xxh3_64_with_seed(text, self.seed))
    }

    /// To be called before the handler starts: every purge that begins later covers what is born here.
    pub(crate) fn birth(&self, resource: &[u8]) -> Birth {
        let stamp = self.clock.load(Ordering::SeqCst);
        Birth { stamp, resource: self.mark(resource), cleared: AtomicU64::new(stamp) }
    }

    pub(crate) fn purge_mark(&self, mark: Mark) {
        let now = self.tick();
        for cell in self.cells_of(mark) {
            cell.fetch_max(now, Ordering::SeqCst);
        }
    }

    pub(crate) fn purge_all(&self) {
        let now = self.tick();
        self.floor.fetch_max(now, Ordering::SeqCst);
    }

    /// Purges the resources of an origin (see [`key::write_origin`]) whose path begins with `path`.
    pub(crate) fn purge_prefix(&self, origin: &[u8], path: &[u8]) {
        let mut prefixes = self.prefixes.lock().unwrap_or_else(PoisonError::into_inner);
        let at = self.tick();
        if prefixes.kept.len() == MAX_PREFIXES
            && let Some(oldest) = prefixes.kept.pop_front()
        {
            prefixes.forgotten = oldest.at;
        }
        prefixes.kept.push_back(Prefix { at, origin: origin.into(), path: path.into() });
        self.last_prefix.store(at, Ordering::SeqCst);
    }

    /// Whether what was born then, under this resource key, has not been purged by URI, prefix or as a whole.
    pub(crate) fn holds(&self, birth: &Birth, resource: &[u8]) -> bool {
        self.floor.load(Ordering::Acquire) <= birth.stamp
            && self.mark_holds(birth, birth.resource)
            && self.clear_of_prefixes(birth, resource)
    }

    /// Whether none of the tags has been purged since.
    pub(crate) fn tags_hold(&self, birth: &Birth, tags: &[Mark]) -> bool {
        tags.iter().all(|tag| self.mark_holds(birth, *tag))
    }

    fn mark_holds(&self, birth: &Birth, mark: Mark) -> bool {
        self.cells_of(mark).iter().any(|cell| cell.load(Ordering::Acquire) <= birth.stamp)
    }

    fn clear_of_prefixes(&self, birth: &Birth, resource: &[u8]) -> bool {
        let cleared = birth.cleared.load(Ordering::Acquire);
        if self.last_prefix.load(Ordering::Acquire) <= cleared {
            return true;
        }
        let prefixes = self.prefixes.lock().unwrap_or_else(PoisonError::into_inner);
        let holds = prefixes.forgotten <= cleared
            && !prefixes
                .kept
                .iter()
                .rev()
                .take_while(|prefix| prefix.at > cleared)
                .any(|prefix| key::has_prefix(resource, &prefix.origin, &prefix.path));
        if holds && let Some(last) = prefixes.kept.back() {
            birth.cleared.fetch_max(last.at, Ordering::AcqRel);
        }
        holds
    }

    fn cells_of(&self, mark: Mark) -> [&AtomicU64; 2] {
        [&self.cells[mark.0 as usize % CELLS], &self.cells[(mark.0 >> 32) as usize % CELLS]]
    }

    fn tick(&self) -> u64 {
        self.clock.fetch_add(1, Ordering::SeqCst) + 1
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
        assert_eq!(blog.cleared.load(Ordering::Relaxed), 1);
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
        assert_eq!(purges.prefixes.lock().unwrap().kept.len(), MAX_PREFIXES);
    }

    #[test]
    fn a_thousand_purged_tags_spare_nearly_all_others() {
        let purges = Purges::new();
        let before = purges.birth(b"k");
        for n in 0..1000 {
            purges.purge_mark(purges.mark(format!("purged:{n}").as_bytes()));
        }
        let lost = (0..10_000).filter(|n| {
            let tag = purges.mark(format!("kept:{n}").as_bytes());
            !purges.tags_hold(&before, &[tag])
        });
        assert!(lost.count() < 50, "more than 0.5 % of the tags were purged by chance");
    }
}

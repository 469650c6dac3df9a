//! A snapshot that is being loaded.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::sync::atomic::{AtomicBool, AtomicU16, AtomicU64, AtomicUsize, Ordering};

use larder_engine::raw::Key;
use parking_lot::Mutex;

use super::layout::{Footer, KeyHasher, Place, checksum};
use super::record::StoredEntry;

/// Locks of blocks: a block has the one at its number modulo this.
const LOCKS: usize = 64;

/// Where the entries of a snapshot go.
pub(in crate::db) trait Destination {
    /// Server time in milliseconds of Unix time.
    fn now_ms(&self) -> i64;
    /// Stores an entry, which nobody has seen yet. Returns whether it has a valid value and there is room for it.
    fn store(&self, entry: &StoredEntry<'_>) -> bool;
}

/// A snapshot of which some blocks are loaded.
#[derive(Debug)]
pub(crate) struct Loading {
    file: File,
    written_ms: i64,
    hasher: KeyHasher,
    places: Vec<Place>,
    index: Vec<u64>,
    /// Whether each block is loaded. Changed under its lock.
    is_loaded: Vec<AtomicBool>,
    locks: [Mutex<()>; LOCKS],
    /// The block that is loaded next, unless a command needs another one.
    next: AtomicUsize,
    /// Entries in blocks that are not loaded.
    left: AtomicU64,
    /// A bit for each database of which no entry is wanted any more.
    emptied: AtomicU16,
    /// Entries that are not in the keyspace, since their block was damaged or there was no room.
    lost: AtomicU64,
}

impl Loading {
    pub(super) fn new(file: File, footer: &Footer, places: Vec<Place>, index: Vec<u64>) -> Self {
        Loading {
            file,
            written_ms: footer.written_ms,
            hasher: KeyHasher::new(footer.seed),
            is_loaded: places.iter().map(|_| AtomicBool::new(false)).collect(),
            places,
            index,
            locks: std::array::from_fn(|_| Mutex::new(())),
            next: AtomicUsize::new(0),
            left: AtomicU64::new(footer.records),
            emptied: AtomicU16::new(0),
            lost: AtomicU64::new(0),
        }
    }

    /// Entries in blocks that are not loaded.
    pub(crate) fn left(&self) -> u64 {
        self.left.load(Ordering::Relaxed)
    }

    /// Entries that will not be in the keyspace, since their block was damaged or there was no room.
    pub(crate) fn lost(&self) -> u64 {
        self.lost.load(Ordering::Relaxed)
    }

    /// Loads what the snapshot has of a key. The calling thread must hold no lock of the keyspace.
    pub(in crate::db) fn load_key(&self, store: &impl Destination, key: Key<'_>) {
        self.hasher.hash(key).blocks(&self.index).for_each(|block| self.load_block(store, block as usize));
    }

    /// Whether all that the snapshot has of a key is loaded.
    pub(crate) fn has_loaded(&self, key: Key<'_>) -> bool {
        let mut blocks = self.hasher.hash(key).blocks(&self.index);
        blocks.all(|block| self.is_loaded[block as usize].load(Ordering::Acquire))
    }

    /// Loads the next block; returns whether there was one.
    pub(in crate::db) fn load_next(&self, store: &impl Destination) -> bool {
        let block = self.take_next();
        block.inspect(|block| self.load_block(store, *block)).is_some()
    }

    /// The block that is to be loaded next, which no other call returns.
    pub(super) fn take_next(&self) -> Option<usize> {
        Some(self.next.fetch_add(1, Ordering::Relaxed)).filter(|block| *block < self.places.len())
    }

    /// Loads whatever is not loaded, also what another thread has taken to load it.
    pub(in crate::db) fn finish(&self, store: &impl Destination) {
        (0..self.places.len()).for_each(|block| self.load_block(store, block));
    }

    /// Loads no further entry of a database, or of any. What is loaded already can be removed after this.
    pub(crate) fn skip(&self, database: Option<u8>) {
        let bits = database.map_or(u16::MAX, |database| 1 << database);
        self.emptied.fetch_or(bits, Ordering::SeqCst);
        // Whoever loads a block now may not have seen the bits.
        self.locks.iter().for_each(|lock| drop(lock.lock()));
    }

    fn load_block(&self, store: &impl Destination, block: usize) {
        if self.is_loaded[block].load(Ordering::Acquire) {
            return;
        }
        let _lock = self.locks[block % LOCKS].lock();
        if self.is_loaded[block].load(Ordering::Acquire) {
            return;
        }
        let place = self.places[block];
        let stored = match self.emptied.load(Ordering::SeqCst) {
            u16::MAX => u64::from(place.records),
            _ => self.read(place).map_or(0, |bytes| self.store_entries(store, &bytes)),
        };
        self.lost.fetch_add(u64::from(place.records).saturating_sub(stored), Ordering::Relaxed);
        self.left.fetch_sub(u64::from(place.records), Ordering::Relaxed);
        self.is_loaded[block].store(true, Ordering::Release);
    }

    /// The bytes of a block; `None` if it is damaged.
    fn read(&self, place: Place) -> Option<Vec<u8>> {
        let mut bytes = vec![0; usize::try_from(place.length).ok()?];
        self.file.read_exact_at(&mut bytes, place.offset).ok()?;
        (checksum(&bytes) == place.checksum).then_some(bytes)
    }

    /// Stores the entries of a block; returns the number of those that are not lost.
    fn store_entries(&self, store: &impl Destination, mut block: &[u8]) -> u64 {
        // If the clock of the system went back meanwhile, what had expired before must not come back.
        let now = store.now_ms().max(self.written_ms);
        let mut kept = 0;
        while let Some(entry) = StoredEntry::take_first(&mut block) {
            let is_over = entry.deadline.is_some_and(|deadline| deadline <= now);
            let is_emptied = self.emptied.load(Ordering::SeqCst) & (1 << entry.key.space) != 0;
            kept += u64::from(is_over || is_emptied || store.store(&entry));
        }
        kept
    }
}

//! The files of a generation: which there are, how much room they take, and which must go for others.
//!
//! The name of a file is a hash of its key. What is done with one name happens under the lock of its slot: so nothing that was
//! removed is written again by a thread that had it in its hands.

use std::collections::{BTreeSet, HashMap};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use larder_engine::{BuildError, Cache, Cause};
use twox_hash::XxHash3_128;

/// Locks of slots.
const LOCKS: usize = 64;
/// File systems give files their room in blocks of this size.
const BLOCK_BYTES: u64 = 4096;
/// What each file takes beside its blocks: its inode and its name.
const OVERHEAD_BYTES: u64 = 512;
/// The expected mean room of a file.
const EXPECTED_FILE_BYTES: u64 = 16 << 10;

/// A file that exists.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct FileInfo {
    blocks: u32,
    /// Another number for each file that a name has had.
    pub(super) version: u32,
}

impl FileInfo {
    fn room(self) -> u64 {
        u64::from(self.blocks) * BLOCK_BYTES + OVERHEAD_BYTES
    }
}

/// The files of a generation.
#[derive(Debug)]
pub(super) struct Index {
    files: Cache<u128, FileInfo>,
    /// The names that are being written, each with the number of the write that counts.
    slots: Box<[Mutex<HashMap<u128, u32>>]>,
    /// Names of files that had to go for others, and are not removed yet.
    evicted: Arc<Mutex<BTreeSet<u128>>>,
    last_number: AtomicU32,
    /// Whether there may be files that are not listed yet.
    is_listing: AtomicBool,
}

/// A name, locked. Only one thread has it.
#[derive(Debug)]
pub(super) struct Slot<'a> {
    index: &'a Index,
    writes: MutexGuard<'a, HashMap<u128, u32>>,
    name: u128,
}

impl Index {
    /// An index without files, which may take so many bytes.
    ///
    /// # Errors
    /// The engine takes no such capacity.
    pub(super) fn new(max_bytes: u64) -> Result<Index, BuildError> {
        let evicted: Arc<Mutex<BTreeSet<u128>>> = Arc::default();
        let listener = {
            let evicted = evicted.clone();
            move |name: &u128, _: &FileInfo, cause| {
                if cause == Cause::Evicted {
                    lock(&evicted).insert(*name);
                }
            }
        };
        let files = Cache::builder()
            .weight(max_bytes, |_: &u128, file: &FileInfo| file.room())
            .expected_entries((max_bytes / EXPECTED_FILE_BYTES).max(1))
            .listener(listener)
            .build()?;
        Ok(Index {
            files,
            slots: (0..LOCKS).map(|_| Mutex::default()).collect(),
            evicted,
            last_number: AtomicU32::new(0),
            is_listing: AtomicBool::new(false),
        })
    }

    /// The name of the file of a key.
    pub(super) fn name(key: &[u8]) -> u128 {
        XxHash3_128::oneshot(key)
    }

    /// Locks a name.
    pub(super) fn slot(&self, name: u128) -> Slot<'_> {
        Slot { index: self, writes: lock(&self.slots[name as usize % LOCKS]), name }
    }

    /// Whether there may be a file of this name, or one that is being written.
    pub(super) fn may_have(&self, name: u128) -> bool {
        self.is_listing() || self.files.contains(&name) || self.slot(name).is_written()
    }

    /// Notes a use of a file, for the choice of those that must go.
    pub(super) fn note_use(&self, name: u128) {
        _ = self.files.get(&name);
    }

    pub(super) fn is_listing(&self) -> bool {
        self.is_listing.load(Ordering::SeqCst)
    }

    pub(super) fn set_listing(&self, is_listing: bool) {
        self.is_listing.store(is_listing, Ordering::SeqCst);
    }

    /// Forgets all files, and all writes.
    pub(super) fn clear(&self) {
        self.slots.iter().for_each(|slot| lock(slot).clear());
        self.files.clear();
        lock(&self.evicted).clear();
    }

    /// Lets all files go, as if others needed their room.
    pub(super) fn evict_all(&self) {
        let names = self.files.drain().into_iter().map(|(name, _)| name);
        lock(&self.evicted).extend(names);
    }

    /// The name of a file that had to go for others, and is not removed yet.
    pub(super) fn next_evicted(&self) -> Option<u128> {
        lock(&self.evicted).first().copied()
    }

    /// The number of files, and the room that they take in bytes.
    pub(super) fn size(&self) -> (u64, u64) {
        (self.files.len() as u64, self.files.weight())
    }

    fn next_number(&self) -> u32 {
        self.last_number.fetch_add(1, Ordering::Relaxed).wrapping_add(1)
    }
}

impl Slot<'_> {
    pub(super) fn file(&self) -> Option<FileInfo> {
        self.index.files.peek(&self.name)
    }

    pub(super) fn is_written(&self) -> bool {
        self.writes.contains_key(&self.name)
    }

    /// Forgets the file and every write that has begun. Returns whether there was a file, or may be one.
    pub(super) fn forget(&mut self) -> bool {
        self.writes.remove(&self.name);
        let was_evicted = self.take_evicted();
        self.index.files.remove(&self.name).is_some() || was_evicted || self.index.is_listing()
    }

    /// Whether the file had to go for others, and is still there. It is for the caller to remove.
    pub(super) fn take_evicted(&mut self) -> bool {
        lock(&self.index.evicted).remove(&self.name)
    }

    /// Begins a write. Returns its number, which ends it.
    pub(super) fn begin_write(&mut self) -> u32 {
        let number = self.index.next_number();
        self.writes.insert(self.name, number);
        number
    }

    /// Whether the write with this number still counts.
    pub(super) fn is_current(&self, number: u32) -> bool {
        self.writes.get(&self.name) == Some(&number)
    }

    /// Ends the write with this number, if it still counts.
    pub(super) fn end_write(&mut self, number: u32) {
        if self.is_current(number) {
            self.writes.remove(&self.name);
        }
    }

    /// Adds a file of so many bytes. Returns what is known of it, or `None` if it has no room: then it must be removed.
    pub(super) fn add(&mut self, len: u64) -> Option<FileInfo> {
        let blocks = u32::try_from(len.div_ceil(BLOCK_BYTES)).ok()?;
        let file = FileInfo { blocks, version: self.index.next_number() };
        let is_refused = self.index.files.insert(self.name, file).is_refused();
        (!is_refused).then_some(file)
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn forgotten_write_counts_no_longer() {
        let index = Index::new(1 << 20).unwrap();
        let number = index.slot(7).begin_write();
        assert!(index.slot(7).is_current(number) && index.may_have(7));
        assert!(!index.slot(7).forget(), "there is no file yet");
        assert!(!index.slot(7).is_current(number) && !index.may_have(7));
        let next = index.slot(7).begin_write();
        index.slot(7).end_write(number);
        assert!(index.slot(7).is_current(next), "another write");
    }

    #[test]
    fn each_file_of_a_name_has_another_version() {
        let index = Index::new(1 << 20).unwrap();
        let first = index.slot(7).add(5000).unwrap();
        let second = index.slot(7).add(5000).unwrap();
        assert_ne!(first.version, second.version);
        assert_eq!(index.size(), (1, 2 * 4096 + 512));
        assert!(index.slot(7).forget());
        assert_eq!(index.size(), (0, 0));
    }

    #[test]
    fn files_beyond_the_capacity_must_go() {
        let index = Index::new(1 << 20).unwrap();
        for name in 0..1000 {
            let added = index.slot(name).add(4096);
            assert!(added.is_some() || !index.slot(name).forget());
        }
        let (files, room) = index.size();
        assert!(room <= 1 << 20 && room > 1 << 19, "{room}");
        let mut evicted = 0;
        while let Some(name) = index.next_evicted() {
            assert_eq!(index.slot(name).file(), None);
            assert!(index.slot(name).take_evicted());
            evicted += 1;
        }
        assert!(evicted > 0 && files + evicted <= 1000, "{files} {evicted}");
    }

    /// It is still on the disk, and would be found by the next process.
    #[test]
    fn evicted_file_is_forgotten_as_one_that_is_there() {
        let index = Index::new(1 << 20).unwrap();
        index.slot(7).add(4096).unwrap();
        index.evict_all();
        assert_eq!((index.size(), index.next_evicted()), ((0, 0), Some(7)));
        assert!(index.slot(7).forget());
        assert_eq!(index.next_evicted(), None);
        assert!(!index.slot(7).forget());
    }

    #[test]
    fn every_name_may_be_there_while_files_are_listed() {
        let index = Index::new(1 << 20).unwrap();
        assert!(!index.may_have(7));
        index.set_listing(true);
        assert!(index.may_have(7) && index.slot(7).forget());
    }

    #[test]
    fn file_longer_than_the_capacity_has_no_room() {
        let index = Index::new(1 << 20).unwrap();
        assert_eq!(index.slot(7).add(2 << 20), None);
        assert_eq!(index.slot(7).add(u64::MAX), None);
    }
}

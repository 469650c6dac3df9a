//! The state of a disk tier, which requests and the thread that writes share.

use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

use larder_engine::fork::Process;
use larder_engine::stats::Counter;

use crate::disk::folder::{self, DiskError, Folder, boot_id};
use crate::disk::index::{FileInfo, Index};
use crate::disk::journal::{self, Journal};
use crate::disk::queue::Queue;
use crate::stored::journal::PurgeHistory;
use crate::stored::purge::Purges;

/// The limits of the room that entries take.
const MIN_BYTES: u64 = 1 << 20;
const MAX_BYTES: u64 = 1 << 48;

/// What a tier has done.
#[derive(Debug, Default)]
pub(super) struct Counts {
    pub(super) writes: Counter,
    pub(super) write_errors: Counter,
    /// Writes for which there was no room in the queue, or whose folder cannot be written.
    pub(super) dropped: Counter,
}

/// The state of a tier.
#[derive(Debug)]
pub(super) struct Tier {
    pub(super) folder: Arc<Folder>,
    pub(super) journal: Arc<Journal>,
    pub(super) purges: Arc<Purges>,
    pub(super) index: Index,
    pub(super) queue: Queue,
    pub(super) counts: Counts,
    generation: Mutex<u128>,
    has_other_keys: AtomicBool,
    /// The files that were there at the start.
    pub(super) found: u64,
    process: Process,
}

impl Tier {
    /// Opens a folder, and continues its generation if that is valid; `max_bytes` is the room of its entries. Else a new one
    /// begins.
    ///
    /// # Errors
    /// Every [`DiskError`].
    pub(super) fn open(path: &Path, max_bytes: u64) -> Result<Tier, DiskError> {
        Tier::open_in_boot(path, max_bytes, boot_id())
    }

    pub(super) fn open_in_boot(path: &Path, max_bytes: u64, boot: Option<String>) -> Result<Tier, DiskError> {
        if !(MIN_BYTES..=MAX_BYTES).contains(&max_bytes) {
            return Err(DiskError::MaxBytes(max_bytes));
        }
        let unusable = |reason: String| DiskError::Unusable { folder: path.into(), reason };
        let folder = Arc::new(Folder::open(path, boot)?);
        let index = Index::new(max_bytes).map_err(|error| unusable(error.to_string()))?;
        let generation = folder.resume().map_err(|error| unusable(error.to_string()))?;
        let resumed = generation.and_then(|id| Some((id, journal::read(&folder, id)?)));
        let (generation, purges, journal) = match resumed {
            Some((id, (seed, history))) => {
                let journal = Journal::resumed(folder.clone(), seed, id);
                let journal = journal.map_err(|error| unusable(error.to_string()))?;
                (Some(id), Purges::restored(seed, history), journal)
            }
            None => {
                let purges = Purges::new();
                let journal = Journal::closed(folder.clone(), purges.seed());
                (None, purges, journal)
            }
        };
        purges.keep_in(journal.clone());
        let tier = Tier {
            found: 0,
            journal,
            purges: Arc::new(purges),
            index,
            queue: Queue::default(),
            counts: Counts::default(),
            generation: Mutex::new(generation.unwrap_or_default()),
            has_other_keys: AtomicBool::new(folder.has_other_keys()),
            process: Process::current(),
            folder,
        };
        match generation {
            Some(_) => {
                tier.index.set_listing(true);
                tier.folder.turn_on();
                Ok(Tier { found: tier.folder.count_entries(), ..tier })
            }
            None => tier.renew().map(|()| tier).map_err(|error| unusable(error.to_string())),
        }
    }

    /// Begins a new generation.
    ///
    /// # Errors
    /// The folder cannot be written.
    pub(super) fn renew(&self) -> io::Result<()> {
        let id = self.folder.renew()?;
        self.set_generation(id);
        self.purges.between_purges(|number| self.journal.begin(id, &PurgeHistory::purged_up_to(number)))?;
        self.set_other_keys(false);
        self.folder.begin(id)
    }

    /// Whether entries may be read and written: the generation is valid, and the process is the one that has opened the folder.
    pub(super) fn is_usable(&self) -> bool {
        !self.has_forked() && self.folder.is_on()
    }

    pub(super) fn has_forked(&self) -> bool {
        self.process.has_forked()
    }

    pub(super) fn generation(&self) -> u128 {
        *self.generation.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn set_generation(&self, id: u128) {
        *self.generation.lock().unwrap_or_else(PoisonError::into_inner) = id;
    }

    /// Whether there may be entries with other keys than that of a URI.
    pub(super) fn has_other_keys(&self) -> bool {
        self.has_other_keys.load(Ordering::SeqCst)
    }

    pub(super) fn set_other_keys(&self, has_other_keys: bool) {
        self.has_other_keys.store(has_other_keys, Ordering::SeqCst);
    }

    /// What had to be removed could not be: nothing that the folder has may be served any more.
    pub(super) fn fail(&self) {
        self.folder.fail();
        self.queue.wake();
    }

    /// Adds a file that is not in the index yet, if it is there. Returns what is known of it.
    pub(super) fn adopt(&self, name: u128) -> Option<FileInfo> {
        let mut slot = self.index.slot(name);
        if let Some(file) = slot.file() {
            return Some(file);
        }
        let path = self.folder.entry(name);
        let len = std::fs::symlink_metadata(&path).ok().filter(|file| file.is_file())?.len();
        let added = slot.add(len);
        if added.is_none() && folder::remove(&path).is_err() {
            drop(slot);
            self.fail();
        }
        added
    }
}

/// The time of the system, in milliseconds since 1970.
pub(crate) fn wall_ms() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |elapsed| elapsed.as_millis() as u64)
}

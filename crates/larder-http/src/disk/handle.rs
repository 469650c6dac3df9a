//! The handle of a disk tier: what the store and its fills do with it.

use std::path::Path;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use crate::disk::folder::{self, DiskError};
use crate::disk::index::{Index, Slot};
use crate::disk::queue::{Content, Write};
use crate::disk::read::{self, DiskEntry};
use crate::disk::tier::{Tier, wall_ms};
use crate::disk::writer;
use crate::key::Key;
use crate::status::stats::DiskStats;
use crate::stored::memory::BodyMemory;
use crate::stored::purge::Purges;

/// How long the end of the cache waits for the thread that writes.
const MAX_END: Duration = Duration::from_secs(5);

/// The disk tier of a store. When it is dropped, what is queued is written for a few seconds, and the folder is marked as clean.
#[derive(Debug)]
pub(crate) struct Disk {
    tier: Arc<Tier>,
}

/// An entry that is stored in memory, for the disk too.
#[derive(Debug)]
pub(crate) struct DiskWrite {
    /// Whether the key is not that of a URI alone.
    pub(crate) is_other_key: bool,
    /// How long ago the origin replied, in milliseconds.
    pub(crate) replied_ms_ago: u64,
    pub(crate) tags: Vec<Box<str>>,
    pub(crate) content: Content,
}

impl Disk {
    /// Opens a folder whose entries may take `max_bytes`, and starts the thread that writes. Returns the purges that judge the
    /// entries, and must judge those in memory too.
    ///
    /// # Errors
    /// Every [`DiskError`].
    pub(crate) fn open(folder: &Path, max_bytes: u64) -> Result<(Arc<Disk>, Arc<Purges>), DiskError> {
        let tier = Arc::new(Tier::open(folder, max_bytes)?);
        let (purges, writing) = (tier.purges.clone(), tier.clone());
        let thread = thread::Builder::new().name("larder-disk".to_owned());
        let started = thread.spawn(move || writer::run(&writing));
        started.map_err(|error| DiskError::Unusable { folder: folder.into(), reason: error.to_string() })?;
        Ok((Arc::new(Disk { tier }), purges))
    }

    /// Whether there may be an entry of this key.
    pub(crate) fn may_have(&self, key: &[u8]) -> bool {
        self.tier.is_usable() && self.tier.index.may_have(Index::name(key))
    }

    /// Whether there may be entries with other keys than that of a URI.
    pub(crate) fn has_other_keys(&self) -> bool {
        self.tier.is_usable() && self.tier.has_other_keys()
    }

    /// Reads the entry of a key, if its body has at most so many bytes and there is memory for it. It may be purged or expired.
    pub(crate) async fn read(
        self: &Arc<Disk>,
        key: &Key,
        max_body_bytes: usize,
        memory: &Arc<BodyMemory>,
    ) -> Option<DiskEntry> {
        let name = Index::name(key.as_bytes());
        if !self.may_have(key.as_bytes()) {
            return None;
        }
        self.tier.index.note_use(name);
        let (tier, key, memory) = (self.tier.clone(), key.clone(), memory.clone());
        let reading =
            tokio::task::spawn_blocking(move || read::read(&tier, &key, name, max_body_bytes, &memory));
        reading.await.ok()?
    }

    /// Does `put`, which makes another value of this key visible. Before that the file of the former one is removed. After a
    /// success, `write` is queued.
    pub(crate) fn replace<E>(
        &self,
        key: &Key,
        write: Option<DiskWrite>,
        put: impl FnOnce() -> Result<(), E>,
    ) -> Result<(), E> {
        let tier = &*self.tier;
        if !tier.is_usable() {
            return put();
        }
        let name = Index::name(key.as_bytes());
        let mut slot = tier.index.slot(name);
        if slot.forget() && folder::remove(&tier.folder.entry(name)).is_err() {
            tier.fail();
        }
        put()?;
        if let Some(write) = write {
            self.queue(slot, name, key, write);
        }
        Ok(())
    }

    /// Does `put`, which makes an entry visible that was read from the file of this version. Returns `None`, and does nothing, if
    /// the file is not there any more: then the entry was replaced.
    pub(crate) fn restore<R>(&self, key: &Key, version: u32, put: impl FnOnce() -> R) -> Option<R> {
        if !self.tier.is_usable() {
            return None;
        }
        let slot = self.tier.index.slot(Index::name(key.as_bytes()));
        let is_there = slot.file().is_some_and(|file| file.version == version);
        is_there.then(put)
    }

    /// Writes an entry that is in memory already, unless there is a file of its key.
    pub(crate) fn add_missing(&self, key: &Key, write: impl FnOnce() -> Option<DiskWrite>) {
        if !self.tier.is_usable() {
            return;
        }
        let name = Index::name(key.as_bytes());
        let slot = self.tier.index.slot(name);
        if slot.file().is_none()
            && !slot.is_written()
            && let Some(write) = write()
        {
            self.queue(slot, name, key, write);
        }
    }

    /// Removes what there is of a key, which may not be served any more.
    pub(crate) fn forget(&self, key: &Key) {
        _ = self.replace(key, None, || Ok::<(), ()>(()));
    }

    /// Removes the file of this version, which is of no use any more.
    pub(crate) fn remove(&self, key: &Key, version: u32) {
        if self.tier.is_usable() {
            read::remove(&self.tier, Index::name(key.as_bytes()), version);
        }
    }

    /// Frees the room of all entries, in the background. They were purged.
    pub(crate) fn clear(&self) {
        if self.tier.is_usable() {
            self.tier.index.evict_all();
            self.tier.queue.wake();
        }
    }

    /// What it has, and what it has done.
    pub(crate) fn stats(&self) -> DiskStats {
        let tier = &*self.tier;
        let (entries, bytes) = tier.index.size();
        DiskStats {
            entries: if tier.index.is_listing() { tier.found } else { entries },
            bytes,
            writes: tier.counts.writes.get(),
            write_errors: tier.counts.write_errors.get(),
            dropped_writes: tier.counts.dropped.get(),
            is_on: tier.folder.is_on(),
        }
    }

    fn queue(&self, mut slot: Slot<'_>, name: u128, key: &Key, write: DiskWrite) {
        let tier = &*self.tier;
        let number = slot.begin_write();
        let queued = tier.queue.push(Write {
            generation: tier.generation(),
            name,
            number,
            key: key.clone(),
            is_other_key: write.is_other_key,
            created_ms: wall_ms().saturating_sub(write.replied_ms_ago),
            tags: write.tags,
            content: write.content,
        });
        if !queued {
            slot.end_write(number);
            tier.counts.dropped.add(1);
        }
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        // In a copy of the process there is no such thread, and the folder is that of the other process.
        if !self.tier.has_forked() {
            self.tier.queue.close();
            // What is not marked as clean by then is still valid until the machine stops.
            self.tier.queue.wait_ended(MAX_END);
        }
    }
}

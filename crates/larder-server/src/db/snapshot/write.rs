//! Writes a snapshot.

use std::fs::{File, OpenOptions};
use std::hash::{BuildHasher, RandomState};
use std::io::{BufWriter, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::time::Instant;

use larder_engine::EntryRef;
use larder_engine::raw::Value;

use super::block::Block;
use super::layout::{Footer, KeyHasher, MAX_BLOCKS, Place, block_of, checksum, moved_to};
use super::record::StoredEntry;
use super::unfinished;
use crate::db::{Record, Store};
use crate::error::SnapshotError;

/// Entries that are visited between two looks at the clock.
const VISITED_PER_STEP: usize = 256;
/// Entries are written in the order of the hits that the policy has counted: 0 to 3.
const HIT_COUNTS: usize = 4;
const BUFFER_BYTES: usize = 1 << 20;

/// What was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Written {
    pub(crate) keys: u64,
    pub(crate) bytes: u64,
}

/// Writes the keyspace, which nobody may use meanwhile. Until all of it is on the disk, the file has another name.
///
/// Cost: one visit of each entry, eight bytes of memory for each, and what the disk needs.
pub(crate) fn write(store: &Store, path: &Path, until: Instant) -> Result<Written, SnapshotError> {
    let new = unfinished(path);
    let written = write_to(store, &new, until).and_then(|written| {
        // The disk may have taken long.
        if Instant::now() > until {
            return Err(SnapshotError::TooSlow);
        }
        std::fs::rename(&new, path)?;
        super::open::sync_folder_of(path)?;
        Ok(written)
    });
    if written.is_err() {
        _ = std::fs::remove_file(&new);
    }
    written
}

fn write_to(store: &Store, path: &Path, until: Instant) -> Result<Written, SnapshotError> {
    let file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(path)?;
    let mut writer = Writer::new(store, file);
    let mut cursor = 0;
    loop {
        cursor = store.cache.scan(cursor, VISITED_PER_STEP, |entry| writer.add(entry));
        writer.result()?;
        if cursor == 0 {
            return writer.finish();
        }
        if Instant::now() > until {
            return Err(SnapshotError::TooSlow);
        }
    }
}

struct Writer<'a> {
    store: &'a Store,
    file: BufWriter<File>,
    /// Bytes that are written.
    offset: u64,
    seed: u64,
    hasher: KeyHasher,
    /// The blocks that are being filled, by the hits of their entries.
    open: [Block; HIT_COUNTS],
    /// The blocks with their hits, in the order of their numbers.
    places: Vec<(usize, Place)>,
    index: Vec<u64>,
    /// The first error; nothing is written after it.
    error: Option<SnapshotError>,
}

impl<'a> Writer<'a> {
    fn new(store: &'a Store, file: File) -> Self {
        let seed = RandomState::new().hash_one(0);
        Writer {
            store,
            file: BufWriter::with_capacity(BUFFER_BYTES, file),
            offset: 0,
            seed,
            hasher: KeyHasher::new(seed),
            open: std::array::from_fn(|_| Block::default()),
            places: Vec::new(),
            index: Vec::with_capacity(store.len()),
            error: None,
        }
    }

    /// Adds an entry to the block of those with the same hits.
    fn add(&mut self, entry: EntryRef<'_, Record, ()>) {
        let hits = usize::from(entry.hits()).min(HIT_COUNTS - 1);
        let record = entry.key();
        let serialized;
        let (is_serialized, value) = match record.value() {
            Value::Bytes(bytes) => (false, bytes),
            Value::Object(object) => {
                let Some(bytes) = object.dump(self.store.now_ms()) else { return };
                serialized = bytes;
                (true, &serialized[..])
            }
        };
        let deadline = entry.deadline_ms().map(|ms| self.store.clock.to_unix_ms(ms));
        self.push(hits, &StoredEntry { key: record.key(), deadline, is_serialized, value });
    }

    fn push(&mut self, hits: usize, entry: &StoredEntry<'_>) {
        let block = &mut self.open[hits];
        if block.is_empty() {
            block.number = self.places.len() as u32;
            self.places.push((hits, Place { offset: 0, length: 0, records: 0, checksum: 0 }));
        }
        block.push(entry);
        self.index.push(self.hasher.hash(entry.key).in_block(block.number));
        if block.is_full() {
            self.write_block(hits);
        }
    }

    fn write_block(&mut self, hits: usize) {
        let block = &mut self.open[hits];
        let written = match self.places.len() < MAX_BLOCKS as usize {
            true => self.file.write_all(block.bytes()).map_err(SnapshotError::Io),
            false => Err(SnapshotError::TooManyBlocks(MAX_BLOCKS)),
        };
        let length = block.bytes().len() as u64;
        self.places[block.number as usize].1 =
            Place { offset: self.offset, length, records: block.records(), checksum: block.checksum() };
        self.offset += length;
        block.clear();
        self.error = self.error.take().or(written.err());
    }

    fn result(&mut self) -> Result<(), SnapshotError> {
        self.error.take().map_or(Ok(()), Err)
    }

    fn finish(mut self) -> Result<Written, SnapshotError> {
        for hits in 0..HIT_COUNTS {
            if !self.open[hits].is_empty() {
                self.write_block(hits);
            }
        }
        self.result()?;
        let tables = self.tables();
        let footer = Footer {
            blocks: self.places.len() as u32,
            written_ms: self.store.now_ms(),
            seed: self.seed,
            records: self.index.len() as u64,
            directory: self.offset,
            checksum: checksum(&tables),
        };
        self.file.write_all(&tables)?;
        let footer_bytes = footer.to_bytes();
        self.file.write_all(&footer_bytes)?;
        let file = self.file.into_inner().map_err(std::io::IntoInnerError::into_error)?;
        file.sync_all()?;
        let bytes = self.offset + (tables.len() + footer_bytes.len()) as u64;
        Ok(Written { keys: footer.records, bytes })
    }

    /// The directory, in the order in which the blocks are to be loaded, and the index.
    fn tables(&mut self) -> Vec<u8> {
        let mut order: Vec<u32> = (0..self.places.len() as u32).collect();
        order.sort_by_key(|&number| std::cmp::Reverse(self.places[number as usize].0));
        let mut new_numbers = vec![0; order.len()];
        let mut tables = Vec::new();
        for (new_number, &number) in order.iter().enumerate() {
            new_numbers[number as usize] = new_number as u32;
            self.places[number as usize].1.write(&mut tables);
        }
        for indexed in &mut self.index {
            *indexed = moved_to(*indexed, new_numbers[block_of(*indexed) as usize]);
        }
        self.index.sort_unstable();
        tables.reserve_exact(self.index.len() * 8);
        self.index.iter().for_each(|indexed| tables.extend_from_slice(&indexed.to_le_bytes()));
        tables
    }
}

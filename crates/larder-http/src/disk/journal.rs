//! The journal of purges: a file to which each purge is appended before it takes effect.
//!
//! ```text
//! header   8  magic, "LDPURGE1"
//!         16  id of the generation
//!          8  seed of the keys
//!          8  XXH3 of these bytes
//! record   1  kind
//!          8  number
//!          …  1 history: last dropped key (8), last dropped prefix (8); the first record, and no other one
//!             2 key (8)
//!             3 lengths of origin (4) and path (4), and both
//!             4 all: nothing
//!          4  XXH3 of the record, shortened
//! ```
//!
//! Integers are little-endian. A journal that cannot be read to its end may miss a purge, so it is worth nothing, and with it the
//! entries. One record is one call of the system: a process that is killed has written all of it, or the purge has not returned.

use std::fs::{File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use larder_engine::fork::Process;
use twox_hash::XxHash3_64;

use crate::disk::folder::Folder;
use crate::stored::journal::{Purge, PurgeHistory, PurgeJournal, PurgeKey};

const MAGIC: &[u8; 8] = b"LDPURGE1";
const HEADER_BYTES: usize = 40;
const HISTORY: u8 = 1;
const KEY: u8 = 2;
const PREFIX: u8 = 3;
const ALL: u8 = 4;
/// A longer journal is replaced: by at most 8 MiB, as much as the purges in memory are.
const MAX_BYTES: u64 = 16 << 20;
/// A longer file is not read.
const MAX_READ_BYTES: u64 = 4 * MAX_BYTES;

/// The journal of a folder.
#[derive(Debug)]
pub(super) struct Journal {
    folder: Arc<Folder>,
    seed: u64,
    max_bytes: u64,
    process: Process,
    open: Mutex<Option<OpenJournal>>,
}

/// The journal of a valid generation.
#[derive(Debug)]
struct OpenJournal {
    file: File,
    bytes: u64,
    generation: u128,
}

impl Journal {
    /// The journal of a folder without a generation: it keeps nothing.
    pub(super) fn closed(folder: Arc<Folder>, seed: u64) -> Arc<Journal> {
        let (max_bytes, process) = (MAX_BYTES, Process::current());
        Arc::new(Journal { folder, seed, max_bytes, process, open: Mutex::default() })
    }

    /// The journal of a generation, whose file is continued.
    ///
    /// # Errors
    /// The file cannot be opened.
    pub(super) fn resumed(folder: Arc<Folder>, seed: u64, generation: u128) -> io::Result<Arc<Journal>> {
        let file = OpenOptions::new().append(true).open(folder.purges())?;
        let journal = Journal::closed(folder, seed);
        let bytes = file.metadata()?.len();
        *journal.open() = Some(OpenJournal { file, bytes, generation });
        Ok(journal)
    }

    /// Begins the journal of a new generation. Call it while no purge takes effect.
    ///
    /// # Errors
    /// The folder cannot be written.
    pub(super) fn begin(&self, generation: u128, history: &PurgeHistory) -> io::Result<()> {
        *self.open() = Some(self.write(generation, history)?);
        Ok(())
    }

    /// Keeps no further purge: the generation is over.
    pub(super) fn close(&self) {
        *self.open() = None;
    }

    fn write(&self, generation: u128, history: &PurgeHistory) -> io::Result<OpenJournal> {
        let bytes = encode(generation, self.seed, history);
        let file = self.folder.write_purges(&bytes)?;
        Ok(OpenJournal { file, bytes: bytes.len() as u64, generation })
    }

    fn open(&self) -> MutexGuard<'_, Option<OpenJournal>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl PurgeJournal for Journal {
    fn append(&self, number: u64, purge: &Purge) -> bool {
        // A copy of this process has its own purges, and the folder is not its own.
        if self.process.has_forked() {
            return false;
        }
        let mut open = self.open();
        let Some(journal) = open.as_mut() else { return false };
        let mut record = Vec::with_capacity(64);
        write_purge(&mut record, number, purge);
        match journal.file.write(&record) {
            Ok(written) if written == record.len() => {
                journal.bytes += written as u64;
                journal.bytes > self.max_bytes
            }
            // A purge that the journal misses would be undone by a restart.
            _ => {
                *open = None;
                self.folder.fail();
                false
            }
        }
    }

    fn replace(&self, history: &PurgeHistory) {
        let mut open = self.open();
        let Some(generation) = open.as_ref().map(|journal| journal.generation) else { return };
        *open = self.write(generation, history).ok();
        if open.is_none() {
            self.folder.fail();
        }
    }
}

/// The seed and the purges of a generation; `None` if its journal misses anything.
pub(super) fn read(folder: &Folder, generation: u128) -> Option<(u64, PurgeHistory)> {
    let file = File::open(folder.purges()).ok()?;
    if file.metadata().ok()?.len() > MAX_READ_BYTES {
        return None;
    }
    let mut bytes = Vec::new();
    file.take(MAX_READ_BYTES).read_to_end(&mut bytes).ok()?;
    decode(&bytes, generation)
}

fn encode(generation: u128, seed: u64, history: &PurgeHistory) -> Vec<u8> {
    let mut out = Vec::with_capacity(HEADER_BYTES + 32 + history.purges.len() * 21);
    out.extend_from_slice(MAGIC);
    out.extend_from_slice(&generation.to_le_bytes());
    out.extend_from_slice(&seed.to_le_bytes());
    out.extend_from_slice(&XxHash3_64::oneshot(&out).to_le_bytes());
    write_record(&mut out, HISTORY, history.number, |out| {
        out.extend_from_slice(&history.last_dropped_key.to_le_bytes());
        out.extend_from_slice(&history.last_dropped_prefix.to_le_bytes());
    });
    for (number, purge) in &history.purges {
        write_purge(&mut out, *number, purge);
    }
    out
}

fn write_purge(out: &mut Vec<u8>, number: u64, purge: &Purge) {
    match purge {
        Purge::Key(PurgeKey(key)) => {
            write_record(out, KEY, number, |out| out.extend_from_slice(&key.to_le_bytes()));
        }
        Purge::Prefix { origin, path } => write_record(out, PREFIX, number, |out| {
            // A URI is not as long as that.
            out.extend_from_slice(&(origin.len() as u32).to_le_bytes());
            out.extend_from_slice(&(path.len() as u32).to_le_bytes());
            out.extend_from_slice(origin);
            out.extend_from_slice(path);
        }),
        Purge::All => write_record(out, ALL, number, |_| {}),
    }
}

fn write_record(out: &mut Vec<u8>, kind: u8, number: u64, content: impl FnOnce(&mut Vec<u8>)) {
    let start = out.len();
    out.push(kind);
    out.extend_from_slice(&number.to_le_bytes());
    content(out);
    let check = check_of(&out[start..]);
    out.extend_from_slice(&check);
}

fn check_of(record: &[u8]) -> [u8; 4] {
    (XxHash3_64::oneshot(record) as u32).to_le_bytes()
}

fn decode(bytes: &[u8], generation: u128) -> Option<(u64, PurgeHistory)> {
    let (header, mut rest) = bytes.split_at_checked(HEADER_BYTES)?;
    let (content, check) = header.split_at(HEADER_BYTES - 8);
    let is_ours = content.starts_with(MAGIC)
        && content[8..24] == generation.to_le_bytes()
        && check == XxHash3_64::oneshot(content).to_le_bytes();
    if !is_ours {
        return None;
    }
    let seed = u64::from_le_bytes(content[24..].try_into().ok()?);
    let mut history = None;
    while !rest.is_empty() {
        rest = decode_record(rest, &mut history)?;
    }
    Some((seed, history?))
}

/// Adds one record to the history. Returns what comes after it.
fn decode_record<'a>(record: &'a [u8], history: &mut Option<PurgeHistory>) -> Option<&'a [u8]> {
    let mut rest = record;
    let [kind] = take(&mut rest)?;
    let number = u64::from_le_bytes(take(&mut rest)?);
    let purge = match (kind, &history) {
        (HISTORY, None) => {
            let last_dropped_key = u64::from_le_bytes(take(&mut rest)?);
            let last_dropped_prefix = u64::from_le_bytes(take(&mut rest)?);
            *history =
                Some(PurgeHistory { number, last_dropped_key, last_dropped_prefix, purges: Vec::new() });
            None
        }
        (KEY, Some(_)) => Some(Purge::Key(PurgeKey(u64::from_le_bytes(take(&mut rest)?)))),
        (PREFIX, Some(_)) => {
            let origin_bytes = u32::from_le_bytes(take(&mut rest)?) as usize;
            let path_bytes = u32::from_le_bytes(take(&mut rest)?) as usize;
            let (origin, after) = rest.split_at_checked(origin_bytes)?;
            let (path, after) = after.split_at_checked(path_bytes)?;
            rest = after;
            Some(Purge::Prefix { origin: origin.into(), path: path.into() })
        }
        (ALL, Some(_)) => Some(Purge::All),
        _ => return None,
    };
    let content = &record[..record.len() - rest.len()];
    if take::<4>(&mut rest)? != check_of(content) {
        return None;
    }
    if let (Some(history), Some(purge)) = (history, purge) {
        history.purges.push((number, purge));
    }
    Some(rest)
}

fn take<const N: usize>(bytes: &mut &[u8]) -> Option<[u8; N]> {
    let (part, rest) = bytes.split_first_chunk()?;
    *bytes = rest;
    Some(*part)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use tempfile::tempdir;

    const ID: u128 = 7;
    const SEED: u64 = 11;

    fn purges() -> Vec<(u64, Purge)> {
        vec![
            (3, Purge::Key(PurgeKey(42))),
            (4, Purge::Prefix { origin: (*b"origin").into(), path: (*b"/a/").into() }),
            (5, Purge::All),
            (6, Purge::Key(PurgeKey(u64::MAX))),
        ]
    }

    fn history() -> PurgeHistory {
        PurgeHistory { number: 2, last_dropped_key: 1, last_dropped_prefix: 2, purges: Vec::new() }
    }

    fn begun(path: &std::path::Path) -> Arc<Journal> {
        let folder = Arc::new(Folder::open(path, Some("boot".to_owned())).unwrap());
        folder.renew().unwrap();
        folder.begin(ID).unwrap();
        let journal = Journal::closed(folder, SEED);
        journal.begin(ID, &history()).unwrap();
        journal
    }

    #[test]
    fn appended_purges_are_read_in_their_order() {
        let parent = tempdir().unwrap();
        let journal = begun(parent.path());
        for (number, purge) in purges() {
            assert!(!journal.append(number, &purge));
        }
        let expected = PurgeHistory { purges: purges(), ..history() };
        assert_eq!(read(&journal.folder, ID), Some((SEED, expected)));
        assert_eq!(read(&journal.folder, ID + 1), None, "another generation");
    }

    #[test]
    fn resumed_journal_is_continued() {
        let parent = tempdir().unwrap();
        let journal = begun(parent.path());
        journal.append(3, &Purge::All);
        let resumed = Journal::resumed(journal.folder.clone(), SEED, ID).unwrap();
        resumed.append(4, &Purge::All);
        let (_, read) = read(&resumed.folder, ID).unwrap();
        assert_eq!(read.purges, [(3, Purge::All), (4, Purge::All)]);
    }

    #[test]
    fn journal_with_any_changed_or_missing_byte_is_worth_nothing() {
        let whole = encode(ID, SEED, &PurgeHistory { purges: purges(), ..history() });
        let records = [9 + 16 + 4, 9 + 8 + 4, 9 + 8 + 6 + 3 + 4, 9 + 4, 9 + 8 + 4];
        let ends: Vec<usize> = records
            .iter()
            .scan(HEADER_BYTES, |end, bytes| {
                *end += bytes;
                Some(*end)
            })
            .collect();
        assert_eq!(ends.last(), Some(&whole.len()));
        for len in 0..whole.len() {
            assert_eq!(decode(&whole[..len], ID).is_some(), ends.contains(&len), "{len} bytes");
        }
        for at in 0..whole.len() {
            for bit in 0..8 {
                let mut changed = whole.clone();
                changed[at] ^= 1 << bit;
                assert_eq!(decode(&changed, ID), None, "bit {bit} of byte {at}");
            }
        }
    }

    #[test]
    fn long_journal_asks_to_be_replaced() {
        let parent = tempdir().unwrap();
        let begun = begun(parent.path());
        let folder = begun.folder.clone();
        let journal = Journal {
            folder,
            seed: SEED,
            max_bytes: 100,
            process: Process::current(),
            open: Mutex::new(begun.open().take()),
        };
        let appended = (3..).take_while(|number| !journal.append(*number, &Purge::All)).count();
        assert_eq!(appended, 2, "69 bytes of header and history, and 13 for each");
        journal.replace(&PurgeHistory { number: 5, ..history() });
        assert!(!journal.append(6, &Purge::All));
        let (_, read) = read(&journal.folder, ID).unwrap();
        assert_eq!((read.number, read.purges), (5, vec![(6, Purge::All)]));
    }

    /// A disk without room: nothing that was there before may be served after a restart.
    #[test]
    fn purge_that_cannot_be_written_ends_the_generation() {
        let parent = tempdir().unwrap();
        let journal = begun(parent.path());
        let full = OpenOptions::new().write(true).open("/dev/full").unwrap();
        journal.open().as_mut().unwrap().file = full;
        assert!(!journal.append(3, &Purge::All));
        assert!(!journal.folder.is_on());
        assert_eq!(journal.folder.resume().unwrap(), None);
        assert!(!fs::exists(parent.path().join("generation")).unwrap());
        assert!(journal.open().is_none());
    }
}

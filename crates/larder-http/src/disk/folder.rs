//! The folder of a disk tier: what lies where, the lock that keeps other processes out, and the generation, which says whether
//! what the folder has may still be served.

use std::fs::{self, DirBuilder, File, OpenOptions, Permissions, TryLockError};
use std::io::{self, ErrorKind, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use crate::stored::record::new_id;

/// What the lock file of a folder begins with, in every format.
const MARK: &str = "larder response cache, format ";
/// The format of this version.
const FORMAT: &str = "1\n";

const LOCK: &str = "lock";
const GENERATION: &str = "generation";
const PURGES: &str = "purges";
const CLEAN: &str = "clean";
const OTHER_KEYS: &str = "other-keys";
const ENTRIES: &str = "entries";
/// The beginning of the name of a folder with the entries of a former generation.
const DISCARDED: &str = "discarded-";
/// The end of the name of a file that is being written.
pub(super) const UNFINISHED: &str = ".part";

/// Why a folder cannot be used for the disk tier of a cache.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DiskError {
    /// Too small for anything.
    #[error("max_bytes of the disk tier is {0}; it must be 1 MiB to 256 TiB")]
    MaxBytes(u64),
    /// Another process, or another cache of this one, uses the folder.
    #[error("{} is in use by another response cache", .0.display())]
    InUse(PathBuf),
    /// The folder has something that is not of a response cache. Nothing in it was changed.
    #[error("{} has {name:?}, which is not of a response cache: name an empty folder", folder.display())]
    Foreign {
        /// The folder.
        folder: PathBuf,
        /// The name of a file in it.
        name: String,
    },
    /// The folder is of a version of this crate with another format. Nothing in it was changed.
    #[error("{} is of another version: delete it, or name another folder", .0.display())]
    OtherFormat(PathBuf),
    /// It is not a folder, or may not be read or written.
    #[error("cannot use {}: {reason}", folder.display())]
    Unusable {
        /// The folder.
        folder: PathBuf,
        /// What the operating system says.
        reason: String,
    },
}

/// A folder that this process has locked.
#[derive(Debug)]
pub(super) struct Folder {
    path: PathBuf,
    /// Which start of the machine this is, if the system tells.
    boot: Option<String>,
    /// The folder is locked as long as this file is open, or until [`Folder::unlock`].
    lock: File,
    /// Whether the generation is valid: entries may be read and written.
    is_on: AtomicBool,
    /// Whether a generation is over and could not be removed yet.
    is_removal_due: AtomicBool,
}

impl Folder {
    /// Creates the folder, or checks that it is one, and locks it. It has no valid generation yet.
    ///
    /// # Errors
    /// Every [`DiskError`] but that of the size.
    pub(super) fn open(path: &Path, boot: Option<String>) -> Result<Folder, DiskError> {
        let unusable =
            |error: io::Error| DiskError::Unusable { folder: path.into(), reason: error.to_string() };
        match DirBuilder::new().mode(0o700).create(path) {
            Err(error) if error.kind() != ErrorKind::AlreadyExists => return Err(unusable(error)),
            _ => {}
        }
        check_names(path)?;
        let lock_path = path.join(LOCK);
        let mut lock = private_file().read(true).append(true).open(&lock_path).map_err(unusable)?;
        match lock.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Err(DiskError::InUse(path.into())),
            Err(TryLockError::Error(error)) => return Err(unusable(error)),
        }
        // Whoever had the lock meanwhile may have written more.
        check_names(path)?;
        if lock.metadata().map_err(unusable)?.len() == 0 {
            lock.write_all(format!("{MARK}{FORMAT}").as_bytes()).map_err(unusable)?;
        }
        fs::set_permissions(path, Permissions::from_mode(0o700)).map_err(unusable)?;
        Ok(Folder {
            path: path.into(),
            boot,
            lock,
            is_on: AtomicBool::new(false),
            is_removal_due: AtomicBool::new(false),
        })
    }

    /// Whether entries may be read and written.
    pub(super) fn is_on(&self) -> bool {
        self.is_on.load(Ordering::SeqCst)
    }

    pub(super) fn turn_on(&self) {
        self.is_on.store(true, Ordering::SeqCst);
    }

    /// The id of the generation, if it was not written to before the machine stopped, or the machine has not stopped. From now
    /// on a stop of the machine ends it.
    ///
    /// # Errors
    /// The folder cannot be written.
    pub(super) fn resume(&self) -> io::Result<Option<u128>> {
        let clean = fs::read_to_string(self.path.join(CLEAN)).ok().and_then(|text| parse_id(&text));
        if remove(&self.path.join(CLEAN))? {
            // Before anything that a sudden stop of the machine could undo.
            self.sync_folder()?;
        }
        let Ok(text) = fs::read_to_string(self.path.join(GENERATION)) else { return Ok(None) };
        let Some((id, boot)) = text.split_once('\n').and_then(|(id, boot)| Some((parse_id(id)?, boot)))
        else {
            return Ok(None);
        };
        let has_same_boot =
            self.boot.as_deref().is_some_and(|current| boot.strip_suffix('\n') == Some(current));
        if !has_same_boot && clean != Some(id) {
            return Ok(None);
        }
        if !has_same_boot {
            self.write_generation(id)?;
        }
        Ok(Some(id))
    }

    /// Ends the generation, if there is one, and sets aside what it has. Returns the id of the next one, which begins with
    /// [`Folder::begin`].
    ///
    /// # Errors
    /// The folder cannot be written.
    pub(super) fn renew(&self) -> io::Result<u128> {
        self.end()?;
        remove(&self.path.join(OTHER_KEYS))?;
        let id = new_id();
        match fs::rename(self.entries(), self.path.join(format!("{DISCARDED}{id:032x}"))) {
            Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        create_folder(&self.entries())?;
        Ok(id)
    }

    /// Begins a generation, whose purges have a journal already.
    ///
    /// # Errors
    /// The folder cannot be written.
    pub(super) fn begin(&self, id: u128) -> io::Result<()> {
        self.write_generation(id)?;
        self.turn_on();
        Ok(())
    }

    fn write_generation(&self, id: u128) -> io::Result<()> {
        let boot = self.boot.as_deref().unwrap_or("unknown");
        self.write(GENERATION, format!("{id:032x}\n{boot}\n").as_bytes()).map(drop)
    }

    /// The generation is over: what the folder has is not served any more, also not by another process. If the system does not
    /// allow to remove it, [`Folder::retry_end`] tries again.
    pub(super) fn fail(&self) {
        self.is_on.store(false, Ordering::SeqCst);
        self.is_removal_due.store(true, Ordering::SeqCst);
        self.retry_end();
    }

    /// Removes a generation that is over, if that was not possible yet.
    pub(super) fn retry_end(&self) {
        if self.is_removal_due.load(Ordering::SeqCst) && self.end().is_ok() {
            self.is_removal_due.store(false, Ordering::SeqCst);
        }
    }

    /// Entries without a generation, and a generation without a journal, are worth nothing: one of them must go. Neither needs
    /// room on the disk.
    fn end(&self) -> io::Result<()> {
        let removed = remove(&self.path.join(GENERATION)).or_else(|_| remove(&self.purges()));
        removed.map(drop)
    }

    /// Writes all that the operating system has of the folder to the disk, then the mark that this was done.
    ///
    /// # Errors
    /// The folder cannot be written. Then the mark is missing.
    #[cfg(target_os = "linux")]
    pub(super) fn finish(&self, id: u128) -> io::Result<()> {
        rustix::fs::syncfs(File::open(&self.path)?)?;
        let mark = self.write(CLEAN, format!("{id:032x}\n").as_bytes())?;
        mark.sync_all()?;
        self.sync_folder()
    }

    /// Other systems have no call that ends when all of one file system is on the disk.
    #[cfg(not(target_os = "linux"))]
    pub(super) fn finish(&self, _: u128) -> io::Result<()> {
        Ok(())
    }

    /// Lets another owner use the folder. Nothing is read or written after this.
    pub(super) fn unlock(&self) {
        self.is_on.store(false, Ordering::SeqCst);
        // If it fails, the end of the last thread unlocks it.
        _ = self.lock.unlock();
    }

    fn sync_folder(&self) -> io::Result<()> {
        File::open(&self.path)?.sync_all()
    }

    /// Replaces a file of the folder at once.
    ///
    /// # Errors
    /// The folder cannot be written. Then the file is as before.
    pub(super) fn write(&self, name: &str, bytes: &[u8]) -> io::Result<File> {
        let unfinished = self.path.join(format!("{name}{UNFINISHED}"));
        let mut file = private_file().write(true).truncate(true).open(&unfinished)?;
        file.write_all(bytes)?;
        fs::rename(&unfinished, self.path.join(name))?;
        Ok(file)
    }

    /// The journal of purges.
    pub(super) fn purges(&self) -> PathBuf {
        self.path.join(PURGES)
    }

    /// Replaces the journal of purges. Returns it, to be written at its end.
    ///
    /// # Errors
    /// The folder cannot be written.
    pub(super) fn write_purges(&self, bytes: &[u8]) -> io::Result<File> {
        self.write(PURGES, bytes)
    }

    /// Whether entries of this generation may have other keys than that of a URI.
    pub(super) fn has_other_keys(&self) -> bool {
        self.path.join(OTHER_KEYS).exists()
    }

    /// Notes that entries have other keys than that of a URI.
    ///
    /// # Errors
    /// The folder cannot be written.
    pub(super) fn note_other_keys(&self) -> io::Result<()> {
        self.write(OTHER_KEYS, b"").map(drop)
    }

    /// The folder of the entries.
    pub(super) fn entries(&self) -> PathBuf {
        self.path.join(ENTRIES)
    }

    /// The file of an entry.
    pub(super) fn entry(&self, name: u128) -> PathBuf {
        self.part_of(name).join(format!("{name:032x}"))
    }

    /// The folder in which the file of an entry is.
    pub(super) fn part_of(&self, name: u128) -> PathBuf {
        self.entries().join(format!("{:02x}", name >> 120))
    }

    /// The number of files of entries.
    pub(super) fn count_entries(&self) -> u64 {
        let parts = fs::read_dir(self.entries()).into_iter().flatten().flatten();
        let files = parts.flat_map(|part| fs::read_dir(part.path()).into_iter().flatten().flatten());
        files.filter(|file| file.file_name().to_str().and_then(entry_name).is_some()).count() as u64
    }

    /// Removes the entries of former generations.
    pub(super) fn remove_discarded(&self) {
        let Ok(names) = fs::read_dir(&self.path) else { return };
        for name in names.flatten() {
            if name.file_name().to_str().is_some_and(|name| name.starts_with(DISCARDED)) {
                remove_entries(&name.path());
            }
        }
    }
}

/// Which start of the machine this is; no other one has the same text.
pub(super) fn boot_id() -> Option<String> {
    let text = fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?;
    Some(text.trim().to_owned()).filter(|text| !text.is_empty())
}

/// Options for a file that only its owner may read.
pub(super) fn private_file() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.create(true).mode(0o600);
    options
}

/// Creates a folder that only its owner may read, unless it exists.
///
/// # Errors
/// The folder above it cannot be written.
pub(super) fn create_folder(path: &Path) -> io::Result<()> {
    match DirBuilder::new().mode(0o700).create(path) {
        Err(error) if error.kind() != ErrorKind::AlreadyExists => Err(error),
        _ => Ok(()),
    }
}

/// Removes a file. Returns whether it was there.
///
/// # Errors
/// It is still there.
pub(super) fn remove(path: &Path) -> io::Result<bool> {
    match fs::remove_file(path) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error),
    }
}

/// The name of an entry in the name of its file.
pub(super) fn entry_name(file: &str) -> Option<u128> {
    let is_ours = file.len() == 32 && file.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
    if is_ours { u128::from_str_radix(file, 16).ok() } else { None }
}

/// Removes the entries below a folder, and nothing else: what is not one stays, with its folder.
fn remove_entries(path: &Path) {
    for part in fs::read_dir(path).into_iter().flatten().flatten() {
        for file in fs::read_dir(part.path()).into_iter().flatten().flatten() {
            let name = file.file_name();
            let name = name.to_str().unwrap_or_default();
            if entry_name(name.strip_suffix(UNFINISHED).unwrap_or(name)).is_some() {
                _ = fs::remove_file(file.path());
            }
        }
        _ = fs::remove_dir(part.path());
    }
    _ = fs::remove_dir(path);
}

/// Whether the folder is empty, or one of a response cache.
fn check_names(path: &Path) -> Result<(), DiskError> {
    let unusable = |error: io::Error| DiskError::Unusable { folder: path.into(), reason: error.to_string() };
    let mut is_empty = true;
    for file in fs::read_dir(path).map_err(unusable)? {
        let name = file.map_err(unusable)?.file_name();
        let name = name.to_string_lossy();
        let base = name.strip_suffix(UNFINISHED).unwrap_or(&name);
        let is_ours = [LOCK, GENERATION, PURGES, CLEAN, OTHER_KEYS, ENTRIES].contains(&base)
            || base.strip_prefix(DISCARDED).is_some_and(|id| parse_id(id).is_some());
        if !is_ours {
            return Err(DiskError::Foreign { folder: path.into(), name: name.into_owned() });
        }
        is_empty &= base == LOCK;
    }
    match fs::read_to_string(path.join(LOCK)) {
        Ok(text) if text == format!("{MARK}{FORMAT}") => Ok(()),
        Ok(text) if text.starts_with(MARK) => Err(DiskError::OtherFormat(path.into())),
        // It was created a moment ago.
        Ok(text) if text.is_empty() && is_empty => Ok(()),
        Err(error) if error.kind() == ErrorKind::NotFound && is_empty => Ok(()),
        Err(error) if error.kind() == ErrorKind::PermissionDenied => Err(unusable(error)),
        _ => Err(DiskError::Foreign { folder: path.into(), name: LOCK.to_owned() }),
    }
}

fn parse_id(text: &str) -> Option<u128> {
    entry_name(text.strip_suffix('\n').unwrap_or(text))
}

#[cfg(test)]
mod tests {
    use super::*;
    use tempfile::tempdir;

    fn open(path: &Path, boot: &str) -> Folder {
        Folder::open(path, Some(boot.to_owned())).unwrap()
    }

    #[test]
    fn folder_and_its_files_are_private() {
        let parent = tempdir().unwrap();
        let path = parent.path().join("cache");
        let folder = open(&path, "boot");
        let id = folder.renew().unwrap();
        folder.begin(id).unwrap();
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!(mode(&path), 0o700);
        assert_eq!(mode(&folder.entries()), 0o700);
        assert_eq!((mode(&path.join(LOCK)), mode(&path.join(GENERATION))), (0o600, 0o600));
    }

    #[test]
    fn second_owner_is_refused() {
        let parent = tempdir().unwrap();
        let folder = open(parent.path(), "boot");
        let error = Folder::open(parent.path(), None).unwrap_err();
        assert_eq!(error, DiskError::InUse(parent.path().into()));
        assert!(error.to_string().contains("in use"), "{error}");
        drop(folder);
        open(parent.path(), "boot");
    }

    #[test]
    fn foreign_folder_is_refused_and_unchanged() {
        for (name, text, is_other_format) in
            [("photo.jpg", "", false), (LOCK, "larder response cache, format 2\n", true), (LOCK, "x", false)]
        {
            let parent = tempdir().unwrap();
            fs::write(parent.path().join(name), text).unwrap();
            match Folder::open(parent.path(), None).unwrap_err() {
                DiskError::OtherFormat(_) => assert!(is_other_format),
                DiskError::Foreign { name: found, .. } => {
                    assert_eq!((&*found, is_other_format), (name, false))
                }
                other => panic!("{other}"),
            }
            let left: Vec<_> =
                fs::read_dir(parent.path()).unwrap().map(|file| file.unwrap().file_name()).collect();
            assert_eq!(left, [name]);
            assert_eq!(fs::read_to_string(parent.path().join(name)).unwrap(), text);
        }
    }

    #[test]
    fn generation_is_resumed_by_the_same_boot_or_after_a_clean_end() {
        let parent = tempdir().unwrap();
        let start = |boot: &str| open(parent.path(), boot);
        let first = start("one");
        assert_eq!(first.resume().unwrap(), None, "a new folder has none");
        let id = first.renew().unwrap();
        first.begin(id).unwrap();
        drop(first);
        assert_eq!(start("one").resume().unwrap(), Some(id), "the process was killed");
        assert_eq!(start("two").resume().unwrap(), None, "the machine has stopped");
        start("one").finish(id).unwrap();
        assert_eq!(start("two").resume().unwrap(), Some(id), "all was written before");
        assert_eq!(start("two").resume().unwrap(), Some(id), "it has the new boot now");
        assert_eq!(start("three").resume().unwrap(), None, "the mark is for one start");
    }

    #[test]
    fn generation_is_not_resumed_without_boot_id() {
        let parent = tempdir().unwrap();
        let folder = Folder::open(parent.path(), None).unwrap();
        let id = folder.renew().unwrap();
        folder.begin(id).unwrap();
        assert_eq!(folder.resume().unwrap(), None);
        folder.finish(id).unwrap();
        assert_eq!(folder.resume().unwrap(), Some(id));
    }

    #[test]
    fn failed_generation_is_never_resumed() {
        let parent = tempdir().unwrap();
        let folder = open(parent.path(), "one");
        let id = folder.renew().unwrap();
        folder.begin(id).unwrap();
        assert!(folder.is_on());
        folder.fail();
        assert!(!folder.is_on());
        assert_eq!(folder.resume().unwrap(), None);
        assert_ne!(folder.renew().unwrap(), id);
    }

    #[test]
    fn renewal_removes_entries_and_nothing_else() {
        let parent = tempdir().unwrap();
        let folder = open(parent.path(), "one");
        folder.renew().unwrap();
        create_folder(&folder.part_of(7)).unwrap();
        fs::write(folder.entry(7), "entry").unwrap();
        fs::write(folder.part_of(7).join("notes.txt"), "mine").unwrap();
        let id = folder.renew().unwrap();
        assert!(!folder.entry(7).exists());
        folder.remove_discarded();
        let left = parent.path().join(format!("{DISCARDED}{id:032x}")).join("00");
        let left: Vec<_> = fs::read_dir(left).unwrap().map(|file| file.unwrap().file_name()).collect();
        assert_eq!(left, ["notes.txt"]);
    }
}

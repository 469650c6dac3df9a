//! A file that gets its name when it is complete and on the disk, for backups and exports: under its final name it is always
//! whole, whatever ends the program, and however many programs write it.
//!
//! Until then it has a name of its own in the same folder, such as `links.csv.k3Jd9x.partial`, that only a program that is
//! killed leaves behind, for a backup with SQLite's journal of it.

use std::ffi::OsString;
use std::fs::{File, canonicalize};
use std::io::{Error, ErrorKind, Result, Write};
use std::path::{Path, PathBuf};
use tempfile::NamedTempFile;

/// What SQLite appends to the name of a database for its own files; nothing for the database itself.
const DATABASE_FILES: [&str; 4] = ["", "-wal", "-shm", "-journal"];

/// A file that is being written. Only its owner can read it. A drop removes it.
pub(crate) struct NewFile {
    file: NamedTempFile,
    to: PathBuf,
}

impl NewFile {
    /// A file that will be `to`, and replace it if it exists; a symbolic link leads to the file that is meant.
    ///
    /// # Errors
    /// `InvalidInput` if `to` is the file of the open `database` or one of its log files: the programs that use it would lose their
    /// writes; or if it is something else than a file, such as `/dev/null`, that would be replaced by one. Or the error of the
    /// file system.
    pub(super) fn create(to: &Path, database: Option<&Path>) -> Result<NewFile> {
        let to = resolved(to)?;
        let database = database.map(resolved).transpose()?;
        let is_of_database =
            |database| DATABASE_FILES.iter().any(|suffix| to == with_suffix(database, suffix));
        if database.as_deref().is_some_and(is_of_database) {
            return Err(Error::new(ErrorKind::InvalidInput, "it is the database or a log file of it"));
        }
        if to.metadata().is_ok_and(|metadata| !metadata.is_file()) {
            return Err(Error::new(ErrorKind::InvalidInput, "it is not a regular file"));
        }
        let prefix = with_suffix(Path::new(to.file_name().unwrap_or_default()), ".");
        let mut options = tempfile::Builder::new();
        let options = options.prefix(prefix.as_os_str()).suffix(".partial");
        Ok(NewFile { file: options.tempfile_in(folder_of(&to))?, to })
    }

    /// Its name until it is complete.
    pub(super) fn path(&self) -> &Path {
        self.file.path()
    }

    /// Gives the file its name. Blocks until it is on the disk.
    pub(crate) fn finish(self) -> Result<()> {
        self.file.as_file().sync_all()?;
        self.file.persist(&self.to)?;
        File::open(folder_of(&self.to))?.sync_all()
    }
}

impl Write for NewFile {
    fn write(&mut self, bytes: &[u8]) -> Result<usize> {
        self.file.write(bytes)
    }

    fn flush(&mut self) -> Result<()> {
        self.file.flush()
    }
}

/// A path without symbolic links. The file itself need not exist.
fn resolved(path: &Path) -> Result<PathBuf> {
    match canonicalize(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => {
            if let Ok(target) = path.read_link() {
                return resolved(&folder_of(path).join(target));
            }
            let name = path.file_name().ok_or(error)?;
            Ok(canonicalize(folder_of(path))?.join(name))
        }
        resolved => resolved,
    }
}

fn folder_of(path: &Path) -> &Path {
    path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

pub(super) fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut name = OsString::from(path);
    name.push(suffix);
    name.into()
}

//! A copy of the database while programs use it.
//!
//! SQLite writes the copy from one read transaction, the log included, so it is the state of one moment. It is written under
//! a temporary name and renamed when it is complete and on the disk: a file with the final name is always whole.

use super::StoreError;
use rusqlite::{Connection, OpenFlags};
use std::ffi::OsString;
use std::fs::{File, OpenOptions};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The file that keeps the state before a migration from `version`: `links.db` becomes `links.db.v4.backup`.
pub(super) fn path_before_migration(database: &Path, version: i64) -> PathBuf {
    with_suffix(database, &format!(".v{version}.backup"))
}

/// Copies the database `from` into the file `to`, which only its owner can read. An existing file is replaced.
pub(super) fn copy(from: &Path, to: &Path) -> Result<(), StoreError> {
    let failed =
        |source: Arc<dyn std::error::Error + Send + Sync>| StoreError::Backup { path: to.to_owned(), source };
    let partial = with_suffix(to, ".partial");
    let copied = make_empty(&partial).and_then(|()| {
        let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let vacuum = Connection::open_with_flags(from, flags)
            .and_then(|reader| reader.execute("VACUUM INTO ?1", [partial.display().to_string()]));
        vacuum.map_err(std::io::Error::other)?;
        File::open(&partial)?.sync_all()?;
        std::fs::rename(&partial, to)?;
        sync_folder_of(to)
    });
    copied.map_err(|error| {
        // What is left of it is no backup.
        let _ = std::fs::remove_file(&partial);
        failed(Arc::new(error))
    })
}

/// SQLite writes into an existing file if it is empty, and keeps its mode.
fn make_empty(path: &Path) -> std::io::Result<()> {
    match std::fs::remove_file(path) {
        Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(path).map(drop)
}

fn sync_folder_of(path: &Path) -> std::io::Result<()> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    File::open(folder)?.sync_all()
}

fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut name = OsString::from(path);
    name.push(suffix);
    name.into()
}

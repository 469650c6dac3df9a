//! A copy of the database while programs use it.
//!
//! SQLite writes the copy from one read transaction, the log included, so it is the state of one moment.

use crate::store::StoreError;
use crate::store::new_file::{NewFile, with_suffix};
use rusqlite::{Connection, OpenFlags};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The file that keeps the state before a migration from `version`: `links.db` becomes `links.db.v4.backup`.
pub(super) fn path_before_migration(database: &Path, version: i64) -> PathBuf {
    with_suffix(database, &format!(".v{version}.backup"))
}

/// Copies the database `from` into the file `to`, which only its owner can read. An existing file is replaced when the copy is
/// complete, unless it is the database itself.
pub(super) fn copy(from: &Path, to: &Path) -> Result<(), StoreError> {
    let failed = |error: std::io::Error| StoreError::Backup { path: to.to_owned(), source: Arc::new(error) };
    let file = NewFile::create(to, Some(from)).map_err(failed)?;
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    // SQLite writes into an existing file if it is empty, and keeps its mode.
    Connection::open_with_flags(from, flags)
        .and_then(|reader| reader.execute("VACUUM INTO ?1", [file.path().display().to_string()]))
        .map_err(|error| failed(std::io::Error::other(error)))?;
    file.finish().map_err(failed)
}

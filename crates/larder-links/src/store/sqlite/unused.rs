//! A database file that no other program has open, to read all of it.

use super::{migrate, open, statements};
use crate::store::{DatabaseAddress, StoreConfig, StoreError};
use rusqlite::{Connection, OpenFlags, OptionalExtension};
use std::path::Path;

/// A database file for this program alone. Other programs get it back with the drop.
pub(in crate::store) struct Unused(Connection);

impl Unused {
    /// Opens and migrates a file that exists.
    ///
    /// # Errors
    /// [`StoreError::InUse`] if another program has it open.
    pub(in crate::store) fn open(path: &Path) -> Result<Unused, StoreError> {
        let config = StoreConfig { busy_timeout: std::time::Duration::ZERO, ..StoreConfig::new(path) };
        let mut connection = open(path, &config, OpenFlags::SQLITE_OPEN_READ_WRITE)?;
        // SQLite gives up its log only if no other connection, not even an idle one, is open.
        let in_use = |error: rusqlite::Error| match StoreError::from(error) {
            StoreError::Locked(_) => StoreError::InUse { database: DatabaseAddress::Sqlite(path.to_owned()) },
            error => error,
        };
        let mode: String =
            connection.query_row("PRAGMA journal_mode = DELETE", [], |row| row.get(0)).map_err(in_use)?;
        debug_assert_eq!(mode, "delete");
        migrate::migrate(&mut connection, path)?;
        connection.execute_batch("BEGIN EXCLUSIVE").map_err(in_use)?;
        Ok(Unused(connection))
    }

    pub(in crate::store) fn connection(&self) -> &Connection {
        &self.0
    }

    pub(in crate::store) fn slug_key(&self) -> Result<[u8; 16], StoreError> {
        Ok(statements::slug_key(&self.0)?)
    }

    /// The greatest id that the table has ever had.
    pub(in crate::store) fn last_id(&self, table: &str) -> Result<i64, StoreError> {
        let last = "SELECT seq FROM sqlite_sequence WHERE name = ?1";
        Ok(self.0.query_row(last, [table], |row| row.get(0)).optional()?.unwrap_or(0))
    }
}

//! SQLite in one file. Readers run on threads that may block.

use super::CONNECTIONS;
use super::pool::Pool;
use anyhow::{Context, Result};
use rusqlite::{Connection, OptionalExtension};
use std::path::Path;
use std::sync::Arc;

#[derive(Clone)]
pub(crate) struct Sqlite(Pool<Connection>);

impl Sqlite {
    pub(super) fn create<'a>(
        folder: &Path,
        entries: impl IntoIterator<Item = (String, &'a str)>,
    ) -> Result<Self> {
        let path = folder.join("bench.db");
        let mut writer = Connection::open(&path).context("cannot create the database")?;
        writer.execute_batch(
            "PRAGMA journal_mode = WAL; DROP TABLE IF EXISTS entries; \
             CREATE TABLE entries (id INTEGER PRIMARY KEY, key TEXT UNIQUE, value TEXT);",
        )?;
        let transaction = writer.transaction()?;
        for (key, value) in entries {
            let mut statement =
                transaction.prepare_cached("INSERT INTO entries (key, value) VALUES (?, ?)")?;
            statement.execute([&key, value])?;
        }
        transaction.commit()?;
        let connections = (0..CONNECTIONS).map(|_| Connection::open(&path)).collect::<Result<_, _>>()?;
        Ok(Sqlite(Pool::new(connections)))
    }

    pub(super) async fn read(&self, key: &str) -> Result<Option<Arc<str>>> {
        let (connection, key) = (self.0.take().await?, key.to_owned());
        tokio::task::spawn_blocking(move || {
            let mut statement = connection.prepare_cached("SELECT value FROM entries WHERE key = ?")?;
            Ok(statement.query_row([&key], |row| row.get(0)).optional()?)
        })
        .await?
    }
}

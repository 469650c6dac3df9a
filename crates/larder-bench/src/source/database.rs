//! Keys and values in SQLite behind ten connections, as many as the documents have.

use anyhow::{Context, Result};
use parking_lot::Mutex;
use rusqlite::{Connection, OptionalExtension};
use std::path::Path;
use std::sync::Arc;
use tokio::sync::Semaphore;

const CONNECTIONS: usize = 10;

/// The connections; a reader that finds none waits.
#[derive(Clone)]
pub(crate) struct Database(Arc<Pool>);

struct Pool {
    idle: Mutex<Vec<Connection>>,
    permits: Semaphore,
}

impl Database {
    /// Creates the database with its entries, and opens the connections.
    pub(crate) fn create<'a>(
        folder: &Path,
        entries: impl IntoIterator<Item = (String, &'a str)>,
    ) -> Result<Self> {
        let path = folder.join("bench.db");
        let mut writer = Connection::open(&path).context("cannot create the database")?;
        writer.execute_batch(
            "PRAGMA journal_mode = WAL; CREATE TABLE entries (id INTEGER PRIMARY KEY, key TEXT UNIQUE, value TEXT);",
        )?;
        let transaction = writer.transaction()?;
        for (key, value) in entries {
            let mut statement =
                transaction.prepare_cached("INSERT INTO entries (key, value) VALUES (?, ?)")?;
            statement.execute([&key, value])?;
        }
        transaction.commit()?;
        let idle = (0..CONNECTIONS).map(|_| Connection::open(&path)).collect::<Result<_, _>>()?;
        let pool = Pool { idle: Mutex::new(idle), permits: Semaphore::new(CONNECTIONS) };
        Ok(Database(Arc::new(pool)))
    }

    /// The value of a key.
    pub(crate) async fn read(&self, key: &str) -> Result<Option<Arc<str>>> {
        let _permit = self.0.permits.acquire().await?;
        let (pool, key) = (self.0.clone(), key.to_owned());
        tokio::task::spawn_blocking(move || {
            let connection = pool.idle.lock().pop().context("a permit is a connection")?;
            let value = read(&connection, &key);
            pool.idle.lock().push(connection);
            value
        })
        .await?
    }
}

fn read(connection: &Connection, key: &str) -> Result<Option<Arc<str>>> {
    let mut statement = connection.prepare_cached("SELECT value FROM entries WHERE key = ?")?;
    Ok(statement.query_row([key], |row| row.get(0)).optional()?)
}

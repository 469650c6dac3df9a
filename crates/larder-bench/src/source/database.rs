//! One row of SQLite behind ten connections, as many as the document has.

use anyhow::{Context, Result};
use parking_lot::Mutex;
use rusqlite::Connection;
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
    /// Creates the database with its row, and opens the connections.
    pub(super) fn create(folder: &Path, text: &str) -> Result<Self> {
        let path = folder.join("bench.db");
        let writer = Connection::open(&path).context("cannot create the database")?;
        writer.execute_batch(
            "PRAGMA journal_mode = WAL; CREATE TABLE cache (id INTEGER PRIMARY KEY, code INTEGER UNIQUE, str TEXT);",
        )?;
        writer.execute("INSERT INTO cache (code, str) VALUES (1, ?)", [text])?;
        let idle = (0..CONNECTIONS).map(|_| Connection::open(&path)).collect::<Result<_, _>>()?;
        let pool = Pool { idle: Mutex::new(idle), permits: Semaphore::new(CONNECTIONS) };
        Ok(Database(Arc::new(pool)))
    }

    pub(super) async fn read(&self) -> Result<Arc<str>> {
        let _permit = self.0.permits.acquire().await?;
        let pool = self.0.clone();
        tokio::task::spawn_blocking(move || {
            let connection = pool.idle.lock().pop().context("a permit is a connection")?;
            let text = read(&connection);
            pool.idle.lock().push(connection);
            text
        })
        .await?
    }
}

fn read(connection: &Connection) -> Result<Arc<str>> {
    let mut statement = connection.prepare_cached("SELECT str FROM cache WHERE code = ?")?;
    Ok(statement.query_row([1], |row| row.get(0))?)
}

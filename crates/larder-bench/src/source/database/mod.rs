//! Keys and values in a database behind ten connections, as many as the documents have.

mod pool;
#[cfg(feature = "postgres")]
mod postgres;
mod sqlite;

use anyhow::Result;
use std::path::PathBuf;
use std::sync::Arc;

const CONNECTIONS: usize = 10;

/// Where the entries of a database are.
#[derive(Clone, Debug)]
pub(crate) enum Place {
    /// A new file of SQLite in a folder.
    Sqlite(PathBuf),
    /// The PostgreSQL whose socket is in a folder.
    Postgres(PathBuf),
}

/// The connections; a reader that finds none waits.
#[derive(Clone)]
pub(crate) enum Database {
    Sqlite(sqlite::Sqlite),
    #[cfg(feature = "postgres")]
    Postgres(postgres::Postgres),
}

impl Database {
    /// Creates the table with its entries, and opens the connections. An earlier table is replaced.
    ///
    /// # Errors
    /// If the database refuses, or is PostgreSQL and the program was built without its client.
    pub(crate) async fn create<'a>(
        place: &Place,
        entries: impl IntoIterator<Item = (String, &'a str)>,
    ) -> Result<Self> {
        match place {
            Place::Sqlite(folder) => Ok(Database::Sqlite(sqlite::Sqlite::create(folder, entries)?)),
            #[cfg(feature = "postgres")]
            Place::Postgres(folder) => {
                Ok(Database::Postgres(postgres::Postgres::create(folder, entries).await?))
            }
            #[cfg(not(feature = "postgres"))]
            Place::Postgres(_) => anyhow::bail!("PostgreSQL: only with the feature postgres"),
        }
    }

    /// The value of a key.
    pub(crate) async fn read(&self, key: &str) -> Result<Option<Arc<str>>> {
        match self {
            Database::Sqlite(database) => database.read(key).await,
            #[cfg(feature = "postgres")]
            Database::Postgres(database) => database.read(key).await,
        }
    }
}

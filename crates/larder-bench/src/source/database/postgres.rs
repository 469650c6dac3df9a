//! PostgreSQL over its Unix socket. A reader has a connection for itself, with a prepared statement, as in Ecto.

use super::CONNECTIONS;
use super::pool::Pool;
use anyhow::{Context, Result};
use larder_process::POSTGRES_USER;
use std::path::Path;
use std::sync::Arc;
use tokio_postgres::{Client, Config, NoTls, Statement};

#[derive(Clone)]
pub(crate) struct Postgres(Pool<Connection>);

struct Connection {
    client: Client,
    read: Statement,
}

impl Postgres {
    /// Fills the table and opens the connections to the server whose socket is in `folder`.
    pub(super) async fn create<'a>(
        folder: &Path,
        entries: impl IntoIterator<Item = (String, &'a str)>,
    ) -> Result<Self> {
        let (keys, values): (Vec<String>, Vec<&str>) = entries.into_iter().unzip();
        let writer = connect(folder).await?;
        writer
            .batch_execute(
                "DROP TABLE IF EXISTS entries; \
                 CREATE TABLE entries (id BIGSERIAL PRIMARY KEY, key TEXT UNIQUE, value TEXT)",
            )
            .await?;
        let fill = "INSERT INTO entries (key, value) SELECT * FROM unnest($1::text[], $2::text[])";
        writer.execute(fill, &[&keys, &values]).await?;
        writer.batch_execute("VACUUM ANALYZE entries").await?;
        let mut connections = Vec::with_capacity(CONNECTIONS);
        for _ in 0..CONNECTIONS {
            let client = connect(folder).await?;
            let read = client.prepare("SELECT value FROM entries WHERE key = $1").await?;
            connections.push(Connection { client, read });
        }
        Ok(Postgres(Pool::new(connections)))
    }

    pub(super) async fn read(&self, key: &str) -> Result<Option<Arc<str>>> {
        let connection = self.0.take().await?;
        let row = connection.client.query_opt(&connection.read, &[&key]).await?;
        Ok(row.map(|row| Arc::from(row.get::<_, &str>(0))))
    }
}

/// Opens a connection, whose task ends with the client.
async fn connect(folder: &Path) -> Result<Client> {
    let mut config = Config::new();
    config.host_path(folder).user(POSTGRES_USER).dbname("postgres");
    let (client, connection) = config.connect(NoTls).await.context("cannot connect to PostgreSQL")?;
    tokio::spawn(connection);
    Ok(client)
}

#[cfg(test)]
mod tests {
    use crate::source::{Database, Place};
    use larder_process::PostgresServer;

    #[test]
    fn second_table_replaces_the_first() {
        if !PostgresServer::is_installed() {
            larder_testkit::needs("PostgreSQL 15", false);
            return;
        }
        let server = PostgresServer::start().unwrap();
        let place = Place::Postgres(server.folder().to_owned());
        let runtime = tokio::runtime::Runtime::new().unwrap();
        runtime.block_on(async {
            let entries = || [("a".to_owned(), "1"), ("b".to_owned(), "2")];
            for _ in 0..2 {
                let database = Database::create(&place, entries()).await.unwrap();
                assert_eq!(database.read("b").await.unwrap().as_deref(), Some("2"));
                assert_eq!(database.read("c").await.unwrap(), None);
            }
        });
    }
}

//! Migrates a database to the version of this program.
//!
//! The version is a row of `larder_schema`; each migration is one file. All missing migrations run in one transaction under
//! an advisory lock, so instances that start together do not migrate twice, and one that is killed leaves the old version. A
//! copy of the old version is the operator's: this program cannot write one.

use super::error::source;
use crate::model::random;
use crate::store::{DatabaseAddress, StoreError};
use tokio_postgres::error::SqlState;
use tokio_postgres::{Client, Transaction};

pub(super) const MIGRATIONS: [&str; 3] = [
    include_str!("../../../migrations/postgres/0001_links.sql"),
    include_str!("../../../migrations/postgres/0002_access.sql"),
    include_str!("../../../migrations/postgres/0003_visits.sql"),
];

/// The keys of this program's advisory locks, which all programs of a database share.
pub(super) mod lock {
    pub(in crate::store::postgres) const MIGRATION: i64 = 0x6c61_7264_6572_0001;
    pub(in crate::store::postgres) const IMPORT: i64 = 0x6c61_7264_6572_0002;
    pub(in crate::store::postgres) const TOKENS: i64 = 0x6c61_7264_6572_0003;
    pub(in crate::store::postgres) const DIMENSIONS: i64 = 0x6c61_7264_6572_0004;
}

/// What the tables and the sequence of ids must allow.
const RIGHTS: &str = "
    SELECT string_agg(name || ' (' || needed || ')', ', ' ORDER BY name, needed) FROM (
        SELECT name, needed
        FROM unnest(ARRAY['larder_meta', 'links', 'link_tags', 'tokens', 'sessions', 'link_visits', 'visits_quarterly',
                          'visits_daily', 'visit_dimensions', 'visit_batches']) AS name,
             unnest(ARRAY['SELECT', 'INSERT', 'UPDATE', 'DELETE']) AS needed
        WHERE NOT has_table_privilege(name, needed) AND NOT (name = 'larder_meta' AND needed <> 'SELECT')
        UNION ALL
        SELECT sequence, 'USAGE' FROM pg_get_serial_sequence('links', 'id') AS sequence
        WHERE NOT has_sequence_privilege(sequence, 'USAGE')
    ) AS missing";

/// Runs the missing migrations, and checks that the user may read and write the tables.
pub(super) async fn migrate(
    client: &mut Client,
    address: &DatabaseAddress,
    migrations: &[&str],
) -> Result<(), StoreError> {
    check_encoding(client, address).await?;
    let known = migrations.len() as i64;
    let found = version(client).await.map_err(|error| cannot_open(address, error))?;
    if found > known {
        return Err(StoreError::Newer { database: address.clone(), found, known });
    }
    // Without a write, a user who may not create tables can use those that exist.
    if found < known {
        run_missing(client, migrations).await.map_err(|error| match (error.code(), found) {
            (Some(&SqlState::INSUFFICIENT_PRIVILEGE), 1..) => {
                StoreError::Older { database: address.clone(), found, known, source: source(error) }
            }
            _ => cannot_open(address, error),
        })?;
    }
    let missing = client.query_one(RIGHTS, &[]).await.map_err(|error| cannot_open(address, error))?;
    match missing.get::<_, Option<String>>(0) {
        Some(missing) => {
            Err(super::open_error(address, &format!("the user lacks rights on its tables: {missing}")))
        }
        None => Ok(()),
    }
}

/// A database of another encoding would refuse the first title that it has no letters for.
async fn check_encoding(client: &Client, address: &DatabaseAddress) -> Result<(), StoreError> {
    let shown = client.query_one("SHOW server_encoding", &[]).await;
    match shown.map_err(|error| cannot_open(address, error))?.get(0) {
        "UTF8" => Ok(()),
        other => Err(super::open_error(address, &format!("its encoding is {other}, expected UTF8"))),
    }
}

async fn run_missing(client: &mut Client, migrations: &[&str]) -> Result<(), tokio_postgres::Error> {
    let transaction = client.transaction().await?;
    transaction.execute("SELECT pg_advisory_xact_lock($1)", &[&lock::MIGRATION]).await?;
    // Read again under the lock: another process may have migrated it.
    let found = version_within(&transaction).await?;
    for step in migrations.iter().skip(found as usize) {
        transaction.batch_execute(step).await?;
    }
    if found == 0 && !migrations.is_empty() {
        let insert = "INSERT INTO larder_meta (name, value) VALUES ('slug_key', $1)";
        transaction.execute(insert, &[&&random::bytes::<16>()[..]]).await?;
        transaction.batch_execute("CREATE TABLE larder_schema (version bigint NOT NULL)").await?;
        transaction.batch_execute("INSERT INTO larder_schema (version) VALUES (0)").await?;
    }
    // Never back: a newer program may have been faster.
    let update = "UPDATE larder_schema SET version = greatest(version, $1)";
    transaction.execute(update, &[&(migrations.len() as i64)]).await?;
    transaction.commit().await
}

async fn version(client: &mut Client) -> Result<i64, tokio_postgres::Error> {
    let transaction = client.transaction().await?;
    version_within(&transaction).await
}

/// 0 for a database without tables of this program.
async fn version_within(transaction: &Transaction<'_>) -> Result<i64, tokio_postgres::Error> {
    // Not `to_regclass`: it answers from a cache of names, which a transaction that waited for the lock has not renewed.
    let exists = "SELECT EXISTS (SELECT FROM pg_catalog.pg_tables
                  WHERE tablename = 'larder_schema' AND schemaname = ANY(current_schemas(false)))";
    let exists = transaction.query_one(exists, &[]).await?;
    if !exists.get::<_, bool>(0) {
        return Ok(0);
    }
    Ok(transaction.query_one("SELECT version FROM larder_schema", &[]).await?.get(0))
}

pub(super) fn cannot_open(address: &DatabaseAddress, error: tokio_postgres::Error) -> StoreError {
    StoreError::Open { database: address.clone(), source: source(error) }
}

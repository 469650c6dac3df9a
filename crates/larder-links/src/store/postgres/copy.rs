//! Copies a database file into an empty database of PostgreSQL: links with their ids and slugs, the key of the slugs, tokens,
//! sessions and visits. One transaction writes it, so a copy that fails leaves the target empty.

use super::error::source;
use super::prepare;
use super::server::Server;
use crate::store::sqlite::Unused;
use crate::store::{DatabaseAddress, StoreError};
use rusqlite::Row;
use rusqlite::types::FromSql;
use std::path::Path;
use tokio_postgres::Transaction;
use tokio_postgres::types::ToSql;

/// Rows of one statement.
const STEP: usize = 2_000;

/// What [`copy`] has copied.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Copied {
    /// Links, deleted ones included.
    pub links: u64,
    /// Tokens.
    pub tokens: u64,
    /// The sum of the visits of all links.
    pub visits: u64,
}

/// The type of a column.
#[derive(Clone, Copy)]
enum Kind {
    Number,
    Small,
    Flag,
    Text,
    Bytes,
}

use Kind::{Bytes, Flag, Number, Small, Text};

/// The tables in the order of their references, each with its columns; a link's visits have a table of their own.
const TABLES: [(&str, &[(&str, Kind)]); 8] = [
    (
        "links",
        &[
            ("id", Number),
            ("slug", Text),
            ("url", Text),
            ("title", Text),
            ("created_at", Number),
            ("fingerprint", Number),
            ("expires_at", Number),
            ("max_visits", Number),
            ("forward_query", Flag),
            ("crawlable", Flag),
            ("deleted_at", Number),
        ],
    ),
    ("link_visits", &[("link_id", Number), ("visits", Number)]),
    ("link_tags", &[("tag", Text), ("link_id", Number)]),
    ("tokens", &[("id", Number), ("hash", Bytes), ("name", Text), ("scope", Text), ("created_at", Number)]),
    ("sessions", &[("hash", Bytes), ("token_id", Number), ("expires_at", Number)]),
    ("visits_quarterly", &[("link_id", Number), ("quarter", Number), ("count", Number)]),
    ("visits_daily", &[("link_id", Number), ("day", Number), ("count", Number)]),
    (
        "visit_dimensions",
        &[("link_id", Number), ("day", Number), ("dimension", Small), ("value", Text), ("count", Number)],
    ),
];

/// Copies the database file `from` into the database `to`, which must be empty.
///
/// Blocks on the disk: not for a runtime that serves requests.
///
/// # Errors
/// [`StoreError::InUse`] if another program has the file open, [`StoreError::NotEmpty`] if the target has a link or a token,
/// or as [`Store::open`](crate::store::Store::open).
pub async fn copy(from: &Path, to: &DatabaseAddress) -> Result<Copied, StoreError> {
    let DatabaseAddress::Postgres(url) = to else {
        return Err(StoreError::NotPostgres { database: to.clone() });
    };
    let file = Unused::open(from)?;
    let server = Server::of(url, to)?;
    prepare(&server, to)?;
    let failed = |error| StoreError::Open { database: to.clone(), source: source(error) };
    let (mut client, connection) = server.config.connect(server.tls.clone()).await.map_err(failed)?;
    let connection = tokio::spawn(connection);
    let transaction = client.transaction().await?;
    transaction
        .batch_execute("SET LOCAL synchronous_commit = on; LOCK TABLE links, tokens IN EXCLUSIVE MODE")
        .await?;
    let is_empty = "SELECT NOT EXISTS (SELECT FROM links) AND NOT EXISTS (SELECT FROM tokens)";
    if !transaction.query_one(is_empty, &[]).await?.get::<_, bool>(0) {
        return Err(StoreError::NotEmpty { database: to.clone() });
    }
    let update = "UPDATE larder_meta SET value = $1 WHERE name = 'slug_key'";
    transaction.execute(update, &[&&file.slug_key()?[..]]).await?;
    for (table, columns) in TABLES {
        copy_table(&file, &transaction, table, columns).await?;
    }
    // The ids of links and tokens never come back, not even those of rows that were dropped before.
    for (table, last) in [("links", file.last_id("links")?), ("tokens", file.last_id("tokens")?)] {
        let set = "SELECT setval(pg_get_serial_sequence($1, 'id')::regclass, $2)";
        if last > 0 {
            transaction.execute(set, &[&table, &last]).await?;
        }
    }
    let counts = "SELECT (SELECT count(*) FROM links), (SELECT count(*) FROM tokens),
                         (SELECT coalesce(sum(visits), 0)::bigint FROM link_visits)";
    let row = transaction.query_one(counts, &[]).await?;
    let count = |column| row.get::<_, i64>(column) as u64;
    let copied = Copied { links: count(0), tokens: count(1), visits: count(2) };
    transaction.commit().await.map_err(super::error::of_commit)?;
    connection.abort();
    Ok(copied)
}

async fn copy_table(
    file: &Unused,
    transaction: &Transaction<'_>,
    table: &str,
    columns: &[(&str, Kind)],
) -> Result<(), StoreError> {
    let names: Vec<_> = columns.iter().map(|(name, _)| *name).collect();
    let names = names.join(", ");
    let from = if table == "link_visits" { "links" } else { table };
    let select = format!("SELECT {} FROM {from}", if from == table { &names } else { "id, visits" });
    let arrays: Vec<_> =
        columns.iter().enumerate().map(|(n, (_, kind))| format!("${}::{}[]", n + 1, kind.name())).collect();
    let insert = format!("INSERT INTO {table} ({names}) SELECT * FROM unnest({})", arrays.join(", "));
    let insert = transaction.prepare(&insert).await?;

    let mut select = file.connection().prepare(&select)?;
    let mut rows = select.query([])?;
    let mut step: Vec<Values> = columns.iter().map(|(_, kind)| kind.empty()).collect();
    let mut count = 0;
    loop {
        let row = rows.next()?;
        let is_last = row.is_none();
        if let Some(row) = row {
            for (column, values) in step.iter_mut().enumerate() {
                values.push(row, column)?;
            }
            count += 1;
        }
        if count == STEP || (is_last && count > 0) {
            let values: Vec<_> = step.iter().map(Values::as_sql).collect();
            transaction.execute(&insert, &values).await?;
            step.iter_mut().for_each(Values::clear);
            count = 0;
        }
        if is_last {
            return Ok(());
        }
    }
}

impl Kind {
    /// The type of PostgreSQL.
    fn name(self) -> &'static str {
        match self {
            Number => "bigint",
            Small => "smallint",
            Flag => "boolean",
            Text => "text",
            Bytes => "bytea",
        }
    }

    fn empty(self) -> Values {
        match self {
            Number => Values::Numbers(Vec::new()),
            Small => Values::Smalls(Vec::new()),
            Flag => Values::Flags(Vec::new()),
            Text => Values::Texts(Vec::new()),
            Bytes => Values::Bytes(Vec::new()),
        }
    }
}

/// The values of one column of some rows.
enum Values {
    Numbers(Vec<Option<i64>>),
    Smalls(Vec<i16>),
    Flags(Vec<bool>),
    Texts(Vec<String>),
    Bytes(Vec<Vec<u8>>),
}

impl Values {
    fn push(&mut self, row: &Row<'_>, column: usize) -> rusqlite::Result<()> {
        fn push<T: FromSql>(values: &mut Vec<T>, row: &Row<'_>, column: usize) -> rusqlite::Result<()> {
            values.push(row.get(column)?);
            Ok(())
        }
        match self {
            Values::Numbers(values) => push(values, row, column),
            Values::Smalls(values) => push(values, row, column),
            Values::Flags(values) => push(values, row, column),
            Values::Texts(values) => push(values, row, column),
            Values::Bytes(values) => push(values, row, column),
        }
    }

    fn as_sql(&self) -> &(dyn ToSql + Sync) {
        match self {
            Values::Numbers(values) => values,
            Values::Smalls(values) => values,
            Values::Flags(values) => values,
            Values::Texts(values) => values,
            Values::Bytes(values) => values,
        }
    }

    fn clear(&mut self) {
        match self {
            Values::Numbers(values) => values.clear(),
            Values::Smalls(values) => values.clear(),
            Values::Flags(values) => values.clear(),
            Values::Texts(values) => values.clear(),
            Values::Bytes(values) => values.clear(),
        }
    }
}

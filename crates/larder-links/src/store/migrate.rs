//! Brings a database to the version that this program knows.
//!
//! The version is SQLite's `user_version`; each migration is one file and one step. All missing steps run in one
//! transaction, so a program that is killed half-way leaves the old version behind.

use super::StoreError;
use rusqlite::{Connection, TransactionBehavior};
use std::path::Path;

const MIGRATIONS: [&str; 3] = [
    include_str!("../../migrations/0001_links.sql"),
    include_str!("../../migrations/0002_visits_daily.sql"),
    include_str!("../../migrations/0003_fingerprints.sql"),
];

/// Runs the migrations that the database lacks.
pub(super) fn migrate(connection: &mut Connection, path: &Path) -> Result<(), StoreError> {
    migrate_with(connection, path, &MIGRATIONS)
}

fn migrate_with(connection: &mut Connection, path: &Path, migrations: &[&str]) -> Result<(), StoreError> {
    let known = migrations.len() as i64;
    if version(connection)? == known {
        // No write at all: a database on a read-only disk can still be read.
        return Ok(());
    }
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    // Asked again under the lock: another process may have migrated meanwhile.
    let found = version(&transaction)?;
    if found > known {
        return Err(StoreError::Newer { path: path.to_owned(), found, known });
    }
    for step in &migrations[found.max(0) as usize..] {
        transaction.execute_batch(step)?;
    }
    transaction.pragma_update(None, "user_version", known)?;
    Ok(transaction.commit()?)
}

fn version(connection: &Connection) -> rusqlite::Result<i64> {
    connection.pragma_query_value(None, "user_version", |row| row.get(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_old_version_comes_to_the_present_one_with_its_links() {
        for old in 1..=MIGRATIONS.len() {
            let mut connection = Connection::open_in_memory().unwrap();
            migrate_with(&mut connection, Path::new("old"), &MIGRATIONS[..old]).unwrap();
            let insert = "INSERT INTO links (slug, url, created_at, visits) VALUES ('old', 'http://old.example', 1, 7)";
            connection.execute(insert, []).unwrap();

            migrate(&mut connection, Path::new("old")).unwrap();

            assert_eq!(version(&connection).unwrap(), MIGRATIONS.len() as i64);
            let visits = "SELECT visits FROM links WHERE slug = 'old' AND title = '' AND fingerprint IS NULL";
            assert_eq!(connection.query_row(visits, [], |row| row.get(0)), Ok(7));
            let days: i64 =
                connection.query_row("SELECT count(*) FROM visits_daily", [], |row| row.get(0)).unwrap();
            assert_eq!(days, 0);
        }
    }

    #[test]
    fn a_failing_step_leaves_the_old_version() {
        let mut connection = Connection::open_in_memory().unwrap();
        let broken = [MIGRATIONS[0], "CREATE TABLE half (x); SELECT no_such_function();"];
        assert!(migrate_with(&mut connection, Path::new("x"), &broken).is_err());
        assert_eq!(version(&connection), Ok(0));
        let tables: i64 =
            connection.query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get(0)).unwrap();
        assert_eq!(tables, 0);
    }

    #[test]
    fn a_newer_database_is_refused_and_left_alone() {
        let mut connection = Connection::open_in_memory().unwrap();
        connection.pragma_update(None, "user_version", 99).unwrap();
        let error = migrate(&mut connection, Path::new("links.db")).unwrap_err();
        assert_eq!(
            error.to_string(),
            "the database links.db has version 99, this program knows versions up to 3"
        );
        assert_eq!(version(&connection), Ok(99));
    }
}

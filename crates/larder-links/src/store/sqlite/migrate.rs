//! Migrates a database to the version of this program.
//!
//! The version is SQLite's `user_version`; each migration is one file. All missing migrations run in one transaction, so a
//! program that is killed half-way leaves the old version. Before it, the database is copied to a file beside it, while the
//! transaction keeps other programs from writing: with that file an older program can be used again.

use super::backup;
use crate::model::address::Address;
use crate::model::random;
use crate::store::{DatabaseAddress, StoreError, fingerprint};
use rusqlite::{Connection, TransactionBehavior, params};
use std::path::Path;

const MIGRATIONS: [&str; 11] = [
    include_str!("../../../migrations/sqlite/0001_links.sql"),
    include_str!("../../../migrations/sqlite/0002_visits_daily.sql"),
    include_str!("../../../migrations/sqlite/0003_fingerprints.sql"),
    include_str!("../../../migrations/sqlite/0004_access.sql"),
    include_str!("../../../migrations/sqlite/0005_deleted.sql"),
    include_str!("../../../migrations/sqlite/0006_options.sql"),
    include_str!("../../../migrations/sqlite/0007_search.sql"),
    include_str!("../../../migrations/sqlite/0008_quarters.sql"),
    include_str!("../../../migrations/sqlite/0009_dimensions.sql"),
    include_str!("../../../migrations/sqlite/0010_by_visits.sql"),
    include_str!("../../../migrations/sqlite/0011_crawlable.sql"),
];

/// The version since which addresses are stored in parsed form.
const PARSED_ADDRESSES: i64 = 4;

/// Copies a database of an older version, and runs the missing migrations.
pub(super) fn migrate(connection: &mut Connection, path: &Path) -> Result<(), StoreError> {
    migrate_with(connection, path, &MIGRATIONS)
}

fn migrate_with(connection: &mut Connection, path: &Path, migrations: &[&str]) -> Result<(), StoreError> {
    let known = migrations.len() as i64;
    if version(connection)? == known {
        // Without a write, a database on a read-only disk can be opened.
        return Ok(());
    }
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    // Read again under the lock: another process may have migrated it.
    let found = version(&transaction)?;
    if found > known {
        return Err(StoreError::Newer { database: DatabaseAddress::Sqlite(path.to_owned()), found, known });
    }
    // A database without a path is in memory, and one of version 0 is empty.
    if (1..known).contains(&found) && connection_has_file(&transaction) {
        let copy = backup::path_before_migration(path, found);
        backup::copy(path, &copy)?;
        tracing::warn!(from = found, to = known, backup = %copy.display(), "the database is migrated");
    }
    for step in &migrations[found.max(0) as usize..] {
        transaction.execute_batch(step)?;
    }
    if found == 0 && known > 0 {
        let key = random::bytes::<16>();
        transaction.execute("UPDATE meta SET value = ?1 WHERE name = 'slug_key'", [key])?;
    }
    if (1..PARSED_ADDRESSES).contains(&found) && known >= PARSED_ADDRESSES {
        parse_addresses(&transaction)?;
    }
    transaction.pragma_update(None, "user_version", known)?;
    Ok(transaction.commit()?)
}

/// Parses and rewrites the addresses of an older version, so that an import finds the links that it created. An address that
/// is invalid today stays unchanged.
fn parse_addresses(connection: &Connection) -> rusqlite::Result<()> {
    let mut select = connection.prepare("SELECT id, url, title, fingerprint FROM links")?;
    let mut update = connection.prepare("UPDATE links SET url = ?2, fingerprint = ?3 WHERE id = ?1")?;
    let mut rows = select.query([])?;
    let mut changed = Vec::new();
    while let Some(row) = rows.next()? {
        let (url, title): (String, String) = (row.get(1)?, row.get(2)?);
        if let Ok(address) = Address::parse(&url)
            && address.as_str() != url
        {
            let known: Option<i64> = row.get(3)?;
            let fingerprint = known.map(|_| fingerprint(address.as_str(), &title));
            changed.push((row.get::<_, i64>(0)?, address.as_str().to_owned(), fingerprint));
        }
    }
    for (id, url, fingerprint) in changed {
        update.execute(params![id, url, fingerprint])?;
    }
    Ok(())
}

fn connection_has_file(connection: &Connection) -> bool {
    connection.path().is_some_and(|path| !path.is_empty())
}

fn version(connection: &Connection) -> rusqlite::Result<i64> {
    connection.pragma_query_value(None, "user_version", |row| row.get(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_database_has_a_key_of_its_own() {
        let key = || {
            let mut connection = Connection::open_in_memory().unwrap();
            migrate(&mut connection, Path::new("new")).unwrap();
            let read = "SELECT value FROM meta WHERE name = 'slug_key'";
            connection.query_row(read, [], |row| row.get::<_, [u8; 16]>(0)).unwrap()
        };
        let (one, other) = (key(), key());
        assert!(one != other && one != [0; 16] && other != [0; 16]);
    }

    #[test]
    fn every_old_version_migrates_with_its_links() {
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
            // Stored as given until version 3.
            let url: String = connection
                .query_row("SELECT url FROM links WHERE slug = 'old'", [], |row| row.get(0))
                .unwrap();
            let parsed = if old < 4 { "http://old.example/" } else { "http://old.example" };
            assert_eq!(url, parsed, "{old}");
        }
    }

    #[test]
    fn migrated_address_has_the_fingerprint_of_its_new_form() {
        let mut connection = Connection::open_in_memory().unwrap();
        migrate_with(&mut connection, Path::new("old"), &MIGRATIONS[..3]).unwrap();
        let insert =
            "INSERT INTO links (slug, url, title, created_at, fingerprint) VALUES (?1, ?2, 't', 1, 5)";
        for (slug, url) in [("a", "HTTP://a.example"), ("b", "http:b.example"), ("c", "http://c.example/")] {
            connection.execute(insert, [slug, url]).unwrap();
        }
        migrate(&mut connection, Path::new("old")).unwrap();
        let row = |slug: &str| -> (String, i64) {
            let sql = "SELECT url, fingerprint FROM links WHERE slug = ?1";
            connection.query_row(sql, [slug], |row| Ok((row.get(0)?, row.get(1)?))).unwrap()
        };
        assert_eq!(row("a"), ("http://a.example/".into(), fingerprint("http://a.example/", "t")));
        assert_eq!(row("b"), ("http:b.example".into(), 5));
        assert_eq!(row("c"), ("http://c.example/".into(), 5));
    }

    #[test]
    fn failed_migration_leaves_the_old_version() {
        let mut connection = Connection::open_in_memory().unwrap();
        let broken = [MIGRATIONS[0], "CREATE TABLE half (x); SELECT no_such_function();"];
        assert!(migrate_with(&mut connection, Path::new("x"), &broken).is_err());
        assert_eq!(version(&connection), Ok(0));
        let tables: i64 =
            connection.query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get(0)).unwrap();
        assert_eq!(tables, 0);
    }

    /// A database of an older version in a file, with one link, and the connection that wrote it.
    fn old_database(folder: &tempfile::TempDir, version: usize) -> (Connection, std::path::PathBuf) {
        let path = folder.path().join("links.db");
        let mut connection = Connection::open(&path).unwrap();
        connection.pragma_update(None, "journal_mode", "WAL").unwrap();
        migrate_with(&mut connection, &path, &MIGRATIONS[..version]).unwrap();
        let insert = "INSERT INTO links (slug, url, created_at) VALUES ('old', 'http://old.example/', 1)";
        connection.execute(insert, []).unwrap();
        (connection, path)
    }

    fn links_in(path: &Path) -> (i64, i64) {
        let copy = Connection::open(path).unwrap();
        let links = copy.query_row("SELECT count(*) FROM links", [], |row| row.get(0)).unwrap();
        (version(&copy).unwrap(), links)
    }

    #[test]
    fn migration_leaves_a_private_copy_of_the_old_version() {
        let folder = tempfile::tempdir().unwrap();
        // Its link is still in the log when the copy is made.
        let (mut connection, path) = old_database(&folder, 3);
        migrate(&mut connection, &path).unwrap();
        assert_eq!(links_in(&path), (MIGRATIONS.len() as i64, 1));
        let copy = folder.path().join("links.db.v3.backup");
        assert_eq!(links_in(&copy), (3, 1));
        #[cfg(unix)]
        assert_eq!(
            std::os::unix::fs::PermissionsExt::mode(&std::fs::metadata(&copy).unwrap().permissions()) & 0o777,
            0o600
        );
        // A database of this version is copied no more, and a new one never.
        std::fs::remove_file(&copy).unwrap();
        migrate(&mut connection, &path).unwrap();
        migrate(&mut Connection::open(folder.path().join("new.db")).unwrap(), Path::new("new.db")).unwrap();
        let files = std::fs::read_dir(folder.path()).unwrap().map(|file| file.unwrap().file_name());
        assert!(!files.into_iter().any(|name| name.to_string_lossy().contains("backup")));
    }

    #[test]
    fn migration_without_room_for_its_copy_changes_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let (mut connection, path) = old_database(&folder, 3);
        // A folder of that name cannot be replaced by a file.
        let copy = folder.path().join("links.db.v3.backup");
        std::fs::create_dir_all(copy.join("inside")).unwrap();
        let error = migrate(&mut connection, &path).unwrap_err();
        assert!(matches!(&error, StoreError::Backup { path, .. } if *path == copy), "{error}");
        assert_eq!(links_in(&path), (3, 1));
        let files = std::fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().file_name());
        assert!(!files.into_iter().any(|name| name.to_string_lossy().ends_with(".partial")));
    }

    #[test]
    fn newer_database_is_rejected_unchanged() {
        let mut connection = Connection::open_in_memory().unwrap();
        connection.pragma_update(None, "user_version", 99).unwrap();
        let error = migrate(&mut connection, Path::new("links.db")).unwrap_err();
        assert_eq!(
            error.to_string(),
            format!(
                "the database links.db has version 99, this program knows versions up to {}",
                MIGRATIONS.len()
            )
        );
        assert_eq!(version(&connection), Ok(99));
    }
}

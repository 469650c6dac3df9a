//! The writer that fails, bounded transactions, and the mode of the files.

use super::*;
use crate::model::address::Address;
use crate::store::database::Database;
use crate::store::{LinkOptions, Store};
use std::sync::mpsc;

fn store(folder: &tempfile::TempDir) -> SqliteStore {
    let path = folder.path().join("links.db");
    SqliteStore::open(&path, &StoreConfig::new(path.clone())).unwrap()
}

fn link(slug: &str) -> NewLink {
    let url = Address::parse("https://example.com/").unwrap();
    NewLink { url, slug: Some(slug.into()), title: String::new(), options: LinkOptions::default() }
}

impl Store {
    /// As [`SqliteStore::panic_in_writer`].
    pub(crate) async fn panic_in_writer(&self) -> StoreError {
        match &self.database {
            Database::Sqlite(store) => store.panic_in_writer().await,
            #[cfg(feature = "postgres")]
            Database::Postgres(_) => panic!("only SQLite has a writer"),
        }
    }
}

impl SqliteStore {
    /// Makes the writer panic inside a transaction that has already written something.
    async fn panic_in_writer(&self) -> StoreError {
        let work = |context: &mut WriteContext<'_>| -> Result<(), StoreError> {
            statements::delete(context.connection, "kept", 1)?;
            panic!("on purpose")
        };
        self.write(1, work).await.unwrap_err()
    }
}

#[tokio::test]
async fn panicked_writer_restarts_and_keeps_its_queue() {
    let folder = tempfile::tempdir().unwrap();
    let store = store(&folder);
    store.create(vec![link("kept")], Duplicates::Allow).await.unwrap();

    // The writer is busy until the queue contains a panic and a write of another group.
    let (release, released) = mpsc::channel::<()>();
    let blocked = store.write(usize::MAX / 2, move |_| Ok(released.recv().is_ok()));
    let create = async { store.create(vec![link("later")], Duplicates::Allow).await };
    let panic = async {
        let work = |_: &mut WriteContext<'_>| -> Result<(), StoreError> { panic!("on purpose") };
        store.write(usize::MAX / 2, work).await
    };
    let release = async {
        tokio::task::yield_now().await;
        release.send(()).unwrap();
    };
    let (blocked, panicked, created, ()) = tokio::join!(biased; blocked, panic, create, release);
    assert!(blocked.unwrap());
    assert!(matches!(panicked, Err(StoreError::WriterFailed)), "{panicked:?}");
    assert!(matches!(created.unwrap()[..], [CreateOutcome::Created(_)]));

    assert!(matches!(store.panic_in_writer().await, StoreError::WriterFailed));
    assert!(store.find("kept").await.unwrap().is_some(), "what the panic interrupted is rolled back");
    store.create(vec![link("last")], Duplicates::Allow).await.unwrap();
    assert!(matches!(store.health(), StoreHealth::Writes));
    store.close().await;
}

#[tokio::test]
async fn writer_is_down_while_its_database_is_missing() {
    let folder = tempfile::tempdir().unwrap();
    let store = store(&folder);
    let (path, away) = (folder.path().join("links.db"), folder.path().join("away.db"));
    std::fs::rename(&path, &away).unwrap();
    store.panic_in_writer().await;
    // Callers get an error while the writer is down, and no empty database replaces the missing one.
    let rejected = store.create(vec![link("a")], Duplicates::Allow).await.unwrap_err();
    assert!(matches!(rejected, StoreError::WriterFailed), "{rejected}");
    assert!(matches!(store.health(), StoreHealth::WriterDown { .. }) && !path.exists());
    std::fs::rename(&away, &path).unwrap();
    let created = async {
        while store.create(vec![link("a")], Duplicates::Allow).await.is_err() {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(Duration::from_secs(30), created).await.expect("the writer restarts");
    assert!(matches!(store.health(), StoreHealth::Writes));
}

#[cfg(unix)]
#[tokio::test]
async fn database_and_its_companions_are_private() {
    use std::os::unix::fs::PermissionsExt;
    let folder = tempfile::tempdir().unwrap();
    let store = store(&folder);
    store.create(vec![link("a")], Duplicates::Allow).await.unwrap();
    let mut names = Vec::new();
    for entry in std::fs::read_dir(folder.path()).unwrap() {
        let entry = entry.unwrap();
        assert_eq!(entry.metadata().unwrap().permissions().mode() & 0o777, 0o600, "{entry:?}");
        names.push(entry.file_name().into_string().unwrap());
    }
    names.sort();
    assert_eq!(names, ["links.db", "links.db-shm", "links.db-wal"]);
}

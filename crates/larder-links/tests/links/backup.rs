//! A backup is a whole database, and neither it nor an export replaces the database that it copies.

use crate::support::{Fixture, open};
use larder_links::export::{self, Format};
use larder_links::store::StoreConfig;
use larder_links::{Store, StoreError};
use std::path::{Path, PathBuf};

/// Names of the database and its log files: their own, one through another folder, and a symbolic link.
fn names_of_database(fixture: &Fixture) -> Vec<PathBuf> {
    let folder = fixture.folder.path();
    let symbolic = folder.join("symbolic.db");
    std::os::unix::fs::symlink("links.db", &symbolic).unwrap();
    let own = ["links.db", "links.db-wal", "links.db-shm", "links.db-journal"].map(|name| folder.join(name));
    let indirect = folder.join("..").join(folder.file_name().unwrap()).join("links.db");
    own.into_iter().chain([indirect, symbolic]).collect()
}

/// The slugs in a database file, opened as a program that starts does.
async fn slugs_in(path: &Path) -> Vec<String> {
    let store = Store::open(&StoreConfig::new(path)).unwrap();
    let links = store.links_after(0).await.unwrap();
    store.close().await;
    links.into_iter().map(|link| link.slug).collect()
}

#[tokio::test]
async fn backup_onto_the_database_is_refused() {
    let fixture = open();
    fixture.link(Some("kept"), "https://a.example/").await;
    for name in names_of_database(&fixture) {
        let refused = fixture.links.store().backup(name.clone()).await;
        assert!(matches!(refused, Err(StoreError::Backup { .. })), "{}: {refused:?}", name.display());
    }
    fixture.link(Some("later"), "https://a.example/").await;
    fixture.links.stop().await.unwrap();
    assert_eq!(slugs_in(&fixture.folder.path().join("links.db")).await, ["kept", "later"]);
}

/// A device such as `/dev/null` would be replaced by a file.
#[tokio::test]
async fn backup_onto_what_is_no_file_is_refused() {
    let fixture = open();
    let path = fixture.folder.path().join("socket");
    let _socket = std::os::unix::net::UnixListener::bind(&path).unwrap();
    let refused = fixture.links.store().backup(path.clone()).await.unwrap_err();
    assert!(
        std::error::Error::source(&refused).unwrap().to_string().contains("not a regular file"),
        "{refused}"
    );
    assert!(!path.metadata().unwrap().is_file());
}

#[tokio::test]
async fn symbolic_link_to_a_file_that_is_new_leads_to_it() {
    let fixture = open();
    fixture.link(Some("kept"), "https://a.example/").await;
    let folder = fixture.folder.path();
    std::os::unix::fs::symlink("copy.db", folder.join("link.db")).unwrap();
    fixture.links.store().backup(folder.join("link.db")).await.unwrap();
    assert!(folder.join("link.db").is_symlink());
    assert_eq!(slugs_in(&folder.join("copy.db")).await, ["kept"]);
}

#[tokio::test]
async fn export_onto_the_database_is_refused() {
    let fixture = open();
    fixture.link(Some("kept"), "https://a.example/").await;
    for name in names_of_database(&fixture) {
        let refused = export::to_file(fixture.links.store(), Format::Csv, &name).await;
        assert!(refused.is_err(), "{}", name.display());
    }
    fixture.links.stop().await.unwrap();
    assert_eq!(slugs_in(&fixture.folder.path().join("links.db")).await, ["kept"]);
}

#[tokio::test]
async fn backups_into_one_file_at_the_same_time_leave_a_whole_one() {
    let fixture = open();
    for n in 0..200 {
        fixture.link(Some(&format!("link-{n}")), &format!("https://a.example/{}", "x".repeat(4_000))).await;
    }
    let copy = fixture.folder.path().join("copy.db");
    for _ in 0..10 {
        let backups: Vec<_> = (0..4)
            .map(|_| {
                let (store, copy) = (fixture.links.store().clone(), copy.clone());
                tokio::spawn(async move { store.backup(copy).await })
            })
            .collect();
        for backup in backups {
            backup.await.unwrap().unwrap();
        }
        assert_eq!(slugs_in(&copy).await.len(), 200);
    }
}

#[tokio::test]
async fn failed_export_keeps_the_earlier_file() {
    let fixture = open();
    fixture.link(Some("kept"), "https://a.example/").await;
    let file = fixture.folder.path().join("links.csv");
    export::to_file(fixture.links.store(), Format::Csv, &file).await.unwrap();
    let earlier = std::fs::read(&file).unwrap();
    fixture.links.store().close().await;
    export::to_file(fixture.links.store(), Format::Csv, &file).await.unwrap_err();
    assert_eq!(std::fs::read(&file).unwrap(), earlier);
    let parts = std::fs::read_dir(fixture.folder.path()).unwrap();
    let parts: Vec<_> = parts.map(|entry| entry.unwrap().file_name()).collect();
    assert!(!parts.iter().any(|name| name.to_string_lossy().contains("partial")), "{parts:?}");
}

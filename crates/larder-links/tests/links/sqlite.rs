//! What is so because the database is a file of SQLite: its locks, its limit of size, its copies, its plans. Every other test
//! of the shortener runs on PostgreSQL too.

use crate::dimensions::visit_from;
use crate::support::{Fixture, open, open_with};
use http::{Method, StatusCode};
use larder_links::{Config, Deps, Links, LinksError, StoreError, StoreHealth};
use serde_json::json;
use std::path::Path;

#[tokio::test]
async fn full_database_rejects_new_links_and_recovers() {
    // What SQLite does at this limit is what it does on a full disk: the write fails and is rolled back. A deletion may need a
    // page too; at this size there is one left.
    let fixture = open_with(|config| config.max_database_bytes = Some(320 * 1024));
    let mut made = Vec::new();
    let refused = loop {
        let url = format!("https://example.com/{}/{}", made.len(), "x".repeat(4_000));
        let answer = fixture.post("/api/links", json!({ "url": url })).await;
        match answer.status {
            StatusCode::CREATED => made.push((answer.json()["slug"].as_str().unwrap().to_owned(), url)),
            _ => break answer,
        }
    };
    assert_eq!(refused.status, StatusCode::SERVICE_UNAVAILABLE);
    assert_eq!(refused.header("retry-after"), "1");
    let message = refused.json()["error"]["message"].as_str().unwrap().to_owned();
    assert!(message.starts_with("the database is full"), "{message}");
    let health = fixture.links.store().health();
    assert!(matches!(health, StoreHealth::Fails { error: StoreError::Full(_), .. }), "{health:?}");

    assert!(made.len() > 5, "only {} links fit", made.len());
    for (slug, url) in &made {
        assert_eq!(fixture.links.store().find(slug).await.unwrap().unwrap().url, *url);
        assert_eq!(fixture.get(&format!("/{slug}")).await.status, StatusCode::FOUND);
    }

    let half = made.len() / 2;
    for (slug, _) in made.drain(..half) {
        let gone = fixture.send_json(Method::DELETE, &format!("/api/links/{slug}"), json!({})).await;
        assert_eq!(gone.status, StatusCode::NO_CONTENT, "{}", gone.text());
    }
    // Deleted links use their space until they can no longer be restored.
    assert_eq!(fixture.links.store().drop_deleted(i64::MAX).await.unwrap().len(), half);
    fixture.link(None, "https://room.example/").await;
    assert!(matches!(fixture.links.store().health(), StoreHealth::Writes));
    fixture.links.stop().await.unwrap();

    let reopened = Deps::open(&Config { max_database_bytes: None, ..fixture.config.clone() }).unwrap();
    for (slug, url) in made {
        assert_eq!(reopened.store.find(&slug).await.unwrap().unwrap().url, url);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn acknowledged_links_survive_a_killed_process() {
    let fixture = std::sync::Arc::new(open());
    let creating: Vec<_> = (0..300)
        .map(|n| {
            let fixture = fixture.clone();
            tokio::spawn(async move { fixture.link(None, &format!("https://example.com/{n}")).await })
        })
        .collect();
    let mut slugs = Vec::new();
    for task in creating {
        slugs.push(task.await.unwrap());
    }
    // What kill -9 leaves behind: the files as they are now, while the service runs.
    let left = tempfile::tempdir().unwrap();
    for name in ["links.db", "links.db-wal"] {
        std::fs::copy(fixture.folder.path().join(name), left.path().join(name)).unwrap();
    }
    let database = left.path().join("links.db").display().to_string();
    let store = Deps::open(&Config { database, ..Config::default() }).unwrap().store;
    for (n, slug) in slugs.iter().enumerate() {
        let link = store.find(slug).await.unwrap().unwrap_or_else(|| panic!("{slug} is lost"));
        assert_eq!(link.url, format!("https://example.com/{n}"));
    }
}

#[tokio::test]
async fn locked_database_serves_reads_and_rejects_writes() {
    let fixture = open_with(|config| config.database_busy_ms = 10);
    fixture.link(Some("a"), "https://a.example/").await;
    let other = rusqlite::Connection::open(fixture.folder.path().join("links.db")).unwrap();
    other.execute_batch("BEGIN IMMEDIATE").unwrap();

    let refused = fixture.post("/api/links", json!({"url": "https://b.example/"})).await;
    assert_eq!(refused.status, StatusCode::SERVICE_UNAVAILABLE);
    let message = refused.json()["error"]["message"].as_str().unwrap().to_owned();
    assert!(message.starts_with("the database is locked by another program"), "{message}");
    assert_eq!(fixture.get("/a").await.status, StatusCode::FOUND);
    assert_eq!(fixture.get("/nowhere").await.status, StatusCode::NOT_FOUND);
    // The visit waits in memory.
    assert!(matches!(fixture.links.flush_visits().await, Err(LinksError::Store(StoreError::Locked(_)))));
    assert_eq!(fixture.links.stats().visits.queued, 1);
    let forgotten = fixture.send_json(Method::DELETE, "/api/links/a/visits", json!({})).await;
    assert_eq!(forgotten.status, StatusCode::SERVICE_UNAVAILABLE);
    assert_eq!(fixture.links.stats().visits.queued, 1, "a failure forgets nothing");

    other.execute_batch("ROLLBACK").unwrap();
    fixture.link(None, "https://b.example/").await;
    fixture.links.flush_visits().await.unwrap();
    assert_eq!(fixture.written_visits("a").await, 1);
}

#[tokio::test]
async fn read_only_database_is_a_clear_error() {
    let fixture = open();
    let other = rusqlite::Connection::open(fixture.folder.path().join("links.db")).unwrap();
    other.execute_batch("PRAGMA query_only = ON").unwrap();
    let error = other.execute("DELETE FROM links", []).unwrap_err();
    let error = StoreError::from(error);
    assert!(matches!(error, StoreError::ReadOnly(_)));
    assert!(error.to_string().starts_with("the database is read-only"), "{error}");
}

#[tokio::test]
async fn unopenable_database_is_a_clear_error() {
    let open = |fixture: &Fixture, name: &str| {
        let database = fixture.folder.path().join(name).display().to_string();
        Deps::open(&Config { database, ..Config::default() }).map(drop).unwrap_err().to_string()
    };
    let fixture = open_with(|_| {});
    let folder = fixture.folder.path();
    std::fs::write(
        folder.join("text.db"),
        "this is no database, and long enough to be looked at".repeat(100),
    )
    .unwrap();
    assert!(open(&fixture, "text.db").contains("file is not a database"));
    std::fs::create_dir(folder.join("folder.db")).unwrap();
    assert!(open(&fixture, "folder.db").starts_with("cannot open the database"));
    assert!(open(&fixture, "text.db/links.db").starts_with("cannot open the database"));

    let newer = rusqlite::Connection::open(folder.join("newer.db")).unwrap();
    newer.execute_batch("PRAGMA user_version = 99").unwrap();
    let message = open(&fixture, "newer.db");
    assert!(message.contains("newer.db has version 99, this program knows versions up to "), "{message}");
}

#[tokio::test]
async fn old_database_keeps_its_links() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("links.db");
    let old = rusqlite::Connection::open(&path).unwrap();
    old.execute_batch(include_str!("../../migrations/sqlite/0001_links.sql")).unwrap();
    old.execute_batch(
        "PRAGMA user_version = 1;
         INSERT INTO links (slug, url, created_at, visits) VALUES ('old', 'https://old.example/', 1, 41)",
    )
    .unwrap();
    drop(old);

    let database = path.display().to_string();
    let config = Config { database, ..Config::default() };
    let links = Links::open(config.clone(), Deps::open(&config).unwrap()).unwrap();
    let fixture = Fixture { links, config, folder };
    assert_eq!(fixture.get("/old").await.header("location"), "https://old.example/");
    fixture.links.flush_visits().await.unwrap();
    assert_eq!(fixture.written_visits("old").await, 42);
    fixture.link(None, "https://new.example/").await;
}

#[tokio::test]
async fn killed_process_loses_only_unwritten_visits() {
    let fixture = open();
    fixture.link(Some("a"), "https://a.example/").await;
    fixture.get("/a").await;
    fixture.links.flush_visits().await.unwrap();
    fixture.get("/a").await;

    // What kill -9 leaves behind: the database and its log as they are on the disk at this moment.
    let left = tempfile::tempdir().unwrap();
    for name in ["links.db", "links.db-wal"] {
        std::fs::copy(fixture.folder.path().join(name), left.path().join(name)).unwrap();
    }
    let mut config = fixture.config.clone();
    config.database = left.path().join("links.db").display().to_string();
    let again = Links::open(config.clone(), Deps::open(&config).unwrap()).unwrap();
    assert_eq!(again.store().find("a").await.unwrap().unwrap().visits, 1);
}

#[tokio::test]
async fn list_by_visits_reads_an_index() {
    let fixture = open();
    crate::sort::create(&fixture, &[("a", 1)]).await;
    let database = rusqlite::Connection::open(&fixture.config.database).unwrap();
    let plan = "EXPLAIN QUERY PLAN SELECT slug FROM links
                WHERE links.deleted_at IS NULL AND (links.visits, links.id) < (5, 6)
                ORDER BY links.visits DESC, links.id DESC LIMIT 3";
    let mut plan = database.prepare(plan).unwrap();
    let steps: Vec<String> = plan.query_map([], |row| row.get(3)).unwrap().collect::<Result<_, _>>().unwrap();
    // One step: nothing is sorted.
    assert_eq!(steps.len(), 1, "{steps:?}");
    assert!(steps[0].starts_with("SEARCH links USING INDEX links_by_visits ("), "{steps:?}");
}

/// Among millions of links there may be three that are deleted.
#[tokio::test]
async fn list_of_deleted_links_reads_an_index() {
    let fixture = open();
    crate::sort::create(&fixture, &[("a", 1)]).await;
    let listed = fixture.get("/api/links?deleted=true").await;
    assert_eq!(listed.json()["links"], json!([]));
    let database = rusqlite::Connection::open(&fixture.config.database).unwrap();
    let plan = "EXPLAIN QUERY PLAN SELECT slug FROM links INDEXED BY links_deleted
                WHERE links.id >= 1 AND links.deleted_at IS NOT NULL AND links.id < 9 ORDER BY links.id DESC LIMIT 3";
    let mut plan = database.prepare(plan).unwrap();
    let steps: Vec<String> = plan.query_map([], |row| row.get(3)).unwrap().collect::<Result<_, _>>().unwrap();
    assert!(steps[0].contains("links_deleted"), "{steps:?}");
}

#[tokio::test]
async fn sign_outs_of_strangers_are_limited_and_write_nothing() {
    let fixture = crate::limits::open();
    let cookie = [("cookie", "__Host-larder_session=0000000000000000000000000000000000000000000")];
    let mut statuses = Vec::new();
    // A write would fail: another program locks the database.
    let other = rusqlite::Connection::open(fixture.folder.path().join("links.db")).unwrap();
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    for _ in 0..3 {
        let answer = fixture.ask(Method::DELETE, "/api/session", &cookie, Some(json!({}))).await;
        statuses.push(answer.status.as_u16());
    }
    assert_eq!(statuses, [204, 204, 429]);
}

/// Whether a file of the database has these bytes.
fn has(folder: &Path, text: &str) -> bool {
    ["links.db", "links.db-wal"].iter().any(|name| {
        let bytes = std::fs::read(folder.join(name)).unwrap_or_default();
        bytes.windows(text.len()).any(|window| window == text.as_bytes())
    })
}

#[tokio::test]
async fn nothing_of_a_visitor_is_stored() {
    let fixture = open();
    fixture.link_with_token("a", "https://a.example/").await;
    let referrer = ("referer", "https://news.example/article?user=7");
    visit_from(&fixture, "203.0.113.77", &[referrer, ("cookie", "session=secret")]).await;
    fixture.links.flush_visits().await.unwrap();
    let folder = fixture.folder.path();
    assert!(has(folder, "news.example") && has(folder, "Chrome"));
    for private in ["203.0.113", "142.0.0.0", "article", "user=7", "secret"] {
        assert!(!has(folder, private), "{private}");
    }
}

//! What is so because the database is a PostgreSQL: several instances write it, its connections break, it is killed and
//! recovers, its users have rights, and a database file moves into it.

use crate::support::{Fixture, open, open_with};
use http::{Method, StatusCode};
use larder_links::store::{
    DatabaseAddress, Duplicates, LinkOptions, ListQuery, NewLink, StoreConfig, TotalsOf, VisitBatch,
    VisitKey, copy,
};
use larder_links::{Address, LinksError, Scope, Store, StoreError, StoreHealth};
use larder_testkit::{
    CommitCut, POSTGRES_USER, PostgresProxy, PostgresServer, eventually, start_postgres, with_postgres,
};
use serde_json::json;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::sync::{Arc, Mutex};

/// A new database on the server of this binary: its name, and its URL for a user. `None` if PostgreSQL is not installed.
fn new_database(user: &str) -> Option<(String, String)> {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    let name = format!("postgres_{}", COUNT.fetch_add(1, SeqCst));
    with_postgres(|server| {
        server.execute("postgres", &format!("CREATE DATABASE {name}")).unwrap();
        (name.clone(), server.url(user, &name))
    })
}

fn execute(database: &str, sql: &str) -> String {
    with_postgres(|server| server.execute(database, sql).unwrap()).unwrap()
}

fn open_store(url: &str) -> Result<Store, StoreError> {
    Store::open(&StoreConfig::of(DatabaseAddress::Postgres(url.to_owned())))
}

fn link(slug: &str) -> NewLink {
    let url = Address::parse("https://example.com/").unwrap();
    NewLink { url, slug: Some(slug.into()), title: String::new(), options: LinkOptions::default() }
}

#[test]
fn instances_that_start_together_migrate_once() {
    let Some((_, url)) = new_database(POSTGRES_USER) else { return };
    let stores: Vec<_> = std::thread::scope(|scope| {
        let opening: Vec<_> = (0..4).map(|_| scope.spawn(|| open_store(&url).unwrap())).collect();
        opening.into_iter().map(|opening| opening.join().unwrap()).collect()
    });
    let slugs: Vec<_> = stores.iter().map(|store| store.slugs().encode(1)).collect();
    assert!(slugs.iter().all(|slug| *slug == slugs[0]), "{slugs:?}");
}

#[test]
fn user_without_rights_and_database_of_another_version_are_clear_errors() {
    let Some((name, url)) = new_database("nobody_special") else { return };
    let error = |url: &str| open_store(url).map(drop).unwrap_err().to_string();
    let sql =
        "DO $$ BEGIN CREATE ROLE nobody_special LOGIN; EXCEPTION WHEN duplicate_object THEN NULL; END $$";
    execute(&name, sql);
    assert!(error(&url).contains("permission denied for schema public"), "{}", error(&url));

    let owner = url.replace("nobody_special", POSTGRES_USER);
    open_store(&owner).unwrap();
    // The tables are there, and not for this user.
    assert!(error(&url).contains("permission denied for table larder_schema"), "{}", error(&url));
    execute(&name, "GRANT SELECT ON ALL TABLES IN SCHEMA public TO nobody_special");
    let message = error(&url);
    assert!(message.contains("the user lacks rights on its tables: link_tags (DELETE), "), "{message}");
    assert!(!message.contains("SELECT") && !message.contains("larder_meta"), "{message}");

    execute(&name, "GRANT INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA public TO nobody_special");
    assert!(error(&url).ends_with("rights on its tables: public.links_id_seq (USAGE)"), "{}", error(&url));
    execute(&name, "GRANT USAGE ON ALL SEQUENCES IN SCHEMA public TO nobody_special");
    open_store(&url).unwrap();
    execute(&name, "UPDATE larder_schema SET version = 2");
    let older = error(&url);
    let start = "has version 2, this program needs version 3, and its user may not migrate it: ERROR: permission denied";
    assert!(older.contains(start), "{older}");
    execute(&name, "UPDATE larder_schema SET version = 99");
    assert!(error(&url).ends_with("has version 99, this program knows versions up to 3"), "{}", error(&url));
}

#[test]
fn database_of_another_encoding_is_an_error_at_the_start() {
    let Some((name, url)) = new_database(POSTGRES_USER) else { return };
    let latin = format!("{name}_latin");
    let create = format!("CREATE DATABASE {latin} TEMPLATE template0 ENCODING 'LATIN1' LOCALE 'C'");
    execute("postgres", &create);
    let error = open_store(&url.replace(&name, &latin)).map(drop).unwrap_err().to_string();
    assert!(error.ends_with(": its encoding is LATIN1, expected UTF8"), "{error}");
}

#[test]
fn unreachable_server_and_wrong_url_are_clear_errors_without_the_password() {
    for (url, reason) in [
        ("postgres://me:secret@127.0.0.1:1/links", "Connection refused"),
        ("postgres://me:secret@127.0.0.1:1/links?sslmode=allow", "expected a URL whose sslmode is"),
        ("postgres://me:secret@127.0.0.1:1/links?colour=secret", "expected a URL such as"),
    ] {
        let error = open_store(url).map(drop).unwrap_err().to_string();
        let start = "cannot open the database postgres://…@127.0.0.1:1/links: ";
        assert!(error.starts_with(start) && error.contains(reason) && !error.contains("secret"), "{error}");
    }
}

#[test]
fn server_that_never_speaks_is_an_error_at_the_start() {
    let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = silent.local_addr().unwrap().port();
    let error = open_store(&format!("postgres://me@127.0.0.1:{port}/links?connect_timeout=1"));
    let error = error.map(drop).unwrap_err().to_string();
    assert!(error.ends_with("/links: what listens there says nothing for 1 s"), "{error}");
}

#[tokio::test]
async fn text_is_found_at_the_beginning_only_without_the_extension() {
    let Some((name, url)) = new_database("no_extension") else { return };
    // CREATE on the database, which a trusted extension needs, is for the owner alone.
    let sql = "DO $$ BEGIN CREATE ROLE no_extension LOGIN; EXCEPTION WHEN duplicate_object THEN NULL; END $$;
               GRANT ALL ON SCHEMA public TO no_extension";
    execute(&name, sql);
    let find = async |store: &Store, text: &str| {
        let query = ListQuery { limit: 9, text: Some(text.into()), ..ListQuery::default() };
        store.list(query).await.unwrap().links.into_iter().map(|link| link.slug).collect::<Vec<_>>()
    };
    let store = open_store(&url).unwrap();
    store.create(vec![link("Catalogue")], Duplicates::Allow).await.unwrap();
    assert_eq!(find(&store, "catal").await, ["Catalogue"]);
    assert!(find(&store, "talogue").await.is_empty());
    // As soon as somebody has created it, the next start creates the index.
    execute(&name, "CREATE EXTENSION pg_trgm");
    let store = open_store(&url).unwrap();
    assert_eq!(find(&store, "talogue").await, ["Catalogue"]);
}

#[tokio::test]
async fn backup_is_refused_and_names_pg_dump() {
    let Some((_, url)) = new_database(POSTGRES_USER) else { return };
    let store = open_store(&url).unwrap();
    let error = store.backup("copy.db".into()).await.unwrap_err();
    assert!(matches!(error, StoreError::NoBackup { .. }) && error.to_string().contains("pg_dump"), "{error}");
}

/// A proxy before the server of this binary, and a store behind it with the link `a`.
async fn store_behind_proxy() -> Option<(PostgresProxy, Store)> {
    let (name, _) = new_database(POSTGRES_USER)?;
    let proxy = with_postgres(PostgresProxy::before)?;
    let store = open_store(&proxy.url(&name)).unwrap();
    store.create(vec![link("a")], Duplicates::Allow).await.unwrap();
    Some((proxy, store))
}

#[tokio::test]
async fn batch_whose_commit_is_unknown_counts_once() {
    let Some((proxy, store)) = store_behind_proxy().await else { return };
    let link_id = store.find("a").await.unwrap().unwrap().id;
    for (cut, expected) in [(CommitCut::Before, 5), (CommitCut::After, 10)] {
        let batch = VisitBatch::new(vec![(VisitKey { link_id, quarter: 1 }, 5)]);
        proxy.cut_next_commits([cut]);
        let unknown = store.write_batch(&batch, TotalsOf::All).await;
        assert!(matches!(unknown, Err(StoreError::Unknown(_))), "{unknown:?}");
        for _ in 0..2 {
            let written = store.write_batch(&batch, TotalsOf::All).await.unwrap();
            assert_eq!((written.visits, written.totals[0].visits), (5, expected), "{cut:?}");
        }
        assert_eq!(store.visits(link_id).await.unwrap(), Some(expected), "{cut:?}");
        assert_eq!(store.history(link_id, 0).await.unwrap().quarters, [(1, expected)]);
    }
}

#[tokio::test]
async fn limit_and_forgetting_know_the_visits_of_an_unknown_batch() {
    let Some((name, _)) = new_database(POSTGRES_USER) else { return };
    let proxy = with_postgres(PostgresProxy::before).unwrap();
    let fixture = open_with(|config| config.database = proxy.url(&name));
    for cut in [CommitCut::Before, CommitCut::After] {
        let slug = format!("{cut:?}");
        let limited = json!({ "url": "https://a.example/", "slug": slug, "max_visits": 3 });
        assert_eq!(fixture.post("/api/links", limited).await.status, StatusCode::CREATED);
        let path = format!("/{slug}");
        let flush_unknown = async || {
            proxy.cut_next_commits([cut]);
            let flushed = fixture.links.flush_visits().await;
            assert!(matches!(flushed, Err(LinksError::Store(StoreError::Unknown(_)))), "{flushed:?}");
        };
        for _ in 0..2 {
            assert_eq!(fixture.get(&path).await.status, StatusCode::FOUND);
        }
        flush_unknown().await;
        assert_eq!(fixture.links.stats().visits.queued, 2, "{cut:?}");
        assert_eq!(fixture.get(&path).await.status, StatusCode::FOUND);
        assert_eq!(fixture.get(&path).await.status, StatusCode::GONE, "the limit is reached: {cut:?}");
        fixture.links.flush_visits().await.unwrap();
        assert_eq!(fixture.written_visits(&slug).await, 3, "{cut:?}");

        let forget = async || {
            let path = format!("/api/links/{slug}/visits");
            fixture.send_json(Method::DELETE, &path, json!({})).await.status
        };
        assert_eq!(forget().await, StatusCode::NO_CONTENT);
        assert_eq!(fixture.get(&path).await.status, StatusCode::FOUND);
        flush_unknown().await;
        assert_eq!(forget().await, StatusCode::NO_CONTENT);
        fixture.links.flush_visits().await.unwrap();
        assert_eq!(
            (fixture.written_visits(&slug).await, fixture.links.stats().visits.queued),
            (0, 0),
            "{cut:?}"
        );
    }
}

#[tokio::test]
async fn counts_of_an_unknown_batch_of_dimensions_are_written_once_and_forgotten() {
    let Some((name, _)) = new_database(POSTGRES_USER) else { return };
    let proxy = with_postgres(PostgresProxy::before).unwrap();
    let fixture = open_with(|config| config.database = proxy.url(&name));
    for cut in [CommitCut::Before, CommitCut::After] {
        let slug = fixture.link(None, "https://a.example/").await;
        let link_id = fixture.links.store().find(&slug).await.unwrap().unwrap().id;
        // A bot is no visit, so that the only commit is that of the dimensions.
        let follow = async || {
            let bot = [("user-agent", "Mozilla/5.0 (compatible; Googlebot/2.1)")];
            assert_eq!(
                fixture.ask(Method::GET, &format!("/{slug}"), &bot, None).await.status,
                StatusCode::FOUND
            );
        };
        let flush_unknown = async || {
            proxy.cut_next_commits([cut]);
            let flushed = fixture.links.flush_visits().await;
            assert!(matches!(flushed, Err(LinksError::Store(StoreError::Unknown(_)))), "{flushed:?}");
        };
        let bots = async || {
            let bots = fixture.links.store().dimensions(link_id, 0).await.unwrap().bots;
            bots.into_iter().map(|bot| (bot.value, bot.visits)).collect::<Vec<_>>()
        };
        follow().await;
        flush_unknown().await;
        follow().await;
        for _ in 0..2 {
            fixture.links.flush_visits().await.unwrap();
            assert_eq!(bots().await, [("Googlebot".to_owned(), 2)], "{cut:?}");
        }
        follow().await;
        flush_unknown().await;
        let path = format!("/api/links/{slug}/visits");
        let forgotten = fixture.send_json(Method::DELETE, &path, json!({})).await;
        assert_eq!(forgotten.status, StatusCode::NO_CONTENT);
        fixture.links.flush_visits().await.unwrap();
        assert_eq!(bots().await, [], "{cut:?}");
    }
}

/// A client sees 503 and creates the link again, or finds it.
#[tokio::test]
async fn link_whose_commit_is_unknown_is_reported_as_such() {
    let Some((proxy, store)) = store_behind_proxy().await else { return };
    proxy.cut_next_commits([CommitCut::After]);
    let unknown = store.create(vec![link("b")], Duplicates::Allow).await.unwrap_err();
    assert!(unknown.to_string().contains("which may be stored"), "{unknown}");
    assert!(store.find("b").await.unwrap().is_some());
}

/// Behind a load balancer an instance that is unhealthy gets no request that could find out that it is not.
#[tokio::test]
async fn health_follows_the_server_without_requests() {
    let Some(mut server) = start_postgres() else { return };
    let fixture = open_with(|config| config.database = server.url(POSTGRES_USER, "postgres"));
    fixture.link(Some("a"), "https://a.example/").await;
    assert_eq!(fixture.get("/a").await.status, StatusCode::FOUND);
    server.kill();
    // Nobody has asked for what is in the database.
    let health = async || fixture.get("/healthz").await.status;
    eventually("the instance is unhealthy", async || health().await == StatusCode::SERVICE_UNAVAILABLE).await;
    let refused = fixture.post("/api/links", json!({ "url": "https://b.example/" })).await;
    assert_eq!(refused.status, StatusCode::SERVICE_UNAVAILABLE, "{}", refused.text());
    // The cache serves what it has.
    assert_eq!(fixture.get("/a").await.status, StatusCode::FOUND);
    server.restart().unwrap();
    eventually("the instance is healthy", async || health().await == StatusCode::OK).await;
    fixture.link(None, "https://b.example/").await;
}

/// Links, visits and answers of the clients of three instances.
struct Clients {
    slugs: Vec<String>,
    /// The redirects of each slug that a client has got.
    followed: Vec<AtomicU64>,
    /// The links whose creation was acknowledged.
    created: Mutex<Vec<String>>,
    stopped: AtomicBool,
}

impl Clients {
    /// Follows and creates links on an instance until it is told to stop.
    async fn run(self: Arc<Self>, instance: Arc<Fixture>, number: usize) {
        for round in 0.. {
            if self.stopped.load(SeqCst) {
                return;
            }
            let index = (round * 7 + number) % self.slugs.len();
            if instance.get(&format!("/{}", self.slugs[index])).await.status == StatusCode::FOUND {
                self.followed[index].fetch_add(1, SeqCst);
            }
            if round % 25 == 0 {
                let url = format!("https://example.com/{number}/{round}");
                let answer = instance.post("/api/links", json!({ "url": url })).await;
                if answer.status == StatusCode::CREATED {
                    self.created.lock().unwrap().push(answer.json()["slug"].as_str().unwrap().to_owned());
                }
            }
            tokio::task::yield_now().await;
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn three_instances_lose_nothing_and_repeat_nothing_while_the_server_and_connections_fail() {
    let Some(mut server) = start_postgres() else { return };
    let proxy = PostgresProxy::before(&server);
    let url = proxy.url("postgres");
    let open = |_| {
        Arc::new(open_with(|config| {
            config.database = url.clone();
            config.visit_flush_ms = 20;
        }))
    };
    let instances: Vec<Arc<Fixture>> = (0..3).map(open).collect();
    let mut slugs = Vec::new();
    for n in 0..8 {
        slugs.push(instances[0].link(None, &format!("https://example.com/{n}")).await);
    }
    let followed = slugs.iter().map(|_| AtomicU64::new(0)).collect();
    let clients =
        Arc::new(Clients { slugs, followed, created: Mutex::default(), stopped: AtomicBool::new(false) });
    let running: Vec<_> = (instances.iter().enumerate())
        .map(|(number, instance)| tokio::spawn(clients.clone().run(instance.clone(), number)))
        .collect();

    for round in 1..=4 {
        let cuts =
            [CommitCut::After, CommitCut::Before, CommitCut::After, CommitCut::After, CommitCut::Before];
        proxy.cut_next_commits(cuts);
        eventually("commits are cut", async || proxy.cuts_done() >= 5 * round).await;
        proxy.cut();
        let created = clients.created.lock().unwrap().len();
        eventually("links are created again", async || clients.created.lock().unwrap().len() > created + 3)
            .await;
        if round % 2 == 0 {
            restart_after_a_crash(&mut server, &instances).await;
        }
    }
    clients.stopped.store(true, SeqCst);
    for client in running {
        client.await.unwrap();
    }

    for instance in &instances {
        eventually("visits are written", async || instance.links.flush_visits().await.is_ok()).await;
        let visits = instance.links.stats().visits;
        assert_eq!((visits.queued, visits.dropped), (0, 0));
    }
    for (slug, followed) in clients.slugs.iter().zip(&clients.followed) {
        assert!(followed.load(SeqCst) > 0);
        assert_eq!(instances[0].written_visits(slug).await, followed.load(SeqCst), "{slug}");
    }
    let created = std::mem::take(&mut *clients.created.lock().unwrap());
    for slug in &created {
        assert!(instances[1].links.store().find(slug).await.unwrap().is_some(), "{slug} is lost");
    }
}

/// Kills the server, and starts it with what it has on the disk when all instances have noticed.
async fn restart_after_a_crash(server: &mut PostgresServer, instances: &[Arc<Fixture>]) {
    server.kill();
    for instance in instances {
        let health = || instance.links.store().health();
        eventually("a write fails", async || matches!(health(), StoreHealth::WriterDown { .. })).await;
    }
    server.restart().unwrap();
}

#[tokio::test]
async fn copy_of_a_file_keeps_ids_slugs_tokens_and_visits() {
    let Some((name, url)) = new_database(POSTGRES_USER) else { return };
    let to = DatabaseAddress::Postgres(url.clone());
    let old = open();
    let tagged = json!({ "url": "https://a.example/", "slug": "a", "title": "Ä", "tags": ["x", "y"], "max_visits": 50 });
    assert_eq!(old.post("/api/links", tagged).await.status, StatusCode::CREATED);
    for n in 0..5 {
        old.link(None, &format!("https://example.com/{n}")).await;
    }
    old.link(Some("gone"), "https://gone.example/").await;
    old.send_json(Method::DELETE, "/api/links/gone", json!({})).await;
    let (_, bearer) = old.bearer(Scope::Read).await;
    for _ in 0..3 {
        old.ask(Method::GET, "/a", &[("referer", "https://news.example/")], None).await;
    }
    old.links.flush_visits().await.unwrap();
    let file = old.folder.path().join("links.db");
    let in_use = copy(&file, &to).await.unwrap_err();
    assert!(matches!(in_use, StoreError::InUse { .. }), "{in_use}");
    let shown = old.get("/api/links/a").await.json();
    let listed = old.get("/api/links").await.json();
    old.links.stop().await.unwrap();

    let copied = copy(&file, &to).await.unwrap();
    assert_eq!((copied.links, copied.tokens, copied.visits), (7, 1, 3));
    let new = open_with(|config| config.database = url.clone());
    assert_eq!(new.get("/api/links/a").await.json(), shown);
    assert_eq!(new.get("/api/links").await.json()["links"], listed["links"]);
    assert_eq!(new.get("/gone").await.status, StatusCode::GONE);
    assert!(new.links.store().has_token(bearer.trim_start_matches("Bearer ")).await.unwrap());
    // The next link has the slug that it would have had in the file.
    let next = new.links.store().slugs().encode(8).unwrap();
    assert_eq!(new.link(None, "https://next.example/").await, next);

    let not_empty = copy(&file, &to).await.unwrap_err();
    assert!(matches!(not_empty, StoreError::NotEmpty { .. }), "{not_empty}");
    assert_eq!(execute(&name, "SELECT count(*) FROM links"), "8");
    // The file is as it was.
    let again = Store::open(&StoreConfig::new(file)).unwrap();
    assert_eq!(again.links_after(0).await.unwrap().len(), 6);
}

/// Writes batches with a visit of each of these links, in this order.
async fn write_batches(store: Store, links: Vec<u64>, count: u64) -> Result<(), StoreError> {
    for _ in 0..count {
        let rows = links.iter().map(|&link_id| (VisitKey { link_id, quarter: 1 }, 1)).collect();
        store.write_batch(&VisitBatch::new(rows), TotalsOf::None).await?;
    }
    Ok(())
}

/// In the order of the batches each instance would lock links that the other one waits for.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn batches_of_the_same_links_in_opposite_orders_never_deadlock() {
    const BATCHES: u64 = 8;
    const LINKS: u64 = 2_000;
    let Some((_, url)) = new_database(POSTGRES_USER) else { return };
    let (one, other) = (open_store(&url).unwrap(), open_store(&url).unwrap());
    for half in ["a", "b"] {
        let links = (0..LINKS / 2).map(|n| link(&format!("{half}{n}"))).collect();
        one.create(links, Duplicates::Allow).await.unwrap();
    }
    let forward = tokio::spawn(write_batches(one.clone(), (1..=LINKS).collect(), BATCHES));
    let backward = tokio::spawn(write_batches(other, (1..=LINKS).rev().collect(), BATCHES));
    forward.await.unwrap().unwrap();
    backward.await.unwrap().unwrap();
    for link_id in [1, LINKS] {
        assert_eq!(one.visits(link_id).await.unwrap(), Some(2 * BATCHES));
    }
}

//! A shortener in its own folder, and requests to its router without sockets.

use axum::body::Body;
use axum::extract::ConnectInfo;
use http::header::{CONTENT_TYPE, HOST};
use http::{HeaderMap, Method, Request, Response, StatusCode};
use http_body_util::BodyExt;
use larder_links::import::Destination;
use larder_links::{Config, Deps, Links, OwnAddresses, Scope};
use serde_json::{Value, json};
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use tempfile::TempDir;
use tower::ServiceExt;

/// A shortener whose folder goes with it.
pub(crate) struct Fixture {
    pub(crate) links: Links,
    pub(crate) config: Config,
    pub(crate) folder: TempDir,
}

/// Visits are written when a test says so, not by the clock.
pub(crate) fn open() -> Fixture {
    open_with(|_| {})
}

pub(crate) fn open_with(change: impl FnOnce(&mut Config)) -> Fixture {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("links.db").display().to_string();
    let mut config = Config {
        database: new_postgres_database().unwrap_or(file),
        visit_flush_ms: 60_000,
        ..Config::default()
    };
    change(&mut config);
    let links = Links::open(config.clone(), Deps::open(&config).unwrap()).unwrap();
    Fixture { links, config, folder }
}

/// The URL of an empty database, if the test is one of the module `on_postgres`: the thread of a test has its name. Where
/// PostgreSQL is not installed, a note says so and the test runs on SQLite once more.
fn new_postgres_database() -> Option<String> {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    let thread = std::thread::current();
    thread.name().filter(|name| name.starts_with("on_postgres::"))?;
    let name = format!("links_{}", COUNT.fetch_add(1, Relaxed));
    larder_testkit::with_postgres(|server| {
        server.execute("postgres", &format!("CREATE DATABASE {name}")).unwrap();
        server.url(larder_testkit::POSTGRES_USER, &name)
    })
}

/// An answer, read to its end.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Vec<u8>,
}

impl Answer {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|error| panic!("{error}: {:?}", self.text()))
    }

    pub(crate) fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    pub(crate) fn header(&self, name: &str) -> &str {
        self.headers.get(name).map_or("", |value| value.to_str().unwrap())
    }
}

impl Fixture {
    /// Sends a request as a client on this machine does, unless it names another peer.
    pub(crate) async fn send(&self, mut request: Request<Body>) -> Answer {
        if request.extensions().get::<ConnectInfo<SocketAddr>>().is_none() {
            request.extensions_mut().insert(peer("127.0.0.1"));
        }
        let response: Response<Body> = self.links.router().oneshot(request).await.unwrap();
        let (parts, body) = response.into_parts();
        let body = body.collect().await.unwrap().to_bytes().to_vec();
        Answer { status: parts.status, headers: parts.headers, body }
    }

    /// A request of any kind with these headers; a body is JSON.
    pub(crate) async fn ask(
        &self,
        method: Method,
        path: &str,
        headers: &[(&str, &str)],
        body: Option<Value>,
    ) -> Answer {
        let mut request = request(method, path);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        if body.is_some() {
            request = request.header(CONTENT_TYPE, "application/json");
        }
        let body = body.map_or_else(Body::empty, |body| Body::from(body.to_string()));
        self.send(request.body(body).unwrap()).await
    }

    /// A new token, as the value of an `Authorization` header.
    pub(crate) async fn bearer(&self, scope: Scope) -> (u64, String) {
        let (token, secret) = self.links.store().add_token("test", scope).await.unwrap();
        (token.id, format!("Bearer {}", secret.as_str()))
    }

    pub(crate) async fn get(&self, path: &str) -> Answer {
        self.send(request(Method::GET, path).body(Body::empty()).unwrap()).await
    }

    pub(crate) async fn post(&self, path: &str, body: Value) -> Answer {
        self.send_json(Method::POST, path, body).await
    }

    pub(crate) async fn send_json(&self, method: Method, path: &str, body: Value) -> Answer {
        let request = request(method, path).header(CONTENT_TYPE, "application/json");
        self.send(request.body(Body::from(body.to_string())).unwrap()).await
    }

    /// Makes a link under a slug, or a derived one, and gives the slug.
    pub(crate) async fn link(&self, slug: Option<&str>, url: &str) -> String {
        let answer = self.post("/api/links", json!({ "url": url, "slug": slug })).await;
        assert_eq!(answer.status, StatusCode::CREATED, "{}", answer.text());
        answer.json()["slug"].as_str().unwrap().to_owned()
    }

    /// Makes a link in a service that needs a token.
    pub(crate) async fn link_with_token(&self, slug: &str, url: &str) {
        let (_, bearer) = self.bearer(Scope::Write).await;
        let body = json!({ "url": url, "slug": slug });
        let answer = self.ask(Method::POST, "/api/links", &[("authorization", &bearer)], Some(body)).await;
        assert_eq!(answer.status, StatusCode::CREATED, "{}", answer.text());
    }

    /// The database, for an import that knows no address of its shortener.
    pub(crate) fn destination(&self) -> Destination {
        Destination::Store { store: self.links.store().clone(), own: OwnAddresses::default() }
    }

    pub(crate) fn is_sqlite(&self) -> bool {
        !self.config.database.starts_with("postgres:")
    }

    /// Executes a statement on the database, as another program; the values of the first row it returns, separated by `|`.
    pub(crate) fn execute(&self, sql: &str) -> String {
        if self.is_sqlite() {
            let database = rusqlite::Connection::open(&self.config.database).unwrap();
            let mut statement = database.prepare(sql).unwrap();
            let columns = statement.column_count();
            let mut rows = statement.raw_query();
            let Some(row) = rows.next().unwrap() else { return String::new() };
            let text = |column| match row.get::<_, rusqlite::types::Value>(column).unwrap() {
                rusqlite::types::Value::Text(text) => text,
                rusqlite::types::Value::Integer(number) => number.to_string(),
                _ => String::new(),
            };
            return (0..columns).map(text).collect::<Vec<_>>().join("|");
        }
        let name = self.config.database.strip_prefix("postgres:///").unwrap().split('?').next().unwrap();
        larder_testkit::with_postgres(|server| server.execute(name, sql).unwrap()).unwrap()
    }

    /// The visits of a link as the database has them.
    pub(crate) async fn written_visits(&self, slug: &str) -> u64 {
        self.links.store().find(slug).await.unwrap().unwrap().visits
    }
}

/// The address of a connection, as the accept loop notes it.
pub(crate) fn peer(ip: &str) -> ConnectInfo<SocketAddr> {
    ConnectInfo(SocketAddr::new(ip.parse().unwrap(), 40_000))
}

pub(crate) fn request(method: Method, path: &str) -> http::request::Builder {
    Request::builder().method(method).uri(path).header(HOST, "localhost:8080")
}

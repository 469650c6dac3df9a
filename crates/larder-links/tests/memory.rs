//! A batch takes memory in proportion to its bytes, whatever is in them, and an export takes as much for many links as for
//! few. A redirect allocates little. A program of its own, because it replaces the allocator by one that counts.

use axum::body::Body;
use axum::extract::ConnectInfo;
use http::{Request, StatusCode};
use http_body_util::BodyExt;
use larder_links::store::{Duplicates, LinkOptions, NewLink};
use larder_links::{Config, Deps, Links};
use std::alloc::{GlobalAlloc, Layout, System};
use std::io::{Read, Write};
use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use tower::ServiceExt;

static ALLOCATED: AtomicUsize = AtomicUsize::new(0);
static PEAK: AtomicUsize = AtomicUsize::new(0);
/// The number of allocations since the start.
static COUNT: AtomicUsize = AtomicUsize::new(0);

struct Counting;

// SAFETY: every call goes to the system's allocator with the caller's own arguments; the counters are beside it.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        COUNT.fetch_add(1, Relaxed);
        PEAK.fetch_max(ALLOCATED.fetch_add(layout.size(), Relaxed) + layout.size(), Relaxed);
        // SAFETY: the caller keeps the rules of `alloc`.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        ALLOCATED.fetch_sub(layout.size(), Relaxed);
        // SAFETY: the pointer came from `alloc` above, with this layout.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// One test at a time, because the counters are of the whole process.
static ONE_AT_A_TIME: tokio::sync::Mutex<()> = tokio::sync::Mutex::const_new(());

const BODY_BYTES: usize = 4 * 1024 * 1024;

#[tokio::test]
async fn batch_is_counted_before_it_becomes_a_tree() {
    let _alone = ONE_AT_A_TIME.lock().await;
    let folder = tempfile::tempdir().unwrap();
    let database = folder.path().join("links.db").display().to_string();
    let config = Config { database, ..Config::default() };
    let links = Links::open(config.clone(), Deps::open(&config).unwrap()).unwrap();
    let repeat = |item: &str, count: usize| format!("[{}]", vec![item; count].join(","));
    for (body, status) in [
        (repeat("{\"\":0}", BODY_BYTES / 7 - 1), StatusCode::UNPROCESSABLE_ENTITY),
        (format!("[{}]", repeat("[]", BODY_BYTES / 3 - 2)), StatusCode::OK),
        (repeat("0", BODY_BYTES / 2 - 1), StatusCode::UNPROCESSABLE_ENTITY),
        (format!("{{\"a\":{}}}", repeat("[]", BODY_BYTES / 3 - 4)), StatusCode::UNPROCESSABLE_ENTITY),
    ] {
        let start = body[..20].to_owned();
        let mut request = Request::post("/api/links/batch")
            .header("host", "localhost")
            .header("content-type", "application/json")
            .body(Body::from(body))
            .unwrap();
        request.extensions_mut().insert(ConnectInfo(SocketAddr::from(([127, 0, 0, 1], 40_000))));
        let before = ALLOCATED.load(Relaxed);
        PEAK.store(before, Relaxed);
        let response = links.router().oneshot(request).await.unwrap();
        assert_eq!(response.status(), status, "{start}");
        let took = PEAK.load(Relaxed) - before;
        // A tree of the first body takes 200 MiB.
        assert!(took < 2 * BODY_BYTES, "{start}… took {took} bytes");
    }
}

#[tokio::test]
async fn export_takes_no_more_memory_for_more_links() {
    const LINKS: usize = 12_000;
    const URL_BYTES: usize = 8_000;
    // Less than the export has bytes.
    const ALLOWED: usize = 64 << 20;
    let _alone = ONE_AT_A_TIME.lock().await;
    let folder = tempfile::tempdir().unwrap();
    let database = folder.path().join("links.db").display().to_string();
    let config = Config { database: database.clone(), ..Config::default() };
    let links = Links::open(config.clone(), Deps::open(&config).unwrap()).unwrap();
    // As long as addresses can be, without the index of texts, which takes most of the time of an insertion.
    rusqlite::Connection::open(&database)
        .unwrap()
        .execute_batch(&format!(
            "WITH RECURSIVE ids (id) AS (SELECT 1 UNION ALL SELECT id + 1 FROM ids WHERE id < {LINKS})
             INSERT INTO links (slug, url, created_at)
             SELECT 's' || id, 'https://a.example/' || printf('%.{URL_BYTES}c', 'x'), 1 FROM ids;"
        ))
        .unwrap();
    for format in ["csv", "json"] {
        let uri = format!("/api/export?format={format}");
        let mut request = Request::get(uri).header("host", "localhost").body(Body::empty()).unwrap();
        request.extensions_mut().insert(ConnectInfo(SocketAddr::from(([127, 0, 0, 1], 40_000))));
        let before = ALLOCATED.load(Relaxed);
        PEAK.store(before, Relaxed);
        let mut body = links.router().oneshot(request).await.unwrap().into_body();
        let mut bytes = 0;
        while let Some(frame) = body.frame().await {
            bytes += frame.unwrap().into_data().unwrap().len();
        }
        assert!(bytes > LINKS * URL_BYTES, "{bytes}");
        let took = PEAK.load(Relaxed) - before;
        assert!(took < ALLOWED, "{format} took {took} bytes");
    }
}

/// The router's way to the redirect costs further ones for its layers, the extensions and the path.
const ALLOCATIONS_PER_REDIRECT: f64 = 7.5;

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn redirect_allocates_little() {
    const REDIRECTS: usize = 1_000;
    let _alone = ONE_AT_A_TIME.lock().await;
    let folder = tempfile::tempdir().unwrap();
    let database = folder.path().join("links.db").display().to_string();
    let config = Config { database, visit_flush_ms: 60_000, ..Config::default() };
    let links = Links::open(config.clone(), Deps::open(&config).unwrap()).unwrap();
    let url = larder_links::Address::parse("https://example.com/some/path").unwrap();
    let options = LinkOptions::default();
    let new = NewLink { url, slug: Some("a".into()), title: String::new(), options };
    links.store().create(vec![new], Duplicates::Allow).await.unwrap();
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let service = tokio::spawn(async move { links.serve(listener, std::future::pending()).await });

    let count = tokio::task::spawn_blocking(move || {
        let mut stream = std::net::TcpStream::connect(address).unwrap();
        let mut answer = [0; 1_024];
        let mut redirect = || {
            stream.write_all(b"GET /a HTTP/1.1\r\nhost: localhost\r\nuser-agent: test\r\n\r\n").unwrap();
            let length = stream.read(&mut answer).unwrap();
            assert!(answer[..length].starts_with(b"HTTP/1.1 302 "));
        };
        // The first ones load the link, and fill buffers that stay.
        (0..100).for_each(|_| redirect());
        let before = COUNT.load(Relaxed);
        (0..REDIRECTS).for_each(|_| redirect());
        COUNT.load(Relaxed) - before
    });
    let each = count.await.unwrap() as f64 / REDIRECTS as f64;
    service.abort();
    assert!(each < ALLOCATIONS_PER_REDIRECT, "{each} allocations for a redirect");
}

//! `larder up` from its first line to its last: what it makes, what it serves, and that it stops well and in time.

use crate::dashboard::{part, stats, tier};
use crate::http::{connect, get, request};
use crate::process::Up;
use crate::resp::command;
use crate::shortener::{await_visits, count, create, follow, show, visits};
use larder_testkit::Running;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

/// Visits are written by nobody but the one who stops: the clock comes too late.
const SELDOM: &str = "[links]\nvisit_flush_ms = 60000\n";

#[test]
fn it_makes_a_private_folder_and_token_and_serves_all_ports() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let data = folder.path().join("made/on/the/way");
    let up = Up::start(&data);
    assert_eq!(mode(&data), 0o700);
    assert_eq!(mode(&data.join("admin-token")), 0o600);
    assert!(data.join("links.db").is_file());

    assert_eq!(command(up.resp, "PING"), "+PONG");
    let page = get(up.http, "/");
    assert_eq!((page.status, page.header("content-type")), (200, Some("text/html; charset=utf-8")));
    let dashboard = get(up.admin, "/");
    assert_eq!((dashboard.status, dashboard.header("content-type")), (200, Some("text/html; charset=utf-8")));
    assert_eq!(
        (get(up.http, "/healthz").body, get(up.admin, "/healthz").body),
        ("ok\n".into(), "ok\n".into())
    );
    up.stop();
}

#[test]
fn the_token_of_the_first_start_purges_after_the_second() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let data = folder.path().join("data");
    let first = Up::start(&data);
    let token = std::fs::read_to_string(data.join("admin-token")).expect("a token");
    first.stop();
    let second = Up::start(&data);
    let purge = |authorization: &str| {
        let headers = [("Content-Type", "application/json"), ("Authorization", authorization)];
        let body = r#"{"part": "api responses", "all": true}"#;
        request(second.admin, "POST", "/api/purge", &headers, body).expect("an answer").status
    };
    assert_eq!(purge("Bearer 0000"), 401);
    assert_eq!(purge(&format!("Bearer {}", token.trim_end())), 200);
    second.stop();
}

#[test]
fn sigterm_ends_it_with_every_link_and_visit_kept() {
    stops_cleanly(Running::terminate);
}

#[test]
fn ctrl_c_ends_it_with_every_link_and_visit_kept() {
    stops_cleanly(Running::interrupt);
}

fn stops_cleanly(signal: fn(&Running)) {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let data = folder.path().join("data");
    let mut up = Up::start_with(&data, SELDOM);
    let slugs: Vec<String> = (0..5).map(|n| create(up.http, &format!("https://example.com/{n}"))).collect();
    for slug in &slugs {
        follow(up.http, slug);
        follow(up.http, slug);
    }
    assert_eq!(visits(up.http, &slugs[0]), 0, "nothing has been written so far");

    let clients = [
        hanging_clients(up.resp, b"PING\r\n", b"*2\r\n$3\r\nGET\r\n"),
        hanging_clients(up.http, HEALTH, SLOW_BODY),
        hanging_clients(up.admin, HEALTH, SLOW_HEAD),
    ];
    signal(up.process.running());
    let ended = up.process.end().assert_clean_stop();
    assert!(ended.stdout.ends_with("stopping\n"), "{ended:?}");
    drop(clients);

    let up = Up::start_with(&data, SELDOM);
    assert_eq!(count(up.http), slugs.len());
    for (n, slug) in slugs.iter().enumerate() {
        assert_eq!(visits(up.http, slug), 2);
        assert_eq!(follow(up.http, slug), format!("https://example.com/{n}"));
    }
    up.stop();
}

const HEALTH: &[u8] = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n";
const SLOW_HEAD: &[u8] = b"GET / HTTP/1.1\r\nHost: lo";
/// The server says when it wants the body, which then does not come.
const SLOW_BODY: &[u8] = b"POST /api/links HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n\
    Content-Length: 100\r\nExpect: 100-continue\r\n\r\n";

/// Three who would keep a server from ending: one that says nothing, one that was answered and stays, one that stops
/// in the middle of a request.
fn hanging_clients(address: SocketAddr, whole: &[u8], part: &[u8]) -> [TcpStream; 3] {
    let silent = connect(address).expect("a connection");
    [silent, answered(address, whole), answered(address, &[whole, part].concat())]
}

/// A connection on which this was sent and the answer has begun.
fn answered(address: SocketAddr, sent: &[u8]) -> TcpStream {
    let mut stream = connect(address).expect("a connection");
    stream.write_all(sent).expect("it is sent");
    assert!(stream.read(&mut [0; 16]).expect("an answer") > 0);
    stream
}

#[test]
fn a_second_signal_ends_it_at_once() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let mut up = Up::start(&folder.path().join("data"));
    let slow = answered(up.http, SLOW_BODY);
    up.process.running().interrupt();
    up.process.await_line("stopping");
    up.process.running().interrupt();
    assert_eq!(up.process.end().code, Some(130));
    drop(slow);
}

#[test]
fn the_dashboard_counts_what_happened() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let up = Up::start(&folder.path().join("data"));
    let slug = create(up.http, "https://example.com/counted");
    for _ in 0..4 {
        follow(up.http, &slug);
    }
    assert_eq!(get(up.http, "/nowhere").status, 404);
    await_visits(up.http, &slug, 4);
    command(up.resp, "SET key value");
    command(up.resp, "GET key");
    command(up.resp, "GET other");

    let stats = stats(up.admin);
    let links = part(&stats, "links");
    let redirects = tier(links, "redirects");
    assert_eq!(
        (&redirects["operations"]["found"], &redirects["operations"]["not_found"]),
        (&4.into(), &1.into())
    );
    assert_eq!(redirects["latency"]["count"], 5);
    // The first redirect and the wrong slug went down to the database, the other three no further than to the memory.
    assert_eq!(tier(links, "memory")["lookups"]["hit"], 3);
    assert_eq!(tier(links, "origin")["operations"]["load"], 2);
    let server = tier(part(&stats, "server"), "memory");
    assert!(server["lookups"]["hit"].as_u64() >= Some(1) && server["lookups"]["miss"].as_u64() >= Some(1));
    assert!(part(&stats, "api responses")["tiers"][0]["lookups"]["miss"].as_u64() >= Some(1));

    let metrics = get(up.admin, "/metrics").body;
    for part in ["links", "api responses", "server"] {
        assert!(metrics.contains(&format!("part=\"{part}\"")), "{part} is missing in {metrics}");
    }
    assert_eq!(show(up.http, &slug)["visits"], 4);
    up.stop();
}

fn mode(path: &Path) -> u32 {
    std::fs::metadata(path).expect("it was made").permissions().mode() & 0o777
}

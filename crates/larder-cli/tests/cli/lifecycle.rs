//! `larder up` from start to end: the files that it creates, the ports that it serves, and a clean stop in time.

use crate::dashboard::{part, stats, tier};
use crate::http::{connect, get, request};
use crate::process::{FREE, Up, larder, run, start_server};
use crate::resp::command;
use crate::shortener::{await_visits, count, create, follow, show, visits};
use larder_testkit::Running;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

/// An interval so long that only the stop of the process writes visits.
const NO_PERIODIC_FLUSH: &str = "[links]\nvisit_flush_ms = 60000\n";

#[test]
fn up_creates_a_private_folder_and_token_and_serves_all_ports() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let data = folder.path().join("a/new/folder");
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
fn admin_token_is_valid_after_a_restart() {
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
fn second_up_on_a_data_folder_is_refused_until_the_first_has_ended() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let data = folder.path().join("data");
    let second = || run(larder(["up", "--resp", FREE, "--http", FREE, "--admin", FREE, "--data"]).arg(&data));
    let message = format!(
        "larder up: {} is in use by another larder up; further shorteners share its database and cache server with: \
         larder links --database … --redis …",
        data.display()
    );
    let first = Up::start(&data);
    let refused = second();
    refused.assert_failure(&message);
    assert_eq!(refused.stdout, "");
    std::fs::remove_file(data.join("admin-token")).expect("the token exists");
    second().assert_failure(&message);
    assert!(!data.join("admin-token").exists(), "the second process creates nothing");
    first.kill();

    let after_kill = Up::start(&data);
    second().assert_failure(&message);
    after_kill.stop();
    Up::start(&data).stop();
}

#[test]
fn sigterm_stops_without_losing_links_or_visits() {
    stops_cleanly(Running::terminate);
}

#[test]
fn ctrl_c_stops_without_losing_links_or_visits() {
    stops_cleanly(Running::interrupt);
}

#[test]
fn end_of_the_terminal_stops_without_losing_links_or_visits() {
    // A process inherits that SIGHUP is ignored, if these tests were started by `nohup`.
    let status = std::fs::read_to_string("/proc/self/status").expect("Linux has it");
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:")).expect("a line");
    let is_ignored = u64::from_str_radix(mask.trim(), 16).expect("a mask") & 1 == 1;
    stops_cleanly(if is_ignored { Running::terminate } else { Running::hang_up });
}

fn stops_cleanly(signal: fn(&Running)) {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let data = folder.path().join("data");
    let mut up = Up::start_with(&data, NO_PERIODIC_FLUSH);
    let slugs: Vec<String> = (0..5).map(|n| create(up.http, &format!("https://example.com/{n}"))).collect();
    for slug in &slugs {
        follow(up.http, slug);
        follow(up.http, slug);
    }
    assert_eq!(visits(up.http, &slugs[0]), 0, "no visit is written yet");

    let clients = [
        hanging_clients(up.resp, b"PING\r\n", b"*2\r\n$3\r\nGET\r\n"),
        hanging_clients(up.http, HEALTH, SLOW_BODY),
        hanging_clients(up.admin, HEALTH, SLOW_HEAD),
    ];
    signal(up.process.running());
    let ended = up.process.end().assert_clean_stop();
    assert!(ended.stdout.ends_with("stopping\n"), "{ended:?}");
    drop(clients);

    let up = Up::start_with(&data, NO_PERIODIC_FLUSH);
    assert_eq!(count(up.http), slugs.len());
    for (n, slug) in slugs.iter().enumerate() {
        assert_eq!(visits(up.http, slug), 2);
        assert_eq!(follow(up.http, slug), format!("https://example.com/{n}"));
    }
    up.stop();
}

const HEALTH: &[u8] = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n";
const SLOW_HEAD: &[u8] = b"GET / HTTP/1.1\r\nHost: lo";
/// The server requests the body, which is never sent.
const SLOW_BODY: &[u8] = b"POST /api/links HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n\
    Content-Length: 100\r\nExpect: 100-continue\r\n\r\n";

/// Three clients that could delay a stop: one sends nothing, one stays connected after its response, one sends an
/// incomplete request.
fn hanging_clients(address: SocketAddr, whole: &[u8], part: &[u8]) -> [TcpStream; 3] {
    let silent = connect(address).expect("a connection");
    [silent, answered(address, whole), answered(address, &[whole, part].concat())]
}

/// A connection that has sent these bytes and received the start of a response.
fn answered(address: SocketAddr, sent: &[u8]) -> TcpStream {
    let mut stream = connect(address).expect("a connection");
    stream.write_all(sent).expect("the bytes are sent");
    assert!(stream.read(&mut [0; 16]).expect("an answer") > 0);
    stream
}

#[test]
fn second_signal_ends_the_process_immediately() {
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
fn dashboard_counts_redirects_and_commands() {
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
    // The first redirect and the unknown slug were loaded from the database, the other three were hits in memory.
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

/// `larder server` and `larder up` keep the keys in a snapshot.
#[test]
fn keys_survive_a_clean_stop_by_a_snapshot_and_no_kill() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join("keys");
    let flag = format!("--snapshot={}", path.display());
    let (server, address) = start_server([&flag]);
    assert_eq!(command(address, "SET greeting hello EX 1000"), "+OK");
    let stop = |server: crate::process::Process| {
        let mut server = server;
        server.running().terminate();
        server.end().assert_clean_stop()
    };
    stop(server);
    assert_eq!(mode(&path), 0o600, "values may be secret");

    let up = Up::start_with(&folder.path().join("data"), &format!("[server]\nsnapshot = {path:?}\n"));
    assert_eq!(command(up.resp, "GET greeting"), "hello");
    assert_eq!(command(up.resp, "SET greeting again"), "+OK");
    up.stop();

    let (mut killed, address) = start_server([&flag]);
    assert_eq!(command(address, "GET greeting"), "again");
    killed.running().kill();
    assert!(!path.exists());
    let (server, address) = start_server([&flag]);
    assert_eq!(command(address, "GET greeting"), "$-1");
    stop(server);

    let missing = folder.path().join("missing/keys");
    let refused = run(larder(["server", "--listen", FREE, "--snapshot"]).arg(&missing));
    let system = "No such file or directory (os error 2)";
    refused
        .assert_failure(&format!("larder server: cannot write the snapshot {}: {system}", missing.display()));
}

/// A broker must not lose jobs: the log says so once, when a worker waits.
#[test]
fn waiting_worker_under_an_evicting_policy_is_worth_a_warning() {
    let warnings = |policy: &str| {
        let (mut server, address) = start_server([format!("--max-memory-policy={policy}")]);
        assert_eq!(command(address, "BLPOP jobs 0.01"), "*-1");
        assert_eq!(command(address, "BLPOP jobs 0.01"), "*-1");
        server.running().terminate();
        let ended = server.end().assert_clean_stop();
        ended.stderr.matches("set maxmemory-policy to noeviction").count()
    };
    assert_eq!((warnings("allkeys-lru"), warnings("volatile-ttl"), warnings("noeviction")), (1, 1, 0));
}

fn mode(path: &Path) -> u32 {
    std::fs::metadata(path).expect("it was created").permissions().mode() & 0o777
}

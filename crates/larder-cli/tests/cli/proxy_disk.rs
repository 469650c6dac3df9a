//! A proxy with a folder starts warm, and a `kill -9` in the middle of purges brings nothing back that was invalidated.

use crate::http::{Reply, request};
use crate::process::{FREE, Process, larder};
use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

const TARGETS: usize = 16;
const ROUNDS: u64 = 8;
/// The port of the proxy is another one at each start, and the host is a part of the key.
const HOST: &[(&str, &str)] = &[("Host", "site.test")];

/// A service whose responses are fresh for an hour. A POST makes a new version, and replies with its number.
#[derive(Clone)]
struct Origin {
    address: SocketAddr,
    versions: Arc<Vec<AtomicU64>>,
}

impl Origin {
    fn start() -> Origin {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let address = listener.local_addr().expect("an address");
        let versions = Arc::new((0..TARGETS).map(|_| AtomicU64::new(1)).collect::<Vec<_>>());
        let served = versions.clone();
        thread::spawn(move || {
            for connection in listener.incoming().flatten() {
                let versions = served.clone();
                // The connection ends with its proxy.
                thread::spawn(move || while answer(&connection, &versions).is_some() {});
            }
        });
        Origin { address, versions }
    }
}

/// Answers one request; `None` at the end of the connection.
fn answer(mut connection: &TcpStream, versions: &[AtomicU64]) -> Option<()> {
    let mut lines = BufReader::new(connection).lines();
    let first = lines.next()?.ok()?;
    while !lines.next()?.ok()?.is_empty() {}
    let (method, path) = first.split_once(' ')?;
    let target: usize = path.split(' ').next()?.trim_start_matches('/').parse().ok()?;
    let version = match method {
        "POST" => versions[target].fetch_add(1, Ordering::SeqCst) + 1,
        _ => versions[target].load(Ordering::SeqCst),
    };
    let body = format!("{version} {}", "x".repeat(target * 500));
    let head =
        format!("HTTP/1.1 200 OK\r\nCache-Control: max-age=3600\r\nContent-Length: {}\r\n\r\n", body.len());
    connection.write_all((head + &body).as_bytes()).ok()
}

fn start(origin: &Origin, folder: &Path) -> (Process, SocketAddr) {
    let mut command = larder(["proxy", "--listen", FREE, "--cache-bytes", "1mb", "--origin"]);
    command.arg(format!("http://{}", origin.address)).arg("--disk").arg(folder);
    let mut process = Process::start(&mut command);
    let address = process.await_line("larder proxy listens on http://");
    process.await_line("it keeps responses in ");
    (process, address.trim_end_matches('/').parse().expect("an address"))
}

/// The version in a response.
fn version(reply: &Reply) -> u64 {
    assert_eq!(reply.status, 200, "{reply:?}");
    reply.body.split(' ').next().expect("a number").parse().expect("a number")
}

fn is_from_disk(reply: &Reply) -> bool {
    reply.header("cache-status").is_some_and(|status| status.ends_with("detail=disk"))
}

#[test]
fn stopped_proxy_starts_warm() {
    let parent = tempfile::tempdir().expect("a temporary folder");
    let (origin, folder) = (Origin::start(), parent.path().join("responses"));
    let (mut process, address) = start(&origin, &folder);
    request(address, "GET", "/3", HOST, "").expect("a response");
    process.running().terminate();
    process.end().assert_clean_stop();
    assert!(folder.join("clean").exists());
    let (_process, address) = start(&origin, &folder);
    let reply = request(address, "GET", "/3", HOST, "").expect("a response");
    assert!(is_from_disk(&reply), "{reply:?}");
}

#[test]
fn invalidated_response_never_returns_after_a_kill() {
    let parent = tempfile::tempdir().expect("a temporary folder");
    let (origin, folder) = (Origin::start(), parent.path().join("responses"));
    // The newest version of each target that a client has seen.
    let seen: Vec<AtomicU64> = (0..TARGETS).map(|_| AtomicU64::new(0)).collect();
    let from_disk = AtomicU64::new(0);
    for round in 0..ROUNDS {
        let (mut process, address) = start(&origin, &folder);
        let ends = AtomicBool::new(false);
        thread::scope(|scope| {
            for client in 0..3 {
                let (seen, from_disk, ends) = (&seen, &from_disk, &ends);
                scope.spawn(move || {
                    let mut random = round * 31 + client + 1;
                    while !ends.load(Ordering::SeqCst) {
                        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                        let target = (random >> 33) as usize % TARGETS;
                        let method = if (random >> 40).is_multiple_of(4) { "POST" } else { "GET" };
                        let oldest = seen[target].load(Ordering::SeqCst);
                        let Ok(reply) = request(address, method, &format!("/{target}"), HOST, "") else {
                            return;
                        };
                        let version = version(&reply);
                        assert!(version >= oldest, "round {round}: {version} of {target} after {oldest}");
                        // Only a change that was confirmed makes older versions wrong.
                        if method == "POST" {
                            seen[target].fetch_max(version, Ordering::SeqCst);
                        }
                        from_disk.fetch_add(is_from_disk(&reply).into(), Ordering::SeqCst);
                    }
                });
            }
            thread::sleep(Duration::from_millis(200 + round * 37));
            process.running().kill();
            ends.store(true, Ordering::SeqCst);
        });
        drop(process);
    }
    let (_process, address) = start(&origin, &folder);
    for (target, oldest) in seen.iter().enumerate() {
        let reply = request(address, "GET", &format!("/{target}"), HOST, "").expect("a response");
        assert!(version(&reply) >= oldest.load(Ordering::SeqCst), "{target}");
    }
    let confirmed: u64 = origin.versions.iter().map(|version| version.load(Ordering::SeqCst)).sum();
    assert!(from_disk.load(Ordering::SeqCst) > 0 && confirmed > TARGETS as u64 * 2, "{confirmed} versions");
}

/// The folder is that of one proxy at a time.
#[test]
fn second_proxy_over_the_folder_is_refused() {
    let parent = tempfile::tempdir().expect("a temporary folder");
    let (origin, folder) = (Origin::start(), parent.path().join("responses"));
    let (_process, _) = start(&origin, &folder);
    let mut command = larder(["proxy", "--listen", FREE, "--origin"]);
    command.arg(format!("http://{}", origin.address)).arg("--disk").arg(&folder);
    let ended = Process::start(&mut command).end();
    let reason = format!("{} is in use by another response cache", folder.display());
    ended.assert_failure(&format!("larder proxy: cannot build the cache: {reason}"));
}

//! The suites of the documents: their servers, an interrupted run, and the page.

use crate::{bench, command, text};
use larder_process::Running;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::process::Stdio;
use std::time::Duration;

/// Starts one of the hidden servers and reads its address.
fn serve(arguments: &[&str]) -> (Running, SocketAddr) {
    let mut command = command();
    command.arg("serve").args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut server = Running::start(&mut command).unwrap();
    let mut line = String::new();
    BufReader::new(server.child().stdout.take().unwrap()).read_line(&mut line).unwrap();
    (server, line.trim().strip_prefix("listening ").unwrap().parse().unwrap())
}

fn exchange(address: SocketAddr, request: &str) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    stream.write_all(request.as_bytes()).unwrap();
    let mut response = String::new();
    stream.read_to_string(&mut response).unwrap();
    response
}

fn get(address: SocketAddr, path: &str) -> String {
    exchange(address, &format!("GET {path} HTTP/1.1\r\nhost: bench.test\r\nconnection: close\r\n\r\n"))
}

#[test]
fn redirect_of_every_design_is_the_same() {
    let locations = ["database", "queue", "direct"].map(|design| {
        let (_server, address) = serve(&["redirect", "--design", design, "--links", "10", "--seed", "1"]);
        assert!(get(address, "/unknown").starts_with("HTTP/1.1 404"), "{design}");
        // The first slug of every seed.
        let path = "/59C4000";
        // Twice: from the database, and from the cache.
        [get(address, path), get(address, path)].map(|response| {
            assert!(response.starts_with("HTTP/1.1 302"), "{design}: {response}");
            response.lines().find(|line| line.starts_with("location: ")).unwrap().to_owned()
        })
    });
    assert!(locations.iter().flatten().all(|location| *location == locations[0][0]), "{locations:?}");
}

/// Asks for three links, and returns how often the database was read for them.
fn reads_for_three_links(arguments: &[&str]) -> u64 {
    let (_server, address) = serve(arguments);
    for path in ["/59C4000", "/MFH7W20", "/dLMA250"] {
        let response = get(address, path);
        assert!(response.starts_with("HTTP/1.1 302"), "{path}: {response}");
    }
    let response = get(address, "/bench/reads");
    response.lines().last().unwrap().parse().unwrap()
}

#[test]
fn restart_loses_the_cache_of_a_process_and_not_that_of_redis() {
    let Some(program) = larder_testkit::program("redis-server") else { return };
    let redis = larder_process::RedisServer::start(program).unwrap();
    let url = redis.url();
    for (design, after_restart) in [("database", 3), ("queue", 3), ("direct", 3), ("tiers", 0)] {
        let arguments =
            ["redirect", "--design", design, "--links", "10", "--seed", "1", "--redis", url.as_str()];
        assert_eq!(reads_for_three_links(&arguments), 3, "{design}");
        assert_eq!(reads_for_three_links(&arguments), after_restart, "{design}");
    }
}

#[test]
fn tiers_without_redis_are_a_usage_error() {
    let output = bench(&["serve", "redirect", "--design", "tiers", "--links", "1", "--seed", "1"]);
    assert!(output.status.code() == Some(2) && text(&output.stderr).contains("--redis"));
}

#[test]
fn large_object_is_complete_with_and_without_a_cache() {
    for arguments in [&["object", "--bytes", "100001"][..], &["object", "--bytes", "100001", "--stored"]] {
        let (_server, address) = serve(arguments);
        for _ in 0..2 {
            let response = get(address, "/");
            let (head, body) = response.split_once("\r\n\r\n").unwrap();
            assert!(head.starts_with("HTTP/1.1 200") && head.contains("content-length: 100001"), "{head}");
            assert_eq!(body.len(), 100_001);
        }
        assert_eq!(get(address, "/").contains("larder; hit"), arguments.len() == 4);
    }
}

#[test]
fn server_ends_with_its_standard_input() {
    let (mut server, _) = serve(&["resp", "--accept", "task", "--backlog", "5"]);
    drop(server.child().stdin.take());
    let status = server.wait_within(Duration::from_secs(20)).unwrap();
    assert!(status.is_some_and(|status| status.success()));
}

#[test]
fn pipeline_to_a_stage_of_document_3_gets_all_replies() {
    let (_server, address) = serve(&["resp", "--accept", "sequential", "--backlog", "5"]);
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    let set = "*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$4\r\na\r\nb\r\n";
    stream.write_all(format!("{set}{set}*2\r\n$3\r\nGET\r\n$1\r\nk\r\n").as_bytes()).unwrap();
    let expected = "+OK\r\n+OK\r\n$4\r\na\r\nb\r\n";
    let mut reply = vec![0; expected.len()];
    stream.read_exact(&mut reply).unwrap();
    assert_eq!(text(&reply), expected);
}

#[test]
fn interrupted_run_keeps_what_was_measured() {
    let folder = tempfile::tempdir().unwrap();
    let mut run = command();
    run.args(["run", "document-4", "--quick", "--out"]).arg(folder.path());
    run.stdout(Stdio::null()).stderr(Stdio::piped());
    let mut run = Running::start(&mut run).unwrap();
    let mut line = String::new();
    let mut stderr = BufReader::new(run.child().stderr.take().unwrap());
    stderr.read_line(&mut line).unwrap();
    assert!(line.contains("runs in about"), "{line}");
    run.interrupt();
    let status = run.wait_within(Duration::from_secs(120)).unwrap();
    assert_eq!(status.and_then(|status| status.code()), Some(1), "it is not complete");
    let result = std::fs::read_to_string(folder.path().join("document-4.json")).unwrap();
    assert!(result.contains("Interrupted: the rest was not measured."), "{result}");
    let page = std::fs::read_to_string(folder.path().join("documents.html")).unwrap();
    assert!(page.contains("3153.42") && page.contains("Interrupted"));
}

#[test]
fn documents_are_run_only_if_they_are_named() {
    let output = bench(&["run", "document-9"]);
    let error = text(&output.stderr);
    assert!(output.status.code() == Some(2) && error.contains("document-3") && error.contains("documents"));
    assert!(!text(&bench(&["--help"]).stdout).contains("serve"), "the servers are hidden");
}

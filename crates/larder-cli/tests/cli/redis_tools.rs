//! Debian's Redis tools with `larder server`: they work and report no errors.

use crate::http::connect;
use crate::process::{Ended, run, start_server};
use crate::resp::{Client, command, info};
use larder_testkit::{may_open, needs, program, until};
use std::io::Read;
use std::net::SocketAddr;
use std::path::Path;
use std::process::Command;

/// Requests per run: each of 300 clients sends several, and an unoptimised build is fast enough.
const REQUESTS: &str = "6000";

#[test]
fn redis_benchmark_runs_without_errors() {
    let Some(benchmark) = program("redis-benchmark") else { return };
    let (_server, address) = start_server(["--threads", "2"]);
    let plain = ["1", "2", "5", "6", "15", "50", "300"].map(|clients| (clients, "1"));
    for (clients, pipeline) in plain.into_iter().chain([("50", "16")]) {
        let mut command = tool(&benchmark, address);
        command
            .args(["-t", "set,get", "-n", REQUESTS, "-c", clients, "-P", pipeline, "-r", "1000", "-d", "64"]);
        let ended = run(&mut command);
        assert_eq!(ended.code, Some(0), "{clients} clients: {ended:?}");
        for name in ["SET", "GET"] {
            let done = format!("====== {name} ======");
            assert!(ended.stdout.contains(&done), "{clients} clients: no {done} in {ended:?}");
        }
        assert_eq!(ended.stdout.matches(&format!("{REQUESTS} requests completed")).count(), 2, "{ended:?}");
        assert_no_errors(&ended);
    }
    // All requests were executed: the keys exist, and all clients are disconnected.
    assert!(info(address, "total_commands_processed") >= 8 * 2 * 6_000);
    let keys: usize = command(address, "DBSIZE").trim_start_matches(':').parse().expect("a number");
    assert!((500..=1_000).contains(&keys), "{keys} keys");
    await_no_other_clients(address);
}

#[test]
fn redis_cli_works() {
    let Some(cli) = program("redis-cli") else { return };
    let (_server, address) = start_server::<&str>([]);
    let ask = |words: &[&str]| {
        let ended = run(tool(&cli, address).args(words));
        assert_eq!(ended.code, Some(0), "{words:?}: {ended:?}");
        assert_no_errors(&ended);
        ended.stdout
    };
    assert_eq!(ask(&["PING"]), "PONG\n");
    assert_eq!(ask(&["SET", "key", "a value\r\nof two lines"]), "OK\n");
    assert_eq!(ask(&["GET", "key"]), "a value\r\nof two lines\n");
    assert_eq!(ask(&["-3", "GET", "missing"]), "\n");
    assert!(ask(&["INFO", "server"]).contains("redis_version:"));
    assert!(ask(&["--scan"]).lines().eq(["key"]));

    // Mass insertion: all commands are sent at once, and the replies are counted.
    let folder = tempfile::tempdir().expect("a temporary folder");
    let file = folder.path().join("commands");
    let commands: String = (0..5_000).map(|n| format!("SET bulk:{n} {n}\r\n")).collect();
    std::fs::write(&file, commands).expect("the file can be written");
    let mut pipe = Command::new("sh");
    pipe.args(["-c", r#"exec "$1" -h "$2" -p "$3" --pipe < "$4""#, "sh"]).arg(&cli);
    let loaded = run(pipe.arg(address.ip().to_string()).arg(address.port().to_string()).arg(&file));
    assert!(loaded.stdout.ends_with("errors: 0, replies: 5000\n"), "{loaded:?}");
    assert_eq!(ask(&["DBSIZE"]), "5001\n");
    assert_eq!(ask(&["GET", "bulk:4999"]), "4999\n");
}

#[test]
fn three_hundred_clients_connect_and_disconnect() {
    let (mut server, address) = start_server(["--threads", "2"]);
    let mut clients: Vec<Client> = (0..300).map(|_| Client::connect(address)).collect();
    assert_eq!(info(address, "connected_clients"), 301);
    let pid = server.running().id();
    for (n, client) in clients.iter_mut().enumerate() {
        assert_eq!(client.call(&format!("SET key:{n} {n}")).expect("an answer"), "+OK");
    }
    let handles = handles(pid);
    assert!(handles > 300, "{handles} open files");
    drop(clients);
    await_no_other_clients(address);
    until("the sockets are closed", || (self::handles(pid) <= handles - 300).then_some(()));
    assert_eq!(command(address, "GET key:299"), "299");
    server.running().terminate();
    server.end().assert_clean_stop();
}

#[test]
fn ten_thousand_clients_are_served_and_the_next_is_refused() {
    let Some(()) = needs("a limit of 10,100 open files", may_open(10_100)) else { return };
    let (mut server, address) = start_server(["--threads", "2", "--maxclients", "10000"]);
    let mut clients: Vec<Client> = (0..10_000).map(|_| Client::connect(address)).collect();
    let mut refusal = String::new();
    let mut one_more = connect(address).expect("the system accepts the connection");
    one_more.read_to_string(&mut refusal).expect("an answer, then the end");
    assert_eq!(refusal, "-ERR max number of clients reached\r\n");
    for (n, client) in clients.iter_mut().enumerate() {
        assert_eq!(client.call(&format!("SET key {n}")).expect("an answer"), "+OK");
    }
    drop(clients);
    await_no_other_clients(address);
    assert_eq!(command(address, "GET key"), "9999");
    server.running().terminate();
    server.end().assert_clean_stop();
}

/// Waits until the connection that asks is the only one.
fn await_no_other_clients(address: SocketAddr) {
    until("all clients are disconnected", || (info(address, "connected_clients") == 1).then_some(()));
}

/// Open files of a process.
fn handles(pid: u32) -> usize {
    std::fs::read_dir(format!("/proc/{pid}/fd")).expect("the process runs").count()
}

fn tool(program: &Path, address: SocketAddr) -> Command {
    let mut command = Command::new(program);
    command.args(["-h", &address.ip().to_string(), "-p", &address.port().to_string()]);
    command
}

#[track_caller]
fn assert_no_errors(ended: &Ended) {
    for line in ended.stdout.lines().chain(ended.stderr.lines()) {
        let line = line.to_ascii_lowercase();
        let complaint = ["err", "warn"].into_iter().find(|word| line.contains(word));
        assert_eq!(complaint, None, "{line:?}");
    }
}

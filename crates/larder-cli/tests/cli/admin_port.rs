//! `--admin` of `larder server` and `larder links`: the dashboard, the metrics and the purges of one part.

use crate::dashboard::{part, stats, tier};
use crate::http::{get, request};
use crate::process::{FREE, Process, larder, run, start_links_with, start_server};
use crate::resp::command;
use crate::shortener::{create, follow};
use std::net::{SocketAddr, TcpListener};

pub(crate) fn dashboard_of(process: &mut Process) -> SocketAddr {
    let text = process.await_line("the dashboard is on http://");
    text.trim_end_matches('/').parse().unwrap_or_else(|error| panic!("{text:?}: {error}"))
}

fn stop(mut process: Process) {
    process.running().terminate();
    process.end().assert_clean_stop();
}

#[test]
fn server_alone_serves_its_dashboard_and_metrics() {
    let (mut process, resp) = start_server(["--admin", FREE]);
    let admin = dashboard_of(&mut process);
    assert_eq!(command(resp, "SET key value"), "+OK");
    assert_eq!(command(resp, "GET key"), "value");
    let stats = stats(admin);
    assert_eq!(stats["parts"].as_array().map(Vec::len), Some(1), "{stats}");
    assert_eq!(tier(part(&stats, "server"), "memory")["lookups"]["hit"], 1);
    (0..400).for_each(|_| assert_eq!(command(resp, "GET key"), "value"));
    let top = part(&crate::dashboard::stats(admin), "server")["top"]["keys"][0].clone();
    assert_eq!(top["name"], "key", "{top}");
    assert!(top["count"].as_u64().unwrap().abs_diff(401) <= 2 * top["error"].as_u64().unwrap(), "{top}");
    let metrics = get(admin, "/metrics").body;
    assert!(metrics.contains("larder_tier_entries{part=\"server\",tier=\"memory\"} 1\n"), "{metrics}");
    assert!(get(admin, "/").body.contains("<title>"));
    stop(process);
}

#[test]
fn links_alone_serves_its_dashboard_and_is_purged_with_its_token() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let data = folder.path().join("data");
    let (mut process, http) = start_links_with(&data.join("links.db"), [format!("--admin={FREE}")]);
    let admin = dashboard_of(&mut process);
    let slug = create(http, "https://example.com/");
    follow(http, &slug);
    assert_eq!(tier(part(&stats(admin), "links"), "redirects")["operations"]["found"], 1);
    let mut purge = larder(["purge", "api responses", "--all", "--admin", &format!("http://{admin}")]);
    let purged = run(purge.arg("--data").arg(&data));
    assert_eq!((purged.code, purged.stdout.as_str()), (Some(0), "purged\n"), "{purged:?}");
    stop(process);
}

#[test]
fn dashboard_is_served_under_the_hosts_that_are_allowed() {
    let (mut process, _) = start_server(["--admin", FREE, "--admin-hosts", "Cache.internal."]);
    let admin = dashboard_of(&mut process);
    let status =
        |host: &str| request(admin, "GET", "/metrics", &[("Host", host)], "").expect("an answer").status;
    assert_eq!(status("cache.internal:9090"), 200);
    assert_eq!(status("evil.example"), 421);
}

#[test]
fn admin_hosts_are_checked_as_those_of_the_api() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let data = folder.path().join("data");
    for (value, shown) in
        [("a:80", "a:80"), ("http://x", "http://x"), ("*", "*"), ("", "\"\""), ("a,,b", "\"\"")]
    {
        for name in ["up", "server", "links"] {
            let mut command = larder([name, "--admin", FREE, "--admin-hosts", value]);
            let message = "expected a host name or an address, without a scheme and a port";
            let message = format!("larder {name}: admin_hosts is {shown}, {message}");
            run(command.env("LARDER_UP_DATA", &data)).assert_wrong_usage(&message);
        }
    }
    assert!(!data.exists());
    let message = "admin is missing, expected an address, since admin_hosts is set";
    for name in ["server", "links"] {
        let mut by_flag = larder([name, "--listen", FREE, "--admin-hosts", "cache.internal"]);
        run(&mut by_flag).assert_wrong_usage(&format!("larder {name}: --admin-hosts: {message}"));
        let file = folder.path().join("larder.toml");
        let text = format!("[{name}]\nadmin_hosts = [\"cache.internal\"]\n");
        std::fs::write(&file, text).expect("the file can be written");
        let mut by_file = larder([name, "--listen", FREE, "--config"]);
        let start = format!("larder {name}: {}: [{name}]", file.display());
        run(by_file.arg(&file)).assert_failure(&format!("{start} admin_hosts: {message}"));
    }
}

#[test]
fn admin_port_in_use_is_an_error() {
    let occupied = TcpListener::bind(FREE).expect("a free port");
    let taken = occupied.local_addr().expect("an address").to_string();
    let folder = tempfile::tempdir().expect("a temporary folder");
    let database = format!("sqlite:{}", folder.path().join("links.db").display());
    let failure = |name: &str| {
        format!("larder {name}: --admin: cannot bind {taken}: Address already in use (os error 98)")
    };
    let server = ["server", "--listen", FREE, "--admin", &taken];
    run(&mut larder(server)).assert_failure(&failure("server"));
    let links = ["links", "--listen", FREE, "--admin", &taken, "--database", &database];
    let ended = run(&mut larder(links));
    ended.assert_failure(&failure("links"));
    assert_eq!(ended.stdout, "", "no port is announced");
}

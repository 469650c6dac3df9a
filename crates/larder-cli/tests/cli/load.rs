//! Real load tools against `larder links`: no request fails, and every redirect is one visit in the database.

use crate::dashboard::{part, stats, tier};
use crate::http::{get, post};
use crate::process::{FREE, start_links_with};
use larder_testkit::{program, until};
use serde_json::{Value, json};
use std::net::SocketAddr;
use std::path::Path;
use std::process::Command;

const LINKS: usize = 200;
const AB_REQUESTS: u64 = 5_000;
const AB_CLIENTS: u64 = 50;
const SIEGE_USERS: u64 = 25;
const SIEGE_REPETITIONS: u64 = 100;

#[test]
fn every_redirect_under_load_is_one_visit() {
    let (Some(ab), Some(siege)) = (program("ab"), program("siege")) else { return };
    let folder = tempfile::tempdir().expect("a temporary folder");
    let flags = [format!("--admin={FREE}")];
    let (mut process, http) = start_links_with(&folder.path().join("links.db"), flags);
    let admin = process.await_line("the dashboard is on http://");
    let admin = admin.trim_end_matches('/').parse().expect("an address");
    let links: Vec<Value> = (0..LINKS)
        .map(|n| json!({ "url": format!("https://example.com/{n}"), "slug": format!("load{n}") }))
        .collect();
    assert_eq!(post(http, "/api/links/batch", &Value::Array(links)).status, 200);

    run_ab(&ab, http);
    run_siege(&siege, http, folder.path());

    let redirects = tier(part(&stats(admin), "links"), "redirects")["operations"]["found"].as_u64().unwrap();
    let counted = AB_REQUESTS + SIEGE_USERS * SIEGE_REPETITIONS;
    // Each client of ab may have sent one request more when the last response arrived.
    assert!((counted..=counted + AB_CLIENTS).contains(&redirects), "{redirects} redirects");
    until("all visits in the database", || (figure(admin, "visits_written") == redirects).then_some(()));
    assert_eq!((figure(admin, "visits_waiting"), figure(admin, "visits_dropped")), (0, 0));
    // The path is new, so no stored response is older than the visits.
    let listed = get(http, "/api/links?sort=visits&limit=200").json();
    let visits: Vec<u64> = listed["links"]
        .as_array()
        .expect("links")
        .iter()
        .map(|link| link["visits"].as_u64().unwrap())
        .collect();
    assert_eq!((visits.len(), visits.iter().sum()), (LINKS, redirects));
    assert!(visits.is_sorted_by(|one, next| one >= next), "{visits:?}");
    process.running().terminate();
    process.end().assert_clean_stop();
}

/// One link over connections that stay open.
fn run_ab(ab: &Path, http: SocketAddr) {
    let mut command = Command::new(ab);
    let (clients, requests) = (AB_CLIENTS.to_string(), AB_REQUESTS.to_string());
    command.args(["-k", "-q", "-c", &clients, "-n", &requests, &format!("http://{http}/load0")]);
    let report = output(&mut command);
    let count = |name: &str| -> u64 {
        let line = report.lines().find_map(|line| line.strip_prefix(name));
        line.and_then(|rest| rest.trim().parse().ok()).unwrap_or_else(|| panic!("no {name} in {report}"))
    };
    assert_eq!(count("Complete requests:"), AB_REQUESTS);
    assert_eq!(count("Failed requests:"), 0, "{report}");
    assert_eq!(count("Non-2xx responses:"), AB_REQUESTS, "redirects");
}

/// All links, low numbers far more often than high ones, with a connection for each request.
fn run_siege(siege: &Path, http: SocketAddr, folder: &Path) {
    let (configuration, urls) = (folder.join("siegerc"), folder.join("urls"));
    let options = "limit = 500\nparser = false\nfollow-location = false\nverbose = false\nlogging = false\n\
                   connection = close\nprotocol = HTTP/1.1\ntimeout = 30\n";
    std::fs::write(&configuration, options).expect("the file can be written");
    let slugs = (0..LINKS).flat_map(|n| std::iter::repeat_n(n, LINKS / (n + 1)));
    let lines: String = slugs.map(|n| format!("http://{http}/load{n}\n")).collect();
    std::fs::write(&urls, lines).expect("the file can be written");
    let mut command = Command::new(siege);
    // It writes a configuration into the home folder.
    command.env("HOME", folder).arg("-R").arg(configuration).arg("-f").arg(urls).args(["-i", "-b", "-j"]);
    command.args(["-c", &SIEGE_USERS.to_string(), "-r", &SIEGE_REPETITIONS.to_string()]);
    let report = output(&mut command);
    let json = &report[report.find('{').unwrap_or_else(|| panic!("no report in {report}"))..];
    let report: Value = serde_json::from_str(json).unwrap_or_else(|error| panic!("{error}: {json}"));
    assert_eq!(report["transactions"].as_u64(), Some(SIEGE_USERS * SIEGE_REPETITIONS), "{report}");
    assert_eq!(report["failed_transactions"].as_u64(), Some(0), "{report}");
}

fn figure(admin: SocketAddr, name: &str) -> u64 {
    let stats = stats(admin);
    let figures = part(&stats, "links")["figures"].as_array().expect("figures").clone();
    let found = figures.iter().find(|figure| figure["name"] == name);
    found.unwrap_or_else(|| panic!("no {name} in {stats}"))["value"].as_f64().expect("a number") as u64
}

fn output(command: &mut Command) -> String {
    let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

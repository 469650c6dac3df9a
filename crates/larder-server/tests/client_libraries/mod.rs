//! Client libraries of other languages in their default settings, with their real packages: transactions, messages,
//! caches, locks, sessions, and a restart of the server in the middle.
//!
//! Each language has one program of its cases, in the folder of its name. `cargo xtask install` brings the libraries in
//! the versions of the lock files. `LARDER_CLIENTS_SERVER=redis-server` runs the cases against a real Redis, where each
//! of them must pass.

mod expected;
mod languages;
mod program;
mod server;

use languages::Language;
use server::Server;

/// Runs the cases of a language, and checks their outcomes.
fn run(language: &Language) {
    let Some(command) = language.command() else { return };
    let Some(mut server) = Server::start() else { return };
    let outcomes = program::run(command, &mut server);
    let faults = expected::faults(language.clients, &outcomes, server.is_larder());
    assert!(faults.is_empty(), "{} of {} cases\n  {}", faults.len(), outcomes.len(), faults.join("\n  "));
}

#[test]
fn python_clients_work() {
    run(&languages::PYTHON);
}

#[test]
fn node_clients_work() {
    run(&languages::NODE);
}

#[test]
fn go_clients_work() {
    run(&languages::GO);
}

#[test]
fn java_clients_work() {
    run(&languages::JAVA);
}

#[test]
fn php_clients_work() {
    run(&languages::PHP);
}

#[test]
fn ruby_clients_work() {
    run(&languages::RUBY);
}

/// The page that users read names the clients that are tested, and no others.
#[test]
fn documentation_lists_every_client() {
    let page = include_str!("../../../../docs/server.md");
    let (_, rest) = page.split_once("| client | language |").expect("a table of clients");
    let table = rest.split("\n\n").next().unwrap_or_default();
    let documented: Vec<&str> = table.lines().skip(2).filter_map(|row| row.split('|').nth(1)).collect();
    let mut documented: Vec<&str> = documented.into_iter().map(str::trim).collect();
    let mut tested: Vec<&str> =
        languages::ALL.iter().flat_map(|language| language.clients).copied().collect();
    documented.sort_unstable();
    tested.sort_unstable();
    assert_eq!(documented, tested);
}

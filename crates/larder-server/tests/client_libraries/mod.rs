//! Client libraries of other languages in their default settings, with their real packages: transactions, messages,
//! caches, locks, sessions, and a restart of the server in the middle. Queues of jobs with their real workers, on a
//! server that evicts nothing.
//!
//! Each language has one program of its cases, and may have one of those of its queues, in the folder of its name. `cargo
//! xtask install` brings the libraries in the versions of the lock files. `LARDER_CLIENTS_SERVER=redis-server` runs the
//! cases against a real Redis, where each of them must pass.

mod expected;
mod languages;
mod program;
mod server;

use languages::Language;
use larder_server::MemoryPolicy;
use server::Server;

/// Runs the cases of a language, and checks their outcomes.
fn run(language: &Language) {
    run_with(language, MemoryPolicy::default());
}

/// Runs the cases of queues, whose jobs must not be evicted.
fn run_queues(language: &Language) {
    run_with(language, MemoryPolicy::Noeviction);
}

fn run_with(language: &Language, policy: MemoryPolicy) {
    let Some(command) = language.command() else { return };
    let Some(mut server) = Server::start(policy) else { return };
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

#[test]
fn python_queues_work() {
    run_queues(&languages::PYTHON_QUEUES);
}

#[test]
fn node_queues_work() {
    run_queues(&languages::NODE_QUEUES);
}

#[test]
fn php_queues_work() {
    run_queues(&languages::PHP_QUEUES);
}

/// The page that users read names the clients that are tested, and no others.
#[test]
fn documentation_lists_every_client() {
    assert_eq!(documented("client"), tested(&languages::ALL));
}

/// The same for the queues, with the versions of the lock files. Debian has those for PHP.
#[test]
fn documentation_lists_every_queue_and_its_version() {
    assert_eq!(documented("queue"), tested(&languages::QUEUES));
    for row in rows("queue") {
        let [name, language, version] = row[..3] else { panic!("{row:?}") };
        let (lock, line) = match language {
            "Python" => (include_str!("python/requirements.txt"), format!("{name}=={version}\n")),
            "Node.js" => (include_str!("node/package.json"), format!("\"{name}\": \"{version}\"")),
            _ => continue,
        };
        assert!(lock.to_lowercase().contains(&line.to_lowercase()), "{name} {version} is not tested");
    }
}

/// The first column of the table on the page that has this heading.
fn documented(heading: &str) -> Vec<&'static str> {
    let mut documented: Vec<&str> = rows(heading).map(|row| row[0]).collect();
    documented.sort_unstable();
    documented
}

/// The rows of this table.
fn rows(heading: &str) -> impl Iterator<Item = Vec<&'static str>> {
    let page = include_str!("../../../../docs/server.md");
    let (_, rest) = page.split_once(&format!("| {heading} | language |")).expect("a table");
    let table = rest.split("\n\n").next().unwrap_or_default();
    table.lines().skip(2).map(|row| row.split('|').skip(1).map(str::trim).collect())
}

fn tested(languages: &[Language]) -> Vec<&'static str> {
    let mut tested: Vec<&str> = languages.iter().flat_map(|language| language.clients).copied().collect();
    tested.sort_unstable();
    tested
}

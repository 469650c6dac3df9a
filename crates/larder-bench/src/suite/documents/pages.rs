//! Document 4: one page whose text comes from seven origins, and the same accesses without HTTP.
//!
//! | workload | meaning |
//! |---|---|
//! | `ab` | ab asks for the page, 800 clients at once, each request over a connection of its own |
//! | `access` | one caller asks an origin for the text, one time after another, in Rust and in Elixir |
//!
//! In `ab` the subject `larder` is the precomputed page with the response layer in front of the router; in `access` it is
//! the table, which is the engine.

use super::case::{self, Case, Outcome};
use super::child::Child;
use super::database::Server;
use super::{http, rounds};
use crate::measure::interrupt;
use crate::measure::rounds::Value;
use crate::source::{Origin, Place, Source};
use crate::suite::{Findings, Plan};
use crate::tool::{Ab, Usage, output_within};
use anyhow::{Context, Result, ensure};
use indicatif::ProgressBar;
use larder_process::find_program;
use std::process::Command;
use std::time::{Duration, Instant};

const CLIENTS: u32 = 800;
const DEADLINE: Duration = Duration::from_secs(90);
const ACCESSES: &str = include_str!("elixir/accesses.exs");
/// What the page shows.
const SHOWN: &str = "あいうえお";

pub(super) fn measure(plan: &Plan, bar: &ProgressBar, findings: &mut Findings) -> Result<()> {
    let requests = if plan.quick { 8_000 } else { 80_000 };
    let server = Server::start(findings)?;
    if find_program("ab").is_some() {
        findings.commands.push(format!("ab -n{requests} -c{CLIENTS} http://127.0.0.1:PORT/"));
        case::run(page_cases(requests, server.as_ref()), rounds(plan), bar, findings);
    }
    if !interrupt::is_requested() {
        let limit = Duration::from_millis(if plan.quick { 300 } else { 1_000 });
        case::run(access_cases(limit, server.as_ref()), rounds(plan), bar, findings);
    }
    Ok(())
}

/// A text over HTTP or without: the name of the subject, its origin, and PostgreSQL if that is its database.
type Subject<'a> = (&'static str, Origin, Option<&'a Server>);

/// All origins; the database twice where PostgreSQL is there.
fn subjects(server: Option<&Server>) -> Vec<Subject<'_>> {
    let mut subjects: Vec<Subject<'_>> = Origin::ALL.map(|origin| (origin.subject(), origin, None)).to_vec();
    subjects.extend(server.map(|server| (Server::SUBJECT, Origin::Database, Some(server))));
    subjects
}

fn page_cases<'a>(requests: u64, server: Option<&'a Server>) -> Vec<Case<'a>> {
    let pages = subjects(server).into_iter().map(|subject| (subject, false));
    let stored = (("larder", Origin::Precomputed, None), true);
    let case = |((subject, origin, server), stored): (Subject<'a>, bool)| Case {
        group: "ab".to_owned(),
        subject,
        estimate: Duration::from_secs_f64(0.1 + requests as f64 / 10_000.0),
        run: Box::new(move || ask_by_ab(origin, server, stored, requests)),
    };
    pages.chain([stored]).map(case).collect()
}

fn ask_by_ab(origin: Origin, server: Option<&Server>, stored: bool, requests: u64) -> Result<Vec<Outcome>> {
    let mut arguments = vec!["page".to_owned(), "--origin".to_owned(), origin.name()];
    arguments.extend(stored.then(|| "--stored".to_owned()));
    arguments.extend(Server::arguments(server));
    let child = Child::serve(&arguments)?;
    http::check(child.address(), "/", 200, SHOWN)?;
    let before = Usage::of(child.id()) + Server::usage(server);
    let address = child.address();
    let ab = Ab { address, path: "/", requests, clients: CLIENTS, keeps_alive: false, deadline: DEADLINE };
    let report = ab.run()?;
    let usage = Usage::of(child.id()) + Server::usage(server) - before;
    let failed = report.failed + report.other_status;
    ensure!(failed == 0, "{failed} of {} requests failed", report.complete);
    let values = vec![
        Value::high("throughput", "/s", report.requests_per_second),
        Value::low("cpu", "µs", usage.cpu.as_secs_f64() * 1e6 / report.complete as f64),
        Value::low("p50", "ms", report.p50_ms),
        Value::low("p99", "ms", report.p99_ms),
        Value::low("max", "ms", report.max_ms),
    ];
    Ok(vec![Outcome { workload: "ab".to_owned(), values, remark: None }])
}

/// The accesses without HTTP. Each takes `limit`.
fn access_cases(limit: Duration, server: Option<&Server>) -> Vec<Case<'_>> {
    let ours = subjects(server).into_iter().map(|(subject, origin, server)| Case {
        group: "access".to_owned(),
        subject: if origin == Origin::Table { "larder" } else { subject },
        estimate: limit,
        run: Box::new(move || access(origin, server, limit)) as Box<dyn FnMut() -> Result<Vec<Outcome>>>,
    });
    let mut cases: Vec<Case<'_>> = ours.collect();
    if find_program("elixir").is_some() {
        cases.extend(ELIXIR.map(|(subject, name)| Case {
            group: "access".to_owned(),
            subject,
            estimate: limit + Duration::from_secs(1),
            run: Box::new(move || access_in_elixir(name, limit)),
        }));
    }
    cases
}

/// The accesses that the script for Elixir knows. Debian has no database driver for Elixir.
const ELIXIR: [(&str, &str); 6] = [
    ("Elixir, string built per request", "built"),
    ("Elixir, precomputed page", "precomputed"),
    ("Elixir, Agent behind a GenServer", "agent-behind-genserver"),
    ("Elixir, Agent", "agent"),
    ("Elixir, ETS behind a GenServer", "ets-behind-genserver"),
    ("Elixir, ETS", "ets"),
];

fn access(origin: Origin, server: Option<&Server>, limit: Duration) -> Result<Vec<Outcome>> {
    let folder = tempfile::tempdir()?;
    let place = server.map_or_else(|| Place::Sqlite(folder.path().to_owned()), Server::place);
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let (count, elapsed) = runtime.block_on(async {
        let source = Source::open(origin, &place).await?;
        // On a thread of the runtime, as a handler is.
        tokio::spawn(async move {
            let (start, mut count) = (Instant::now(), 0_u64);
            while start.elapsed() < limit {
                for _ in 0..10 {
                    std::hint::black_box(source.text().await?);
                }
                count += 10;
            }
            anyhow::Ok((count, start.elapsed()))
        })
        .await?
    })?;
    let rate = count as f64 / elapsed.as_secs_f64();
    Ok(vec![outcome_of_access(rate)])
}

fn access_in_elixir(name: &str, limit: Duration) -> Result<Vec<Outcome>> {
    let program = find_program("elixir").context("elixir is not installed")?;
    let folder = tempfile::tempdir()?;
    let script = folder.path().join("accesses.exs");
    std::fs::write(&script, ACCESSES)?;
    let mut command = Command::new(program);
    let output = output_within(command.arg(script).args([name, &limit.as_millis().to_string()]), DEADLINE)?;
    let rate = output.trim().parse().with_context(|| format!("no rate: {}", output.trim()))?;
    Ok(vec![outcome_of_access(rate)])
}

fn outcome_of_access(rate: f64) -> Outcome {
    Outcome { workload: "access".to_owned(), values: vec![Value::high("rate", "/s", rate)], remark: None }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::suite::documents::Document;

    #[test]
    fn counterparts_of_the_document_are_measured() {
        let document = Document::read(4).unwrap();
        let cases = page_cases(1, None);
        for (workload, subjects) in document.counterparts() {
            let is_known = |case: &Case<'_>| case.group == workload && subjects.contains(&case.subject);
            assert!(cases.iter().any(is_known), "{workload}, {subjects:?}");
        }
    }

    #[test]
    fn every_origin_is_accessed() {
        for origin in Origin::ALL {
            let outcomes = access(origin, None, Duration::from_millis(20)).unwrap();
            assert!(outcomes[0].values[0].value > 0.0, "{origin:?}");
        }
    }
}

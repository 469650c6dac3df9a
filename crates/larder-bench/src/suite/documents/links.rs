//! Document 0: a URL shortener under siege, and a million pairs in its cache.
//!
//! | workload | meaning |
//! |---|---|
//! | `siege-one-slug` | 500 users ask for the same slug, without pauses, over a connection for each request |
//! | `siege-zipf` | the same with slugs of unequal popularity among as many links as a real collection has |
//! | `restart` | the server is killed and started again: how many of the first requests its database answers |
//! | `million-records`, `million-addresses` | a million pairs: the whole record, or slug and address |
//!
//! Under siege the subject `larder` is `larder links`, which also counts the visits; the others are redirects and nothing else.
//! The processor time of a redirect includes that of PostgreSQL.

use super::case::{self, Case, Outcome};
use super::child::Child;
use super::collection::Collection;
use super::database::Server;
use super::{http, million, restart, rounds};
use crate::measure::interrupt;
use crate::measure::rounds::Value;
use crate::suite::{Findings, Plan};
use crate::tool::{Siege, SiegeReport, Usage};
use anyhow::Result;
use indicatif::ProgressBar;
use larder_process::find_program;
use serde_json::json;
use std::time::Duration;

const USERS: u32 = 500;
/// The most links in one request.
const BATCH: usize = 1_000;

/// A server of redirects.
#[derive(Clone, Copy)]
enum Shortener {
    /// A design of `bench serve redirect`, by its name there.
    Design(&'static str),
    /// `larder links`.
    Ours,
}

/// The servers that are besieged, each with its database; `larder links` has its own SQLite.
fn shorteners(server: Option<&Server>) -> Vec<(&'static str, Shortener, Option<&Server>)> {
    let of_document = server.map(|server| (Server::SUBJECT, Shortener::Design("database"), Some(server)));
    let mut all: Vec<_> = of_document.into_iter().collect();
    all.extend([
        ("SQLite", Shortener::Design("database"), None),
        ("cache behind a queue", Shortener::Design("queue"), server),
        ("direct cache", Shortener::Design("direct"), server),
        ("larder", Shortener::Ours, None),
    ]);
    all
}

pub(super) fn measure(plan: &Plan, bar: &ProgressBar, findings: &mut Findings) -> Result<()> {
    let time = Duration::from_secs(if plan.quick { 2 } else { 60 });
    let collection = Collection::of(plan)?;
    findings.notes.push(collection.note());
    if find_program("siege").is_some() {
        let server = Server::start(findings)?;
        let database = if server.is_some() { Server::SUBJECT } else { "SQLite" };
        findings
            .notes
            .push(format!("The caches are in front of {database}; larder links has a SQLite of its own."));
        findings.commands.push(format!("siege -R siegerc -f urls -i -b -j -c {USERS} -r N"));
        findings.notes.push(format!(
            "siege runs without pauses between requests (-b), and N requests of each user (-r): as many as take about {} s by \
             shorter runs before.",
            time.as_secs()
        ));
        let cases = siege_cases(&collection, time, server.as_ref());
        case::run(cases, rounds(plan), bar, findings);
    }
    if !interrupt::is_requested() {
        case::run(restart::cases(&collection), rounds(plan), bar, findings);
    }
    let count = if plan.quick { 100_000 } else { 1_000_000 };
    if plan.quick {
        findings.notes.push(format!("The workloads of a million pairs store {count} of them."));
    }
    if !interrupt::is_requested() {
        case::run(million::cases(count), rounds(plan), bar, findings);
    }
    Ok(())
}

fn siege_cases<'a>(collection: &'a Collection, time: Duration, server: Option<&'a Server>) -> Vec<Case<'a>> {
    let one = vec![collection.links[0].0.as_str()];
    let workloads = [("siege-one-slug", one), ("siege-zipf", collection.zipf_slugs())];
    let cases = workloads.into_iter().flat_map(|(workload, slugs)| {
        shorteners(server).into_iter().map(move |(subject, shortener, server)| {
            let slugs = slugs.clone();
            Case {
                group: workload.to_owned(),
                subject,
                // With the start and the two shorter runs.
                estimate: time + time / 10 + Duration::from_secs(3),
                run: Box::new(move || {
                    let child = start(shortener, server, collection)?;
                    Ok(vec![besiege(workload, &child, server, &collection.links[0], &slugs, time)?])
                }),
            }
        })
    });
    cases.collect()
}

fn start(shortener: Shortener, server: Option<&Server>, collection: &Collection) -> Result<Child> {
    match shortener {
        Shortener::Design(design) => {
            let mut arguments = collection.arguments(design);
            arguments.extend(Server::arguments(server));
            Child::serve(&arguments)
        }
        Shortener::Ours => start_larder_links(&collection.links),
    }
}

fn besiege(
    workload: &str,
    child: &Child,
    server: Option<&Server>,
    (slug, target): &(String, String),
    slugs: &[&str],
    time: Duration,
) -> Result<Outcome> {
    let address = child.address();
    http::check(address, &format!("/{slug}"), 302, target)?;
    let urls: Vec<String> = slugs.iter().map(|slug| format!("http://{address}/{slug}")).collect();
    let siege = Siege::of_about(&urls, USERS, time)?;
    let before = Usage::of(child.id()) + Server::usage(server);
    let report = siege.run()?;
    let usage = Usage::of(child.id()) + Server::usage(server) - before;
    let mut values = values(&report);
    let micros = usage.cpu.as_secs_f64() * 1e6 / report.transactions.max(1.0);
    values.push(Value::low("cpu", "µs", micros));
    let remark = (report.failed_transactions > 0.0).then(|| format!("{} failed", report.failed_transactions));
    Ok(Outcome { workload: workload.to_owned(), values, remark })
}

/// Starts the shortener and creates the links in it.
fn start_larder_links(links: &[(String, String)]) -> Result<Child> {
    let child = Child::larder_links()?;
    for batch in links.chunks(BATCH) {
        let items: Vec<_> = batch.iter().map(|(slug, url)| json!({ "slug": slug, "url": url })).collect();
        http::post_json(child.address(), "/api/links/batch", &json!(items).to_string())?;
    }
    Ok(child)
}

fn values(report: &SiegeReport) -> Vec<Value> {
    vec![
        Value::high("transactions", "hits", report.transactions),
        Value::high("availability", "%", report.availability),
        Value::low("elapsed", "s", report.elapsed_time),
        Value::high("data", "MB", report.data_transferred),
        Value::low("response time", "s", report.response_time),
        Value::high("rate", "/s", report.transaction_rate),
        Value::high("throughput", "MB/s", report.throughput),
        Value::low("concurrency", "", report.concurrency),
        Value::high("successful", "", report.successful_transactions),
        Value::low("failed", "", report.failed_transactions),
        Value::low("longest", "s", report.longest_transaction),
        Value::low("shortest", "s", report.shortest_transaction),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::suite::documents::Document;
    use crate::suite::documents::collection::tests::plan;
    use larder_testkit::program;

    #[test]
    fn counterparts_of_the_document_are_measured() {
        if program("elixir").is_none() {
            return;
        }
        let collection = Collection::of(&plan(None)).unwrap();
        let mut cases = siege_cases(&collection, Duration::from_secs(1), None);
        cases.extend(restart::cases(&collection));
        cases.extend(million::cases(1));
        let document = Document::read(0).unwrap();
        for (workload, subjects) in document.counterparts() {
            let is_known = |case: &Case<'_>| case.group == workload && subjects.contains(&case.subject);
            assert!(cases.iter().any(is_known), "{workload}, {subjects:?}");
        }
    }
}

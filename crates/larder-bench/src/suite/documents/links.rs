//! Document 0: a URL shortener under siege, and a million pairs in its cache.
//!
//! | workload | meaning |
//! |---|---|
//! | `siege-one-slug` | 500 users ask for the same slug, without pauses, over a connection for each request |
//! | `siege-zipf` | the same with slugs of unequal popularity among as many links as a real collection has |
//! | `million-records`, `million-addresses` | a million pairs: the whole record, or slug and address |
//!
//! The subject `larder` is `larder links`, which also counts the visits; the others are redirects and nothing else.

use super::case::{self, Case, Outcome};
use super::child::Child;
use super::{http, million, rounds};
use crate::rounds::Value;
use crate::suite::{Findings, Plan};
use crate::tool::{Siege, SiegeReport, Usage};
use crate::workload::Pairs;
use anyhow::Result;
use indicatif::ProgressBar;
use larder_process::find_program;
use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};
use rand_distr::Zipf;
use serde_json::json;
use std::time::Duration;

const USERS: u32 = 500;
/// As many as the collection of real links has that the shortener is tested with.
const LINKS: usize = 29_588;
/// The lines of the file from which the users of siege choose.
const URLS: usize = 50_000;
const SKEW: f64 = 0.99;
/// The most links in one request.
const BATCH: usize = 1_000;

/// The subjects, with what `bench serve redirect` is told; `None` is `larder links`.
const DESIGNS: [(&str, Option<&str>); 4] = [
    ("database", Some("database")),
    ("cache behind a queue", Some("queue")),
    ("direct cache", Some("direct")),
    ("larder", None),
];

pub(super) fn measure(plan: &Plan, bar: &ProgressBar, findings: &mut Findings) -> Result<()> {
    let time = Duration::from_secs(if plan.quick { 4 } else { 60 });
    if find_program("siege").is_some() {
        let links: Vec<(String, String)> = Pairs::generated(LINKS, plan.seed)
            .iter(LINKS)
            .map(|(slug, address)| (slug, address.to_owned()))
            .collect();
        findings
            .commands
            .push(format!("siege -R siegerc -f urls -i -b -j -c {USERS} -t {}S", time.as_secs()));
        findings.notes.push("siege runs without pauses between requests (-b).".to_owned());
        case::run(siege_cases(&links, plan.seed, time), rounds(plan), bar, findings);
    }
    let count = if plan.quick { 100_000 } else { 1_000_000 };
    if plan.quick {
        findings.notes.push(format!("The workloads of a million pairs store {count} of them."));
    }
    if !super::is_interrupted() {
        case::run(million::cases(count), rounds(plan), bar, findings);
    }
    Ok(())
}

fn siege_cases(links: &[(String, String)], seed: u64, time: Duration) -> Vec<Case<'_>> {
    let zipf = zipf_slugs(links, seed);
    let workloads = [("siege-one-slug", vec![links[0].0.as_str()]), ("siege-zipf", zipf)];
    let cases = workloads.into_iter().flat_map(|(workload, slugs)| {
        DESIGNS.map(|(subject, design)| {
            let slugs = slugs.clone();
            Case {
                group: workload.to_owned(),
                subject,
                estimate: time + Duration::from_secs(1),
                run: Box::new(move || besiege(workload, design, links, &slugs, seed, time)),
            }
        })
    });
    cases.collect()
}

/// Slugs, the popular ones more often.
fn zipf_slugs(links: &[(String, String)], seed: u64) -> Vec<&str> {
    let mut random = SmallRng::seed_from_u64(seed);
    let ranks = Zipf::new(links.len() as f64, SKEW).expect("the parameters are in range");
    let slug = |_| links[random.sample::<f64, _>(ranks) as usize - 1].0.as_str();
    (0..URLS).map(slug).collect()
}

fn besiege(
    workload: &str,
    design: Option<&str>,
    links: &[(String, String)],
    slugs: &[&str],
    seed: u64,
    time: Duration,
) -> Result<Vec<Outcome>> {
    let (count, seed) = (links.len().to_string(), seed.to_string());
    let child = match design {
        Some(design) => Child::serve(&["redirect", "--design", design, "--links", &count, "--seed", &seed])?,
        None => start_larder_links(links)?,
    };
    let address = child.address();
    let (slug, target) = &links[0];
    http::check(address, &format!("/{slug}"), 302, target)?;
    let urls: Vec<String> = slugs.iter().map(|slug| format!("http://{address}/{slug}")).collect();
    let before = Usage::of(child.id());
    let report = Siege { urls: &urls, users: USERS, time }.run()?;
    let usage = Usage::of(child.id()) - before;
    let mut values = values(&report);
    let micros = usage.cpu.as_secs_f64() * 1e6 / report.transactions.max(1.0);
    values.push(Value::low("cpu", "µs", micros));
    let remark = (report.failed_transactions > 0.0).then(|| format!("{} failed", report.failed_transactions));
    Ok(vec![Outcome { workload: workload.to_owned(), values, remark }])
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
    use larder_testkit::program;

    #[test]
    fn counterparts_of_the_document_are_measured() {
        if program("elixir").is_none() {
            return;
        }
        let links = [("slug".to_owned(), "https://a.example/".to_owned())];
        let mut cases = siege_cases(&links, 1, Duration::from_secs(1));
        cases.extend(million::cases(1));
        for (workload, subject) in Document::read(0).unwrap().counterparts() {
            let is_known = cases.iter().any(|case| case.group == workload && case.subject == subject);
            assert!(is_known, "{workload}, {subject}");
        }
    }

    #[test]
    fn zipf_slugs_repeat_the_first_links() {
        let links: Vec<_> = (0..1_000).map(|n| (format!("s{n}"), String::new())).collect();
        let slugs = zipf_slugs(&links, 7);
        let first = slugs.iter().filter(|slug| **slug == "s0").count();
        assert!(slugs.len() == URLS && first > URLS / 20, "{first}");
    }
}

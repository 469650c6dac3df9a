//! Document 0: the cache of the document is lost with its process. The server is killed and started again, and counts how many
//! of the first requests it reads from the database.

use super::case::{Case, Outcome};
use super::child::Child;
use super::collection::Collection;
use super::http;
use crate::measure::rounds::Value;
use crate::serve::READS_PATH;
use anyhow::{Context, Result, ensure};
use larder_process::{RedisServer, find_program};
use std::time::Duration;

/// Each asks for another slug.
const REQUESTS: usize = 1_000;

/// The subjects, with the design that `bench serve redirect` is told.
const DESIGNS: [(&str, &str); 4] = [
    ("SQLite", "database"),
    ("cache behind a queue", "queue"),
    ("direct cache", "direct"),
    ("larder", "tiers"),
];

pub(super) fn cases(collection: &Collection) -> Vec<Case<'_>> {
    let has_redis = find_program("redis-server").is_some();
    let cases = DESIGNS.into_iter().filter(|(_, design)| has_redis || *design != "tiers");
    let case = |(subject, design)| Case {
        group: "restart".to_owned(),
        subject,
        estimate: Duration::from_secs(2),
        run: Box::new(move || Ok(vec![restart(design, collection)?])) as Box<dyn FnMut() -> Result<_>>,
    };
    cases.map(case).collect()
}

fn restart(design: &str, collection: &Collection) -> Result<Outcome> {
    let mut arguments = collection.arguments(design);
    let redis = (design == "tiers").then(start_redis).transpose()?;
    arguments.extend(redis.iter().flat_map(|server| ["--redis".to_owned(), server.url()]));
    let before = ask(&Child::serve(&arguments)?, &collection.links)?;
    let after = ask(&Child::serve(&arguments)?, &collection.links)?;
    let unit = "of 1,000";
    let values = vec![
        Value::low("reads before", unit, before as f64),
        Value::low("reads after the restart", unit, after as f64),
    ];
    Ok(Outcome { workload: "restart".to_owned(), values, remark: None })
}

fn start_redis() -> Result<RedisServer> {
    let program = find_program("redis-server").context("redis-server is not installed")?;
    Ok(RedisServer::start(program)?)
}

/// Asks for the first links. Returns how often the server has read its database.
fn ask(child: &Child, links: &[(String, String)]) -> Result<u64> {
    let address = child.address();
    ensure!(links.len() >= REQUESTS, "there are {} links", links.len());
    for (slug, target) in &links[..REQUESTS] {
        http::check(address, &format!("/{slug}"), 302, target)?;
    }
    let response = http::get(address, READS_PATH)?;
    let reads = response.lines().last().and_then(|reads| reads.parse().ok());
    reads.context("the server does not tell how often it has read its database")
}

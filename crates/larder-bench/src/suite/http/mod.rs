//! The suite `http`: a response cache in front of handlers that encode JSON, compared with the same handlers without a
//! cache, with handlers that return encoded bytes, and with nginx and Varnish.
//!
//! ```text
//!  client: a thread, 1 or 50 connections ──► larder    thread: larder-http ─► axum ─► encode
//!                                        ──► no cache  thread:                axum ─► encode
//!                                        ──► axum      thread:                axum ─► bytes
//!                                        ──► peer      thread: tower-http-cache ─► encode (feature bench-peers)
//!                                        ──► nginx, varnish: processes ─► a server without a cache
//! ```
//!
//! | workload | meaning |
//! |---|---|
//! | `hit-BODY`, `hit-BODY-50` | the same target each time, by one connection or by 50 at once |
//! | `hit-graphql-BODY` | the same GraphQL query each time, by POST; `no cache` resolves it, and `axum` reads it |
//! | `miss-BODY` | a new target each time, by one connection: each body is encoded, sent and stored |
//! | `readers-SIZE` | one object that a handler sends in pieces, and 50 clients that each read it in two seconds |
//!
//! A body is named by the size of its JSON. `at the server` is the time from a request's last byte to the head and the
//! body of its response; `time` is the median to the last byte at the client. `cpu` and `allocations` are those of the
//! server.

mod bodies;
mod client;
mod graphql;
mod kind;
#[cfg(feature = "bench-peers")]
mod peer;
mod proxies;
pub(super) mod quick;
mod readers;
mod server;
mod workload;

use super::{Findings, Plan, Suite, Target};
use crate::measure::machine::on_one_processor;
use crate::measure::rounds::{self, Runner};
use crate::result::Figure;
use anyhow::{Context, Result};
use bodies::{Body, Content};
use client::Targets;
use indicatif::ProgressBar;
use kind::Kind;
use std::time::Duration;
use workload::Subject;

/// The number of rounds of each workload.
const ROUNDS: usize = 9;
/// The number of rounds with a large object.
const OBJECT_ROUNDS: usize = 3;
/// The largest body that 50 clients request at once where nothing is cached: there each has its own copy.
const MAX_UNCACHED: usize = 1 << 20;

pub(crate) struct Http;

impl Suite for Http {
    fn name(&self) -> &'static str {
        "http"
    }

    fn description(&self) -> &'static str {
        "responses of 0.2 KB to 212 MB: cached, encoded for each request, and from nginx and Varnish"
    }

    fn crates(&self) -> &'static [&'static str] {
        &["larder-http", "axum", "hyper", "serde_json"]
    }

    fn targets(&self) -> Vec<Target> {
        vec![
            Target::ratio("hit-1kb-50", "cpu", "axum", 1.08),
            // nginx needs at least 1.9 times as much.
            Target::ratio("hit-1kb-50", "cpu", "nginx", 1.0 / 1.9),
            Target::ratio("hit-0.6mb", "at the server", "no cache", 1.0 / 100.0),
            Target::ratio("hit-212mb", "at the server", "no cache", 1.0 / 20.0),
            Target::ratio("hit-graphql-1kb-50", "cpu", "axum", 1.10),
            Target::ratio("hit-graphql-16mb", "at the server", "no cache", 1.0 / 1000.0),
            Target::value("hit-graphql-16mb", "at the server", 400.0),
            Target::ratio("miss-0.2kb", "time", "no cache", 1.05),
            Target::ratio("miss-1kb", "time", "no cache", 1.05),
            Target::ratio("miss-18kb", "time", "no cache", 1.05),
            Target::ratio("miss-167kb", "time", "no cache", 1.05),
            Target::ratio("miss-0.6mb", "time", "no cache", 1.05),
            Target::ratio("miss-20mb", "time", "no cache", 1.10),
            Target::ratio("miss-212mb", "time", "no cache", 1.10),
            Target::value("readers-100mb", "beside the object", 50.0),
        ]
    }

    fn measure(&self, plan: &Plan, bar: &ProgressBar) -> Result<Findings> {
        measure(&Scale::of(plan), bar)
    }
}

/// The size of the bodies and of the rounds.
struct Scale {
    /// Larger bodies are left out.
    max_body: usize,
    /// The largest body that 50 clients request at once.
    max_shared: usize,
    /// The bytes of all responses of a round, in the middle of the range.
    bytes: usize,
    max_requests: usize,
    /// The name and the size of the object that slow clients read.
    object: Option<(&'static str, usize)>,
}

impl Scale {
    fn of(plan: &Plan) -> Self {
        match plan.quick {
            true => Scale {
                max_body: 17 << 20,
                max_shared: MAX_UNCACHED,
                bytes: 8 << 20,
                max_requests: 2_000,
                object: Some(("10mb", 10_000_000)),
            },
            false => Scale {
                max_body: usize::MAX,
                max_shared: usize::MAX,
                bytes: 200 << 20,
                max_requests: 20_000,
                object: Some(("100mb", 100_000_000)),
            },
        }
    }

    /// How many requests each connection sends in a round.
    fn requests(&self, body: &Body, clients: usize) -> usize {
        (self.bytes / body.size).clamp(clients, self.max_requests) / clients
    }
}

fn measure(scale: &Scale, bar: &ProgressBar) -> Result<Findings> {
    let mut findings = Findings::default();
    for kind in proxies::missing() {
        findings.notes.push(format!("{} is not installed: it was not measured.", kind.program()));
    }
    findings.notes.push("above 1 MB, 50 clients request cached bodies only.".to_owned());
    findings.notes.push("up to 1 MB, one client and its server share a processor.".to_owned());
    for body in bodies::all(scale.max_body).chain(graphql::all(scale.max_body)?) {
        let alone = || one_client(scale, &body, bar);
        let figures = if body.size <= MAX_UNCACHED { on_one_processor(alone)? } else { alone()? };
        findings.figures.extend(figures);
        if body.size <= scale.max_shared {
            findings.figures.extend(hits(scale, &body, 50, bar)?);
        }
    }
    if let Some((name, bytes)) = scale.object {
        let mut runners = readers::runners(bytes);
        findings.figures.extend(rounds::run(&format!("readers-{name}"), &mut runners, OBJECT_ROUNDS, bar)?);
    }
    Ok(findings)
}

/// Hits and misses of a body by one connection.
fn one_client(scale: &Scale, body: &Body, bar: &ProgressBar) -> Result<Vec<Figure>> {
    let mut figures = hits(scale, body, 1, bar)?;
    if let Content::Value(_) = body.content {
        let (workload, requests) = (format!("miss-{}", body.name), scale.requests(body, 1).min(2_000));
        let own = Subject::own(body, &[Kind::Full, Kind::Encoded])?;
        let mut runners = workload::runners(own, Targets::New(0), 1, requests, body.size)?;
        figures.extend(rounds::run(&workload, &mut runners, ROUNDS, bar)?);
    }
    Ok(figures)
}

fn hits(scale: &Scale, body: &Body, clients: usize, bar: &ProgressBar) -> Result<Vec<Figure>> {
    let has_uncached = clients == 1 || body.size <= MAX_UNCACHED;
    let suffix = if clients > 1 { format!("-{clients}") } else { String::new() };
    let workload = format!("hit-{}{suffix}", body.name);
    let requests = scale.requests(body, clients);
    let subjects = Subject::all(body, has_uncached)?;
    let mut runners = workload::runners(subjects, hit_targets(body), clients, requests, body.size)?;
    rounds::run(&workload, &mut runners, ROUNDS, bar)
}

/// What requests ask for that always want this body.
fn hit_targets(body: &Body) -> Targets {
    match body.content {
        Content::Value(_) => Targets::Same,
        Content::Graphql(query) => Targets::Graphql(query),
    }
}

/// The runners of hits of a body, named by its size, with and without a cache: `requests` on each of `clients`
/// connections. Before they start, a value for each subject and its first request.
pub(super) fn hit_runners(name: &str, clients: usize, bytes: usize) -> Result<HitRunners> {
    let body = bodies::all(usize::MAX).find(|body| body.name == name).context("no such body")?;
    let subjects = Subject::own(&body, &[Kind::Cached, Kind::Encoded])?;
    let first = subjects
        .iter()
        .map(|subject| Ok((subject.name(), workload::first_answer(subject, body.size)?)))
        .collect::<Result<_>>()?;
    let requests = (bytes / body.size).clamp(2 * clients, 5_000) / clients;
    let runners = workload::runners(subjects, Targets::Same, clients, requests, body.size)?;
    Ok(HitRunners { first, runners, bytes: body.size })
}

/// What [`hit_runners`] returns.
pub(super) struct HitRunners {
    /// The time at the server of the first request of each subject.
    pub(super) first: Vec<(&'static str, Duration)>,
    pub(super) runners: Vec<Runner>,
    /// The size of the body.
    pub(super) bytes: usize,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::result::tests::file;

    /// Every workload of small bodies, with few requests.
    #[test]
    fn measure_has_figures_for_every_target() {
        let scale =
            Scale { max_body: 1 << 20, max_shared: 1 << 20, bytes: 1 << 20, max_requests: 100, object: None };
        let findings = measure(&scale, &ProgressBar::hidden()).unwrap();
        let file = file(findings.figures);
        let has_nginx = proxies::missing().all(|kind| kind != proxies::Kind::Nginx);
        for target in Http.targets() {
            let (workload, _) = target.workload_and_measure();
            let is_small = !["16mb", "20mb", "100mb", "212mb"].iter().any(|size| workload.contains(size));
            let is_possible = has_nginx || !format!("{target:?}").contains("nginx");
            assert_eq!(target.judge(&file).is_some(), is_small && is_possible, "{target:?}");
        }
        let times = |subject| file.find("hit-0.6mb", "at the server", subject).unwrap().spread().median;
        assert!(times("larder") < times("no cache"), "a hit encodes nothing");
        assert!(file.figures.iter().all(|figure| figure.rounds.iter().all(|value| value.is_finite())));
    }
}

//! The short measurement of the response cache: hits and misses of a kilobyte, beside handlers without a cache.

use super::bodies::{self, Body};
use super::client::Targets;
use super::kind::Kind;
use super::workload::{self, Subject};
use super::{graphql, hit_targets};
use crate::measure::machine::on_one_processor;
use crate::measure::rounds;
use crate::result::Figure;
use crate::suite::Length;
use anyhow::{Context, Result};
use indicatif::ProgressBar;

/// The requests of a round.
const REQUESTS: usize = 4_000;
/// The connections of workloads whose names end in `-50`.
const MANY: usize = 50;
/// The largest answer.
const MAX_BYTES: usize = 2_000;

/// Workloads of the suite without nginx and Varnish. As there, one client and its server share a processor.
pub(in crate::suite) fn measure(length: Length, bar: &ProgressBar) -> Result<Vec<Figure>> {
    let body = bodies::all(MAX_BYTES).find(|body| body.name == "1kb").context("there is a body of 1 KB")?;
    let answers = graphql::all(MAX_BYTES)?;
    let answer = answers.first().context("there is an answer of 1 KB")?;
    let hits = [Kind::Cached, Kind::Encoded, Kind::Bare];
    let run = |name: &str, body: &Body, kinds: &[Kind], targets: Targets, clients: usize| {
        let requests = length.of(REQUESTS).max(2 * clients) / clients;
        let mut runners =
            workload::runners(Subject::own(body, kinds)?, targets, clients, requests, body.size)?;
        rounds::run(name, &mut runners, length.rounds, bar)
    };
    let mut figures = on_one_processor(|| {
        let mut figures = run("hit-1kb", &body, &hits, hit_targets(&body), 1)?;
        figures.extend(run("miss-1kb", &body, &[Kind::Full, Kind::Encoded], Targets::New(0), 1)?);
        anyhow::Ok(figures)
    })?;
    figures.extend(run("hit-1kb-50", &body, &hits, hit_targets(&body), MANY)?);
    figures.extend(run("hit-graphql-1kb-50", answer, &hits, hit_targets(answer), MANY)?);
    Ok(figures)
}

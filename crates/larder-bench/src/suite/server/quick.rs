//! The short measurement of the cache server: `GET` and `SET` by `redis-benchmark`, beside Redis and the bare loop.

use super::load::Load;
use super::subject::{self, Kind, Subject};
use crate::result::Figure;
use crate::suite::Length;
use anyhow::{Result, ensure};
use indicatif::ProgressBar;
use std::rc::Rc;

const KEYS: u64 = 100_000;
const REQUESTS: usize = 20_000;
const PIPELINED_REQUESTS: usize = 200_000;

/// The server is the one that is linked into this program, so that it is as new as its source.
const KINDS: [Kind; 3] = [Kind::Linked, Kind::Redis, Kind::BareLoop];

/// Workloads of the suite with 50 connections. `notes` gets why a server was left out.
pub(in crate::suite) fn measure(
    length: Length,
    bar: &ProgressBar,
    notes: &mut Vec<String>,
) -> Result<Vec<Figure>> {
    bar.set_message("fill");
    let subjects: Vec<_> = subject::start_all(&KINDS, notes).into_iter().map(Rc::new).collect();
    ensure!(subjects.len() > 1, "there is nothing to compare: {}", notes.join(" "));
    let is_cache = |subject: &&Rc<Subject>| subject.kind.is_cache();
    subjects.iter().filter(is_cache).try_for_each(|subject| subject.fill(KEYS))?;
    let load = |name, command: &'static [&'static str], pipeline, requests| Load {
        name,
        command,
        clients: 50,
        pipeline,
        requests: length.of(requests) as u64,
        keys: KEYS,
    };
    let loads = [
        load("get-50", &["get"], 1, REQUESTS),
        load("set-50", &["set"], 1, REQUESTS),
        load("get-50-p16", &["get"], 16, PIPELINED_REQUESTS),
    ];
    let mut figures = Vec::new();
    for load in loads {
        figures.extend(load.measure(&subjects, length.rounds, None, bar)?);
    }
    Ok(figures)
}

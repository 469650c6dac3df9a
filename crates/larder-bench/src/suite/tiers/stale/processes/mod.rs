//! Who serves what another process changed: caches of other languages over Redis, each with two processes.
//!
//! Those of larder are in two languages, and each language is judged beside the next one.

mod experiments;
mod node;

use crate::measure::rounds::{Value, record};
use crate::result::{Figure, OCCURRED};
use crate::suite::{Findings, Plan};
use crate::tool::{Language, start_on_port};
use anyhow::{Context, Result, ensure};
use experiments::Pair;
use indicatif::ProgressBar;
use node::{Node, Program};
use std::path::Path;

/// The workload of these experiments in results.
pub(in crate::suite::tiers) const WORKLOAD: &str = "stale-processes";
pub(super) use experiments::EXPERIMENTS;

const ROUNDS: usize = 3;

/// A cache of another language.
struct Peer {
    name: &'static str,
    program: Program,
    /// Whether it calls a loader itself. Without one, its callers read and then write.
    loads: bool,
}

const PEERS: [Peer; 5] = [
    Peer { name: "Valkey GLIDE", program: peer(Language::Node, "bench/peers.js", "glide"), loads: false },
    Peer { name: "node-redis", program: peer(Language::Node, "bench/peers.js", "node-redis"), loads: false },
    Peer { name: "bentocache", program: peer(Language::Node, "bench/peers.js", "bentocache"), loads: true },
    Peer { name: "cashews", program: peer(Language::Python, "bench/peers.py", "cashews"), loads: true },
    Peer { name: "Rails", program: peer(Language::Ruby, "bench/peers.rb", "rails"), loads: true },
];

const LARDER: &str = "larder";
/// The programs with larder, of which each is judged while the next one changes values.
const OURS: [Program; 4] = [
    peer(Language::Python, "tests/child.py", "sync"),
    peer(Language::Node, "test/child.js", "main"),
    peer(Language::Ruby, "test/child.rb", "threads"),
    peer(Language::Elixir, "test/child.exs", ""),
];

const fn peer(language: Language, script: &'static str, word: &'static str) -> Program {
    Program { language, script, word }
}

/// Runs the experiments. A peer that is not installed has no figures, and a note says why.
///
/// # Errors
/// If larder does not come to their end, or served a value that was changed.
pub(super) fn measure(redis: &Path, plan: &Plan, bar: &ProgressBar, findings: &mut Findings) -> Result<()> {
    let rounds = if plan.quick { 1 } else { ROUNDS };
    let mut figures = Vec::new();
    for round in 1..=rounds {
        bar.set_message(format!("larder in processes, round {round} of {rounds}"));
        for (at, node) in OURS.into_iter().enumerate() {
            let other = OURS[(at + 1) % OURS.len()];
            run(redis, plan, LARDER, true, [node, other], &mut figures).context("larder in two languages")?;
        }
        for Peer { name, program, loads } in PEERS {
            bar.set_message(format!("{name} in processes, round {round} of {rounds}"));
            if let Err(error) = run(redis, plan, name, loads, [program; 2], &mut figures) {
                findings.notes.push(format!("{name} has not all of its figures: {error:#}"));
            }
        }
    }
    for figure in figures.iter().filter(|figure| figure.subject == LARDER) {
        let served = figure.rounds.iter().any(|share| *share > 0.0);
        ensure!(!served, "larder served a changed value: {}", figure.measure);
    }
    findings.figures.extend(figures);
    Ok(())
}

/// One round of a cache, over a server of its own.
fn run(
    redis: &Path,
    plan: &Plan,
    name: &'static str,
    loads: bool,
    programs: [Program; 2],
    figures: &mut Vec<Figure>,
) -> Result<()> {
    let (server, port) = start_on_port(redis, &[])?;
    let mut pair = Pair::start(server, port, programs, plan.quick)?;
    for experiment in EXPERIMENTS.into_iter().filter(|experiment| loads || !experiment.needs_loader) {
        let share = (experiment.run)(&mut pair).with_context(|| experiment.name)?;
        record(figures, WORKLOAD, name, Value::low(experiment.name, OCCURRED, share));
    }
    Ok(())
}

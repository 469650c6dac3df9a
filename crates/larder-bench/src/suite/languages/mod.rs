//! The suite `languages`: what a hit and a load cost in other languages, beside the caches that are used there.
//!
//! ```text
//!  larder-bench ── workload, subject, number of calls ──► one program in each language, with all of its subjects
//!               ◄── nanoseconds of a call ──────────────
//! ```
//!
//! | workload | meaning |
//! |---|---|
//! | `python-shared`, `node-hit` | a hit on an object that all callers share, without a wait. `larder fetch` is the call with a loader |
//! | `node-fetch` | the same, awaited |
//! | `python-copied`, `node-copied` | a hit that makes an object of its own for its caller |
//! | `python-django`, `python-django-text` | a `get` of Django's cache framework: of an object, which is copied, and of a text |
//! | `ruby-shared`, `ruby-copied` | a hit on a frozen object, and a read that makes an object of its own |
//! | `ruby-rails`, `ruby-rails-text` | a `read` of Rails' cache stores: of a hash, which is copied, and of a text |
//! | `elixir-map`, `elixir-text`, `elixir-small` | a hit, which copies a term to its caller: a map, a text of 300 bytes, a number |
//! | `python-cold` and so on | a fetch that no tier answers, over Redis; `core` is the same in Rust |
//!
//! Hits are measured in processor time, those of Elixir in time, since its emulator spins while it waits for work; loads in time. The
//! values have five fields, 254 bytes of MessagePack.

mod core;
mod script;

use super::documents::{Case, Outcome, run_cases};
use super::{Findings, Plan, Suite, Target};
use crate::measure::rounds::Value;
use crate::tool::{Language, version_of};
use anyhow::{Context, Result};
use indicatif::ProgressBar;
use larder_process::{RedisServer, find_program};
use script::Script;
use std::cell::RefCell;
use std::time::Duration;

const ROUNDS: usize = 15;
const HITS: usize = 20_000;
const LOADS: usize = 500;

/// The workloads of hits, with their subjects.
const HIT_WORKLOADS: [(&str, &[&str]); 14] = [
    ("python-shared", &["larder", "larder fetch", "cachebox", "cachetools", "lru_cache", "dict"]),
    ("python-copied", &["larder"]),
    ("python-django", &["larder", "LocMemCache"]),
    ("python-django-text", &["larder", "LocMemCache"]),
    ("node-hit", &["larder", "lru-cache", "quick-lru", "Map"]),
    ("node-fetch", &["larder", "cache-manager", "bentocache", "keyv"]),
    ("node-copied", &["larder"]),
    ("ruby-shared", &["larder", "larder fetch", "Mutex", "Hash"]),
    ("ruby-copied", &["larder"]),
    ("ruby-rails", &["larder", "MemoryStore"]),
    ("ruby-rails-text", &["larder", "MemoryStore"]),
    ("elixir-map", &["larder", "larder fetch", "ets"]),
    ("elixir-text", &["larder", "ets"]),
    ("elixir-small", &["larder", "ets"]),
];
const COLD_WORKLOADS: [&str; 4] = ["python-cold", "node-cold", "ruby-cold", "elixir-cold"];

pub(crate) struct Languages;

impl Suite for Languages {
    fn name(&self) -> &'static str {
        "languages"
    }

    fn description(&self) -> &'static str {
        "hits and loads from Python, Node.js, Ruby and Elixir, beside caches of these languages"
    }

    fn crates(&self) -> &'static [&'static str] {
        &["larder", "larder-host", "napi-sys", "pyo3"]
    }

    fn targets(&self) -> Vec<Target> {
        vec![
            Target::ratio("python-shared", "cpu", "cachebox", 2.0),
            Target::ratio("python-shared", "cpu", "cachetools", 0.12),
            Target::ratio("python-django", "cpu", "LocMemCache", 0.35),
            Target::ratio("python-django-text", "cpu", "LocMemCache", 0.1),
            Target::ratio("node-hit", "cpu", "lru-cache", 5.0),
            Target::ratio("node-fetch", "cpu", "cache-manager", 0.25),
            Target::ratio("node-fetch", "cpu", "bentocache", 0.04),
            Target::ratio("python-cold", "time", "core", 1.3),
            Target::ratio("node-cold", "time", "core", 1.3),
            Target::ratio("ruby-rails", "cpu", "MemoryStore", 0.35),
            Target::ratio("ruby-cold", "time", "core", 1.3),
            Target::ratio("elixir-map", "time", "ets", 2.0),
            Target::ratio("elixir-cold", "time", "core", 1.3),
        ]
    }

    fn programs(&self) -> &'static [(&'static str, &'static str)] {
        &[
            ("python3", "python3"),
            ("node", "nodejs"),
            ("ruby", "ruby"),
            ("elixir", "elixir"),
            ("redis-server", "redis-server"),
        ]
    }

    fn keeps_measurements(&self) -> bool {
        true
    }

    fn measure(&self, plan: &Plan, bar: &ProgressBar) -> Result<Findings> {
        let mut findings = Findings::default();
        let redis = find_program("redis-server").context("redis-server is not installed")?;
        let server = RedisServer::start(redis).context("redis-server does not start")?;
        let mut scripts = Vec::new();
        for language in Language::ALL {
            match Script::start(language, &server.url()) {
                Ok(script) => scripts.push(RefCell::new(script)),
                Err(error) => findings.notes.push(format!("{} is left out: {error:#}", language.name())),
            }
            let version = version_of(language.program());
            findings.versions.extend(version.map(|version| (language.program().to_owned(), version)));
        }
        findings.notes.push("The peers are those that `cargo xtask install` brings.".to_owned());
        let (divisor, rounds) = if plan.quick { (10, 3) } else { (1, ROUNDS) };
        let core = RefCell::new(core::Core::start(&server.url())?);
        run_cases(cases(&scripts, &core, divisor), rounds, bar, &mut findings);
        Ok(findings)
    }
}

/// How the names of the workloads of a language begin.
fn prefix(language: Language) -> &'static str {
    match language {
        Language::Python => "python-",
        Language::Node => "node-",
        Language::Ruby => "ruby-",
        Language::Elixir => "elixir-",
    }
}

fn cases<'a>(scripts: &'a [RefCell<Script>], core: &'a RefCell<core::Core>, divisor: usize) -> Vec<Case<'a>> {
    let mut cases = Vec::new();
    let (hits, loads) = (HITS / divisor, LOADS / divisor);
    for script in scripts {
        let is_here = |workload: &str| workload.starts_with(prefix(script.borrow().language));
        for (workload, subjects) in HIT_WORKLOADS.into_iter().filter(|(workload, _)| is_here(workload)) {
            for subject in subjects {
                let measure = if workload.starts_with("elixir-") { "time" } else { "cpu" };
                cases.push(case(workload, subject, measure, move || {
                    script.borrow_mut().measure(workload, subject, hits)
                }));
            }
        }
        for workload in COLD_WORKLOADS.into_iter().filter(|workload| is_here(workload)) {
            cases.push(case(workload, "larder", "time", move || {
                script.borrow_mut().measure(workload, "larder", loads)
            }));
            cases.push(case(workload, "core", "time", move || core.borrow_mut().cold_fetches(loads)));
        }
    }
    cases
}

fn case<'a>(
    workload: &'static str,
    subject: &'static str,
    measure: &'static str,
    mut run: impl FnMut() -> Result<f64> + 'a,
) -> Case<'a> {
    Case {
        group: workload.to_owned(),
        subject,
        estimate: Duration::from_millis(200),
        run: Box::new(move || {
            let values = vec![Value::low(measure, "ns", run()?)];
            Ok(vec![Outcome { workload: workload.to_owned(), values, remark: None }])
        }),
    }
}

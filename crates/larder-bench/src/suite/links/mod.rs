//! The suite `links`: redirects of `larder links`, whose visits are counted, beside a bare axum handler that answers 302.
//!
//! ```text
//! wrk, 500 connections, Zipf over 29,588 slugs ──► larder   process: larder links, with its writer
//!                                              ──► axum     process: bench serve found
//! ```
//!
//! | workload | meaning |
//! |---|---|
//! | `zipf` | `larder` counts visits alone: `visit_details = "none"` |
//! | `zipf-details` | `larder` counts referrers, browsers, systems, devices and countries too |
//! | `ab-one-slug` | `ab -k` with one slug; `larder` as in `zipf-details` |
//!
//! Before it is measured, each server gets a request for every slug, all within about a second. `cpu` is the processor time of
//! the whole process for a redirect, the writing of its visit included. After each run `larder` must have as many visits in its
//! database as it has sent redirects.

mod shortener;

use super::documents::{Case, Child, Collection, Outcome, run_cases};
use super::{Findings, Plan, Suite, Target};
use crate::measure::rounds::Value;
use crate::tool::{Ab, Wrk, WrkRequest, WrkRequests, process_cpu, program_name, version_of};
use anyhow::{Result, ensure};
use indicatif::ProgressBar;
use larder_process::find_program;
use shortener::{Details, Shortener};
use std::time::Duration;

const CONNECTIONS: u32 = 500;
/// Of a full run. Many short ones: the machine's speed changes within a minute, and a ratio is that of one round.
const ROUNDS: usize = 11;
/// How long all slugs are requested in turn.
const SWEEP: Duration = Duration::from_secs(2);
const MAX_SWEEP: Duration = Duration::from_secs(32);
const AB_DEADLINE: Duration = Duration::from_secs(300);

const USER_AGENTS: [&str; 5] = [
    "Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/140.0.0.0 Safari/537.36",
    "Mozilla/5.0 (Windows NT 10.0; Win64; x64; rv:143.0) Gecko/20100101 Firefox/143.0",
    "Mozilla/5.0 (iPhone; CPU iPhone OS 18_6 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) Version/18.6 Mobile/15E148 Safari/604.1",
    "Mozilla/5.0 (Macintosh; Intel Mac OS X 10_15_7) AppleWebKit/605.1.15 (KHTML, like Gecko) Version/18.6 Safari/605.1.15",
    "Mozilla/5.0 (compatible; Googlebot/2.1; +http://www.google.com/bot.html)",
];
const REFERRERS: [&str; 7] = [
    "https://news.example/today",
    "https://search.example/?q=larder",
    "https://www.forum.example/t/1",
    "https://social.example/@somebody/2",
    "https://mail.example/",
    "https://blog.example/2026/11/links",
    "http://intranet.example/start",
];

pub(crate) struct Links;

impl Suite for Links {
    fn name(&self) -> &'static str {
        "links"
    }

    fn description(&self) -> &'static str {
        "redirects of larder links with their visits, beside a bare axum handler that answers 302, by wrk and ab"
    }

    fn crates(&self) -> &'static [&'static str] {
        &["larder-links", "axum", "hyper", "rusqlite", "tokio"]
    }

    fn targets(&self) -> Vec<Target> {
        let exact = ["zipf", "zipf-details"].into_iter().flat_map(|workload| {
            ["failed", "dropped", "lost"].map(|measure| Target::always(workload, measure, 0.0))
        });
        [Target::ratio("zipf", "cpu", "axum", 1.2), Target::ratio("zipf-details", "cpu", "axum", 1.35)]
            .into_iter()
            .chain(exact)
            .collect()
    }

    fn programs(&self) -> &'static [(&'static str, &'static str)] {
        &[("wrk", "wrk"), ("ab", "apache2-utils")]
    }

    fn keeps_measurements(&self) -> bool {
        true
    }

    fn measure(&self, plan: &Plan, bar: &ProgressBar) -> Result<Findings> {
        let mut findings = Findings::default();
        for (program, package) in self.programs() {
            match find_program(program) {
                Some(_) => findings
                    .versions
                    .extend(version_of(program).map(|version| (program_name(program).to_owned(), version))),
                None => findings.notes.push(format!(
                    "{program} (Debian package {package}) is not installed: --install brings it."
                )),
            }
        }
        let scale = if plan.quick { Scale::QUICK } else { Scale::FULL };
        let collection = Collection::of(plan)?;
        findings.notes.push(collection.note());
        findings.notes.push("Servers and clients share the processor.".to_owned());
        let seconds = scale.time.as_secs();
        findings.commands.push(format!("wrk -t 2 -c {CONNECTIONS} -d {seconds}s --latency -s list.lua URL"));
        findings.commands.push(format!("ab -k -q -n {} -c {CONNECTIONS} URL", scale.ab_requests));
        run_cases(cases(&collection, scale), scale.rounds, bar, &mut findings);
        Ok(findings)
    }
}

#[derive(Clone, Copy)]
struct Scale {
    time: Duration,
    ab_requests: u64,
    rounds: usize,
}

impl Scale {
    const QUICK: Scale = Scale { time: Duration::from_secs(4), ab_requests: 20_000, rounds: 1 };
    const FULL: Scale = Scale { time: Duration::from_secs(15), ab_requests: 200_000, rounds: ROUNDS };
}

/// A server of redirects.
#[derive(Clone, Copy)]
enum Subject {
    Axum,
    Larder(Details),
}

/// A running [`Subject`].
enum Server {
    Axum(Child),
    Larder(Shortener),
}

impl Server {
    fn start(subject: Subject, collection: &Collection) -> Result<Server> {
        Ok(match subject {
            Subject::Axum => Server::Axum(Child::serve(&["found"])?),
            Subject::Larder(details) => Server::Larder(Shortener::start(details, &collection.links)?),
        })
    }

    fn child(&self) -> &Child {
        match self {
            Server::Axum(child) => child,
            Server::Larder(shortener) => &shortener.child,
        }
    }

    /// The processor time of the process, once everything is written.
    fn settled_cpu(&self) -> Result<Duration> {
        if let Server::Larder(shortener) = self {
            shortener.await_writer()?;
        }
        process_cpu(self.child().id())
    }

    /// What must be zero of a server that counts visits.
    fn faults(&self) -> Result<Vec<Value>> {
        let Server::Larder(shortener) = self else { return Ok(Vec::new()) };
        let visits = shortener.visits()?;
        Ok(vec![
            Value::low("dropped", "visits", visits.dropped as f64),
            Value::low("lost", "visits", visits.redirects.abs_diff(visits.in_database) as f64),
        ])
    }
}

fn cases(collection: &Collection, scale: Scale) -> Vec<Case<'_>> {
    let of = |group: &'static str, details: Details| {
        [("larder", Subject::Larder(details)), ("axum", Subject::Axum)].map(|(subject, server)| Case {
            group: group.to_owned(),
            subject,
            estimate: scale.time + SWEEP + Duration::from_secs(3),
            run: Box::new(move || {
                let server = Server::start(server, collection)?;
                let values = match group {
                    "ab-one-slug" => ask_by_ab(&server, &collection.links[0].0, scale)?,
                    _ => ask_by_wrk(&server, collection, scale.time)?,
                };
                Ok(vec![Outcome { workload: group.to_owned(), values, remark: None }])
            }),
        })
    };
    [of("zipf", Details::None), of("zipf-details", Details::All), of("ab-one-slug", Details::All)]
        .into_iter()
        .flatten()
        .collect()
}

fn ask_by_wrk(server: &Server, collection: &Collection, time: Duration) -> Result<Vec<Value>> {
    let address = server.child().address();
    let all: Vec<&str> = collection.links.iter().map(|(slug, _)| slug.as_str()).collect();
    let run = |slugs: &[&str], time| {
        let paths: Vec<String> = slugs.iter().map(|slug| format!("/{slug}")).collect();
        let requests = requests(&paths);
        let requests = WrkRequests::List(&requests);
        Wrk { address, requests, connections: CONNECTIONS, time }.run()
    };
    let (mut sweep_time, mut sweep_failed) = (SWEEP, 0);
    loop {
        let sweep = run(&all, sweep_time)?;
        sweep_failed += sweep.failed;
        if sweep.requests >= all.len() as u64 {
            break;
        }
        // A machine that is busy or slow needs longer.
        sweep_time *= 2;
        ensure!(sweep_time <= MAX_SWEEP, "only {} requests before the run", sweep.requests);
    }
    let before = server.settled_cpu()?;
    let report = run(&collection.zipf_slugs(), time)?;
    let cpu = server.settled_cpu()? - before;
    let mut values = vec![
        Value::low("cpu", "µs", cpu.as_secs_f64() * 1e6 / report.requests as f64),
        Value::high("rate", "/s", report.requests_per_second()),
        Value::low("p50", "ms", report.p50_ms()),
        Value::low("p99", "ms", report.p99_ms()),
        Value::low("failed", "", (sweep_failed + report.failed) as f64),
    ];
    values.extend(server.faults()?);
    Ok(values)
}

/// The requests for paths, with the fields of different visitors.
fn requests(paths: &[String]) -> Vec<WrkRequest<'_>> {
    let visitors = USER_AGENTS.into_iter().cycle().zip(REFERRERS.into_iter().cycle());
    let request = |(path, (user_agent, referrer))| WrkRequest { path, user_agent, referrer };
    paths.iter().map(String::as_str).zip(visitors).map(request).collect()
}

fn ask_by_ab(server: &Server, slug: &str, scale: Scale) -> Result<Vec<Value>> {
    let path = format!("/{slug}");
    let ab = Ab {
        address: server.child().address(),
        path: &path,
        requests: scale.ab_requests,
        clients: CONNECTIONS,
        keeps_alive: true,
        deadline: AB_DEADLINE,
    };
    let before = server.settled_cpu()?;
    let report = ab.run()?;
    let cpu = server.settled_cpu()? - before;
    ensure!(
        report.other_status == report.complete,
        "{} responses are no redirects",
        report.complete - report.other_status
    );
    let mut values = vec![
        Value::low("cpu", "µs", cpu.as_secs_f64() * 1e6 / report.complete as f64),
        Value::high("rate", "/s", report.requests_per_second),
        Value::low("p50", "ms", report.p50_ms),
        Value::low("p99", "ms", report.p99_ms),
        Value::low("failed", "", report.failed as f64),
    ];
    values.extend(server.faults()?);
    Ok(values)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cases_cover_every_target_and_visitors_differ() {
        let plan = Plan { quick: true, seed: 7, pairs: None, traces: None };
        let collection = Collection::of(&plan).unwrap();
        let groups: Vec<_> = cases(&collection, Scale::QUICK).iter().map(|case| case.group.clone()).collect();
        for target in Links.targets() {
            let (workload, _) = target.workload_and_measure();
            assert_eq!(groups.iter().filter(|group| *group == workload).count(), 2, "{workload}");
        }
        let paths: Vec<String> = (0..70).map(|n| format!("/{n}")).collect();
        let requests = requests(&paths);
        let kinds: std::collections::HashSet<_> =
            requests.iter().map(|request| (request.user_agent, request.referrer)).collect();
        assert_eq!((requests.len(), requests[69].path, kinds.len()), (70, "/69", 35));
    }
}

//! The suite `proxy`: `larder proxy` beside nginx, Varnish, the Apache HTTP server, Squid and Apache Traffic Server, each as a
//! reverse proxy with a cache in front of the same origin.
//!
//! ```text
//!  wrk, h2load or this process ──► larder proxy                             ─► origin: a thread with axum
//!                              ──► nginx, varnish, httpd, squid, traffic server ─►
//! ```
//!
//! | workload | meaning |
//! |---|---|
//! | `hit-1kib`, `hit-100kib`, `hit-10mib` | the same stored response each time, to 50 connections |
//! | `miss-1kib` | a new path each time, whose response is stored; connections to the origin stay open |
//! | `hit-1kib-stalls` | as `hit-1kib`, while 100 other clients wait for the origin |
//! | `hit-1kib-tls`, `hit-1kib-h2` | as `hit-1kib`, over TLS with HTTP/1.1 and with HTTP/2 |
//! | `idle` | the memory of a connection that has had a response and waits |
//! | `cache-tests` | how many tests of http-cache-tests pass, of which there are so many |
//!
//! Each run starts its proxy and its origin anew. `cpu` is the processor time of all processes of the proxy for a response. What
//! is not installed is named and left out. nginx, httpd and Traffic Server store in files of the temporary folder:
//! `TMPDIR=/dev/shm` gives them memory, as the others have.

mod cache_tests;
mod idle;
mod load;
mod origin;
mod peer;
mod running;

use super::documents::{Case, Outcome, run_cases};
use super::{Findings, Plan, Suite, Target};
use crate::measure::rounds::Value;
use crate::suite::server::larder;
use crate::tool::{Certificate, Protocol, program_name, version_of};
use anyhow::Result;
use indicatif::ProgressBar;
use larder_process::find_program;
use load::{CONNECTIONS, Load};
use peer::Peer;
use rustix::fs::statfs;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use std::path::Path;
use std::time::Duration;

/// How long a proxy and its origin take to start and to end.
const START: Duration = Duration::from_secs(2);
/// How long the tests of http-cache-tests take.
const CACHE_TESTS: Duration = Duration::from_secs(50);
/// The kind of a file system in memory, as `statfs` tells it.
const TMPFS: u64 = 0x0102_1994;

pub(crate) struct Proxy;

impl Suite for Proxy {
    fn name(&self) -> &'static str {
        "proxy"
    }

    fn description(&self) -> &'static str {
        "larder proxy beside nginx, Varnish, httpd, Squid and Traffic Server: processor time, memory, http-cache-tests"
    }

    fn crates(&self) -> &'static [&'static str] {
        &["larder-proxy", "larder-http", "hyper", "hyper-util", "rustls", "tokio"]
    }

    fn targets(&self) -> Vec<Target> {
        vec![
            Target::ratio("hit-1kib", "cpu", "nginx", 0.60),
            Target::ratio("hit-1kib", "cpu", "varnish", 0.50),
            Target::ratio("miss-1kib", "cpu", "nginx", 1.15),
            Target::ratio("hit-100kib", "cpu", "nginx", 1.5),
            Target::ratio("hit-10mib", "cpu", "nginx", 1.5),
            Target::ratio("hit-1kib-stalls", "p99", "varnish", 1.0),
            Target::value("idle", "memory", 20.0),
            Target::always("cache-tests", "required", 152.0),
            Target::always("cache-tests", "optimal", 70.0),
        ]
    }

    fn programs(&self) -> &'static [(&'static str, &'static str)] {
        &[
            ("wrk", "wrk"),
            ("h2load", "nghttp2-client"),
            ("openssl", "openssl"),
            ("node", "nodejs"),
            ("nginx", "nginx-light"),
            ("varnishd", "varnish"),
            ("apache2", "apache2"),
            ("squid", "squid"),
            ("traffic_server", "trafficserver"),
        ]
    }

    fn keeps_measurements(&self) -> bool {
        true
    }

    fn measure(&self, plan: &Plan, bar: &ProgressBar) -> Result<Findings> {
        measure(self.programs(), if plan.quick { Scale::QUICK } else { Scale::FULL }, bar)
    }
}

#[derive(Clone, Copy)]
struct Scale {
    load: Load,
    rounds: usize,
    idle_connections: usize,
}

impl Scale {
    const QUICK: Scale = Scale { load: Load::of_seconds(1, 2), rounds: 1, idle_connections: 2_000 };
    const FULL: Scale = Scale { load: Load::of_seconds(1, 5), rounds: 5, idle_connections: 10_000 };
}

fn measure(programs: &[(&str, &str)], scale: Scale, bar: &ProgressBar) -> Result<Findings> {
    let mut findings = Findings::default();
    for (program, package) in programs {
        match find_program(program) {
            Some(_) => findings
                .versions
                .extend(version_of(program).map(|version| (program_name(program).to_owned(), version))),
            None => findings
                .notes
                .push(format!("{program} (Debian package {package}) is not installed: --install brings it.")),
        }
    }
    let peers: Vec<Peer> = Peer::ALL.into_iter().filter(|peer| peer.is_installed()).collect();
    larder()?;
    findings.notes.push("Proxies, clients and the origin share the processor.".to_owned());
    findings.notes.push(
        "Squid runs one process, Varnish a thread for each request; others have two workers.".to_owned(),
    );
    if statfs(std::env::temp_dir())?.f_type as u64 != TMPFS {
        let note = "nginx, httpd and traffic server store on a disk; TMPDIR=/dev/shm gives them memory.";
        findings.notes.push(note.to_owned());
    }
    allow_files(3 * scale.idle_connections as u64);
    let seconds = scale.load.time.as_secs();
    findings.commands.push(format!("wrk -t 2 -c {CONNECTIONS} -d {seconds}s --latency -s list.lua URL"));
    findings.commands.push(format!("h2load -t 2 -c {CONNECTIONS} -D {seconds} [--h1] URL"));
    let certificate = Certificate::make();
    if let Err(error) = &certificate {
        findings.notes.push(format!("Nothing was measured over TLS: {error:#}."));
    }
    run_cases(cases(&peers, scale, certificate.as_ref().ok()), scale.rounds, bar, &mut findings);
    match cache_tests::package() {
        Some(package) => {
            findings.versions.insert("http-cache-tests".to_owned(), cache_tests::VERSION.to_owned());
            run_cases(score_cases(&peers, &package), 1, bar, &mut findings);
        }
        None => findings
            .notes
            .push("http-cache-tests is not installed: cargo xtask install brings it.".to_owned()),
    }
    Ok(findings)
}

/// The workloads with a load or with many connections.
fn cases<'a>(peers: &[Peer], scale: Scale, certificate: Option<&'a Certificate>) -> Vec<Case<'a>> {
    let load = scale.load;
    let mut cases = Vec::new();
    let mut add =
        |workload: &'static str, run: Box<dyn Fn(Peer) -> Result<Vec<Value>> + 'a>, peers: &[Peer]| {
            let run = std::rc::Rc::new(run);
            cases.extend(peers.iter().map(|peer| {
                let (run, peer) = (run.clone(), *peer);
                case(workload, peer, load.warm_up + load.time + START, move || run(peer))
            }));
        };
    for (workload, bytes) in [("hit-1kib", 1 << 10), ("hit-100kib", 100 << 10), ("hit-10mib", 10 << 20)] {
        add(workload, Box::new(move |peer| load.hits(peer, bytes)), peers);
    }
    add("miss-1kib", Box::new(move |peer| load.misses(peer)), peers);
    add("hit-1kib-stalls", Box::new(move |peer| load.hits_beside_stalls(peer)), peers);
    if let Some(certificate) = certificate {
        for (workload, protocol) in [("hit-1kib-tls", Protocol::Http1), ("hit-1kib-h2", Protocol::Http2)] {
            let run = move |peer| load.encrypted_hits(peer, protocol, certificate);
            let able: Vec<Peer> = peers.iter().copied().filter(|peer| peer.speaks(protocol)).collect();
            add(workload, Box::new(run), &able);
        }
    }
    add("idle", Box::new(move |peer| idle::connections(peer, scale.idle_connections)), peers);
    cases
}

fn score_cases<'a>(peers: &[Peer], package: &'a Path) -> Vec<Case<'a>> {
    peers
        .iter()
        .map(|peer| {
            let peer = *peer;
            case("cache-tests", peer, CACHE_TESTS, move || cache_tests::scores(peer, package))
        })
        .collect()
}

fn case<'a>(
    workload: &'static str,
    peer: Peer,
    estimate: Duration,
    run: impl Fn() -> Result<Vec<Value>> + 'a,
) -> Case<'a> {
    let outcome = move |values| vec![Outcome { workload: workload.to_owned(), values, remark: None }];
    Case {
        group: workload.to_owned(),
        subject: peer.subject(),
        estimate,
        run: Box::new(move || run().map(outcome)),
    }
}

/// Lets this process and its children have so many files open, as far as the system allows it.
fn allow_files(files: u64) {
    let limit = getrlimit(Resource::Nofile);
    let current = match limit.maximum {
        Some(maximum) => files.min(maximum),
        None => files,
    };
    if limit.current.is_some_and(|allowed| allowed < current) {
        // Workloads that need more fail with a reason.
        _ = setrlimit(Resource::Nofile, Rlimit { current: Some(current), maximum: limit.maximum });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::result::tests::file;

    /// The workloads that need the most of a configuration, with a short load, of every proxy that is installed. That of this
    /// project is not here: tests build no binary of another crate.
    #[test]
    fn peers_store_keep_connections_and_speak_tls() {
        let load = Load::of_seconds(1, 1);
        let scale = Scale { load, rounds: 1, idle_connections: 300 };
        let peers: Vec<Peer> = Peer::ALL
            .into_iter()
            .filter(|peer| peer.program().is_some_and(|name| larder_testkit::program(name).is_some()))
            .collect();
        let tools = ["wrk", "h2load", "openssl"];
        if peers.is_empty() || tools.into_iter().any(|tool| larder_testkit::program(tool).is_none()) {
            return;
        }
        let certificate = Certificate::make().unwrap();
        let mut findings = Findings::default();
        let mut cases = cases(&peers, scale, Some(&certificate));
        cases.retain(|case| {
            !["hit-1kib", "hit-100kib", "hit-10mib", "hit-1kib-stalls"].contains(&&*case.group)
        });
        let expected: Vec<_> = cases.iter().map(|case| (case.group.clone(), case.subject)).collect();
        run_cases(cases, scale.rounds, &ProgressBar::hidden(), &mut findings);
        assert_eq!(findings.remarks, []);
        let file = file(findings.figures);
        for (workload, subject) in expected {
            let measure = if workload == "idle" { "memory" } else { "cpu" };
            let figure = file.find(&workload, measure, subject);
            let value = figure.unwrap_or_else(|| panic!("no {workload} of {subject}")).spread().median;
            assert!(value > 0.0, "{workload} of {subject}: {value}");
        }
        for peer in peers {
            let connections =
                file.find("miss-1kib", "new connections to the origin", peer.subject()).unwrap();
            assert!(connections.spread().median < 20.0, "{}: {connections:?}", peer.subject());
        }
    }

    #[test]
    fn proxy_that_does_not_start_says_why() {
        if larder_testkit::program("nginx").is_none() {
            return;
        }
        let certificate = Certificate::make().unwrap();
        std::fs::remove_file(&certificate.chain).unwrap();
        let origin = origin::Origin::start().unwrap();
        let started = running::Proxy::start(Peer::Nginx, origin.address(), Some(&certificate));
        let error = started.err().expect("it has no certificate").to_string();
        assert!(error.starts_with("nginx does not start: ") && error.contains("chain.pem"), "{error}");
    }
}

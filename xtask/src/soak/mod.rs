//! `cargo xtask soak --hours N`: everything at once, under load and faults, for hours. It watches memory, descriptors, latency
//! and coherence, and goes on from its own data when it is called again.
//!
//! ```text
//!                       ┌─ up-1 ─┬─ redis ◄────── faults.rs: stopped, killed, restarted; a seed decides when
//!  load/ ── links ──────┴─ up-2 ─┘
//!   │  └─── pages ──────┬─ proxy-1 ─┬─ server
//!   │                   └─ proxy-2 ─┴─ origin
//!   └────── keys ──────── server
//!  rounds.rs: the chaos tests and the checker, again and again
//!
//!  judge.rs: is this answer old?   every ten seconds: a sample ─► target/soak/samples.jsonl ─► report.html
//! ```
//!
//! The soak fails if an answer is stale, a round of the tests fails, a process ends by itself, does not end well or has panicked,
//! or memory or descriptors of a process of Larder grow beyond their limits.

mod faults;
mod fleet;
mod histogram;
mod judge;
mod load;
mod options;
mod origin;
mod random;
mod report;
mod rounds;
mod shared;
mod stop;
mod tally;
mod windows;
mod wire;

pub(crate) use origin::serve as serve_origin;

use crate::workspace::{root, target};
use anyhow::{Context, Result, ensure};
use fleet::{Fleet, Services};
use load::{KEY_THREADS, Keys, Links, Pages, WRITERS};
use options::Options;
use random::Random;
use report::{Sample, Samples};
use rounds::Rounds;
use shared::Shared;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime};

/// The time between two samples.
const SAMPLE: Duration = Duration::from_secs(10);
/// The terminal shows every sixth of them: one a minute.
const SAMPLES_PER_LINE: u64 = 6;

/// A lock whose holder panicked is good enough: the panic ends the soak.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Runs a soak, and reports it.
pub(crate) fn soak(words: &[&str]) -> Result<()> {
    let options = Options::parse(words)?;
    let rounds = if options.has_rounds { Some(Rounds::build()?) } else { None };
    let found =
        |program: &Path| program.canonicalize().with_context(|| format!("there is no {}", program.display()));
    let former = options.former.as_deref().map(found).transpose()?;
    let larder = match &options.program {
        Some(program) => found(program)?,
        None => found(&build()?)?,
    };
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    let seed = options.seed.unwrap_or(now.as_secs());

    let folder = root().join(target()).join("soak");
    let work = folder.join("run");
    std::fs::create_dir_all(&folder)?;
    let lock = File::create(folder.join("lock"))?;
    ensure!(lock.try_lock().is_ok(), "another soak uses {}", folder.display());
    let mut samples = Samples::open(&folder.join("samples.jsonl"))?;
    if work.exists() {
        std::fs::remove_dir_all(&work).context("cannot remove the data of the last run")?;
    }
    std::fs::create_dir(&work)?;
    let run = samples.next_run();
    println!("run {run} of {}, with the seed {seed}; logs are in {}", larder.display(), work.display());
    if let Some(former) = &former {
        println!("up-2 and proxy-2 are {} at first, and change with each start", former.display());
    }

    stop::listen();
    let shared = Shared::default();
    let services = Services::prepare(&larder, former.as_deref(), &work)?;
    let soak = Soak { shared: &shared, run, seed, time: options.time, rounds: rounds.as_ref(), work: &work };
    let begun = soak.run(services, &mut samples);
    // Also after a failed start: what has run may be reported.
    let growth = report::growth(&samples);
    growth.iter().filter(|growth| growth.is_of_larder()).flat_map(|growth| growth.faults()).for_each(
        |fault| {
            shared.fail(fault);
        },
    );
    report::print(&samples, &growth, run);
    let page = folder.join("report.html");
    let failures = shared.failures();
    report::write(&page, &samples, &growth, run, &failures)?;
    println!("{}", page.display());
    begun?;
    ensure!(failures.is_empty(), "{} failures:\n  {}", failures.len(), failures.join("\n  "));
    Ok(())
}

/// Builds the release program.
fn build() -> Result<PathBuf> {
    let built = crate::stages::command(&["build", "--release", "--locked", "-p", "larder-cli"]).status()?;
    ensure!(built.success(), "the program cannot be built");
    Ok(target().join("release/larder"))
}

/// One run.
struct Soak<'a> {
    shared: &'a Shared,
    run: u64,
    seed: u64,
    time: Duration,
    rounds: Option<&'a Rounds>,
    work: &'a Path,
}

impl Soak<'_> {
    /// Starts everything, and ends it when the time is over or a signal requests it.
    fn run(&self, services: Services, samples: &mut Samples) -> Result<()> {
        let Services { addresses, members, proxies, pages } = services;
        let fleet = Fleet::start(members)?;
        let admins =
            [addresses.ups[0][1], addresses.ups[1][1], addresses.proxies[0][1], addresses.proxies[1][1]];
        let links = Links::create(addresses.ups.map(|[http, ..]| http))?;
        let pages = Pages::new(proxies, pages);
        let keys = Keys::fill(addresses.server)?;
        let random = |stream| Random::new(self.seed, stream);
        let (shared, start) = (self.shared, Instant::now());
        let end = start + self.time;
        let first_round: u64 = samples.all.iter().map(|sample| sample.rounds.0 + sample.rounds.1).sum();
        let sampled = std::thread::scope(|scope| {
            for instance in 0..2 {
                let (links, pages) = (&links, &pages);
                scope.spawn(move || links.follow(shared, instance, random(1 + instance as u64)));
                scope.spawn(move || pages.read(shared, instance, random(11 + instance as u64)));
            }
            for writer in 0..WRITERS {
                let links = &links;
                scope.spawn(move || links.change(shared, writer, random(21 + writer as u64)));
            }
            for thread in 0..KEY_THREADS {
                scope.spawn(move || keys.use_them(shared, random(31 + thread as u64)));
            }
            scope.spawn(|| links.renew(shared, random(41)));
            scope.spawn(|| self.reported("the changes of pages", pages.change(shared, random(42))));
            scope.spawn(|| load::scrape(shared, &admins));
            scope.spawn(|| faults::make(shared, &fleet, self.seed, start, end));
            if let Some(rounds) = self.rounds {
                scope.spawn(move || {
                    let run = rounds.run(shared, first_round, self.work, end);
                    self.reported("the rounds of the tests", run);
                });
            }
            let sampled = self.sample(&fleet, samples, start, end);
            shared.end();
            sampled
        });
        fleet.end(shared);
        sampled
    }

    /// Reports a thread that had to give up.
    fn reported(&self, what: &str, result: Result<()>) {
        if let Err(error) = result {
            self.shared.fail(format!("{what}: {error:#}"));
        }
    }

    /// Takes a sample every ten seconds, and prints a line each minute.
    fn sample(&self, fleet: &Fleet, samples: &mut Samples, start: Instant, end: Instant) -> Result<()> {
        let mut since = start;
        for number in 1.. {
            let due = start + SAMPLE * number;
            let is_over = due > end || !self.shared.wait_until(due);
            let now = Instant::now();
            if is_over && now.duration_since(since) < SAMPLE / 2 {
                return Ok(());
            }
            fleet.watch(self.shared);
            let (requests, answers) = self.shared.tally.take();
            let sample = Sample {
                run: self.run,
                seconds: (now - start).as_secs_f64().round(),
                is_fault: self.shared.windows.touch(since, now),
                processes: fleet
                    .figures()
                    .into_iter()
                    .map(|(name, figures)| (name.to_owned(), figures))
                    .collect(),
                kinds: requests
                    .iter()
                    .map(|(kind, figures)| (kind.name().to_owned(), figures.into()))
                    .collect(),
                answers,
                rounds: std::mem::take(&mut *lock(&self.shared.rounds)),
            };
            samples.add(sample)?;
            since = now;
            if u64::from(number).is_multiple_of(SAMPLES_PER_LINE) {
                self.print_line(samples, now - start);
            }
            if is_over {
                return Ok(());
            }
        }
        Ok(())
    }

    fn print_line(&self, samples: &Samples, elapsed: Duration) {
        let own: Vec<&Sample> = samples.all.iter().filter(|sample| sample.run == self.run).collect();
        let sum = |value: fn(&Sample) -> u64| own.iter().map(|sample| value(sample)).sum::<u64>();
        println!(
            "{:>5.1} of {:.1} min: {} requests, {} errors, {} in faults; {} answers judged, {} stale; {} rounds passed",
            elapsed.as_secs_f64() / 60.0,
            self.time.as_secs_f64() / 60.0,
            sum(|sample| sample.kinds.iter().map(|(_, kind)| kind.count).sum()),
            sum(|sample| sample.kinds.iter().map(|(_, kind)| kind.errors).sum()),
            sum(|sample| sample.kinds.iter().map(|(_, kind)| kind.fault_errors).sum()),
            sum(|sample| sample.answers.judged),
            sum(|sample| sample.answers.stale),
            sum(|sample| sample.rounds.0),
        );
    }
}

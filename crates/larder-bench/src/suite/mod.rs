//! The suites: each turns a plan into figures. What is the same for all of them, such as the table and the result file, is in
//! `runner.rs`.

mod args;
pub(crate) mod documents;
mod engine;
mod hit_ratio;
mod http;
mod languages;
mod links;
mod proxy;
pub(crate) mod quick;
mod scale;
mod server;
mod target;
mod tiers;

pub use args::RunArgs;
pub use server::BareLoopArgs;
pub(crate) use server::run_bare_loop;
pub(crate) use target::Target;

use crate::result::{Figure, Remark};
use anyhow::Result;
use indicatif::ProgressBar;
use std::collections::BTreeMap;
use std::path::PathBuf;

/// The options of a suite, from the flags.
#[derive(Debug)]
pub(crate) struct Plan {
    /// Whether to run shorter workloads, for a first impression.
    pub(crate) quick: bool,
    pub(crate) seed: u64,
    /// A CSV file of addresses to use instead of generated ones.
    pub(crate) pairs: Option<PathBuf>,
    /// A folder of published traces.
    pub(crate) traces: Option<PathBuf>,
}

/// The length of the short measurement of one part.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Length {
    /// The rounds of each workload that count.
    pub(crate) rounds: usize,
    /// The sizes are divided by this.
    pub(crate) divisor: usize,
}

impl Length {
    /// Some ten seconds for each part.
    pub(crate) const USUAL: Length = Length { rounds: 5, divisor: 1 };

    /// A size of this length.
    pub(crate) fn of(self, size: usize) -> usize {
        size / self.divisor
    }
}

/// The results of a suite.
#[derive(Default)]
pub(crate) struct Findings {
    pub(crate) figures: Vec<Figure>,
    /// What a number alone would not tell, for single figures.
    pub(crate) remarks: Vec<Remark>,
    /// The commands that measured.
    pub(crate) commands: Vec<String>,
    /// The versions of the programs that were measured, beside those of the crates.
    pub(crate) versions: BTreeMap<String, String>,
    /// Facts that a reader needs to judge the figures.
    pub(crate) notes: Vec<String>,
}

/// A set of workloads that runs under one name.
pub(crate) trait Suite: Sync {
    fn name(&self) -> &'static str;
    /// What it measures, in one line.
    fn description(&self) -> &'static str;
    /// The crates whose versions are recorded in its results.
    fn crates(&self) -> &'static [&'static str];
    fn targets(&self) -> Vec<Target>;
    /// The name of the suites that it belongs to. These run only if they or their group are named.
    fn group(&self) -> Option<&'static str> {
        None
    }
    /// The programs that it runs, and their Debian packages. What is missing is left out of the results.
    fn programs(&self) -> &'static [(&'static str, &'static str)] {
        &[]
    }
    /// Whether the first signal ends it after its current measurement, and what was measured is kept.
    fn keeps_measurements(&self) -> bool {
        false
    }
    fn measure(&self, plan: &Plan, bar: &ProgressBar) -> Result<Findings>;
}

/// All suites, in the order in which they are run.
pub(crate) const SUITES: &[&dyn Suite] = &[
    &engine::Engine,
    &hit_ratio::HitRatio,
    &tiers::Tiers,
    &tiers::Stale,
    &scale::Scale,
    &http::Http,
    &server::Server,
    &server::Stalls,
    &links::Links,
    &proxy::Proxy,
    &languages::Languages,
    &documents::DOCUMENT_0,
    &documents::DOCUMENT_1,
    &documents::DOCUMENT_2,
    &documents::DOCUMENT_3,
    &documents::DOCUMENT_4,
];

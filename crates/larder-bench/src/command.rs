//! The commands, as clap knows them, and the way from each to what it does.

use crate::compare::{self, CompareArgs};
use crate::hit_ratio::{self, HitRatioArgs};
use crate::report::{self, ReportArgs};
use crate::suite::{self, RunArgs};
use anyhow::Result;
use clap::Subcommand;

/// What `larder bench` can do.
#[derive(Debug, Subcommand)]
pub enum BenchCommand {
    /// Say what can be measured.
    List,
    /// Measure, print the results and write them to files.
    Run(RunArgs),
    /// Print the ratios of the figures of two runs.
    Compare(CompareArgs),
    /// Make a page of the results in a folder.
    Report(ReportArgs),
    /// Replay a trace of requests through caches and compare their hit ratios.
    HitRatio(HitRatioArgs),
}

/// A combination of flags that means nothing. A command line tool exits with 2 on it.
#[derive(Debug)]
pub struct UsageError(pub(crate) String);

impl std::fmt::Display for UsageError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for UsageError {}

/// Does what the command says; results go to the standard output, progress to the standard error.
///
/// # Errors
/// A [`UsageError`] if the flags contradict each other; else what could not be read, written or measured, or which
/// promise of a cache was broken on the way.
pub fn run(command: BenchCommand) -> Result<()> {
    match command {
        BenchCommand::List => suite::list(),
        BenchCommand::Run(args) => suite::run(&args),
        BenchCommand::Compare(args) => compare::run(&args),
        BenchCommand::Report(args) => report::run(&args),
        BenchCommand::HitRatio(args) => hit_ratio::run(&args),
    }
}

//! The commands of `larder-bench`, and the dispatch to their implementations.

use crate::compare::{self, CompareArgs};
use crate::hit_ratio::{self, HitRatioArgs};
use crate::quick::{self, QuickArgs};
use crate::report::{self, ReportArgs};
use crate::runner;
use crate::serve::{self, ServeArgs};
use crate::suite::{self, BareLoopArgs, RunArgs};
use anyhow::Result;
use clap::Subcommand;

/// The commands of `larder-bench`.
#[derive(Debug, Subcommand)]
pub enum BenchCommand {
    /// List the suites.
    List,
    /// Run suites, print the results and write them to files.
    Run(RunArgs),
    /// Measure one part in some ten seconds and print how it compares with its peers.
    Quick(QuickArgs),
    /// Compare the figures of two runs.
    Compare(CompareArgs),
    /// Write an HTML report of the results in a folder.
    Report(ReportArgs),
    /// Replay a trace or generated requests through several caches and compare their hit ratios.
    HitRatio(HitRatioArgs),
    /// Serve one of the servers that the suites measure, until the standard input ends.
    #[command(hide = true)]
    Serve(ServeArgs),
    /// A peer of the suite server.
    #[command(hide = true)]
    BareLoop(BareLoopArgs),
}

/// Executes a command. Results go to the standard output, progress to the standard error.
///
/// # Errors
/// A [`UsageError`](crate::UsageError) if the flags contradict each other. Otherwise: what could not be read, written or measured, or
/// which guarantee a cache violated.
pub fn run(command: BenchCommand) -> Result<()> {
    match command {
        BenchCommand::List => runner::list(),
        BenchCommand::Run(args) => runner::run(&args),
        BenchCommand::Quick(args) => quick::run(&args),
        BenchCommand::Compare(args) => compare::run(&args),
        BenchCommand::Report(args) => report::run(&args),
        BenchCommand::HitRatio(args) => hit_ratio::run(&args),
        BenchCommand::Serve(args) => serve::run(&args),
        BenchCommand::BareLoop(args) => suite::run_bare_loop(&args),
    }
}

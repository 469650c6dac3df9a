//! The commands, as clap knows them, and the way from each to what it does.

use crate::hit_ratio::{self, HitRatioArgs};
use anyhow::Result;
use clap::Subcommand;

/// What `larder bench` can do.
#[derive(Debug, Subcommand)]
pub enum BenchCommand {
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
        BenchCommand::HitRatio(args) => hit_ratio::run(&args),
    }
}

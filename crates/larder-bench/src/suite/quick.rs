//! The short measurements of single crates, which the command `quick` runs: workloads of the suites, with few rounds.

use super::{Length, engine, http, server, tiers};
use crate::result::Figure;
use anyhow::Result;
use clap::ValueEnum;
use indicatif::ProgressBar;

/// What was changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Part {
    /// Crate larder-engine, beside quick_cache and moka.
    Engine,
    /// Crate larder without Redis, beside quick_cache and moka.
    Larder,
    /// Crate larder-http, beside the same handlers without a cache, and handlers that return bytes.
    Http,
    /// Crate larder-server, beside Redis and a loop that answers constants. Needs redis-benchmark.
    Server,
}

/// Measures a part beside its peers. `notes` gets what a reader of the figures has to know.
pub(crate) fn measure(
    part: Part,
    length: Length,
    bar: &ProgressBar,
    notes: &mut Vec<String>,
) -> Result<Vec<Figure>> {
    match part {
        Part::Engine => engine::quick::measure(length, bar),
        Part::Larder => tiers::quick::measure(length, bar),
        Part::Http => http::quick::measure(length, bar),
        Part::Server => server::quick::measure(length, bar, notes),
    }
}

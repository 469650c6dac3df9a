//! The flags of `hit-ratio`, and the caches that they select.

use super::cache::Setup;
use super::ours::{exact_lru, larder};
use super::peers;
use super::replay::Replay;
use super::source::Source;
use crate::trace::{Format, Request};
use crate::usage_error::UsageError;
use crate::workload::{SYNTHETIC_HELP, Synthetic};
use anyhow::Result;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::{ArgGroup, Args};
use larder_engine::Policy;
use larder_terminal::whole_number;
use std::path::PathBuf;

const MAX_CAPACITY: u64 = 1 << 62;

/// Flags of `hit-ratio`. Without `--policy` and `--all`: the default policy and the peers that are always built.
#[derive(Debug, Args)]
#[command(group = ArgGroup::new("requests").args(["trace", "synthetic"]).required(true))]
pub struct HitRatioArgs {
    /// The trace file, plain or compressed by gzip, zstd or xz. `-` reads the standard input.
    #[arg(long, value_name = "FILE", requires = "format")]
    pub(crate) trace: Option<PathBuf>,
    /// The format of the trace.
    #[arg(long)]
    pub(crate) format: Option<Format>,
    /// Requests generated from a seed instead of a trace, such as zipf:keys=50000,skew=0.8.
    #[arg(long, value_name = "SPEC", conflicts_with_all = ["trace", "format", "bytes"], long_help = SYNTHETIC_HELP)]
    pub(crate) synthetic: Option<Synthetic>,
    /// The capacity of each cache in entries, or in bytes with --bytes.
    #[arg(long, value_name = "N", value_parser = whole_number(1..=MAX_CAPACITY))]
    pub(crate) capacity: u64,
    /// Only Larder, with this policy.
    #[arg(long, value_name = "NAME", conflicts_with = "all", value_parser = policy_parser())]
    pub(crate) policy: Option<Policy>,
    /// All policies of Larder, all peers that are built in, and a plain LRU as the reference.
    #[arg(long)]
    pub(crate) all: bool,
    /// Weigh entries by their size in bytes. Requires the format oracle, the only one with sizes.
    #[arg(long)]
    pub(crate) bytes: bool,
    /// Print one JSON object per line instead of a table.
    #[arg(long)]
    pub(crate) json: bool,
    /// The number of shards of Larder [default: chosen by the cache].
    #[arg(long, value_name = "N", value_parser = whole_number(1..=65_536_u32))]
    pub(crate) shards: Option<u32>,
}

fn policy_parser() -> impl TypedValueParser<Value = Policy> {
    PossibleValuesParser::new(Policy::ALL.map(Policy::name)).map(|name| {
        Policy::ALL.into_iter().find(|policy| policy.name() == name).expect("the parser allows no other name")
    })
}

impl HitRatioArgs {
    /// Flags that select all caches and weigh each entry as 1.
    pub(crate) fn all(source: Source, capacity: u64) -> Self {
        let (trace, format, synthetic) = match source {
            Source::Trace { path, format } => (Some(path), Some(format), None),
            Source::Synthetic(workload) => (None, None, Some(workload)),
        };
        HitRatioArgs {
            trace,
            format,
            synthetic,
            capacity,
            policy: None,
            all: true,
            bytes: false,
            json: false,
            shards: None,
        }
    }

    /// Where the requests come from.
    pub(super) fn source(&self) -> Source {
        if let Some(workload) = &self.synthetic {
            return Source::Synthetic(workload.clone());
        }
        let (path, format) = self.trace.clone().zip(self.format).expect("the parser demands both");
        Source::Trace { path, format }
    }

    pub(super) fn check(&self) -> Result<()> {
        if self.bytes && !self.source().has_sizes() {
            return Err(
                UsageError("--bytes requires sizes, which only --format oracle has".to_owned()).into()
            );
        }
        Ok(())
    }

    /// The request, with a size of 1 unless entries are weighed by bytes.
    pub(super) fn weighed(&self, request: Request) -> Request {
        if self.bytes { request } else { Request { bytes: 1, ..request } }
    }

    /// A replay for each cache to compare.
    pub(super) fn replays(&self, setup: &Setup) -> Result<Vec<Replay>> {
        let ours = |policy: Policy| larder(setup, policy, self.shards);
        if let Some(policy) = self.policy {
            return Ok(vec![ours(policy)?]);
        }
        if !self.all {
            let mut replays = vec![ours(Policy::default())?];
            replays.extend(peers::always(setup));
            return Ok(replays);
        }
        let mut replays = Policy::ALL.into_iter().map(ours).collect::<Result<Vec<_>>>()?;
        replays.extend(peers::all(setup));
        replays.push(exact_lru(setup));
        Ok(replays)
    }
}

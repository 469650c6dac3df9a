//! The flags of `hit-ratio`, and which caches they ask for.

use super::contender::Setup;
use super::ours::{exact_lru, larder};
use super::peers;
use super::replay::Replay;
use crate::command::UsageError;
use crate::trace::{Format, Request};
use anyhow::Result;
use clap::Args;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use larder_engine::Policy;
use std::path::PathBuf;

const MAX_CAPACITY: u64 = 1 << 62;

/// Flags of `hit-ratio`. Without `--policy` and `--all`: the default policy and the peers that are always built.
#[derive(Debug, Args)]
pub struct HitRatioArgs {
    /// The recorded requests; may be compressed by gzip, zstd or xz. `-` reads the standard input.
    #[arg(long, value_name = "FILE")]
    pub(crate) trace: PathBuf,
    /// How the trace is laid out.
    #[arg(long)]
    pub(crate) format: Format,
    /// How many entries a cache may hold, or how many bytes with --bytes.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=MAX_CAPACITY))]
    pub(crate) capacity: u64,
    /// Only this policy of ours.
    #[arg(long, value_name = "NAME", conflicts_with = "all", value_parser = policy_parser())]
    pub(crate) policy: Option<Policy>,
    /// All policies, all peers that are built in, and a plain LRU for reference.
    #[arg(long)]
    pub(crate) all: bool,
    /// An entry weighs its size in bytes instead of 1. Needs a format that knows sizes: oracle.
    #[arg(long)]
    pub(crate) bytes: bool,
    /// One JSON object a line.
    #[arg(long)]
    pub(crate) json: bool,
    /// How many shards our policies get [default: what the cache takes by itself].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=65_536))]
    pub(crate) shards: Option<u32>,
}

fn policy_parser() -> impl TypedValueParser<Value = Policy> {
    PossibleValuesParser::new(Policy::ALL.map(Policy::name)).map(|name| {
        Policy::ALL.into_iter().find(|policy| policy.name() == name).expect("the parser allows no other name")
    })
}

impl HitRatioArgs {
    /// All caches, entries weighing 1.
    pub(crate) fn all(trace: PathBuf, format: Format, capacity: u64) -> Self {
        HitRatioArgs {
            trace,
            format,
            capacity,
            policy: None,
            all: true,
            bytes: false,
            json: false,
            shards: None,
        }
    }

    pub(super) fn check(&self) -> Result<()> {
        if self.bytes && !self.format.has_sizes() {
            return Err(UsageError("--bytes needs sizes, which only --format oracle has".to_owned()).into());
        }
        Ok(())
    }

    /// The request with the weight that it is to have.
    pub(super) fn weighed(&self, request: Request) -> Request {
        if self.bytes { request } else { Request { bytes: 1, ..request } }
    }

    /// The caches to compare.
    pub(super) fn contenders(&self, setup: &Setup) -> Result<Vec<Replay>> {
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

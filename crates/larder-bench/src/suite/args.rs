//! The flags of `run`.

use super::{Plan, SUITES, Suite};
use clap::Args;
use clap::builder::PossibleValuesParser;
use std::path::PathBuf;
use std::time::{SystemTime, UNIX_EPOCH};

/// Flags of `run`.
#[derive(Debug, Args)]
pub struct RunArgs {
    /// What to measure [default: everything].
    #[arg(value_name = "SUITE", value_parser = PossibleValuesParser::new(SUITES.iter().map(|suite| suite.name())))]
    pub(crate) suites: Vec<String>,
    /// Shorter workloads: a first look in less than a minute.
    #[arg(long)]
    pub(crate) quick: bool,
    /// Where the result files go [default: ./larder-bench/ and the time].
    #[arg(long, value_name = "DIR")]
    pub(crate) out: Option<PathBuf>,
    /// What requests are made from: the same seed, the same requests.
    #[arg(long, value_name = "N", default_value_t = 42)]
    pub(crate) seed: u64,
    /// Addresses for the workload `pairs`: a CSV file with the column url [default: made ones].
    #[arg(long, value_name = "FILE.csv")]
    pub(crate) pairs: Option<PathBuf>,
    /// The folder of traces for the suite hit-ratio.
    #[arg(long, env = "LARDER_TRACES", value_name = "DIR")]
    pub(crate) traces: Option<PathBuf>,
}

impl RunArgs {
    pub(super) fn suites(&self) -> Vec<&'static dyn Suite> {
        let asked = |suite: &&dyn Suite| {
            self.suites.is_empty() || self.suites.iter().any(|name| name == suite.name())
        };
        SUITES.iter().copied().filter(asked).collect()
    }

    pub(super) fn plan(&self) -> Plan {
        Plan { quick: self.quick, seed: self.seed, pairs: self.pairs.clone(), traces: self.traces.clone() }
    }

    /// Each run gets a folder of its own: raw results are kept.
    pub(super) fn folder(&self) -> PathBuf {
        let seconds = || SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_secs());
        self.out.clone().unwrap_or_else(|| PathBuf::from("larder-bench").join(seconds().to_string()))
    }
}

//! The flags of `run`.

use super::{Plan, SUITES, Suite};
use clap::Args;
use clap::builder::PossibleValuesParser;
use larder_terminal::whole_number;
use std::path::PathBuf;
use std::time::{SystemTime, UNIX_EPOCH};

/// Not the name of the program, which may be in the current folder.
const DEFAULT_FOLDER: &str = "bench-results";

/// Flags of `run`.
#[derive(Debug, Args)]
pub struct RunArgs {
    /// The suites to run; `documents` is all of `document-0` to `document-4` [default: all but these].
    #[arg(value_name = "SUITE", value_parser = PossibleValuesParser::new(names()))]
    pub(crate) suites: Vec<String>,
    /// First install the programs that the suites run, from Debian, without starting services.
    #[arg(long)]
    pub(crate) install: bool,
    /// Run shorter workloads, for a first impression: a minute or two for each suite, more with peers.
    #[arg(long)]
    pub(crate) quick: bool,
    /// The folder for the result files [default: ./bench-results/ followed by the time].
    #[arg(long, value_name = "DIR")]
    pub(crate) out: Option<PathBuf>,
    /// The seed of the generated requests: equal seeds produce equal requests.
    #[arg(long, value_name = "N", default_value_t = 42, value_parser = whole_number(0..=u64::MAX))]
    pub(crate) seed: u64,
    /// Addresses for the workload `pairs`: a CSV file with the column url [default: generated addresses].
    #[arg(long, value_name = "FILE.csv")]
    pub(crate) pairs: Option<PathBuf>,
    /// The folder of the traces for the suite hit-ratio.
    #[arg(long, env = "LARDER_TRACES", value_name = "DIR")]
    pub(crate) traces: Option<PathBuf>,
}

/// The names of the suites and of their groups.
fn names() -> Vec<&'static str> {
    let mut names: Vec<&str> = SUITES.iter().map(|suite| suite.name()).collect();
    names.extend(SUITES.iter().filter_map(|suite| suite.group()));
    names.dedup();
    names
}

impl RunArgs {
    pub(crate) fn suites(&self) -> Vec<&'static dyn Suite> {
        let is_selected = |suite: &&dyn Suite| match &self.suites[..] {
            [] => suite.group().is_none(),
            names => names.iter().any(|name| name == suite.name() || suite.group() == Some(name)),
        };
        SUITES.iter().copied().filter(is_selected).collect()
    }

    pub(crate) fn plan(&self) -> Plan {
        Plan { quick: self.quick, seed: self.seed, pairs: self.pairs.clone(), traces: self.traces.clone() }
    }

    /// By default each run has its own folder, so that no run overwrites the results of another.
    pub(crate) fn folder(&self) -> PathBuf {
        let seconds = || SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_secs());
        self.out.clone().unwrap_or_else(|| PathBuf::from(DEFAULT_FOLDER).join(seconds().to_string()))
    }
}

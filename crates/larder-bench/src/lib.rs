//! Measures Larder and its peers in the same run: hit ratios over recorded traces, speed, latency and memory.
//!
//! ```text
//! hit-ratio   a trace ──► every cache, request by request ──► table or JSON lines
//! run         suite: workloads ──► rounds, subjects alternate ──► result file ──► table
//! quick       workloads of one crate ──► few rounds, subjects alternate ──► table of ratios
//! compare     two result files ──► ratios
//! report      result files ──► one page of HTML
//! ```
//!
//! Measuring and reporting are separate: a result file has every round, and the machine, the versions and the seed.
//! Compare figures of one run by their ratio; absolute times depend more on the machine than on the cache.
//!
//! The suites that measure the programs of Larder start the binary `larder` that lies beside the binary `larder-bench`.

mod command;
mod compare;
mod hit_ratio;
mod lru;
mod measure;
mod quick;
mod report;
mod result;
mod runner;
mod serve;
mod source;
mod subject;
mod suite;
mod tool;
mod trace;
mod usage_error;
mod workload;

pub use command::{BenchCommand, run};
pub use compare::CompareArgs;
pub use hit_ratio::HitRatioArgs;
pub use measure::alloc::CountingAllocator;
pub use quick::QuickArgs;
pub use report::ReportArgs;
pub use serve::ServeArgs;
pub use suite::{BareLoopArgs, RunArgs};
pub use trace::Format;
pub use usage_error::UsageError;

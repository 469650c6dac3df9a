//! Measures Larder and its peers in the same run: hit ratios over recorded traces, speed, latency and memory.
//!
//! ```text
//! hit-ratio   a trace ──► every cache, request by request ──► table or JSON lines
//! run         suite: workloads ──► rounds, subjects interleaved ──► result file ──► table
//! compare     two result files ──► ratios
//! report      result files ──► one page of HTML
//! ```
//!
//! Measuring and reporting are separate: a result file keeps every round, with the machine, the versions and the seed
//! that it came from. Figures are ratios of medians in one run; absolute times tell more of the machine than of a cache.
//!
//! The commands are mounted in the binary `larder`; the binary `larder-bench` of this crate offers the same ones.

mod alloc;
mod clock;
mod command;
mod compare;
mod hit_ratio;
mod lru;
mod machine;
mod report;
mod result;
mod rounds;
mod subject;
mod suite;
mod table;
mod trace;
mod workload;

pub use alloc::Counting;
pub use command::{BenchCommand, UsageError, run};
pub use compare::CompareArgs;
pub use hit_ratio::HitRatioArgs;
pub use report::ReportArgs;
pub use suite::RunArgs;
pub use trace::Format;

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

mod command;
mod hit_ratio;
mod table;
mod trace;

pub use command::{BenchCommand, UsageError, run};
pub use hit_ratio::HitRatioArgs;
pub use trace::Format;

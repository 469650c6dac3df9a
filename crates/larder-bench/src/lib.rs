//! Measures Larder and its peers in the same run: hit ratios over recorded traces, speed, latency and memory.
//!
//! ```text
//! hit-ratio   a trace ──► every cache, request by request ──► table or JSON lines
//! run         suite: workloads ──► rounds, subjects alternate ──► result file ──► table
//! compare     two result files ──► ratios
//! report      result files ──► one page of HTML
//! ```
//!
//! Measuring and reporting are separate: a result file has every round, and the machine, the versions and the seed.
//! Compare figures of one run by their ratio; absolute times depend more on the machine than on the cache.
//!
//! The binary `larder` has these commands as `larder bench`; the binary `larder-bench` of this crate has only them.

mod alloc;
mod clock;
mod command;
mod compare;
mod hit_ratio;
mod lru;
mod machine;
mod number;
mod report;
mod result;
mod rounds;
mod serve;
mod source;
mod subject;
mod suite;
mod table;
mod tool;
mod trace;
mod workload;

pub use alloc::CountingAllocator;
pub use command::{BenchCommand, UsageError, run};
pub use compare::CompareArgs;
pub use hit_ratio::HitRatioArgs;
pub use number::{expected, whole_number};
pub use report::ReportArgs;
pub use serve::ServeArgs;
pub use suite::{BareLoopArgs, RunArgs};
pub use table::{PRINT_FAILURE, Table, exit, print, remark};
pub use trace::Format;

//! Programs that take part in a measurement: clients that produce load, and what a process under test has used.

mod ab;
mod address;
mod certificate;
mod cluster;
mod h2load;
mod language;
mod memcached;
mod redis_benchmark;
mod run;
mod sentinels;
mod siege;
mod syscalls;
mod usage;
mod version;
mod wrk;

pub(crate) use ab::Ab;
pub(crate) use address::{await_listener, free_address};
pub(crate) use certificate::Certificate;
pub(crate) use cluster::{Cluster, start_on_port, url_of};
pub(crate) use h2load::{H2load, Protocol};
pub(crate) use language::Language;
pub(crate) use memcached::Memcached;
pub(crate) use redis_benchmark::{Address, Outcome, RedisBenchmark, Report};
pub(crate) use run::output_within;
pub(crate) use sentinels::Sentinels;
pub(crate) use siege::{Siege, SiegeReport};
pub(crate) use syscalls::SyscallCounter;
pub(crate) use usage::{Usage, peak_resident_bytes, process_cpu, resident_bytes, written_bytes};
pub(crate) use version::{program_name, version_of};
pub(crate) use wrk::{Wrk, WrkReport, WrkRequest, WrkRequests};

//! Statistics: one set of counters per thread, which is written once per wake-up and summed on demand.

mod commands;
mod counts;
mod rates;
mod slow_log;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use larder_engine::stats::{Counter, Histogram, HistogramSnapshot, MissCauses, TopKey, TopKeys};
use parking_lot::Mutex;

use crate::db::Store;
use crate::spec::CommandSpec;
use crate::system::Moment;
use commands::CommandStats;
pub(crate) use commands::{CommandCounters, CommandTotals};
pub(crate) use counts::Counts;
use counts::OwnCounter;
use rates::{Rates, Samples};
pub(crate) use slow_log::{LoggedRequest, SlowCommand, SlowLog};

/// The most keys in [`ServerStats::top_keys`].
pub const MAX_TOP_KEYS: usize = 10;

/// Different prefixes of errors that are counted.
const MAX_ERROR_PREFIXES: usize = 128;

/// The counters of one thread, in their own cache lines.
#[derive(Debug, Default)]
#[repr(align(128))]
pub(crate) struct ThreadStats {
    commands: OwnCounter,
    errors: OwnCounter,
    hits: OwnCounter,
    misses: OwnCounter,
    bytes_in: OwnCounter,
    bytes_out: OwnCounter,
    /// Open connections.
    connections: AtomicU64,
    /// Time of a turn from the read of its requests to the write of its replies; one turn of some is timed.
    pub(crate) latency: Histogram,
    /// The keys of hits.
    pub(crate) keys: TopKeys,
    /// By the position in the table of commands.
    each_command: Box<[CommandCounters]>,
}

impl ThreadStats {
    fn new(commands: usize) -> Self {
        ThreadStats { each_command: CommandCounters::of_all(commands), ..ThreadStats::default() }
    }

    /// The counters of a command.
    #[inline]
    pub(crate) fn command(&self, spec: &CommandSpec) -> &CommandCounters {
        &self.each_command[usize::from(spec.index)]
    }

    /// Adds the counts of one wake-up. Only the thread itself may call it.
    pub(crate) fn add(&self, counts: &Counts) {
        self.commands.add(counts.commands);
        self.bytes_in.add(counts.bytes_in);
        self.bytes_out.add(counts.bytes_out);
        for (counter, n) in
            [(&self.errors, counts.errors), (&self.hits, counts.hits), (&self.misses, counts.misses)]
        {
            if n > 0 {
                counter.add(n);
            }
        }
    }

    pub(crate) fn connections(&self) -> u64 {
        self.connections.load(Ordering::Relaxed)
    }

    pub(crate) fn connected(&self) {
        self.connections.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn disconnected(&self) {
        self.connections.fetch_sub(1, Ordering::Relaxed);
    }

    fn counts(&self) -> Counts {
        Counts {
            commands: self.commands.get(),
            errors: self.errors.get(),
            hits: self.hits.get(),
            misses: self.misses.get(),
            bytes_in: self.bytes_in.get(),
            bytes_out: self.bytes_out.get(),
        }
    }
}

/// All counters of a server.
#[derive(Debug)]
pub(crate) struct Stats {
    pub(crate) started: Moment,
    /// All commands.
    pub(crate) specs: &'static [CommandSpec],
    pub(crate) threads: Vec<ThreadStats>,
    pub(crate) accepted: Counter,
    pub(crate) rejected: Counter,
    /// Connections that were closed because a command panicked.
    pub(crate) panics: Counter,
    pub(crate) command_stats: CommandStats,
    /// The number of error replies by their prefix, such as `WRONGTYPE`.
    error_prefixes: Mutex<BTreeMap<Box<str>, u64>>,
    /// Connections whose next command waits for the end of a pause.
    pub(crate) paused: AtomicU64,
    /// The most memory that counted against the capacity.
    peak_memory: AtomicU64,
    samples: Mutex<Samples>,
    /// The totals at the last `CONFIG RESETSTAT`. The counters themselves never decrease.
    baseline: Mutex<Totals>,
}

/// The counters that `CONFIG RESETSTAT` resets.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Totals {
    pub(crate) counts: Counts,
    pub(crate) accepted: u64,
    pub(crate) rejected: u64,
    pub(crate) expired: u64,
    pub(crate) evicted: u64,
}

impl Stats {
    /// Those of so many threads, for these commands.
    pub(crate) fn new(threads: usize, specs: &'static [CommandSpec]) -> Self {
        Stats {
            started: Moment::now(),
            threads: (0..threads).map(|_| ThreadStats::new(specs.len())).collect(),
            specs,
            accepted: Counter::new(),
            rejected: Counter::new(),
            panics: Counter::new(),
            command_stats: CommandStats::default(),
            error_prefixes: Mutex::default(),
            paused: AtomicU64::new(0),
            peak_memory: AtomicU64::new(0),
            samples: Mutex::default(),
            baseline: Mutex::default(),
        }
    }

    pub(crate) fn connections(&self) -> u64 {
        self.threads.iter().map(ThreadStats::connections).sum()
    }

    /// Connections whose next command waits for the end of a pause.
    pub(crate) fn paused(&self) -> u64 {
        self.paused.load(Ordering::Relaxed)
    }

    /// Takes what counts against the capacity now into account, in bytes. Returns the most that was seen.
    pub(crate) fn record_memory(&self, used: u64) -> u64 {
        self.peak_memory.fetch_max(used, Ordering::Relaxed).max(used)
    }

    /// Samples the counters, unless that was done less than a tenth of a second ago.
    pub(crate) fn sample(&self, now: Moment) {
        let mut samples = self.samples.lock();
        if samples.is_due(now) {
            samples.push(now, self.total());
        }
    }

    /// What the last samples tell of a second.
    pub(crate) fn rates(&self) -> Rates {
        self.samples.lock().rates()
    }

    pub(crate) fn total(&self) -> Counts {
        self.threads.iter().map(ThreadStats::counts).fold(Counts::default(), Counts::plus)
    }

    /// Counts an error reply. Errors are rare, so a lock is cheap enough. Scripts make up prefixes: of these, those above
    /// [`MAX_ERROR_PREFIXES`] are not counted.
    pub(crate) fn count_error(&self, prefix: &str) {
        let mut prefixes = self.error_prefixes.lock();
        if let Some(count) = prefixes.get_mut(prefix) {
            *count += 1;
        } else if prefixes.len() < MAX_ERROR_PREFIXES {
            prefixes.insert(prefix.into(), 1);
        }
    }

    /// The number of error replies by their prefix, since the last [`reset`](Self::reset).
    pub(crate) fn errors(&self) -> BTreeMap<Box<str>, u64> {
        self.error_prefixes.lock().clone()
    }

    /// The number of error replies with this prefix, since the last [`reset`](Self::reset).
    fn errors_of(&self, prefix: &str) -> u64 {
        self.error_prefixes.lock().get(prefix).copied().unwrap_or(0)
    }

    fn latency(&self) -> HistogramSnapshot {
        let mut all = Histogram::new().snapshot();
        self.threads.iter().for_each(|thread| all.merge(&thread.latency.snapshot()));
        all
    }

    fn top_keys(&self) -> Vec<TopKey> {
        TopKeys::top_of(self.threads.iter().map(|thread| &thread.keys), MAX_TOP_KEYS)
    }

    /// The estimated hits of a key in all databases, if it is among the most used ones; else 0.
    pub(crate) fn hits_of(&self, key: &[u8]) -> u64 {
        self.threads.iter().map(|thread| thread.keys.count_of(key)).sum()
    }

    /// The totals since the last [`reset`](Self::reset).
    pub(crate) fn since_reset(&self, engine: &larder_engine::Stats) -> Totals {
        let (baseline, now) = (*self.baseline.lock(), self.totals(engine));
        Totals {
            counts: now.counts.minus(baseline.counts),
            accepted: now.accepted - baseline.accepted,
            rejected: now.rejected - baseline.rejected,
            expired: now.expired - baseline.expired,
            evicted: now.evicted - baseline.evicted,
        }
    }

    pub(crate) fn reset(&self, engine: &larder_engine::Stats) {
        *self.baseline.lock() = self.totals(engine);
        self.error_prefixes.lock().clear();
        self.command_stats.reset(self.each_command());
    }

    /// From now on all calls of these commands are measured, and some of the calls of the others.
    pub(crate) fn measure_always(&self, is_always: impl Fn(&CommandSpec) -> bool) {
        for thread in &self.threads {
            let commands = self.specs.iter().zip(&thread.each_command);
            commands.for_each(|(spec, counters)| counters.measure_always(is_always(spec)));
        }
    }

    /// The totals of every command since the last [`reset`](Self::reset), in the order of the table.
    pub(crate) fn commands(&self) -> Vec<CommandTotals> {
        self.command_stats.since_reset(self.each_command())
    }

    fn each_command(&self) -> impl Iterator<Item = &[CommandCounters]> + Clone {
        self.threads.iter().map(|thread| &*thread.each_command)
    }

    fn totals(&self, engine: &larder_engine::Stats) -> Totals {
        Totals {
            counts: self.total(),
            accepted: self.accepted.get(),
            rejected: self.rejected.get(),
            expired: engine.expired,
            evicted: engine.evicted,
        }
    }
}

/// A snapshot of a server's statistics. Counters never decrease, not even by `CONFIG RESETSTAT`, but for
/// [`out_of_memory`](Self::out_of_memory).
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct ServerStats {
    /// Time since the server was created.
    pub uptime: Duration,
    /// Open connections.
    pub connections: u64,
    /// Connections accepted since start.
    pub connections_accepted: u64,
    /// Connections rejected because of `maxclients`.
    pub connections_rejected: u64,
    /// Connections that were closed because a command panicked.
    pub panics: u64,
    /// Commands executed, including failed ones.
    pub commands: u64,
    /// Commands whose reply was an error.
    pub errors: u64,
    /// Commands that were refused because the memory limit was reached and nothing could be evicted, since the start or the
    /// last `CONFIG RESETSTAT`.
    pub out_of_memory: u64,
    /// Keys that a read command found.
    pub hits: u64,
    /// Keys that a read command did not find.
    pub misses: u64,
    /// The keys with the most hits in all databases, estimated from a sample: at most [`MAX_TOP_KEYS`].
    pub top_keys: Vec<TopKey>,
    /// Why the keyspace did not have them, estimated from one key in sixteen.
    pub miss_causes: MissCauses,
    /// Bytes read from clients.
    pub bytes_in: u64,
    /// Bytes written to clients.
    pub bytes_out: u64,
    /// Time of a turn from the read of its requests to the write of its replies; one turn of some is timed.
    pub latency: HistogramSnapshot,
    /// Entries in all databases.
    pub keys: u64,
    /// Bytes that count against the capacity: see [`Store::used_memory`].
    pub memory_used_bytes: u64,
    /// Capacity in bytes, as configured.
    pub memory_capacity_bytes: u64,
    /// Entries removed for lack of space.
    pub evicted: u64,
    /// Entries removed because they expired.
    pub expired: u64,
}

/// Reads a server's statistics from any thread, even after the server has ended. Cheap to clone.
#[derive(Debug, Clone)]
pub struct StatsHandle {
    pub(crate) stats: Arc<Stats>,
    pub(crate) store: Store,
}

impl StatsHandle {
    /// A snapshot. Cost: a sum over threads and shards; a few microseconds.
    #[must_use]
    pub fn snapshot(&self) -> ServerStats {
        let (stats, total, engine) = (&self.stats, self.stats.total(), self.store.engine_stats());
        ServerStats {
            uptime: stats.started.elapsed(),
            connections: stats.connections(),
            connections_accepted: stats.accepted.get(),
            connections_rejected: stats.rejected.get(),
            panics: stats.panics.get(),
            commands: total.commands,
            errors: total.errors,
            out_of_memory: stats.errors_of("OOM"),
            hits: total.hits,
            misses: total.misses,
            top_keys: stats.top_keys(),
            miss_causes: engine.miss_causes,
            bytes_in: total.bytes_in,
            bytes_out: total.bytes_out,
            latency: stats.latency(),
            keys: engine.entries,
            memory_used_bytes: self.store.used_memory(),
            memory_capacity_bytes: self.store.max_memory(),
            evicted: engine.evicted,
            expired: engine.expired,
        }
    }
}

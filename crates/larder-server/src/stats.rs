//! What the server counts about itself: one set of counters per thread, written once per wake-up, summed on demand.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use larder_engine::stats::{Counter, Histogram, HistogramSnapshot};
use parking_lot::Mutex;

use crate::db::Store;

/// Counts of one wake-up, or of one thread since start.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Tally {
    pub(crate) commands: u64,
    pub(crate) errors: u64,
    pub(crate) hits: u64,
    pub(crate) misses: u64,
    pub(crate) bytes_in: u64,
    pub(crate) bytes_out: u64,
}

impl Tally {
    fn plus(self, other: Tally) -> Tally {
        Tally {
            commands: self.commands + other.commands,
            errors: self.errors + other.errors,
            hits: self.hits + other.hits,
            misses: self.misses + other.misses,
            bytes_in: self.bytes_in + other.bytes_in,
            bytes_out: self.bytes_out + other.bytes_out,
        }
    }

    fn minus(self, other: Tally) -> Tally {
        Tally {
            commands: self.commands - other.commands,
            errors: self.errors - other.errors,
            hits: self.hits - other.hits,
            misses: self.misses - other.misses,
            bytes_in: self.bytes_in - other.bytes_in,
            bytes_out: self.bytes_out - other.bytes_out,
        }
    }
}

/// The counters of one thread, alone in their cache lines.
#[derive(Debug, Default)]
#[repr(align(128))]
pub(crate) struct ThreadStats {
    commands: Counter,
    errors: Counter,
    hits: Counter,
    misses: Counter,
    bytes_in: Counter,
    bytes_out: Counter,
    /// Connections served now.
    connections: AtomicU64,
    /// Time from the bytes of a wake-up being read to its replies being handed to the system.
    pub(crate) latency: Histogram,
}

impl ThreadStats {
    /// Adds what one wake-up has done.
    pub(crate) fn add(&self, tally: &Tally) {
        self.commands.add(tally.commands);
        self.bytes_in.add(tally.bytes_in);
        self.bytes_out.add(tally.bytes_out);
        for (counter, n) in
            [(&self.errors, tally.errors), (&self.hits, tally.hits), (&self.misses, tally.misses)]
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

    fn tally(&self) -> Tally {
        Tally {
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
    pub(crate) started: Instant,
    pub(crate) threads: Vec<ThreadStats>,
    pub(crate) accepted: Counter,
    pub(crate) rejected: Counter,
    /// Connections that ended by a bug of ours.
    pub(crate) panics: Counter,
    /// What `CONFIG RESETSTAT` has taken off; the counters themselves never go back.
    baseline: Mutex<Totals>,
}

/// The counters that `CONFIG RESETSTAT` resets.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Totals {
    pub(crate) tally: Tally,
    pub(crate) accepted: u64,
    pub(crate) rejected: u64,
    pub(crate) expired: u64,
    pub(crate) evicted: u64,
}

impl Stats {
    pub(crate) fn new(threads: usize) -> Self {
        Stats {
            started: Instant::now(),
            threads: (0..threads).map(|_| ThreadStats::default()).collect(),
            accepted: Counter::new(),
            rejected: Counter::new(),
            panics: Counter::new(),
            baseline: Mutex::default(),
        }
    }

    pub(crate) fn connections(&self) -> u64 {
        self.threads.iter().map(ThreadStats::connections).sum()
    }

    pub(crate) fn total(&self) -> Tally {
        self.threads.iter().map(ThreadStats::tally).fold(Tally::default(), Tally::plus)
    }

    fn latency(&self) -> HistogramSnapshot {
        let mut all = Histogram::new().snapshot();
        self.threads.iter().for_each(|thread| all.merge(&thread.latency.snapshot()));
        all
    }

    /// The totals since the last [`reset`](Self::reset).
    pub(crate) fn since_reset(&self, store: &Store) -> Totals {
        let (baseline, now) = (*self.baseline.lock(), self.totals(store));
        Totals {
            tally: now.tally.minus(baseline.tally),
            accepted: now.accepted - baseline.accepted,
            rejected: now.rejected - baseline.rejected,
            expired: now.expired - baseline.expired,
            evicted: now.evicted - baseline.evicted,
        }
    }

    pub(crate) fn reset(&self, store: &Store) {
        *self.baseline.lock() = self.totals(store);
    }

    fn totals(&self, store: &Store) -> Totals {
        let engine = store.engine_stats();
        Totals {
            tally: self.total(),
            accepted: self.accepted.get(),
            rejected: self.rejected.get(),
            expired: engine.expired,
            evicted: engine.evicted,
        }
    }
}

/// A server's numbers at one moment. Counters never go back, not even by `CONFIG RESETSTAT`.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct ServerStats {
    /// Time since the server was made.
    pub uptime: Duration,
    /// Connections open now.
    pub connections: u64,
    /// Connections accepted since start.
    pub connections_accepted: u64,
    /// Connections turned away by `maxclients`.
    pub connections_rejected: u64,
    /// Connections that were closed because a command panicked.
    pub panics: u64,
    /// Commands executed, failed ones included.
    pub commands: u64,
    /// Commands that were answered with an error.
    pub errors: u64,
    /// Keys that a reading command found.
    pub hits: u64,
    /// Keys that a reading command did not find.
    pub misses: u64,
    /// Bytes read from clients.
    pub bytes_in: u64,
    /// Bytes written to clients.
    pub bytes_out: u64,
    /// Time from the bytes of a wake-up being read to its replies being handed to the system.
    pub latency: HistogramSnapshot,
    /// Entries in all databases.
    pub keys: u64,
    /// Bytes that entries are charged with.
    pub memory_used_bytes: u64,
    /// Bytes that entries may take.
    pub memory_capacity_bytes: u64,
    /// Entries that left to make room.
    pub evicted: u64,
    /// Entries that left because their time was over.
    pub expired: u64,
}

/// Reads a server's numbers from anywhere, also after the server has ended. Cheap to clone.
#[derive(Debug, Clone)]
pub struct StatsHandle {
    pub(crate) stats: Arc<Stats>,
    pub(crate) store: Store,
}

impl StatsHandle {
    /// The numbers now. Cost: a sum over threads and shards; some microseconds.
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
            hits: total.hits,
            misses: total.misses,
            bytes_in: total.bytes_in,
            bytes_out: total.bytes_out,
            latency: stats.latency(),
            keys: engine.entries,
            memory_used_bytes: engine.weight,
            memory_capacity_bytes: engine.capacity,
            evicted: engine.evicted,
            expired: engine.expired,
        }
    }
}

//! The Redis tier with a circuit breaker and counters.

use crate::report::error::CacheError;
use crate::tier::breaker::Breaker;
use crate::tier::{Requirement, Tier, TierError, TierFuture};
use larder_engine::stats::{Counter, Histogram};
use parking_lot::{Mutex, RwLock};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Notify;
use tokio::time::Instant;

/// How long the circuit breaker stays open.
const OPEN_FOR: Duration = Duration::from_millis(500);
/// The time between two lines in the log: while a primary of several is lost, each request to it fails.
const LOG_INTERVAL: Duration = Duration::from_secs(1);

#[derive(Debug)]
pub(crate) struct GuardedTier {
    pub(crate) tier: Arc<dyn Tier>,
    pub(crate) breaker: Breaker,
    pub(crate) counts: TierCounts,
    pub(crate) latency: Histogram,
    /// Notified when the address is answered by a server that was not accepted.
    pub(crate) server_changed: Arc<Notify>,
    /// Why the server cannot be used, if that is why the circuit breaker is open.
    unusable: Mutex<Option<String>>,
    support: RwLock<Support>,
    failure_log: Mutex<FailureLog>,
}

/// What the log was told of requests that failed.
#[derive(Debug, Default)]
struct FailureLog {
    last_line: Option<Instant>,
    /// Failures since then.
    omitted: u64,
}

/// Whether the server that was reached last has all that coherent nodes require.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Support {
    /// None was reached yet.
    Unknown,
    Full,
    Lacks(Requirement),
}

#[derive(Debug, Default)]
pub(crate) struct TierCounts {
    pub(crate) hits: Counter,
    pub(crate) misses: Counter,
    pub(crate) errors: Counter,
    pub(crate) skipped: Counter,
    pub(crate) unreadable: Counter,
}

impl GuardedTier {
    pub(crate) fn new(tier: Arc<dyn Tier>) -> Self {
        GuardedTier {
            tier,
            breaker: Breaker::new(OPEN_FOR),
            counts: TierCounts::default(),
            latency: Histogram::new(),
            server_changed: Arc::default(),
            unusable: Mutex::new(None),
            support: RwLock::new(Support::Unknown),
            failure_log: Mutex::default(),
        }
    }

    pub(crate) fn support(&self) -> Support {
        *self.support.read()
    }

    /// Returns what was known before.
    pub(super) fn set_support(&self, support: Support) -> Support {
        std::mem::replace(&mut *self.support.write(), support)
    }

    /// The error of a request to a server that lacks something.
    pub(crate) fn check_support(&self) -> Result<(), CacheError> {
        match self.support() {
            Support::Unknown | Support::Full => Ok(()),
            Support::Lacks(requirement) => Err(CacheError::Unsupported(requirement)),
        }
    }

    /// Awaits a request to the tier, unless the circuit breaker is open.
    pub(crate) async fn call<T>(&self, request: TierFuture<'_, T>) -> Result<T, CacheError> {
        self.check_breaker()?;
        self.call_ignoring_breaker(request).await
    }

    /// Whether a request may be sent.
    pub(crate) fn check_breaker(&self) -> Result<(), CacheError> {
        if self.breaker.allows() {
            return Ok(());
        }
        self.counts.skipped.add(1);
        Err(self.unusable.lock().clone().map_or(CacheError::NotAsked, CacheError::Refused))
    }

    /// The same for the coherence task, which waits between its requests, and for the rest of a sequence of requests.
    pub(crate) async fn call_ignoring_breaker<T>(&self, request: TierFuture<'_, T>) -> Result<T, CacheError> {
        self.check_support()?;
        let started = Instant::now();
        let reply = request.await;
        self.latency.record(started.elapsed());
        match reply {
            Ok(reply) => {
                self.breaker.succeeded();
                Ok(reply)
            }
            Err(error) => {
                self.counts.errors.add(1);
                self.log(&error);
                match &error {
                    TierError::NoReply(_) => {
                        *self.unusable.lock() = None;
                        self.breaker.failed();
                    }
                    TierError::Unusable(reason) => {
                        *self.unusable.lock() = Some(reason.clone());
                        self.breaker.failed();
                    }
                    // Whether the server is alive, the next request finds out. Each server of several has a breaker of its own.
                    TierError::Disconnected(_) | TierError::PartLost(_) => {}
                    // The server is alive.
                    TierError::Refused(_) | TierError::Unsupported(_) => self.breaker.succeeded(),
                    TierError::ServerChanged(_) => self.server_changed.notify_one(),
                }
                Err(CacheError::from(error))
            }
        }
    }

    /// Logs a failure, or counts it for the next line.
    fn log(&self, error: &TierError) {
        // Not locked while a subscriber runs, which may be slow.
        let omitted = self.failure_log.lock().begin_line(Instant::now());
        match omitted {
            None => {}
            Some(0) => tracing::warn!(%error, "request to redis failed"),
            Some(omitted) => tracing::warn!(%error, omitted, "request to redis failed"),
        }
    }
}

impl FailureLog {
    /// Counts a failure. How many were left out before this one, if it is to be logged.
    fn begin_line(&mut self, now: Instant) -> Option<u64> {
        if self.last_line.is_some_and(|last| now.duration_since(last) < LOG_INTERVAL) {
            self.omitted += 1;
            return None;
        }
        self.last_line = Some(now);
        Some(std::mem::take(&mut self.omitted))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failures_are_logged_once_a_second_with_those_in_between() {
        let (mut log, start) = (FailureLog::default(), Instant::now());
        let lines =
            [0, 10, 999, 1_000, 1_001, 5_000].map(|ms| log.begin_line(start + Duration::from_millis(ms)));
        assert_eq!(lines, [Some(0), None, None, Some(2), None, Some(1)]);
    }
}

//! The Redis tier with a circuit breaker and counters.

use super::breaker::Breaker;
use crate::error::CacheError;
use crate::tier::{ServerId, Tier, TierError, TierFuture};
use larder_engine::stats::{Counter, Histogram};
use parking_lot::Mutex;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Notify;
use tokio::time::Instant;

/// How long the circuit breaker stays open.
const OPEN_FOR: Duration = Duration::from_millis(500);

#[derive(Debug)]
pub(crate) struct GuardedTier {
    pub(crate) tier: Arc<dyn Tier>,
    pub(crate) breaker: Breaker,
    pub(crate) counts: TierCounts,
    pub(crate) latency: Histogram,
    /// Notified when the address is answered by a server that was not accepted.
    pub(crate) server_changed: Arc<Notify>,
    /// That server.
    pub(crate) new_server: Mutex<Option<ServerId>>,
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
            new_server: Mutex::new(None),
        }
    }

    /// Awaits a request to the tier, unless the circuit breaker is open.
    pub(crate) async fn call<T>(&self, request: TierFuture<'_, T>) -> Result<T, CacheError> {
        if !self.breaker.allows() {
            self.counts.skipped.add(1);
            return Err(CacheError::CircuitOpen);
        }
        self.call_ignoring_breaker(request).await
    }

    /// The same for the coherence task, which is the only caller and waits between its requests.
    pub(crate) async fn call_ignoring_breaker<T>(&self, request: TierFuture<'_, T>) -> Result<T, CacheError> {
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
                tracing::warn!(%error, "request to redis failed");
                match &error {
                    TierError::NoReply(_) => self.breaker.failed(),
                    // The server is alive.
                    TierError::Refused(_) => self.breaker.succeeded(),
                    TierError::ServerChanged(server) => {
                        *self.new_server.lock() = Some(server.clone());
                        self.server_changed.notify_one();
                    }
                }
                Err(CacheError::from(error))
            }
        }
    }
}

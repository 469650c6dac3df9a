//! The shared tier as the cache uses it: left alone for a while after it was silent, and counted.

use crate::breaker::Breaker;
use crate::error::CacheError;
use crate::tier::{ServerId, Tier, TierError, TierFuture};
use larder_engine::stats::{Counter, Histogram};
use parking_lot::Mutex;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Notify;
use tokio::time::Instant;

/// How long the tier is left alone after it was silent.
const REST: Duration = Duration::from_millis(500);

#[derive(Debug)]
pub(crate) struct Guarded {
    pub(crate) tier: Arc<dyn Tier>,
    pub(crate) breaker: Breaker,
    pub(crate) counts: TierCounts,
    pub(crate) latency: Histogram,
    /// Told when another server answered than the one that was accepted.
    pub(crate) other_server: Arc<Notify>,
    /// Which one.
    pub(crate) met: Mutex<Option<ServerId>>,
}

#[derive(Debug, Default)]
pub(crate) struct TierCounts {
    pub(crate) hits: Counter,
    pub(crate) misses: Counter,
    pub(crate) errors: Counter,
    pub(crate) skipped: Counter,
    pub(crate) unreadable: Counter,
}

impl Guarded {
    pub(crate) fn new(tier: Arc<dyn Tier>) -> Self {
        Guarded {
            tier,
            breaker: Breaker::new(REST),
            counts: TierCounts::default(),
            latency: Histogram::new(),
            other_server: Arc::default(),
            met: Mutex::new(None),
        }
    }

    /// Waits for an exchange that has been described and not begun, unless the tier is being left alone.
    pub(crate) async fn ask<T>(&self, exchange: TierFuture<'_, T>) -> Result<T, CacheError> {
        if !self.breaker.allows() {
            self.counts.skipped.add(1);
            return Err(CacheError::Resting);
        }
        self.ask_anyway(exchange).await
    }

    /// The same for one who comes seldom and by appointment.
    pub(crate) async fn ask_anyway<T>(&self, exchange: TierFuture<'_, T>) -> Result<T, CacheError> {
        let began = Instant::now();
        let answer = exchange.await;
        self.latency.record(began.elapsed());
        match answer {
            Ok(answer) => {
                self.breaker.succeeded();
                Ok(answer)
            }
            Err(error) => {
                self.counts.errors.add(1);
                tracing::warn!(%error, "redis tier");
                // An answer, even an unwelcome one, shows that the tier is there.
                match &error {
                    TierError::NoReply(_) => self.breaker.failed(),
                    TierError::Refused(_) => self.breaker.succeeded(),
                    TierError::ServerChanged(server) => {
                        *self.met.lock() = Some(server.clone());
                        self.other_server.notify_one();
                    }
                }
                Err(CacheError::from(error))
            }
        }
    }
}

//! A circuit breaker: after a few failures no request is sent to Redis for a while, then one request as a probe.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::Duration;
use tokio::time::Instant;

/// The failures without a success between them after which the breaker opens. One slow reply is no outage.
const MAX_FAILURES: u32 = 2;

/// Closed, or open until a moment. Then one caller passes, and the others once it has succeeded.
#[derive(Debug)]
pub(crate) struct Breaker {
    started: Instant,
    open_for: Duration,
    /// Milliseconds after `started` until which nobody may pass; 0 while closed.
    open_until_ms: AtomicU64,
    /// Failures since the last success.
    failures: AtomicU32,
}

impl Breaker {
    pub(crate) fn new(open_for: Duration) -> Self {
        Breaker {
            started: Instant::now(),
            open_for,
            open_until_ms: AtomicU64::new(0),
            failures: AtomicU32::new(0),
        }
    }

    /// Whether the caller may send a request. The first caller after the pause is the probe. It opens the breaker
    /// again, so the others are refused until its outcome is known.
    pub(crate) fn allows(&self) -> bool {
        let until = self.open_until_ms.load(Ordering::Acquire);
        if until == 0 {
            return true;
        }
        let now = self.now_ms();
        now >= until
            && self
                .open_until_ms
                .compare_exchange(until, self.next_ms(now), Ordering::AcqRel, Ordering::Relaxed)
                .is_ok()
    }

    pub(crate) fn succeeded(&self) {
        if self.failures.load(Ordering::Relaxed) != 0 {
            self.failures.store(0, Ordering::Relaxed);
        }
        if self.open_until_ms.load(Ordering::Relaxed) != 0 {
            self.open_until_ms.store(0, Ordering::Release);
        }
    }

    pub(crate) fn failed(&self) {
        if self.failures.fetch_add(1, Ordering::Relaxed) + 1 >= MAX_FAILURES {
            self.open_until_ms.store(self.next_ms(self.now_ms()), Ordering::Release);
        }
    }

    pub(crate) fn is_open(&self) -> bool {
        self.open_until_ms.load(Ordering::Relaxed) != 0
    }

    fn now_ms(&self) -> u64 {
        self.started.elapsed().as_millis() as u64
    }

    fn next_ms(&self, now_ms: u64) -> u64 {
        (now_ms + self.open_for.as_millis() as u64).max(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn second_failure_opens_and_success_closes() {
        let breaker = Breaker::new(Duration::from_secs(3_600));
        for _ in 0..2 {
            breaker.failed();
            assert!(breaker.allows(), "one failure says little");
            breaker.succeeded();
        }
        (0..MAX_FAILURES).for_each(|_| breaker.failed());
        assert!(!breaker.allows() && breaker.is_open());
        breaker.succeeded();
        assert!(breaker.allows() && !breaker.is_open());
    }

    #[test]
    fn one_caller_probes_after_pause() {
        let breaker = Breaker::new(Duration::from_secs(3_600));
        (0..MAX_FAILURES).for_each(|_| breaker.failed());
        breaker.open_until_ms.store(1, Ordering::Release);
        while breaker.now_ms() < 1 {
            std::hint::spin_loop();
        }
        assert!(breaker.allows(), "the probe");
        assert!(!breaker.allows(), "the other callers");
    }
}

//! The server's clock, as far as this node knows it: two bounds from the last reply that told it. The servers of a cluster
//! have clocks that differ a little, and values move between them: the earliest and the latest count.
//!
//! ```text
//!  node    sent ──────────────── received ──────────── now
//!  server        time, at some moment in between        earliest: time + (now − received)
//!                                                       latest:   time + (now − sent)
//! ```
//! A deadline is computed from the earliest time and judged by the latest, so a value is never served after its
//! deadline, however long the replies took. Clocks of nodes are never compared. If the server's clock goes back, the
//! server keeps a key longer, and nodes judge its deadline by that clock too.

use super::Node;
use crate::report::error::CacheError;
use crate::tier::ServerTime;
use parking_lot::Mutex;
use std::time::Duration;
use tokio::time::Instant;

/// How long a reading counts as known. Heartbeats renew it four times a second or more.
const MAX_AGE: Duration = Duration::from_secs(10);
/// One part in so many by which the clock of the server may run faster or slower than that of the node: twice what NTP
/// allows itself while it adjusts a clock.
const DRIFT: u32 = 1_000;
/// The latest deadline in milliseconds. Redis refuses times that overflow.
const LAST_DEADLINE: u64 = 1 << 53;

/// What this node knows of the server's clock.
#[derive(Debug, Default)]
pub(crate) struct ServerClock(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    /// Advances when another server may answer.
    server: u64,
    reading: Option<Reading>,
}

/// A request for the server's time that was sent.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TimeRequest {
    sent: Instant,
    server: u64,
}

#[derive(Clone, Copy, Debug)]
struct Reading {
    time: ServerTime,
    sent: Instant,
    received: Instant,
}

impl ServerClock {
    /// The server's time is requested now.
    pub(crate) fn request(&self) -> TimeRequest {
        TimeRequest { sent: Instant::now(), server: self.0.lock().server }
    }

    /// Notes a reply that was received now. A reply of a server that was replaced meanwhile says nothing.
    pub(crate) fn record(&self, request: TimeRequest, time: impl Into<ServerTime>) {
        let mut state = self.0.lock();
        if state.server == request.server {
            let time = time.into();
            state.reading = Some(Reading { time, sent: request.sent, received: Instant::now() });
        }
    }

    /// Forgets the former server, and notes the reply of the present one, if it told its time.
    pub(crate) fn replace(&self, request: TimeRequest, time: Option<ServerTime>) {
        let mut state = self.0.lock();
        state.server += 1;
        state.reading = time.map(|time| Reading { time, sent: request.sent, received: Instant::now() });
    }

    /// Whether the server told its time not long ago.
    pub(crate) fn is_known(&self) -> bool {
        self.0.lock().reading.is_some_and(|reading| reading.received.elapsed() < MAX_AGE)
    }

    /// The deadline of a value that is stored now and kept for so long, in milliseconds of the server's clock. `None` if
    /// the server never told its time.
    pub(crate) fn deadline(&self, kept_for: Duration) -> Option<u64> {
        let reading = self.0.lock().reading?;
        let since = reading.received.elapsed();
        let earliest_ms = (reading.time.earliest + micros(since - since / DRIFT)) / 1_000;
        let kept_for_ms = u64::try_from(kept_for.as_millis()).unwrap_or(LAST_DEADLINE).max(1);
        Some(earliest_ms.saturating_add(kept_for_ms).min(LAST_DEADLINE))
    }

    /// What the server's clock shows now at the latest, in microseconds. `None` if the server never told its time.
    pub(crate) fn latest(&self) -> Option<u64> {
        let reading = self.0.lock().reading?;
        let since = reading.sent.elapsed();
        Some(reading.time.latest.saturating_add(micros(since + since / DRIFT)))
    }

    /// What the server's clock showed when it last told its time, in microseconds.
    pub(crate) fn last_reply(&self) -> Option<u64> {
        self.0.lock().reading.map(|reading| reading.time.earliest)
    }
}

impl Node {
    /// Returns once the server's clock is known. Heartbeats tell it; if none did of late, asks: one round trip.
    pub(crate) async fn learn_server_time(&self) -> Result<(), CacheError> {
        let clock = &self.server_clock;
        let Some(redis) = self.redis.as_ref().filter(|_| !clock.is_known()) else { return Ok(()) };
        let request = clock.request();
        clock.record(request, redis.call(redis.tier.time()).await?);
        Ok(())
    }
}

/// The time until a deadline in milliseconds when the server's clock shows these microseconds; zero after it.
pub(crate) fn time_until(deadline_ms: u64, server_micros: u64) -> Duration {
    Duration::from_micros(deadline_ms.saturating_mul(1_000).saturating_sub(server_micros))
}

fn micros(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX / 2)
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::time::advance;

    const SECOND: Duration = Duration::from_secs(1);
    /// The server's clock when the tests start, an hour away from any other clock.
    const START: u64 = 3_600_000_000;

    #[tokio::test(start_paused = true)]
    async fn deadline_is_early_and_remaining_time_short_by_round_trip() {
        let clock = ServerClock::default();
        let remaining = |deadline_ms| clock.latest().map(|latest| time_until(deadline_ms, latest));
        assert_eq!((clock.deadline(SECOND), clock.latest()), (None, None));
        let request = clock.request();
        advance(SECOND).await;
        clock.record(request, START);
        assert_eq!(
            clock.deadline(60 * SECOND),
            Some(3_660_000),
            "the server replied a moment ago, at the earliest"
        );
        assert_eq!(remaining(3_660_000), Some(59 * SECOND - SECOND / DRIFT), "or a second ago");
        advance(5 * SECOND).await;
        assert_eq!(clock.deadline(60 * SECOND), Some(3_664_995));
        assert_eq!(remaining(3_660_000), Some(54 * SECOND - 6 * SECOND / DRIFT));
        advance(60 * SECOND).await;
        assert_eq!(remaining(3_660_000), Some(Duration::ZERO));
    }

    #[tokio::test(start_paused = true)]
    async fn old_reading_is_not_known_but_still_bounds() {
        let clock = ServerClock::default();
        assert!(!clock.is_known());
        clock.record(clock.request(), START);
        assert!(clock.is_known());
        advance(MAX_AGE).await;
        assert!(!clock.is_known());
        assert!(clock.deadline(SECOND).is_some());
    }

    #[tokio::test]
    async fn reply_of_replaced_server_says_nothing() {
        let clock = ServerClock::default();
        let late = clock.request();
        clock.replace(clock.request(), None);
        clock.record(late, START);
        assert!(!clock.is_known());
        clock.replace(clock.request(), Some(START.into()));
        assert!(clock.is_known());
    }

    #[tokio::test]
    async fn longest_time_to_live_has_a_deadline() {
        let clock = ServerClock::default();
        clock.record(clock.request(), START);
        assert_eq!(clock.deadline(Duration::MAX), Some(LAST_DEADLINE));
    }
}

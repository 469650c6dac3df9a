//! What the heartbeats tell of the server's clock: when the next marker is due, and how old a restored copy of the data
//! is. What is computed from the clock itself is in `node::server_clock`.

use super::Coordinator;
use crate::error::CacheError;
use crate::tier::Pulse;
use parking_lot::Mutex;
use std::time::Duration;

/// The time between markers of one node.
const MARKER_INTERVAL: Duration = Duration::from_secs(1);

/// The server's clock, as far as this node knows it.
#[derive(Debug, Default)]
pub(super) struct ServerTime(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    /// The server's clock in microseconds, and when it was asked at the earliest.
    reading: Option<(u64, Duration)>,
    marked_at: Option<Duration>,
}

impl ServerTime {
    /// Notes the reply to a heartbeat that was sent at `sent`.
    pub(super) fn record(&self, sent: Duration, pulse: &Pulse) {
        if let Some(time) = pulse.time {
            self.0.lock().reading = Some((time, sent));
        }
    }

    /// The marker for a heartbeat that is sent now, if one is due. It is a little older than now: then a copy seems
    /// older than it is, never younger.
    pub(super) fn due_marker(&self, now: Duration) -> Option<u64> {
        let mut state = self.0.lock();
        let (time, _) = state.reading?;
        if state.marked_at.is_some_and(|at| at.saturating_add(MARKER_INTERVAL) > now) {
            return None;
        }
        state.marked_at = Some(now);
        Some(time)
    }

    /// The age of the data of a server that answered this heartbeat, at most; `None` if it has no marker or no clock.
    /// The clock of a server that replaces another may be behind, so the older clock counts too.
    pub(super) fn restored_age(&self, now: Duration, pulse: &Pulse) -> Option<Duration> {
        let (time, marker) = (pulse.time?, pulse.marker?);
        let continued = self
            .0
            .lock()
            .reading
            .map_or(0, |(time, at)| time.saturating_add(now.saturating_sub(at).as_micros() as u64));
        Some(Duration::from_micros(time.max(continued).saturating_sub(marker)))
    }
}

impl Coordinator {
    /// Returns once the server's clock is known. Heartbeats tell it; if none did of late, asks: one round trip.
    pub(crate) async fn learn_server_time(&self) -> Result<(), CacheError> {
        let clock = &self.node.server_clock;
        let Some(redis) = self.node.redis.as_ref().filter(|_| !clock.is_known()) else { return Ok(()) };
        let request = clock.request();
        clock.record(request, redis.call(redis.tier.time()).await?);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn pulse(time: u64, marker: u64) -> Pulse {
        Pulse { time: Some(time * 1_000_000), marker: Some(marker * 1_000_000), ledger_clock: None }
    }

    #[test]
    fn marker_is_due_once_a_second_and_never_newer_than_the_server() {
        let server = ServerTime::default();
        assert_eq!(server.due_marker(SECOND), None, "the server's clock is not known");
        server.record(SECOND, &pulse(100, 0));
        assert_eq!(server.due_marker(SECOND), Some(100_000_000));
        assert_eq!(server.due_marker(SECOND * 3 / 2), None);
        assert_eq!(server.due_marker(SECOND * 2), Some(100_000_000));
    }

    #[test]
    fn clock_that_went_back_makes_no_copy_younger() {
        let server = ServerTime::default();
        server.record(SECOND, &pulse(100, 100));
        assert_eq!(server.restored_age(5 * SECOND, &pulse(104, 70)), Some(34 * SECOND));
        assert_eq!(server.restored_age(5 * SECOND, &pulse(60, 50)), Some(54 * SECOND), "104 - 50");
        assert_eq!(server.restored_age(5 * SECOND, &pulse(200, 50)), Some(150 * SECOND));
        assert_eq!(server.restored_age(SECOND, &Pulse { marker: None, ..pulse(100, 0) }), None);
    }
}

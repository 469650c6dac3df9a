//! The marker of a server: a key to which each node writes the server's time once a second. If another server answers
//! later, its copy of the data is at most as old as the marker of the former server in it.

use crate::node::server_clock::ServerClock;
use crate::tier::Pulse;
use parking_lot::Mutex;
use std::time::Duration;

/// The time between markers of one node.
const MARKER_INTERVAL: Duration = Duration::from_secs(1);

/// When this node wrote its last marker.
#[derive(Debug, Default)]
pub(super) struct MarkerSchedule(Mutex<Option<Duration>>);

impl MarkerSchedule {
    /// The marker for a heartbeat that is sent now, if one is due. It is a little older than now: then a copy seems
    /// older than it is, never younger.
    pub(super) fn due(&self, now: Duration, clock: &ServerClock) -> Option<u64> {
        let mut marked_at = self.0.lock();
        let time = clock.last_reply()?;
        if marked_at.is_some_and(|at| at.saturating_add(MARKER_INTERVAL) > now) {
            return None;
        }
        *marked_at = Some(now);
        Some(time)
    }
}

/// The age of the data of a server that answered this heartbeat, at most; `None` if it has no marker or no clock. The
/// clock of a server that replaces another may be behind, so the clock of the former server counts too.
pub(super) fn restored_age(clock: &ServerClock, pulse: &Pulse) -> Option<Duration> {
    let (time, marker) = (pulse.time?, pulse.marker?);
    Some(Duration::from_micros(time.max(clock.latest().unwrap_or(0)).saturating_sub(marker)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::time::advance;

    const SECOND: Duration = Duration::from_secs(1);

    fn pulse(time: u64, marker: u64) -> Pulse {
        Pulse { time: Some(time * 1_000_000), marker: Some(marker * 1_000_000), ledger_clock: None }
    }

    #[tokio::test(start_paused = true)]
    async fn marker_is_due_once_a_second_and_never_newer_than_the_server() {
        let (schedule, clock) = (MarkerSchedule::default(), ServerClock::default());
        assert_eq!(schedule.due(SECOND, &clock), None, "the server's clock is not known");
        clock.record(clock.request(), 100_000_000);
        advance(SECOND / 10).await;
        assert_eq!(schedule.due(SECOND, &clock), Some(100_000_000));
        assert_eq!(schedule.due(SECOND * 3 / 2, &clock), None);
        assert_eq!(schedule.due(SECOND * 2, &clock), Some(100_000_000));
    }

    #[tokio::test(start_paused = true)]
    async fn clock_that_went_back_makes_no_copy_younger() {
        let clock = ServerClock::default();
        assert_eq!(restored_age(&clock, &pulse(104, 70)), Some(34 * SECOND));
        clock.record(clock.request(), 100_000_000);
        advance(4 * SECOND).await;
        assert!(restored_age(&clock, &pulse(104, 70)) >= Some(34 * SECOND));
        assert!(restored_age(&clock, &pulse(60, 50)) >= Some(54 * SECOND), "104 - 50");
        assert_eq!(restored_age(&clock, &pulse(200, 50)), Some(150 * SECOND));
        assert_eq!(restored_age(&clock, &Pulse { marker: None, ..pulse(100, 0) }), None);
    }
}

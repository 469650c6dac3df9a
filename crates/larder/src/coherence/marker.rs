//! The marker of a server: a key to which each heartbeat writes the server's time. If another server answers later, its
//! copy of the data is at most as old as the marker of the former server in it.

use crate::node::server_clock::ServerClock;
use crate::tier::Pulse;
use std::time::Duration;

/// The age of the data of a server that answered this heartbeat, at most; `None` if it has no marker or no clock. The
/// clock of a server that replaces another may be behind, so the clock of the former server counts too.
pub(super) fn restored_age(clock: &ServerClock, pulse: &Pulse) -> Option<Duration> {
    let (time, marker) = (pulse.time?, pulse.marker?);
    Some(Duration::from_micros(time.latest.max(clock.latest().unwrap_or(0)).saturating_sub(marker)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::time::advance;

    const SECOND: Duration = Duration::from_secs(1);

    fn pulse(time: u64, marker: u64) -> Pulse {
        let micros = |seconds: u64| Some(seconds * 1_000_000);
        Pulse { doubt: None, time: micros(time).map(Into::into), marker: micros(marker), ledger_clock: None }
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

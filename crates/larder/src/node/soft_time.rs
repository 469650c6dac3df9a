//! When a soft invalidation was made, from which the grace period of what it has made stale counts.
//!
//! A stamp is a logical clock and tells no time. So the ledger has the server's time beside each soft stamp, under a member
//! of its own. A stamp without one, from an older version of this library, counts from when this node has learned of it.

use super::server_clock::ServerClock;
use std::time::Duration;

/// What this node knows of the time of a soft invalidation, or of the earliest of several.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct SoftTime {
    /// When this node learned of it, on the engine's clock.
    learned_at: Option<Duration>,
    /// When it was made, in milliseconds of the server's clock.
    made_ms: Option<u64>,
}

impl SoftTime {
    /// This node makes the invalidation at `now`, or learns of it.
    pub(crate) fn learned(now: Duration) -> Self {
        SoftTime { learned_at: Some(now), made_ms: None }
    }

    /// The ledger tells when it was made.
    pub(crate) fn set_made(&mut self, made_ms: u64) {
        self.made_ms = Some(made_ms);
    }

    /// The earlier one of two.
    pub(crate) fn or_earlier(self, other: SoftTime) -> SoftTime {
        let earlier = |one: Option<Duration>, other| one.into_iter().chain(other).min();
        SoftTime {
            learned_at: earlier(self.learned_at, other.learned_at),
            made_ms: self.made_ms.into_iter().chain(other.made_ms).min(),
        }
    }

    /// How long ago it was made, at most, when the engine's clock shows `now`.
    pub(crate) fn elapsed(self, now: Duration, server: &ServerClock) -> Duration {
        let by_engine = self.learned_at.map(|learned_at| now.saturating_sub(learned_at));
        let by_server = self.made_ms.zip(server.latest()).map(|(made_ms, latest_micros)| {
            Duration::from_micros(latest_micros.saturating_sub(made_ms.saturating_mul(1_000)))
        });
        by_engine.into_iter().chain(by_server).max().unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);
    /// The server's clock when the tests start, in microseconds.
    const START: u64 = 3_600_000_000;

    fn server() -> ServerClock {
        let server = ServerClock::default();
        server.record(server.request(), START);
        server
    }

    #[tokio::test(start_paused = true)]
    async fn time_of_the_ledger_counts_from_before_this_node_learned_of_it() {
        let (server, now) = (server(), 10 * SECOND);
        let mut time = SoftTime::learned(now - SECOND);
        assert_eq!(time.elapsed(now, &server), SECOND, "an older version stamps no time");
        time.set_made((START / 1_000).saturating_sub(20_000));
        assert_eq!(time.elapsed(now, &server), 20 * SECOND, "longer than the engine's clock has run");
        time.set_made(START / 1_000 + 60_000);
        assert_eq!(time.elapsed(now, &server), SECOND, "the server's clock has gone back");
    }

    #[tokio::test(start_paused = true)]
    async fn earliest_of_several_counts() {
        let (server, now) = (server(), 10 * SECOND);
        let [early, late] = [2, 9].map(|at| SoftTime::learned(at * SECOND));
        assert_eq!(late.or_earlier(early).elapsed(now, &server), 8 * SECOND);
        assert_eq!(SoftTime::default().or_earlier(late), late);
    }
}

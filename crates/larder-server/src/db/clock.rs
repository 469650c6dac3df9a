//! Unix time, in which clients give and ask for deadlines, against the engine's clock, which starts at zero and never
//! jumps.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use larder_engine::Ttl;

use super::Expiry;

/// Maps between the two; fixed once, so that a deadline reads back as it was given even when the system clock is set.
#[derive(Debug, Clone, Copy)]
pub(super) struct ServerClock {
    /// Unix time in milliseconds when the engine's clock was at zero.
    engine_zero_ms: i64,
}

impl ServerClock {
    /// A mapping as of now, when the engine's clock shows `engine_now_ms`.
    pub(super) fn new(engine_now_ms: u64) -> Self {
        ServerClock { engine_zero_ms: unix_ms() - engine_now_ms as i64 }
    }

    pub(super) fn to_unix_ms(self, engine_ms: u64) -> i64 {
        self.engine_zero_ms.saturating_add_unsigned(engine_ms)
    }

    pub(super) fn ttl(self, expiry: Expiry) -> Ttl {
        match expiry {
            Expiry::Never => Ttl::Never,
            Expiry::Keep => Ttl::Keep,
            Expiry::At(unix_ms) => Ttl::At(unix_ms.saturating_sub(self.engine_zero_ms).max(0) as u64),
        }
    }
}

/// Unix time now.
pub(crate) fn unix_time() -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()
}

fn unix_ms() -> i64 {
    unix_time().as_millis() as i64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_deadline_reads_back_as_given() {
        let clock = ServerClock::new(1_234);
        let deadline = unix_ms() + 60_000;
        let Ttl::At(engine_ms) = clock.ttl(Expiry::At(deadline)) else { panic!("a deadline was given") };
        assert_eq!(clock.to_unix_ms(engine_ms), deadline);
    }

    #[test]
    fn deadlines_before_the_engine_began_are_past() {
        assert_eq!(ServerClock::new(0).ttl(Expiry::At(i64::MIN)), Ttl::At(0));
    }
}

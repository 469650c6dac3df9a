//! The times of faults: errors in them are expected, and a change that met one of the second tier is only queued.

use super::lock;
use std::sync::Mutex;
use std::time::{Duration, Instant};

/// How long after a fault its effects may last: a replay of what was queued, connections that are made again.
pub(super) const RECOVERY: Duration = Duration::from_secs(5);

/// What the instances of a service share.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Tier {
    /// The redis-server of the shorteners.
    Redis,
    /// The `larder server` of the proxies.
    Server,
}

#[derive(Clone, Copy, Debug)]
struct Window {
    tier: Option<Tier>,
    begun: Instant,
    /// `None` while it lasts. With the time to recover.
    ended: Option<Instant>,
}

impl Window {
    fn lasts_at(&self, time: Instant) -> bool {
        self.begun <= time && self.ended.is_none_or(|ended| time <= ended)
    }
}

/// All windows so far, one after the other.
#[derive(Debug, Default)]
pub(super) struct Windows(Mutex<Vec<Window>>);

impl Windows {
    /// A fault is about to begin.
    pub(super) fn begin(&self, tier: Option<Tier>, now: Instant) {
        lock(&self.0).push(Window { tier, begun: now, ended: None });
    }

    /// The fault is over: everything runs again.
    pub(super) fn end(&self, now: Instant) {
        if let Some(last) = lock(&self.0).last_mut() {
            last.ended = Some(now + RECOVERY);
        }
    }

    pub(super) fn is_calm(&self, now: Instant) -> bool {
        lock(&self.0).last().is_none_or(|last| !last.lasts_at(now))
    }

    /// Whether there was a window between two times.
    pub(super) fn touch(&self, from: Instant, to: Instant) -> bool {
        let windows = lock(&self.0);
        let mut latest = windows.iter().rev().take_while(|window| window.ended.is_none_or(|end| end >= from));
        latest.any(|window| window.begun <= to)
    }

    /// Whether a fault of this tier met what happened between two times, and its window lasts at the third one.
    pub(super) fn excuse(&self, tier: Tier, from: Instant, to: Instant, at: Instant) -> bool {
        let windows = lock(&self.0);
        let met = |window: &Window| {
            window.tier == Some(tier)
                && window.begun <= to
                && window.ended.is_none_or(|ended| from <= ended)
                && window.lasts_at(at)
        };
        // Older windows are over.
        windows.iter().rev().take(4).any(met)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn window_lasts_until_everything_has_recovered() {
        let (windows, start) = (Windows::default(), Instant::now());
        let at = |seconds| start + Duration::from_secs(seconds);
        assert!(windows.is_calm(at(0)) && !windows.touch(at(0), at(100)));
        windows.begin(Some(Tier::Redis), at(10));
        assert!(windows.is_calm(at(9)) && !windows.is_calm(at(60)));
        windows.end(at(20));
        assert!(!windows.is_calm(at(25)) && windows.is_calm(at(26)));
        assert!(windows.touch(at(0), at(10)) && windows.touch(at(25), at(30)));
        assert!(!windows.touch(at(0), at(9)) && !windows.touch(at(26), at(30)));
    }

    #[test]
    fn window_excuses_what_it_met_while_it_lasts() {
        let (windows, start) = (Windows::default(), Instant::now());
        let at = |seconds| start + Duration::from_secs(seconds);
        windows.begin(Some(Tier::Redis), at(10));
        windows.end(at(20));
        let redis = |from, to, time| windows.excuse(Tier::Redis, at(from), at(to), at(time));
        assert!(redis(9, 10, 25) && redis(25, 26, 25) && redis(12, 13, 14));
        assert!(!redis(8, 9, 15), "what was announced before it is known");
        assert!(!redis(12, 13, 26), "it is over");
        assert!(!windows.excuse(Tier::Server, at(12), at(13), at(14)), "of another tier");
        windows.begin(None, at(30));
        assert!(!redis(31, 32, 33), "no fault of a tier");
    }
}

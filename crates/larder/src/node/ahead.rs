//! When a value that is still fresh is loaded again, so that nobody waits for it at its end.

use crate::policy::RefreshAhead;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// A time that never comes.
const NEVER: u64 = u64::MAX;
/// The longest draw in units of its scale: −ln u for the smallest u that [`fraction`](crate::value::random::Random::fraction)
/// leaves, 2⁻²⁴. Before that no draw can begin a load, so none is made.
const LONGEST_DRAW: f64 = 24.0 * std::f64::consts::LN_2;

/// When a value is loaded again before it expires. All times are in nanoseconds of the engine's clock.
#[derive(Debug)]
pub(crate) struct Ahead {
    /// How long before the end of the time to live a load may begin.
    lead: u64,
    /// Whether chance decides from then on.
    by_chance: bool,
    /// From when on a load may begin, the next one after a load that was begun.
    from: AtomicU64,
}

impl Ahead {
    pub(crate) const fn never() -> Self {
        Ahead { lead: 0, by_chance: false, from: AtomicU64::new(NEVER) }
    }

    /// For a value that is fresh for so long, and that took so long to load. Before [`set_end`](Ahead::set_end) nothing begins.
    pub(crate) fn new(policy: Option<RefreshAhead>, fresh: Duration, cost: Duration) -> Self {
        let (lead, by_chance) = match policy.unwrap_or_default() {
            RefreshAhead::Never => (0.0, false),
            RefreshAhead::After(part) => {
                (fresh.as_nanos() as f64 * f64::from(1.0 - part.clamp(0.0, 1.0)), false)
            }
            RefreshAhead::ByCost(factor) => (cost.as_nanos() as f64 * f64::from(factor) * LONGEST_DRAW, true),
        };
        // A factor that is no number, or below zero, gives no time. The cast ends at the largest number.
        Ahead { lead: lead as u64, by_chance, from: AtomicU64::new(NEVER) }
    }

    /// The time to live ends then: it was set, or restarted.
    pub(crate) fn set_end(&self, end: u64) {
        if self.lead > 0 {
            self.from.store(end.saturating_sub(self.lead), Ordering::Relaxed);
        }
    }

    pub(crate) fn copy(&self) -> Self {
        Ahead { from: AtomicU64::new(self.from.load(Ordering::Relaxed)), ..*self }
    }

    /// Whether a load may begin at some time. Cost: a load of memory.
    #[inline]
    pub(crate) fn is_ever(&self) -> bool {
        self.from.load(Ordering::Relaxed) != NEVER
    }

    /// Whether a caller at `now` begins a load of a value that is fresh for so long yet. Of concurrent callers one does, and
    /// another one no sooner than `next`. `fraction` draws a number from 0 up to 1.
    ///
    /// By chance it does so if −β Δ ln u is no less than what is left, with the duration Δ of the last load and a new u for
    /// each caller: XFetch, of Vattani, Chierichetti and Lowenstein, "Optimal Probabilistic Cache Stampede Prevention", VLDB 2015.
    pub(crate) fn begins(&self, now: u64, left: u64, next: u64, fraction: impl FnOnce() -> f32) -> bool {
        let from = self.from.load(Ordering::Relaxed);
        if now < from {
            return false;
        }
        if self.by_chance {
            let drawn = -f64::from(1.0 - fraction()).ln() / LONGEST_DRAW * self.lead as f64;
            if drawn < left as f64 {
                return false;
            }
        }
        self.from.compare_exchange(from, next, Ordering::Relaxed, Ordering::Relaxed).is_ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;

    /// Of a value that is fresh for 100 s and took 1 s to load.
    fn ahead(policy: RefreshAhead) -> Ahead {
        let ahead = Ahead::new(Some(policy), Duration::from_secs(100), Duration::from_secs(1));
        ahead.set_end(100 * SECOND);
        ahead
    }

    fn begins(ahead: &Ahead, at: u64, fraction: f32) -> bool {
        ahead.begins(at * SECOND, (100 - at) * SECOND, (at + 5) * SECOND, || fraction)
    }

    #[test]
    fn part_of_time_to_live_decides_alone() {
        let ahead = ahead(RefreshAhead::After(0.75));
        assert!(ahead.is_ever() && !begins(&ahead, 74, 0.999));
        assert!(begins(&ahead, 75, 0.0));
        assert!(!begins(&ahead, 79, 0.0), "the pause after the load that was begun");
        assert!(begins(&ahead, 80, 0.0));
    }

    #[test]
    fn chance_grows_with_cost_and_nearness_of_the_end() {
        // −ln(1 − 0.95) is 3.0: the last three durations of a load.
        for (factor, first) in [(1.0, 98), (2.0, 95), (10.0, 71)] {
            let due = ahead(RefreshAhead::ByCost(factor));
            assert_eq!((0..100).find(|at| begins(&due, *at, 0.0)), None, "{factor}");
            assert_eq!((0..100).find(|at| begins(&due, *at, 0.95)), Some(first), "{factor}");
        }
    }

    #[test]
    fn no_draw_is_made_where_none_can_begin_a_load() {
        let ahead = ahead(RefreshAhead::ByCost(1.0));
        let drawn = |at| {
            let mut drawn = false;
            ahead.begins(at * SECOND, (100 - at) * SECOND, (at + 1) * SECOND, || {
                drawn = true;
                0.0
            });
            drawn
        };
        assert_eq!((drawn(83), drawn(84)), (false, true));
    }

    #[test]
    fn numbers_out_of_range_begin_nothing_or_count_as_the_nearest() {
        for never in [
            RefreshAhead::Never,
            RefreshAhead::ByCost(0.0),
            RefreshAhead::ByCost(-1.0),
            RefreshAhead::ByCost(f32::NAN),
        ] {
            assert!(!ahead(never).is_ever(), "{never:?}");
        }
        assert!(
            !ahead(RefreshAhead::After(2.0)).is_ever() && !ahead(RefreshAhead::After(f32::NAN)).is_ever()
        );
        assert!(begins(&ahead(RefreshAhead::After(-1.0)), 0, 0.0));
        assert!(begins(&ahead(RefreshAhead::ByCost(f32::INFINITY)), 0, 0.5));
    }

    #[test]
    fn restarted_time_to_live_moves_the_begin() {
        let ahead = ahead(RefreshAhead::After(0.5));
        ahead.set_end(150 * SECOND);
        assert!(!begins(&ahead, 99, 0.0) && begins(&ahead, 100, 0.0));
    }
}

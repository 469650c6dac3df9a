//! How long what a piece of code has read stays fresh, for whoever keeps what the code makes of it.
//!
//! A cache of values notes how much longer each value is fresh that it returns. A cache of what is made from values, such as
//! responses, observes a part of its handler's run and learns the shortest of these times. Neither has to know the other.
//!
//! Observations are those of one thread. Code that awaits may run on several: observe each poll of its future. What a task
//! that it spawns reads is not observed.
//!
//! # Examples
//! ```
//! use larder_engine::freshness;
//! use std::time::Duration;
//!
//! let page = || {
//!     freshness::note(|| Duration::from_secs(60));
//!     freshness::note(|| Duration::from_secs(7));
//!     "page"
//! };
//! assert_eq!(freshness::observe(page), ("page", Some(Duration::from_secs(7))));
//! assert_eq!(freshness::observe(|| "constant"), ("constant", None));
//! ```

use std::cell::Cell;
use std::time::Duration;

thread_local! {
    /// Whether the thread is in an observation. Apart from what is noted, because a hit of a cache reads this alone.
    static IS_OBSERVED: Cell<bool> = const { Cell::new(false) };
    /// The shortest time that the observation has noted.
    static SHORTEST: Cell<Option<Duration>> = const { Cell::new(None) };
}

/// Notes that the running code has received a value, and how much longer the value is fresh: zero if it is stale. The
/// shortest of several notes counts. `fresh_for` is called only within an observation.
///
/// Cost without an observation: one load of a word of the thread.
#[inline]
pub fn note(fresh_for: impl FnOnce() -> Duration) {
    if IS_OBSERVED.get() {
        let fresh_for = fresh_for();
        SHORTEST.set(Some(SHORTEST.get().map_or(fresh_for, |shortest| shortest.min(fresh_for))));
    }
}

/// Runs `code`, and returns with its result how much longer all is fresh that it has noted; `None` if it has noted nothing.
///
/// An observation within `code` notes for this one too. If `code` panics, its notes are lost.
pub fn observe<R>(code: impl FnOnce() -> R) -> (R, Option<Duration>) {
    let outer = Outer { is_observed: IS_OBSERVED.replace(true), shortest: SHORTEST.replace(None) };
    let result = code();
    let fresh_for = SHORTEST.get();
    drop(outer);
    if let Some(fresh_for) = fresh_for {
        note(|| fresh_for);
    }
    (result, fresh_for)
}

/// Restores the outer observation, also after a panic.
struct Outer {
    is_observed: bool,
    shortest: Option<Duration>,
}

impl Drop for Outer {
    fn drop(&mut self) {
        IS_OBSERVED.set(self.is_observed);
        SHORTEST.set(self.shortest);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::panic::{AssertUnwindSafe, catch_unwind};

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn note_without_an_observation_is_not_computed() {
        note(|| panic!("computed"));
        assert_eq!(observe(|| ()).1, None);
    }

    #[test]
    fn inner_observation_notes_for_the_outer_one() {
        let (inner, outer) = observe(|| {
            note(|| SECOND * 5);
            let inner = observe(|| note(|| SECOND * 3)).1;
            assert_eq!(observe(|| note(|| SECOND * 9)).1, Some(SECOND * 9));
            inner
        });
        assert_eq!((inner, outer), (Some(SECOND * 3), Some(SECOND * 3)));
    }

    #[test]
    fn panic_ends_its_observation() {
        let (_, fresh_for) = observe(|| {
            let inner = || observe(|| note(|| panic!("while it is observed")));
            assert!(catch_unwind(AssertUnwindSafe(inner)).is_err());
            note(|| SECOND);
        });
        assert_eq!(fresh_for, Some(SECOND));
        note(|| panic!("no observation is left"));
    }
}

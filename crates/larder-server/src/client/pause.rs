//! `CLIENT PAUSE`: commands of all connections wait until a time, or until `CLIENT UNPAUSE`.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crate::system::Moment;

/// The pause of a server.
#[derive(Debug)]
pub(crate) struct Pause {
    started: Moment,
    /// The end in milliseconds after `started`, times two, plus one if all commands wait; 0 without a pause.
    state: AtomicU64,
}

/// Which commands wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Paused {
    /// Commands that may change keys, and those that send messages.
    Writes,
    /// All but `CLIENT`, which can end the pause.
    All,
}

impl Pause {
    pub(crate) fn new() -> Self {
        Pause { started: Moment::now(), state: AtomicU64::new(0) }
    }

    /// Pauses from `now` for a time. When pauses overlap, the later end and the stricter kind win.
    pub(crate) fn begin(&self, now: Moment, time: Duration, paused: Paused) {
        let end = (now + time).ms_since(self.started);
        let joined = |state| {
            let (before, before_end) = self.parts(state, now).unzip();
            let is_all = paused == Paused::All || before == Some(Paused::All);
            let end = before_end.map_or(end, |before| end.max(before));
            Some(end << 1 | u64::from(is_all))
        };
        // In one step: another thread may begin or end a pause meanwhile.
        _ = self.state.fetch_update(Ordering::SeqCst, Ordering::SeqCst, joined);
    }

    pub(crate) fn end(&self) {
        self.state.store(0, Ordering::SeqCst);
    }

    /// Which commands wait now; `None` without a pause.
    #[inline]
    pub(crate) fn current(&self, now: Moment) -> Option<Paused> {
        if self.state.load(Ordering::Relaxed) == 0 {
            return None;
        }
        self.parts(self.state.load(Ordering::SeqCst), now).map(|(paused, _)| paused)
    }

    /// The time that is left.
    pub(crate) fn left(&self, now: Moment) -> Option<Duration> {
        let (_, end) = self.parts(self.state.load(Ordering::SeqCst), now)?;
        Some(Duration::from_millis(end).saturating_sub(now.since(self.started)))
    }

    /// Which commands wait in this state, and until when, in milliseconds after `started`.
    fn parts(&self, state: u64, now: Moment) -> Option<(Paused, u64)> {
        let (end, is_all) = (state >> 1, state & 1 == 1);
        let is_over = now.ms_since(self.started) >= end;
        (!is_over).then_some((if is_all { Paused::All } else { Paused::Writes }, end))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn later_end_and_stricter_kind_count() {
        let (pause, ms) = (Pause::new(), Duration::from_millis);
        let now = pause.started;
        assert_eq!(pause.current(now), None);
        pause.begin(now, ms(100), Paused::All);
        pause.begin(now, ms(50), Paused::Writes);
        assert_eq!((pause.current(now + ms(99)), pause.current(now + ms(100))), (Some(Paused::All), None));
        assert_eq!(pause.left(now + ms(30)), Some(ms(70)));
        pause.begin(now + ms(100), ms(50), Paused::Writes);
        assert_eq!(pause.current(now + ms(149)), Some(Paused::Writes));
        pause.end();
        assert_eq!(pause.current(now + ms(120)), None);
    }
}

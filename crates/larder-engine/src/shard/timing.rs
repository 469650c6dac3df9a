//! When the entries of a shard expire: a deadline for each slot, its last use, and the wheel that finds what is due.

use crate::layout::slots::Moves;
use crate::time::expiry::Wheel;
use crate::time::timestamps::{NEVER, Timestamps};

/// The expiry of the entries of a shard.
#[derive(Debug)]
pub(super) struct Timing {
    /// The end of the time to live.
    pub(super) deadlines: Timestamps,
    /// The time of the last read or write, and the time to idle.
    idle: Option<(Timestamps, u64)>,
    pub(super) wheel: Wheel,
    /// The slot that has left the wheel because its entry was to be removed. The entry stays if a listener panics.
    pub(super) leaving: Option<u32>,
}

impl Timing {
    pub(super) fn new(slots: u32, tti_ms: Option<u64>, now: u64) -> Self {
        Timing {
            deadlines: Timestamps::new(slots, now),
            idle: tti_ms.map(|tti| (Timestamps::new(slots, now), tti)),
            wheel: Wheel::new(slots, now),
            leaving: None,
        }
    }

    /// The same times in a larger table, with an empty wheel.
    pub(super) fn moved(&self, moves: &Moves, now: u64) -> Self {
        Timing {
            deadlines: self.deadlines.moved(moves, now),
            idle: self
                .idle
                .as_ref()
                .map(|(used_at, tti)| (used_at.moved(moves, now.saturating_sub(*tti)), *tti)),
            wheel: Wheel::new(moves.slots(), now),
            leaving: None,
        }
    }

    pub(super) fn bytes_allocated(&self) -> usize {
        let idle = self.idle.as_ref().map_or(0, |(used_at, _)| used_at.bytes_allocated());
        size_of_val(self) + self.deadlines.bytes_allocated() + idle + self.wheel.bytes_allocated()
    }

    pub(super) fn due(&self, id: u32) -> u64 {
        due(&self.deadlines, &self.idle, id)
    }

    /// Records a use. A thread reads the clock before it locks, so a use may be older than the last one.
    pub(super) fn touch(&mut self, id: u32, now: u64) {
        if let Some((used_at, _)) = &mut self.idle {
            let last = used_at.get(id);
            if last == NEVER || last < now {
                used_at.set(id, now);
            }
        }
    }

    /// Forgets the entry that leaves a slot.
    pub(super) fn forget(&mut self, id: u32) {
        self.wheel.unregister(id);
        if self.leaving == Some(id) {
            self.leaving = None;
        }
        self.deadlines.set(id, NEVER);
        if let Some((used_at, _)) = &mut self.idle {
            used_at.set(id, NEVER);
        }
    }

    /// Takes the next slot that may be due out of the wheel, to be removed at once or registered again.
    pub(super) fn next_leaving(&mut self, now: u64) -> Option<u32> {
        if let Some(stayed) = self.leaving.take() {
            self.register(stayed);
        }
        self.leaving = self.wheel.next(now);
        self.leaving
    }

    /// The next slot whose time is over, as far as the wheel has found them.
    pub(super) fn next_expired(&mut self, now: u64) -> Option<u32> {
        loop {
            let id = self.wheel.next(now)?;
            // Its entry may stay, so it is registered again.
            self.register(id);
            if self.due(id) <= now {
                return Some(id);
            }
        }
    }

    /// The slot whose time is over next, of those that are over at `now`, and those with a deadline that are `allowed`; not
    /// `keep`.
    pub(super) fn nearest(
        &mut self,
        now: u64,
        keep: Option<u32>,
        allowed: impl Fn(u32) -> bool,
    ) -> Option<u32> {
        let (deadlines, idle) = (&self.deadlines, &self.idle);
        self.wheel.nearest(|id| {
            let due = due(deadlines, idle, id);
            let is_candidate = due <= now || deadlines.get(id) < NEVER && allowed(id);
            (Some(id) != keep && is_candidate).then_some(due)
        })
    }

    pub(super) fn register(&mut self, id: u32) {
        self.wheel.register(id, self.due(id));
    }
}

#[inline]
fn due(deadlines: &Timestamps, idle: &Option<(Timestamps, u64)>, id: u32) -> u64 {
    let deadline = deadlines.get(id);
    idle.as_ref().map_or(deadline, |(used_at, tti)| deadline.min(used_at.get(id).saturating_add(*tti)))
}

//! The visits of links with a limit, counted exactly on this instance.
//!
//! ```text
//! first visit ──► visits in the database + visits in memory ──► used ──► + 1 for each redirect, until the limit
//!                                                                ▲
//! after each write: the visits in the database, with those of other instances ──┘
//! ```
//!
//! An entry is dropped by the write after its visits, so none is older than one interval: with several instances a link
//! exceeds its limit by at most what the others redirected within that time.

use std::collections::HashMap;

/// The state of one link with a limit.
#[derive(Debug, Default)]
struct Entry {
    /// Its visits, those in memory included.
    used: u64,
    /// Those of them that are in memory.
    in_memory: u64,
    /// Those of them that are being written.
    in_flight: u64,
    /// Whether it was requested since the last write began.
    is_requested: bool,
    is_exhausted: bool,
}

/// The links with a limit that were requested since the last write.
#[derive(Debug, Default)]
pub(super) struct Limited {
    entries: HashMap<u64, Entry>,
}

impl Limited {
    /// Whether a link may redirect once more, which then counts if `visit` is set; `None` if its visits are not known here.
    pub(super) fn admit(&mut self, link_id: u64, max: u64, visit: bool) -> Option<bool> {
        let entry = self.entries.get_mut(&link_id)?;
        entry.is_requested = true;
        entry.is_exhausted = entry.used >= max;
        if visit && !entry.is_exhausted {
            entry.used += 1;
            entry.in_memory += 1;
        }
        Some(!entry.is_exhausted)
    }

    pub(super) fn insert(&mut self, link_id: u64, used: u64) {
        self.entries.insert(link_id, Entry { used, ..Entry::default() });
    }

    pub(super) fn remove(&mut self, link_id: u64) {
        self.entries.remove(&link_id);
    }

    pub(super) fn len(&self) -> usize {
        self.entries.len()
    }

    /// The visits in memory are now being written.
    pub(super) fn begin_write(&mut self) {
        for entry in self.entries.values_mut() {
            entry.in_flight = std::mem::take(&mut entry.in_memory);
            entry.is_requested = false;
        }
    }

    /// Visits were written, or dropped because their link no longer exists.
    pub(super) fn settle(&mut self, link_id: u64, visits: u64) {
        if let Some(entry) = self.entries.get_mut(&link_id) {
            entry.in_flight = entry.in_flight.saturating_sub(visits);
        }
    }

    /// The database has `total` visits of a link after a write.
    pub(super) fn update(&mut self, link_id: u64, total: u64) {
        if let Some(entry) = self.entries.get_mut(&link_id) {
            entry.used = entry.used.max(total + entry.in_flight + entry.in_memory);
        }
    }

    /// The write is over. What could not be written is in memory again.
    pub(super) fn end_write(&mut self) {
        self.entries.retain(|_, entry| {
            entry.in_memory += std::mem::take(&mut entry.in_flight);
            // Visits only grow, so an exhausted link needs no look at the database as long as it is requested.
            entry.in_memory > 0 || (entry.is_exhausted && entry.is_requested)
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn visits_of_other_instances_count_after_a_write() {
        let mut limited = Limited::default();
        assert_eq!(limited.admit(1, 5, true), None);
        limited.insert(1, 2);
        assert_eq!(limited.admit(1, 5, true), Some(true));
        limited.begin_write();
        // During the write.
        assert_eq!(limited.admit(1, 5, true), Some(true));
        limited.settle(1, 1);
        // Two before, one of ours, one of another instance; and ours in memory.
        limited.update(1, 4);
        assert_eq!(limited.admit(1, 5, true), Some(false));
        limited.end_write();
        assert_eq!(limited.len(), 1);
    }

    #[test]
    fn entry_without_visits_in_memory_is_dropped_unless_it_is_exhausted_and_requested() {
        let mut limited = Limited::default();
        for (link_id, used) in [(1, 0), (2, 5)] {
            limited.insert(link_id, used);
            limited.admit(link_id, 5, false);
        }
        limited.begin_write();
        limited.admit(2, 5, true);
        limited.end_write();
        assert_eq!((limited.admit(1, 5, false), limited.admit(2, 5, false)), (None, Some(false)));
        limited.begin_write();
        limited.end_write();
        assert_eq!(limited.len(), 0);
    }

    #[test]
    fn visits_of_a_link_that_is_gone_do_not_stay() {
        let mut limited = Limited::default();
        limited.insert(1, 0);
        limited.admit(1, 5, true);
        limited.begin_write();
        limited.settle(1, 1);
        limited.end_write();
        assert_eq!(limited.len(), 0);
    }
}

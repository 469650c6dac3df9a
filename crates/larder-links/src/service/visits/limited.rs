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

use crate::store::{LinkTotal, TotalsOf, VisitKey};
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

    /// Of which links a write must return the visits in the database.
    pub(super) fn totals(&self) -> TotalsOf {
        if self.entries.is_empty() {
            TotalsOf::None
        } else {
            TotalsOf::Links(self.entries.keys().copied().collect())
        }
    }

    /// Visits were written, or dropped because their link no longer exists. `totals` is what the database has after that.
    pub(super) fn settle(&mut self, visits: &[(VisitKey, u64)], totals: &[LinkTotal]) {
        // Most services have no link with a limit, and redirects wait for this.
        if self.entries.is_empty() {
            return;
        }
        for (key, count) in visits {
            if let Some(entry) = self.entries.get_mut(&key.link_id) {
                entry.in_flight = entry.in_flight.saturating_sub(*count);
            }
        }
        for total in totals {
            if let Some(entry) = self.entries.get_mut(&total.link_id) {
                entry.used = entry.used.max(total.visits + entry.in_flight + entry.in_memory);
            }
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

    /// A write of one visit of link 1, after which the database has `total`.
    fn settle(limited: &mut Limited, total: Option<u64>) {
        let total = total.map(|visits| LinkTotal { link_id: 1, slug: "a".into(), visits });
        limited.settle(&[(VisitKey { link_id: 1, quarter: 0 }, 1)], total.as_slice());
    }

    #[test]
    fn totals_are_requested_of_limited_links_alone() {
        let mut limited = Limited::default();
        assert_eq!(limited.totals(), TotalsOf::None);
        limited.insert(7, 0);
        assert_eq!(limited.totals(), TotalsOf::Links([7].into()));
    }

    #[test]
    fn visits_of_other_instances_count_after_a_write() {
        let mut limited = Limited::default();
        assert_eq!(limited.admit(1, 5, true), None);
        limited.insert(1, 2);
        assert_eq!(limited.admit(1, 5, true), Some(true));
        limited.begin_write();
        // During the write.
        assert_eq!(limited.admit(1, 5, true), Some(true));
        // Two before, one of ours, one of another instance; and ours in memory.
        settle(&mut limited, Some(4));
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
        settle(&mut limited, None);
        limited.end_write();
        assert_eq!(limited.len(), 0);
    }
}

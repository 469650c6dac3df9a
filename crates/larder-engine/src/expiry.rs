//! Which entries of a shard are due, in the order of their deadlines.
//!
//! An entry is registered under a moment at which it *may* be due; whoever pops it looks at its deadline, and
//! registers it again if that has moved on. So a hit that pushes an idle deadline does not touch this structure.

use std::collections::BTreeSet;

/// No deadline.
pub(crate) const NEVER: u64 = u64::MAX;

#[derive(Debug, Default)]
pub(crate) struct Expiry(BTreeSet<(u64, u32)>);

impl Expiry {
    pub(crate) fn register(&mut self, at_ms: u64, id: u32) {
        if at_ms != NEVER {
            self.0.insert((at_ms, id));
        }
    }

    pub(crate) fn unregister(&mut self, at_ms: u64, id: u32) {
        self.0.remove(&(at_ms, id));
    }

    /// Takes out the earliest entry that may be due.
    pub(crate) fn pop_due(&mut self, now_ms: u64) -> Option<u32> {
        let &(at_ms, id) = self.0.first()?;
        if at_ms > now_ms {
            return None;
        }
        self.0.pop_first();
        Some(id)
    }

    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    pub(crate) fn contains(&self, at_ms: u64, id: u32) -> bool {
        self.0.contains(&(at_ms, id))
    }
}

//! Entries that leave at the front, because a stream has too many or they are too old.

use super::{Id, Stream};

/// How a stream is made shorter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Trim {
    pub(crate) keep: Keep,
    /// Whether all other entries are removed. If not, those that share a chunk with an entry to keep stay.
    pub(crate) is_exact: bool,
    /// The most entries that are removed.
    pub(crate) most: Option<usize>,
}

/// Which entries stay.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Keep {
    /// The last ones, so many.
    Last(usize),
    /// Those from this id on.
    From(Id),
}

impl Stream {
    /// Removes entries at the front. Returns how many.
    pub(crate) fn trim(&mut self, trim: &Trim) -> usize {
        let mut removed = 0;
        while let Some(first) = self.chunks.front() {
            let entries = first.len();
            if trim.most.is_some_and(|most| removed + entries > most) {
                break;
            }
            let excess = match trim.keep {
                Keep::Last(most) => entries.min(self.len.saturating_sub(most)),
                // Only the first one, if none has to leave.
                Keep::From(id) => first.walk().take_while(|stored| stored.entry.id < id).count(),
            };
            if excess == 0 || excess < entries && !trim.is_exact {
                break;
            }
            let end = first.walk().nth(excess - 1).map_or(0, |stored| stored.place.end);
            self.cut(0, 0, end, excess);
            removed += excess;
            if excess < entries {
                break;
            }
        }
        removed
    }
}

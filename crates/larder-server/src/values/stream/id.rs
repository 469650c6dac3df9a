//! The ids of entries.

use std::fmt;

/// The id of an entry: a time in milliseconds, and a number that tells apart entries of one time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Id {
    pub(crate) ms: u64,
    pub(crate) seq: u64,
}

impl Id {
    /// No entry has it.
    pub(crate) const MIN: Id = Id { ms: 0, seq: 0 };
    pub(crate) const MAX: Id = Id { ms: u64::MAX, seq: u64::MAX };

    /// The id that follows, if there is one.
    pub(crate) fn next(self) -> Option<Id> {
        match self.seq.checked_add(1) {
            Some(seq) => Some(Id { seq, ..self }),
            None => Some(Id { ms: self.ms.checked_add(1)?, seq: 0 }),
        }
    }

    /// The id before it, if there is one.
    pub(crate) fn previous(self) -> Option<Id> {
        match self.seq.checked_sub(1) {
            Some(seq) => Some(Id { seq, ..self }),
            None => Some(Id { ms: self.ms.checked_sub(1)?, seq: u64::MAX }),
        }
    }
}

impl fmt::Display for Id {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.ms, self.seq)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neighbours_cross_milliseconds() {
        let id = |ms, seq| Id { ms, seq };
        for (before, after) in
            [(id(0, 0), id(0, 1)), (id(3, u64::MAX), id(4, 0)), (id(u64::MAX, 7), id(u64::MAX, 8))]
        {
            assert_eq!((before.next(), after.previous()), (Some(after), Some(before)));
        }
        assert_eq!((Id::MAX.next(), Id::MIN.previous()), (None, None));
    }
}

//! What the commands that combine sorted sets read: sorted sets, and sets, whose members have the score 1.

use crate::cmd::CommandError;
use crate::db::{Key, LockedKeys};
use crate::values::set::Set;
use crate::values::sorted_set::SortedSet;

/// The score of a member of a set.
const SCORE: f64 = 1.0;

/// A sorted set or a set.
pub(super) enum Source<'a> {
    SortedSet(&'a SortedSet),
    Set(&'a Set),
}

impl Source<'_> {
    /// Calls `f` with the value of a key, if there is one.
    pub(super) fn read<R>(
        locked: &mut LockedKeys<'_>,
        key: Key<'_>,
        f: impl FnOnce(Source<'_>) -> R,
    ) -> Result<Option<R>, CommandError> {
        if locked.set_members(key, |_| ()).is_ok_and(|found| found.is_some()) {
            return Ok(locked.set_members(key, |set| f(Source::Set(set)))?);
        }
        Ok(locked.sorted_set(key, |set| f(Source::SortedSet(set)))?)
    }

    pub(super) fn len(&self) -> usize {
        match self {
            Source::SortedSet(set) => set.len(),
            Source::Set(set) => set.len(),
        }
    }

    pub(super) fn score(&self, name: &[u8]) -> Option<f64> {
        match self {
            Source::SortedSet(set) => set.score(name),
            Source::Set(set) => set.contains(name).then_some(SCORE),
        }
    }

    /// Calls `f` with all members.
    pub(super) fn visit(&self, mut f: impl FnMut(&[u8], f64)) {
        match self {
            Source::SortedSet(set) => set.visit(0..set.len(), false, |name, score| {
                f(name, score);
                true
            }),
            Source::Set(set) => set.visit(|name| f(name, SCORE)),
        }
    }
}

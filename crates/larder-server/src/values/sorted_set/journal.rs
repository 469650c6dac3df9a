//! The changes of a sorted set, so that they can be undone without a copy of the set.

use super::SortedSet;

/// What was changed since the start, in this order.
#[derive(Clone, Debug)]
pub(crate) struct Journal {
    changes: Vec<Change>,
    was_packed: bool,
    bytes: usize,
}

/// A member that was added, moved or removed.
#[derive(Clone, Debug)]
struct Change {
    name: Box<[u8]>,
    /// Its score before; `None` if it was no member.
    former: Option<f64>,
}

impl Journal {
    pub(super) fn record(&mut self, name: &[u8], former: Option<f64>) {
        self.bytes += size_of::<Change>() + name.len();
        self.changes.push(Change { name: name.into(), former });
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.changes.is_empty()
    }

    /// The memory that it needs, about.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }
}

impl SortedSet {
    /// Records the changes from now on.
    pub(crate) fn start_journal(&mut self) {
        let journal = Journal { changes: Vec::new(), was_packed: self.is_packed, bytes: 0 };
        self.journal = Some(Box::new(journal));
    }

    /// Ends the recording. Returns what was recorded, if it was started.
    pub(crate) fn take_journal(&mut self) -> Option<Box<Journal>> {
        self.journal.take()
    }

    /// Undoes changes, which must be the last ones.
    pub(crate) fn undo(&mut self, journal: &Journal) {
        for change in journal.changes.iter().rev() {
            match change.former {
                Some(score) => _ = self.insert(&change.name, score),
                None => _ = self.remove(&change.name),
            }
        }
        self.is_packed = journal.was_packed;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn content(set: &SortedSet) -> Vec<(Vec<u8>, f64)> {
        let mut members = Vec::new();
        set.visit(0..set.len(), false, |name, score| {
            members.push((name.to_vec(), score));
            true
        });
        members
    }

    #[test]
    fn undo_restores_members_scores_and_form() {
        let mut set = SortedSet::new();
        for (name, score) in [("a", 1.0), ("b", 2.0), ("c", 3.0), ("d", -0.0)] {
            set.insert(name.as_bytes(), score);
        }
        let before = content(&set);
        set.start_journal();
        set.insert(b"a", 10.0);
        set.insert(b"a", 11.0);
        set.insert(b"d", 0.0);
        set.remove(b"b");
        set.insert(b"b", 7.0);
        set.remove_range(0..2);
        (0..200).for_each(|index| _ = set.insert(format!("new {index}").as_bytes(), 0.5));
        set.remove_range(0..set.len());
        let journal = set.take_journal().expect("it was started");
        assert!(!set.is_packed() && set.is_empty() && journal.bytes() > 200 * 5);
        set.undo(&journal);
        assert_eq!(content(&set), before);
        assert!(set.score(b"d").is_some_and(f64::is_sign_negative) && set.is_packed());
    }

    #[test]
    fn nothing_is_recorded_without_a_start() {
        let mut set = SortedSet::new();
        set.insert(b"a", 1.0);
        assert!(set.take_journal().is_none());
        set.start_journal();
        set.remove(b"missing");
        assert!(set.take_journal().is_some_and(|journal| journal.is_empty()));
    }
}

//! The changes of a hash, so that they can be undone without a copy of the hash.

use super::packed::Packed;
use super::{Field, Form, Hash};

/// What was changed since the start, in this order.
#[derive(Clone, Debug)]
pub(crate) struct Journal {
    changes: Vec<Change>,
    was_packed: bool,
    bytes: usize,
}

/// A field that was added, changed or removed.
#[derive(Clone, Debug)]
struct Change {
    name: Box<[u8]>,
    /// Its value and its deadline before; `None` if there was no such field.
    former: Option<(Box<[u8]>, Option<i64>)>,
}

impl Journal {
    pub(super) fn record(&mut self, name: &[u8], former: Option<Field<'_>>) {
        self.bytes += size_of::<Change>() + name.len() + former.map_or(0, |field| field.value.len());
        let former = former.map(|field| (field.value.into(), field.deadline));
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

impl Hash {
    /// Records the changes from now on.
    pub(crate) fn start_journal(&mut self) {
        let journal = Journal { changes: Vec::new(), was_packed: self.is_packed(), bytes: 0 };
        self.extra_mut().journal = Some(Box::new(journal));
    }

    /// Ends the recording. Returns what was recorded, if it was started.
    pub(crate) fn take_journal(&mut self) -> Option<Box<Journal>> {
        let journal = self.extra.as_mut()?.journal.take();
        self.drop_unused_extra();
        journal
    }

    /// Undoes changes, which must be the last ones.
    pub(crate) fn undo(&mut self, journal: &Journal) {
        for change in journal.changes.iter().rev() {
            match &change.former {
                Some((value, deadline)) => {
                    self.insert(Field { name: &change.name, value, deadline: *deadline });
                }
                None => _ = self.remove(&change.name),
            }
        }
        // What has fitted into the buffer fits again.
        if journal.was_packed
            && let Form::Indexed(indexed) = &self.form
        {
            let mut packed = Packed::default();
            indexed.visit(|field| _ = packed.insert(field));
            self.form = Form::Packed(packed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::values::hash::tests::content;

    #[test]
    fn undo_restores_fields_deadlines_and_form() {
        let mut hash = Hash::new();
        for (name, deadline) in [("a", None), ("b", Some(5)), ("c", None), ("d", Some(7))] {
            hash.insert(Field { name: name.as_bytes(), value: b"1", deadline });
        }
        let before = content(&hash);
        hash.start_journal();
        for field in [("a", "2", None), ("a", "3", Some(9)), ("b", "1", None), ("e", "1", Some(1))] {
            hash.insert(Field { name: field.0.as_bytes(), value: field.1.as_bytes(), deadline: field.2 });
        }
        assert!(hash.remove(b"c") && hash.remove(b"e") && !hash.remove(b"nothing"));
        for number in 0..600 {
            hash.insert(Field { name: format!("new {number}").as_bytes(), value: b"x", deadline: None });
        }
        let journal = hash.take_journal().expect("it was started");
        assert!(!hash.is_packed() && journal.bytes() > 600 * 5);
        hash.undo(&journal);
        assert_eq!((content(&hash), hash.is_packed()), (before, true));
    }

    #[test]
    fn nothing_is_recorded_without_a_start() {
        let mut hash = Hash::new();
        hash.insert(Field { name: b"a", value: b"1", deadline: None });
        assert!(hash.take_journal().is_none());
        hash.start_journal();
        assert!(!hash.remove(b"missing"));
        assert!(hash.take_journal().is_some_and(|journal| journal.is_empty()));
    }
}
